/* exec.h: runs plans: a training step over the shards of a batch, or an evaluation.
 *
 *     pre ops            parameters brought into the layouts the shards want (only after they changed)
 *     shards             each by one thread from start to end; what leaves a shard is added to the store in fixed point
 *     reduce over comm   (one process: nothing to do)
 *     post ops           updates, element by element, spread over the threads
 *
 * The result of a step depends on the batch, the store and the context; not on the number of threads nor on which
 * thread computed which shard, because integer addition is exact and every other value has one writer.
 */
#ifndef LS_EXEC_H
#define LS_EXEC_H

#include "base/status.h"
#include "comm/comm.h"
#include "data/data.h"
#include "plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ls_exec;
struct ls_trace;
struct ls_lane;

/* The threads are started here; n_threads >= 1. backend, device and store are borrowed. */
enum ls_status ls_exec_create(struct ls_exec **out, const struct ls_backend *backend, struct ls_device *device,
                              struct ls_store *store, int n_threads) LS_MUST_CHECK;
void ls_exec_destroy(struct ls_exec **exec);
int ls_exec_n_threads(const struct ls_exec *exec);
size_t ls_exec_arena_bytes(const struct ls_exec *exec); /* of one thread */

/* Makes the executor part of a job (comm.h), before its first plan: the ranks of a machine then share the store and the
 * shards of the machine; sums go over all machines. From here on every call that trains, evaluates or initialises is
 * made by all ranks. is_balanced: slower machines get fewer shards. */
enum ls_status ls_exec_join_job(struct ls_exec *exec, struct ls_comm *comm, bool is_balanced) LS_MUST_CHECK;
/* Whether the devices of the job add their sums themselves; else they travel by the job's own means. */
bool ls_exec_adds_by_devices(const struct ls_exec *exec);

/* Rounds every gradient to `bits` bits (8 or 16) before it is summed, with the remainder added at the next step; 0:
 * off. Before ls_exec_join_job: a machine keeps its shards, and sums of devices go through the host, where they are
 * packed. Fewer bits travel between machines. The weights differ from those without, but not by the number of workers.
 */
void ls_exec_compress(struct ls_exec *exec, int bits, int n_shards);
/* Drops the remainders, on every rank after the same step: at the end of an epoch. */
enum ls_status ls_exec_forget_remainders(struct ls_exec *exec) LS_MUST_CHECK;

/* Takes over *plan and binds it for every thread; the store gets memory for what the plan needs. Later calls find the
 * plan by (shard size, training or not). Call for all sizes before the first step. */
enum ls_status ls_exec_add_plan(struct ls_exec *exec, struct ls_plan **plan) LS_MUST_CHECK;
const struct ls_plan *ls_exec_plan(const struct ls_exec *exec, int64_t mb, bool is_training); /* NULL if absent */

/* A copy of a data set's bytes in the memory of a device that takes it (ls_backend.can_keep_images), for loaders and
 * their batches; *kept NULL: there is none, it is too large, or reading it all would take long. After all plans. */
enum ls_status ls_exec_keep_images(struct ls_exec *exec, const struct ls_dataset *ds,
                                   const uint8_t **kept) LS_MUST_CHECK;

/* What a batch needs besides its samples. */
struct ls_sum_range {
    int64_t begin, end; /* elements of the block (ls_exec_sums); end 0: all of it */
};
struct ls_exec_step {
    const struct ls_batch *batch;
    const struct ls_transform *transform;
    int64_t shard_size; /* samples per shard; the last shard takes the rest */
    uint64_t seed;
    int64_t step; /* global, from 0 */
    double lr, clip_norm;
    /* (optional) Called in a training step when the gradient is whole and not applied yet, on every rank that has it:
     * ls_exec_get_gradient may be used. All ranks give it or none does. */
    void (*look)(void *arg);
    void *look_arg;
    /* (optional) Where the device fetches bytes early: the batch of the next training step, asked for once, while this
     * one is computed. What fails here will fail again when the step wants it. */
    enum ls_status (*next)(void *arg, struct ls_batch *batch);
    void *next_arg;
    bool may_run_ahead;       /* (optional) ls_exec_train need not wait for its end: see there */
    struct ls_sum_range sums; /* (optional) ls_exec_apply: only the updates by these; not with clip_norm or look */
    float *logits; /* (optional) ls_exec_evaluate: [batch.n,n_classes], of the shards that this process computed */
};

struct ls_exec_stats {
    double loss_sum; /* over the samples of the batch */
    int64_t n_correct, n;
    double grad_norm;              /* training with clip_norm only, else 0 */
    bool stop_wanted, save_wanted; /* in a job: some rank's ls_exec_want */
    bool is_undone;                /* nothing happened: the step was given up because somebody wants to stop */
};

