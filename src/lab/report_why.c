/* report_why.c: how much faster more workers are, and what the numbers have against more (report_impl.h). */
#include "lab/report_impl.h"

#include <math.h>
#include <string.h>

/* Reasons that were measured, for a run that is not at nine tenths of the ideal. Threads wait in any run: other workers
 * are the reason only for what the run with the fewest does not wait. */
static void say_why(const struct ls_lab_view *v, int run, int one, struct ls_lab_text *t)
{
    const char *name = v->lab->runs[run].name;
    double communicate = ls__lab_share(v, run, LS_LAB_COMMUNICATE).median,
           wait = ls__lab_share(v, run, LS_LAB_WAIT).median, wait_alone = ls__lab_share(v, one, LS_LAB_WAIT).median;
    if (communicate >= 0.05)
        ls__lab_sentence(t, "%.0f %% of the time of %s was communication that no computing hid.", 100 * communicate,
                         name);
    if (wait - wait_alone >= 0.05)
        ls__lab_sentence(t, "%.0f %% of the time of %s was waiting, against %.0f %% of %s: for %sthe other workers.",
                         100 * wait, name, 100 * wait_alone, v->lab->runs[one].name,
                         ls__lab_is_served(ls__lab_first(v, run)) ? "the server and " : "");
}

/* What bounds the ideal. is_faster: beyond noise, and then there was something to win after all. */
static void say_bounds(const struct ls_lab_view *v, int run, int one, bool is_faster, struct ls_lab_text *t)
{
    double n;
    const char *name = v->lab->runs[run].name, *unit = ls__lab_unit_name(v, run);
    if (ls__lab_is_crowded(v, run, &n))
        ls__lab_sentence(t, "The %.0f workers of %s share %.0f %s%s.", ls__lab_workers(v, run), name, n, unit,
                         n == 1 ? "" : "s");
    if (ls__lab_units(v, run) == ls__lab_units(v, one))
        ls__lab_sentence(t, "%s and %s computed with as many %ss (%.0f): %s.", name, v->lab->runs[one].name, unit,
                         ls__lab_units(v, one),
                         is_faster ? "what is above the ideal does not come from more of them"
                                   : "there is nothing that more workers could add");
}

static bool is_weak(const struct ls_lab_view *v, int a, int b)
{
    return ls_history_number(ls__lab_first(v, a), "batch_size") != ls_history_number(ls__lab_first(v, b), "batch_size");
}

void ls__lab_say_speedups(const struct ls_lab_view *v, const struct ls_lab_question *q, struct ls_lab_text *t)
{
    bool has_weak = false;
    for (int i = 0; i < q->n_runs; i++) {
        int run = q->runs[i], one = ls__lab_reference(v, q, run);
        struct ls_spread a = ls__lab_spread(v, run, LS_LAB_RATE), b = {0};
        if (one >= 0) b = ls__lab_spread(v, one, LS_LAB_RATE);
        if (a.n == 0 || b.n == 0) continue;
        if (ls__lab_is_told(q, run, one)) continue;
        double ratio = a.median / b.median, ideal = ls__lab_units(v, run) / ls__lab_units(v, one);
        has_weak |= is_weak(v, run, one);
        const bool is_noise = ls__lab_compare(&a, &b) == LS_LAB_NOISE;
        if (is_noise)
            ls__lab_sentence(t, "%s: no speed-up over %s beyond noise.", v->lab->runs[run].name,
                             v->lab->runs[one].name);
        else
            ls__lab_finding(t, fabs(log(ratio)), "%s: a speed-up of %.2f over %s, %.0f %% of the ideal %.3g.",
                            v->lab->runs[run].name, ratio, v->lab->runs[one].name, 100 * ratio / ideal, ideal);
        say_bounds(v, run, one, ratio > 1 && !is_noise, t);
        if (ratio < 0.9 * ideal) say_why(v, run, one, t);
    }
    if (has_weak)
        ls__lab_sentence(
            t, "This is weak scaling: the global batch grows with the workers, so these are different trainings, "
               "compared by their images per second.");
}
