/* augment.c: resized crops, colours and erasing, image by image; see backend/augment.h. */
#include "backend/augment.h"

#include "base/exact.h"
#include "base/rng.h"
#include "base/simd.h"

#include <math.h>
#include <string.h>

/* Blocks of LS_RNG_AUGMENT; 0 and 1 are crop, mirror and cut-out. */
enum {
    BLOCK_COLOURS = 2,
    BLOCK_ORDER = 3,
    BLOCK_ERASE = 4,
    BLOCK_CROP_TRIES = 16,
    BLOCK_ERASE_TRIES = 32,
    N_TRIES = 10
};

static struct ls_rng4 draw(uint64_t seed, int64_t epoch, int64_t sample, int block)
{
    return ls__rng(seed, LS_RNG_AUGMENT, (uint32_t)epoch, (uint32_t)sample, (uint64_t)block);
}

static double between(uint32_t word, double low, double high)
{
    return low + (high - low) * (double)ls__rng_unit(word);
}

/* Sides of a rectangle of `area` pixels whose logarithm of width over height lies between -bound and bound. */
static void draw_sides(double area, double log_ratio, int *h, int *w)
{
    const double ratio = ls__exact_exp(log_ratio);
    *w = (int)rint(sqrt(area * ratio));
    *h = (int)rint(sqrt(area / ratio));
}

/* --- resized crop --- */

struct ls_crop ls__augment_draw_crop(int h, int w, float least, uint64_t seed, int64_t epoch, int64_t sample)
{
    const double log_of_4_3 = 0.28768207245178092744;
    struct ls_crop c;
    for (int i = 0; i < N_TRIES; i++) {
        const struct ls_rng4 r = draw(seed, epoch, sample, BLOCK_CROP_TRIES + i);
        const double area = (double)h * w * between(r.v[0], (double)least, 1);
        draw_sides(area, between(r.v[1], -log_of_4_3, log_of_4_3), &c.h, &c.w);
        if (c.h < 1 || c.w < 1 || c.h > h || c.w > w) continue;
        c.y = (int)ls__rng_below(r.v[2], (uint64_t)(h - c.h) + 1);
        c.x = (int)ls__rng_below(r.v[3], (uint64_t)(w - c.w) + 1);
        return c;
    }
    return (struct ls_crop){0, 0, h, w};
}

/* Where output i of n lies among m inputs: between `at` and `next`, `share` of the way. */
struct between {
    int at, next;
    float share;
};

LS_INLINE struct between find(int i, int n, int m)
{
    float x = ((float)i + 0.5f) * ((float)m / (float)n) - 0.5f;
    x = x < 0.0f ? 0.0f : x;
    struct between b = {.at = (int)x};
    if (b.at > m - 1) b.at = m - 1;
    b.next = b.at + 1 < m ? b.at + 1 : b.at;
    b.share = x - (float)b.at;
    return b;
}

void ls__augment_resize(const uint8_t *in, int h, int w, const struct ls_crop *crop, bool is_mirrored, float *out)
{
    for (int y = 0; y < h; y++, out += w) {
        const struct between v = find(y, h, crop->h);
        const uint8_t *top = in + (int64_t)(crop->y + v.at) * w + crop->x;
        const uint8_t *bottom = in + (int64_t)(crop->y + v.next) * w + crop->x;
        for (int x = 0; x < w; x++) {
            const struct between u = find(x, w, crop->w);
            const float a = (float)top[u.at] + u.share * ((float)top[u.next] - (float)top[u.at]);
            const float b = (float)bottom[u.at] + u.share * ((float)bottom[u.next] - (float)bottom[u.at]);
            out[is_mirrored ? w - 1 - x : x] = (a + v.share * (b - a)) * (1.0f / 255.0f);
        }
    }
}

/* --- colours --- */

bool ls__augment_has_colours(const struct ls_transform *t)
{
    return t->brightness > 0 || t->contrast > 0 || t->saturation > 0 || t->hue > 0;
}

LS_INLINE float clamp(float x)
{
    return x < 0.0f ? 0.0f : x > 1.0f ? 1.0f : x;
}

LS_INLINE float grey_of(const float *p, int64_t plane, int64_t i)
{
    return 0.2989f * p[i] + 0.587f * p[plane + i] + 0.114f * p[2 * plane + i];
}

/* image = factor * image + (1 - factor) * other, within 0 to 1. */
LS_VECTORIZE static void blend(float *image, int64_t n, float factor, float other)
{
    const float offset = (1.0f - factor) * other;
    for (int64_t i = 0; i < n; i++) image[i] = clamp(factor * image[i] + offset);
}

/* The mean of the grey image (of the image itself where it has no colours), in double, row-major. */
static float mean_grey(const float *image, int c, int64_t plane)
{
    double sum = 0.0;
    if (c == 3)
        for (int64_t i = 0; i < plane; i++) sum += (double)grey_of(image, plane, i);
    else
        for (int64_t i = 0; i < c * plane; i++) sum += (double)image[i];
    return (float)(sum / (double)(c == 3 ? plane : c * plane));
}

LS_VECTORIZE static void saturate(float *image, int64_t plane, float factor)
{
    LS_INDEPENDENT
    for (int64_t i = 0; i < plane; i++) {
        const float grey = (1.0f - factor) * grey_of(image, plane, i);
        for (int c = 0; c < 3; c++) image[c * plane + i] = clamp(factor * image[c * plane + i] + grey);
    }
}

