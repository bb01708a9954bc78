/* cmd_show.c: `lockstep show RUN...`: a run in a dozen lines, with small curves. */
#include "cli/cmd.h"
#include "cli/runs.h"
#include "cli/spark.h"
#include "report/report.h"

#include <math.h>
#include <stdio.h>

enum { CURVE_WIDTH = 48, BAR_WIDTH = 24 };

static void add_head(struct ls_buf *b, const struct ls_history *h)
{
    const char *model = ls_history_text(h, "model"), *data = ls_history_text(h, "options.data"),
               *started = ls_history_text(h, "started");
    ls__spark_text(b, ls_history_dir(h));
    ls__buf_adds(b, ": ");
    ls__spark_text(b, model ? model : "unknown model");
    ls__buf_adds(b, " on ");
    ls__spark_text(b, data ? data : "unknown data");
    ls__buf_addf(b, ", %s", ls_history_state_word(h));
    if (started) {
        ls__buf_adds(b, ", started ");
        ls__spark_text(b, started);
    }
    ls__buf_adds(b, "\n");
    if (ls_history_why(h)) {
        ls__buf_adds(b, "  why        ");
        ls__spark_text(b, ls_history_why(h));
        ls__buf_adds(b, "\n");
    } else if (ls_history_state(h) == LS_RUN_DIED) {
        const int64_t *steps;
        size_t n = ls_history_checkpoints(h, &steps);
        ls__buf_adds(b, "  why        it could not say: killed, or its machine went down; ");
        if (n)
            ls__buf_addf(b, "its newest checkpoint is of step %lld\n", (long long)steps[n - 1]);
        else
            ls__buf_adds(b, "it has no checkpoint\n");
    }
}

static double last_or(const struct ls_history *h, const char *path, const char *split, const char *value)
{
    double v = ls_history_number(h, path);
    return isfinite(v) ? v : ls_curve_last(ls_history_curve(h, split), value);
}

static void add_numbers(struct ls_buf *b, const struct ls_history *h)
{
    char text[LS_TEXT_BYTES];
    double test = last_or(h, "test_accuracy", "test", "accuracy"),
           train = last_or(h, "train_accuracy", "epoch", "accuracy");
    double seconds = ls_history_number(h, "train_seconds"),
           rate = last_or(h, "images_per_second", "train", "images_per_second");
    double memory = ls_history_number(h, "peak_rss_bytes"), cpu = ls_history_number(h, "cpu_percent_mean");
    if (!isfinite(seconds)) seconds = ls_history_seconds(h);
    if (isfinite(test))
        ls__buf_addf(b, "  accuracy   %.2f %% on test data, loss %.4g\n", 100 * test,
                     last_or(h, "test_loss", "test", "loss"));
    if (isfinite(train))
        ls__buf_addf(b, "  %-10s %.2f %% on training data, loss %.4g\n", isfinite(test) ? "" : "accuracy", 100 * train,
                     last_or(h, "train_loss", "epoch", "loss"));
    ls__buf_addf(b, "  time       %.4g s of training, %.0f step%s", seconds, ls_history_steps(h),
                 ls_history_steps(h) == 1 ? "" : "s");
    if (isfinite(rate)) ls__buf_addf(b, ", %s images/s", ls__count_text(rate, text));
    ls__buf_adds(b, "\n");
    if (isfinite(memory))
        ls__buf_addf(b, "  memory     %s at most, %.0f %% CPU on average\n", ls__bytes_text(memory, text), cpu);
    ls__buf_addf(b, "  job        batch %.0f, %.0f worker%s, %.0f thread%s, seed %.0f\n",
                 ls_history_number(h, "batch_size"), fmax(ls_history_number(h, "workers"), 1),
                 ls_history_number(h, "workers") > 1 ? "s" : "", ls_history_number(h, "threads"),
                 ls_history_number(h, "threads") == 1 ? "" : "s", ls_history_number(h, "options.seed"));
    if (ls_history_text(h, "weights_hash")) {
        ls__buf_adds(b, "  weights    ");
        ls__spark_text(b, ls_history_text(h, "weights_hash"));
        ls__buf_adds(b, "\n");
    }
}

static void add_curve(struct ls_buf *b, const struct ls_history *h, const char *split, const char *value,
                      const char *name, bool is_percent)
{
    const struct ls_curve *c = ls_history_curve(h, split);
    const double *values = ls_curve_values(c, value);
    if (!values || c->n < 2) return;
    double scale = is_percent ? 100 : 1;
    ls__buf_addf(b, "  %-10s %8.4g%s ", name, scale * values[0], is_percent ? " %" : "  ");
    ls__spark(b, values, c->n, CURVE_WIDTH, !is_percent);
    ls__buf_addf(b, " %.4g%s\n", scale * values[c->n - 1], is_percent ? " %" : "");
}

static void add_split(struct ls_buf *b, const struct ls_history *h)
{
    static const char *const names[] = {"compute",  "update",     "communicate", "wait", "load",
                                        "evaluate", "checkpoint", "setup",       "other"};
    enum { N = sizeof names / sizeof names[0] };
    double seconds[N], sum = 0;
    for (int i = 0; i < N; i++) {
        char path[40];
        snprintf(path, sizeof path, "seconds.%s", names[i]);
        seconds[i] = ls_history_number(h, path);
        if (seconds[i] > 0) sum += seconds[i];
    }
    for (int i = 0; sum > 0 && i < N; i++) {
        if (!(seconds[i] >= 0.01 * sum)) continue;
        ls__buf_addf(b, "  %-11s %7.3g s %3.0f %% ", names[i], seconds[i], 100 * seconds[i] / sum);
        ls__spark_bar(b, seconds[i] / sum, BAR_WIDTH);
        ls__buf_adds(b, "\n");
    }
}

static void add_run(struct ls_buf *b, const struct ls_history *h)
{
    add_head(b, h);
    add_numbers(b, h);
    add_curve(b, h, ls_history_curve(h, "train") ? "train" : "epoch", "loss", "loss", false);
    add_curve(b, h, ls_history_curve(h, "train") ? "train" : "epoch", "accuracy", "accuracy", true);
    add_curve(b, h, "validation", "accuracy", "validation", true);
    add_curve(b, h, "test", "accuracy", "test", true);
    const struct ls_curve *r = ls_history_resources(h, 0);
    const double *cpu = ls_curve_values(r, "cpu");
    if (cpu && r->n > 1) {
        ls__buf_adds(b, "  CPU                   ");
        ls__spark(b, cpu, r->n, CURVE_WIDTH, false);
        ls__buf_adds(b, "\n");
    }
    add_split(b, h);
    if (ls_history_bad_lines(h))
        ls__buf_addf(b, "  %zu lines or files could not be understood\n", ls_history_bad_lines(h));
}

enum ls_status ls__cmd_show(const struct ls_options *o)
{
    struct ls_runs runs;
    struct ls_buf b = LS_BUF_INIT;
    enum ls_status status = ls__runs_open(&runs, o);
    for (int i = 0; status == LS_OK && i < runs.n; i++) {
        if (i) ls__buf_adds(&b, "\n");
        add_run(&b, runs.all[i]);
    }
    ls__runs_close(&runs);
    if (status == LS_OK) return ls__print_buf(&b);
    ls__buf_release(&b);
    return status;
}
