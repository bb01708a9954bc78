/* winograd.c: Winograd convolution of our own (winograd.h) as implementations of the three convolution ops.
 *
 * Activations in blocks of channels as oneDNN has them, so that its pooling, norms and other convolutions meet them
 * without a reorder; weights as oneDNN's direct convolution wants them: [oc/16][ic/16][kh][kw][16i][16o] forward and
 * for the gradient, [..][16o][16i] for backward by data, of which the plan makes a copy once per step. Which
 * convolutions come here is a rule over sizes.
 */
#include "backend/cpu/winograd.h"

#include "backend/cpu/blocking.h"
#include "backend/cpu/impls.h"
#include "backend/cpu/isa.h"

/* Measured on a Zen 4 core with 1 MiB of second cache. The weights' U is kept for a whole call while it is small; else
 * it is made anew for each chunk, which needs more tiles to pay. */
enum { ALL_TILES = 0, FEW_TILES = 64, MANY_TILES = 128, KEPT_BYTES = 12 << 20, LARGE_BYTES = 6 << 20 };

struct wino_kernel {
    struct ls_kernel base;
    struct wino_conv conv;
    const struct wino_code *code;
    bool relu;
};

static const struct wino_code *code_of_machine(void)
{
#if defined(__x86_64__)
    if (ls__cpu_isa_has_avx512()) return &ls__wino_avx512;
    if (ls__cpu_isa_has_avx2()) return &ls__wino_avx2;
#endif
    return NULL;
}

/* Cycles per vector of weights, from measurements: 45 for the products and transforms of a tile, 15 per tap for the
 * transform of the weights, against one per tap and pixel without the trick. Images smaller than a tile do not pay. */
static bool is_worth_it(const struct ls_attrs *a, const struct ls_shape *dst)
{
    const int64_t m = WINO_SIDE + 1 - a->kh, taps = (int64_t)a->kh * a->kw;
    const int64_t n_tiles = dst->dims[0] * ((dst->dims[2] + m - 1) / m) * ((dst->dims[3] + m - 1) / m);
    return taps * dst->dims[0] * dst->dims[2] * dst->dims[3] > 45 * n_tiles + 15 * taps;
}

static enum ls_status check(const struct ls_attrs *a, const struct ls_shape *src, const struct ls_shape *dst,
                            const struct wino_code **code)
{
    *code = code_of_machine();
    if (!*code) return ls_fail(LS_UNSUPPORTED, "needs AVX-512 or AVX2");
    if (a->kh != a->kw || (a->kh != 3 && a->kh != 5) || a->sh != 1 || a->sw != 1 || a->dh > 1 || a->dw > 1 ||
        a->groups != 1)
        return ls_fail(LS_UNSUPPORTED, "not 3x3 or 5x5 with stride 1");
    if (a->ph >= a->kh || a->pw >= a->kw) return ls_fail(LS_UNSUPPORTED, "padding as large as the kernel");
    if (src->dims[1] % (*code)->lanes != 0 || dst->dims[1] % (*code)->lanes != 0)
        return ls_fail(LS_UNSUPPORTED, "channels are no multiples of %d", (*code)->lanes);
    if (!is_worth_it(a, dst)) return ls_fail(LS_UNSUPPORTED, "too few pixels to fill tiles");
    return LS_OK;
}

/* Cuts the work into chunks of at most `most` tiles, or ALL_TILES. Returns the floats of scratch. */
static size_t cut(struct wino_conv *c, int lanes, bool is_weights, int most)
{
    const size_t pad = (size_t)WINO_POINTS * WINO_PAD;
    const int m = wino_out(c);
    c->tiles_y = (c->oh + m - 1) / m;
    c->tiles_x = (c->ow + m - 1) / m;
    c->n_tiles = c->mb * c->tiles_y * c->tiles_x;
    if (most == ALL_TILES) most = c->n_tiles;
    const int n_chunks = (c->n_tiles + most - 1) / most;
    c->chunk = (c->n_tiles + n_chunks - 1) / n_chunks;
    c->v_count = (size_t)WINO_POINTS * (size_t)c->chunk * WINO_DEPTH + pad;
    c->z_count = (size_t)WINO_POINTS * (size_t)c->chunk * 2 * (size_t)lanes + pad;
    c->u_count = (size_t)WINO_POINTS * WINO_DEPTH * 2 * (size_t)lanes + pad;
    c->n_slices = ((size_t)c->ic + WINO_DEPTH - 1) / WINO_DEPTH;
    c->n_blocks = ((size_t)c->oc / (size_t)lanes + 1) / 2;
    const size_t all = c->n_slices * c->n_blocks * c->u_count;
    c->keeps_u = n_chunks > 1 && all * sizeof(float) <= KEPT_BYTES;
    const size_t most_z = is_weights ? c->n_blocks : 1;
    const bool has_all = is_weights ? n_chunks > 1 : c->keeps_u;
    const size_t count = c->n_slices * c->v_count + most_z * c->z_count + (has_all ? all : c->u_count);
    c->is_large = count * sizeof(float) >= LARGE_BYTES;
    return count;
}

