/* scale.c: the same lab in less time. `--scale 1/16` trains a sixteenth of the images: fewer epochs, then fewer steps.
 *
 * Below LS_LAB_SMALL_SCALE the batches of all runs shrink alike, by what is left, so that what a lab compares stays
 * apart, down to LEAST images; learning rates shrink with them. A checkpoint interval in steps shrinks with the steps.
 * Nothing has fewer than MIN_STEPS steps.
 *
 * What the lab asks about stays as it is: a setting that a `vary` line of the lab has is changed in no run of it, and
 * neither are checkpoint intervals that differ. What did change is told, by the plan and by the report.
 */
#include "base/buf.h"
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

/* Whether a `vary` line of the lab has it. */
static bool is_varied(const struct ls_lab *lab, const char *key)
{
    for (int r = 0; r < lab->n_runs; r++)
        for (int i = 0; i < lab->runs[r].n_settings; i++)
            if (lab->runs[r].settings[i].is_varied && strcmp(lab->runs[r].settings[i].key, key) == 0) return true;
    return false;
}

/* Whether runs of the lab have different intervals in steps. */
static bool has_intervals(const struct ls_lab *lab)
{
    int64_t first = 0, n;
    for (int r = 0; r < lab->n_runs; r++) {
        const char *every = ls__lab_setting(&lab->runs[r], "checkpoint-every");
        if (!every || !ls__parse_i64(every, 1, INT64_MAX / 1024, &n)) continue;
        if (first && n != first) return true;
        first = n;
    }
    return false;
}

void ls__lab_scale(const struct ls_lab *lab, const struct ls_lab_job *job, double scale, int64_t images,
                   struct ls_lab_scaled *out)
{
    const bool is_per_worker = ls__lab_job_setting(job, "batch-per-worker");
    const char *rate = ls__lab_job_setting(job, "lr"), *batch_key = is_per_worker ? "batch-per-worker" : "batch-size";
    const int64_t epochs = number(job, "epochs", USUAL_EPOCHS), iterations = number(job, "iterations", 0),
                  every = number(job, "checkpoint-every", 0);
    const double batch = (double)number(job, batch_key, USUAL_BATCH),
                 new_batch = is_varied(lab, batch_key) ? batch : shrink_batch(batch, scale, is_per_worker),
                 workers = is_per_worker ? (double)count_workers(job) : 1;
    const double trained = iterations ? (double)iterations * batch * workers : (double)epochs * (double)images;
    const double steps = trained / (batch * workers),
                 new_steps = fmax(MIN_STEPS, round(trained * scale / (new_batch * workers)));
    double lr;
    *out = (struct ls_lab_scaled){0};
    if (scale >= 1) return;
    if (new_batch < batch) out->batch = (int64_t)new_batch;
    if (new_batch < batch && rate && ls__parse_f64(rate, &lr) && !is_varied(lab, "lr"))
        out->lr = lr * new_batch / batch;
    if (is_varied(lab, iterations ? "iterations" : "epochs")) return;
    const bool is_by_epochs = !iterations && (images <= 0 || (double)epochs * scale >= 1);
    if (!iterations) out->epochs = (int64_t)fmax(1, round((double)epochs * scale));
    if (!is_by_epochs) out->iterations = (int64_t)new_steps;
    const bool is_every_fixed = is_varied(lab, "checkpoint-every") || has_intervals(lab);
    if (every && steps > 0 && !is_every_fixed)
        out->checkpoint_every = (int64_t)fmax(1, round((double)every * new_steps / steps));
    const bool has_few = out->iterations > 0 && out->iterations < LOGGED_ANYWAY;
    if (has_few && !ls__lab_job_setting(job, "log-every")) out->log_every = (out->iterations + POINTS - 1) / POINTS;
}

/* --- what it changed --- */

static const char *const scaled_keys[] = {"epochs",           "iterations", "batch-size",
                                          "batch-per-worker", "lr",         "checkpoint-every"};
