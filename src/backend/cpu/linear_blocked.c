/* linear_blocked.c: forward and backward by data of large linear layers, weights in blocks of 16 outputs
 * (ls__linear_tiles.h); linear_sum.c makes the gradient in the same layout.
 *
 * A large layer is read from memory once per shard and direction, which takes as long as the arithmetic on 16 samples:
 * the loops must do nothing but multiply, and memory must run ahead of them.
 */
#include "backend/cpu/linear_blocked.h"

#include "backend/cpu/dnn.h"
#include "backend/cpu/impls.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/linear_tiles.h"

#include <stdio.h>
#include <string.h>

enum { LARGE_LAYER = 1 << 17 }; /* weights; those layers' gradients are summed once per step */

struct blocked_kernel {
    struct ls_kernel base;
    const struct linear_tiles *tiles;
    int mb, ic, oc, ic_pad, oc_pad;
    bool relu;
};

const struct linear_tiles *ls__linear_tiles(void)
{
    return ls__cpu_isa_has_avx512() ? ls__linear_tiles_avx512 : ls__cpu_isa_has_avx2() ? ls__linear_tiles_avx2 : NULL;
}

enum ls_status ls__linear_blocked_layout(struct ls_device *device, const struct ls_value *weights,
                                         struct ls_layout *out)
{
    struct dnn_md_box box = {0};
    dnnl_dims_t dims = {weights->shape.dims[0], weights->shape.dims[1]};
    TRY(ls__dnn_check(ls__dnn_md_make(&box, 2, dims, dnnl_AB16b16a), "descriptor"));
    enum ls_status status = ls__dnn_layout_from(device, ls__dnn_md_of(&box), weights, 1, out);
    ls__dnn_md_free(&box);
    return status;
}

static const struct blocked_kernel *kernel_of(const struct ls_bound *b)
{
    return (const struct blocked_kernel *)b->kernel;
}

static int min(int a, int b)
{
    return a < b ? a : b;
}

/* The last block may have fewer than 16 outputs, and there may be no bias. */
static void forward_block(const struct blocked_kernel *k, const struct ls_bound *b, const float *x, int n, int o,
                          float *dst /* [n,oc] */)
{
    float bias[TILE_OUTPUTS] = {0}, rest[TILE_SAMPLES][TILE_OUTPUTS];
    const float *w = (const float *)b->in[1] + (ptrdiff_t)o * k->ic_pad;
    const int n_out = min(TILE_OUTPUTS, k->oc - o);
    if (b->in[2]) memcpy(bias, (const float *)b->in[2] + o, (size_t)n_out * sizeof(float));
    if (n_out == TILE_OUTPUTS) {
        k->tiles->forward(x, w, k->ic, n, bias, k->relu, dst + o, k->oc);
        return;
    }
    k->tiles->forward(x, w, k->ic, n, bias, k->relu, rest[0], TILE_OUTPUTS);
    for (int s = 0; s < n; s++) memcpy(dst + (ptrdiff_t)s * k->oc + o, rest[s], (size_t)n_out * sizeof(float));
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct blocked_kernel *k = kernel_of(b);
    float *x = b->scratch; /* [groups][ic][16] */
    const ptrdiff_t group = (ptrdiff_t)k->ic * TILE_SAMPLES;
    for (int s = 0; s < k->mb; s += TILE_SAMPLES)
        k->tiles->to_lanes((const float *)b->in[0] + (ptrdiff_t)s * k->ic, min(TILE_SAMPLES, k->mb - s), k->ic, k->ic,
                           x + s / TILE_SAMPLES * group);
    for (int o = 0; o < k->oc; o += TILE_OUTPUTS)
        for (int s = 0; s < k->mb; s += TILE_SAMPLES)
            forward_block(k, b, x + s / TILE_SAMPLES * group, min(TILE_SAMPLES, k->mb - s), o,
                          (float *)b->out[0] + (ptrdiff_t)s * k->oc);
    return LS_OK;
}