static size_t plan_forward(struct wino_conv *c, int lanes)
{
    const size_t count = cut(c, lanes, false, FEW_TILES);
    return c->keeps_u || c->n_tiles <= FEW_TILES ? count : cut(c, lanes, false, MANY_TILES);
}

/* All tiles at once where that takes less memory than the sums of all blocks. */
static size_t plan_weights(struct wino_conv *c, int lanes)
{
    const size_t at_once = cut(c, lanes, true, ALL_TILES), in_chunks = cut(c, lanes, true, FEW_TILES);
    return at_once <= in_chunks ? cut(c, lanes, true, ALL_TILES) : in_chunks;
}

/* The layout of weights: squares of lanes x lanes, output channels innermost, or input channels. */
static enum ls_status weights_layout(const struct ls_prep *prep, const struct ls_value *weights, int lanes,
                                     bool is_turned, struct ls_layout *out)
{
    struct dnn_md_box box = {.is_set = false};
    dnnl_dims_t dims = {0};
    for (int i = 0; i < 4; i++) dims[i] = weights->shape.dims[i];
    const dnnl_format_tag_t tag =
        lanes == 16 ? (is_turned ? dnnl_ABcd16a16b : dnnl_ABcd16b16a) : (is_turned ? dnnl_ABcd8a8b : dnnl_ABcd8b8a);
    TRY(ls__dnn_check(ls__dnn_md_make(&box, 4, dims, tag), "descriptor"));
    enum ls_status status = ls__dnn_layout_from(prep->device, ls__dnn_md_of(&box), weights, 1, out);
    ls__dnn_md_free(&box);
    return status;
}

static enum ls_status image_layout(const struct ls_prep *prep, const struct ls_value *image, int lanes,
                                   struct ls_layout *out)
{
    return ls__dnn_blocking_layout(prep->device, image, lanes == 16 ? DNN_BLOCK16 : DNN_BLOCK8, out);
}

static enum ls_status create(const struct ls_prep *prep, const struct ls_impl *impl, const struct ls_value *src,
                             const struct ls_value *dst, struct wino_kernel **out)
{
    const struct ls_attrs *a = &prep->node->attrs;
    const struct ls_shape *s = &src->shape, *d = &dst->shape;
    const struct wino_code *code;
    TRY(check(a, s, d, &code));
    TRY(ls_kernel_create(out, sizeof **out, prep, impl));
    (*out)->conv = (struct wino_conv){.mb = (int)s->dims[0],
                                      .ic = (int)s->dims[1],
                                      .ih = (int)s->dims[2],
                                      .iw = (int)s->dims[3],
                                      .oc = (int)d->dims[1],
                                      .oh = (int)d->dims[2],
                                      .ow = (int)d->dims[3],
                                      .kernel = a->kh,
                                      .ph = a->ph,
                                      .pw = a->pw};
    (*out)->code = code;
    (*out)->relu = a->relu;
    return LS_OK;
}

/* Hands the kernel out, or ends it when a layout could not be had. */
static enum ls_status finish(struct wino_kernel *k, enum ls_status status, struct ls_kernel **out)
{
    *out = &k->base;
    if (status != LS_OK) ls_kernel_destroy(out);
    return status;
}

