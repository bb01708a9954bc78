/* findings.c: sentences about groups of runs, each by a rule from their numbers. The first group is what others are
 * compared with. What chance could have made is called so (groups.h says when).
 */
#include "report/parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* "28,364 images/s", with the spread over repeats. */
static const char *rate_text(struct ls_page *p, const struct ls_stats *s)
{
    const char *mean = ls__say_count(p, s->mean);
    return s->n > 1 ? ls__page_format(p, "%s ± %s", mean, ls__say_count(p, s->sd)) : mean;
}

static const char *accuracy_text(struct ls_page *p, const struct ls_stats *s)
{
    const char *mean = ls__say_percent(p, s->mean, 2);
    return s->n > 1 ? ls__page_format(p, "%s ± %.2f", mean, 100 * s->sd) : mean;
}

static const char *how_sure(const struct ls_stats *a, const struct ls_stats *b)
{
    return a->n > 1 || b->n > 1 ? "" : "; one run each, so chance is not known";
}

static void say_speed(struct ls_page *p, const struct ls_group *first, const struct ls_group *other)
{
    const struct ls_stats *a = &first->measures[LS_MEASURE_RATE], *b = &other->measures[LS_MEASURE_RATE];
    double ratio = b->mean / a->mean;
    if (!(ratio > 0) || !isfinite(ratio)) return;
    const char *numbers = ls__page_format(p, "%s against %s images/s", rate_text(p, b), rate_text(p, a));
    if (!ls__differ(b, a, LS_MEASURE_RATE, 0))
        ls__page_point(p, "%s: no difference in speed beyond noise to %s (%+.1f %%; %s%s).", other->label, first->label,
                       100 * (ratio - 1), numbers, how_sure(a, b));
    else if (ratio >= 1.2 || ratio <= 1 / 1.2)
        ls__page_point(p, "%s: %.2f times as %s as %s (%s%s).", other->label, ratio > 1 ? ratio : 1 / ratio,
                       ratio > 1 ? "fast" : "slow", first->label, numbers, how_sure(a, b));
    else
        ls__page_point(p, "%s: %.1f %% %s than %s (%s%s).", other->label, 100 * fabs(ratio - 1),
                       ratio > 1 ? "faster" : "slower", first->label, numbers, how_sure(a, b));
}

static double n_test_of(const struct ls_groups *g)
{
    double n = ls_history_number(g->runs[0], "test_data.images");
    return n > 0 ? n : 0;
}

static void say_accuracy(struct ls_page *p, const struct ls_groups *g, const struct ls_group *first,
                         const struct ls_group *other)
{
    const struct ls_stats *a = &first->measures[LS_MEASURE_ACCURACY], *b = &other->measures[LS_MEASURE_ACCURACY];
    if (!isfinite(a->mean) || !isfinite(b->mean)) return;
    const char *numbers = ls__page_format(p, "%s against %s", accuracy_text(p, b), accuracy_text(p, a));
    if (a->mean == b->mean && a->sd == b->sd) {
        ls__page_point(p, "%s: the same accuracy on test data as %s (%s).", other->label, first->label,
                       accuracy_text(p, a));
        return;
    }
    bool is_real = ls__differ(b, a, LS_MEASURE_ACCURACY, n_test_of(g));
    if (is_real)
        ls__page_point(p, "%s: %.2f points %s on test data than %s (%s).", other->label, 100 * fabs(b->mean - a->mean),
                       b->mean > a->mean ? "better" : "worse", first->label, numbers);
    else
        ls__page_point(p, "%s: no difference in accuracy beyond noise to %s (%s).", other->label, first->label,
                       numbers);
}

static void say_communication(struct ls_page *p, const struct ls_group *group)
{
    double share = group->measures[LS_MEASURE_EXPOSED].mean;
    if (share >= 0.005)
        ls__page_point(p, "%s: %.0f %% of the time is communication that no computing hides.", group->label,
                       100 * share);
}

