/* dropout.c: elements set to zero with probability p, the others scaled by 1 / (1 - p).
 *
 * In:  src | diff_dst   (any shape, samples first)
 * Out: dst | diff_src
 *
 * The fate of element e of a sample is a function of (seed, step, layer, sample number, e) alone: no mask is kept, the
 * gradient draws it again, and whoever computes the shard draws the same.
 */
#include "backend/ref/ref.h"

#include "base/rng.h"

#include <string.h>

static enum ls_status prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__ref_prepare(prep, out));
    (*out)->may_alias = true;
    (*out)->alias_in = 0;
    return LS_OK;
}

enum { GROUP = 16 }; /* blocks of four elements drawn together */

/* x * scale where keep is all ones, 0 where it is zero; no branch, for it would be mispredicted half of the time. */
LS_REF_INLINE float scaled_or_zero(float x, uint32_t keep, float scale)
{
    const float kept = x * scale;
    uint32_t bits;
    memcpy(&bits, &kept, sizeof bits);
    bits &= keep;
    float out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

LS_REF_INLINE uint32_t keep_of(uint32_t word, float p)
{
    return ls__rng_unit(word) >= p ? 0xffffffffu : 0u;
}

/* Philox4x32-10 for GROUP counters side by side in vector lanes: c0..c3 come in as the counters and go out as the words
 * that ls__rng would give for them. */
LS_REF_INLINE void philox_lanes(uint64_t seed, uint32_t *restrict c0, uint32_t *restrict c1, uint32_t *restrict c2,
                                uint32_t *restrict c3)
{
    uint32_t k0 = (uint32_t)seed ^ ((uint32_t)LS_RNG_DROPOUT * 0x9E3779B9u), k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        for (int l = 0; l < GROUP; l++) {
            const uint64_t p0 = (uint64_t)0xD2511F53u * c0[l], p1 = (uint64_t)0xCD9E8D57u * c2[l];
            c0[l] = (uint32_t)(p1 >> 32) ^ c1[l] ^ k0;
            c2[l] = (uint32_t)(p0 >> 32) ^ c3[l] ^ k1;
            c1[l] = (uint32_t)p1;
            c3[l] = (uint32_t)p0;
        }
    }
}

/* GROUP * 4 elements; c is the counter of the first four. */
LS_VECTORIZE
static void dropout_group(const float *src, float *dst, uint64_t seed, uint32_t step, uint32_t layer, uint64_t c,
                          float p, float scale)
{
    uint32_t w[4][GROUP], keep[4 * GROUP];
    for (int l = 0; l < GROUP; l++) {
        w[0][l] = step;
        w[1][l] = layer;
        w[2][l] = (uint32_t)c + (uint32_t)l;
        w[3][l] = (uint32_t)(c >> 32);
    }
    philox_lanes(seed, w[0], w[1], w[2], w[3]);
    for (int l = 0; l < GROUP; l++)
        for (int i = 0; i < 4; i++) keep[4 * l + i] = keep_of(w[i][l], p);
    for (int i = 0; i < 4 * GROUP; i++) dst[i] = scaled_or_zero(src[i], keep[i], scale);
}

static void drop_sample(const float *src, float *dst, int64_t n, uint32_t sample, const struct ls_attrs *a,
                        const struct ls_step_ctx *ctx)
{
    const float scale = 1.0f / (1.0f - a->p);
    const uint32_t step = (uint32_t)ctx->step, layer = (uint32_t)a->layer;
    const uint64_t first = (uint64_t)sample << 32;
    int64_t e = 0;
    for (; e + 4 * GROUP <= n; e += 4 * GROUP)
        dropout_group(src + e, dst + e, ctx->seed, step, layer, first | (uint64_t)(e / 4), a->p, scale);
    for (; e < n; e += 4) {
        const struct ls_rng4 r = ls__rng(ctx->seed, LS_RNG_DROPOUT, step, layer, first | (uint64_t)(e / 4));
        for (int64_t i = 0; i < 4 && e + i < n; i++)
            dst[e + i] = scaled_or_zero(src[e + i], keep_of(r.v[i], a->p), scale);
    }
}

/* The same both ways: diff_src = diff_dst * mask. */
static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const int64_t mb = k->in[0].dims[0], n = ls_shape_count(&k->in[0]) / mb;
    const float *src = b->in[0];
    float *dst = b->out[0];
    for (int64_t s = 0; s < mb; s++) {
        /* padding samples have no number; what they draw never counts */
        const uint32_t sample = ctx->samples && s < ctx->n_valid ? ctx->samples[s] : (uint32_t)s;
        drop_sample(src + s * n, dst + s * n, n, sample, &k->attrs, ctx);
    }
    return LS_OK;
}

const struct ls_impl ls__ref_dropout = {
    .name = "ref",
    .op = LS_OP_DROPOUT,
    .prepare = prepare,
    .launch = launch,
};

const struct ls_impl ls__ref_dropout_bwd = {
    .name = "ref",
    .op = LS_OP_DROPOUT_BWD,
    .prepare = prepare,
    .launch = launch,
};
