/* exec_internal.h: the executor's data, shared by its files. */
#ifndef LS_EXEC_INTERNAL_H
#define LS_EXEC_INTERNAL_H

#include "base/pool.h"
#include "lockstep/comm.h"
#include "lockstep/exec.h"

#include <stdatomic.h>

enum { N_LOCKS = 256 };

/* A plan bound to the addresses of every thread. */
struct bound_plan {
    struct ls_plan *plan;
    int64_t **op_ns;         /* [thread][op] time spent while profiling, or NULL */
    struct ls_bound **bound; /* [thread][op] */
    int *post_order;         /* [n_post] ops of POST, in the order in which their sums arrive */
    /* [n_ops] JOIN: the POST op that can be applied while the sums are made; POST: the JOIN op that can do so; or -1 */
    int *at_once;
    bool has_at_once;
};

/* One thread's memory. */
struct arena {
    char *data;
    size_t bytes;
    int64_t busy_ns; /* in the present step */
    char pad[64];    /* away from the next thread's counters */
};

/* Where a sum lies in the block, and with which others it travels. */
struct sum_place {
    int64_t begin, end;
    int bucket;
    bool is_placed;
};

/* All sums, and the control words after them. sums.c has a drawing. */
struct sum_block {
    int64_t *block;
    int64_t n, control; /* elements; where the control words begin */
    size_t own_bytes;   /* to free, 0 if the memory is the job's */
    struct sum_place *places;
    int n_places; /* [entries of the store] */
    struct ls_comm_bucket *buckets;
    int *per_shard, *per_step; /* contributions to a bucket */
    int n_buckets;
};

/* Coarse rounding of gradients and what it left over; compress.c. */
struct compress {
    int bits;                    /* 0: off */
    float *remainders;           /* [shards of the node][per_shard] */
    int64_t per_shard, *offsets; /* floats; [entries of the store] where a sum's remainders begin */
    int n_shards, n_all;         /* of the node; of a full batch */
    size_t own_bytes;
};

/* Control words: each node adds its own, all see the sums. */
enum {
    LS_CONTROL_FAILED,
    LS_CONTROL_STOP,
    LS_CONTROL_SAVE,
    LS_CONTROL_NODES = 8 /* then one per node: ns of its shards */
};

/* The trial of fewer ranks; active.c. The leader's. */
enum { LS_TRIAL_STEPS = 21 };
struct active {
    double times[LS_TRIAL_STEPS], all; /* seconds of steps; the median with all ranks */
    int64_t last_ns;
    int n_steps, chosen;
    bool is_settled;
};

/* What the leader of a node tells its team at the end of a step. */
struct step_news {
    int64_t loss, n_correct;
    int32_t n_active; /* ranks of the node that compute; 0: all */
    int64_t control[LS_CONTROL_NODES];
    int64_t node_ns[]; /* [n_nodes] */
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
    bool is_update_apart; /* never apply sums while they are made */
    bool is_at_once;      /* they are in the present step */
    struct ls_comm *comm; /* borrowed; NULL: alone */
    int seat, n_seats, node, n_nodes;
    struct sum_block sums;
    struct compress compress;
    struct active active;
    int n_active;                          /* as the news say */
    bool is_published;                     /* the news of this step are written, and seen after the next meeting */
    struct step_news *news;                /* the node's */
    int64_t own_control[LS_CONTROL_NODES]; /* what this rank adds at the next step */
    int64_t *weights;                      /* [n_nodes] shares of the shards */
    int64_t *window_ns, *total_ns;         /* [n_nodes] in shards: since the last balancing, in all */
    int64_t *total_shards;                 /* [n_nodes] */
    int window_steps;
    unsigned char *mine;           /* [max shards] whether a shard is this node's */
    int first_shard, n_own_shards; /* of the present step */
    int64_t shards_ns, comm_ns;
    bool is_balanced; /* shares follow measured speed */
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
    int first; /* this node's first shard */
};
ls_pool_fn ls__exec_run_shard;
/* Where the first value that is not finite appears, as an LS_NONFINITE message. */
enum ls_status ls__exec_diagnose(struct ls_exec *e, const struct ls_exec_step *step, int first, int end) LS_MUST_CHECK;

/* team.c */
enum ls_status ls__team_run(struct ls_exec *e, int n_items, ls_pool_fn *fn, void *arg) LS_MUST_CHECK;
enum ls_status ls__team_meet(struct ls_exec *e, enum ls_status mine) LS_MUST_CHECK;
void ls__team_lock(struct ls_exec *e, int which);
void ls__team_unlock(struct ls_exec *e, int which);

/* sums.c */
enum ls_status ls__exec_place_sums(struct ls_exec *e, const struct ls_plan *p) LS_MUST_CHECK;
void ls__exec_free_sums(struct ls_exec *e);
enum ls_status ls__exec_sum_begin(struct ls_exec *e, bool is_training, int n_shards) LS_MUST_CHECK;
void ls__exec_contribute(struct ls_exec *e, int entry);
enum ls_status ls__exec_await_sums(struct ls_exec *e, const struct ls_plan *p,
                                   const struct ls_plan_op *op) LS_MUST_CHECK;
int64_t ls__exec_sums_end(const struct ls_exec *e, const struct ls_plan *p, const struct ls_plan_op *op);
int64_t *ls__exec_control(const struct ls_exec *e);

/* compress.c */
enum ls_status ls__compress_begin(struct ls_exec *e, const struct ls_plan *p) LS_MUST_CHECK;
void ls__compress_gradient(struct ls_exec *e, const struct ls_plan *p, const struct ls_plan_op *op,
                           const struct ls_bound *b, int shard);
void ls__compress_release(struct ls_exec *e);

/* active.c */
int ls__active_next(struct ls_exec *e);

/* job.c */
/* The first shard of a node among n_shards. */
int ls__exec_first_shard(const struct ls_exec *e, int n_shards, int node);
void ls__exec_share_shards(struct ls_exec *e, int n_shards);
void ls__exec_fill_control(struct ls_exec *e);
void ls__exec_flush(struct ls_exec *e, bool has_failed);
/* Of one node, when all shards are in: the news may be written before the updates, whose meeting then shows them. */
void ls__exec_publish(struct ls_exec *e, const struct ls_plan *p);
/* Waits for the sums of all nodes, takes loss and count out of them; all ranks learn the same. */
enum ls_status ls__exec_read_news(struct ls_exec *e, const struct ls_plan *p, int n_shards,
                                  struct ls_exec_stats *stats) LS_MUST_CHECK;

/* update.c */
enum ls_status ls__exec_pre(struct ls_exec *e, const struct bound_plan *bp) LS_MUST_CHECK;
/* update: (optional) the update's, whose ops may then be applied to sums as they are made. */
enum ls_status ls__exec_join(struct ls_exec *e, const struct bound_plan *bp, const struct ls_step_ctx *ctx,
                             const struct ls_step_ctx *update) LS_MUST_CHECK;
enum ls_status ls__exec_post(struct ls_exec *e, const struct bound_plan *bp,
                             const struct ls_step_ctx *ctx) LS_MUST_CHECK;
enum ls_status ls__exec_grad_norm(struct ls_exec *e, const struct ls_plan *plan, double *norm) LS_MUST_CHECK;

#endif
