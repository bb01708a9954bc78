/* exec_internal.h: the executor's data, shared by its files. */
#ifndef LS_EXEC_INTERNAL_H
#define LS_EXEC_INTERNAL_H

#include "base/pool.h"
#include "lockstep/exec.h"

#include <stdatomic.h>

enum { N_LOCKS = 256 };

/* A plan bound to the addresses of every thread. */
struct bound_plan {
    struct ls_plan *plan;
    int64_t **op_ns;         /* [thread][op] time spent while profiling, or NULL */
    struct ls_bound **bound; /* [thread][op] */
};

/* One thread's memory. */
struct arena {
    char *data;
    size_t bytes;
    int64_t busy_ns; /* in the present step */
    char pad[64];    /* away from the next thread's counters */
};

struct ls_exec {
    const struct ls_backend *backend;
    struct ls_device *device;
    struct ls_store *store;
    struct ls_pool *pool;
    int n_threads;
    struct arena *arenas; /* [n_threads] */
    size_t arena_bytes;
    struct bound_plan *plans;
    int n_plans;
    bool is_profiling;
    /* Guards the parts of sums while a shard adds to them. */
    struct {
        atomic_int taken;
        char pad[60];
    } locks[N_LOCKS];
};

/* bind.c */
enum ls_status ls__exec_bind(struct ls_exec *e, struct bound_plan *bp) LS_MUST_CHECK;
void ls__exec_unbind(struct ls_exec *e, struct bound_plan *bp);
void ls__exec_free_plan(struct ls_exec *e, struct bound_plan *bp);
const struct bound_plan *ls__exec_find(const struct ls_exec *e, int64_t mb, bool is_training);

/* shard.c */
struct shard_run {
    struct ls_exec *e;
    const struct ls_exec_step *step;
    bool is_training;
    int n_shards;
};
ls_pool_fn ls__exec_run_shard;
/* Where the first value that is not finite appears, as an LS_NONFINITE message. */
enum ls_status ls__exec_diagnose(struct ls_exec *e, const struct ls_exec_step *step, int n_shards) LS_MUST_CHECK;

/* update.c */
enum ls_status ls__exec_pre(struct ls_exec *e, const struct bound_plan *bp) LS_MUST_CHECK;
enum ls_status ls__exec_join(struct ls_exec *e, const struct bound_plan *bp,
                             const struct ls_step_ctx *ctx) LS_MUST_CHECK;
enum ls_status ls__exec_post(struct ls_exec *e, const struct bound_plan *bp,
                             const struct ls_step_ctx *ctx) LS_MUST_CHECK;
enum ls_status ls__exec_grad_norm(struct ls_exec *e, const struct ls_plan *plan, double *norm) LS_MUST_CHECK;

#endif
