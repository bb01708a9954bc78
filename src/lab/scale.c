/* scale.c: the same lab in less time. `--scale 1/16` trains a sixteenth of the images: fewer epochs, then fewer steps.
 *
 * Below LS_LAB_SMALL_SCALE the batches of all runs shrink alike, by what is left, so that what a lab compares stays
 * apart, down to LEAST images; learning rates shrink with them. Nothing has fewer than MIN_STEPS steps.
 */
#include "base/parse.h"
#include "lab/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    MIN_STEPS = 3,
    LEAST = 8,
    LEAST_EACH = 2,
    USUAL_BATCH = 128,
    USUAL_EPOCHS = 5,
    POINTS = 25,
    LOGGED_ANYWAY = 500
};

bool ls__lab_parse_scale(const char *text, double *scale)
{
    char head[32] = "";
    const char *slash = strchr(text, '/');
    double above, below = 1;
    if (slash && (size_t)(slash - text) >= sizeof head) return false;
    if (slash) snprintf(head, sizeof head, "%.*s", (int)(slash - text), text);
    if (!ls__parse_f64(slash ? head : text, &above) || (slash && !ls__parse_f64(slash + 1, &below))) return false;
    *scale = above / below;
    return below > 0 && *scale > 0 && *scale <= 1;
}

static int64_t number(const struct ls_lab_job *job, const char *key, int64_t usual)
{
    const char *text = ls__lab_job_setting(job, key);
    int64_t n;
    return text && ls__parse_i64(text, 1, INT64_MAX / 1024, &n) ? n : usual;
}

/* Workers, or nodes with processes each. */
static int64_t count_workers(const struct ls_lab_job *job)
{
    const int64_t nodes = number(job, "nodes", 1) * number(job, "procs-per-node", 1),
                  workers = number(job, "workers", 1);
    return nodes > workers ? nodes : workers;
}

/* Down to LEAST, whatever the workers: runs that differ in their number train the same batch. */
static double shrink_batch(double batch, double scale, bool is_per_worker)
{
    const double least = is_per_worker ? LEAST_EACH : LEAST;
    if (scale >= LS_LAB_SMALL_SCALE) return batch;
    return fmin(batch, fmax(least, round(batch * scale / LS_LAB_SMALL_SCALE)));
}

void ls__lab_scale(const struct ls_lab_job *job, double scale, int64_t images, struct ls_lab_scaled *out)
{
    const bool is_per_worker = ls__lab_job_setting(job, "batch-per-worker");
    const char *rate = ls__lab_job_setting(job, "lr");
    const int64_t epochs = number(job, "epochs", USUAL_EPOCHS), iterations = number(job, "iterations", 0),
                  every = number(job, "checkpoint-every", 0);
    const double batch = (double)number(job, is_per_worker ? "batch-per-worker" : "batch-size", USUAL_BATCH),
                 new_batch = shrink_batch(batch, scale, is_per_worker),
                 workers = is_per_worker ? (double)count_workers(job) : 1;
    const double trained = iterations ? (double)iterations * batch * workers : (double)epochs * (double)images;
    const double steps = trained / (batch * workers),
                 new_steps = fmax(MIN_STEPS, round(trained * scale / (new_batch * workers)));
    double lr;
    *out = (struct ls_lab_scaled){0};
    if (scale >= 1) return;
    if (new_batch < batch) out->batch = (int64_t)new_batch;
    if (new_batch < batch && rate && ls__parse_f64(rate, &lr)) out->lr = lr * new_batch / batch;
    const bool is_by_epochs = !iterations && (images <= 0 || (double)epochs * scale >= 1);
    if (!iterations) out->epochs = (int64_t)fmax(1, round((double)epochs * scale));
    if (!is_by_epochs) out->iterations = (int64_t)new_steps;
    if (every && steps > 0) out->checkpoint_every = (int64_t)fmax(1, round((double)every * new_steps / steps));
    const bool has_few = out->iterations > 0 && out->iterations < LOGGED_ANYWAY;
    if (has_few && !ls__lab_job_setting(job, "log-every")) out->log_every = (out->iterations + POINTS - 1) / POINTS;
}
