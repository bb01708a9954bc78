/* test_augment.c: resized crops, colours, erasing, mixup and cutmix against small versions of their own: in double,
 * with the C library's functions, pixel by pixel, as torchvision's documentation reads. */
#include "backend/augment.h"
#include "base/exact.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEED = 11, EPOCH = 5, MOST = 3 * 40 * 40 };

static double unit(uint32_t word)
{
    return (word >> 8) / 16777216.0;
}

static struct ls_rng4 draw(enum ls_rng_purpose purpose, int sample, int block)
{
    return ls__rng(SEED, purpose, EPOCH, (uint32_t)sample, (uint64_t)block);
}

static uint8_t byte_at(int i)
{
    return (uint8_t)ls__rng(3, LS_RNG_DATA, 0, (uint32_t)i, 0).v[0];
}

static void near(const char *what, int sample, int i, double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%s: sample %d, element %d: %.9g instead of %.9g", what, sample, i, got, want);
}

static void test_exact(void **state)
{
    for (double x = -30; x < 30; x += 0.37) near("exp", 0, (int)x, ls__exact_exp(x) / exp(x), 1, 1e-14);
    for (double x = 1e-9; x < 1e9; x *= 1.7) near("log", 0, 0, ls__exact_log(x), log(x), 1e-14 * fmax(1, fabs(log(x))));
    assert_true(ls__exact_log(1) == 0 && ls__exact_exp(0) == 1 && ls__exact_exp(-800) == 0);
}

/* --- resized crop --- */

static struct ls_crop slow_crop(const struct ls_transform *t, int sample)
{
    for (int i = 0; i < 10; i++) {
        const struct ls_rng4 r = draw(LS_RNG_AUGMENT, sample, 16 + i);
        const double area = t->h * t->w * ((double)t->resized_crop + (1 - (double)t->resized_crop) * unit(r.v[0]));
        const double ratio = pow(4.0 / 3, 2 * unit(r.v[1]) - 1);
        const int w = (int)lround(sqrt(area * ratio)), h = (int)lround(sqrt(area / ratio));
        if (w < 1 || h < 1 || w > t->w || h > t->h) continue;
        return (struct ls_crop){(int)((uint64_t)r.v[2] * (uint64_t)(t->h - h + 1) >> 32),
                                (int)((uint64_t)r.v[3] * (uint64_t)(t->w - w + 1) >> 32), h, w};
    }
    return (struct ls_crop){0, 0, t->h, t->w};
}

/* The value at (y, x) of the crop, between pixels, edges repeated. */
static double sample_at(const uint8_t *in, const struct ls_transform *t, const struct ls_crop *c, double y, double x)
{
    double sum = 0;
    for (int dy = 0; dy < 2; dy++)
        for (int dx = 0; dx < 2; dx++) {
            const int iy = (int)floor(y) + dy, ix = (int)floor(x) + dx;
            const double weight = (dy ? y - floor(y) : 1 - (y - floor(y))) * (dx ? x - floor(x) : 1 - (x - floor(x)));
            const int cy = iy < 0 ? 0 : iy >= c->h ? c->h - 1 : iy, cx = ix < 0 ? 0 : ix >= c->w ? c->w - 1 : ix;
            sum += weight * in[(c->y + cy) * t->w + c->x + cx];
        }
    return sum / 255;
}