static enum ls_status prepare_forward(const struct ls_prep *prep, struct ls_kernel **out)
{
    const struct ls_value *src = ls__dnn_value_in(prep, 0), *dst = ls__dnn_value_out(prep, 0);
    struct wino_kernel *k = NULL;
    TRY(create(prep, &ls__cpu_conv2d_winograd, src, dst, &k));
    k->base.scratch_bytes = plan_forward(&k->conv, k->code->lanes) * sizeof(float);
    enum ls_status status = image_layout(prep, src, k->code->lanes, &k->base.in[0]);
    if (status == LS_OK)
        status = weights_layout(prep, ls__dnn_value_in(prep, 1), k->code->lanes, false, &k->base.in[1]);
    if (status == LS_OK) status = image_layout(prep, dst, k->code->lanes, &k->base.out[0]);
    return finish(k, status, out);
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct wino_kernel *k = (const struct wino_kernel *)b->kernel;
    k->code->forward(&k->conv, b->in[0], b->in[1], b->in[2], k->relu, b->out[0], b->scratch);
    return LS_OK;
}

/* Of a convolution, the one that is its backward by data. */
static struct wino_conv turned(const struct wino_conv *c)
{
    return (struct wino_conv){.mb = c->mb,
                              .ic = c->oc,
                              .ih = c->oh,
                              .iw = c->ow,
                              .oc = c->ic,
                              .oh = c->ih,
                              .ow = c->iw,
                              .kernel = c->kernel,
                              .ph = c->kernel - 1 - c->ph,
                              .pw = c->kernel - 1 - c->pw,
                              .is_turned = true};
}

static enum ls_status prepare_bwd_data(const struct ls_prep *prep, struct ls_kernel **out)
{
    const struct ls_value *diff_dst = ls__dnn_value_in(prep, 0), *diff_src = ls__dnn_value_out(prep, 0);
    struct wino_kernel *k = NULL;
    TRY(create(prep, &ls__cpu_conv2d_bwd_data_winograd, diff_src, diff_dst, &k));
    k->conv = turned(&k->conv);
    k->base.scratch_bytes = plan_forward(&k->conv, k->code->lanes) * sizeof(float);
    enum ls_status status = image_layout(prep, diff_dst, k->code->lanes, &k->base.in[0]);
    if (status == LS_OK) status = weights_layout(prep, ls__dnn_value_in(prep, 1), k->code->lanes, true, &k->base.in[1]);
    if (status == LS_OK) status = image_layout(prep, diff_src, k->code->lanes, &k->base.out[0]);
    return finish(k, status, out);
}

static enum ls_status launch_bwd_data(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct wino_kernel *k = (const struct wino_kernel *)b->kernel;
    k->code->forward(&k->conv, b->in[0], b->in[1], NULL, false, b->out[0], b->scratch);
    return LS_OK;
}

static enum ls_status prepare_bwd_weights(const struct ls_prep *prep, struct ls_kernel **out)
{
    const struct ls_value *src = ls__dnn_value_in(prep, 0), *diff_dst = ls__dnn_value_in(prep, 1);
    struct wino_kernel *k = NULL;
    TRY(create(prep, &ls__cpu_conv2d_bwd_weights_winograd, src, diff_dst, &k));
    k->base.scratch_bytes = plan_weights(&k->conv, k->code->lanes) * sizeof(float);
    enum ls_status status = image_layout(prep, src, k->code->lanes, &k->base.in[0]);
    if (status == LS_OK) status = image_layout(prep, diff_dst, k->code->lanes, &k->base.in[1]);
    if (status == LS_OK)
        status = weights_layout(prep, ls__dnn_value_out(prep, 0), k->code->lanes, false, &k->base.out[0]);
    return finish(k, status, out);
}

static enum ls_status launch_bwd_weights(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct wino_kernel *k = (const struct wino_kernel *)b->kernel;
    k->code->backward_weights(&k->conv, b->in[0], b->in[1], b->out[0], b->out[1], b->scratch);
    return LS_OK;
}

const struct ls_impl ls__cpu_conv2d_winograd = {
    .name = "winograd", .op = LS_OP_CONV2D, .prepare = prepare_forward, .launch = launch_forward};
const struct ls_impl ls__cpu_conv2d_bwd_data_winograd = {
    .name = "winograd", .op = LS_OP_CONV2D_BWD_DATA, .prepare = prepare_bwd_data, .launch = launch_bwd_data};
const struct ls_impl ls__cpu_conv2d_bwd_weights_winograd = {
    .name = "winograd", .op = LS_OP_CONV2D_BWD_WEIGHTS, .prepare = prepare_bwd_weights, .launch = launch_bwd_weights};
