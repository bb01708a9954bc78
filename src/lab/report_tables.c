/* report_tables.c: tables of one line per run: medians, with the spread over repeats (report_impl.h). */
#include "lab/report_impl.h"

#include "report/words.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_COLUMNS = 16 };

/* --- numbers --- */

const char *ls__lab_say_as(struct ls_page *p, enum ls_lab_digits digits, double value)
{
    if (digits == LS_LAB_SECONDS && fabs(value) < 0.001) return "0";
    if (digits == LS_LAB_HUNDREDTHS && isfinite(value)) return ls__page_format(p, "%.2f", value);
    if (digits == LS_LAB_WHOLE) return ls__say_count(p, value);
    return ls__lab_say(p, value);
}

const char *ls__lab_say(struct ls_page *p, double value)
{
    double size = fabs(value);
    if (!isfinite(value)) return "";
    if (size >= 999.5) return ls__say_count(p, value);
    return ls__page_format(p,
                           size >= 99.95    ? "%.0f"
                           : size >= 9.995  ? "%.1f"
                           : size >= 0.9995 ? "%.2f"
                                            : "%.3g",
                           value);
}

static const char *say(struct ls_page *p, const struct ls_spread *s, double scale, const char *open, const char *close)
{
    const char *median = ls__lab_say_as(p, s->digits, s->median * scale),
               *low = ls__lab_say_as(p, s->digits, s->low * scale),
               *high = ls__lab_say_as(p, s->digits, s->high * scale);
    if (s->n < 2 || strcmp(low, high) == 0) return median;
    return ls__page_format(p, "%s %s%s to %s%s", median, open, low, high, close);
}

const char *ls__lab_say_spread(struct ls_page *p, const struct ls_spread *s, double scale)
{
    return say(p, s, scale, "(", ")");
}

const char *ls__lab_say_briefly(struct ls_page *p, const struct ls_spread *s, double scale)
{
    return say(p, s, scale, "[", "]");
}

static const char *as_given(struct ls_page *p, double value)
{
    return value >= 1000 ? ls__say_count(p, value) : ls__page_format(p, "%g", value);
}

const char *ls__lab_say_published(struct ls_page *p, const struct ls_lab_published *published, double scale)
{
    if (!published) return "";
    const char *unsure = published->is_unsure ? " (?)" : "", *low = as_given(p, published->low * scale),
               *high = as_given(p, published->high * scale);
    if (published->low == published->high) return ls__page_format(p, "%s%s", low, unsure);
    return ls__page_format(p, "%s to %s%s", low, high, unsure);
}

/* --- columns --- */

struct column {
    const char *head;
    enum ls_lab_measure measure;
    double scale;
};

#define MIB (1.0 / 1048576)
static const struct column columns[LS_N_SHOWS][6] = {
    [LS_SHOW_TIME] = {{"time (s)", LS_LAB_TIME, 1},
                      {"of it checkpoints (s)", LS_LAB_CHECKPOINT, 1},
                      {"images/s", LS_LAB_RATE, 1},
                      {"evaluation (s)", LS_LAB_EVALUATE, 1},
                      {"from start to end (s)", LS_LAB_IN_ALL, 1}},
    [LS_SHOW_ACCURACY] = {{"test accuracy (%)", LS_LAB_ACCURACY, 100},
                          {"test loss", LS_LAB_TEST_LOSS, 1},
                          {"training loss, mean of the last epoch", LS_LAB_TRAIN_LOSS, 1}},
    [LS_SHOW_RESOURCES] = {{"CPU, mean (% of a core)", LS_LAB_CPU, 1},
                           {"CPU, most (% of a core)", LS_LAB_CPU_PEAK, 1},
                           {"memory, most (MiB)", LS_LAB_MEMORY, MIB}},
    [LS_SHOW_COMMUNICATION] = {{"compute (s)", LS_LAB_COMPUTE, 1},
                               {"update (s)", LS_LAB_UPDATE, 1},
                               {"communicate (s)", LS_LAB_COMMUNICATE, 1},
                               {"hidden (s)", LS_LAB_HIDDEN, 1},
                               {"wait (s)", LS_LAB_WAIT, 1},
                               {"load (s)", LS_LAB_LOAD, 1}},
    [LS_SHOW_BANDWIDTH] = {{"sent by all (MiB)", LS_LAB_BYTES, MIB},
                           {"sent per step (MiB)", LS_LAB_BYTES_STEP, MIB},
                           {"MB/s while communicating", LS_LAB_BYTE_RATE, 1e-6}},
    [LS_SHOW_TARGET] = {{"to the target, training (s)", LS_LAB_TARGET_TRAIN, 1},
                        {"since the start (s)", LS_LAB_TARGET_ALL, 1},
                        {"after epoch", LS_LAB_TARGET_EPOCH, 1}},
    [LS_SHOW_PREDICTED] = {{"step, predicted (ms)", LS_LAB_PREDICTED, 1e3},
                           {"step, measured (ms)", LS_LAB_STEP, 1e3},
                           {"forecast too long (+) or short (-) (%)", LS_LAB_FORECAST_ERROR, 100}},
};

