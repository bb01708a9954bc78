/* exec_internal.h: the executor's data, shared by its files.
 *
 * Two lifetimes. struct ls_exec lives as long as its run. struct step lives on the stack of one ls_exec_train,
 * ls_exec_backward, ls_exec_evaluate or ls_exec_rehearse, and nothing of a step is kept anywhere else.
 *
 * A step goes through the files in this order:
 *
 *     step.c     begin: which plan, which shards; and the way through the phases
 *     pre.c      PRE: copies of parameters in the layouts that backward wants
 *     shard.c    SHARDS: each on one thread, start to end
 *     join.c     JOIN: gradients of large layers, once over all shards
 *     post.c     POST: the norm of the gradient, the updates
 *     result.c   the end: loss, count, what other ranks want and how they fared
 *
 * While a device computes, the host has it fetch the bytes of the next step (fetch.c).
 *
 * apart.c has the same phases for shards that somebody hands out, and for sums that came from others.
 * On a device that records launches, a step of one shard goes through whole.c instead of pre.c to post.c; its end may
 * be heard of later, with that of others (ahead.c).
 *
 * How ranks and machines take part is in one table (struct together), of which an executor has one entry.
 */
#ifndef LS_EXEC_INTERNAL_H
#define LS_EXEC_INTERNAL_H

#include "base/pool.h"
#include "comm/comm.h"
#include "exec/exec.h"
#include "trace/trace.h"

#include <stdatomic.h>

enum { N_LOCKS = 256, MAX_N_SHARDS = 4096, MAX_KEPT = 4 };

/* Sums that are complete before the end of a device's last shard; early.c. Buckets from 1 on, with the first of which
 * the stats travel. */
struct early {
    int *reduce; /* [n_ops] of a REDUCE: the op behind which it is launched; others, and REDUCE in its own place: -1 */
    int *ready;  /* [n_buckets] the op behind which all of a bucket's REDUCE ops have been launched */
    int n_buckets; /* those below are ready early; 0: none is */
};

/* A plan bound to the addresses of every thread. */
struct bound_plan {
    struct ls_plan *plan;
    int first_op;            /* its ops count from here among those of all plans of the executor: in spans */
    struct ls_bound **bound; /* [thread][op] */
    int *post_order;         /* [n_post] ops of POST, in the order in which their sums arrive */
    /* [n_ops] JOIN: the POST op that can be applied while the sums are made; POST: the JOIN op that can do so; or -1 */
    int *at_once;
    bool has_at_once;
    struct early early;
};

/* What one thread has. Written by that thread alone while a round runs. */
struct worker {
    char *arena;  /* in the device's memory */
    size_t bytes; /* of the arena */
    struct ls_lane *lane;
    int64_t n_samples; /* of training; its thread's, read between rounds */
};

/* Where a sum lies in the block, and with which others it travels. */
struct sum_place {
    int64_t begin, end;
    int bucket;
    bool is_placed;
};

/* All sums, and the control words after them. sums.c has a drawing. */
struct sum_block {
    int64_t *block;  /* in the device's memory */
    int64_t *travel; /* the same for the host: the block itself, or a copy while it goes to others or comes from them */
    int64_t n, control; /* elements; where the control words begin */
    struct sum_place *places;
    int n_places; /* [entries of the store] */
    struct ls_comm_bucket *buckets;
    int *per_shard, *per_step; /* contributions to a bucket */
    int n_buckets;
};

/* Coarse rounding of gradients and what it left over; compress.c. */
struct compress {
    int bits;                    /* 0: off */
    float *remainders;           /* [shards of the machine][per_shard], in the device's memory */
    int64_t per_shard, *offsets; /* floats; [entries of the store] where a sum's remainders begin; -1: it has none */
    int n_shards, n_all;         /* of the machine; of a full batch */
    size_t bytes;                /* of the remainders */
};

/* Whose shards; share.c. All machines derive the same from the same step results. */
struct balance {
    bool is_on;                    /* shares follow measured speed */
    int64_t *weights;              /* [n_machines] shares of the shards */
    int64_t *window_ns, *total_ns; /* [n_machines] in shards: since the last balancing, in all */
    int64_t *total_shards;         /* [n_machines] */
    double *tau;                   /* [n_machines] scratch: a failing allocation here would make machines disagree */
    int window_steps;
    int64_t device_ns; /* devices.c: in this device's shards, in the step before */
};

