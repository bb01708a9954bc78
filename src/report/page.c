/* page.c: makes the parts of a page, in the page's memory. See page.h. */
#include "report/page.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void *ls__page_alloc(struct ls_page *p, size_t n, size_t size)
{
    void *block = NULL;
    if (p->status == LS_OK) p->status = ls__arena_alloc(&p->memory, &block, n, size);
    return p->status == LS_OK ? block : NULL;
}

static const char *format(struct ls_page *p, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    char *text = ls__page_alloc(p, (size_t)(n < 0 ? 0 : n) + 1, 1);
    if (text) vsnprintf(text, (size_t)(n < 0 ? 0 : n) + 1, fmt, args);
    return text ? text : "";
}

const char *ls__page_format(struct ls_page *p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *text = format(p, fmt, args);
    va_end(args);
    return text;
}

static struct ls_part *add(struct ls_page *p, enum ls_part_kind kind)
{
    if (p->status == LS_OK && p->n_parts == LS_MAX_PARTS)
        p->status = ls_fail(LS_ERROR, "the report has more than %d parts; report fewer runs at once", LS_MAX_PARTS);
    if (p->status != LS_OK) return NULL;
    struct ls_part *part = &p->parts[p->n_parts++];
    memset(part, 0, sizeof *part);
    part->kind = kind;
    return part;
}

static void add_text(struct ls_page *p, enum ls_part_kind kind, const char *text)
{
    struct ls_part *part = add(p, kind);
    if (part) part->text = text;
}

void ls__page_heading(struct ls_page *p, const char *text)
{
    add_text(p, LS_PART_HEADING, text);
}

void ls__page_text(struct ls_page *p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_text(p, LS_PART_TEXT, format(p, fmt, args));
    va_end(args);
}

void ls__page_note(struct ls_page *p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_text(p, LS_PART_NOTE, format(p, fmt, args));
    va_end(args);
}

void ls__page_code(struct ls_page *p, const char *text)
{
    add_text(p, LS_PART_CODE, ls__page_format(p, "%s", text));
}

/* Rows are kept in one block that doubles; the old ones go with the page. */
static void add_row(struct ls_page *p, enum ls_part_kind kind, const char *const *cells, int n_columns)
{
    struct ls_part *part = p->n_parts ? &p->parts[p->n_parts - 1] : NULL;
    if (!part || part->kind != kind || part->n_columns != n_columns || p->is_ended) part = add(p, kind);
    p->is_ended = false;
    if (!part || p->status != LS_OK) return;
    part->n_columns = n_columns;
    size_t n = (size_t)part->n_rows, width = (size_t)n_columns;
    const char **rows = (const char **)part->cells;
    if ((n & (n - 1)) == 0) { /* a power of two: full */
        rows = ls__page_alloc(p, (n ? 2 * n : 1) * width, sizeof *rows);
        if (!rows) return;
        if (n) memcpy(rows, part->cells, n * width * sizeof *rows);
    }
    for (size_t i = 0; i < width; i++) rows[n * width + i] = ls__page_format(p, "%s", cells[i] ? cells[i] : "");
    part->cells = rows;
    part->n_rows++;
}

void ls__page_point(struct ls_page *p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *text = format(p, fmt, args);
    va_end(args);
    add_row(p, LS_PART_POINTS, &text, 1);
}

void ls__page_end(struct ls_page *p)
{
    p->is_ended = true;
}

void ls__page_tile(struct ls_page *p, const char *label, const char *value, const char *note)
{
    const char *const cells[] = {label, value, note};
    add_row(p, LS_PART_TILES, cells, 3);
}

void ls__page_row(struct ls_page *p, const char *const *cells, int n_columns)
{
    add_row(p, LS_PART_TABLE, cells, n_columns);
}

void ls__page_pair(struct ls_page *p, const char *key, const char *value)
{
    const struct ls_part *last = p->n_parts ? &p->parts[p->n_parts - 1] : NULL;
    const char *const cells[] = {key, value};
    static const char *const head[] = {"", ""};
    if (!last || last->kind != LS_PART_TABLE || last->n_columns != 2) ls__page_row(p, head, 2);
    ls__page_row(p, cells, 2);
}

void ls__page_tab(struct ls_page *p, const char *name, const char *tab, const struct ls_draw_picture *picture)
{
    struct ls_part *part = p->n_parts ? &p->parts[p->n_parts - 1] : NULL;
    if (!picture) return;
    if (!part || part->kind != LS_PART_FIGURE || strcmp(part->text, name) != 0 || part->n_tabs == LS_MAX_TABS)
        part = add(p, LS_PART_FIGURE);
    if (!part || p->status != LS_OK) return;
    part->text = ls__page_format(p, "%s", name);
    part->tabs[part->n_tabs] = ls__page_format(p, "%s", tab ? tab : "");
    part->pictures[part->n_tabs++] = picture;
}

void ls__page_figure(struct ls_page *p, const char *name, const struct ls_draw_picture *picture)
{
    ls__page_tab(p, name, NULL, picture);
}
