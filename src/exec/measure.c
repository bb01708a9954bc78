/* measure.c: the executor's lanes in a trace, and what it reads from them. See trace/trace.h. */
#include "base/clock.h"
#include "exec/exec_internal.h"

static int n_ops(const struct ls_exec *e)
{
    const struct bound_plan *last = e->n_plans ? &e->plans[e->n_plans - 1] : NULL;
    return last ? last->first_op + last->plan->n_ops : 0;
}

void ls__exec_give_lanes_back(struct ls_exec *e)
{
    for (int t = 0; e->trace && t < e->n_threads; t++) {
        ls__lane_forget_ops(e->workers[t].lane);
        if (t > 0 || !e->is_caller_lane) ls__lane_give_back(e->workers[t].lane);
        e->workers[t].lane = NULL;
    }
    ls__lane_give_back(e->adding);
    e->adding = NULL;
    e->trace = NULL;
}

enum ls_status ls_exec_measure(struct ls_exec *e, struct ls_trace *trace, struct ls_lane *caller)
{
    ls__exec_give_lanes_back(e);
    e->trace = trace;
    e->is_caller_lane = caller != NULL;
    e->workers[0].lane = caller;
    for (int t = caller ? 1 : 0; t < e->n_threads; t++)
        TRY(ls__lane_take(trace, caller ? "worker" : "replica", &e->workers[t].lane));
    return LS_OK;
}

double ls_exec_busy_seconds(const struct ls_exec *e)
{
    int64_t ns = 0;
    for (int t = 0; t < e->n_threads; t++) {
        struct ls_totals totals;
        ls__lane_totals(e->workers[t].lane, &totals);
        ns += totals.self_ns[LS_SPAN_COMPUTE] + totals.self_ns[LS_SPAN_UPDATE];
    }
    return (double)ns * 1e-9;
}

int64_t ls_exec_samples(const struct ls_exec *e)
{
    int64_t n = 0;
    for (int t = 0; t < e->n_threads; t++) n += e->workers[t].n_samples;
    return n;
}

/* Room for the ops of all plans; what is measured already stays. */
enum ls_status ls__exec_measure_ops(struct ls_exec *e)
{
    for (int t = 0; e->is_profiling && t < e->n_threads; t++) TRY(ls__lane_measure_ops(e->workers[t].lane, n_ops(e)));
    return LS_OK;
}

enum ls_status ls_exec_profile(struct ls_exec *e, bool on)
{
    if (on && !e->trace) {
        TRY(ls__trace_create(&e->own_trace, ls__now_ns()));
        TRY(ls_exec_measure(e, e->own_trace, ls__trace_main(e->own_trace)));
    }
    for (int t = 0; t < e->n_threads; t++) ls__lane_forget_ops(e->workers[t].lane);
    e->is_profiling = on;
    return ls__exec_measure_ops(e);
}

void ls_exec_hold_profile(struct ls_exec *e, bool is_held)
{
    for (int t = 0; t < e->n_threads; t++) ls__lane_hold_ops(e->workers[t].lane, is_held);
}

double ls_exec_op_seconds(const struct ls_exec *e, const struct ls_plan *plan, int index)
{
    int64_t ns = 0;
    for (int i = 0; i < e->n_plans; i++)
        for (int t = 0; e->plans[i].plan == plan && t < e->n_threads; t++)
            ns += ls__lane_op_ns(e->workers[t].lane, e->plans[i].first_op + index);
    return (double)ns * 1e-9;
}
