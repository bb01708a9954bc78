/* html.c: a page as one HTML file: no network, no script, light and dark by the reader's wish, fit for printing. */
#include "base/file.h"
#include "draw/text.h"
#include "report/page.h"

#include <ctype.h>
#include <string.h>

/* Tabs are radio buttons, so that they need no script; on paper all pictures are shown. */
static const char style[] =
    ":root{color-scheme:light "
    "dark;--text:#1f2328;--faint:#59636e;--back:#f6f8fa;--card:#fff;--edge:#d7dce2;--accent:#0072b2}\n"
    "@media screen and "
    "(prefers-color-scheme:dark){:root{--text:#e6edf3;--faint:#9198a1;--back:#010409;--card:#0d1117;--edge:#30363d;"
    "--accent:#4ba3e3}}\n"
    "*{box-sizing:border-box}body{margin:0;background:var(--back);color:var(--text);font:15px/1.5 "
    "system-ui,-apple-system,"
    "\"Segoe UI\",\"Helvetica Neue\",Arial,sans-serif}\n"
    "main{max-width:60rem;margin:0 auto;padding:1.5rem 1rem 4rem}h1{font-size:1.7rem;margin:.2em 0 "
    "0;overflow-wrap:anywhere}"
    "h2{font-size:1.15rem;margin:2.2em 0 .6em}\n"
    ".sub{color:var(--faint);margin:.2em 0 1.2em;overflow-wrap:anywhere}.note{color:var(--faint);font-size:.87rem}\n"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(8rem,1fr));gap:.7rem;margin:1rem 0}"
    ".tile{background:var(--card);border:1px solid var(--edge);border-radius:8px;padding:.6rem .8rem;min-width:0}"
    ".tile b{display:block;font-size:1.2rem;line-height:1.35;overflow-wrap:anywhere}"
    ".tile span{color:var(--faint);font-size:.82rem;overflow-wrap:anywhere}\n"
    "figure{background:var(--card);border:1px solid var(--edge);border-radius:8px;margin:1rem 0;padding:1rem}"
    "figure svg.ls{display:block;width:100%;height:auto}\n"
    ".tabs>input{position:absolute;opacity:0;width:1px;height:1px}.tabs>label{display:inline-block;padding:.15rem "
    ".75rem;margin:0 .2rem .7rem 0;border:1px solid "
    "var(--edge);border-radius:99px;cursor:pointer;font-size:.87rem;color:var(--faint)}.tabs>input:checked+label{"
    "background:var(--accent);"
    "border-color:var(--accent);color:var(--card)}.tabs>input:focus-visible+label{outline:2px solid "
    "var(--text)}.tabs>div{display:none}\n"
    ".tabs>.t0:checked~.p0,.tabs>.t1:checked~.p1,.tabs>.t2:checked~.p2,.tabs>.t3:checked~.p3{display:block}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-size:.87rem;background:var(--card);border:1px solid "
    "var(--edge);margin:.6rem 0;max-width:100%}"
    "th,td{padding:.28rem .7rem;text-align:left;border-bottom:1px solid var(--edge);overflow-wrap:anywhere}"
    "th{color:var(--faint);font-weight:600}td:first-child{white-space:nowrap}td.n,th.n{text-align:right;font-variant-"
    "numeric:tabular-nums;overflow-wrap:normal}table.many{font-size:.78rem}table.many th,table.many td{padding:.22rem "
    ".42rem;overflow-wrap:normal}\n"
    "pre{background:var(--card);border:1px solid var(--edge);border-radius:8px;padding:.8rem "
    "1rem;overflow-x:auto;white-space:pre-wrap;"
    "overflow-wrap:anywhere;font:13px/1.5 ui-monospace,Menlo,Consolas,monospace}\n"
    "code{font:.92em ui-monospace,Menlo,Consolas,monospace}ul.points{padding-left:1.2rem}ul.points li{margin:.25em 0}\n"
    "@media "
    "print{:root{--back:#fff;--card:#fff;--text:#000;--edge:#ccc}body{font-size:11pt}main{max-width:none;padding:0}"
    "figure,.tile,table,pre{break-inside:avoid}h2{break-after:avoid}.tabs>div{display:block!important}.tabs>label{"
    "display:none}}\n";

