/* report_words.c: what follows from the numbers of a question: sentences, each by a rule from the numbers of its tables
 * (report_impl.h). A run is compared with the one it differs least from (ls__lab_partner). Nothing is said of what was
 * not measured.
 */
#include "base/parse.h"
#include "lab/report_impl.h"
#include "report/words.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The block doubles; the old ones go with the page. */
static void add(struct ls_lab_text *t, double weight, const char *line)
{
    if ((t->n & (t->n - 1)) == 0) {
        const char **more = ls__page_alloc(t->p, t->n ? 2 * (size_t)t->n : 1, sizeof *more);
        if (!more) return;
        if (t->n) memcpy(more, t->lines, (size_t)t->n * sizeof *more);
        t->lines = more;
    }
    t->lines[t->n++] = line;
    if (t->n > 1 && (t->show != t->first_show || weight <= t->weight)) return;
    t->first = line;
    t->first_show = t->show;
    t->weight = weight;
}

bool ls__lab_is_told(const struct ls_lab_question *q, int run, int other)
{
    bool has_own = false, is_new = false;
    for (int i = 0; i < q->n_runs; i++) {
        has_own |= q->is_own[i];
        is_new |= q->is_own[i] && (q->runs[i] == run || q->runs[i] == other);
    }
    return has_own && !is_new;
}

static const char *format(struct ls_page *p, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    char *line = n >= 0 ? ls__page_alloc(p, (size_t)n + 1, 1) : NULL;
    if (line) vsnprintf(line, (size_t)n + 1, fmt, args);
    return line ? line : "";
}

void ls__lab_sentence(struct ls_lab_text *t, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add(t, 0, format(t->p, fmt, args));
    va_end(args);
}

void ls__lab_finding(struct ls_lab_text *t, double weight, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add(t, weight, format(t->p, fmt, args));
    va_end(args);
}

/* What is said of a number that was measured once. */
static const char *how_sure(const struct ls_spread *a, const struct ls_spread *b)
{
    return a->n > 1 && b->n > 1 ? "" : "; measured once, so the noise is not known";
}

/* "; published, on another machine: 1.11 times" */
static const char *there(const struct ls_lab_view *v, const struct ls_lab_question *q, int run, int partner)
{
    const struct ls_lab_published *mine = ls__lab_published(q, LS_SHOW_TIME, run),
                                  *base = ls__lab_published(q, LS_SHOW_TIME, partner);
    if (!mine || !base || mine->is_unsure || base->is_unsure) return "";
    return ls__page_format(v->p, "; published, on another machine: %.2f times",
                           (mine->low + mine->high) / (base->low + base->high));
}

/* The interval of checkpoints in steps; 0: none, or epochs. */
static double interval(const char *every)
{
    int64_t steps;
    return every && ls__parse_i64(every, 1, INT64_MAX, &steps) ? (double)steps : 0;
}

/* A shorter training with as many checkpoints: how many times as many for each step. 1: as the lab says. */
static double density(const struct ls_lab_view *v, int run)
{
    const double lab = interval(ls__lab_setting(&v->lab->runs[run], "checkpoint-every")),
                 ours = interval(ls__lab_given(v, run, "checkpoint-every"));
    return lab > ours && ours > 0 ? lab / ours : 1;
}

static void say_time(const struct ls_lab_view *v, const struct ls_lab_question *q, int run, struct ls_lab_text *t)
{
    int partner = ls__lab_partner(v, q, run);
    struct ls_spread a = ls__lab_spread(v, run, LS_LAB_TIME), b = ls__lab_spread(v, partner, LS_LAB_TIME);
    const char *name = v->lab->runs[run].name, *base = v->lab->runs[partner].name;
    enum ls_lab_verdict verdict = ls__lab_compare(&a, &b);
    const char *mine = ls__lab_say_briefly(v->p, &a, 1), *its = ls__lab_say_briefly(v->p, &b, 1);
    const char *also =
        density(v, run) > 1
            ? ls__page_format(v->p, "; the scale made checkpoints %.3g times as frequent", density(v, run))
            : there(v, q, run, partner);
    if (verdict == LS_LAB_UNKNOWN || ls__lab_is_told(q, run, partner)) return;
    if (verdict == LS_LAB_NOISE)
        ls__lab_sentence(t, "No difference in time beyond noise between %s and %s (%s s against %s s%s%s).", name, base,
                         mine, its, how_sure(&a, &b), also);
    else
        ls__lab_finding(t, fabs(log(a.median / b.median)), "%s took %s times the time of %s (%s s against %s s%s%s).",
                        name, ls__lab_say(v->p, a.median / b.median), base, mine, its, how_sure(&a, &b), also);
}

