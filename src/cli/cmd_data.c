/* cmd_data.c: `lockstep data list|fetch|info|check`. */
#include "base/parse.h"
#include "base/quote.h"
#include "base/suggest.h"
#include "cli/cmd.h"
#include "data/catalog.h"
#include "data/data.h"
#include "data/fetch.h"
#include "run/progress.h"
#include "settings/augmentation.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- list --- */

static json_t *rows_json(const struct ls_data_row *rows, int n_rows)
{
    json_t *list = json_array();
    for (int i = 0; list && i < n_rows; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:b, s:o}", "name", rows[i].name, "title", rows[i].title,
                                              "terms", rows[i].terms, "is_here", rows[i].is_here, "where",
                                              ls__json_text(rows[i].where)));
    return list;
}

static enum ls_status list(const struct ls_options *o)
{
    struct ls_roots *roots = calloc(1, sizeof *roots);
    struct ls_data_row *rows = NULL;
    int n_rows = 0;
    if (!roots) return ls_fail(LS_NOMEM, "out of memory while listing data sets");
    enum ls_status status = ls_data_list(o->train.data_dir, &rows, &n_rows);
    ls__data_roots(roots, o->train.data_dir);
    if (status == LS_OK && o->train.json) {
        json_t *searched = json_array();
        for (int i = 0; i < roots->n; i++) json_array_append_new(searched, ls__json_text(roots->path[i]));
        status = ls__print_json(json_pack("{s:o, s:o}", "sets", rows_json(rows, n_rows), "searched", searched));
    } else if (status == LS_OK) {
        printf("%-14s %-44s %-24s %s\n", "set", "what", "terms", "where");
        for (int i = 0; i < n_rows; i++)
            printf("%-14s %-44s %-24s %s\n", rows[i].name, rows[i].title, rows[i].terms, rows[i].where);
        printf("searched:");
        for (int i = 0; i < roots->n; i++) printf(" %s", roots->path[i]);
        printf("\n");
    }
    free(rows);
    free(roots);
    return status;
}

/* --- check --- */

static struct ls_data_options data_options(const struct ls_options *o)
{
    struct ls_data_options options = {.data_dir = o->train.data_dir};
    int64_t dims[3];
    if (!o->train.resize) return options;
    int n = ls__parse_dims(o->train.resize, dims);
    options.resize_h = (int)dims[0];
    options.resize_w = (int)dims[n == 2 ? 1 : 0];
    return options;
}

static enum ls_status check(const struct ls_options *o)
{
    struct ls_buf report = LS_BUF_INIT;
    struct ls_data_options options = data_options(o);
    enum ls_status status = ls_data_check(o->args[1], &options, &report);
    enum ls_status printed = ls__print_buf(&report); /* as far as it went */
    return status != LS_OK ? status : printed;
}

/* --- fetch --- */

struct bar {
    struct ls_progress progress;
    char file[64]; /* "" before the first */
};

static void show_fetch(void *arg, const char *file, int64_t done, int64_t total)
{
    struct bar *bar = arg;
    const char *base = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
    if (strncmp(bar->file, base, sizeof bar->file - 1) != 0) {
        if (*bar->file) ls__progress_end(&bar->progress, NULL);
        snprintf(bar->file, sizeof bar->file, "%s", base);
        ls__progress_begin(&bar->progress, bar->file, total);
        ls__progress_start_at(&bar->progress, done);
        bar->progress.unit = "B";
    }
    bar->progress.total = total;
    ls__progress_update(&bar->progress, done, NULL);
}

static enum ls_status fetch(const struct ls_options *o)
{
    struct bar bar = {.file = ""};
    enum ls_status status = ls_data_fetch(o->args[1], o->train.data_dir, o->url, show_fetch, &bar);
    if (*bar.file) ls__progress_end(&bar.progress, NULL);
    TRY(status);
    char dir[LS_QUOTED_BYTES] = "";
    if (o->train.data_dir) ls__quote_path(o->train.data_dir, dir, sizeof dir);
    printf("%s is here; train with: lockstep train lenet5 %s%s%s\n", o->args[1], o->args[1], *dir ? " --data-dir " : "",
           dir);
    return LS_OK;
}

/* --- info --- */

