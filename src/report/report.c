/* report.c: from runs to a file; see report.h. */
#include "report/report.h"

#include "base/mem.h"
#include "report/parts.h"

#include <stdlib.h>
#include <string.h>

typedef enum ls_status write_page(const struct ls_page *p, const char *path);

static const struct {
    const char *ending;
    write_page *write;
} kinds[] = {{".html", ls__page_html}, {".htm", ls__page_html}, {".md", ls__page_markdown}, {".pdf", ls__page_pdf}};

static write_page *writer_of(const char *path)
{
    size_t len = strlen(path);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t n = strlen(kinds[i].ending);
        if (len > n && strcmp(path + len - n, kinds[i].ending) == 0) return kinds[i].write;
    }
    return NULL;
}

enum ls_status ls_report_check(const char *path)
{
    write_page *write = writer_of(path);
    if (!write) return ls_fail(LS_USAGE, "%s: expected a report's name, ending in .html, .md or .pdf", path);
    return write == ls__page_pdf ? ls_draw_can(LS_DRAW_PDF) : LS_OK;
}

enum ls_status ls_page_write(const struct ls_page *p, const char *path)
{
    TRY(ls_report_check(path));
    return writer_of(path)(p, path);
}

enum ls_status ls_report_write(struct ls_history *const *runs, int n, const struct ls_report_options *options,
                               const char *path)
{
    struct ls_page *p = NULL;
    TRY(ls_report_check(path));
    if (n < 1 || n > LS_MAX_RUNS) return ls_fail(LS_USAGE, "a report of %d runs: expected 1 to %d", n, LS_MAX_RUNS);
    TRY(ls__calloc(&p, 1, sizeof *p));
    if (n == 1)
        ls__report_one(p, runs[0], options);
    else
        ls__report_several(p, runs, n, options);
    enum ls_status status = p->status;
    if (status == LS_OK) status = ls_page_write(p, path);
    ls__arena_release(&p->memory);
    free(p);
    return status;
}
