/* pdf.c: a page as a PDF on A4, by the painter that pictures are painted with. */
#include "base/file.h"
#include "draw/painter.h"
#include "draw/text.h"
#include "report/page.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PAPER_W 595.0
#define PAPER_H 842.0
#define MARGIN 42.0
#define ROOM (PAPER_W - 2 * MARGIN)

struct sheet {
    struct ls_painter p;
    double y; /* where the next part begins */
};

static void need(struct sheet *s, double height)
{
    if (s->y + height <= PAPER_H - MARGIN || s->y <= MARGIN) return;
    s->p.ops->page(&s->p);
    s->y = MARGIN;
}

static void put(struct sheet *s, double x, double y, const char *text, struct ls_text_style style)
{
    s->p.ops->text(&s->p, (struct ls_point){x, y}, text, &style);
}

/* Lines of any number, over pages. */
static void add_lines(struct sheet *s, const char *text, double x, double size, enum ls_ink ink, bool is_bold)
{
    char clean[4 * LS_NOTE_BYTES], line[4 * LS_NOTE_BYTES];
    const char *rest = ls__text_clean(clean, sizeof clean, text);
    size_t skip, n = 0;
    for (const char *at = rest; *at; at++) /* marks code elsewhere */
        if (*at != '`') clean[n++] = *at;
    clean[n] = '\0';
    while (*rest) {
        size_t len = ls__text_break(rest, (MARGIN + ROOM - x) / (is_bold ? 1.1 : 1), size, &skip);
        memcpy(line, rest, len);
        line[len] = '\0';
        need(s, size * 1.45);
        s->y += size * 1.45;
        put(s, x, s->y - size * 0.4, line, (struct ls_text_style){.ink = ink, .size = size, .is_bold = is_bold});
        rest += len + skip;
    }
}

static void add_tiles(struct sheet *s, const struct ls_part *part)
{
    enum { PER_ROW = 4 };
    double w = (ROOM - 8 * (PER_ROW - 1)) / PER_ROW, h = 52;
    for (int r = 0; r < part->n_rows; r++) {
        static const double sizes[] = {8, 14, 8}, places[] = {14, 31, 44};
        if (r % PER_ROW == 0) {
            need(s, h + 8);
            s->y += r ? h + 8 : 0;
        }
        double x = MARGIN + r % PER_ROW * (w + 8);
        s->p.ops->box(&s->p, x, s->y, w, h, 4, LS_INK_NONE, 1, LS_INK_EDGE);
        for (int i = 0; i < 3; i++) {
            char text[LS_LABEL_BYTES];
            ls__text_fit(ls__text_clean(text, sizeof text, part->cells[3 * r + i]), w - 12, sizes[i], i == 1);
            put(s, x + 7, s->y + places[i], text,
                (struct ls_text_style){
                    .ink = i == 1 ? LS_INK_TEXT : LS_INK_FAINT, .size = sizes[i], .is_bold = i == 1});
        }
    }
    s->y += h + 8;
}

/* Columns as wide as their widest cell; all together no wider than the paper, if need be in smaller letters. Returns
 * their size. */
static double fit_columns(const struct ls_part *part, double *widths)
{
    const double size = 8.5, smallest = 6;
    double sum = 0;
    for (int c = 0; c < part->n_columns; c++) {
        widths[c] = 0;
        for (int r = 0; r < part->n_rows; r++) {
            char text[LS_LABEL_BYTES];
            ls__text_clean(text, sizeof text, part->cells[r * part->n_columns + c]);
            widths[c] = fmax(widths[c], ls__text_width(text, size, r == 0) + 10);
        }
        sum += widths[c];
    }
    for (int c = 0; sum > ROOM && c < part->n_columns; c++) widths[c] *= ROOM / sum;
    return sum > ROOM ? fmax(smallest, size * ROOM / sum) : size;
}

