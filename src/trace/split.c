/* split.c: the wall clock of a run in parts. See trace.h.
 *
 * The self times of the main lane add up to its age. Of these, the time in steps that was not spent waiting for data or
 * for other machines belongs to the threads: what they computed and updated, on average, and what they idled. Sums that
 * travel are seen by the communication thread; the time for which nobody waited for them is hidden.
 */
#include "trace/trace.h"

static double seconds(const struct ls_totals *t, enum ls_span_kind kind)
{
    return (double)t->self_ns[kind] * 1e-9;
}

struct ls_time_split ls__trace_split(const struct ls_trace *trace, int n_threads)
{
    const struct ls_lane *lane = ls__trace_next_lane(trace, NULL);
    struct ls_totals main, t;
    double compute = 0, update = 0, hidden = 0;
    ls__lane_totals(lane, &main);
    for (; lane; lane = ls__trace_next_lane(trace, lane)) {
        ls__lane_totals(lane, &t);
        compute += seconds(&t, LS_SPAN_COMPUTE) / n_threads;
        update += seconds(&t, LS_SPAN_UPDATE) / n_threads;
        hidden += seconds(&t, LS_SPAN_SUM);
    }
    double steps = seconds(&main, LS_SPAN_STEP) + seconds(&main, LS_SPAN_ROUND) + seconds(&main, LS_SPAN_BARRIER) +
                   seconds(&main, LS_SPAN_COMPUTE) + seconds(&main, LS_SPAN_UPDATE);
    /* Where the main thread waits for sums while others update already, they were busy for longer than its rest. */
    double scale = compute + update > steps ? steps / (compute + update) : 1;
    struct ls_time_split split = {
        .setup = seconds(&main, LS_SPAN_SETUP),
        .load = seconds(&main, LS_SPAN_LOAD),
        .compute = scale * compute,
        .update = scale * update,
        .communicate = seconds(&main, LS_SPAN_COMMUNICATE),
        .wait = steps - scale * (compute + update),
        .checkpoint = seconds(&main, LS_SPAN_CHECKPOINT),
        .evaluate = seconds(&main, LS_SPAN_EVALUATE),
        .other = seconds(&main, LS_SPAN_OTHER),
        .hidden = hidden,
    };
    return split;
}
