/* report_facts.c: what the numbers of a report depend on: which images were there, and how busy the machine was with
 * other programs (report_impl.h).
 */
#include "lab/report_impl.h"

#include "report/words.h"

#include <math.h>
#include <string.h>

/* --- images --- */

/* Of a run; NAN where the manifest does not say. */
struct images {
    double train, validation, test;   /* validation: cut off from the training images; 0: none */
    double published, published_test; /* 0: not a published set */
};

static double or_none(double value)
{
    return value > 0 ? value : 0;
}

static struct images images_of(const struct ls_lab_view *v, int run)
{
    const struct ls_history *h = ls__lab_first(v, run);
    const char *data = ls__lab_given(v, run, "data");
    struct images n = {.train = NAN, .test = NAN};
    if (!h || !data) return n;
    n.train = ls_history_number(h, "train_data.images");
    n.validation = or_none(ls_history_number(h, "validation_data.images"));
    n.test = ls_history_number(h, "test_data.images");
    if (!v->ask->published_images) return n;
    n.published = (double)v->ask->published_images(data, false);
    n.published_test = (double)v->ask->published_images(data, true);
    return n;
}

static bool is_part(const struct images *n)
{
    return n->train + n->validation < n->published || n->test < n->published_test;
}

/* ", all that are published", "; 73,257 and 26,032 are published" */
static const char *of_published(struct ls_page *p, const struct images *n)
{
    const bool has_test = n->test > 0, is_all = n->train + n->validation == n->published;
    if (!(n->published > 0)) return "";
    if (is_all && (!has_test || n->test == n->published_test)) return ", all that are published";
    if (!has_test) return ls__page_format(p, "; %s are published", ls__say_count(p, n->published));
    return ls__page_format(p, "; %s and %s are published", ls__say_count(p, n->published),
                           ls__say_count(p, n->published_test));
}

static const char *fact_of(const struct ls_lab_view *v, int run, const struct images *n)
{
    struct ls_page *p = v->p;
    const char *validation = "", *test = "";
    if (n->validation > 0) validation = ls__page_format(p, ", %s more to validate on", ls__say_count(p, n->validation));
    if (n->test > 0) test = ls__page_format(p, " and %s to test on", ls__say_count(p, n->test));
    return ls__page_format(p, "Data: %s, %s images to train on%s%s%s.", ls__lab_given(v, run, "data"),
                           ls__say_count(p, n->train), validation, test, of_published(p, n));
}

void ls__lab_data_facts(const struct ls_lab_view *v)
{
    const char *told = "";
    bool is_any_part = false;
    for (int r = 0; r < v->lab->n_runs; r++) {
        const struct images n = images_of(v, r);
        if (!(n.train > 0)) continue;
        const char *fact = fact_of(v, r, &n);
        if (strstr(told, fact)) continue;
        told = ls__page_format(v->p, "%s%s\n", told, fact);
        is_any_part |= is_part(&n);
        ls__page_text(v->p, "%s", fact);
    }
    if (is_any_part)
        ls__page_text(v->p, "Where the texts of this lab, or published figures, speak of a data set they mean all of "
                            "its images; ours are of those that were there.");
}

void ls__lab_source_note(const struct ls_lab_view *v, const struct ls_lab_question *q)
{
    const char *part = "", *scale = "", *unsure = "";
    if (q->n_published == 0 || !*v->lab->source) return;
    for (int i = 0; i < q->n_published; i++) {
        const struct images n = images_of(v, q->published[i].run);
        if (is_part(&n) && n.train > 0)
            part = ls__page_format(v->p, " The published set has %s images to train on, ours %s.",
                                   ls__say_count(v->p, n.published), ls__say_count(v->p, n.train + n.validation));
        if (q->published[i].is_unsure) unsure = " (?): it is not certain that the figure is of this run.";
    }
    if (strcmp(v->state->scale, "1") != 0)
        scale = ls__page_format(v->p, " Ours is scaled to %s, theirs is not.", v->state->scale);
    ls__page_note(v->p, "Published: %s%s%s%s", v->lab->source, part, scale, unsure);
}

/* --- other programs --- */

/* Cores of others, as a mean over a training, from which on it is told as disturbed. */
#define MANY_CORES 0.3

static struct ls_spread others_of(const struct ls_lab_view *v, int run)
{
    double values[LS_LAB_MAX_REPEATS];
    int n = 0;
    for (int k = 1; k <= v->seen[run].n_asked; k++) {
        const struct ls_lab_job *job = ls__lab_find_job(v->state, run, k);
        if (!job || job->state != LS_JOB_DONE) continue;
        const double cores = job->others_seconds / job->seconds;
        if (isfinite(cores)) values[n++] = cores;
    }
    return ls__lab_spread_of(values, n, LS_LAB_HUNDREDTHS);
}

void ls__lab_warn_of_others(const struct ls_lab_view *v)
{
    const char *names = "";
    for (int r = 0; r < v->lab->n_runs; r++) {
        const struct ls_spread cores = others_of(v, r);
        if (cores.n > 0 && cores.high > MANY_CORES)
            names = ls__page_format(v->p, "%s%s%s (%.2f)", names, *names ? ", " : "", v->lab->runs[r].name, cores.high);
    }
    if (*names)
        ls__page_text(v->p,
                      "The machine was busy with other programs, so times are disturbed: in a training of these runs "
                      "others used more than %.1f cores, as a mean of all its time (the most of its repeats): %s.",
                      MANY_CORES, names);
}

bool ls__lab_others_section(const struct ls_lab_view *v)
{
    static const char *const head[] = {"run", "cores used by others, mean"};
    bool is_begun = false;
    for (int r = 0; r < v->lab->n_runs; r++) {
        const struct ls_spread cores = others_of(v, r);
        if (cores.n == 0) continue;
        if (!is_begun) {
            ls__page_heading(v->p, "How busy the machine was with others");
            ls__page_row(v->p, head, 2);
        }
        is_begun = true;
        const char *cells[] = {v->lab->runs[r].name, ls__lab_say_spread(v->p, &cores, 1)};
        ls__page_row(v->p, cells, 2);
    }
    if (is_begun)
        ls__page_note(v->p, "CPU time that other programs took while the run was trained, and time that the host of a "
                            "virtual machine gave to others, over the time of the run by the clock; of the machine "
                            "that the lab was started on.");
    return is_begun;
}
