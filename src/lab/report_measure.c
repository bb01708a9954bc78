/* report_measure.c: numbers of runs, over their repeats (report_impl.h). */
#include "lab/report_impl.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- one run directory --- */

static const char *const paths[LS_N_LAB_MEASURES] = {
    [LS_LAB_IN_ALL] = "total_seconds",
    [LS_LAB_CHECKPOINT] = "seconds.checkpoint",
    [LS_LAB_EVALUATE] = "seconds.evaluate",
    [LS_LAB_ACCURACY] = "test_accuracy",
    [LS_LAB_TEST_LOSS] = "test_loss",
    [LS_LAB_TRAIN_LOSS] = "train_loss",
    [LS_LAB_CPU] = "cpu_percent_mean",
    [LS_LAB_MEMORY] = "peak_rss_bytes",
    [LS_LAB_COMPUTE] = "seconds.compute",
    [LS_LAB_UPDATE] = "seconds.update",
    [LS_LAB_COMMUNICATE] = "seconds.communicate",
    [LS_LAB_WAIT] = "seconds.wait",
    [LS_LAB_LOAD] = "seconds.load",
    [LS_LAB_HIDDEN] = "seconds.hidden",
    [LS_LAB_BYTES] = "bytes_sent",
    [LS_LAB_TARGET_TRAIN] = "target_train_seconds",
    [LS_LAB_TARGET_ALL] = "target_total_seconds",
    [LS_LAB_TARGET_EPOCH] = "target_epoch",
    [LS_LAB_PREDICTED] = "step_seconds.predicted",
};

double *ls__lab_added(struct ls_page *p, const struct ls_history *h, const char *column, const double **times,
                      size_t *n)
{
    const struct ls_curve *first = ls_history_resources(h, 0);
    if (!first || first->n == 0 || !ls_curve_values(first, column)) return NULL;
    double *sum = ls__page_alloc(p, first->n, sizeof *sum);
    *times = first->values[0];
    *n = first->n;
    for (int rank = 0; sum && rank < ls_history_n_ranks(h); rank++) {
        const struct ls_curve *c = ls_history_resources(h, rank);
        const double *values = ls_curve_values(c, column);
        for (size_t i = 0, at = 0; values && c->n > 0 && i < *n; i++) { /* its last sample until then */
            while (at + 1 < c->n && c->values[0][at + 1] <= (*times)[i]) at++;
            if (isfinite(values[at]) && c->values[0][at] <= (*times)[i]) sum[i] += values[at];
        }
    }
    return sum;
}

static double cpu_peak(const struct ls_lab_view *v, const struct ls_history *h)
{
    const double *times;
    size_t n = 0;
    double most = NAN, *sum = ls__lab_added(v->p, h, "cpu", &times, &n);
    for (size_t i = 0; sum && i < n; i++) most = fmax(most, sum[i]);
    return most;
}

bool ls__lab_is_served(const struct ls_history *h)
{
    return json_is_object(json_object_get(ls_history_result(h), "elastic"));
}

/* The server is rank 0 and computes nothing: what a run did with its time is told by its first worker, and all of them
 * use CPU. NULL: there is no server. */
static const json_t *first_worker(const struct ls_history *h)
{
    const json_t *result = ls_history_result(h);
    json_t *one;
    size_t i;
    if (!ls__lab_is_served(h)) return NULL;
    json_array_foreach(json_object_get(result, "ranks"), i, one)
    {
        if (json_number_value(json_object_get(one, "images")) > 0) return one;
    }
    return NULL;
}

static double part_of(const struct ls_history *h, enum ls_lab_measure m)
{
    const char *name = strchr(paths[m], '.') + 1;
    const json_t *worker = first_worker(h), *value = json_object_get(worker, name);
    return json_is_number(value) ? json_number_value(value) : ls_history_number(h, paths[m]);
}

