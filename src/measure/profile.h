/* profile.h: what a step costs on a machine (predict/predict.h), from what was measured there. */
#ifndef LS_MEASURE_PROFILE_H
#define LS_MEASURE_PROFILE_H

#include "predict/predict.h"
#include "session/session.h"

/* Seconds of one thread for a whole step, by phase. */
struct ls_phases {
    double pre, shards, join, update;
};

/* The sums that lie there are weighed: a step or a rehearsal has left them. Release it with ls_predict_profile_release,
 * after a failure too. */
enum ls_status ls__profile_fill(const struct session *s, const struct ls_phases *t,
                                struct ls_predict_profile *p) LS_MUST_CHECK;
/* From a rehearsal on so many threads. times: shards that will be summed before they travel, over those of the
 * rehearsal. */
enum ls_status ls__profile_rehearsed(const struct session *s, const struct ls_exec_rehearsal *r, int threads,
                                     double times, struct ls_predict_profile *p) LS_MUST_CHECK;
/* Fills in what averages of --sync local:H cost, with the parameters that are in the store. */
enum ls_status ls__profile_average(const struct session *s, struct ls_predict_profile *p) LS_MUST_CHECK;
/* The profile of one machine as it fares among the others: rehearsed alone, and together with them. */
void ls__profile_slow_down(struct ls_predict_profile *p, const struct ls_exec_rehearsal *alone,
                           const struct ls_exec_rehearsal *r, double common_seconds);

#endif