static void test_resized_crop(void **state)
{
    static const int sizes[][2] = {{32, 32}, {20, 33}, {1, 1}, {5, 3}, {40, 40}};
    uint8_t in[MOST];
    float out[MOST];
    double smallest = 1, largest = 0;
    for (int i = 0; i < MOST; i++) in[i] = byte_at(i);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int sample = 0; sample < 30; sample++) {
            const struct ls_transform t = {.c = 3,
                                           .h = sizes[s][0],
                                           .w = sizes[s][1],
                                           .mean = {0.4f, 0.5f, 0.6f},
                                           .std = {0.2f, 0.3f, 0.25f},
                                           .flip = sample % 2,
                                           .resized_crop = 0.2f};
            const struct ls_crop c = slow_crop(&t, sample);
            const bool is_mirrored = t.flip && draw(LS_RNG_AUGMENT, sample, 0).v[2] >> 31;
            const double share = (double)(c.h * c.w) / (t.h * t.w);
            if (s == 0) smallest = fmin(smallest, share), largest = fmax(largest, share);
            ls_transform_apply(&t, true, SEED, EPOCH, sample, in, out);
            for (int i = 0; i < 3 * t.h * t.w; i++) {
                const int ch = i / (t.h * t.w), y = i / t.w % t.h, x = is_mirrored ? t.w - 1 - i % t.w : i % t.w;
                const double v = sample_at(in + ch * t.h * t.w, &t, &c, fmax(0, (y + 0.5) * c.h / t.h - 0.5),
                                           fmax(0, (x + 0.5) * c.w / t.w - 0.5));
                near("resized crop", sample, i, (double)out[i], (v - (double)t.mean[ch]) / (double)t.std[ch], 2e-5);
            }
        }
    assert_true(smallest < 0.4 && largest > 0.8); /* 30 draws from 0.2 to 1 */
    const struct ls_transform off = {.c = 1, .h = 8, .w = 8, .std = {1, 1, 1}, .resized_crop = 0.2f};
    ls_transform_apply(&off, false, SEED, EPOCH, 0, in, out); /* evaluation: as it is */
    for (int i = 0; i < 64; i++) near("evaluation", 0, i, (double)out[i], in[i] / 255.0, 1e-6);
}

/* --- colours --- */

