/* scale.c: the same lab in less time. `--scale 1/16` trains a sixteenth of the images: fewer epochs, then fewer steps.
 *
 * Below LS_LAB_SMALL_SCALE the batches of all runs shrink alike, by what is left, so that what a lab compares stays
 * apart; learning rates shrink with them. Nothing has fewer than MIN_STEPS steps.
 */
#include "base/parse.h"
#include "lab/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MIN_STEPS = 3, USUAL_BATCH = 128, USUAL_EPOCHS = 5, POINTS = 25, LOGGED_ANYWAY = 500 };

bool ls__lab_parse_scale(const char *text, double *scale)
{
    char head[32];
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

void ls__lab_scale(const struct ls_lab_job *job, double scale, int64_t images, struct ls_lab_scaled *out)
{
    const bool is_per_worker = ls__lab_job_setting(job, "batch-per-worker");
    const int64_t workers = count_workers(job), epochs = number(job, "epochs", USUAL_EPOCHS),
                  iterations = number(job, "iterations", 0),
                  batch = number(job, is_per_worker ? "batch-per-worker" : "batch-size", USUAL_BATCH);
    const double shrink = scale < LS_LAB_SMALL_SCALE ? scale / LS_LAB_SMALL_SCALE : 1;
    const double least = is_per_worker ? 1 : (double)workers;
    const double new_batch = fmax(least, round((double)batch * shrink));
    const double in_all = new_batch * (is_per_worker ? (double)workers : 1);
    const double steps_before = iterations ? (double)iterations : (double)epochs * (double)images / (in_all / shrink);
    double lr;
    *out = (struct ls_lab_scaled){0};
    if (scale >= 1) return;
    const double new_steps = fmax(MIN_STEPS, round(steps_before * scale / shrink));
    if (shrink < 1) out->batch = (int64_t)new_batch;
    const char *rate = ls__lab_job_setting(job, "lr"), *every = ls__lab_job_setting(job, "checkpoint-every");
    if (rate && shrink < 1 && ls__parse_f64(rate, &lr)) out->lr = lr * shrink;
    if (iterations) {
        out->iterations = (int64_t)new_steps;
    } else if (images <= 0 || (double)epochs * scale >= 1) {
        out->epochs = (int64_t)fmax(1, round((double)epochs * scale));
    } else {
        out->epochs = 1;
        out->iterations = (int64_t)new_steps;
    }
    const int64_t between = every ? number(job, "checkpoint-every", 0) : 0;
    if (between) out->checkpoint_every = (int64_t)fmax(1, round((double)between * new_steps / fmax(1, steps_before)));
    const bool has_few = out->iterations > 0 && out->iterations < LOGGED_ANYWAY;
    if (has_few && !ls__lab_job_setting(job, "log-every")) out->log_every = (out->iterations + POINTS - 1) / POINTS;
}
