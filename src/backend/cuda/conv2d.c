/* conv2d.c: convolution and its two gradients by cuDNN.
 *
 * In:  src [mb,ic,ih,iw], weights [oc,ic/groups,kh,kw], bias [oc]?, diff_dst [mb,oc,oh,ow]
 * Out: dst [mb,oc,oh,ow] | diff_src [mb,ic,ih,iw] | diff_weights, diff_bias?
 *
 * prepare makes the execution plan, bind the list of its addresses. The gradient of the bias is a sum over channels of
 * our own, whose scratch may overlap cuDNN's workspace: they run one after the other.
 *
 * With tf32 and bf16 the channels come last; images of few channels are filled up to 8 of them. Where cuDNN has no such
 * engine, or there are too few channels for it to pay, all is as in float32, by way of TF32. A 3x3 layer over images in
 * bf16 is our own, forward and by weights (kernels/first.cu).
 */
#include "backend/cuda/dnn.h"

#include <stdio.h>

struct conv_kernel {
    struct ls_cuda_kernel base;
    struct ls_cuda_dnn_plan plan;
    bool is_first;   /* not cuDNN's: kernels/first.cu, with bias and relu; there is no plan */
    bool is_ended;   /* bias and relu are part of the plan */
    bool is_blocked; /* by blocks of stride x stride pixels */
    struct ls_cuda_blocks blocks;
    size_t gradient_at; /* BWD_WEIGHTS of blocks: where in the scratch cuDNN writes */
};

static const struct conv_kernel *kernel_of(const struct ls_bound *b)
{
    return (const struct conv_kernel *)b->kernel;
}

static void release(struct ls_kernel *kernel)
{
    ls__cuda_dnn_release(&((struct conv_kernel *)kernel)->plan);
}

/* Where the images and weights of a node are; the shapes of the problem. */
struct sides {
    const struct ls_shape *src, *weights, *dst;
    struct ls_layout *src_layout, *weights_layout, *dst_layout;
};

static struct sides sides_of(struct ls_cuda_kernel *k, enum ls_cuda_conv_op op)
{
    struct ls_kernel *b = &k->base;
    switch (op) {
    case LS_CUDA_CONV_FORWARD:
        return (struct sides){&k->in[0], &k->in[1], &k->out[0], &b->in[0], &b->in[1], &b->out[0]};
    case LS_CUDA_CONV_BWD_DATA:
        return (struct sides){&k->out[0], &k->in[1], &k->in[0], &b->out[0], &b->in[1], &b->in[0]};
    default:
        return (struct sides){&k->in[0], &k->out[0], &k->in[1], &b->in[0], &b->out[0], &b->in[1]};
    }
}

enum { FULL = 8, MANY = 32 };

/* Whether the channels come last: where the tensor cores are filled. */
static bool is_last(const struct ls_device *d, const struct ls_cuda_conv *c)
{
    if (d->precision == LS_PRECISION_F32 || c->groups != 1 || c->oc % FULL != 0) return false;
    return c->ic % FULL == 0 || (c->ic < FULL && c->oc >= MANY);
}

static enum ls_status plan_it(struct conv_kernel *k, enum ls_cuda_conv_op op, const struct ls_cuda_conv *conv,
                              struct ls_cuda_conv_form *form)
{
    struct ls_device *d = k->base.device;
    if (form->has_bias || form->has_relu) {
        k->is_ended = ls__cuda_dnn_plan(d, op, conv, form, &k->plan) == LS_OK;
        if (k->is_ended) return LS_OK;
        ls__cuda_dnn_release(&k->plan);
        form->has_bias = form->has_relu = false;
    }
    return ls__cuda_dnn_plan(d, op, conv, form, &k->plan);
}

static void set_layouts(const struct sides *s, enum ls_cuda_conv_op op, const struct ls_cuda_conv_form *form,
                        bool is_padded, struct ls_layout *wide)
{
    const int last = form->type == LS_CUDA_BF16 ? LS_CUDA_LAST_BF16 : LS_CUDA_LAST_F32;
    const int padded = form->type == LS_CUDA_BF16 ? LS_CUDA_PADDED_BF16 : LS_CUDA_PADDED_F32;
    int weights = is_padded ? padded : last;
    if (op == LS_CUDA_CONV_BWD_WEIGHTS && form->diff_weights == LS_CUDA_F32)
        weights = is_padded ? LS_CUDA_PADDED_F32 : LS_CUDA_LAST_F32;
    *s->src_layout = ls__cuda_layout(is_padded ? padded : last, s->src);
    *s->dst_layout = ls__cuda_layout(last, s->dst);
    *s->weights_layout = ls__cuda_layout(weights, s->weights);
    *wide = ls__cuda_wide(s->weights);
}