static void add_tagged(struct ls_buf *b, const char *open, const char *text, const char *close)
{
    ls__buf_adds(b, open);
    ls__text_escape(b, text);
    ls__buf_adds(b, close);
}

/* What stands between backticks is code. */
static void add_marked(struct ls_buf *b, const char *open, const char *text, const char *close)
{
    ls__buf_adds(b, open);
    for (const char *from = strchr(text, '`'), *to; from && (to = strchr(from + 1, '`')); from = strchr(text, '`')) {
        struct ls_buf part = LS_BUF_INIT;
        ls__buf_add(&part, text, (size_t)(from - text));
        ls__text_escape(b, part.text);
        ls__buf_truncate(&part, 0);
        ls__buf_add(&part, from + 1, (size_t)(to - from - 1));
        add_tagged(b, "<code>", part.text, "</code>");
        if (part.failed) b->failed = true;
        ls__buf_release(&part);
        text = to + 1;
    }
    ls__text_escape(b, text);
    ls__buf_adds(b, close);
}

/* The picture itself; on paper it is always light, which print colours see to. */
static enum ls_status add_picture(struct ls_buf *b, const struct ls_draw_picture *picture)
{
    struct ls_draw_picture part = *picture;
    part.is_part = true;
    part.title = picture->title;
    return ls_draw(&part, LS_DRAW_SVG, b);
}

static enum ls_status add_figure(struct ls_buf *b, const struct ls_part *part, int number)
{
    ls__buf_addf(b, "<figure%s>\n", part->n_tabs > 1 ? " class=\"tabs\"" : "");
    for (int i = 0; part->n_tabs > 1 && i < part->n_tabs; i++) {
        ls__buf_addf(b, "<input type=\"radio\" name=\"f%d\" id=\"f%d-%d\" class=\"t%d\"%s><label for=\"f%d-%d\">",
                     number, number, i, i, i == 0 ? " checked" : "", number, i);
        add_tagged(b, "", part->tabs[i], "</label>\n");
    }
    for (int i = 0; i < part->n_tabs; i++) {
        if (part->n_tabs > 1) ls__buf_addf(b, "<div class=\"p%d\">\n", i);
        TRY(add_picture(b, part->pictures[i]));
        if (part->n_tabs > 1) ls__buf_adds(b, "</div>\n");
    }
    ls__buf_adds(b, "</figure>\n");
    return LS_OK;
}

/* A number, perhaps with a sign, a unit or a per cent sign. */
static bool is_numeric(const char *text)
{
    if (*text == '-' || *text == '+') text++;
    return isdigit((unsigned char)*text) || *text == '\0';
}

static bool is_numeric_column(const struct ls_part *part, int c)
{
    bool has_any = false;
    for (int r = 1; r < part->n_rows; r++) {
        const char *cell = part->cells[r * part->n_columns + c];
        if (!is_numeric(cell)) return false;
        has_any |= *cell != '\0';
    }
    return has_any && c > 0;
}

static void add_table(struct ls_buf *b, const struct ls_part *part)
{
    bool has_head = false, is_pairs = part->n_columns == 2;
    for (int c = 0; c < part->n_columns; c++) has_head |= part->cells[c][0] != '\0';
    ls__buf_adds(b, part->n_columns > 5 ? "<div class=\"wide\"><table class=\"many\">\n"
                                        : "<div class=\"wide\"><table>\n");
    for (int r = has_head ? 0 : 1; r < part->n_rows; r++) {
        ls__buf_adds(b, "<tr>");
        for (int c = 0; c < part->n_columns; c++) {
            bool is_head = r == 0 || (is_pairs && !has_head && c == 0);
            const char *class = !(is_pairs && !has_head) && is_numeric_column(part, c) ? " class=\"n\"" : "";
            ls__buf_addf(b, is_head ? "<th%s>" : "<td%s>", class);
            add_tagged(b, "", part->cells[r * part->n_columns + c], is_head ? "</th>" : "</td>");
        }
        ls__buf_adds(b, "</tr>\n");
    }
    ls__buf_adds(b, "</table></div>\n");
}

