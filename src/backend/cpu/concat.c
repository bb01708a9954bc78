/* concat.c: tensors joined along the channels, and the gradient of one of them: its slice of diff_dst.
 *
 * In:  a [mb,ca,h,w], b [mb,cb,h,w], ... | diff_dst [mb,ca+cb+...,h,w]
 * Out: dst [mb,ca+cb+...,h,w] | diff_src [mb,c,h,w], channels from attrs.offset on
 *
 * Where every part begins at a block of channels, its place in the joined tensor is one run of memory per sample (or,
 * with channels last, per position), in blocks as in plain order; so both ways are copies. A part that begins inside a
 * block makes the kernel ask for plain.
 */
#include "backend/cpu/blocking.h"
#include "backend/cpu/impls.h"

#include <string.h>

/* [runs, width] with whole-tensor rows `stride` floats apart, beginning at `offset`. */
struct part {
    int64_t offset, width;
};

struct concat {
    struct ls_kernel base;
    int n_parts;
    int64_t runs, stride;
    struct part parts[LS_MAX_IN];
};

/* Sets the shape of the joined tensor's memory. */
static void set_whole(struct concat *k, const struct dnn_view *all)
{
    k->runs = all->is_last ? all->mb * all->hw : all->mb;
    k->stride = all->is_last ? all->c : all->n_blocks * all->block * all->hw;
}

/* Channels [first, first + c) of `all`, with the channels that fill up the last block. */
static void add_part(struct concat *k, const struct dnn_view *all, int64_t first, const struct dnn_view *one)
{
    const int64_t per_channel = all->is_last ? 1 : all->hw;
    k->parts[k->n_parts++] = (struct part){first * per_channel, one->n_blocks * one->block * per_channel};
}

/* Whether channels [first, first + n) of c begin and end where a block does. */
static bool is_aligned(enum dnn_blocking blocking, int64_t first, int64_t n, int64_t c)
{
    const int64_t block = blocking == DNN_BLOCK16 ? 16 : blocking == DNN_BLOCK8 ? 8 : 1;
    return first % block == 0 && (n % block == 0 || first + n == c);
}

/* The first input that is not plain decides, if all fit. */
static enum ls_status choose_blocking(const struct ls_prep *prep, enum dnn_blocking *out)
{
    const int64_t c = ls__dnn_value_out(prep, 0)->shape.dims[1];
    int64_t first = 0;
    *out = DNN_PLAIN;
    for (int i = 0; i < prep->node->n_in && *out == DNN_PLAIN; i++) {
        TRY(ls__dnn_blocking_of(prep->device, &prep->in[i], ls__dnn_value_in(prep, i), out));
        if (*out == DNN_OTHER) *out = DNN_PLAIN;
    }
    for (int i = 0; i < prep->node->n_in; i++) {
        const int64_t n = ls__dnn_value_in(prep, i)->shape.dims[1];
        if (!is_aligned(*out, first, n, c)) *out = DNN_PLAIN;
        first += n;
    }
    return LS_OK;
}

static enum ls_status build_forward(const struct ls_prep *prep, struct concat *k)
{
    enum dnn_blocking blocking;
    const struct ls_value *dst = ls__dnn_value_out(prep, 0);
    int64_t first = 0;
    TRY(choose_blocking(prep, &blocking));
    const struct dnn_view all = ls__dnn_view_of(&dst->shape, blocking);
    set_whole(k, &all);
    TRY(ls__dnn_blocking_layout(prep->device, dst, blocking, &k->base.out[0]));
    for (int i = 0; i < prep->node->n_in; i++) {
        const struct ls_value *src = ls__dnn_value_in(prep, i);
        const struct dnn_view one = ls__dnn_view_of(&src->shape, blocking);
        TRY(ls__dnn_blocking_layout(prep->device, src, blocking, &k->base.in[i]));
        add_part(k, &all, first, &one);
        first += one.c;
    }
    return LS_OK;
}

static enum ls_status build_bwd(const struct ls_prep *prep, struct concat *k)
{
    enum dnn_blocking blocking;
    const struct ls_value *diff_dst = ls__dnn_value_in(prep, 0), *diff_src = ls__dnn_value_out(prep, 0);
    const int64_t first = prep->node->attrs.offset;
    TRY(ls__dnn_blocking_of(prep->device, &prep->in[0], diff_dst, &blocking));
    if (blocking == DNN_OTHER || !is_aligned(blocking, first, diff_src->shape.dims[1], diff_dst->shape.dims[1]))
        blocking = DNN_PLAIN;
    const struct dnn_view all = ls__dnn_view_of(&diff_dst->shape, blocking),
                          one = ls__dnn_view_of(&diff_src->shape, blocking);
    set_whole(k, &all);
    add_part(k, &all, first, &one);
    TRY(ls__dnn_blocking_layout(prep->device, diff_dst, blocking, &k->base.in[0]));
    return ls__dnn_blocking_layout(prep->device, diff_src, blocking, &k->base.out[0]);
}

static enum ls_status prepare(const struct ls_prep *prep, const struct ls_impl *impl,
                              enum ls_status (*build)(const struct ls_prep *, struct concat *), struct ls_kernel **out)
{
    struct concat *k;
    TRY(ls_kernel_create(&k, sizeof *k, prep, impl));
    *out = &k->base;
    enum ls_status status = build(prep, k);
    if (status != LS_OK) ls_kernel_destroy(out);
    return status;
}

static enum ls_status prepare_forward(const struct ls_prep *prep, struct ls_kernel **out)
{
    return prepare(prep, &ls__cpu_concat, build_forward, out);
}

static enum ls_status prepare_bwd(const struct ls_prep *prep, struct ls_kernel **out)
{
    return prepare(prep, &ls__cpu_concat_bwd, build_bwd, out);
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct concat *k = (const struct concat *)b->kernel;
    for (int64_t r = 0; r < k->runs; r++)
        for (int i = 0; i < k->n_parts; i++) {
            const struct part *p = &k->parts[i];
            memcpy((float *)b->out[0] + r * k->stride + p->offset, (const float *)b->in[i] + r * p->width,
                   (size_t)p->width * sizeof(float));
        }
    return LS_OK;
}

static enum ls_status launch_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct concat *k = (const struct concat *)b->kernel;
    const struct part *p = &k->parts[0];
    for (int64_t r = 0; r < k->runs; r++)
        memcpy((float *)b->out[0] + r * p->width, (const float *)b->in[0] + r * k->stride + p->offset,
               (size_t)p->width * sizeof(float));
    return LS_OK;
}

const struct ls_impl ls__cpu_concat = {
    .name = "own", .op = LS_OP_CONCAT, .prepare = prepare_forward, .launch = launch_forward};
const struct ls_impl ls__cpu_concat_bwd = {
    .name = "own", .op = LS_OP_CONCAT_BWD, .prepare = prepare_bwd, .launch = launch_bwd};