/* A first layer with a stride: its few channels times the pixels of a block fill the tensor cores. */
static bool is_for_blocks(const struct ls_cuda_conv *c, enum ls_cuda_conv_op op)
{
    return op != LS_CUDA_CONV_BWD_DATA && c->ic < FULL && c->sh > 1 && c->sh == c->sw && c->kh == c->kw &&
           c->ph == c->pw && c->kh >= c->sh && c->dh == 1 && c->dw == 1 &&
           ls__cuda_blocks_id(LS_CUDA_BLOCKED_IMAGE, LS_CUDA_F32, c->kh, c->sh, c->ph) != LS_LAYOUT_PLAIN;
}

static struct ls_cuda_conv conv_of_blocks(const struct ls_cuda_conv *c, const struct ls_cuda_blocks *b)
{
    struct ls_cuda_conv r = *c;
    r.ic = b->stored_c;
    r.ih = b->blocks_h;
    r.iw = b->blocks_w;
    r.kh = r.kw = b->n;
    r.sh = r.sw = 1;
    r.ph = r.pw = 0;
    return r;
}

/* The gradient of the weights is made in the scratch and brought back by us: taps beyond the kernel have gradients. */
static void set_block_layouts(struct conv_kernel *k, enum ls_cuda_conv_op op, const struct ls_cuda_conv *c,
                              enum ls_cuda_type type)
{
    const struct sides s = sides_of(&k->base, op);
    *s.src_layout = ls__cuda_layout(ls__cuda_blocks_id(LS_CUDA_BLOCKED_IMAGE, type, c->kh, c->sh, c->ph), s.src);
    *s.dst_layout = ls__cuda_layout(type == LS_CUDA_BF16 ? LS_CUDA_LAST_BF16 : LS_CUDA_LAST_F32, s.dst);
    *s.weights_layout =
        ls__cuda_layout(ls__cuda_blocks_id(LS_CUDA_BLOCKED_WEIGHTS, type, c->kh, c->sh, c->ph), s.weights);
    if (op == LS_CUDA_CONV_BWD_WEIGHTS) *s.weights_layout = ls__cuda_wide(s.weights);
    k->base.base.wide[1] = ls__cuda_wide(s.weights);
    k->is_blocked = true;
}

static enum ls_status prepare_blocks(struct conv_kernel *k, enum ls_cuda_conv_op op, const struct ls_cuda_conv *c,
                                     struct ls_cuda_conv_form *form)
{
    const struct sides s = sides_of(&k->base, op);
    k->blocks = ls__cuda_blocks(ls__cuda_blocks_id(LS_CUDA_BLOCKED_IMAGE, form->type, c->kh, c->sh, c->ph), s.src);
    const struct ls_cuda_conv conv = conv_of_blocks(c, &k->blocks);
    const enum ls_status status = plan_it(k, op, &conv, form);
    if (status == LS_OK) set_block_layouts(k, op, c, form->type);
    return status;
}

static bool is_for_first(const struct ls_device *d, const struct ls_cuda_conv *c, enum ls_cuda_conv_op op)
{
    return op != LS_CUDA_CONV_BWD_DATA && d->precision == LS_PRECISION_BF16 && c->ic <= 4 && c->oc % 64 == 0 &&
           c->kh == 3 && c->kw == 3 && c->sh == 1 && c->sw == 1 && c->ph == 1 && c->pw == 1 && c->dh == 1 &&
           c->dw == 1 && c->mb * c->ih * c->iw < 1 << 30;
}

/* With channels last; LS_UNSUPPORTED: cuDNN has nothing for it. */
static enum ls_status prepare_last(struct conv_kernel *k, enum ls_cuda_conv_op op, struct ls_cuda_conv conv,
                                   bool has_bias)
{
    struct ls_device *d = k->base.device;
    const bool is_padded = conv.ic % FULL != 0, is_bf16 = d->precision == LS_PRECISION_BF16;
    const enum ls_cuda_type type = is_bf16 ? LS_CUDA_BF16 : LS_CUDA_F32;
    /* Gradients of weights in float32 would be made by an engine that is 30 times slower. */
    struct ls_cuda_conv_form form = {.type = type,
                                     .diff_weights = type,
                                     .is_last = true,
                                     .tensor_cores = true,
                                     .has_bias = has_bias && op == LS_CUDA_CONV_FORWARD,
                                     .has_relu = k->base.attrs.relu && op == LS_CUDA_CONV_FORWARD};
    k->base.type = form.type;
    k->base.is_last = true;
    if (is_for_first(d, &conv, op)) {
        const struct sides s = sides_of(&k->base, op);
        k->is_first = true;
        form.diff_weights = LS_CUDA_F32;
        set_layouts(&s, op, &form, true, &k->base.base.wide[1]);
        return LS_OK;
    }
    if (is_for_blocks(&conv, op)) {
        struct ls_cuda_conv_form blocks = form;
        if (prepare_blocks(k, op, &conv, &blocks) == LS_OK) return LS_OK;
        ls__cuda_dnn_release(&k->plan);
    }
    conv.ic = (conv.ic + FULL - 1) / FULL * FULL;
    const enum ls_status status = plan_it(k, op, &conv, &form);
    if (status != LS_OK) {
        ls__cuda_dnn_release(&k->plan);
        k->base.type = LS_CUDA_F32;
        k->base.is_last = false;
        return status;
    }
    const struct sides s = sides_of(&k->base, op);
    set_layouts(&s, op, &form, is_padded, &k->base.base.wide[1]);
    return LS_OK;
}