static void add_table(struct sheet *s, const struct ls_part *part)
{
    enum { MOST_COLUMNS = 24 };
    double widths[MOST_COLUMNS];
    if (part->n_columns > MOST_COLUMNS) return;
    const double size = fit_columns(part, widths);
    for (int r = 0; r < part->n_rows; r++) {
        double x = MARGIN;
        bool is_empty = true;
        for (int c = 0; c < part->n_columns; c++) is_empty &= part->cells[r * part->n_columns + c][0] == '\0';
        if (is_empty) continue;
        need(s, 14);
        s->y += 14;
        for (int c = 0; c < part->n_columns; x += widths[c++]) {
            char text[LS_LABEL_BYTES];
            ls__text_fit(ls__text_clean(text, sizeof text, part->cells[r * part->n_columns + c]), widths[c] - 6, size,
                         r == 0);
            put(s, x, s->y - 4, text,
                (struct ls_text_style){.ink = r ? LS_INK_TEXT : LS_INK_FAINT, .size = size, .is_bold = r == 0});
        }
        const struct ls_point line[] = {{MARGIN, s->y}, {MARGIN + ROOM, s->y}};
        s->p.ops->line(&s->p, line, 2, LS_INK_GRID, 0.6, LS_DASH_NONE, 1);
    }
    s->y += 6;
}

static enum ls_status add_figure(struct sheet *s, const struct ls_part *part)
{
    for (int i = 0; i < part->n_tabs; i++) {
        struct ls_draw_picture picture = *part->pictures[i];
        double width, height;
        picture.is_part = true;
        ls__draw_size(&picture, &width, &height);
        double scale = fmin(ROOM / width, (PAPER_H - 2 * MARGIN) / height);
        need(s, height * scale + 8);
        s->p.ops->push(&s->p, MARGIN, s->y, scale);
        enum ls_status status = ls__draw_onto(&s->p, &picture);
        s->p.ops->pop(&s->p);
        TRY(status);
        s->y += height * scale + 10;
    }
    return LS_OK;
}

static void add_code(struct sheet *s, const char *text)
{
    for (;; text++) {
        char line[LS_NOTE_BYTES];
        size_t len = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)len, text);
        add_lines(s, line, MARGIN + 8, 8.5, LS_INK_TEXT, false);
        text += len;
        if (!*text) return;
    }
}

static enum ls_status add_part(struct sheet *s, const struct ls_part *part)
{
    switch (part->kind) {
    case LS_PART_HEADING:
        need(s, 120); /* not alone at the foot of a page */
        s->y += 12;
        add_lines(s, part->text, MARGIN, 12.5, LS_INK_TEXT, true);
        s->y += 2;
        break;
    case LS_PART_TEXT:
        add_lines(s, part->text, MARGIN, 9.5, LS_INK_TEXT, false);
        break;
    case LS_PART_NOTE:
        add_lines(s, part->text, MARGIN, 8, LS_INK_FAINT, false);
        break;
    case LS_PART_CODE:
        add_code(s, part->text);
        break;
    case LS_PART_TILES:
        add_tiles(s, part);
        break;
    case LS_PART_TABLE:
        add_table(s, part);
        break;
    case LS_PART_FIGURE:
        return add_figure(s, part);
    case LS_PART_POINTS:
        for (int r = 0; r < part->n_rows; r++) {
            s->p.ops->dot(&s->p, (struct ls_point){MARGIN + 4, s->y + 9}, 1.5, LS_INK_TEXT, LS_INK_NONE, 1);
            add_lines(s, part->cells[r], MARGIN + 12, 9.5, LS_INK_TEXT, false);
        }
        break;
    }
    s->y += 4;
    return LS_OK;
}

enum ls_status ls__page_pdf(const struct ls_page *p, const char *path)
{
    struct ls_buf b = LS_BUF_INIT;
    char title[LS_LABEL_BYTES];
    TRY(ls_draw_can(LS_DRAW_PDF));
    struct sheet s = {.p = {.ops = &ls__cairo_painter,
                            .out = &b,
                            .width = PAPER_W,
                            .height = PAPER_H,
                            .zoom = 1,
                            .format = LS_DRAW_PDF},
                      .y = MARGIN};
    enum ls_status status = LS_OK;
    s.p.ops->begin(&s.p, ls__text_clean(title, sizeof title, p->title));
    add_lines(&s, p->title, MARGIN, 18, LS_INK_TEXT, true);
    add_lines(&s, p->note, MARGIN, 9.5, LS_INK_FAINT, false);
    s.y += 8;
    for (int i = 0; i < p->n_parts && status == LS_OK; i++) status = add_part(&s, &p->parts[i]);
    enum ls_status finished = s.p.ops->finish(&s.p);
    if (status == LS_OK) status = finished;
    const struct ls_piece piece = {b.text, b.len};
    if (status == LS_OK) status = ls__file_write_atomic(path, &piece, 1, LS_IO);
    ls__buf_release(&b);
    return status;
}
