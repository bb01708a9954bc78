/* one.c: the report of one run: in ten seconds, then in depth. */
#include "report/parts.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double result_or_last(const struct ls_history *h, const char *path, const char *split, const char *value)
{
    double v = ls_history_number(h, path);
    return isfinite(v) ? v : ls_curve_last(ls_history_curve(h, split), value);
}

static void add_tiles(struct ls_page *p, const struct ls_history *h)
{
    double accuracy = result_or_last(h, "test_accuracy", "test", "accuracy"),
           train = result_or_last(h, "train_accuracy", "epoch", "accuracy");
    double seconds = ls_history_number(h, "train_seconds"),
           rate = result_or_last(h, "images_per_second", "train", "images_per_second");
    double memory = ls_history_number(h, "peak_rss_bytes"), cpu = ls_history_number(h, "cpu_percent_mean");
    const char *hash = ls_history_text(h, "weights_hash");
    if (!isfinite(seconds)) seconds = ls_history_seconds(h);
    if (isfinite(accuracy))
        ls__page_tile(p, "test accuracy", ls__say_percent(p, accuracy, 2),
                      ls__page_format(p, "loss %.4g", result_or_last(h, "test_loss", "test", "loss")));
    if (isfinite(train))
        ls__page_tile(p, "training accuracy", ls__say_percent(p, train, 2),
                      ls__page_format(p, "loss %.4g", result_or_last(h, "train_loss", "epoch", "loss")));
    if (seconds > 0)
        ls__page_tile(p, "time in training", ls__say_seconds(p, seconds),
                      ls__page_format(p, "%s steps", ls__say_count(p, ls_history_steps(h))));
    if (isfinite(rate)) ls__page_tile(p, "speed", ls__say_count(p, rate), "images per second");
    if (isfinite(memory))
        ls__page_tile(p, "peak memory", ls__say_bytes(p, memory),
                      isfinite(cpu) ? ls__page_format(p, "%.0f %% CPU, mean", cpu) : "");
    if (hash) ls__page_tile(p, "weights", ls__page_format(p, "%.8s", hash), "first digits of the hash");
}

/* The largest part but compute, if it matters. */
static void add_time_sentence(struct ls_page *p, const struct ls_history *h)
{
    double total = 0, most = 0;
    int largest = -1;
    for (int i = 0; i < LS_N_SPLIT; i++) {
        double s = ls__split_seconds(h, i);
        if (!(s > 0)) continue;
        total += s;
        if (i > 1 && s > most) most = s, largest = i;
    }
    double compute = ls__split_seconds(h, 0), update = ls__split_seconds(h, 1);
    if (!(total > 0) || !isfinite(compute)) return;
    double busy = compute + (update > 0 ? update : 0);
    if (largest >= 0 && most >= 0.05 * total)
        ls__page_point(
            p, "%.0f %% of the time went into computing and updates; the largest other part is %s with %.0f %%.",
            100 * busy / total, ls__split_names[largest], 100 * most / total);
    else
        ls__page_point(p, "%.0f %% of the time went into computing and updates; no other part took 5 %%.",
                       100 * busy / total);
}

static void add_learning_sentence(struct ls_page *p, const struct ls_history *h)
{
    const struct ls_curve *test = ls_history_curve(h, "test");
    const double *accuracy = ls_curve_values(test, "accuracy"), *epochs = ls_curve_values(test, "epoch");
    size_t best = 0;
    if (!accuracy || !epochs || test->n < 2) return;
    for (size_t i = 1; i < test->n; i++)
        if (accuracy[i] > accuracy[best] || !isfinite(accuracy[best])) best = i;
    if (!isfinite(accuracy[best])) return;
    double loss = accuracy[best] - accuracy[test->n - 1];
    if (best + 1 == test->n)
        ls__page_point(p, "Accuracy on test data was highest at the end: more epochs might gain more.");
    else
        ls__page_point(p, "Accuracy on test data was highest after epoch %.0f (%.2f %%), %.2f points above the end.",
                       epochs[best], 100 * accuracy[best], 100 * loss);
    double train = ls_curve_last(ls_history_curve(h, "epoch"), "accuracy"), last = accuracy[test->n - 1];
    if (isfinite(train) && isfinite(last) && train - last > 0.05)
        ls__page_point(
            p, "It is %.1f points better on training data than on test data: it has learnt some of it by heart.",
            100 * (train - last));
}

static void add_summary(struct ls_page *p, const struct ls_history *h)
{
    double epochs = result_or_last(h, "epochs", "epoch", "epoch"), batch = ls_history_number(h, "batch_size");
    double workers = ls_history_number(h, "workers"), threads = ls_history_number(h, "threads");
    const char *device = ls_history_text(h, "options.device");
    add_tiles(p, h);
    if (ls_history_steps(h) > 0 && isfinite(batch)) {
        const char *done = isfinite(epochs) ? ls__page_format(p, "%.4g epoch%s, ", epochs, epochs == 1 ? "" : "s") : "";
        const char *with = isfinite(workers) && workers > 1 ? ls__page_format(p, "%.0f workers of %.0f thread%s",
                                                                              workers, threads, threads == 1 ? "" : "s")
                           : isfinite(threads) ? ls__page_format(p, "%.0f thread%s", threads, threads == 1 ? "" : "s")
                                               : "one process";
        ls__page_point(p, "Trained for %s%s steps of %s images, with %s on %.40s.", done,
                       ls__say_count(p, ls_history_steps(h)), ls__say_count(p, batch), with,
                       device ? device : "an unknown device");
    }
    add_learning_sentence(p, h);
    add_time_sentence(p, h);
    if (ls__say_end(p, h)) ls__page_point(p, "%s", ls__say_end(p, h));
    if (ls_history_bad_lines(h) > 0)
        ls__page_point(p, "%zu lines or files could not be understood and were left out.", ls_history_bad_lines(h));
}