static void say_times(const struct ls_lab_view *v, const struct ls_lab_question *q, struct ls_lab_text *t)
{
    int n_known = 0;
    for (int i = 0; i < q->n_runs; i++)
        if (q->runs[i] != q->baseline) say_time(v, q, q->runs[i], t);
    for (int i = 0; i < q->n_runs; i++) n_known += ls__lab_spread(v, q->runs[i], LS_LAB_TIME).n > 0;
    struct ls_spread only = ls__lab_spread(v, q->baseline, LS_LAB_TIME);
    if (n_known == 1 && only.n > 0)
        ls__lab_sentence(t, "%s took %s s for %s images.", v->lab->runs[q->baseline].name,
                         ls__lab_say_briefly(v->p, &only, 1),
                         ls__say_count(v->p, ls_history_number(ls__lab_first(v, q->baseline), "images")));
}

/* How many were written; 0: not known. */
static double n_checkpoints(const struct ls_lab_view *v, int run, const char *every)
{
    const struct ls_history *h = ls__lab_first(v, run);
    const double steps = ls_history_number(h, "steps"), between = interval(every);
    if (strcmp(every, "epoch") == 0) return fmax(ls_history_number(h, "epochs"), 0);
    return between > 0 && fmod(steps, between) == 0 ? steps / between : 0;
}

/* Where checkpoints are what differs. */
static void say_checkpoints(const struct ls_lab_view *v, const struct ls_lab_question *q, struct ls_lab_text *t)
{
    for (int i = 0; i < q->n_runs; i++) {
        const char *every = ls__lab_given(v, q->runs[i], "checkpoint-every");
        struct ls_spread held_up = ls__lab_spread(v, q->runs[i], LS_LAB_CHECKPOINT),
                         time = ls__lab_spread(v, q->runs[i], LS_LAB_TIME);
        if (!every || strcmp(every, "none") == 0 || held_up.n == 0 || time.n == 0) continue;
        if (ls__lab_is_told(q, q->runs[i], -1)) continue;
        const double n = n_checkpoints(v, q->runs[i], every);
        const char *each =
            n > 0 ? ls__page_format(v->p, "; each of %.0f for %s ms", n, ls__lab_say(v->p, 1e3 * held_up.median / n))
                  : "";
        ls__lab_sentence(t, "Checkpoints held %s up for %s s, %.2g %% of its time%s.", v->lab->runs[q->runs[i]].name,
                         ls__lab_say_briefly(v->p, &held_up, 1), 100 * held_up.median / time.median, each);
        if (density(v, q->runs[i]) > 1)
            ls__lab_sentence(
                t,
                "The scale left %s as many checkpoints as the lab has, in fewer steps: what they cost here is "
                "not what they cost there.",
                v->lab->runs[q->runs[i]].name);
    }
}