/* What this rank would like after its next step, told to all ranks in ls_exec_stats. */
void ls_exec_want(struct ls_exec *exec, bool stop, bool save);
/* Mean seconds a machine took per shard, all its threads together; 0 in a job of one machine. */
double ls_exec_machine_shard_seconds(const struct ls_exec *exec, int machine);

/* One training step. LS_NONFINITE: the message says where the first bad value appeared; nothing was updated (over
 * several machines: not everywhere, and the store is worthless). With may_run_ahead *stats may be empty (n is 0), on a
 * device that goes on computing alone: loss, count and failure are then told by a later step, for all of them. */
enum ls_status ls_exec_train(struct ls_exec *exec, const struct ls_exec_step *step,
                             struct ls_exec_stats *stats) LS_MUST_CHECK;
/* After steps with may_run_ahead: all that they add to what the last *stats had (none: it is empty). Before anything
 * but the next step. */
enum ls_status ls_exec_catch_up(struct ls_exec *exec, struct ls_exec_stats *stats) LS_MUST_CHECK;
/* Forward only. The last shard may be padded: plans of one size suffice. */
enum ls_status ls_exec_evaluate(struct ls_exec *exec, const struct ls_exec_step *step,
                                struct ls_exec_stats *stats) LS_MUST_CHECK;

/* The logits [mb,n_classes] of the last ls_exec_evaluate with shards of mb samples, as plain floats. Only the executor
 * with one thread keeps them (that of the last shard); LS_UNSUPPORTED otherwise. */
enum ls_status ls_exec_logits(struct ls_exec *exec, int64_t mb, float *out) LS_MUST_CHECK;

/* Where its time goes, from now on: spans of its threads in lanes of the trace (trace/trace.h), those of the thread
 * that calls it in `caller`. caller NULL: other threads in turn call it (replicas), and it has a lane for them. Both
 * outlive the executor. */
enum ls_status ls_exec_measure(struct ls_exec *exec, struct ls_trace *trace, struct ls_lane *caller) LS_MUST_CHECK;
/* In shards, copies and updates of training so far, all threads together; 0 unless it is measured. */
double ls_exec_busy_seconds(const struct ls_exec *exec);
/* Samples that this rank has computed in training steps so far. Between steps. */
int64_t ls_exec_samples(const struct ls_exec *exec);
/* Measures the CPU time of every op from now on (two clock reads per op), or stops and forgets. */
enum ls_status ls_exec_profile(struct ls_exec *exec, bool on) LS_MUST_CHECK;
/* Measures no ops until it is let go, and keeps what it has measured. Between steps; costs nothing. */
void ls_exec_hold_profile(struct ls_exec *exec, bool is_held);
/* Seconds spent in op `index` of a plan since profiling began, summed over threads. 0 for a plan not of this executor.
 */
double ls_exec_op_seconds(const struct ls_exec *exec, const struct ls_plan *plan, int index);

/* --- for predictions --- */

/* The sums as they travel between machines, in buckets. */
int ls_exec_n_buckets(const struct ls_exec *exec);
const int64_t *ls_exec_bucket(const struct ls_exec *exec, int bucket, int64_t *n);
/* The bucket of the sums that an op makes, or that an update reads; of several the last; -1 if there are none. */
int ls_exec_op_bucket(const struct ls_exec *exec, const struct ls_plan *plan, int op);

/* A step without sums over the machines and without update, with at most one shard per thread of the machine. */
struct ls_exec_rehearsal {
    int n_own, n_run;                                /* shards of this machine, and of these computed */
    double pre_seconds, shard_seconds, join_seconds; /* on the clock; all n_own shards are joined */
};
/* All ranks of the machine together. Other sums than those of a step are left behind, until ls_exec_end_rehearsal. */
enum ls_status ls_exec_rehearse(struct ls_exec *exec, const struct ls_exec_step *step,
                                struct ls_exec_rehearsal *rehearsal) LS_MUST_CHECK;
/* Zeroes what a rehearsal (or ls_exec_backward) left; also after one that failed. */
enum ls_status ls_exec_end_rehearsal(struct ls_exec *exec) LS_MUST_CHECK;

/* --- stored values as plain tensors --- */

/* Fills parameters, buffers and state as their init says; parameters keyed by (seed, their number). */
enum ls_status ls_exec_init_store(struct ls_exec *exec, uint64_t seed) LS_MUST_CHECK;
/* After ls_exec_set on the machine `root`: all machines get its parameters, buffers and state. */
enum ls_status ls_exec_sync_store(struct ls_exec *exec, int root) LS_MUST_CHECK;
/* A stored float32 value to or from plain order. out/in have ls_shape_count(shape) floats. */
enum ls_status ls_exec_get(struct ls_exec *exec, int entry, float *out) LS_MUST_CHECK;
enum ls_status ls_exec_set(struct ls_exec *exec, int entry, const float *in) LS_MUST_CHECK;
/* A sum (i64 fixed point) as plain floats: the gradient, for tests; call between backward and update only. */
enum ls_status ls_exec_get_gradient(struct ls_exec *exec, int entry, float *out) LS_MUST_CHECK;

