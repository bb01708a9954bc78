/* cmd_plot.c: `lockstep plot FILE`: a picture of numbers from a file, JSON (docs/formats/plot.md) or CSV. */
#include "base/file.h"
#include "cli/cmd.h"
#include "draw/draw.h"

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

enum ls_status ls__cmd_plot(const struct ls_options *o)
{
    const char *path = o->args[0];
    struct ls_draw_doc *doc;
    enum ls_draw_format format;
    char *text = NULL;
    size_t len = 0;
    bool is_json = ends_with(path, ".json");
    if (!is_json && !ends_with(path, ".csv") && !ends_with(path, ".tsv"))
        return ls_fail(LS_USAGE, "%s: expected a file that ends in .json, .csv or .tsv", path);
    if (o->output) TRY(ls_draw_format_of(o->output, &format));
    TRY(ls__file_read(path, LARGEST_FILE, &text, &len));
    enum ls_status status = ls_draw_doc_parse(&doc, path, text, len, is_json);
    free(text);
    TRY(status);
    status = put(ls_draw_doc_picture(doc), o->output);
    ls_draw_doc_destroy(&doc);
    return status;
}