/* The trial of fewer ranks; active.c. Local rank 0's. */
enum { LS_TRIAL_STEPS = 21 };
struct active {
    double times[LS_TRIAL_STEPS], all; /* seconds of steps; the median with all ranks */
    int64_t last_ns;
    int n_steps, chosen;
    bool is_settled;
};

/* Control words: each machine adds its own, all see the sums. */
enum {
    LS_CONTROL_FAILED,
    LS_CONTROL_STOP,
    LS_CONTROL_SAVE,
    LS_CONTROL_MACHINES = 8 /* then one per machine: ns of its shards */
};

/* What all ranks of a machine learn at the end of a step. Written by local rank 0, read by all after a barrier. */
struct step_result {
    int64_t loss, n_correct;
    int32_t n_active; /* ranks of the machine that compute; 0: all */
    int64_t control[LS_CONTROL_MACHINES];
    int64_t machine_ns[]; /* [n_machines] */
};

/* Launches that are replayed; replay.c. Written by the thread that launches. */
struct record_key {
    const struct ls_plan *plan;
    enum ls_phase phase;
    int first, n, batch_n; /* SHARD: of the shard and its batch */
    uint64_t seed;
    bool is_early; /* SHARD: with REDUCE ops where early.c has them */
};
enum { MAX_RECORDED = 64 };
struct recorded {
    struct record_key key;
    bool is_known;   /* was launched before */
    void *recording; /* the backend's; NULL until the second time */
};
struct replays {
    struct recorded list[MAX_RECORDED];
    int n;
    bool is_refused; /* recording failed once: never again */
};

/* Steps whose end the host has not heard of; ahead.c. Of each what it takes to run it again. */
enum { MAX_AHEAD = 32 }; /* so many shards' losses add up within the fixed-point range */
struct step_ahead {
    struct ls_exec_step ask;
    struct ls_batch batch;
    uint32_t *samples;
    uint16_t *labels;
    int room; /* elements of both */
};
struct ahead {
    struct step_ahead list[MAX_AHEAD];
    int n;
    int64_t n_samples; /* of all n */
};

/* The last shard whose bytes were fetched early; fetch.c. Written between rounds, read by whoever loads. */
struct fetched {
    int64_t number; /* of the fetch, from 1; 0: there was none */
    int64_t epoch, step;
    int first, n; /* samples of the batch */
};

struct together;

struct ls_exec {
    const struct ls_backend *backend;
    struct ls_device *device;
    struct ls_store *store;
    struct ls_pool *pool;
    struct ls_pool *helpers; /* apart.c: the host's, where one thread launches to a device; NULL until there is work */
    struct worker *workers;  /* [n_threads] */
    int n_threads;
    size_t arena_bytes; /* of values and scratch, of the largest plan */
    int64_t samples_mb; /* sample numbers of a shard follow in the arena: room for so many */
    struct bound_plan *plans;
    int n_plans;
    struct ls_trace *trace;     /* whose lanes the workers have; borrowed, or own_trace; NULL: nobody measures */
    struct ls_trace *own_trace; /* when ops are measured and nobody else does */
    bool is_caller_lane;        /* worker 0's lane is the caller's */
    bool is_profiling;
    bool is_update_apart;   /* never apply sums while they are made */
    struct ls_lane *adding; /* the device's: sums beside shards (moments.c); NULL: nobody measures, or there are none */
    struct sum_block sums;
    struct compress compress;
    struct replays replays;
    struct ahead ahead;
    struct fetched fetched;
    struct kept_images {
        void *data; /* in the device's memory */
        size_t bytes;
    } kept[MAX_KEPT]; /* data sets; images.c */
    int n_kept;
    bool stop_wanted, save_wanted; /* what this rank tells at its next step */

