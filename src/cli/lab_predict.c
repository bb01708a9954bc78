/* lab_predict.c: how long a run of a lab will take, and what it leaves on disk.
 *
 * A step takes a + b * images: both are measured by a few steps on random images at two batch sizes, once for each
 * model, image size, device and precision. The larger one is at least a quarter of the batch to be trained, unless a
 * step of it takes more than a second: of a network whose many weights cost more than a few images do, a step of few
 * says nothing of one of many. Evaluation costs a third of that per image (forward alone). Images are those of the data
 * set as it is here. On a shaped network the sums of a step travel for 2 (n-1)/n times their bytes, to k parameter
 * servers and back for n/k times. Of n nodes the slow one computes as much less as it is slower, unless all have to
 * compute the same. Rough on purpose: the time left follows what runs really took.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/parse.h"
#include "cli/lab_rules.h"
#include "cli/options.h"
#include "cli/slow.h"
#include "lockstep/measure.h"
#include "model/model.h"
#include "predict/predict.h"
#include "settings/setting.h"
#include "settings/sync_names.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rate {
    char model[256], device[16], precision[8];
    int64_t c, h, w;
    double step_seconds, image_seconds; /* NAN: could not be measured */
    double largest;                     /* batch that this is good for */
    double parameters;
    struct rate *next;
};

struct ls_lab_rates {
    struct rate *first;
    struct ls_lab_counts *counts;
};

enum ls_status ls__lab_rates_create(struct ls_lab_rates **out, struct ls_lab_counts *counts)
{
    TRY(ls__calloc(out, 1, sizeof **out));
    (*out)->counts = counts;
    return LS_OK;
}

void ls__lab_rates_destroy(struct ls_lab_rates **rates)
{
    for (struct rate *r = *rates ? (*rates)->first : NULL, *next; r; r = next) {
        next = r->next;
        free(r);
    }
    free(*rates);
    *rates = NULL;
}

/* --- measuring --- */

static double step_seconds(const struct rate *r, const char *data, int64_t batch, int64_t steps)
{
    const struct ls_bench_options o = {.model = r->model,
                                       .device = r->device,
                                       .isa = "native",
                                       .data = data,
                                       .batch_size = batch,
                                       .warmup = 1,
                                       .steps = steps,
                                       .seconds = 0.1,
                                       .precision = r->precision};
    struct ls_bench_result result = {0};
    double seconds = NAN;
    if (ls_bench(&o, &result) == LS_OK)
        seconds = result.ms_per_step_best / 1e3;
    else
        ls__log(LS_LOG_DEBUG, "%s on %s cannot be measured: %s", r->model, data, ls_error_message());
    free(result.ops);
    return seconds;
}

/* The best of several steps: a busy machine makes single ones longer. Of long ones fewer will do. */
static void measure_steps(struct rate *r, const char *data, double batch)
{
    enum { GROWTH = 4, BEST_OF = 3 };
    const double is_long = 1;
    int64_t small = r->h >= 64 ? 2 : 16;
    double a = step_seconds(r, data, small, BEST_OF);
    for (;;) {
        const int64_t large = GROWTH * small;
        const double b = step_seconds(r, data, large, GROWTH * a > is_long ? 1 : BEST_OF);
        r->image_seconds = fmax(b - a, 0.25 * b) / (double)(large - small);
        r->step_seconds = fmax(0, b - r->image_seconds * (double)large);
        r->largest = b > is_long || !isfinite(b) ? INFINITY : (double)(GROWTH * large);
        if (r->largest >= batch) return;
        small = large;
        a = b;
    }
}

static void measure(struct rate *r, int n_classes, double batch)
{
    char data[128];
    struct ls_model *model;
    struct ls_model_summary summary = {0};
    snprintf(data, sizeof data, "fake:%" PRId64 "x%" PRId64 "x%" PRId64 ":%d:256", r->c, r->h, r->w, n_classes);
    if (ls_model_load(&model, r->model) == LS_OK) {
        if (ls_model_summarize(model, (int)r->c, (int)r->h, (int)r->w, n_classes, &summary) == LS_OK)
            r->parameters = (double)summary.parameters;
        ls_model_destroy(&model);
    }
    ls__log_progress("predicting: measuring a few steps");
    measure_steps(r, data, batch);
    ls__log_progress("");
}

static struct rate *find_rate(struct ls_lab_rates *rates, const char *model, const char *data, const char *device,
                              const char *precision, double batch)
{
    int64_t dims[3];
    int n_classes;
    struct rate *r;
    if (!model || !data || !ls__lab_shape(data, dims, &n_classes)) return NULL;
    for (r = rates->first; r; r = r->next)
        if (!strcmp(r->model, model) && !strcmp(r->device, device) && !strcmp(r->precision, precision) &&
            r->c == dims[0] && r->h == dims[1] && r->w == dims[2] && batch <= r->largest)
            return r;
    r = calloc(1, sizeof *r);
    if (!r) return NULL;
    snprintf(r->model, sizeof r->model, "%s", model);
    snprintf(r->device, sizeof r->device, "%s", device);
    snprintf(r->precision, sizeof r->precision, "%s", precision);
    r->c = dims[0];
    r->h = dims[1];
    r->w = dims[2];
    r->next = rates->first;
    rates->first = r;
    measure(r, n_classes, batch);
    return r;
}