static bool has_published(const struct ls_lab_question *q, enum ls_lab_show what)
{
    for (int i = 0; i < q->n_published; i++)
        if (q->published[i].what == what) return true;
    return false;
}

static bool has_values(const struct ls_lab_view *v, const struct ls_lab_question *q, const struct column *c)
{
    for (int i = 0; i < q->n_runs; i++) {
        struct ls_spread s = ls__lab_spread(v, q->runs[i], c->measure);
        const bool is_often_none = c->measure == LS_LAB_CHECKPOINT || c->measure == LS_LAB_EVALUATE;
        if (s.n > 0 && (!is_often_none || s.high >= 0.001)) return true;
    }
    return false;
}

static void add_measures(const struct ls_lab_view *v, const struct ls_lab_question *q, enum ls_lab_show show)
{
    const struct column *used[6];
    const char *cells[MOST_COLUMNS] = {"run"};
    int n_used = 0;
    bool is_published = has_published(q, show);
    for (int c = 0; c < 6 && columns[show][c].head; c++)
        if (has_values(v, q, &columns[show][c])) used[n_used++] = &columns[show][c];
    if (n_used == 0 && is_published) used[n_used++] = &columns[show][0];
    if (n_used == 0) {
        ls__page_note(v->p, "Nothing of this (%s) was recorded.", ls__lab_show_words[show]);
        return;
    }
    for (int c = 0; c < n_used; c++) cells[c + 1] = used[c]->head;
    cells[n_used + 1] = "published, another machine";
    ls__page_row(v->p, cells, n_used + 1 + is_published);
    for (int i = 0; i < q->n_runs; i++) {
        int run = q->runs[i];
        cells[0] = v->lab->runs[run].name;
        for (int c = 0; c < n_used; c++) {
            struct ls_spread s = ls__lab_spread(v, run, used[c]->measure);
            cells[c + 1] = ls__lab_say_spread(v->p, &s, used[c]->scale);
        }
        cells[n_used + 1] = ls__lab_say_published(v->p, ls__lab_published(q, show, run), columns[show][0].scale);
        ls__page_row(v->p, cells, n_used + 1 + is_published);
    }
    if (show == LS_SHOW_BANDWIDTH)
        ls__page_note(v->p, "MB/s: what a worker sent over the time in which it communicated, hidden or not; of runs "
                            "with a parameter server what the server sent.");
    if (show == LS_SHOW_COMMUNICATION)
        ls__page_note(v->p,
                      "Seconds of the first worker. Compute: in the network, mean over its threads; update: of the "
                      "weights; communicate: for sums of others, with nothing to compute meanwhile; hidden: "
                      "communication behind computing, in none of the others; wait: threads without work, for the "
                      "last one or for other workers (a single process waits too), of a parameter server's workers all "
                      "that is not computing while the server trains, not while it evaluates or saves; load: for the "
                      "next batch. Shares in the sentences are of compute, update, communicate, wait and load "
                      "together.");
}

/* --- speed-up --- */

/* What was published, or what follows from published times. */
static const char *published_speedup(const struct ls_lab_view *v, const struct ls_lab_question *q, int run)
{
    const struct ls_lab_published *given = ls__lab_published(q, LS_SHOW_SPEEDUP, run),
                                  *mine = ls__lab_published(q, LS_SHOW_TIME, run),
                                  *base = ls__lab_published(q, LS_SHOW_TIME, q->baseline);
    if (given) return ls__lab_say_published(v->p, given, 1);
    if (!mine || !base || mine->is_unsure || base->is_unsure) return "";
    return ls__page_format(v->p, "%.2f", (base->low + base->high) / (mine->low + mine->high));
}

/* Range of the ratio: the worst of the one over the best of the other. */
static const char *ratio_text(const struct ls_lab_view *v, const struct ls_spread *a, const struct ls_spread *b)
{
    if (a->n == 0 || b->n == 0) return "";
    if (a->n == 1 && b->n == 1) return ls__page_format(v->p, "%.2f", a->median / b->median);
    return ls__page_format(v->p, "%.2f (%.2f to %.2f)", a->median / b->median, a->low / b->high, a->high / b->low);
}

static bool has_reference(const struct ls_lab_view *v, const struct ls_lab_question *q)
{
    for (int i = 0; i < q->n_runs; i++)
        if (ls__lab_reference(v, q, q->runs[i]) >= 0) return true;
    return false;
}