    /* the job */
    const struct together *together;
    struct ls_comm *comm;         /* borrowed; NULL: outside any job */
    struct ls_device_group group; /* devices.c */
    int local_rank, n_local, machine, n_machines;
    struct step_result *result; /* the machine's */
    struct balance balance;
    struct active active;
    int n_active;        /* as the last result says */
    unsigned char *mine; /* [MAX_N_SHARDS] whether a shard of the present step is this machine's; NULL: all are */

    /* Guards the parts of sums while a shard adds to them. */
    struct {
        atomic_int taken;
        char pad[60];
    } locks[N_LOCKS];
};

/* One step, or an evaluation of one batch. Threads read it; what they write says so. */
struct step {
    struct ls_exec *e;
    const struct ls_exec_step *ask;
    bool is_training;
    enum ls_span_kind work;             /* what the threads' time in this step is: COMPUTE, EVALUATE, SETUP */
    const struct bound_plan *plan;      /* of the full shards */
    const struct bound_plan *last_plan; /* of a smaller last shard; NULL: there is none */
    int n_shards;                       /* of the batch */
    int first, n_own;                   /* this machine's */
    const struct ls_step_ctx *update;   /* values of updates that may be applied while sums are made; NULL: none may */
    bool is_at_once;                    /* they are */
    bool is_published;                  /* the result is written, and seen after the next barrier */
    int64_t shards_ns;                  /* on the clock: this machine's shards */
    bool is_home;  /* a copy of the sums that travelled is back in the device's memory; devices.c: they are enqueued */
    bool is_timed; /* by the device's clock (moments.c) */
    struct ls_begun adding; /* is_timed: the step in the device's lane; */
    bool is_told;           /* it has ended */
    int n_added;            /* devices.c: buckets whose sums are enqueued */
    bool is_fetching;       /* the next step's bytes are on their way, or need not be */
};

/* --- the ways to work on one step --- */

/* alone.c: one process. ranks.c: processes of one machine, which share store and sums in memory. machines.c: several
 * machines, whose sums travel. devices.c: the same, but the devices add their sums themselves. All entries are
 * required. */
struct together {
    const char *name;
    bool is_awaited; /* an update waits, on the host, for the sums it reads */
    /* Zeroed memory that all ranks of the machine see; it stays the executor's (alone) or the job's. */
    enum ls_status (*share)(struct ls_exec *e, size_t bytes, void **out);
    void (*unshare)(struct ls_exec *e, void *data, size_t bytes);
    /* Every item in [0, n) once, by whichever thread of whichever rank of the machine is free; ends with a barrier. */
    enum ls_status (*run)(struct ls_exec *e, int n_items, ls_pool_fn *fn, void *arg);
    /* All ranks of the machine; a failure of one becomes the failure of all. */
    enum ls_status (*barrier)(struct ls_exec *e, enum ls_status mine);
    void (*lock)(struct ls_exec *e, int which);
    void (*unlock)(struct ls_exec *e, int which);
    /* The sums of a step over all machines: from here on buckets travel as soon as they are complete. */
    enum ls_status (*sum_begin)(struct step *s);
    void (*contribute)(struct ls_exec *e, int bucket);
    /* All shards are launched: where a copy travels, it is made now, and what failed on the device is heard. */
    enum ls_status (*sum_copy)(struct step *s);
    /* No more contributions will come: all are in, or some failed. */
    void (*sum_close)(struct step *s, bool has_failed);
    /* Until the block's elements [0, end) are sums over all machines. Any thread. */
    enum ls_status (*sum_wait)(struct step *s, int64_t end);
    /* All shards are in, no thread updates yet: where the result can be written now, the updates' barrier shows it. */
    enum ls_status (*publish)(struct step *s);
    /* What all learn; *own is there for those that share no memory. */
    enum ls_status (*result)(struct step *s, struct step_result *own, const struct step_result **out);
};
extern const struct together ls__alone, ls__ranks, ls__machines, ls__devices;

/* alone.c, for ranks.c: within a machine no sum travels */
void ls__alone_contribute(struct ls_exec *e, int bucket);
void ls__alone_sum_close(struct step *s, bool has_failed);
enum ls_status ls__alone_sum_copy(struct step *s) LS_MUST_CHECK;
enum ls_status ls__alone_sum_wait(struct step *s, int64_t end) LS_MUST_CHECK;

