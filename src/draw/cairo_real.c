/* cairo_real.c: the painter for PNG and PDF, by cairo, loaded when it is first needed: it brings fontconfig, X and a
 * dozen more libraries along that other commands should not wait for.
 *
 * A failure within cairo sticks to its context and is reported by `finish`.
 */
#include "base/mem.h"
#include "draw/painter.h"

#include <cairo-pdf.h>
#include <cairo.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Every function of cairo used here. Types come from its headers. */
#define CAIRO_FUNCTIONS(X)                                                                                             \
    X(image_surface_create)                                                                                            \
    X(image_surface_get_data)                                                                                          \
    X(image_surface_get_stride)                                                                                        \
    X(surface_flush)                                                                                                   \
    X(surface_mark_dirty)                                                                                              \
    X(set_source_surface)                                                                                              \
    X(get_source)                                                                                                      \
    X(pattern_set_filter)                                                                                              \
    X(paint)                                                                                                           \
    X(pdf_surface_create_for_stream)                                                                                   \
    X(pdf_surface_set_metadata)                                                                                        \
    X(surface_write_to_png_stream)                                                                                     \
    X(show_page)                                                                                                       \
    X(surface_finish)                                                                                                  \
    X(surface_status)                                                                                                  \
    X(surface_destroy)                                                                                                 \
    X(create)                                                                                                          \
    X(destroy)                                                                                                         \
    X(status)                                                                                                          \
    X(status_to_string)                                                                                                \
    X(scale)                                                                                                           \
    X(save)                                                                                                            \
    X(restore)                                                                                                         \
    X(translate)                                                                                                       \
    X(rotate)                                                                                                          \
    X(move_to)                                                                                                         \
    X(line_to)                                                                                                         \
    X(rectangle)                                                                                                       \
    X(arc)                                                                                                             \
    X(new_path)                                                                                                        \
    X(new_sub_path)                                                                                                    \
    X(close_path)                                                                                                      \
    X(stroke)                                                                                                          \
    X(fill)                                                                                                            \
    X(fill_preserve)                                                                                                   \
    X(clip)                                                                                                            \
    X(set_line_width)                                                                                                  \
    X(set_line_join)                                                                                                   \
    X(set_line_cap)                                                                                                    \
    X(set_dash)                                                                                                        \
    X(set_source_rgba)                                                                                                 \
    X(select_font_face)                                                                                                \
    X(set_font_size)                                                                                                   \
    X(text_extents)                                                                                                    \
    X(show_text)

static struct {
#define MEMBER(name) __typeof__(cairo_##name) *name;
    CAIRO_FUNCTIONS(MEMBER)
#undef MEMBER
} lib;

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
static bool is_loaded; /* under `loading` */

static enum ls_status load(void)
{
    const struct {
        const char *name;
        void *to;
    } symbols[] = {
#define ROW(name) {"cairo_" #name, &lib.name},
        CAIRO_FUNCTIONS(ROW)
#undef ROW
    };
    void *library = dlopen("libcairo.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) library = dlopen("libcairo.so", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return ls_fail(
            LS_UNSUPPORTED,
            "PNG and PDF need cairo, which is not installed; draw .svg, or on Debian: apt install libcairo2");
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *found = dlsym(library, symbols[i].name);
        if (!found) return ls_fail(LS_UNSUPPORTED, "the installed cairo has no %s; draw .svg", symbols[i].name);
        memcpy(symbols[i].to, &found, sizeof found); /* the way POSIX has from an object's pointer to a function's */
    }
    is_loaded = true;
    return LS_OK;
}

enum ls_status ls__cairo_load(void)
{
    enum ls_status status = LS_OK;
    pthread_mutex_lock(&loading);
    if (!is_loaded) status = load();
    pthread_mutex_unlock(&loading);
    return status;
}

struct canvas {
    cairo_surface_t *surface;
    cairo_t *context;
};

static cairo_t *context_of(struct ls_painter *p)
{
    return ((struct canvas *)p->own)->context;
}

static cairo_status_t take_bytes(void *closure, const unsigned char *data, unsigned length)
{
    struct ls_buf *b = closure;
    ls__buf_add(b, data, length);
    return b->failed ? CAIRO_STATUS_NO_MEMORY : CAIRO_STATUS_SUCCESS;
}

static void use(struct ls_painter *p, enum ls_ink ink, double alpha)
{
    unsigned rgb = ls__ink_rgb(ink, p->theme == LS_DRAW_DARK);
    lib.set_source_rgba(context_of(p), (rgb >> 16) / 255.0, (rgb >> 8 & 255) / 255.0, (rgb & 255) / 255.0, alpha);
}

