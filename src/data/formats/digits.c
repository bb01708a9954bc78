/* digits.c: the built-in data sets `digits` (1x28x28) and `digits-rgb` (3x32x32), drawn by a pen.
 *
 * In: a split and a sample number. Out: the picture of a digit, 60,000 for training and 10,000 for testing, made when
 * first asked for (see lazy.h). Needs no file.
 *
 * How a picture comes about: a glyph (digits_glyphs.h) in one of several styles; its points wobble, are bent and go
 * through a random affine map; a smooth curve through them is cut into segments; a pixel's ink follows from its
 * distance to the nearest segment, the pen's width and its softness. Layers lie over each other from back to front:
 * background, parts of neighbouring digits, the digit, stray strokes and dots; noise comes last.
 *
 * Invariant: the same bytes on every machine. All random numbers are keyed by (split, sample); floats see only + - * /
 * sqrt and comparisons, which IEEE 754 defines exactly (rotation is by the rational parametrisation of the circle, not
 * by sin and cos), and the build forbids contraction to fused multiply-add. Whoever changes what is drawn raises
 * DIGITS_VERSION and renews mean, std and the known answers of the test.
 *
 * Labels are random but balanced: every ten samples from 10k to 10k+9 hold each digit once.
 */
#include "data/formats/digits_glyphs.h"
#include "data/lazy.h"

#include "base/rng.h"

#include <endian.h>
#include <math.h>
#include <string.h>

#define DIGITS_VERSION "1"
enum { N_TRAIN = 60000, N_TEST = 10000 };
enum { PICTURE_KEYS = 0, LABEL_KEYS = 2, RGB_KEYS = 4 }; /* added to the split in the random numbers' key */
#define DIGITS_SEED 0x6469676974u

enum {
    STRIDE = 32, /* of the canvas, whatever the picture's width */
    MIDDLE = STRIDE / 2,
    GROUP = 4, /* pixels worked on together */
    CURVE_PIECES = 3,
    MAX_SEGMENTS = GLYPH_POINTS * CURVE_PIECES
};

/* --- random numbers --- */

struct draws {
    uint32_t key, sample;
    uint64_t block;
    struct ls_rng4 words;
    int n_left;
};

static uint32_t draw(struct draws *d)
{
    if (d->n_left == 0) {
        d->words = ls__rng(DIGITS_SEED, LS_RNG_DATA, d->key, d->sample, d->block++);
        d->n_left = 4;
    }
    return d->words.v[--d->n_left];
}

static float draw_between(struct draws *d, float low, float high)
{
    return low + (high - low) * ls__rng_unit(draw(d));
}

static int draw_below(struct draws *d, int n)
{
    return (int)ls__rng_below(draw(d), (uint64_t)n);
}

/* In (-1,1), small values more likely; takes half the draws of two uniform numbers. */
static float draw_triangular(struct draws *d)
{
    uint32_t word = draw(d);
    return ((float)(word & 0xffff) - (float)(word >> 16)) * 0x1p-16f;
}

static bool draw_chance(struct draws *d, float probability)
{
    return ls__rng_unit(draw(d)) < probability;
}

/* --- the canvas --- */

struct point {
    float x, y;
};

struct segment {
    struct point from, along;
    float inv_length2; /* 0 for a dot */
};

struct stroke_set { /* what is drawn with one pen */
    int n;
    struct segment segments[MAX_SEGMENTS];
};

struct pen {
    float radius, softness; /* pixels; ink fades from full to none over `softness` */
    float opacity;
    float ink[3];
};

struct canvas {
    int c, side;
    float distance2[STRIDE * STRIDE]; /* to the nearest segment of the layer being drawn, squared */
    float pixels[3][STRIDE * STRIDE]; /* [c,side,STRIDE], 0 to 1 */
};

static int clamp_int(int v, int low, int high)
{
    return v < low ? low : v > high ? high : v;
}

static void add_segment(struct stroke_set *s, struct point a, struct point b)
{
    if (s->n == MAX_SEGMENTS) return;
    struct point along = {b.x - a.x, b.y - a.y};
    float length2 = along.x * along.x + along.y * along.y;
    s->segments[s->n++] = (struct segment){a, along, length2 > 1e-6f ? 1.0f / length2 : 0.0f};
}

/* One row: d2[i] becomes the squared distance of point (px + i, py) to the segment if that is nearer. n is a multiple
 * of GROUP; the points are relative to the segment's start. */