/* devices.c: whether the devices can add their sums themselves; collective */
enum ls_status ls__devices_join(struct ls_exec *e, bool *has_joined) LS_MUST_CHECK;
void ls__devices_leave(struct ls_exec *e);
/* What ls_device_sums.bucket says; 0: these devices add all at once, or do not add. */
int64_t ls__devices_bucket(const struct ls_exec *e);

/* ranks.c, for machines.c and devices.c */
enum ls_status ls__ranks_share(struct ls_exec *e, size_t bytes, void **out) LS_MUST_CHECK;
void ls__ranks_unshare(struct ls_exec *e, void *data, size_t bytes);
enum ls_status ls__ranks_run(struct ls_exec *e, int n_items, ls_pool_fn *fn, void *arg) LS_MUST_CHECK;
enum ls_status ls__ranks_barrier(struct ls_exec *e, enum ls_status mine) LS_MUST_CHECK;
void ls__ranks_lock(struct ls_exec *e, int which);
void ls__ranks_unlock(struct ls_exec *e, int which);

/* --- the phases --- */

/* pre.c */
enum ls_status ls__exec_pre(struct step *s, const struct bound_plan *bp) LS_MUST_CHECK;
/* Only the copies that updates bring along, where they are stale. */
enum ls_status ls__exec_pre_followed(struct step *s, const struct bound_plan *bp) LS_MUST_CHECK;
/* Parameters were updated, and with them the copies of this plan that follow. */
void ls__exec_note_update(struct ls_exec *e, const struct bound_plan *bp);

/* early.c: where a plan's REDUCE ops and buckets are early; after its sums have their places */
enum ls_status ls__early_find(const struct ls_exec *e, struct bound_plan *bp) LS_MUST_CHECK;
void ls__early_free(struct early *early);
/* Whether the sums of this shard are the last of its device, and some of them are early. */
bool ls__early_is(const struct step *s, const struct bound_plan *bp, int shard);
/* Of a bucket from 1 on, as devices add it: with the first the stats. */
struct ls_sum_range ls__early_range(const struct ls_exec *e, int bucket);

/* shard.c: items are this machine's shards; arg is the step */
ls_pool_fn ls__exec_run_shard;
struct shard_cut {
    int first, n; /* samples of the batch */
};
struct shard_cut ls__shard_cut(const struct ls_exec_step *ask, int shard);
struct ls_step_ctx ls__shard_context(const struct ls_exec_step *ask, struct shard_cut c);
const struct bound_plan *ls__shard_plan(const struct step *s, struct shard_cut c);
static inline size_t ls__samples_offset(const struct ls_exec *e)
{
    return (e->arena_bytes + 63) / 64 * 64;
}
enum ls_status ls__shard_load(const struct step *s, const struct bound_plan *bp, struct shard_cut c,
                              int thread) LS_MUST_CHECK;
struct ls_load ls__shard_load_of(const struct step *s, const struct bound_plan *bp, struct shard_cut c, int thread);

/* fetch.c: called by whoever is about to wait for the device, any number of times: the first counts. */
void ls__fetch_next(struct step *s);
/* The number of the fetch that brought this shard; 0: none did. */
int64_t ls__fetch_number(const struct step *s, struct shard_cut c);

/* replay.c: what fn launches, launched by it or replayed; fn gets arg and launches the same for the same key */
typedef enum ls_status launch_fn(void *arg);
enum ls_status ls__exec_launch(struct ls_exec *e, const struct record_key *key, launch_fn *fn, void *arg,
                               bool *is_replayed) LS_MUST_CHECK;
bool ls__exec_can_record(const struct ls_exec *e);
/* Before the launches of a step: what they read when they are replayed. Also of a step that launches plainly: the
 * device tells by it which one failed (ahead.c). */
enum ls_status ls__exec_now(struct ls_exec *e, const struct ls_step_ctx *ctx) LS_MUST_CHECK;
void ls__exec_forget_recordings(struct ls_exec *e); /* addresses change */