static void paint_back(struct ls_painter *p)
{
    use(p, LS_INK_BACK, 1);
    lib.rectangle(context_of(p), 0, 0, p->width, p->height);
    lib.fill(context_of(p));
}

static void paint_begin(struct ls_painter *p, const char *title)
{
    struct canvas *c = NULL;
    if (ls__calloc(&c, 1, sizeof *c) != LS_OK) {
        p->out->failed = true;
        return;
    }
    p->own = c;
    bool is_pdf = p->format == LS_DRAW_PDF;
    if (is_pdf)
        c->surface = lib.pdf_surface_create_for_stream(take_bytes, p->out, p->width, p->height);
    else
        c->surface =
            lib.image_surface_create(CAIRO_FORMAT_RGB24, (int)ceil(p->width * p->zoom), (int)ceil(p->height * p->zoom));
    if (is_pdf) { /* no date: the same picture gives the same bytes */
        lib.pdf_surface_set_metadata(c->surface, CAIRO_PDF_METADATA_TITLE, title);
        lib.pdf_surface_set_metadata(c->surface, CAIRO_PDF_METADATA_CREATE_DATE, "2000-01-01T00:00:00Z");
    }
    c->context = lib.create(c->surface);
    if (!is_pdf) lib.scale(c->context, p->zoom, p->zoom);
    paint_back(p);
}

static void paint_page(struct ls_painter *p)
{
    if (!p->own) return;
    lib.show_page(context_of(p));
    paint_back(p);
}

static void paint_push(struct ls_painter *p, double x, double y, double scale)
{
    if (!p->own) return;
    lib.save(context_of(p));
    lib.translate(context_of(p), x, y);
    lib.scale(context_of(p), scale, scale);
}

static void paint_pop(struct ls_painter *p)
{
    if (p->own) lib.restore(context_of(p));
}

static void trace_path(cairo_t *cr, const struct ls_point *points, size_t n)
{
    lib.new_path(cr);
    for (size_t i = 0; i < n; i++) (i ? lib.line_to : lib.move_to)(cr, points[i].x, points[i].y);
}

static void paint_line(struct ls_painter *p, const struct ls_point *points, size_t n, enum ls_ink ink, double width,
                       enum ls_dash dash, double alpha)
{
    if (!p->own) return;
    cairo_t *cr = context_of(p);
    int n_dashes = 0;
    while (n_dashes < 4 && ls__dashes[dash][n_dashes] > 0) n_dashes++;
    trace_path(cr, points, n);
    use(p, ink, alpha);
    lib.set_line_width(cr, width);
    lib.set_line_join(cr, CAIRO_LINE_JOIN_ROUND);
    lib.set_line_cap(cr, n > 2 ? CAIRO_LINE_CAP_ROUND : CAIRO_LINE_CAP_BUTT);
    lib.set_dash(cr, ls__dashes[dash], n_dashes, 0);
    lib.stroke(cr);
    lib.set_dash(cr, NULL, 0, 0);
}

static void paint_area(struct ls_painter *p, const struct ls_point *points, size_t n, enum ls_ink ink, double alpha)
{
    if (!p->own) return;
    trace_path(context_of(p), points, n);
    lib.close_path(context_of(p));
    use(p, ink, alpha);
    lib.fill(context_of(p));
}

/* The path is there: filled, edged. */
static void finish_shape(struct ls_painter *p, enum ls_ink ink, double alpha, enum ls_ink edge, double width)
{
    cairo_t *cr = context_of(p);
    if (ink != LS_INK_NONE) {
        use(p, ink, alpha);
        lib.fill_preserve(cr);
    }
    if (edge != LS_INK_NONE) {
        use(p, edge, 1);
        lib.set_line_width(cr, width);
        lib.stroke(cr);
    }
    lib.new_path(cr);
}

static void paint_box(struct ls_painter *p, double x, double y, double w, double h, double round, enum ls_ink ink,
                      double alpha, enum ls_ink edge)
{
    if (!p->own) return;
    cairo_t *cr = context_of(p);
    lib.new_path(cr);
    if (round > 0) {
        lib.new_sub_path(cr);
        lib.arc(cr, x + w - round, y + round, round, -M_PI / 2, 0);
        lib.arc(cr, x + w - round, y + h - round, round, 0, M_PI / 2);
        lib.arc(cr, x + round, y + h - round, round, M_PI / 2, M_PI);
        lib.arc(cr, x + round, y + round, round, M_PI, 1.5 * M_PI);
        lib.close_path(cr);
    } else {
        lib.rectangle(cr, x, y, w, h);
    }
    finish_shape(p, ink, alpha, edge, 1);
}