static void lower_row(float *d2, int n, const struct segment *s, float px, float py)
{
    const float ax = s->along.x, ay = s->along.y, inv = s->inv_length2;
    const float shift = py * ay;
    for (int i = 0; i < n; i++) {
        float x = px + (float)i;
        float t = x * ax + shift;
        t = (t > 0.0f ? t : 0.0f) * inv;
        t = t < 1.0f ? t : 1.0f;
        float ex = x - t * ax, ey = py - t * ay;
        float e2 = ex * ex + ey * ey;
        d2[i] = e2 < d2[i] ? e2 : d2[i];
    }
}

/* Lowers distance2 within `reach` of one segment. */
static void stamp_segment(struct canvas *canvas, const struct segment *s, float reach)
{
    const float limit = (float)canvas->side;
    float x_low = (s->along.x < 0 ? s->from.x + s->along.x : s->from.x) - reach;
    float x_high = (s->along.x < 0 ? s->from.x : s->from.x + s->along.x) + reach;
    float y_low = (s->along.y < 0 ? s->from.y + s->along.y : s->from.y) - reach;
    float y_high = (s->along.y < 0 ? s->from.y : s->from.y + s->along.y) + reach;
    if (x_high <= 0 || y_high <= 0 || x_low >= limit || y_low >= limit) return;
    int x0 = clamp_int((int)x_low, 0, canvas->side - 1) / GROUP * GROUP;
    int x1 = clamp_int((int)x_high + 1, 0, canvas->side);
    int y0 = clamp_int((int)y_low, 0, canvas->side), y1 = clamp_int((int)y_high + 1, 0, canvas->side);
    int n = (x1 - x0 + GROUP - 1) / GROUP * GROUP;
    for (int y = y0; y < y1; y++)
        lower_row(&canvas->distance2[y * STRIDE + x0], n, s, (float)x0 + 0.5f - s->from.x, (float)y + 0.5f - s->from.y);
}

/* The rows within reach of the strokes, as [*y0,*y1). */
static void find_rows(const struct stroke_set *strokes, int side, float reach, int *y0, int *y1)
{
    float low = 1e6f, high = -1e6f;
    for (int k = 0; k < strokes->n; k++) {
        float a = strokes->segments[k].from.y, b = a + strokes->segments[k].along.y;
        low = a < low ? a : low;
        low = b < low ? b : low;
        high = a > high ? a : high;
        high = b > high ? b : high;
    }
    *y0 = clamp_int((int)(low - reach), 0, side);
    *y1 = clamp_int((int)(high + reach) + 1, *y0, side);
}

/* Lays one layer of ink over the canvas. */
static void draw_layer(struct canvas *canvas, const struct stroke_set *strokes, const struct pen *pen)
{
    const float reach = pen->radius + pen->softness, inv_softness = 1.0f / pen->softness;
    const float bias = pen->radius * inv_softness + 0.5f, opacity = pen->opacity;
    int y0, y1;
    find_rows(strokes, canvas->side, reach, &y0, &y1);
    const int n = (y1 - y0) * STRIDE;
    float *cover = canvas->distance2 + (ptrdiff_t)y0 * STRIDE;
    for (int i = 0; i < n; i++) cover[i] = 1e6f;
    for (int k = 0; k < strokes->n; k++) stamp_segment(canvas, &strokes->segments[k], reach);
    for (int i = 0; i < n; i++) {
        float v = bias - sqrtf(cover[i]) * inv_softness;
        v = (v > 0.0f ? v : 0.0f) * opacity;
        cover[i] = v < opacity ? v : opacity;
    }
    for (int c = 0; c < canvas->c; c++) {
        const float ink = pen->ink[c];
        float *pixels = canvas->pixels[c] + (ptrdiff_t)y0 * STRIDE;
        for (int i = 0; i < n; i++) pixels[i] += (ink - pixels[i]) * cover[i];
    }
}

/* --- from a glyph to segments --- */

struct placement {
    float xx, xy, yx, yy; /* linear part, in pixels per glyph height */
    struct point centre;
    float bend, taper, lean, wobble;
};

/* angle: about radians while small. */
static struct placement place(struct point centre, float height, float aspect, float angle, float shear)
{
    float t = 0.5f * angle, inv = 1.0f / (1.0f + t * t);
    float cosine = (1.0f - t * t) * inv, sine = 2.0f * t * inv;
    float width = height * aspect;
    return (struct placement){
        .xx = cosine * width,
        .xy = (cosine * shear - sine) * height,
        .yx = sine * width,
        .yy = (sine * shear + cosine) * height,
        .centre = centre,
    };
}