/* The remainders of ls_exec_compress, after all plans are added: those of the shards [*first, *first + *n) lie in the
 * memory of this machine. Collective over its ranks. None without compression. */
enum ls_status ls_exec_open_remainders(struct ls_exec *exec, int *first, int *n) LS_MUST_CHECK;
/* Whether a sum has remainders; one of them to or from plain order, between two steps. */
bool ls_exec_has_remainder(const struct ls_exec *exec, int entry);
enum ls_status ls_exec_get_remainder(struct ls_exec *exec, int entry, int shard, float *out) LS_MUST_CHECK;
enum ls_status ls_exec_set_remainder(struct ls_exec *exec, int entry, int shard, const float *in) LS_MUST_CHECK;

/* On: the gradients of large linear layers are summed first and applied afterwards, as in a job of several machines;
 * off (the default): applied while they are summed, where that is possible. The same bits. */
void ls_exec_update_apart(struct ls_exec *exec, bool on);

/* --- shards that somebody hands out, sums that travel by other hands (elastic/) --- */

/* Of an executor that is alone. compute, then send the block and zero it; or add the blocks of others and apply.
 * Together they do what ls_exec_train does, with the same bits, however the shards are spread over executors. On a
 * device with memory of its own (ls_exec_is_far) there are two blocks: compute adds to the device's, from where sums
 * are moved; others' sums are added to the host's, and apply takes them up.
 */

/* Where shards come from, and who reads their samples. */
struct ls_shard_source {
    int (*next)(void *arg);                       /* -1: no more. Every thread asks until it hears that; it may wait */
    enum ls_status (*read)(void *arg, int shard); /* (optional) before the thread that got it computes it */
    /* (optional: always) Whether `next` would ask others for more: a device that only enqueues is waited for then. */
    bool (*is_asking)(void *arg);
    void *arg;
};
/* Computes shards as they come; their sums are added to the block, nothing is updated. After LS_NONFINITE, whose
 * message says where the first bad value appeared, and any other failure, the sums are zero. */
enum ls_status ls_exec_compute(struct ls_exec *exec, const struct ls_exec_step *step,
                               const struct ls_shard_source *source) LS_MUST_CHECK;
/* All sums of a step, in the host's memory: integers, to be added to those of others. */
int64_t *ls_exec_sums(const struct ls_exec *exec, int64_t *n);
/* Of a device with memory of its own: the sums of a range leave it for `out`, and are zero there. */
enum ls_status ls_exec_move_sums(struct ls_exec *exec, struct ls_sum_range range, void *out) LS_MUST_CHECK;
/* Updates the store by what is in the block, and zeroes it. Of step->batch only n and epoch are read. */
enum ls_status ls_exec_apply(struct ls_exec *exec, const struct ls_exec_step *step,
                             struct ls_exec_stats *stats) LS_MUST_CHECK;
/* Several servers have a range of the block each. The last place at or before element `at` where it may be cut: an
 * update gives the same bits in two pieces as in one. */
int64_t ls_exec_sums_cut(const struct ls_exec *exec, int64_t at);
/* Elements [begin, begin + n) of a stored value, floats. */
struct ls_stored_part {
    int entry;
    int64_t begin, n;
};
/* What the updates by a range of sums change: parameters, running statistics, the optimizer's state. The caller frees
 * *parts. After the first plan of a training. */
enum ls_status ls_exec_updated(const struct ls_exec *exec, struct ls_sum_range sums, struct ls_stored_part **parts,
                               int *n) LS_MUST_CHECK;
/* Parts as they lie, one after the other, and back; of a device with memory of its own by one thread at a time. */
enum ls_status ls_exec_get_parts(struct ls_exec *exec, const struct ls_stored_part *parts, int n,
                                 void *out) LS_MUST_CHECK;
enum ls_status ls_exec_set_parts(struct ls_exec *exec, const struct ls_stored_part *parts, int n,
                                 const void *in) LS_MUST_CHECK;
/* Somebody wrote parameters into the store. */
void ls_exec_note_change(struct ls_exec *exec);
/* Whether its device has memory of its own: stored values cannot be read where they lie. */
bool ls_exec_is_far(const struct ls_exec *exec);
/* Items on the executor's threads, between its own steps (base/pool.h). */
enum ls_status ls_exec_run(struct ls_exec *exec, int n_items, enum ls_status (*fn)(void *arg, int item, int thread),
                           void *arg) LS_MUST_CHECK;

/* Like ls_exec_train up to the reduction: the sums stay in the store, nothing is updated. For tests. */
enum ls_status ls_exec_backward(struct ls_exec *exec, const struct ls_exec_step *step,
                                struct ls_exec_stats *stats) LS_MUST_CHECK;
enum ls_status ls_exec_zero_sums(struct ls_exec *exec) LS_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