static void add_tiles(struct ls_buf *b, const struct ls_part *part)
{
    ls__buf_adds(b, "<div class=\"tiles\">\n");
    for (int r = 0; r < part->n_rows; r++) {
        const char *const *cell = part->cells + 3 * r;
        add_tagged(b, "<div class=\"tile\"><span>", cell[0], "</span>");
        add_tagged(b, "<b>", cell[1], "</b>");
        add_tagged(b, "<span>", cell[2], "</span></div>\n");
    }
    ls__buf_adds(b, "</div>\n");
}

/* Line by line, for a line's end is no harmless character. */
static void add_code(struct ls_buf *b, const char *text)
{
    ls__buf_adds(b, "<pre>");
    for (;; text++) {
        struct ls_buf line = LS_BUF_INIT;
        size_t len = strcspn(text, "\n");
        ls__buf_add(&line, text, len);
        ls__text_escape(b, line.text);
        if (line.failed) b->failed = true;
        ls__buf_release(&line);
        text += len;
        if (!*text) break;
        ls__buf_adds(b, "\n");
    }
    ls__buf_adds(b, "</pre>\n");
}

enum ls_status ls__page_html_part(struct ls_buf *b, const struct ls_part *part, int number)
{
    switch (part->kind) {
    case LS_PART_HEADING:
        add_tagged(b, "<h2>", part->text, "</h2>\n");
        break;
    case LS_PART_TEXT:
        add_marked(b, "<p>", part->text, "</p>\n");
        break;
    case LS_PART_NOTE:
        add_marked(b, "<p class=\"note\">", part->text, "</p>\n");
        break;
    case LS_PART_CODE:
        add_code(b, part->text);
        break;
    case LS_PART_TILES:
        add_tiles(b, part);
        break;
    case LS_PART_TABLE:
        add_table(b, part);
        break;
    case LS_PART_FIGURE:
        return add_figure(b, part, number);
    case LS_PART_POINTS:
        ls__buf_adds(b, "<ul class=\"points\">\n");
        for (int r = 0; r < part->n_rows; r++) add_marked(b, "<li>", part->cells[r], "</li>\n");
        ls__buf_adds(b, "</ul>\n");
        break;
    }
    return LS_OK;
}

void ls__page_html_style(struct ls_buf *b)
{
    ls__buf_adds(b, style);
    ls_draw_style(b, LS_DRAW_AUTO);
}

static enum ls_status build(struct ls_buf *b, const struct ls_page *p)
{
    ls__buf_adds(
        b, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
           "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n");
    add_tagged(b, "<title>", p->title, "</title>\n<style>\n");
    ls__page_html_style(b);
    add_tagged(b, "</style>\n</head>\n<body>\n<main>\n<h1>", p->title, "</h1>\n");
    add_tagged(b, "<p class=\"sub\">", p->note, "</p>\n");
    for (int i = 0; i < p->n_parts; i++) TRY(ls__page_html_part(b, &p->parts[i], i));
    ls__buf_adds(b, "</main>\n</body>\n</html>\n");
    return ls__buf_check(b);
}

enum ls_status ls__page_html(const struct ls_page *p, const char *path)
{
    struct ls_buf b = LS_BUF_INIT;
    enum ls_status status = build(&b, p);
    const struct ls_piece piece = {b.text, b.len};
    if (status == LS_OK) status = ls__file_write_atomic(path, &piece, 1, LS_IO);
    ls__buf_release(&b);
    return status;
}
