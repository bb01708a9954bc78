/* page.h: a report as a list of parts, without knowing whether it becomes HTML, Markdown or PDF.
 *
 *     ls__page_heading(p, "Curves");
 *     ls__page_text(p, "%zu runs", n);
 *     ls__page_figure(p, "loss", picture);
 *     TRY(p->status);
 *
 * Everything a part points to lies in the page's memory. What fails is remembered, and later calls do nothing. Texts
 * are any bytes: who writes a page makes them harmless.
 */
#ifndef LS_REPORT_PAGE_H
#define LS_REPORT_PAGE_H

#include "base/arena.h"
#include "draw/draw.h"

enum ls_part_kind {
    LS_PART_HEADING,
    LS_PART_TEXT,
    LS_PART_POINTS, /* sentences, one to a line */
    LS_PART_TILES,  /* a few numbers, large */
    LS_PART_FIGURE,
    LS_PART_TABLE,
    LS_PART_CODE, /* to be copied */
    LS_PART_NOTE  /* small: what is left out, and why */
};

enum { LS_MAX_PARTS = 2000, LS_MAX_TABS = 4 };

struct ls_part {
    enum ls_part_kind kind;
    const char *text;         /* of headings, texts, code, notes; of a figure: its name, for files */
    const char *const *cells; /* [n_rows][n_columns]; tiles: label, value, note; points: one column */
    int n_rows, n_columns;    /* a table's first row is its head */
    int n_tabs;               /* of a figure: pictures of which a page shows one at a time */
    const char *tabs[LS_MAX_TABS];
    const struct ls_draw_picture *pictures[LS_MAX_TABS];
};

struct ls_page {
    struct ls_arena memory;
    const char *title, *note;
    bool has_folder; /* Markdown: pictures lie in a folder NAME of their own, not beside NAME.md */
    struct ls_part parts[LS_MAX_PARTS];
    int n_parts;
    bool is_ended; /* the last part takes no more rows */
    enum ls_status status;
};

/* Memory of the page; NULL when it has failed. */
void *ls__page_alloc(struct ls_page *p, size_t n, size_t size);
const char *ls__page_format(struct ls_page *p, const char *fmt, ...) LS_PRINTF(2, 3);

void ls__page_heading(struct ls_page *p, const char *text);
void ls__page_text(struct ls_page *p, const char *fmt, ...) LS_PRINTF(2, 3);
void ls__page_note(struct ls_page *p, const char *fmt, ...) LS_PRINTF(2, 3);
void ls__page_code(struct ls_page *p, const char *text);
/* Adds to the points, tiles or the table at the end, or begins them. NULL cells are "". A row of another width begins a
 * new table. */
void ls__page_point(struct ls_page *p, const char *fmt, ...) LS_PRINTF(2, 3);
void ls__page_tile(struct ls_page *p, const char *label, const char *value, const char *note);
void ls__page_row(struct ls_page *p, const char *const *cells, int n_columns);
/* The next row begins a new part, whatever its width. */
void ls__page_end(struct ls_page *p);
/* A key and its value, as a row of a table without numbers. */
void ls__page_pair(struct ls_page *p, const char *key, const char *value);
void ls__page_figure(struct ls_page *p, const char *name, const struct ls_draw_picture *picture);
/* One more picture of the figure at the end, called `tab`. The first call begins it. */
void ls__page_tab(struct ls_page *p, const char *name, const char *tab, const struct ls_draw_picture *picture);

/* The three ways to write one. `path` is the page's file; Markdown puts pictures beside it. */
enum ls_status ls__page_html(const struct ls_page *p, const char *path) LS_MUST_CHECK;
enum ls_status ls__page_markdown(const struct ls_page *p, const char *path) LS_MUST_CHECK;
enum ls_status ls__page_pdf(const struct ls_page *p, const char *path) LS_MUST_CHECK;

/* Of the first, for pages of others: a part (`number`: no other of the page has it), and the style sheet of all parts.
 */
enum ls_status ls__page_html_part(struct ls_buf *b, const struct ls_part *part, int number) LS_MUST_CHECK;
void ls__page_html_style(struct ls_buf *b);

#endif