/* whole.c: a step that is one recording */
bool ls__exec_is_whole(const struct step *s);
enum ls_status ls__exec_run_whole(struct step *s, bool *is_replayed) LS_MUST_CHECK;

/* ahead.c */
bool ls__ahead_may(const struct step *s); /* whether this one, replayed as a whole, need not be concluded now */
enum ls_status ls__ahead_note(const struct step *s) LS_MUST_CHECK;
void ls__ahead_forget(struct ls_exec *e);
void ls__ahead_free(struct ls_exec *e);
/* After a failure: the step itself, or the one ahead of the host that failed. */
struct step ls__ahead_failed(const struct step *s);

/* images.c */
void ls__images_free(struct ls_exec *e);

/* diagnose.c: where the first value that is not finite appears in this machine's shards, as an LS_NONFINITE message */
enum ls_status ls__exec_diagnose(const struct step *s) LS_MUST_CHECK;

/* parts.c: ops over stored values, large ones in parts, spread over the threads */
struct parts {
    struct step *s;
    enum ls_phase phase; /* LS_JOIN, LS_POST */
    struct ls_step_ctx ctx;
};
enum ls_status ls__exec_run_parts(const struct parts *parts) LS_MUST_CHECK;

/* join.c, post.c */
enum ls_status ls__exec_join(struct step *s) LS_MUST_CHECK;
enum ls_status ls__exec_post(struct step *s, struct ls_step_ctx ctx, struct ls_exec_stats *stats) LS_MUST_CHECK;

/* result.c */
/* Takes loss and count out of the sums. */
enum ls_status ls__result_take(struct step *s, struct step_result *result) LS_MUST_CHECK;
/* The same, and the control words: local rank 0's, when all ranks of the machine have met since they touched them. */
enum ls_status ls__result_take_all(struct step *s, struct step_result *result) LS_MUST_CHECK;
/* This rank's wishes join its machine's. */
void ls__result_wish(struct step *s);
/* After the work of a step, done or failed: all machines have met, everybody knows loss and outcome. */
enum ls_status ls__exec_conclude(struct step *s, enum ls_status status, struct ls_exec_stats *stats) LS_MUST_CHECK;

/* --- what the phases use --- */

/* moments.c: what a device did while the host waited for it */
struct waited {
    int64_t compute_ns, communicate_ns, update_ns;
};
/* Of a wait of `wait_ns` that ended when the device did: moments [LS_N_MOMENTS] in ns after the first. */
struct waited ls__moments_split(int64_t wait_ns, const int64_t *moments);
/* Nothing unless is_timed; a clock that fails ends that, and no step: others may be waiting for its sums. */
void ls__moments_mark(struct step *s, enum ls_moment moment);
/* The span that waited for the device ends, in parts if is_timed and the wait was well: status is what it returned. */
enum ls_status ls__moments_end(struct step *s, struct ls_begun begun, enum ls_status status) LS_MUST_CHECK;

/* measure.c */
void ls__exec_give_lanes_back(struct ls_exec *e);
/* While ops are measured: also those of a plan that came later. */
enum ls_status ls__exec_measure_ops(struct ls_exec *e) LS_MUST_CHECK;

/* bind.c */
enum ls_status ls__exec_bind(struct ls_exec *e, struct bound_plan *bp) LS_MUST_CHECK;
void ls__exec_unbind(struct ls_exec *e, struct bound_plan *bp);
void ls__exec_free_plan(struct ls_exec *e, struct bound_plan *bp);
const struct bound_plan *ls__exec_find(const struct ls_exec *e, int64_t mb, bool is_training);

/* memory.c: the only file that touches store, sums and arenas other than through kernels. The device's memory may not
 * be readable by the host. */