static double cpu_mean(const struct ls_lab_view *v, const struct ls_history *h)
{
    const double *times;
    size_t n = 0;
    double *sum = first_worker(h) ? ls__lab_added(v->p, h, "cpu", &times, &n) : NULL, all = 0;
    for (size_t i = 0; sum && i < n; i++) all += sum[i];
    return sum && n > 0 ? all / (double)n : ls_history_number(h, paths[LS_LAB_CPU]);
}

/* Of the ranks that sent, and recorded when: bytes over the time in which they communicated, hidden or not. A server's
 * workers tell only of computing, and count nothing. */
static double byte_rate(const struct ls_history *h)
{
    json_t *ranks = json_object_get((json_t *)ls_history_result(h), "ranks"), *one;
    double bytes = 0, seconds = 0;
    size_t i;
    json_array_foreach(ranks, i, one)
    {
        const double sent = json_number_value(json_object_get(one, "bytes_sent")),
                     time = json_number_value(json_object_get(one, "communicate")) +
                            json_number_value(json_object_get(one, "hidden"));
        if (sent <= 0 || time <= 0) continue;
        bytes += sent;
        seconds += time;
    }
    return seconds > 0 ? bytes / seconds : NAN;
}

static double time_of(const struct ls_history *h)
{
    const double held_up = ls_history_number(h, "seconds.checkpoint");
    return ls_history_number(h, "train_seconds") + (held_up > 0 ? held_up : 0);
}

static double value_of(const struct ls_lab_view *v, const struct ls_history *h, enum ls_lab_measure m)
{
    double steps = ls_history_number(h, "steps");
    switch (m) {
    case LS_LAB_TIME:
        return time_of(h);
    case LS_LAB_RATE:
        return time_of(h) > 0 ? ls_history_number(h, "images") / time_of(h) : NAN;
    case LS_LAB_CPU:
        return cpu_mean(v, h);
    case LS_LAB_CPU_PEAK:
        return cpu_peak(v, h);
    case LS_LAB_COMPUTE:
    case LS_LAB_UPDATE:
    case LS_LAB_COMMUNICATE:
    case LS_LAB_WAIT:
    case LS_LAB_LOAD:
    case LS_LAB_HIDDEN:
        return part_of(h, m);
    case LS_LAB_SPENT:
        return part_of(h, LS_LAB_COMPUTE) + part_of(h, LS_LAB_UPDATE) + part_of(h, LS_LAB_COMMUNICATE) +
               part_of(h, LS_LAB_WAIT) + part_of(h, LS_LAB_LOAD);
    case LS_LAB_BYTES_STEP:
        return steps > 0 ? ls_history_number(h, "bytes_sent") / steps : NAN;
    case LS_LAB_BYTE_RATE:
        return byte_rate(h);
    case LS_LAB_STEP:
        return steps > 0 ? ls_history_number(h, "train_seconds") / steps : NAN;
    case LS_LAB_FORECAST_ERROR:
        return value_of(v, h, LS_LAB_PREDICTED) / value_of(v, h, LS_LAB_STEP) - 1;
    default:
        return ls_history_number(h, paths[m]);
    }
}

/* --- over the repeats --- */

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static enum ls_lab_digits digits_of(enum ls_lab_measure m)
{
    switch (m) {
    case LS_LAB_ACCURACY:
        return LS_LAB_HUNDREDTHS;
    case LS_LAB_TARGET_EPOCH:
        return LS_LAB_WHOLE;
    case LS_LAB_TIME:
    case LS_LAB_IN_ALL:
    case LS_LAB_CHECKPOINT:
    case LS_LAB_EVALUATE:
    case LS_LAB_COMPUTE:
    case LS_LAB_UPDATE:
    case LS_LAB_COMMUNICATE:
    case LS_LAB_WAIT:
    case LS_LAB_LOAD:
    case LS_LAB_SPENT:
    case LS_LAB_HIDDEN:
    case LS_LAB_TARGET_TRAIN:
    case LS_LAB_TARGET_ALL:
        return LS_LAB_SECONDS;
    default:
        return LS_LAB_USUAL;
    }
}

