/* bench.h: a session on random images of the size a model asks for, for bench, plan and tune. */
#ifndef LS_TRAIN_BENCH_H
#define LS_TRAIN_BENCH_H

#include "lockstep/measure.h"
#include "session/session.h"

/* table: a tuning table instead of o->tune, borrowed as long as the session is open; or NULL. On failure too *s can be
 * closed. */
enum ls_status ls__bench_open_session(struct session *s, const struct ls_bench_options *o, bool is_training,
                                      const struct ls_tune *table) LS_MUST_CHECK;

#endif
