/* rehearse.h: shards computed before the first step, for a prediction of its time; nothing of them is kept. */
#ifndef LS_SESSION_REHEARSE_H
#define LS_SESSION_REHEARSE_H

#include "session/session.h"

/* How many more rounds there is time for, after one that took so long. */
int ls__rehearse_count(const struct ls_exec_rehearsal *first, double seconds);
/* The medians of n rounds: what else runs on the machines now will go on running. The sums of the last one are left, to
 * be weighed; ls_exec_end_rehearsal ends it. */
enum ls_status ls__rehearse(struct session *s, const struct ls_exec_step *step, int n,
                            struct ls_exec_rehearsal *r) LS_MUST_CHECK;

#endif