struct ls_spread ls__lab_spread_of(double *values, int n, enum ls_lab_digits digits)
{
    if (n == 0) return (struct ls_spread){0, NAN, NAN, NAN, digits};
    qsort(values, (size_t)n, sizeof *values, by_size);
    return (struct ls_spread){n, (values[(n - 1) / 2] + values[n / 2]) / 2, values[0], values[n - 1], digits};
}

struct ls_spread ls__lab_spread(const struct ls_lab_view *v, int run, enum ls_lab_measure m)
{
    const struct ls_lab_seen *seen = &v->seen[run];
    double values[LS_LAB_MAX_REPEATS];
    int n = 0;
    for (int k = 0; k < seen->n_done; k++) {
        double value = value_of(v, seen->done[k], m);
        if (isfinite(value)) values[n++] = value;
    }
    return ls__lab_spread_of(values, n, digits_of(m));
}

struct ls_spread ls__lab_share(const struct ls_lab_view *v, int run, enum ls_lab_measure part)
{
    const struct ls_lab_seen *seen = &v->seen[run];
    double values[LS_LAB_MAX_REPEATS];
    int n = 0;
    for (int k = 0; k < seen->n_done; k++) {
        const double value = value_of(v, seen->done[k], part) / value_of(v, seen->done[k], LS_LAB_SPENT);
        if (isfinite(value)) values[n++] = value;
    }
    return ls__lab_spread_of(values, n, LS_LAB_USUAL);
}

const struct ls_history *ls__lab_first(const struct ls_lab_view *v, int run)
{
    return v->seen[run].n_done > 0 ? v->seen[run].done[0] : NULL;
}

double ls__lab_workers(const struct ls_lab_view *v, int run)
{
    const struct ls_history *h = ls__lab_first(v, run);
    return h ? ls_history_number(h, "workers") : NAN;
}

double ls__lab_threads(const struct ls_lab_view *v, int run)
{
    const struct ls_history *h = ls__lab_first(v, run);
    return h ? ls_history_number(h, "threads") : NAN;
}

static bool is_on_cores(const struct ls_history *h)
{
    const char *device = h ? ls_history_text(h, "device") : NULL;
    return device && (strcmp(device, "cpu") == 0 || strcmp(device, "ref") == 0);
}

const char *ls__lab_unit_name(const struct ls_lab_view *v, int run)
{
    return is_on_cores(ls__lab_first(v, run)) ? "core" : "device";
}

/* If nobody had to share. */
static double units_wanted(const struct ls_lab_view *v, int run)
{
    return ls__lab_workers(v, run) * (is_on_cores(ls__lab_first(v, run)) ? ls__lab_threads(v, run) : 1);
}

bool ls__lab_is_crowded(const struct ls_lab_view *v, int run, double *n)
{
    const struct ls_history *h = ls__lab_first(v, run);
    *n = h ? ls_history_number(h, is_on_cores(h) ? "machine.cpus" : "machine.devices") : NAN;
    return h && !ls_history_text(h, "launch.hosts") && units_wanted(v, run) > *n;
}

double ls__lab_units(const struct ls_lab_view *v, int run)
{
    double n;
    return ls__lab_is_crowded(v, run, &n) ? n : units_wanted(v, run);
}

enum ls_lab_verdict ls__lab_compare(const struct ls_spread *a, const struct ls_spread *b)
{
    if (a->n == 0 || b->n == 0) return LS_LAB_UNKNOWN;
    return a->low <= b->high && b->low <= a->high ? LS_LAB_NOISE : LS_LAB_DIFFERS;
}