static enum ls_status prepare_plain(struct conv_kernel *k, enum ls_cuda_conv_op op, const struct ls_cuda_conv *conv)
{
    const struct ls_cuda_conv_form form = {.tensor_cores = k->base.device->precision != LS_PRECISION_F32};
    return ls__cuda_dnn_plan(k->base.device, op, conv, &form, &k->plan);
}

static enum ls_status prepare(const struct ls_prep *prep, const struct ls_impl *impl, enum ls_cuda_conv_op op,
                              struct ls_kernel **out)
{
    struct conv_kernel *k;
    TRY(ls__cuda_kernel_create(&k, sizeof *k, prep, impl));
    const struct sides s = sides_of(&k->base, op);
    const struct ls_cuda_conv conv = ls__cuda_conv(&prep->node->attrs, s.src, s.dst);
    const bool has_bias = prep->node->n_in > 2 && prep->node->in[2] >= 0;
    *out = &k->base.base;
    enum ls_status status = is_last(prep->device, &conv) ? prepare_last(k, op, conv, has_bias) : LS_UNSUPPORTED;
    if (status == LS_UNSUPPORTED) status = prepare_plain(k, op, &conv);
    if (status != LS_OK) {
        ls_kernel_destroy(out);
        return status;
    }
    snprintf((*out)->name, sizeof(*out)->name, "cudnn:%lld%s%s", (long long)k->plan.engine, k->is_ended ? "+" : "",
             k->is_blocked ? ":blocks" : "");
    if (k->is_first) snprintf((*out)->name, sizeof(*out)->name, "cuda:first");
    (*out)->scratch_bytes = ls__cuda_workspace_bytes(k->plan.workspace_bytes);
    return LS_OK;
}

static enum ls_status prepare_forward(const struct ls_prep *prep, struct ls_kernel **out)
{
    return prepare(prep, &ls__cuda_conv2d, LS_CUDA_CONV_FORWARD, out);
}

static enum ls_status prepare_bwd_data(const struct ls_prep *prep, struct ls_kernel **out)
{
    return prepare(prep, &ls__cuda_conv2d_bwd_data, LS_CUDA_CONV_BWD_DATA, out);
}

/* Room for the gradient of blocks, behind the rest of the scratch. */
static void add_gradient(struct conv_kernel *k)
{
    const struct ls_cuda_blocks *b = &k->blocks;
    if (!k->is_blocked) return;
    k->gradient_at = (k->base.base.scratch_bytes + 255) / 256 * 256;
    k->base.base.scratch_bytes = k->gradient_at + (size_t)(k->base.out[0].dims[0] * b->n * b->n * b->stored_c) * 4;
}

static struct ls_cuda_first first_of(const struct ls_cuda_kernel *k, const struct ls_shape *dst)
{
    const int64_t *d = k->in[0].dims;
    return (struct ls_cuda_first){(int)(d[0] * d[2] * d[3]), (int)d[2], (int)d[3], (int)dst->dims[1], k->attrs.relu};
}

static enum ls_status prepare_bwd_weights(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(prepare(prep, &ls__cuda_conv2d_bwd_weights, LS_CUDA_CONV_BWD_WEIGHTS, out));
    struct ls_cuda_kernel *k = (struct ls_cuda_kernel *)*out;
    if (((struct conv_kernel *)k)->is_first) {
        (*out)->scratch_bytes = ls__cuda_first_scratch(first_of(k, &k->in[1]));
        (*out)->is_aside = true;
        return LS_OK;
    }
    const bool has_bias = prep->node->n_out > 1 && prep->node->out[1] >= 0;
    const enum ls_status status = has_bias ? ls__cuda_bias_scratch(k, &k->in[1]) : LS_OK;
    if (status != LS_OK) ls_kernel_destroy(out);
    if (status == LS_OK) add_gradient((struct conv_kernel *)k);
    if (status == LS_OK) (*out)->is_aside = true;
    return status;
}