static void add_speedups(const struct ls_lab_view *v, const struct ls_lab_question *q)
{
    bool is_published = false, has_ideal = has_reference(v, q);
    const char *cells[8] = {"run", "workers", "threads of each", "images/s", "speed-up", "against", "of the ideal (%)"};
    struct ls_spread base = ls__lab_spread(v, q->baseline, LS_LAB_RATE);
    int n_own = has_ideal ? 7 : 5;
    for (int i = 0; i < q->n_runs; i++) is_published |= *published_speedup(v, q, q->runs[i]) != '\0';
    cells[n_own] = "published, another machine";
    ls__page_row(v->p, cells, n_own + is_published);
    for (int i = 0; i < q->n_runs; i++) {
        int run = q->runs[i], reference = ls__lab_reference(v, q, run);
        struct ls_spread rate = ls__lab_spread(v, run, LS_LAB_RATE);
        cells[0] = v->lab->runs[run].name;
        cells[1] = ls__say_count(v->p, ls__lab_workers(v, run));
        cells[2] = ls__say_count(v->p, ls__lab_threads(v, run));
        cells[3] = ls__lab_say_spread(v->p, &rate, 1);
        cells[4] = ratio_text(v, &rate, &base);
        cells[5] = cells[6] = "";
        if (reference >= 0) {
            struct ls_spread one = ls__lab_spread(v, reference, LS_LAB_RATE);
            double ideal = ls__lab_units(v, run) / ls__lab_units(v, reference);
            cells[5] = v->lab->runs[reference].name;
            cells[6] = ls__page_format(v->p, "%.0f", 100 * rate.median / one.median / ideal);
        }
        cells[n_own] = published_speedup(v, q, run);
        ls__page_row(v->p, cells, n_own + is_published);
    }
    ls__page_note(
        v->p, "Speed-up is images per second, checkpoints included, over those of %s.%s",
        v->lab->runs[q->baseline].name,
        has_ideal ? " Of the ideal: the speed-up over the run named under `against`, which has the fewest workers of "
                    "the same training, divided by what is ideal: how many times as much computed, workers times "
                    "threads, at most the cores of the machine that they share."
                  : "");
}

/* --- curves --- */

static void add_curves(const struct ls_lab_view *v, const struct ls_lab_question *q)
{
    static const char *const head[] = {
        "run", "steps", "first loss logged", "last loss logged", "best test accuracy (%)", "at step"};
    enum { N = sizeof head / sizeof head[0] };
    int n = N - 2; /* without what no run has */
    for (int i = 0; i < q->n_runs; i++) {
        const struct ls_history *h = ls__lab_first(v, q->runs[i]);
        if (h && ls_curve_values(ls_history_curve(h, "test"), "accuracy")) n = N;
    }
    ls__page_row(v->p, head, n);
    for (int i = 0; i < q->n_runs; i++) {
        const struct ls_history *h = ls__lab_first(v, q->runs[i]);
        const struct ls_curve *train = h ? ls_history_curve(h, "train") : NULL,
                              *test = h ? ls_history_curve(h, "test") : NULL;
        const double *losses = ls_curve_values(train, "loss"), *accuracy = ls_curve_values(test, "accuracy"),
                     *steps = ls_curve_values(test, "step");
        size_t best = 0;
        for (size_t k = 0; test && accuracy && k < test->n; k++)
            if (accuracy[k] > accuracy[best]) best = k;
        bool has_test = test && accuracy && steps && test->n > 0, has_loss = train && losses && train->n > 0;
        const char *cells[N] = {v->lab->runs[q->runs[i]].name,
                                h ? ls__say_count(v->p, ls_history_number(h, "steps")) : "",
                                has_loss ? ls__page_format(v->p, "%.4f", losses[0]) : "",
                                has_loss ? ls__page_format(v->p, "%.4f", losses[train->n - 1]) : "",
                                has_test ? ls__page_format(v->p, "%.2f", 100 * accuracy[best]) : "",
                                has_test ? ls__say_count(v->p, steps[best]) : ""};
        ls__page_row(v->p, cells, n);
    }
    ls__page_note(v->p, "This table is of the first repeat of each run.");
}

void ls__lab_tables(const struct ls_lab_view *v, const struct ls_lab_question *q, enum ls_lab_show show)
{
    switch (show) {
    case LS_SHOW_SPEEDUP:
        add_speedups(v, q);
        break;
    case LS_SHOW_CURVES:
        add_curves(v, q);
        break;
    case LS_SHOW_HASH:
        ls__lab_hash_table(v, q);
        break;
    case LS_SHOW_NODES:
        ls__lab_nodes_table(v, q);
        break;
    default:
        add_measures(v, q, show);
        break;
    }
}