static struct point map_point(const struct placement *at, struct glyph_point p, struct draws *d)
{
    float u = ((float)p.x - 0.5f * GLYPH_W) * (1.0f / GLYPH_H) + at->wobble * draw_triangular(d);
    float v = ((float)p.y - 0.5f * GLYPH_H) * (1.0f / GLYPH_H) + at->wobble * draw_triangular(d);
    float bent_u = u + at->bend * (v * v - 0.1f) + at->taper * u * v;
    float bent_v = v + at->lean * u * v;
    return (struct point){at->centre.x + at->xx * bent_u + at->xy * bent_v,
                          at->centre.y + at->yx * bent_u + at->yy * bent_v};
}

/* The Catmull-Rom span from b to c, where a comes before and d after. */
static void add_curve(struct stroke_set *s, struct point a, struct point b, struct point c, struct point d)
{
    struct point from = b;
    for (int i = 1; i <= CURVE_PIECES; i++) {
        float t = (float)i * (1.0f / CURVE_PIECES), t2 = t * t, t3 = t2 * t;
        float wa = 0.5f * (2.0f * t2 - t3 - t), wb = 0.5f * (3.0f * t3 - 5.0f * t2 + 2.0f);
        float wc = 0.5f * (4.0f * t2 - 3.0f * t3 + t), wd = 0.5f * (t3 - t2);
        struct point to = {wa * a.x + wb * b.x + wc * c.x + wd * d.x, wa * a.y + wb * b.y + wc * c.y + wd * d.y};
        add_segment(s, from, to);
        from = to;
    }
}

static void add_stroke(struct stroke_set *s, const struct point *p, int n)
{
    for (int i = 0; i + 1 < n; i++) {
        if (p[i].x == p[i + 1].x && p[i].y == p[i + 1].y) continue; /* a corner */
        add_curve(s, p[i > 0 ? i - 1 : 0], p[i], p[i + 1], p[i + 2 < n ? i + 2 : n - 1]);
    }
}

static void add_glyph(struct stroke_set *s, int digit, const struct placement *at, struct draws *d)
{
    const struct glyph_point *g = glyphs[digit][draw_below(d, GLYPH_STYLES)];
    struct point points[GLYPH_POINTS];
    int n = 0;
    for (;; g++) {
        if (g->x >= 0) {
            bool is_corner = n > 0 && g[-1].x == g->x && g[-1].y == g->y;
            points[n] = is_corner ? points[n - 1] : map_point(at, *g, d);
            n++;
            continue;
        }
        add_stroke(s, points, n);
        n = 0;
        if (g->y < 0) return;
    }
}

/* --- the picture --- */

/* How far pictures may differ, for each of the two sets. Lengths as parts of the side. */
struct look {
    float height_low, height_high, aspect_low, aspect_high;
    float angle, shear, shift, bend, wobble;
    float radius_low, radius_high, softness_low, softness_high;
    float neighbour_chance, neighbour_gap_low, neighbour_gap_high;
    int max_strays;
    float noise_low, noise_high;
};

/* clang-format off */
static const struct look looks[2] = {
    [false] = {.height_low = 0.50f, .height_high = 0.80f, .aspect_low = 0.70f, .aspect_high = 1.15f,
               .angle = 0.50f, .shear = 0.45f, .shift = 0.10f, .bend = 0.50f, .wobble = 0.070f,
               .radius_low = 0.016f, .radius_high = 0.062f, .softness_low = 0.030f, .softness_high = 0.075f,
               .neighbour_chance = 0.20f, .neighbour_gap_low = 0.56f, .neighbour_gap_high = 0.70f,
               .max_strays = 3, .noise_low = 0.01f, .noise_high = 0.15f},
    [true] = {.height_low = 0.60f, .height_high = 0.90f, .aspect_low = 0.70f, .aspect_high = 1.05f,
              .angle = 0.45f, .shear = 0.40f, .shift = 0.08f, .bend = 0.45f, .wobble = 0.065f,
              .radius_low = 0.020f, .radius_high = 0.065f, .softness_low = 0.035f, .softness_high = 0.100f,
              .neighbour_chance = 0.60f, .neighbour_gap_low = 0.46f, .neighbour_gap_high = 0.62f,
              .max_strays = 2, .noise_low = 0.01f, .noise_high = 0.14f},
};
/* clang-format on */

struct scene {
    const struct look *look;
    struct draws draws;
    struct canvas canvas;
    struct stroke_set strokes;
    struct placement digit;
    struct pen pen;
};

