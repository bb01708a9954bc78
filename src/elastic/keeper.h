/* keeper.h: one of several servers (--servers K), not the chief: a process that has a range of the parameters and of
 * the optimizer's state, adds the sums that the chief counts, and updates. It joins the chief as a worker does
 * (worker.h) and waits for it while it is away. The chief has the rest: work, leases, the run directory, evaluation.
 */
#ifndef LS_ELASTIC_KEEPER_H
#define LS_ELASTIC_KEEPER_H

#include "elastic/worker.h"

/* o->listen: where workers find it; o->key: the servers' key file. As ls__worker_run. */
enum ls_status ls__keeper_run(const struct ls_worker_options *o, bool *is_told) LS_MUST_CHECK;

#endif
