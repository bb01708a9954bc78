/* cmd_plot.c: `lockstep plot`: a picture of runs, or of numbers from a file, JSON (docs/formats/plot.md) or CSV. */
#include "base/file.h"
#include "base/mem.h"
#include "cli/cmd.h"
#include "cli/runs.h"
#include "draw/draw.h"
#include "report/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGEST_FILE = 1 << 29 };

static bool ends_with(const char *text, const char *ending)
{
    size_t n = strlen(text), k = strlen(ending);
    return n > k && strcmp(text + n - k, ending) == 0;
}

/* To a file, or as SVG to stdout. */
static enum ls_status put(const struct ls_draw_picture *picture, const char *path)
{
    struct ls_buf b = LS_BUF_INIT;
    if (path) return ls_draw_write(picture, path);
    enum ls_status status = ls_draw(picture, LS_DRAW_SVG, &b);
    if (status == LS_OK) return ls__print_buf(&b);
    ls__buf_release(&b);
    return status;
}

/* "STEP:TEXT|STEP:TEXT", checked when it was read; texts are cut out of a copy. */
static int read_marks(char *text, struct ls_draw_mark *marks, int max)
{
    int n = 0;
    for (char *at = text; at && *at && n < max; n++) {
        char *end = strchr(at, '|');
        if (end) *end++ = '\0';
        char *colon = strchr(at, ':');
        marks[n] = (struct ls_draw_mark){.x = strtod(at, NULL), .text = colon ? colon + 1 : NULL};
        at = end;
    }
    return n;
}

static enum ls_status plot_runs(const struct ls_options *o)
{
    enum { MAX_MARKS = 16 };
    struct ls_draw_mark marks[MAX_MARKS];
    struct ls_runs runs;
    char *text = NULL;
    if (!o->output) return ls_fail(LS_USAGE, "a picture of runs needs a file: -o runs.svg");
    TRY(ls_draw_can_write(o->output));
    TRY(ls__strdup(&text, o->marks ? o->marks : ""));
    int n = read_marks(text, marks, MAX_MARKS);
    enum ls_status status = ls__runs_open(&runs, o);
    if (status == LS_OK)
        status = ls_report_curves(runs.all, runs.n, runs.labels, o->title ? o->title : "Training", marks, n, o->output);
    ls__runs_close(&runs);
    free(text);
    return status;
}

/* A run's folder, with or without a label; it need not be there for that. */
static bool is_run(const char *text)
{
    return !ends_with(text, ".json") && !ends_with(text, ".csv") && !ends_with(text, ".tsv") &&
           (ls__dir_exists(text) || strchr(text, '='));
}

enum ls_status ls__cmd_plot(const struct ls_options *o)
{
    if (is_run(o->args[0])) return plot_runs(o);
    if (o->n_args > 1) return ls_fail(LS_USAGE, "plot takes one file, or runs: %s is not a run directory", o->args[0]);
    const char *path = o->args[0];
    struct ls_draw_doc *doc;
    char *text = NULL;
    size_t len = 0;
    bool is_json = ends_with(path, ".json");
    if (!is_json && !ends_with(path, ".csv") && !ends_with(path, ".tsv"))
        return ls_fail(LS_USAGE, "%s: expected a run directory, or a file that ends in .json, .csv or .tsv", path);
    if (o->output) TRY(ls_draw_can_write(o->output));
    enum ls_status status = ls__file_read(path, LARGEST_FILE, &text, &len);
    if (status != LS_OK) return ls_fail_in(status == LS_NOMEM ? LS_NOMEM : LS_DATA, "plot");
    status = ls_draw_doc_parse(&doc, path, text, len, is_json);
    free(text);
    TRY(status);
    status = put(ls_draw_doc_picture(doc), o->output);
    ls_draw_doc_destroy(&doc);
    return status;
}
