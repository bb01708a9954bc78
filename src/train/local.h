/* local.h: local SGD (--sync local:H): every shard trains a model of its own for H steps, then all are averaged.
 *
 * For networks too slow to meet at every step. It is another algorithm than synchronous training and gives other
 * weights and often another accuracy; but a replica belongs to a shard, not to a worker, and averages are formed in
 * fixed point, so the result depends on H and the number of shards, never on who computed it.
 *
 *     each step          replica i: forward, backward and update on shard i alone
 *     every H steps, at the end of an epoch and of the run, and when a checkpoint is due: parameters, buffers and
 * optimizer state become their average over all replicas, which also is the session's store: what is evaluated and
 * saved
 */
#ifndef LS_TRAIN_LOCAL_H
#define LS_TRAIN_LOCAL_H

#include "train/session.h"

struct local;

/* 0 unless sync is "local:H". */
int64_t local_period(const char *sync);

/* The session's options make the replicas' plans; it must be open. */
enum ls_status local_open(struct local **out, struct session *s, const struct session_options *o,
                          int64_t period) LS_MUST_CHECK;
void local_close(struct local **local);
/* Every replica takes over the session's store: at the start and after a resume. */
enum ls_status local_start(struct local *local) LS_MUST_CHECK;
/* As ls_exec_want, told at the next average. */
void local_want(struct local *local, bool stop, bool save);
/* One step of all replicas. Collective only when it averages: step.step + 1 is a multiple of
 * H, or must_meet. *stats then covers all steps since the last time; otherwise it is empty (n is 0). */
enum ls_status local_step(struct local *local, const struct ls_exec_step *step, bool must_meet,
                          struct ls_exec_stats *stats) LS_MUST_CHECK;

#endif