enum ls_lab_verdict ls__lab_compare_accuracy(const struct ls_spread *a, const struct ls_spread *b, double n_test)
{
    enum ls_lab_verdict verdict = ls__lab_compare(a, b);
    if (verdict != LS_LAB_DIFFERS || !(n_test > 0)) return verdict;
    double variance = (a->median * (1 - a->median) + b->median * (1 - b->median)) / n_test;
    return fabs(a->median - b->median) > 1.96 * sqrt(variance) ? LS_LAB_DIFFERS : LS_LAB_NOISE;
}

/* --- settings --- */

const char *ls__lab_given(const struct ls_lab_view *v, int run, const char *key)
{
    const struct ls_lab_job *job = ls__lab_find_job(v->state, run, 1);
    for (int i = 0; job && i < job->n_settings; i++)
        if (strcmp(job->settings[i].key, key) == 0) return job->settings[i].value;
    return job ? NULL : ls__lab_setting(&v->lab->runs[run], key);
}

static bool is_one_of(const char *key, const char *const *keys)
{
    for (; *keys; keys++)
        if (strcmp(key, *keys) == 0) return true;
    return false;
}

/* How many workers, and where; what is written; and how long, which speed does not depend on. */
static const char *const of_length[] = {"iterations",       "epochs",    "workers", "nodes",
                                        "procs-per-node",   "network",   "hosts",   "threads",
                                        "checkpoint-every", "log-every", NULL};
static const char *const *const of_workers = of_length + 2;

/* Whether run b was given all that run a was, but for some keys. */
static bool has_all_of(const struct ls_lab_view *v, int a, int b, const char *const *but)
{
    const struct ls_lab_job *job = ls__lab_find_job(v->state, a, 1);
    for (int i = 0; job && i < job->n_settings; i++) {
        if (is_one_of(job->settings[i].key, but)) continue;
        const char *other = ls__lab_given(v, b, job->settings[i].key);
        if (!other || strcmp(other, job->settings[i].value) != 0) return false;
    }
    return job != NULL;
}

bool ls__lab_is_same_training(const struct ls_lab_view *v, int a, int b)
{
    return has_all_of(v, a, b, of_workers) && has_all_of(v, b, a, of_workers);
}

static int count_differences(const struct ls_lab_run *a, const struct ls_lab_run *b)
{
    int n = 0;
    for (int i = 0; i < a->n_settings; i++) {
        const char *other = ls__lab_setting(b, a->settings[i].key);
        n += !other || strcmp(other, a->settings[i].value) != 0;
    }
    for (int i = 0; i < b->n_settings; i++) n += !ls__lab_setting(a, b->settings[i].key);
    return n;
}

int ls__lab_partner(const struct ls_lab_view *v, const struct ls_lab_question *q, int run)
{
    const struct ls_lab_run *runs = v->lab->runs;
    int best = q->baseline;
    if (run == q->baseline) return -1;
    for (int i = 0; i < q->n_runs && q->runs[i] != run; i++)
        if (count_differences(&runs[run], &runs[q->runs[i]]) < count_differences(&runs[run], &runs[best]))
            best = q->runs[i];
    return best;
}

int ls__lab_reference(const struct ls_lab_view *v, const struct ls_lab_question *q, int run)
{
    int best = -1;
    for (int i = 0; i < q->n_runs; i++) {
        int r = q->runs[i];
        if (r == run || !(ls__lab_workers(v, r) < ls__lab_workers(v, run))) continue;
        if (!has_all_of(v, run, r, of_length) || !has_all_of(v, r, run, of_length)) continue;
        if (best < 0 || ls__lab_workers(v, r) < ls__lab_workers(v, best)) best = r;
    }
    return best;
}

const struct ls_lab_published *ls__lab_published(const struct ls_lab_question *q, enum ls_lab_show what, int run)
{
    for (int i = 0; i < q->n_published; i++)
        if (q->published[i].what == what && q->published[i].run == run) return &q->published[i];
    return NULL;
}