static void say_accuracy(const struct ls_lab_view *v, const struct ls_lab_question *q, int run, struct ls_lab_text *t)
{
    int partner = ls__lab_partner(v, q, run);
    struct ls_spread a = ls__lab_spread(v, run, LS_LAB_ACCURACY), b = ls__lab_spread(v, partner, LS_LAB_ACCURACY);
    const char *name = v->lab->runs[run].name, *base = v->lab->runs[partner].name;
    if (a.n == 0 || b.n == 0 || ls__lab_is_told(q, run, partner)) return;
    double n_test = ls_history_number(ls__lab_first(v, run), "test_data.images");
    if (a.low == b.low && a.high == b.high)
        ls__lab_sentence(t, "%s has exactly the accuracy of %s (%.2f %%).", name, base, 100 * a.median);
    else if (ls__lab_compare_accuracy(&a, &b, n_test) == LS_LAB_NOISE)
        ls__lab_sentence(t, "No difference in accuracy beyond noise between %s and %s (%.2f %% against %.2f %%).", name,
                         base, 100 * a.median, 100 * b.median);
    else
        ls__lab_finding(t, fabs(a.median - b.median),
                        "%s is right on %.2f %% of the test data, %.2f points %s than %s.", name, 100 * a.median,
                        100 * fabs(a.median - b.median), a.median > b.median ? "more" : "less", base);
}

/* The run with the most of something and the one with the least, if the difference is more than noise. */
static void say_ends(const struct ls_lab_view *v, const struct ls_lab_question *q, enum ls_lab_measure m, double scale,
                     const char *what, const char *unit, struct ls_lab_text *t)
{
    int least = -1, most = -1, n_known = 0;
    struct ls_spread low = {0}, high = {0};
    for (int i = 0; i < q->n_runs; i++) {
        struct ls_spread s = ls__lab_spread(v, q->runs[i], m);
        if (s.n == 0) continue;
        n_known++;
        if (least < 0 || s.median < low.median) least = q->runs[i], low = s;
        if (most < 0 || s.median > high.median) most = q->runs[i], high = s;
    }
    if (least < 0) return;
    const char *most_text = ls__lab_say_briefly(v->p, &high, scale),
               *least_text = ls__lab_say_briefly(v->p, &low, scale);
    if (n_known > 1 && low.low == high.high)
        ls__lab_sentence(t, "%s is the same in all runs%s: %s%s.", what, n_known < q->n_runs ? " that are done" : "",
                         most_text, unit);
    else if (n_known == 1)
        ls__lab_sentence(t, "%s of %s: %s%s.", what, v->lab->runs[most].name, most_text, unit);
    else if (ls__lab_compare(&low, &high) == LS_LAB_NOISE)
        ls__lab_sentence(t, "%s: no difference beyond noise (%s%s at most).", what, most_text, unit);
    else if (strcmp(most_text, least_text) == 0)
        ls__lab_sentence(t, "%s: no difference in the digits shown (%s%s).", what, most_text, unit);
    else
        ls__lab_finding(t, low.median > 0 ? log(high.median / low.median) : 1,
                        "%s was highest in %s (%s%s) and lowest in %s (%s%s).", what, v->lab->runs[most].name,
                        most_text, unit, v->lab->runs[least].name, least_text, unit);
}

static void say_communication(const struct ls_lab_view *v, const struct ls_lab_question *q, struct ls_lab_text *t)
{
    for (int i = 0; i < q->n_runs; i++) {
        struct ls_spread compute = ls__lab_share(v, q->runs[i], LS_LAB_COMPUTE);
        if (!(ls__lab_workers(v, q->runs[i]) > 1) || compute.n == 0) continue;
        if (ls__lab_is_told(q, q->runs[i], -1)) continue;
        const bool is_served = ls__lab_is_served(ls__lab_first(v, q->runs[i]));
        struct ls_spread rest = ls__lab_share(v, q->runs[i], is_served ? LS_LAB_WAIT : LS_LAB_COMMUNICATE);
        ls__lab_sentence(t, "%s: %.0f %% of the time computed, %.0f %% %s.", v->lab->runs[q->runs[i]].name,
                         100 * compute.median, 100 * rest.median,
                         is_served ? "waited for the server and for others" : "communicated with nothing to compute");
    }
}

struct hashes {
    const char *seen, *first, *names;
    int n, n_different, n_runs;
};