enum ls_status ls__memory_alloc(struct ls_exec *e, size_t bytes, void **out) LS_MUST_CHECK; /* zeroed */
void ls__memory_free(struct ls_exec *e, void *data, size_t bytes);
enum ls_status ls__memory_read(struct ls_exec *e, const void *data, size_t bytes, void *host) LS_MUST_CHECK;
enum ls_status ls__memory_write(struct ls_exec *e, void *data, size_t bytes, const void *host) LS_MUST_CHECK;
enum ls_status ls__memory_zero(struct ls_exec *e, void *data, size_t bytes) LS_MUST_CHECK;
/* Bytes the host can read until the next ls__memory_release_view: the data itself, or a copy. */
enum ls_status ls__memory_view(struct ls_exec *e, const void *data, size_t bytes, const void **view) LS_MUST_CHECK;
void ls__memory_release_view(struct ls_exec *e, const void *data, size_t bytes, const void *view);
/* Between a layout, in the device's memory, and plain floats of the host; s has name and shape. */
enum ls_status ls__memory_to_plain(struct ls_exec *e, const struct ls_stored *s, const struct ls_layout *layout,
                                   const void *data, float *out) LS_MUST_CHECK;
enum ls_status ls__memory_from_plain(struct ls_exec *e, const struct ls_stored *s, const struct ls_layout *layout,
                                     const float *in, void *data) LS_MUST_CHECK;
/* The first n samples' logits of what a thread has just evaluated, out [n,n_classes]. Any thread, its own. */
enum ls_status ls__memory_logits(struct ls_exec *e, const struct ls_plan *p, int thread, int n,
                                 float *out) LS_MUST_CHECK;
/* Launches may only have been enqueued: waits for them, and fails if one of them did. */
enum ls_status ls__memory_settle(struct ls_exec *e) LS_MUST_CHECK;

/* sums.c */
enum ls_status ls__sums_place(struct ls_exec *e, const struct ls_plan *p) LS_MUST_CHECK;
void ls__sums_free(struct ls_exec *e);
/* Where the sums that an op reads end, in the block; 0: it reads none. */
int64_t ls__sums_end(const struct ls_exec *e, const struct ls_plan *p, const struct ls_plan_op *op);
/* All sums but the control words, as they travel. */
enum ls_status ls__sums_to_host(struct ls_exec *e) LS_MUST_CHECK;
/* Where a copy travels: a range of it goes to the device, and is zero then. */
enum ls_status ls__sums_take_up(struct ls_exec *e, struct ls_sum_range range) LS_MUST_CHECK;
int64_t *ls__sums_control(const struct ls_exec *e);

/* share.c */
enum ls_status ls__share_open(struct ls_exec *e, bool is_balanced) LS_MUST_CHECK;
void ls__share_close(struct ls_exec *e);
/* The first shard of a machine among n_shards. */
int ls__share_first(const struct ls_exec *e, int n_shards, int machine);
/* Fills first, n_own and, over several machines, e->mine. */
void ls__share_shards(struct step *s);
void ls__share_note(struct step *s, const struct step_result *result);

/* compress.c */
enum ls_status ls__compress_begin(struct ls_exec *e, const struct ls_plan *p) LS_MUST_CHECK;
void ls__compress_gradient(struct ls_exec *e, const struct ls_plan *p, const struct ls_plan_op *op,
                           const struct ls_bound *b, int shard);
/* Where the device rounds (ls_impl.launch_coarse): the remainders of the op's gradient; NULL: it is not rounded. */
float *ls__compress_by_device(const struct ls_exec *e, const struct ls_plan *p, const struct ls_plan_op *op, int shard);
void ls__compress_release(struct ls_exec *e);
/* Adds the remainder to g, rounds g to multiples of a power of two in `bits` bits, keeps what that took away. */
void ls__compress_part(float *g, float *remainder, int64_t n, int bits);

/* active.c */
int ls__active_next(struct ls_exec *e);

/* step.c, for rehearse.c, result.c and apart.c */
struct step ls__step_of(struct ls_exec *e, const struct ls_exec_step *ask, bool is_training);
/* The plans of its shards, and parameters in the layouts they want. */
enum ls_status ls__step_find_plans(struct step *s) LS_MUST_CHECK;
enum ls_status ls__step_prepare(struct step *s) LS_MUST_CHECK;
void ls__step_note(const struct step *s, const char *what);
/* LS_NONFINITE in training: which op made the first bad value. Local rank 0 looks, all of the machine hear it. */
enum ls_status ls__step_diagnose(struct step *s, enum ls_status status) LS_MUST_CHECK;

#endif