static void paint_dot(struct ls_painter *p, struct ls_point at, double r, enum ls_ink ink, enum ls_ink edge,
                      double alpha)
{
    if (!p->own) return;
    lib.new_path(context_of(p));
    lib.arc(context_of(p), at.x, at.y, r, 0, 2 * M_PI);
    finish_shape(p, ink, alpha, edge, 1.5);
}

static void paint_text(struct ls_painter *p, struct ls_point at, const char *text, const struct ls_text_style *style)
{
    if (!p->own) return;
    cairo_t *cr = context_of(p);
    cairo_text_extents_t extents;
    lib.save(cr);
    lib.select_font_face(cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                         style->is_bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    lib.set_font_size(cr, style->size > 0 ? style->size : LS_TEXT_SIZE);
    lib.translate(cr, at.x, at.y);
    if (style->is_upright) lib.rotate(cr, -M_PI / 2);
    double x = 0;
    if (style->anchor != LS_ANCHOR_START) {
        lib.text_extents(cr, text, &extents);
        x = -extents.x_advance * (style->anchor == LS_ANCHOR_MIDDLE ? 0.5 : 1);
    }
    use(p, style->ink, 1);
    lib.move_to(cr, x, 0);
    lib.show_text(cr, text);
    lib.restore(cr);
    lib.new_path(cr);
}

static void paint_image(struct ls_painter *p, double x, double y, double w, double h, const struct ls_draw_tile *tile)
{
    if (!p->own) return;
    cairo_t *cr = context_of(p);
    cairo_surface_t *surface = lib.image_surface_create(CAIRO_FORMAT_RGB24, tile->w, tile->h);
    lib.surface_flush(surface);
    unsigned char *data =
        lib.image_surface_get_data(surface); /* NULL: out of memory, which sets the context's status */
    const int stride = lib.image_surface_get_stride(surface);
    for (int i = 0; data && i < tile->w * tile->h; i++) {
        const size_t plane = tile->c == 3 ? (size_t)tile->w * (size_t)tile->h : 0;
        const uint8_t *in = tile->pixels + i;
        const uint32_t pixel = (uint32_t)in[0] << 16 | (uint32_t)in[plane] << 8 | in[2 * plane];
        memcpy(data + (size_t)(i / tile->w) * (size_t)stride + 4 * (size_t)(i % tile->w), &pixel, sizeof pixel);
    }
    lib.surface_mark_dirty(surface);
    lib.save(cr);
    lib.translate(cr, x, y);
    lib.scale(cr, w / tile->w, h / tile->h);
    lib.set_source_surface(cr, surface, 0, 0);
    lib.pattern_set_filter(lib.get_source(cr), ls__tile_is_coarse(tile, w) ? CAIRO_FILTER_NEAREST : CAIRO_FILTER_GOOD);
    lib.paint(cr);
    lib.restore(cr);
    lib.surface_destroy(surface); /* the context keeps what it still needs */
}

static void paint_clip(struct ls_painter *p, double x, double y, double w, double h)
{
    if (!p->own) return;
    lib.save(context_of(p));
    lib.rectangle(context_of(p), x, y, w, h);
    lib.clip(context_of(p));
}

static void paint_unclip(struct ls_painter *p)
{
    if (p->own) lib.restore(context_of(p));
}

static void paint_tip(struct ls_painter *p, const char *text)
{
}

static void paint_end_tip(struct ls_painter *p)
{
}

static enum ls_status paint_finish(struct ls_painter *p)
{
    struct canvas *c = p->own;
    if (!c) return ls__buf_check(p->out);
    cairo_status_t status = lib.status(c->context);
    lib.destroy(c->context);
    if (status == CAIRO_STATUS_SUCCESS && p->format == LS_DRAW_PNG)
        status = lib.surface_write_to_png_stream(c->surface, take_bytes, p->out);
    lib.surface_finish(c->surface);
    if (status == CAIRO_STATUS_SUCCESS) status = lib.surface_status(c->surface);
    lib.surface_destroy(c->surface);
    free(c);
    p->own = NULL;
    TRY(ls__buf_check(p->out));
    if (status != CAIRO_STATUS_SUCCESS) return ls_fail(LS_ERROR, "cairo: %s", lib.status_to_string(status));
    return LS_OK;
}

const struct ls_painter_ops ls__cairo_painter = {
    .begin = paint_begin,
    .line = paint_line,
    .area = paint_area,
    .box = paint_box,
    .dot = paint_dot,
    .text = paint_text,
    .image = paint_image,
    .clip = paint_clip,
    .unclip = paint_unclip,
    .tip = paint_tip,
    .end_tip = paint_end_tip,
    .page = paint_page,
    .push = paint_push,
    .pop = paint_pop,
    .finish = paint_finish,
};