static void add_hashes(const struct ls_lab_view *v, int run, struct hashes *h)
{
    const struct ls_lab_seen *s = &v->seen[run];
    for (int k = 0; k < s->n_done; k++) {
        const char *hash = ls_history_text(s->done[k], "weights_hash");
        if (!hash) continue;
        h->n++;
        if (!h->first) h->first = hash;
        if (strstr(h->seen, hash)) continue;
        h->n_different++;
        h->seen = ls__page_format(v->p, "%s %.64s", h->seen, hash);
    }
    if (s->n_done == 0) return;
    h->n_runs++;
    h->names = ls__page_format(v->p, "%s%s%s", h->names, *h->names ? ", " : "", v->lab->runs[run].name);
}

/* One hash for all; or how many, and those of runs that are one training. */
static void say_hashes(const struct ls_lab_view *v, const struct ls_lab_question *q, struct ls_lab_text *t)
{
    struct hashes all = {.seen = "", .names = ""};
    for (int i = 0; i < q->n_runs; i++) add_hashes(v, q->runs[i], &all);
    if (all.n < 2) return;
    if (all.n_different == 1) {
        ls__lab_sentence(t, "The same weights, proved by hash: all %d trainings of %d runs ended with %.64s.", all.n,
                         all.n_runs, all.first);
        return;
    }
    ls__lab_sentence(t, "The weights are not all the same: %d trainings ended with %d different hashes.", all.n,
                     all.n_different);
    for (int i = 0; i < q->n_runs; i++) {
        struct hashes same = {.seen = "", .names = ""};
        bool is_told = false;
        for (int k = 0; k < i; k++) is_told |= ls__lab_is_same_training(v, q->runs[k], q->runs[i]);
        for (int k = i; k < q->n_runs && !is_told; k++)
            if (k == i || ls__lab_is_same_training(v, q->runs[i], q->runs[k])) add_hashes(v, q->runs[k], &same);
        if (same.n_runs < 2) continue;
        if (same.n_different == 1)
            ls__lab_sentence(t, "%s are one training, and have the same weights, proved by hash: %.64s.", same.names,
                             same.first);
        else
            ls__lab_sentence(t, "%s are one training, but ended with %d different hashes.", same.names,
                             same.n_different);
    }
}

static void say_targets(const struct ls_lab_view *v, const struct ls_lab_question *q, struct ls_lab_text *t)
{
    int best = -1;
    double least = INFINITY;
    for (int i = 0; i < q->n_runs; i++) {
        struct ls_spread s = ls__lab_spread(v, q->runs[i], LS_LAB_TARGET_ALL);
        const char *target = ls__lab_given(v, q->runs[i], "target");
        if (s.n > 0 && s.median < least) least = s.median, best = q->runs[i];
        if (v->seen[q->runs[i]].n_done > 0 && target && s.n == 0)
            ls__lab_sentence(t, "%s did not reach %s.", v->lab->runs[q->runs[i]].name, target);
    }
    if (best < 0) return;
    struct ls_spread s = ls__lab_spread(v, best, LS_LAB_TARGET_ALL);
    const char *equals = "";
    for (int i = 0; i < q->n_runs; i++) {
        struct ls_spread other = ls__lab_spread(v, q->runs[i], LS_LAB_TARGET_ALL);
        if (q->runs[i] != best && ls__lab_compare(&s, &other) == LS_LAB_NOISE)
            equals = ls__page_format(v->p, "%s%s%s", equals, *equals ? ", " : "; no difference beyond noise from ",
                                     v->lab->runs[q->runs[i]].name);
    }
    ls__lab_finding(t, 1, "First at the target: %s, %s s after its start%s.", v->lab->runs[best].name,
                    ls__lab_say_briefly(v->p, &s, 1), equals);
}

static void say_prediction(const struct ls_lab_view *v, int run, struct ls_lab_text *t)
{
    const struct ls_spread said = ls__lab_spread(v, run, LS_LAB_PREDICTED), step = ls__lab_spread(v, run, LS_LAB_STEP),
                           error = ls__lab_spread(v, run, LS_LAB_FORECAST_ERROR);
    ls__lab_finding(t, fabs(error.median), "%s: a step was predicted to take %s ms and took %s ms (%+.0f %%).",
                    v->lab->runs[run].name, ls__lab_say(v->p, 1e3 * said.median), ls__lab_say(v->p, 1e3 * step.median),
                    100 * error.median);
}