static json_t *split_json(const struct ls_dataset *ds)
{
    json_t *mean = json_array(), *deviation = json_array();
    for (int i = 0; i < ds->c && i < 3; i++) {
        json_array_append_new(mean, ls__json_number((double)ds->mean[i]));
        json_array_append_new(deviation, ls__json_number((double)ds->std[i]));
    }
    return json_pack("{s:I, s:[iii], s:i, s:o, s:o, s:o}", "n", (json_int_t)ds->n, "shape", ds->c, ds->h, ds->w,
                     "classes", ds->n_classes, "mean", mean, "std", deviation, "checksum", ls__json_text(ds->checksum));
}

static void print_split(const struct ls_dataset *ds)
{
    char bytes[LS_TEXT_BYTES];
    printf("%s: %" PRId64 " images of %dx%dx%d, %d classes, %s of pixels\n", ds->split == LS_TRAIN ? "train" : "test",
           ds->n, ds->c, ds->h, ds->w, ds->n_classes, ls__bytes_text((double)ds->n * ds->c * ds->h * ds->w, bytes));
    printf("  mean %s", "");
    for (int i = 0; i < ds->c && i < 3; i++) printf("%s%.4f", i ? ", " : "", (double)ds->mean[i]);
    printf("; deviation ");
    for (int i = 0; i < ds->c && i < 3; i++) printf("%s%.4f", i ? ", " : "", (double)ds->std[i]);
    printf("\n  checksum %s\n", ds->checksum);
}

/* One split, into *out if it is wanted as JSON. */
static enum ls_status show_split(const struct ls_options *o, enum ls_split split, json_t **out)
{
    struct ls_data_options options = data_options(o);
    struct ls_dataset *ds = NULL;
    TRY(ls_data_open(&ds, o->args[1], split, &options));
    if (out)
        *out = split_json(ds);
    else
        print_split(ds);
    enum ls_status status = out ? ls__data_json_classes(ds, *out) : ls__data_print_classes(ds);
    if (status == LS_OK && o->output && split == LS_TRAIN) status = ls__data_draw_sheet(ds, o);
    ls_dataset_close(&ds);
    return status;
}

static enum ls_status info(const struct ls_options *o)
{
    json_t *train = NULL, *test = NULL;
    bool json = o->train.json;
    TRY(ls__data_sheet_check(o));
    TRY(show_split(o, LS_TRAIN, json ? &train : NULL));
    enum ls_status status = show_split(o, LS_TEST, json ? &test : NULL);
    if (status == LS_OK && json)
        return ls__print_json(json_pack("{s:o, s:o, s:o, s:o?}", "data", ls__json_text(o->args[1]), "train", train,
                                        "test", test, "samples", o->output ? ls__json_text(o->output) : NULL));
    if (status == LS_OK && o->output) printf("samples of the training images are in %s\n", o->output);
    json_decref(train);
    return status;
}

static const struct action {
    const char *name;
    int n_args; /* with the action itself */
    enum ls_status (*run)(const struct ls_options *o);
} actions[] = {{"list", 1, list}, {"fetch", 2, fetch}, {"info", 2, info}, {"check", 2, check}};

enum ls_status ls__cmd_data(const struct ls_options *o)
{
    const char *best = NULL;
    int best_distance = -1;
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        const struct action *action = &actions[i];
        ls__suggest(o->args[0], action->name, &best, &best_distance);
        if (strcmp(action->name, o->args[0]) != 0) continue;
        if (o->n_args < action->n_args)
            return ls_fail(LS_USAGE, "data %s needs a data set: lockstep data %s mnist", action->name, action->name);
        if (o->n_args > action->n_args)
            return ls_fail(LS_USAGE, "data %s takes no argument, but got '%s'", action->name, o->args[1]);
        if (o->train.json && action->run != info && action->run != list)
            return ls_fail(LS_USAGE, "data %s has no JSON form; data list and data info have", action->name);
        if (action->run != info && (o->output || ls__augmentation_is_on(&o->train)))
            return ls_fail(LS_USAGE,
                           "data %s draws no picture of samples; data info does: lockstep data info %s -o "
                           "samples.png",
                           action->name, o->n_args > 1 ? o->args[1] : "mnist");
        return action->run(o);
    }
    return ls_fail(LS_USAGE, "unknown: data %s%s%s%s; expected list, fetch, info or check", o->args[0],
                   best ? " (did you mean " : "", best ? best : "", best ? "?)" : "");
}