static enum ls_status bind_forward(struct ls_bound *b)
{
    if (kernel_of(b)->is_first) return LS_OK;
    const struct ls_cuda_conv_data data = {b->in[0], b->in[1], b->out[0], kernel_of(b)->is_ended ? b->in[2] : NULL};
    return ls__cuda_dnn_bind(&data, ls__cuda_workspace(b->scratch), &b->extra);
}

static enum ls_status bind_bwd_data(struct ls_bound *b)
{
    const struct ls_cuda_conv_data data = {b->out[0], b->in[1], b->in[0], NULL};
    return ls__cuda_dnn_bind(&data, ls__cuda_workspace(b->scratch), &b->extra);
}

static enum ls_status bind_bwd_weights(struct ls_bound *b)
{
    const struct conv_kernel *k = kernel_of(b);
    if (k->is_first) return LS_OK;
    void *gradient = k->is_blocked ? (char *)b->scratch + k->gradient_at : b->out[0];
    const struct ls_cuda_conv_data data = {b->in[0], gradient, b->in[1], NULL};
    return ls__cuda_dnn_bind(&data, ls__cuda_workspace(b->scratch), &b->extra);
}

static void unbind(struct ls_bound *b)
{
    if (b->extra) (void)cudnnBackendDestroyDescriptor(b->extra);
    b->extra = NULL;
}

static enum ls_status execute(const struct ls_bound *b)
{
    const struct conv_kernel *k = kernel_of(b);
    (void)ls__cuda_stream(k->base.device); /* cuDNN's is the same; what waited comes first */
    return LS_DNN(cudnnBackendExecute(k->base.device->dnn, k->plan.plan, b->extra));
}

static enum ls_status launch_first(const struct ls_bound *b)
{
    const struct ls_cuda_kernel *k = &kernel_of(b)->base;
    return LS_CUDA(ls__cuda_run_first(ls__cuda_stream(k->device), b->in[0], b->in[1], b->in[2], b->out[0],
                                      first_of(k, &k->out[0])));
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    if (kernel_of(b)->is_first) return launch_first(b);
    TRY(execute(b));
    return kernel_of(b)->is_ended ? LS_OK : ls__cuda_finish(&kernel_of(b)->base, b->in[2], b->out[0]);
}

static enum ls_status launch_bwd_data(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    return execute(b);
}

/* cuDNN's stream is the device's but for the while that an op goes aside. */
static enum ls_status execute_in(const struct ls_bound *b, cudaStream_t stream)
{
    const struct conv_kernel *k = kernel_of(b);
    struct ls_device *d = k->base.device;
    TRY(LS_DNN(cudnnSetStream(d->dnn, stream)));
    const enum ls_status status = LS_DNN(cudnnBackendExecute(d->dnn, k->plan.plan, b->extra));
    TRY(LS_DNN(cudnnSetStream(d->dnn, d->stream)));
    return status;
}

static enum ls_status launch_bwd_weights(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct conv_kernel *k = kernel_of(b);
    struct ls_device *d = k->base.device;
    cudaStream_t stream = ls__cuda_stream(d);
    if (k->base.base.is_aside) TRY(ls__cuda_aside_begin(d, &stream));
    if (k->is_first) {
        TRY(LS_CUDA(ls__cuda_run_first_weights(stream, b->in[0], b->in[1], b->out[0], b->out[1], b->scratch,
                                               first_of(&k->base, &k->base.in[1]))));
        return ls__cuda_aside_end(d);
    }
    TRY(execute_in(b, stream));
    if (k->is_blocked)
        TRY(LS_CUDA(ls__cuda_run_blocks_back(stream, k->base.type, (char *)b->scratch + k->gradient_at, b->out[0],
                                             k->base.out[0].dims[0], k->blocks)));
    if (b->out[1]) TRY(ls__cuda_bias_sums(stream, b, &k->base.in[1], b->in[1], b->out[1]));
    return k->base.base.is_aside ? ls__cuda_aside_end(d) : LS_OK;
}

const struct ls_impl ls__cuda_conv2d = {
    .name = "cudnn",
    .op = LS_OP_CONV2D,
    .prepare = prepare_forward,
    .bind = bind_forward,
    .unbind = unbind,
    .launch = launch_forward,
    .release = release,
};

const struct ls_impl ls__cuda_conv2d_bwd_data = {
    .name = "cudnn",
    .op = LS_OP_CONV2D_BWD_DATA,
    .prepare = prepare_bwd_data,
    .bind = bind_bwd_data,
    .unbind = unbind,
    .launch = launch_bwd_data,
    .release = release,
};

const struct ls_impl ls__cuda_conv2d_bwd_weights = {
    .name = "cudnn",
    .op = LS_OP_CONV2D_BWD_WEIGHTS,
    .prepare = prepare_bwd_weights,
    .bind = bind_bwd_weights,
    .unbind = unbind,
    .launch = launch_bwd_weights,
    .release = release,
};