/* Nothing but what must not change the weights differs. */
static bool may_be_same(const struct ls_groups *g)
{
    static const char *const harmless[] = {"workers", "threads", "options.checkpoint_every", "machine.host"};
    for (int f = 0; f < g->n_factors; f++) {
        bool is_harmless = false;
        for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
            is_harmless |= strcmp(g->factors[f].path, harmless[i]) == 0;
        if (!is_harmless) return false;
    }
    return true;
}

/* One hash for all runs, one for each seed, or neither. */
static void say_weights(struct ls_page *p, const struct ls_groups *g)
{
    bool is_same = true, is_same_by_seed = true, is_same_seed = true, has_pairs = false;
    const char *first = ls_history_text(g->runs[0], "weights_hash");
    for (int i = 0; i < g->n_runs; i++) {
        const char *hash = ls_history_text(g->runs[i], "weights_hash");
        if (!hash) return; /* not all have ended */
        is_same &= strcmp(hash, first) == 0;
        for (int k = 0; k < i; k++) {
            bool is_pair =
                ls_history_number(g->runs[i], "options.seed") == ls_history_number(g->runs[k], "options.seed");
            is_same_seed &= is_pair;
            has_pairs |= is_pair;
            if (is_pair) is_same_by_seed &= strcmp(hash, ls_history_text(g->runs[k], "weights_hash")) == 0;
        }
    }
    if (is_same)
        ls__page_point(p, "The weights of all %d runs are identical, bit for bit (hash %.16s...).", g->n_runs, first);
    else if (has_pairs && is_same_by_seed)
        ls__page_point(p, "The weights of runs with the same seed are identical, bit for bit.");
    else if (may_be_same(g) && has_pairs)
        ls__page_point(p, "Weights of runs with the same seed differ, though nothing that differs should change them: "
                          "compare version, "
                          "library and instruction set.");
    else
        ls__page_point(p, "The weights differ, as they should: %s.",
                       is_same_seed ? "the options that differ change the training"
                                    : "so do the seeds or the options that shape the training");
}

static void say_repeats(struct ls_page *p, const struct ls_group *group)
{
    const struct ls_stats *a = &group->measures[LS_MEASURE_ACCURACY], *r = &group->measures[LS_MEASURE_RATE];
    if (group->n_runs < 2) return;
    if (isfinite(a->mean))
        ls__page_point(p, "%s, %d repeats: %s on test data, from %s to %s.", group->label, group->n_runs,
                       accuracy_text(p, a), ls__say_percent(p, a->low, 2), ls__say_percent(p, a->high, 2));
    if (isfinite(r->mean))
        ls__page_point(p, "%s, %d repeats: %s images/s, a spread of %.1f %%.", group->label, group->n_runs,
                       rate_text(p, r), 100 * r->sd / r->mean);
}

void ls__compare_findings(struct ls_page *p, const struct ls_groups *g)
{
    enum { MOST = 12 };
    int n_unfinished = 0;
    for (int k = 1; k < g->n_groups && k <= MOST; k++) {
        say_speed(p, &g->groups[0], &g->groups[k]);
        say_accuracy(p, g, &g->groups[0], &g->groups[k]);
    }
    for (int k = 0; k < g->n_groups && k <= MOST; k++) say_communication(p, &g->groups[k]);
    for (int k = 0; k < g->n_groups && k < 4; k++) say_repeats(p, &g->groups[k]);
    say_weights(p, g);
    if (g->n_groups - 1 > MOST) ls__page_note(p, "%d more groups are in the table below.", g->n_groups - 1 - MOST);
    for (int i = 0; i < g->n_runs; i++) n_unfinished += ls_history_state(g->runs[i]) != LS_RUN_DONE;
    if (n_unfinished)
        ls__page_point(p, "%d of %d runs have not ended; of them only the curves are known.", n_unfinished, g->n_runs);
}