/* Background and ink. Gray: bright on dark. Colour: either way round, with a gradient behind. */
static void choose_colours(struct scene *s)
{
    struct draws *d = &s->draws;
    struct canvas *canvas = &s->canvas;
    float behind = draw_between(d, 0.0f, 0.12f), ink = draw_between(d, 0.50f, 1.0f);
    if (canvas->c == 3) {
        float contrast = draw_between(d, 0.14f, 0.55f);
        behind = draw_between(d, 0.10f, 0.90f);
        bool is_brighter = behind + contrast > 0.95f ? false : behind - contrast < 0.05f ? true : draw_chance(d, 0.5f);
        ink = is_brighter ? behind + contrast : behind - contrast;
    }
    for (int c = 0; c < canvas->c; c++) {
        float tint = canvas->c == 3 ? 0.12f : 0.0f, slope = canvas->c == 3 ? 0.30f / STRIDE : 0.0f;
        float level = behind + tint * draw_triangular(d);
        float dx = slope * draw_triangular(d), dy = slope * draw_triangular(d);
        s->pen.ink[c] = ink + tint * draw_triangular(d);
        for (int y = 0; y < canvas->side; y++)
            for (int x = 0; x < STRIDE; x++)
                canvas->pixels[c][y * STRIDE + x] = level + dx * (float)(x - MIDDLE) + dy * (float)(y - MIDDLE);
    }
}

static void choose_hand(struct scene *s)
{
    struct draws *d = &s->draws;
    const struct look *look = s->look;
    const float side = (float)s->canvas.side;
    float height = side * draw_between(d, look->height_low, look->height_high);
    float aspect = draw_between(d, look->aspect_low, look->aspect_high);
    float angle = look->angle * draw_triangular(d), shear = look->shear * draw_triangular(d);
    struct point centre = {side * (0.5f + draw_between(d, -look->shift, look->shift)),
                           side * (0.5f + draw_between(d, -look->shift, look->shift))};
    s->digit = place(centre, height, aspect, angle, -shear);
    s->digit.bend = look->bend * draw_triangular(d);
    s->digit.taper = look->bend * draw_triangular(d);
    s->digit.lean = look->bend * draw_triangular(d);
    s->digit.wobble = look->wobble;
    s->pen.radius = side * draw_between(d, look->radius_low, look->radius_high);
    s->pen.softness = side * draw_between(d, look->softness_low, look->softness_high);
    s->pen.opacity = 1.0f;
}

/* Digits to the left and right, mostly outside the picture, in the same hand. */
static void draw_neighbours(struct scene *s)
{
    struct draws *d = &s->draws;
    s->strokes.n = 0;
    for (int sign = -1; sign <= 1; sign += 2) {
        if (!draw_chance(d, s->look->neighbour_chance)) continue;
        float gap = (float)s->canvas.side * draw_between(d, s->look->neighbour_gap_low, s->look->neighbour_gap_high);
        struct placement at = s->digit;
        at.centre.x += (float)sign * gap;
        at.centre.y += 0.1f * gap * draw_triangular(d);
        add_glyph(&s->strokes, draw_below(d, 10), &at, d);
        draw_layer(&s->canvas, &s->strokes, &s->pen);
        s->strokes.n = 0;
    }
}

static void draw_digit(struct scene *s, int digit)
{
    s->strokes.n = 0;
    add_glyph(&s->strokes, digit, &s->digit, &s->draws);
    draw_layer(&s->canvas, &s->strokes, &s->pen);
}

/* Short strokes and dots near the border. */
static void draw_strays(struct scene *s)
{
    struct draws *d = &s->draws;
    const float side = (float)s->canvas.side;
    int n = draw_below(d, s->look->max_strays + 1);
    struct pen pen = s->pen;
    pen.opacity = draw_between(d, 0.3f, 0.9f);
    pen.radius = side * draw_between(d, 0.01f, 0.03f);
    s->strokes.n = 0;
    for (int i = 0; i < n; i++) {
        float along = draw_between(d, 0.0f, side), inward = draw_between(d, 0.0f, 0.16f) * side;
        struct point a = {along, inward};
        int edge = draw_below(d, 4);
        if (edge & 1) a = (struct point){a.y, a.x};
        if (edge & 2) a = (struct point){side - a.x, side - a.y};
        float length = draw_chance(d, 0.4f) ? 0.0f : 0.2f * side;
        struct point b = {a.x + length * draw_triangular(d), a.y + length * draw_triangular(d)};
        add_segment(&s->strokes, a, b);
    }
    if (n > 0) draw_layer(&s->canvas, &s->strokes, &pen);
}

