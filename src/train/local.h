/* local.h: local SGD (--sync local:H): every shard trains a model of its own for H steps, then all are averaged.
 *
 * For networks too slow to meet at every step. It is another algorithm than synchronous training and gives other
 * weights and often another accuracy; but a replica belongs to a shard, not to a worker, and averages are formed in
 * fixed point, so the result depends on H and the number of shards, never on who computed it.
 *
 *     each step          replica i: forward, backward and update on shard i alone
 *     every H steps and at the end of an epoch: parameters, buffers and optimizer state become their average over all
 *                        replicas
 *
 * When anything is averaged depends on H and the length of an epoch alone. What is evaluated and saved is the session's
 * store; in between it gets the average of the moment (ls__local_view), and the replicas go on as they were. A
 * checkpoint then holds them too (carry.h).
 */
#ifndef LS_TRAIN_LOCAL_H
#define LS_TRAIN_LOCAL_H

#include "session/session.h"
#include "session/state.h"

struct local;

/* The session's options make the replicas' plans; it must be open. */
enum ls_status ls__local_open(struct local **out, struct session *s, const struct session_options *o,
                              int64_t period) LS_MUST_CHECK;
void ls__local_close(struct local **local);
/* Every replica takes over the session's store: at the start and after a resume, as far as no copies of their own are
 * at hand. */
enum ls_status ls__local_start(struct local *local, const struct train_state *st,
                               int64_t steps_per_epoch) LS_MUST_CHECK;
/* As ls_exec_want, told at the next average. */
void ls__local_want(struct local *local, bool stop, bool save);
/* One step of all replicas. Collective only when it averages: step.step + 1 is a multiple of
 * H, or must_meet. *stats then covers all steps since the last time; otherwise it is empty (n is 0). */
enum ls_status ls__local_step(struct local *local, const struct ls_exec_step *step, bool must_meet,
                              struct ls_exec_stats *stats) LS_MUST_CHECK;
/* Whether all replicas equal the session's store. The same on all ranks. */
bool ls__local_is_averaged(const struct local *local);
/* The session's store becomes the average of now; the replicas stay. Collective. *pending: the steps since the last
 * average, all ranks together. */
enum ls_status ls__local_view(struct local *local, struct tally *pending) LS_MUST_CHECK;
/* This rank's: of the shards [*first, *first + *n). */
struct session *ls__local_replicas(struct local *local, int *first, int *n);

#endif