/* One by one, or of many the two ends. */
static void say_predictions(const struct ls_lab_view *v, const struct ls_lab_question *q, struct ls_lab_text *t)
{
    enum { FEW = 2 };
    int least = -1, most = -1, n = 0;
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < q->n_runs; i++) {
        const struct ls_spread error = ls__lab_spread(v, q->runs[i], LS_LAB_FORECAST_ERROR);
        if (error.n == 0 || ls__lab_is_told(q, q->runs[i], -1)) continue;
        n++;
        if (error.median < low) low = error.median, least = q->runs[i];
        if (error.median > high) high = error.median, most = q->runs[i];
    }
    for (int i = 0; i < q->n_runs && n <= FEW; i++)
        if (ls__lab_spread(v, q->runs[i], LS_LAB_FORECAST_ERROR).n > 0 && !ls__lab_is_told(q, q->runs[i], -1))
            say_prediction(v, q->runs[i], t);
    if (n > FEW)
        ls__lab_finding(t, fmax(fabs(low), fabs(high)),
                        "Against what was measured, the forecast of a step was from %+.0f %% (%s) to %+.0f %% (%s).",
                        100 * low, v->lab->runs[least].name, 100 * high, v->lab->runs[most].name);
}

static void say_accuracies(const struct ls_lab_view *v, const struct ls_lab_question *q, struct ls_lab_text *t)
{
    for (int i = 0; i < q->n_runs; i++)
        if (q->runs[i] != q->baseline) say_accuracy(v, q, q->runs[i], t);
    if (q->n_runs == 1) say_ends(v, q, LS_LAB_ACCURACY, 100, "Accuracy on test data", " %", t);
}

static void say_show(const struct ls_lab_view *v, const struct ls_lab_question *q, enum ls_lab_show show,
                     struct ls_lab_text *t)
{
    switch (show) {
    case LS_SHOW_TIME:
        if (!ls__lab_say_comparison(v, q, LS_LAB_TIME, t)) say_times(v, q, t);
        say_checkpoints(v, q, t);
        break;
    case LS_SHOW_SPEEDUP:
        ls__lab_say_speedups(v, q, t);
        break;
    case LS_SHOW_ACCURACY:
        if (!ls__lab_say_comparison(v, q, LS_LAB_ACCURACY, t)) say_accuracies(v, q, t);
        break;
    case LS_SHOW_CURVES:
        say_ends(v, q, LS_LAB_TRAIN_LOSS, 1, "The mean training loss of the last epoch", "", t);
        break;
    case LS_SHOW_RESOURCES:
        say_ends(v, q, LS_LAB_CPU, 1, "CPU use", " % of a core", t);
        say_ends(v, q, LS_LAB_MEMORY, 1.0 / 1048576, "Peak memory", " MiB", t);
        break;
    case LS_SHOW_COMMUNICATION:
        if (!ls__lab_shows(q, LS_SHOW_SPEEDUP)) say_communication(v, q, t);
        break;
    case LS_SHOW_BANDWIDTH:
        if (q->n_compares == 0) say_ends(v, q, LS_LAB_BYTE_RATE, 1e-6, "The rate while communicating", " MB/s", t);
        break;
    case LS_SHOW_HASH:
        say_hashes(v, q, t);
        break;
    case LS_SHOW_TARGET:
        say_targets(v, q, t);
        break;
    case LS_SHOW_PREDICTED:
        ls__lab_say_forecast(v, q, t);
        say_predictions(v, q, t);
        break;
    case LS_SHOW_NODES:
    case LS_N_SHOWS:
        break;
    }
}

struct ls_lab_text ls__lab_sentences(const struct ls_lab_view *v, const struct ls_lab_question *q)
{
    struct ls_lab_text t = {.p = v->p, .first = ""};
    for (t.show = 0; t.show < q->n_shows; t.show++) say_show(v, q, q->shows[t.show], &t);
    return t;
}