enum { N_SCALED_KEYS = sizeof scaled_keys / sizeof *scaled_keys };

/* Whether --hosts of `lab run` stand for its nodes. Their names are not told: reports are read by others. */
static bool is_on_hosts(const struct ls_lab *lab, const struct ls_lab_job *job)
{
    return ls__lab_job_setting(job, "hosts") && !ls__lab_job_setting(job, "nodes") &&
           ls__lab_setting(&lab->runs[job->run], "nodes");
}

void ls__lab_say_changes(struct ls_buf *b, const struct ls_lab *lab, const struct ls_lab_job *job)
{
    static const char *const usual[N_SCALED_KEYS] = {"5", "whole epochs", "128", "none", "the default", "epoch"};
    const size_t before = b->len;
    for (int i = 0; i < N_SCALED_KEYS; i++) {
        const char *key = scaled_keys[i], *now = ls__lab_job_setting(job, key),
                   *then = ls__lab_setting(&lab->runs[job->run], key);
        if (!now || (then && strcmp(now, then) == 0)) continue;
        if (!then) then = usual[i];
        ls__buf_addf(b, "%s%s %s instead of %s", b->len > before ? ", " : "", key, now, then);
    }
    if (is_on_hosts(lab, job)) {
        const char *network = ls__lab_setting(&lab->runs[job->run], "network");
        ls__buf_addf(b, "%s%s hosts and their network instead of nodes made on this machine%s%s",
                     b->len > before ? ", " : "", ls__lab_setting(&lab->runs[job->run], "nodes"),
                     network ? " and network " : "", network ? network : "");
    }
}

/* Whether two runs changed alike. */
static bool is_alike(const struct ls_lab *lab, const struct ls_lab_job *a, const struct ls_lab_job *b)
{
    struct ls_buf one = LS_BUF_INIT, other = LS_BUF_INIT;
    ls__lab_say_changes(&one, lab, a);
    ls__lab_say_changes(&other, lab, b);
    const bool is_same = one.len == other.len && (one.len == 0 || memcmp(one.text, other.text, one.len) == 0);
    ls__buf_release(&one);
    ls__buf_release(&other);
    return is_same;
}

void ls__lab_say_scaled(struct ls_buf *b, const struct ls_lab *lab, const struct ls_lab_state *state,
                        const struct ls_lab_question *q)
{
    for (int i = 0; i < q->n_runs; i++) {
        const struct ls_lab_job *job = ls__lab_find_job(state, q->runs[i], 1), *other;
        struct ls_buf names = LS_BUF_INIT, changes = LS_BUF_INIT;
        int n_alike = 0, n_before = 0;
        if (job) ls__lab_say_changes(&changes, lab, job);
        for (int k = 0; changes.len && k < q->n_runs; k++) {
            other = ls__lab_find_job(state, q->runs[k], 1);
            if (!other || !is_alike(lab, job, other)) continue;
            n_before += k < i;
            n_alike++;
            ls__buf_addf(&names, "%s%s", names.len ? ", " : "", lab->runs[q->runs[k]].name);
        }
        if (changes.len && n_before == 0)
            ls__buf_addf(b, "%s%s: %s", b->len ? "\n" : "",
                         n_alike == q->n_runs && n_alike > 1 ? "all runs" : names.text, changes.text);
        if (names.failed || changes.failed) b->failed = true;
        ls__buf_release(&names);
        ls__buf_release(&changes);
    }
}

const char *ls__lab_smaller_batch(const struct ls_lab *lab, const struct ls_lab_state *state)
{
    for (int i = 0; i < state->n_jobs; i++)
        for (int k = 2; k < 4; k++) { /* the batches of scaled_keys */
            const char *now = ls__lab_job_setting(&state->jobs[i], scaled_keys[k]),
                       *then = ls__lab_setting(&lab->runs[state->jobs[i].run], scaled_keys[k]);
            if (now && (!then || strcmp(now, then) != 0)) return lab->runs[state->jobs[i].run].name;
        }
    return NULL;
}