/* --- predicting --- */

static double number(const struct ls_lab_job *job, const char *key, double usual)
{
    const char *text = ls__lab_job_setting(job, key);
    double value;
    return text && ls__parse_f64(text, &value) ? value : usual;
}

static bool is_on(const struct ls_lab_job *job, const char *key)
{
    const char *text = ls__lab_job_setting(job, key);
    return text && strcmp(text, "on") == 0;
}

/* What a step waits for a shaped network; 0 without one. Sums are numbers of 8 bytes, parameters of 4. */
static double wire_seconds(const struct ls_lab_job *job, double parameters, double nodes)
{
    const char *text = ls__lab_job_setting(job, "network"), *sync = ls__lab_job_setting(job, "sync");
    struct ls_cable_shape shape;
    if (!text || nodes < 2 || !ls__option_network(text, &shape)) return 0;
    double bytes = 2 * (nodes - 1) / nodes * 8 * parameters, trips = 2 * (nodes - 1);
    if (sync && ls__sync_is_served(sync)) {
        bytes = fmax(1, nodes / number(job, "servers", 1)) * (8 + 4) * parameters;
        if (strcmp(sync, "ps") != 0) bytes /= nodes; /* each for itself */
        trips = 2;
    }
    const double bandwidth = shape.bits_per_second / 8 * LS_LINE_TO_DATA;
    return (bandwidth > 0 ? bytes / bandwidth : 0) + trips * shape.delay;
}

/* How many times longer the computing of a step is for a node that is held back. */
static double slowness(const struct ls_lab_job *job, double nodes)
{
    const char *text = ls__lab_job_setting(job, "slow"), *balance = ls__lab_job_setting(job, "balance");
    int64_t node;
    double factor;
    if (!text || !ls__slow_parse(text, &node, &factor)) return 1;
    if (balance && strcmp(balance, "off") == 0) return factor;
    return nodes / (nodes - 1 + 1 / factor);
}

void ls__lab_predict(void *context, const struct ls_lab_job *job, double *seconds, double *bytes)
{
    enum { USUAL_KEEP = 2, FILES = 3 << 20 };
    const double hosts = (double)ls__count_hosts(ls__lab_job_setting(job, "hosts")),
                 machines = fmax(hosts, number(job, "nodes", 0)), each = number(job, "procs-per-node", 1),
                 workers = fmax(fmax(machines * each, number(job, "workers", 1)), 1);
    const double batch = ls__lab_job_setting(job, "batch-per-worker") ? number(job, "batch-per-worker", 1) * workers
                                                                      : number(job, "batch-size", 128);
    const char *data = ls__lab_job_setting(job, "data"), *every = ls__lab_job_setting(job, "checkpoint-every"),
               *device = ls__lab_job_setting(job, "device"), *precision = ls__lab_job_setting(job, "precision");
    struct ls_train_options usual;
    ls_train_options_default(&usual);
    if (device) usual.device = device;
    if (precision) usual.precision = precision;
    ls__options_complete(&usual); /* auto becomes what it is here */
    const struct rate *r = find_rate(context, ls__lab_job_setting(job, "model"), data, usual.device, usual.precision,
                                     hosts > 0 ? batch / hosts : batch);
    *seconds = *bytes = NAN;
    if (!r) return;
    const struct ls_lab_rates *rates = context;
    const double images = (double)ls__lab_images(rates->counts, job, false), iterations = number(job, "iterations", 0);
    double steps = number(job, "epochs", 5) * ceil(images / batch);
    if (iterations > 0) steps = iterations;
    const double epochs = images > 0 ? fmax(1, steps * batch / images) : 1;
    const double evaluations = is_on(job, "no-eval") ? 0 : number(job, "eval-every", 1) == 0 ? 1 : epochs;
    const double start = workers > 1 ? 1.5 : 0.2,
                 n_test = evaluations > 0 ? (double)ls__lab_images(rates->counts, job, true) : 0;
    *seconds = start +
               steps * ((r->step_seconds + batch / fmax(1, hosts) * r->image_seconds) *
                            slowness(job, machines > 0 ? machines : workers) +
                        wire_seconds(job, r->parameters, number(job, "nodes", 0))) +
               evaluations * n_test * r->image_seconds / 3;
    *bytes = FILES + (every && !strcmp(every, "none") ? 0 : (number(job, "keep", USUAL_KEEP) + 1) * 8 * r->parameters);
}
