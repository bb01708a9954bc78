/* mix.c: mixup and cutmix: the samples of a shard in pairs; see backend/augment.h.
 *
 * Both partners are changed at once, element by element, so nothing is copied: of a pair (a, b) a becomes part a, part
 * b, and b part b, part a, each by a share of its own. With cutmix the other's part is a rectangle (as torchvision
 * draws it) and the share is what is left of the area.
 */
#include "backend/augment.h"

#include "base/exact.h"
#include "base/rng.h"
#include "base/simd.h"

#include <math.h>

enum { BLOCK_KIND = 0, BLOCK_BOX = 1, BLOCK_BETA = 16, MOST_TRIES = 1000 }; /* blocks of LS_RNG_MIX */

static struct ls_rng4 draw(uint64_t seed, int64_t epoch, int64_t sample, int64_t block)
{
    return ls__rng(seed, LS_RNG_MIX, (uint32_t)epoch, (uint32_t)sample, (uint64_t)block);
}

/* (0,1), never its ends. */
static double open_unit(uint32_t word)
{
    return ((double)word + 0.5) * 0x1p-32;
}

/* Up to 1 by Joehnk's method, above by rejection: the density over its largest value is (4 x (1 - x))^(alpha - 1). */
double ls__augment_beta(double alpha, uint64_t seed, int64_t epoch, int64_t sample)
{
    for (int i = 0; i < MOST_TRIES; i++) {
        const struct ls_rng4 r = draw(seed, epoch, sample, BLOCK_BETA + i);
        const double u = open_unit(r.v[0]), v = open_unit(r.v[1]);
        if (alpha > 1) {
            if (ls__exact_log(v) < (alpha - 1) * ls__exact_log(4 * u * (1 - u))) return u;
            continue;
        }
        /* x / (x + y) with x = u^(1/alpha), y = v^(1/alpha), by logarithms: both may be too small for a double */
        const double x = ls__exact_log(u) / alpha, y = ls__exact_log(v) / alpha, larger = x > y ? x : y;
        const double sum = ls__exact_exp(x - larger) + ls__exact_exp(y - larger);
        if (larger + ls__exact_log(sum) <= 0) return ls__exact_exp(x - larger) / sum;
    }
    return 0.5;
}

static int within(int x, int most)
{
    return x < 0 ? 0 : x > most ? most : x;
}

/* *share: of the area that stays. */
static struct ls_box draw_box(const struct ls_transform *t, uint64_t seed, int64_t epoch, int64_t sample, float *share)
{
    const struct ls_rng4 r = draw(seed, epoch, sample, BLOCK_BOX);
    const int y = (int)ls__rng_below(r.v[0], (uint64_t)t->h), x = (int)ls__rng_below(r.v[1], (uint64_t)t->w);
    const double half = 0.5 * sqrt(1.0 - (double)*share);
    const int half_h = (int)(half * t->h), half_w = (int)(half * t->w);
    const struct ls_box b = {within(y - half_h, t->h), within(y + half_h, t->h), within(x - half_w, t->w),
                             within(x + half_w, t->w)};
    *share = (float)(1.0 - (double)((b.y1 - b.y0) * (int64_t)(b.x1 - b.x0)) / ((double)t->h * t->w));
    return b;
}

LS_VECTORIZE static void mix_up(float *restrict a, float *restrict b, float share_a, float share_b, int64_t n)
{
    const float rest_a = 1.0f - share_a, rest_b = 1.0f - share_b;
    for (int64_t i = 0; i < n; i++) {
        const float x = a[i], y = b[i];
        a[i] = share_a * x + rest_a * y;
        b[i] = share_b * y + rest_b * x;
    }
}

static bool is_in(const struct ls_box *b, int y, int x)
{
    return y >= b->y0 && y < b->y1 && x >= b->x0 && x < b->x1;
}

static void swap_boxes(const struct ls_transform *t, float *a, float *b, const struct ls_box *box_a,
                       const struct ls_box *box_b)
{
    for (int c = 0; c < t->c; c++)
        for (int y = 0; y < t->h; y++)
            for (int x = 0; x < t->w; x++, a++, b++) {
                const float of_a = *a, of_b = *b;
                *a = is_in(box_a, y, x) ? of_b : of_a;
                *b = is_in(box_b, y, x) ? of_a : of_b;
            }
}

struct ls_mix ls__augment_draw_mix(const struct ls_transform *t, uint64_t seed, int64_t epoch,
                                   const uint32_t samples[2])
{
    const struct ls_rng4 r = draw(seed, epoch, samples[0], BLOCK_KIND);
    struct ls_mix m = {.is_cut = t->cutmix > 0 && (t->mixup <= 0 || r.v[0] >> 31)};
    const double alpha = (double)(m.is_cut ? t->cutmix : t->mixup);
    for (int k = 0; k < 2; k++) {
        m.share[k] = (float)ls__augment_beta(alpha, seed, epoch, samples[k]);
        if (m.is_cut) m.box[k] = draw_box(t, seed, epoch, samples[k], &m.share[k]);
    }
    return m;
}

static void mix_pair(const struct ls_load *l, int i, int j)
{
    const struct ls_transform *t = l->transform;
    const int64_t image = (int64_t)t->c * t->h * t->w;
    float *a = l->dst + i * image, *b = l->dst + j * image;
    const struct ls_mix m =
        ls__augment_draw_mix(t, l->seed, l->epoch, (const uint32_t[2]){l->samples[i], l->samples[j]});
    if (m.is_cut)
        swap_boxes(t, a, b, &m.box[0], &m.box[1]);
    else
        mix_up(a, b, m.share[0], m.share[1], image);
    l->dst_mix_labels[i] = l->labels[j];
    l->dst_mix_labels[j] = l->labels[i];
    l->dst_mix_shares[i] = m.share[0];
    l->dst_mix_shares[j] = m.share[1];
}

/* Neighbours are pairs: the order of an epoch is a random one already, keyed by (seed, epoch). */
void ls__augment_mix(const struct ls_load *l)
{
    for (int i = 0; i < l->mb; i++) {
        l->dst_mix_labels[i] = i < l->n ? l->labels[i] : -1;
        l->dst_mix_shares[i] = 1.0f;
    }
    if (!l->is_training || !ls_transform_is_mixing(l->transform)) return;
    for (int i = 0; i + 1 < l->n; i += 2) mix_pair(l, i, i + 1);
}