static void develop_row(const float *row, const uint8_t *noise, int n, float grain, uint8_t *out)
{
    for (int i = 0; i < n; i++) {
        float v = row[i] * 255.0f + grain * (float)(2 * noise[i] - 255) + 0.5f;
        v = v < 0.0f ? 0.0f : v;
        v = v > 255.0f ? 255.0f : v;
        out[i] = (uint8_t)(int)v;
    }
}

/* Adds noise and rounds to bytes. The noise of sixteen pixels comes from one block of random numbers. */
static void develop(struct scene *s, uint8_t *out)
{
    struct draws *d = &s->draws;
    const struct canvas *canvas = &s->canvas;
    const float grain = draw_between(d, s->look->noise_low, s->look->noise_high);
    uint8_t noise[STRIDE]; /* of one row */
    for (int c = 0; c < canvas->c; c++)
        for (int y = 0; y < canvas->side; y++, out += canvas->side) {
            for (int x = 0; x < canvas->side; x += 16) {
                struct ls_rng4 r = ls__rng(DIGITS_SEED, LS_RNG_DATA, d->key, d->sample, d->block++);
                for (int k = 0; k < 4; k++) r.v[k] = htole32(r.v[k]);
                memcpy(noise + x, r.v, 16);
            }
            develop_row(canvas->pixels[c] + (ptrdiff_t)y * STRIDE, noise, canvas->side, grain, out);
        }
}

static void make_picture(const struct ls_dataset *ds, int64_t sample, uint8_t *out)
{
    const bool is_rgb = ds->c == 3;
    struct scene s;
    s.look = &looks[is_rgb];
    s.canvas.c = ds->c;
    s.canvas.side = ds->w;
    s.draws =
        (struct draws){.key = PICTURE_KEYS + (uint32_t)ds->split + (is_rgb ? RGB_KEYS : 0), .sample = (uint32_t)sample};
    choose_colours(&s);
    choose_hand(&s);
    draw_neighbours(&s);
    draw_digit(&s, ds->labels[sample]);
    draw_strays(&s);
    develop(&s, out);
}

/* --- the data set --- */

/* A permutation of the ten digits from one number below 10!, read in the factorial number system. */
static void make_ten_labels(uint32_t number, uint16_t *labels)
{
    for (int i = 0; i < 10; i++) labels[i] = (uint16_t)i;
    for (uint32_t i = 9; i > 0; i--) {
        uint32_t j = number % (i + 1);
        number /= i + 1;
        uint16_t t = labels[i];
        labels[i] = labels[j];
        labels[j] = t;
    }
}

static void make_labels(struct ls_dataset *ds)
{
    const uint32_t n_permutations = 3628800; /* 10! */
    const uint32_t key = LABEL_KEYS + (uint32_t)ds->split + (ds->c == 3 ? RGB_KEYS : 0);
    for (int64_t i = 0; i < ds->n / 10; i++) {
        struct ls_rng4 r = ls__rng(DIGITS_SEED, LS_RNG_DATA, key, (uint32_t)i, 0);
        make_ten_labels(ls__rng_below(r.v[0], n_permutations), ds->impl->labels + 10 * i);
    }
}

enum ls_status ls__digits_open(struct ls_dataset *ds, bool is_rgb)
{
    static const float gray_mean[3] = {0.1499f, 0.1499f, 0.1499f}, gray_std[3] = {0.2053f, 0.2053f, 0.2053f};
    static const float rgb_mean[3] = {0.4956f, 0.4956f, 0.4956f}, rgb_std[3] = {0.2326f, 0.2326f, 0.2326f};
    ds->c = is_rgb ? 3 : 1;
    ds->h = ds->w = is_rgb ? 32 : 28;
    ds->n_classes = 10;
    ds->class_names = LS_DIGIT_NAMES;
    ds->n = ds->split == LS_TRAIN ? N_TRAIN : N_TEST;
    ls__dataset_set_mean_std(ds, is_rgb ? rgb_mean : gray_mean, is_rgb ? rgb_std : gray_std);
    TRY(ls__dataset_alloc_labels(ds));
    make_labels(ds);
    TRY(ls__lazy_open(ds, ds->n, make_picture));
    ls__lazy_checksum(ds, is_rgb ? "digits-rgb-" DIGITS_VERSION : "digits-" DIGITS_VERSION);
    return LS_OK;
}
