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

static void drop_sample(const float *src, float *dst, int64_t n, uint32_t sample, const struct ls_attrs *a,
                        const struct ls_step_ctx *ctx)
{
    const float scale = 1.0f / (1.0f - a->p);
    for (int64_t e = 0; e < n; e += 4) {
        const struct ls_rng4 r = ls__rng(ctx->seed, LS_RNG_DROPOUT, (uint32_t)ctx->step, (uint32_t)a->layer,
                                         (uint64_t)sample << 32 | (uint64_t)(e / 4));
        for (int64_t i = 0; i < 4 && e + i < n; i++)
            dst[e + i] = ls__rng_unit(r.v[i]) >= a->p ? src[e + i] * scale : 0.0f;
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
        const uint32_t sample = b->samples && s < ctx->n_valid ? b->samples[s] : (uint32_t)s;
        drop_sample(src + s * n, dst + s * n, n, sample, &k->attrs, ctx);
    }
    return LS_OK;
}

const struct ls_impl ls__ref_dropout = {
    .name = "ref",
    .op = LS_OP_DROPOUT,
    .prepare = ls__ref_prepare_in_place,
    .launch = launch,
};

const struct ls_impl ls__ref_dropout_bwd = {
    .name = "ref",
    .op = LS_OP_DROPOUT_BWD,
    .prepare = ls__ref_prepare_in_place,
    .launch = launch,
};
