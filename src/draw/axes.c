/* axes.c: what stands around the plot; see panel.h. */
#include "draw/panel.h"
#include "draw/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is_percent(const struct ls_scale *s)
{
    return strcmp(s->unit, "%") == 0;
}

void ls__axis_name(char *out, size_t size, const struct ls_draw_axis *axis, const struct ls_scale *s)
{
    char name[LS_LABEL_BYTES];
    ls__text_clean(name, sizeof name, axis->label);
    if (!s->unit[0] || is_percent(s))
        snprintf(out, size, "%s", name);
    else if (name[0])
        snprintf(out, size, "%s (%s)", name, s->unit);
    else
        snprintf(out, size, "%s", s->unit);
}

void ls__tick_text(char *out, size_t size, const struct ls_scale *s, int i)
{
    snprintf(out, size, "%s%s", s->labels[i], is_percent(s) ? " %" : "");
}

double ls__widest_tick(const struct ls_scale *s)
{
    double widest = 0;
    char text[LS_TICK_BYTES + 8];
    for (int i = 0; i < s->n_ticks; i++) {
        ls__tick_text(text, sizeof text, s, i);
        widest = fmax(widest, ls__text_width(text, LS_SMALL_TEXT, false));
    }
    return widest;
}

void ls__axis_left(struct ls_painter *p, const struct ls_draw_axis *axis, const struct ls_scale *s, struct ls_box plot,
                   double left)
{
    const struct ls_text_style style = {.ink = LS_INK_FAINT, .size = LS_SMALL_TEXT, .anchor = LS_ANCHOR_END};
    const struct ls_text_style name_style = {.ink = LS_INK_FAINT, .size = LS_SMALL_TEXT};
    char text[LS_LABEL_BYTES];
    for (int i = 0; i < s->n_ticks; i++) {
        double y = ls__scale_at(s, s->ticks[i]);
        const struct ls_point line[] = {{plot.x, y}, {plot.x + plot.w, y}};
        p->ops->line(p, line, 2, LS_INK_GRID, 1, LS_DASH_NONE, 1);
        ls__tick_text(text, sizeof text, s, i);
        p->ops->text(p, (struct ls_point){plot.x - 7, y + 4}, text, &style);
    }
    ls__axis_name(text, sizeof text, axis, s);
    ls__text_fit(text, plot.x + plot.w - left, LS_SMALL_TEXT, false);
    if (text[0]) p->ops->text(p, (struct ls_point){left, plot.y - 12}, text, &name_style);
}

void ls__axis_below(struct ls_painter *p, const struct ls_draw_axis *axis, const struct ls_scale *s, struct ls_box plot,
                    bool has_grid)
{
    const struct ls_text_style style = {.ink = LS_INK_FAINT, .size = LS_SMALL_TEXT, .anchor = LS_ANCHOR_MIDDLE};
    const struct ls_text_style name_style = {.ink = LS_INK_FAINT, .size = LS_SMALL_TEXT, .anchor = LS_ANCHOR_END};
    const double bottom = plot.y + plot.h;
    char text[LS_LABEL_BYTES];
    double taken = -1e9;
    for (int i = 0; i < s->n_ticks; i++) {
        double x = ls__scale_at(s, s->ticks[i]);
        const struct ls_point line[] = {{x, has_grid ? plot.y : bottom}, {x, bottom + 4}};
        p->ops->line(p, line, 2, has_grid ? LS_INK_GRID : LS_INK_AXIS, 1, LS_DASH_NONE, 1);
        ls__tick_text(text, sizeof text, s, i);
        double half = ls__text_width(text, LS_SMALL_TEXT, false) / 2;
        if (x - half < taken + 6) continue; /* no room for it */
        p->ops->text(p, (struct ls_point){x, bottom + 17}, text, &style);
        taken = x + half;
    }
    const struct ls_point line[] = {{plot.x, bottom}, {plot.x + plot.w, bottom}};
    if (!has_grid) p->ops->line(p, line, 2, LS_INK_AXIS, 1, LS_DASH_NONE, 1);
    ls__axis_name(text, sizeof text, axis, s);
    ls__text_fit(text, plot.w, LS_SMALL_TEXT, false);
    if (text[0]) p->ops->text(p, (struct ls_point){plot.x + plot.w, bottom + 33}, text, &name_style);
}

int ls__draw_lines(struct ls_painter *p, const char *text, double x, double y, double width, double size,
                   enum ls_ink ink)
{
    enum { MAX_LINES = 12 };
    const struct ls_text_style style = {.ink = ink, .size = size};
    char clean[LS_NOTE_BYTES], line[LS_NOTE_BYTES];
    const char *rest = ls__text_clean(clean, sizeof clean, text);
    int n = 0;
    size_t skip;
    for (; *rest && n < MAX_LINES; n++) {
        size_t len = ls__text_break(rest, width, size, &skip);
        if (p) {
            memcpy(line, rest, len);
            line[len] = '\0';
            p->ops->text(p, (struct ls_point){x, y + n * LS_NOTE_LINE}, line, &style);
        }
        rest += len + skip;
    }
    return n;
}
