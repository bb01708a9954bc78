/* active.c: fewer ranks where more are slower.
 *
 * In steps of some hundred microseconds two processes may lose more by waiting for each other than they gain by
 * sharing. So a machine of several ranks tries both for some steps at the start: all of them, then the first alone, the
 * others only coming to the barriers. The faster way stays. Who computes has no influence on the weights. Long steps
 * are not tried: there all pay.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/median.h"
#include "exec/exec_internal.h"

enum { WARM_UP = 10 };
static const double long_step = 2e-3, least_gain = 0.97;

/* Local rank 0's, after every training step: how many ranks compute in the next one; 0: all. */
int ls__active_next(struct ls_exec *e)
{
    struct active *a = &e->active;
    int64_t now = ls__now_ns();
    double seconds = (double)(now - a->last_ns) * 1e-9;
    a->last_ns = now;
    if (a->is_settled) return a->chosen;
    int step = a->n_steps++ - WARM_UP;
    if (step < 0) return 0;
    if (step < LS_TRIAL_STEPS) {
        a->times[step] = seconds;
        if (step < LS_TRIAL_STEPS - 1) return 0;
        a->all = ls__median(a->times, LS_TRIAL_STEPS);
        a->is_settled = a->all > long_step;
        return a->is_settled ? 0 : 1;
    }
    step -= LS_TRIAL_STEPS + 1; /* the first one alone finds cold caches */
    if (step < 0) return 1;
    a->times[step] = seconds;
    if (step < LS_TRIAL_STEPS - 1) return 1;
    double alone = ls__median(a->times, LS_TRIAL_STEPS);
    a->is_settled = true;
    a->chosen = alone < least_gain * a->all ? 1 : 0;
    if (a->chosen == 1)
        ls__log(LS_LOG_INFO, "a step takes %.3g ms with one process of %d and %.3g ms with all: one computes here",
                1e3 * alone, e->n_local, 1e3 * a->all);
    return a->chosen;
}
