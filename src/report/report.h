/* report.h: runs as a page for people: one run in depth, several compared.
 *
 *     TRY(ls_report_write(runs, n, &(struct ls_report_options){0}, "report.html"));
 *
 * The ending of the file says what it becomes: .html (one file, no script, no network), .md (pictures beside it), .pdf
 * (needs cairo). Numbers come from the runs' files and nothing else; a part whose files are not there is left out with
 * one line that says so. Texts of the files are data, and never markup.
 */
#ifndef LS_REPORT_REPORT_H
#define LS_REPORT_REPORT_H

#include "draw/draw.h"
#include "history/history.h"
#include "report/page.h"

struct ls_report_options {
    /* The command that trains as run `h` did, to be pasted; free() it. NULL: unknown. (optional) */
    char *(*command_of)(const struct ls_history *h);
    /* Names for the runs, [n]; NULL: their folders' names. (optional) */
    const char *const *labels;
};

/* LS_USAGE for an ending it does not know. */
enum ls_status ls_report_check(const char *path) LS_MUST_CHECK;
enum ls_status ls_report_write(struct ls_history *const *runs, int n, const struct ls_report_options *options,
                               const char *path) LS_MUST_CHECK;

/* A page that others have put together; the ending decides here too. */
enum ls_status ls_page_write(const struct ls_page *p, const char *path) LS_MUST_CHECK;

/* Curves of runs in one picture, loss and accuracy over steps, into a file (.svg, .png, .pdf): what `plot RUN...`
 * draws. marks: at steps. Below it stands whether metrics and weights are equal. */
enum ls_status ls_report_curves(struct ls_history *const *runs, int n, const char *const *labels, const char *title,
                                const struct ls_draw_mark *marks, int n_marks, const char *path) LS_MUST_CHECK;

#endif