/* One pixel: to hue, saturation and value, the hue turned by `turn` of a full circle, and back. */
static void turn_pixel(float rgb[3], float turn)
{
    const float r = rgb[0], g = rgb[1], b = rgb[2];
    const float max = r > g ? (r > b ? r : b) : (g > b ? g : b), min = r < g ? (r < b ? r : b) : (g < b ? g : b);
    const float range = max - min;
    if (range <= 0.0f) return; /* grey has no hue */
    float h = max == r ? (g - b) / range : max == g ? 2.0f + (b - r) / range : 4.0f + (r - g) / range;
    h = h / 6.0f + turn;
    h -= floorf(h);
    const float sixth = h * 6.0f, whole = floorf(sixth), f = sixth - whole, s = range / max;
    const float p = clamp(max * (1.0f - s)), q = clamp(max * (1.0f - s * f)), t = clamp(max * (1.0f - s * (1.0f - f)));
    const float table[6][3] = {{max, t, p}, {q, max, p}, {p, max, t}, {p, q, max}, {t, p, max}, {max, p, q}};
    memcpy(rgb, table[(int)whole % 6], 3 * sizeof *rgb);
}

static void turn_hue(float *image, int64_t plane, float turn)
{
    for (int64_t i = 0; i < plane; i++) {
        float rgb[3] = {image[i], image[plane + i], image[2 * plane + i]};
        turn_pixel(rgb, turn);
        for (int c = 0; c < 3; c++) image[c * plane + i] = rgb[c];
    }
}

static float factor_of(float strength, uint32_t word)
{
    const double low = strength < 1.0f ? 1.0 - (double)strength : 0.0;
    return (float)between(word, low, 1.0 + (double)strength);
}

struct ls_colours ls__augment_draw_colours(const struct ls_transform *t, uint64_t seed, int64_t epoch, int64_t sample)
{
    const struct ls_rng4 r = draw(seed, epoch, sample, BLOCK_COLOURS), o = draw(seed, epoch, sample, BLOCK_ORDER);
    const bool is_on[LS_N_COLOURS] = {t->brightness > 0, t->contrast > 0, t->saturation > 0 && t->c == 3,
                                      t->hue > 0 && t->c == 3};
    struct ls_colours c = {.order = {LS_BRIGHTNESS, LS_CONTRAST, LS_SATURATION, LS_HUE},
                           .by = {factor_of(t->brightness, r.v[0]), factor_of(t->contrast, r.v[1]),
                                  factor_of(t->saturation, r.v[2]),
                                  (float)between(r.v[3], -(double)t->hue, (double)t->hue)}};
    for (int i = LS_N_COLOURS - 1; i > 0; i--) {
        const int j = (int)ls__rng_below(o.v[i], (uint64_t)i + 1), kept = c.order[i];
        c.order[i] = c.order[j];
        c.order[j] = kept;
    }
    for (int i = 0; i < LS_N_COLOURS; i++)
        if (!is_on[c.order[i]]) c.order[i] = -1;
    return c;
}

void ls__augment_colours(const struct ls_transform *t, uint64_t seed, int64_t epoch, int64_t sample, float *image)
{
    const int64_t plane = (int64_t)t->h * t->w;
    const struct ls_colours c = ls__augment_draw_colours(t, seed, epoch, sample);
    for (int i = 0; i < LS_N_COLOURS; i++) {
        if (c.order[i] == LS_BRIGHTNESS)
            blend(image, t->c * plane, c.by[LS_BRIGHTNESS], 0);
        else if (c.order[i] == LS_CONTRAST)
            blend(image, t->c * plane, c.by[LS_CONTRAST], mean_grey(image, t->c, plane));
        else if (c.order[i] == LS_SATURATION)
            saturate(image, plane, c.by[LS_SATURATION]);
        else if (c.order[i] == LS_HUE)
            turn_hue(image, plane, c.by[LS_HUE]);
    }
}

/* --- erasing --- */

struct ls_box ls__augment_draw_erasing(const struct ls_transform *t, uint64_t seed, int64_t epoch, int64_t sample)
{
    const double log_of_10_3 = 1.20397280432593599262, log_of_3_3 = 1.19392246847243439; /* ratios 0.3 to 3.3 */
    const struct ls_box none = {0};
    if (!(ls__rng_unit(draw(seed, epoch, sample, BLOCK_ERASE).v[0]) < t->erasing)) return none;
    for (int i = 0; i < N_TRIES; i++) {
        const struct ls_rng4 r = draw(seed, epoch, sample, BLOCK_ERASE_TRIES + i);
        const double area = (double)t->h * t->w * between(r.v[0], 0.02, 0.33);
        int h, w;
        draw_sides(area, between(r.v[1], -log_of_10_3, log_of_3_3), &h, &w);
        if (h < 1 || w < 1 || h >= t->h || w >= t->w) continue;
        const int y0 = (int)ls__rng_below(r.v[2], (uint64_t)(t->h - h) + 1);
        const int x0 = (int)ls__rng_below(r.v[3], (uint64_t)(t->w - w) + 1);
        return (struct ls_box){y0, y0 + h, x0, x0 + w};
    }
    return none;
}

void ls__augment_erase(const struct ls_transform *t, uint64_t seed, int64_t epoch, int64_t sample, float *image)
{
    const struct ls_box b = ls__augment_draw_erasing(t, seed, epoch, sample);
    for (int c = 0; c < t->c; c++)
        for (int y = b.y0; y < b.y1; y++)
            memset(image + ((int64_t)c * t->h + y) * t->w + b.x0, 0, (size_t)(b.x1 - b.x0) * sizeof *image);
}