static void add_curves(struct ls_page *p, const struct ls_history *h)
{
    ls__page_heading(p, "Curves");
    ls__page_tab(p, "curves", "over steps", ls__figure_curves(p, h, LS_OVER_STEPS));
    ls__page_tab(p, "curves", "over epochs", ls__figure_curves(p, h, LS_OVER_EPOCHS));
    ls__page_tab(p, "curves", "over time", ls__figure_curves(p, h, LS_OVER_SECONDS));
    if (p->n_parts && p->parts[p->n_parts - 1].kind == LS_PART_HEADING)
        ls__page_note(p, "No metrics were recorded (metrics.jsonl).");
    ls__page_figure(p, "pace", ls__figure_pace(p, h));
}

static void add_resources(struct ls_page *p, const struct ls_history *h)
{
    const struct ls_draw_picture *picture = ls__figure_resources(p, h);
    ls__page_heading(p, "CPU and memory");
    if (picture)
        ls__page_figure(p, "resources", picture);
    else
        ls__page_note(p, "Not recorded (resources.csv).");
    picture = ls__figure_split(p, h);
    ls__page_heading(p, "Where the time went");
    if (picture)
        ls__page_figure(p, "time", picture);
    else
        ls__page_note(p, "Not recorded (resources.csv, result.json).");
    double hidden = ls_history_number(h, "seconds.hidden");
    if (hidden > 0)
        ls__page_note(p, "Besides, %s of communication were hidden behind computing.", ls__say_seconds(p, hidden));
}

static void add_layers(struct ls_page *p, const struct ls_history *h)
{
    const char *model = ls_history_text(h, "options.model");
    ls__page_heading(p, "Layers");
    if (!ls__table_layers(p, h))
        ls__page_note(p,
                      "What each layer costs was not recorded; `lockstep bench %.200s -b %.0f --layers` measures it.",
                      model ? model : "MODEL", ls_history_number(h, "batch_size"));
}

/* Rows of keys and what the files have under them. */
static void add_pairs(struct ls_page *p, const struct ls_history *h, const char *const (*pairs)[2], int n)
{
    for (int i = 0; i < n; i++) {
        const char *value = ls__say_value(p, h, pairs[i][1]);
        if (*value) ls__page_pair(p, pairs[i][0], value);
    }
}

static void add_environment(struct ls_page *p, const struct ls_history *h)
{
    static const char *const plan[][2] = {{"global batch", "batch_size"},       {"shards", "shards"},
                                          {"samples in a shard", "shard_size"}, {"workers", "workers"},
                                          {"threads of each", "threads"},       {"synchronisation", "options.sync"},
                                          {"plan hash", "plan_hash"},           {"tuning table", "tune.table"}};
    static const char *const data[][2] = {{"training images", "train_data.images"},
                                          {"test images", "test_data.images"},
                                          {"channels", "train_data.channels"},
                                          {"height", "train_data.height"},
                                          {"width", "train_data.width"},
                                          {"classes", "train_data.classes"},
                                          {"checksum", "train_data.checksum"}};
    static const char *const machine[][2] = {
        {"host", "machine.host"},       {"CPUs", "machine.cpus"},        {"backend", "machine.backend"},
        {"library", "machine.library"}, {"instructions", "machine.isa"}, {"Lockstep", "lockstep_version"},
        {"started", "started"},         {"model hash", "model_hash"},    {"weights hash", "weights_hash"}};
    const char *model = ls_history_text(h, "options.model");
    ls__page_heading(p, "Plan");
    add_pairs(p, h, plan, sizeof plan / sizeof plan[0]);
    ls__page_note(p, "`lockstep plan %.200s` shows order, kernels and memory.", model ? model : "MODEL");
    ls__page_heading(p, "Data");
    add_pairs(p, h, data, sizeof data / sizeof data[0]);
    ls__page_heading(p, "Environment");
    add_pairs(p, h, machine, sizeof machine / sizeof machine[0]);
}

static void add_command(struct ls_page *p, const struct ls_history *h, const struct ls_report_options *o)
{
    char *command = o->command_of ? o->command_of(h) : NULL;
    ls__page_heading(p, "How to reproduce it");
    if (command) {
        ls__page_code(p, command);
        ls__page_note(p, "Any number of threads and workers gives the same weights hash, on the same version, library "
                         "and instruction set.");
    } else {
        ls__page_note(p, "The run's options are not known (manifest.json).");
    }
    free(command);
}

void ls__report_one(struct ls_page *p, const struct ls_history *h, const struct ls_report_options *o)
{
    p->title = ls__say_run(p, h);
    const char *started = ls_history_text(h, "started"), *host = ls_history_text(h, "machine.host");
    p->note =
        ls__page_format(p, "run %s, %s%s%.40s%s%.100s", ls_history_name(h), ls_history_state_word(h),
                        started ? ", started " : "", started ? started : "", host ? " on " : "", host ? host : "");
    add_summary(p, h);
    add_curves(p, h);
    add_resources(p, h);
    add_layers(p, h);
    ls__table_ranks(p, h);
    add_environment(p, h);
    add_command(p, h, o);
}
