/* markdown.c: a page as Markdown; pictures are SVG files beside it, NAME-loss.svg beside NAME.md, or in a folder NAME.
 */
#include "base/file.h"
#include "draw/text.h"
#include "report/page.h"

#include <stdio.h>
#include <string.h>

/* Text from anybody: no markup of HTML (escaped), none of Markdown (a backslash before what could be). */
static void add_plain(struct ls_buf *b, const char *text)
{
    struct ls_buf safe = LS_BUF_INIT;
    ls__text_escape(&safe, text);
    for (const char *at = safe.text; *at; at++) {
        const char *quote = strncmp(at, "&#39;", 5) == 0 ? "'" : strncmp(at, "&quot;", 6) == 0 ? "\"" : NULL;
        if (strchr("\\`*_[]|~", *at)) ls__buf_adds(b, "\\");
        if (quote)
            ls__buf_adds(b, quote);
        else
            ls__buf_add(b, at, 1);
        if (quote) at = strchr(at, ';'); /* no attribute, where it would end something */
    }
    if (safe.failed) b->failed = true;
    ls__buf_release(&safe);
}

/* Of a command that is words and nothing else. */
static bool is_code(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ' || strchr("<>&\\", text[i])) return false;
    return n > 0;
}

/* Sentences of ours: what stands between backticks is code. */
static void add_marked(struct ls_buf *b, const char *text)
{
    for (const char *from = strchr(text, '`'), *to; from && (to = strchr(from + 1, '`')); from = strchr(text, '`')) {
        const size_t n = (size_t)(to - from - 1);
        const char *mark = is_code(from + 1, n) ? "`" : "";
        struct ls_buf before = LS_BUF_INIT, code = LS_BUF_INIT;
        ls__buf_add(&before, text, (size_t)(from - text));
        ls__buf_add(&code, from + 1, n);
        add_plain(b, before.text);
        ls__buf_adds(b, mark);
        if (*mark)
            ls__buf_adds(b, code.text);
        else
            add_plain(b, code.text);
        ls__buf_adds(b, mark);
        if (before.failed || code.failed) b->failed = true;
        ls__buf_release(&before);
        ls__buf_release(&code);
        text = to + 1;
    }
    add_plain(b, text);
}

static void add_row(struct ls_buf *b, const struct ls_part *part, int r)
{
    ls__buf_adds(b, "|");
    for (int c = 0; c < part->n_columns; c++) {
        ls__buf_adds(b, " ");
        add_plain(b, part->cells[r * part->n_columns + c]);
        ls__buf_adds(b, " |");
    }
    ls__buf_adds(b, "\n");
}

static void add_table(struct ls_buf *b, const struct ls_part *part)
{
    add_row(b, part, 0);
    ls__buf_adds(b, "|");
    for (int c = 0; c < part->n_columns; c++) ls__buf_adds(b, "---|");
    ls__buf_adds(b, "\n");
    for (int r = 1; r < part->n_rows; r++) add_row(b, part, r);
}

/* What a fence holds must not end it. */
static void add_code(struct ls_buf *b, const char *text)
{
    for (;; text++) {
        char line[LS_NOTE_BYTES], clean[LS_NOTE_BYTES];
        size_t len = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)len, text);
        ls__buf_adds(b, "    ");
        ls__buf_adds(b, ls__text_clean(clean, sizeof clean, line));
        ls__buf_adds(b, "\n");
        text += len;
        if (!*text) return;
    }
}

/* "DIR/NAME-" or "DIR/NAME/"; `shown` is the part of it that a link needs. */
struct place {
    char stem[LS_PATH_BYTES];
    const char *shown;
};

/* What the picture is called, and its tab. */
static void add_caption(struct ls_buf *b, const struct ls_part *part, int tab)
{
    const struct ls_draw_picture *picture = part->pictures[tab];
    const char *title = picture->title && *picture->title ? picture->title
                        : picture->n_panels > 0           ? picture->panels[0].title
                                                          : NULL;
    add_plain(b, title && *title ? title : part->text);
    if (part->tabs[tab][0]) ls__buf_adds(b, ", ");
    add_plain(b, part->tabs[tab]);
}

static enum ls_status add_figure(struct ls_buf *b, const struct ls_part *part, const struct place *at)
{
    for (int i = 0; i < part->n_tabs; i++) {
        char path[LS_PATH_BYTES + 80];
        if (i)
            snprintf(path, sizeof path, "%s%s-%d.svg", at->stem, part->text, i + 1);
        else
            snprintf(path, sizeof path, "%s%s.svg", at->stem, part->text);
        TRY(ls_draw_write(part->pictures[i], path));
        ls__buf_adds(b, "![");
        add_caption(b, part, i);
        ls__buf_addf(b, "](<%s>)\n\n", path + (at->shown - at->stem));
    }
    return LS_OK;
}

static enum ls_status add_part(struct ls_buf *b, const struct ls_part *part, const struct place *at)
{
    switch (part->kind) {
    case LS_PART_HEADING:
        ls__buf_adds(b, "## ");
        add_plain(b, part->text);
        break;
    case LS_PART_TEXT:
    case LS_PART_NOTE:
        add_marked(b, part->text);
        break;
    case LS_PART_CODE:
        add_code(b, part->text);
        break;
    case LS_PART_TABLE:
        add_table(b, part);
        break;
    case LS_PART_FIGURE:
        return add_figure(b, part, at);
    case LS_PART_TILES:
        for (int r = 0; r < part->n_rows; r++) {
            ls__buf_adds(b, "- ");
            add_plain(b, part->cells[3 * r]);
            ls__buf_adds(b, ": **");
            add_plain(b, part->cells[3 * r + 1]);
            ls__buf_adds(b, "** ");
            add_plain(b, part->cells[3 * r + 2]);
            ls__buf_adds(b, "\n");
        }
        break;
    case LS_PART_POINTS:
        for (int r = 0; r < part->n_rows; r++) {
            ls__buf_adds(b, "- ");
            add_marked(b, part->cells[r]);
            ls__buf_adds(b, "\n");
        }
        break;
    }
    ls__buf_adds(b, "\n\n");
    return LS_OK;
}

static enum ls_status find_place(const struct ls_page *p, const char *path, struct place *at)
{
    const char *slash = strrchr(path, '/');
    int len = (int)(strlen(path) - strlen(".md"));
    snprintf(at->stem, sizeof at->stem, "%.*s", len, path);
    if (p->has_folder) TRY(ls__mkdirs(at->stem));
    snprintf(at->stem, sizeof at->stem, "%.*s%c", len, path, p->has_folder ? '/' : '-');
    at->shown = at->stem + (slash ? slash + 1 - path : 0);
    return LS_OK;
}

enum ls_status ls__page_markdown(const struct ls_page *p, const char *path)
{
    struct ls_buf b = LS_BUF_INIT;
    struct place at;
    enum ls_status status = LS_OK;
    TRY(find_place(p, path, &at));
    ls__buf_adds(&b, "# ");
    add_plain(&b, p->title);
    ls__buf_adds(&b, "\n\n");
    add_plain(&b, p->note);
    ls__buf_adds(&b, "\n\n");
    for (int i = 0; i < p->n_parts && status == LS_OK; i++) status = add_part(&b, &p->parts[i], &at);
    if (status == LS_OK) status = ls__buf_check(&b);
    const struct ls_piece piece = {b.text, b.len};
    if (status == LS_OK) status = ls__file_write_atomic(path, &piece, 1, LS_IO);
    ls__buf_release(&b);
    return status;
}