static double clamped(double x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

static double grey(const double *p, int plane, int i)
{
    return 0.2989 * p[i] + 0.587 * p[plane + i] + 0.114 * p[2 * plane + i];
}

/* Hue in degrees by the cosine-free textbook way, saturation and value; turned and back. */
static void slow_hue(double *p, int plane, int i, double turn)
{
    double rgb[3] = {p[i], p[plane + i], p[2 * plane + i]};
    const double v = fmax(rgb[0], fmax(rgb[1], rgb[2])), chroma = v - fmin(rgb[0], fmin(rgb[1], rgb[2]));
    if (chroma == 0) return;
    double degrees = v == rgb[0]   ? 60 * fmod((rgb[1] - rgb[2]) / chroma + 6, 6)
                     : v == rgb[1] ? 60 * ((rgb[2] - rgb[0]) / chroma + 2)
                                   : 60 * ((rgb[0] - rgb[1]) / chroma + 4);
    degrees = fmod(degrees + 360 * turn + 720, 360);
    for (int c = 0; c < 3; c++) { /* f(5), f(3), f(1) of the usual formula */
        const double k = fmod(5 - 2 * c + degrees / 60, 6);
        p[c * plane + i] = v - chroma * fmax(0, fmin(fmin(k, 4 - k), 1));
    }
}

static double factor(float strength, uint32_t word)
{
    const double low = fmax(0, 1 - (double)strength);
    return low + (1 + (double)strength - low) * unit(word);
}

static void slow_colours(const struct ls_transform *t, int sample, double *p)
{
    const int plane = t->h * t->w, n = t->c * plane;
    const struct ls_rng4 r = draw(LS_RNG_AUGMENT, sample, 2), o = draw(LS_RNG_AUGMENT, sample, 3);
    int order[4] = {0, 1, 2, 3};
    for (int i = 3; i > 0; i--) {
        const int j = (int)((uint64_t)o.v[i] * (uint64_t)(i + 1) >> 32), swapped = order[i];
        order[i] = order[j], order[j] = swapped;
    }
    for (int k = 0; k < 4; k++) {
        double mean = 0;
        for (int i = 0; i < (t->c == 3 ? plane : n); i++) mean += t->c == 3 ? grey(p, plane, i) / plane : p[i] / n;
        const double b = factor(t->brightness, r.v[0]), c = factor(t->contrast, r.v[1]);
        const double s = factor(t->saturation, r.v[2]), h = (double)t->hue * (2 * unit(r.v[3]) - 1);
        for (int i = 0; i < n; i++) {
            if (order[k] == 0) p[i] = clamped(b * p[i]);
            if (order[k] == 1) p[i] = clamped(c * p[i] + (1 - c) * mean);
        }
        for (int i = 0; i < plane && t->c == 3; i++) {
            const double g = grey(p, plane, i);
            for (int q = 0; q < 3 && order[k] == 2; q++) p[q * plane + i] = clamped(s * p[q * plane + i] + (1 - s) * g);
            if (order[k] == 3) slow_hue(p, plane, i, h);
        }
    }
}

static void test_colours(void **state)
{
    uint8_t in[MOST];
    float out[MOST];
    for (int i = 0; i < MOST; i++) in[i] = i % 5 ? byte_at(i) : byte_at(i % 100); /* greys, too */
    for (int sample = 0; sample < 60; sample++) {
        const struct ls_transform t = {.c = sample % 4 ? 3 : 1,
                                       .h = 9,
                                       .w = 12,
                                       .mean = {0.4f, 0.5f, 0.6f},
                                       .std = {0.2f, 0.3f, 0.25f},
                                       .crop_pad = sample % 3,
                                       .flip = true,
                                       .brightness = 0.5f,
                                       .contrast = sample % 2 ? 0.5f : 1.5f,
                                       .saturation = 0.7f,
                                       .hue = 0.25f};
        const struct ls_transform moved = {
            .c = t.c, .h = 9, .w = 12, .std = {1, 1, 1}, .crop_pad = t.crop_pad, .flip = true};
        double want[MOST];
        const int n = t.c * 9 * 12;
        ls_transform_apply(&moved, true, SEED, EPOCH, sample, in, out);
        for (int i = 0; i < n; i++) want[i] = (double)out[i];
        slow_colours(&t, sample, want);
        ls_transform_apply(&t, true, SEED, EPOCH, sample, in, out);
        for (int i = 0; i < n; i++) {
            const int c = i / 108;
            near("colours", sample, i, (double)out[i] * (double)t.std[c] + (double)t.mean[c], want[i], 5e-6);
        }
    }
}

/* --- erasing --- */

static void test_erasing(void **state)
{
    enum { SIDE = 32, N = 400 };
    const struct ls_transform t = {.c = 3, .h = SIDE, .w = SIDE, .std = {1, 1, 1}, .erasing = 0.25f};
    uint8_t in[3 * SIDE * SIDE];
    float out[3 * SIDE * SIDE];
    int n_erased = 0;
    memset(in, 255, sizeof in);
    for (int sample = 0; sample < N; sample++) {
        int y0 = SIDE, y1 = 0, x0 = SIDE, x1 = 0, n = 0;
        ls_transform_apply(&t, true, SEED, EPOCH, sample, in, out);
        for (int i = 0; i < SIDE * SIDE; i++) {
            assert_true(out[i] == out[SIDE * SIDE + i] && out[i] == out[2 * SIDE * SIDE + i]);
            if (out[i] != 0) continue;
            n++;
            y0 = i / SIDE < y0 ? i / SIDE : y0, y1 = i / SIDE > y1 ? i / SIDE : y1;
            x0 = i % SIDE < x0 ? i % SIDE : x0, x1 = i % SIDE > x1 ? i % SIDE : x1;
        }
        if (n == 0) continue;
        n_erased++;
        const double h = y1 - y0 + 1, w = x1 - x0 + 1;
        assert_int_equal(n, (int)(h * w));                                           /* one rectangle */
        assert_true(n >= 0.02 * SIDE * SIDE * 0.7 && n <= 0.33 * SIDE * SIDE * 1.2); /* sides are rounded */
        assert_true((w + 0.5) / (h - 0.5) >= 0.3 && (w - 0.5) / (h + 0.5) <= 3.31);
    }
    printf("erased %d of %d\n", n_erased, N);
    assert_in_range(n_erased, N * 19 / 100, N * 31 / 100);
}

/* --- mixing --- */

static void test_beta(void **state)
{
    static const double alphas[] = {0.1, 0.2, 0.5, 1, 2, 8};
    enum { N = 20000 };
    for (size_t a = 0; a < sizeof alphas / sizeof *alphas; a++) {
        double sum = 0, squares = 0;
        for (int i = 0; i < N; i++) {
            const double x = ls__augment_beta(alphas[a], SEED, EPOCH, i);
            assert_true(x >= 0 && x <= 1);
            sum += x, squares += (x - 0.5) * (x - 0.5);
        }
        const double variance = 1 / (4 * (2 * alphas[a] + 1));
        near("beta's mean", 0, (int)a, sum / N, 0.5, 0.012);
        near("beta's variance", 0, (int)a, squares / N / variance, 1, 0.04);
    }
}

enum { MIX_SIDE = 12, MIX_IMAGE = 3 * MIX_SIDE * MIX_SIDE, MIX_N = 7, MIX_MB = 8 };

struct mixed {
    float images[MIX_MB * MIX_IMAGE], shares[MIX_MB];
    int32_t labels[MIX_MB], others[MIX_MB];
    uint32_t samples[MIX_MB];
};

static uint16_t label_of(int sample)
{
    return (uint16_t)(sample * 7 % 10);
}

static void load(const struct ls_transform *t, int first, bool is_training, struct mixed *m)
{
    static uint8_t bytes[MIX_N][MIX_IMAGE];
    const uint8_t *pixels[MIX_N];
    uint16_t labels[MIX_N];
    uint32_t samples[MIX_N];
    for (int i = 0; i < MIX_N; i++) {
        for (int k = 0; k < MIX_IMAGE; k++) bytes[i][k] = byte_at((first + i) * MIX_IMAGE + k);
        pixels[i] = bytes[i];
        labels[i] = label_of(first + i);
        samples[i] = (uint32_t)(first + i);
    }
    const struct ls_load l = {.transform = t,
                              .is_training = is_training,
                              .seed = SEED,
                              .epoch = EPOCH,
                              .n = MIX_N,
                              .mb = MIX_MB,
                              .samples = samples,
                              .labels = labels,
                              .pixels = pixels,
                              .dst = m->images,
                              .dst_labels = m->labels,
                              .dst_samples = m->samples,
                              .dst_mix_labels = m->others,
                              .dst_mix_shares = m->shares};
    assert_int_equal(ls_backend_load(NULL, &l), LS_OK);
}

/* How many elements of image i differ from the unmixed one; each must then be what mixing makes. */
static int check_image(const struct mixed *m, const struct mixed *plain, int i, bool is_cut)
{
    const int partner = i == MIX_N - 1 ? i : i ^ 1;
    int n_differ = 0;
    for (int k = 0; k < MIX_IMAGE; k++) {
        const double own = (double)plain->images[i * MIX_IMAGE + k],
                     other = (double)plain->images[partner * MIX_IMAGE + k];
        const double got = (double)m->images[i * MIX_IMAGE + k], share = (double)m->shares[i];
        if (is_cut && got != own) near("cutmix", i, k, got, other, 0);
        if (!is_cut) near("mixup", i, k, got, share * own + (1 - share) * other, 1e-6);
        n_differ += got != own;
    }
    assert_int_equal(m->labels[i], plain->labels[i]);
    assert_int_equal(m->others[i], plain->labels[partner]);
    return n_differ;
}

static void test_mixing(void **state)
{
    struct ls_transform plain_t = {.c = 3, .h = MIX_SIDE, .w = MIX_SIDE, .std = {1, 1, 1}, .flip = true};
    static struct mixed plain, m;
    int n_cut = 0, n_mixed = 0;
    for (int round = 0; round < 40; round++) {
        struct ls_transform t = plain_t;
        if (round % 3 != 1) t.mixup = 0.4f;
        if (round % 3 != 0) t.cutmix = 1;
        load(&plain_t, round * 100, true, &plain);
        load(&t, round * 100, true, &m);
        for (int i = 0; i < MIX_N; i++) {
            /* cut: the share is a whole number of pixels, which no share of mixup is */
            const double pixels = (double)m.shares[i] * MIX_SIDE * MIX_SIDE;
            const bool is_cut = fabs(pixels - rint(pixels)) < 1e-4;
            if (round % 3 == 0 && i < MIX_N - 1) assert_false(is_cut && m.shares[i] < 1);
            const int n_differ = check_image(&m, &plain, i, is_cut);
            if (is_cut)
                near("area", round, i, MIX_IMAGE - n_differ, (double)m.shares[i] * MIX_IMAGE, 12); /* equal bytes */
            n_cut += is_cut && m.shares[i] < 1, n_mixed += !is_cut;
        }
        assert_true(m.shares[MIX_N - 1] == 1); /* the odd one */
        assert_int_equal(m.labels[MIX_MB - 1], -1);
        load(&t, round * 100, false, &m); /* evaluation mixes nothing */
        for (int i = 0; i < MIX_N; i++) assert_true(m.shares[i] == 1 && m.others[i] == m.labels[i]);
    }
    printf("%d cut, %d mixed\n", n_cut, n_mixed);
    assert_in_range(n_cut, 60, 160);
    assert_in_range(n_mixed, 60, 160);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact),   cmocka_unit_test(test_resized_crop), cmocka_unit_test(test_colours),
        cmocka_unit_test(test_erasing), cmocka_unit_test(test_beta),         cmocka_unit_test(test_mixing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
