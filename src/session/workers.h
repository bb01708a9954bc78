/* workers.h: a training as part of a job: agreement at the start, cores, the state of a resumed run, totals at the end.
 *
 * Rank 0 is the chief: it alone reads checkpoints and writes the run directory. All ranks run the same loop over the
 * same state.
 */
#ifndef LS_TRAIN_WORKERS_H
#define LS_TRAIN_WORKERS_H

#include "comm/comm.h"
#include "lockstep/result.h"
#include "session/state.h"

/* Threads of this rank when nothing else is asked: the machine's cores over its ranks. Also binds the process to its
 * share of the cores, unless the launcher has given the ranks different ones already. */
enum ls_status ls__workers_share_cores(struct ls_comm *comm, int64_t wanted, int *threads) LS_MUST_CHECK;

/* Whether this rank could open model, data and device as all others did. status: its own outcome so far. */
enum ls_status ls__workers_agree_inputs(struct ls_comm *comm, enum ls_status status,
                                        const struct session *s) LS_MUST_CHECK;
/* Whether all ranks are about to do the same, to the last option and kernel. */
enum ls_status ls__workers_agree_run(struct ls_comm *comm, const struct ls_train_options *o,
                                     const struct session *s) LS_MUST_CHECK;
/* Spreads the outcome of the rank `root`, and what it loaded: position and weights. */
enum ls_status ls__workers_take_state(struct ls_comm *comm, int root, enum ls_status status, struct session *s,
                                      struct train_state *st, int64_t *saved_step) LS_MUST_CHECK;
/* At the end: the same weights everywhere, and what all ranks used together in the `seconds` of this sitting. */
enum ls_status ls__workers_total(struct ls_comm *comm, double seconds, struct ls_result *r) LS_MUST_CHECK;
/* The machine whose shards took longest, if it is worth a word. */
void ls__workers_name_slowest(struct ls_comm *comm, const struct ls_exec *exec);

#endif