/* Scratch: diff_dst as [groups][oc_pad][16], then diff_src of one group as [ic_pad][16]. */
static enum ls_status launch_backward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct blocked_kernel *k = kernel_of(b);
    const float *w = b->in[1];
    float *d = b->scratch, *out = d + (ptrdiff_t)k->oc_pad * TILE_SAMPLES;
    for (int s = 0; s < k->mb; s += TILE_SAMPLES) {
        const int n = min(TILE_SAMPLES, k->mb - s);
        k->tiles->to_lanes((const float *)b->in[0] + (ptrdiff_t)s * k->oc, n, k->oc, k->oc, d);
        memset(d + (ptrdiff_t)k->oc * TILE_SAMPLES, 0, (size_t)(k->oc_pad - k->oc) * TILE_SAMPLES * sizeof(float));
        for (int i = 0; i < k->ic_pad; i += k->tiles->inputs_at_once)
            k->tiles->backward(d, w + (ptrdiff_t)i * TILE_OUTPUTS, (ptrdiff_t)k->ic_pad * TILE_OUTPUTS,
                               k->oc_pad / TILE_OUTPUTS, min(k->tiles->inputs_at_once, k->ic_pad - i), n,
                               out + (ptrdiff_t)i * TILE_SAMPLES);
        k->tiles->from_lanes(out, n, k->ic, (float *)b->out[0] + (ptrdiff_t)s * k->ic, k->ic);
    }
    return LS_OK;
}

/* Large layers, and whatever already lies so: the decision must not depend on the number of samples, for all plans of a
 * run share the weights. */
static enum ls_status prepare(const struct ls_prep *prep, const struct ls_impl *impl, const struct ls_shape *src,
                              struct blocked_kernel **out)
{
    const struct ls_value *weights = ls__dnn_value_in(prep, 1);
    const struct ls_shape *w = &weights->shape;
    struct ls_layout blocked;
    struct blocked_kernel *k;
    if (!ls__linear_tiles()) return ls_fail(LS_UNSUPPORTED, "needs AVX2");
    TRY(ls__linear_blocked_layout(prep->device, weights, &blocked));
    if (prep->in[1].id != blocked.id && ls_shape_count(w) < LARGE_LAYER) return ls_fail(LS_UNSUPPORTED, "small layer");
    if (prep->in[1].id != blocked.id && prep->in[1].id != LS_LAYOUT_ANY)
        return ls_fail(LS_UNSUPPORTED, "the weights lie as %s", prep->in[1].tag);
    TRY(ls_kernel_create(&k, sizeof *k, prep, impl));
    snprintf(k->base.name, sizeof k->base.name, "blocked:%s", ls__linear_tiles()->name);
    k->base.in[1] = blocked;
    k->tiles = ls__linear_tiles();
    k->mb = (int)src->dims[0];
    k->ic = (int)w->dims[1];
    k->oc = (int)w->dims[0];
    k->ic_pad = round_up(k->ic, 16);
    k->oc_pad = round_up(k->oc, TILE_OUTPUTS);
    *out = k;
    return LS_OK;
}

static enum ls_status prepare_forward(const struct ls_prep *prep, struct ls_kernel **out)
{
    struct blocked_kernel *k = NULL;
    TRY(prepare(prep, &ls__cpu_linear_blocked, &ls__dnn_value_in(prep, 0)->shape, &k));
    k->relu = prep->node->attrs.relu;
    k->base.scratch_bytes = (size_t)round_up(k->mb, TILE_SAMPLES) * (size_t)k->ic * sizeof(float);
    *out = &k->base;
    return LS_OK;
}

static enum ls_status prepare_backward(const struct ls_prep *prep, struct ls_kernel **out)
{
    struct blocked_kernel *k = NULL;
    TRY(prepare(prep, &ls__cpu_linear_bwd_data_blocked, &ls__dnn_value_in(prep, 0)->shape, &k));
    k->base.scratch_bytes = ((size_t)k->oc_pad + (size_t)k->ic_pad) * TILE_SAMPLES * sizeof(float);
    *out = &k->base;
    return LS_OK;
}

const struct ls_impl ls__cpu_linear_blocked = {
    .name = "blocked", .op = LS_OP_LINEAR, .prepare = prepare_forward, .launch = launch_forward};
const struct ls_impl ls__cpu_linear_bwd_data_blocked = {
    .name = "blocked", .op = LS_OP_LINEAR_BWD_DATA, .prepare = prepare_backward, .launch = launch_backward};
