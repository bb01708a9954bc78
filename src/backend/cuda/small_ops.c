/* small_ops.c: the ops of small networks: which networks those are, and what each op adds to the list (small.c).
 *
 * In, Out: as the op of the same name in its own file says, in float32 and plain layouts, also with tf32: what is
 * multiplied is then more exact than it need be. bf16 goes the other way: its networks are not small.
 */
#include "backend/cuda/small.h"

struct small_kernel {
    struct ls_cuda_kernel base;
    struct ls_cuda_small_op op; /* but for the addresses */
};

/* --- what is small --- */

enum {
    MOST_WORDS = 22528, /* of a sample, with a convolution's weights: what a block of every card has room for */
    MOST_WEIGHTS = 1 << 16,
    MOST_PAIRS = 256, /* of channels of a convolution */
    MOST_CLASSES = 1024,
};
static const double most_multiplications = 1 << 20; /* of a convolution, per sample */
static const double most_bytes = 1 << 30;           /* of all values: they share no memory */

static const struct ls_shape *shape_of(const struct ls_graph *g, const struct ls_node *n, int in)
{
    return &g->values[n->in[in]].shape;
}

static const struct ls_shape *out_shape(const struct ls_graph *g, const struct ls_node *n, int out)
{
    return &g->values[n->out[out]].shape;
}

static double words_of(const struct ls_shape *s)
{
    return (double)ls_shape_count(s) / (double)(s->dims[0] > 0 ? s->dims[0] : 1);
}

/* The words of a sample that an op reads and writes; everything of it has as many samples as the shard. */
static bool is_per_sample(const struct ls_graph *g, const struct ls_node *n, int n_in, int n_out, double others)
{
    double words = others;
    for (int i = 0; i < n_in + n_out; i++) {
        const int value = i < n_in ? n->in[i] : n->out[i - n_in];
        if (value < 0 || g->values[value].is_workspace) continue;
        if (g->values[value].shape.dims[0] != g->mb || ls_value_is_stored(&g->values[value])) return false;
        words += words_of(&g->values[value].shape);
    }
    return words <= MOST_WORDS;
}

static bool is_small_conv(const struct ls_graph *g, const struct ls_node *n)
{
    const bool is_data = n->op == LS_OP_CONV2D_BWD_DATA, is_weights = n->op == LS_OP_CONV2D_BWD_WEIGHTS;
    const struct ls_shape *src = is_data ? out_shape(g, n, 0) : shape_of(g, n, 0);
    const struct ls_shape *dst = is_data ? shape_of(g, n, 0) : is_weights ? shape_of(g, n, 1) : out_shape(g, n, 0);
    const struct ls_cuda_conv c = ls__cuda_conv(&n->attrs, src, dst);
    const bool is_plain = c.sh == 1 && c.sw == 1 && c.dh == 1 && c.dw == 1 && c.groups == 1 && c.kh == c.kw &&
                          c.ph == c.pw && c.ph < c.kh && (c.kh == 3 || c.kh == 5);
    if (!is_plain || c.ic * c.oc > MOST_PAIRS) return false;
    const double taps = (double)(c.kh * c.kw);
    if ((double)(c.ic * c.oc * c.oh * c.ow) * taps > most_multiplications) return false;
    const double weights = is_weights ? 0.0 : taps * (double)((c.ic + 3) * (c.oc + 3));
    const double gaps = is_data ? (double)((c.oc * c.oh + 1) * (c.kh - 1 - c.ph)) : (double)((c.ic * c.ih + 1) * c.ph);
    return is_per_sample(g, n, is_weights ? 2 : 1, is_weights ? 0 : 1, weights + gaps);
}

static bool is_small_linear(const struct ls_graph *g, const struct ls_node *n)
{
    const bool is_weights = n->op == LS_OP_LINEAR_BWD_WEIGHTS;
    if (ls_shape_count(is_weights ? out_shape(g, n, 0) : shape_of(g, n, 1)) > MOST_WEIGHTS) return false;
    return is_per_sample(g, n, is_weights ? 2 : 1, is_weights ? 0 : 1, 0.0);
}

static bool is_small_pool(const struct ls_graph *g, const struct ls_node *n)
{
    const bool is_max = n->op == LS_OP_MAXPOOL || n->op == LS_OP_MAXPOOL_BWD;
    const struct ls_shape *pooled =
        n->op == LS_OP_MAXPOOL || n->op == LS_OP_AVGPOOL ? out_shape(g, n, 0) : shape_of(g, n, 0);
    return is_per_sample(g, n, 1, 1, is_max ? words_of(pooled) : 0.0);
}

static bool is_small_node(const struct ls_graph *g, const struct ls_node *n)
{
    switch (n->op) {
    case LS_OP_CONV2D:
    case LS_OP_CONV2D_BWD_DATA:
    case LS_OP_CONV2D_BWD_WEIGHTS:
        return is_small_conv(g, n);
    case LS_OP_LINEAR:
    case LS_OP_LINEAR_BWD_DATA:
    case LS_OP_LINEAR_BWD_WEIGHTS:
        return is_small_linear(g, n);
    case LS_OP_MAXPOOL:
    case LS_OP_MAXPOOL_BWD:
    case LS_OP_AVGPOOL:
    case LS_OP_AVGPOOL_BWD:
        return is_small_pool(g, n);
    case LS_OP_RELU:
        return is_per_sample(g, n, 1, 1, 0.0);
    case LS_OP_RELU_BWD:
    case LS_OP_ADD:
        return is_per_sample(g, n, 2, 1, 0.0);
    case LS_OP_SOFTMAX_CE:
        return words_of(shape_of(g, n, 0)) <= MOST_CLASSES && is_per_sample(g, n, 1, 0, 0.0);
    case LS_OP_RESHAPE: /* nothing is computed; the next do not depend on the size of a sample */
    case LS_OP_REORDER:
    case LS_OP_REDUCE:
    case LS_OP_SGD:
    case LS_OP_ADAMW:
        return true;
    default:
        return false;
    }
}

bool ls__cuda_is_small(const struct ls_device *d, const struct ls_graph *g)
{
    double bytes = 0.0;
    if (d->precision == LS_PRECISION_BF16 || g->mb > 1 << 24) return false;
    for (int i = 0; i < g->n_nodes; i++)
        if (!is_small_node(g, &g->nodes[i])) return false;
    for (int i = 0; i < g->n_values; i++) bytes += 4.0 * (double)ls_shape_count(&g->values[i].shape);
    return bytes <= most_bytes;
}

/* --- prepare --- */

static struct ls_cuda_small_value value_of(const struct ls_shape *s)
{
    return (struct ls_cuda_small_value){.n = s->n_dims > 0 ? (int)words_of(s) : 0};
}

/* The lanes that share an image's rows: as many as make 512 threads of all, by the shape alone. */
static void split_gradient(struct ls_cuda_small_conv *c)
{
    enum { ABOUT = 512, LANES = 32 };
    c->block = c->oc % 4 == 0 ? 4 : 2;
    c->split = 1;
    const int groups = (c->oc + c->block - 1) / c->block * c->ic * c->k;
    while (c->split < LANES && groups * c->split * 2 <= ABOUT && c->split < c->oh) c->split *= 2;
}

/* The lanes that share the channels of a sum: likewise. */
static void split_channels(struct ls_cuda_small_conv *c)
{
    enum { ABOUT = 768, LANES = 4 };
    c->split = 1;
    const int threads = (int)c->chunks.by * c->oh * (c->oc + 1) / 2;
    while (c->split < LANES && threads * c->split * 2 <= ABOUT && c->ic % (c->split * 2) == 0) c->split *= 2;
}

static void fill_conv(struct small_kernel *k, enum ls_op op)
{
    struct ls_cuda_kernel *b = &k->base;
    const bool is_data = op == LS_OP_CONV2D_BWD_DATA, is_weights = op == LS_OP_CONV2D_BWD_WEIGHTS;
    const struct ls_shape *src = &b->in[0], *dst = is_weights ? &b->in[1] : &b->out[0];
    struct ls_cuda_small_conv c = {.ic = (int)src->dims[1],
                                   .ih = (int)src->dims[2],
                                   .iw = (int)src->dims[3],
                                   .oc = (int)dst->dims[1],
                                   .oh = (int)dst->dims[2],
                                   .ow = (int)dst->dims[3],
                                   .k = b->attrs.kh,
                                   .pad = is_data ? b->attrs.kh - 1 - b->attrs.ph : b->attrs.ph,
                                   .is_turned = is_data};
    c.chunks = ls__cuda_divisor((c.ow + LS_CUDA_SMALL_CHUNK - 1) / LS_CUDA_SMALL_CHUNK);
    c.rows = ls__cuda_divisor(c.oh);
    c.channels = ls__cuda_divisor(c.ic);
    c.planes = ls__cuda_divisor(c.is_turned ? c.oc : c.ic);
    if (is_weights)
        split_gradient(&c);
    else
        split_channels(&c);
    k->op.kind = is_weights ? LS_CUDA_SMALL_CONV_WEIGHTS : LS_CUDA_SMALL_CONV;
    k->op.relu = op == LS_OP_CONV2D && b->attrs.relu;
    k->op.of.conv = c;
    if (!is_weights) return;
    k->op.n_partial = c.oc * c.ic * c.k * c.k + c.oc;
    b->base.scratch_bytes = (size_t)src->dims[0] * (size_t)k->op.n_partial * sizeof(float);
}

static void fill_pool(struct small_kernel *k, enum ls_op op)
{
    static const enum ls_cuda_small_kind kinds[2][2] = {{LS_CUDA_SMALL_MEAN, LS_CUDA_SMALL_MEAN_BWD},
                                                        {LS_CUDA_SMALL_MAX, LS_CUDA_SMALL_MAX_BWD}};
    struct ls_cuda_kernel *b = &k->base;
    const bool is_max = op == LS_OP_MAXPOOL || op == LS_OP_MAXPOOL_BWD;
    const bool is_bwd = op == LS_OP_MAXPOOL_BWD || op == LS_OP_AVGPOOL_BWD;
    const struct ls_shape *image = is_bwd ? &b->out[0] : &b->in[0], *pooled = is_bwd ? &b->in[0] : &b->out[0];
    const struct ls_shape *made = &b->out[0];
    struct ls_cuda_small_pool p = {.p = ls__cuda_pool(&b->attrs, image, pooled)};
    p.p.planes = image->dims[1];
    p.plane = ls__cuda_divisor((int)(made->dims[2] * made->dims[3]));
    p.row = ls__cuda_divisor((int)made->dims[3]);
    p.window_row = ls__cuda_divisor(p.p.ow);
    p.window_rows = ls__cuda_divisor(p.p.oh);
    p.is_of_four = p.p.kh == 2 && p.p.kw == 2 && p.p.ph == 0 && p.p.pw == 0 && p.p.dh == 1 && p.p.dw == 1 &&
                   (p.p.oh - 1) * p.p.sh + 2 <= p.p.ih && (p.p.ow - 1) * p.p.sw + 2 <= p.p.iw;
    p.is_covered = p.is_of_four && p.p.sh == 2 && p.p.sw == 2 && p.p.ih == 2 * p.p.oh && p.p.iw == 2 * p.p.ow;
    k->op.kind = kinds[is_max][is_bwd];
    k->op.of.pool = p;
    if (op == LS_OP_MAXPOOL) {
        k->op.chosen = value_of(pooled);
        if (b->base.out[1].bytes || b->out[1].n_dims) b->base.out[1] = ls_layout_plain(pooled, LS_I32);
    }
    if (op == LS_OP_MAXPOOL_BWD) b->base.in[1] = ls_layout_plain(pooled, LS_I32);
}

static void fill_linear(struct small_kernel *k, enum ls_op op)
{
    const bool is_data = op == LS_OP_LINEAR_BWD_DATA;
    k->op.kind = is_data ? LS_CUDA_SMALL_LINEAR_BWD : LS_CUDA_SMALL_LINEAR;
    k->op.relu = op == LS_OP_LINEAR && k->base.attrs.relu;
    k->op.of.linear = (struct ls_cuda_small_linear){.ic = is_data ? k->op.out.n : k->op.in[0].n,
                                                    .oc = is_data ? k->op.in[0].n : k->op.out.n};
}

static enum ls_status fill_loss(struct small_kernel *k)
{
    const int64_t mb = k->base.in[0].dims[0];
    k->op.kind = LS_CUDA_SMALL_LOSS;
    k->op.of.loss.a = (struct ls_cuda_softmax){
        .mb = mb, .n = ls_shape_count(&k->base.in[0]) / mb, .smoothing = k->base.attrs.label_smoothing};
    k->base.base.scratch_bytes = 2 * (size_t)mb * sizeof(double);
    TRY(ls__cuda_watch(&k->base));
    k->op.of.loss.a.fault_id = k->base.fault_id;
    return LS_OK;
}

static enum ls_status fill(struct small_kernel *k, enum ls_op op)
{
    for (int i = 0; i < 2; i++) k->op.in[i] = value_of(&k->base.in[i]);
    k->op.out = value_of(&k->base.out[0]);
    switch (op) {
    case LS_OP_CONV2D:
    case LS_OP_CONV2D_BWD_DATA:
    case LS_OP_CONV2D_BWD_WEIGHTS:
        fill_conv(k, op);
        break;
    case LS_OP_MAXPOOL:
    case LS_OP_MAXPOOL_BWD:
    case LS_OP_AVGPOOL:
    case LS_OP_AVGPOOL_BWD:
        fill_pool(k, op);
        break;
    case LS_OP_LINEAR:
    case LS_OP_LINEAR_BWD_DATA:
    case LS_OP_LINEAR_BWD_WEIGHTS:
        fill_linear(k, op);
        break;
    case LS_OP_SOFTMAX_CE:
        return fill_loss(k);
    default:
        k->op.kind = op == LS_OP_ADD    ? LS_CUDA_SMALL_ADD
                     : op == LS_OP_RELU ? LS_CUDA_SMALL_RELU
                                        : LS_CUDA_SMALL_RELU_BWD;
        k->op.relu = op == LS_OP_RELU || (op == LS_OP_ADD && k->base.attrs.relu);
        break;
    }
    return LS_OK;
}

/* Whether the op is of the list, and so reads its values in shared memory. */
static bool is_listed(enum ls_op op)
{
    switch (op) {
    case LS_OP_CONV2D:
    case LS_OP_CONV2D_BWD_DATA:
    case LS_OP_CONV2D_BWD_WEIGHTS:
    case LS_OP_LINEAR:
    case LS_OP_LINEAR_BWD_DATA:
    case LS_OP_MAXPOOL:
    case LS_OP_MAXPOOL_BWD:
    case LS_OP_AVGPOOL:
    case LS_OP_AVGPOOL_BWD:
    case LS_OP_RELU:
    case LS_OP_RELU_BWD:
    case LS_OP_ADD:
        return true;
    default:
        return false;
    }
}

/* How often ops of the list read a value, also under another shape; 0 if anybody else may. */
static int readers_of(const struct ls_graph *g, int value)
{
    int n = 0;
    if (value < 0 || value == g->logits) return 0;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i].n_in; k++) {
            const struct ls_node *node = &g->nodes[i];
            if (node->in[k] != value) continue;
            const int more = is_listed(node->op) ? 1 : node->op == LS_OP_RESHAPE ? readers_of(g, node->out[0]) : 0;
            if (more == 0) return 0;
            n += more;
        }
    return n;
}

#define IMPL_OF(NAME, name) [LS_OP_##NAME] = &ls__cuda_small_##name,
static const struct ls_impl *const impls[LS_N_OPS] = {LS_CUDA_SMALL_MAP(IMPL_OF)};
#undef IMPL_OF

static enum ls_status prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    const enum ls_op op = prep->node->op;
    struct small_kernel *k;
    if (!ls__cuda_is_small(prep->device, prep->graph))
        return ls_fail(LS_UNSUPPORTED, "the network is not small, or not in float32");
    if (op == LS_OP_MAXPOOL_BWD &&
        (!prep->forward ||
         prep->forward->out[1].bytes != (size_t)ls_shape_count(&prep->graph->values[prep->node->in[0]].shape) * 4))
        return ls_fail(LS_UNSUPPORTED, "reads the workspace of a plain maxpool only");
    TRY(ls__cuda_kernel_create(&k, sizeof *k, prep, impls[op]));
    *out = &k->base.base;
    const enum ls_status status = fill(k, op);
    k->op.out.n_readers = readers_of(prep->graph, prep->node->out[0]);
    if (op == LS_OP_MAXPOOL) k->op.chosen.n_readers = readers_of(prep->graph, prep->node->out[1]);
    if (status != LS_OK) ls_kernel_destroy(out);
    return status;
}

/* --- launch --- */

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct small_kernel *k = (const struct small_kernel *)b->kernel;
    struct ls_cuda_small_op op = k->op;
    op.in[0].data = b->in[0];
    op.out.data = b->out[0];
    switch (op.kind) {
    case LS_CUDA_SMALL_CONV:
    case LS_CUDA_SMALL_LINEAR:
    case LS_CUDA_SMALL_LINEAR_BWD:
        op.weights = b->in[1];
        op.bias = b->in[2];
        break;
    case LS_CUDA_SMALL_MAX:
        op.chosen.data = b->out[1];
        break;
    case LS_CUDA_SMALL_MAX_BWD:
    case LS_CUDA_SMALL_RELU_BWD:
    case LS_CUDA_SMALL_ADD:
        op.in[1].data = b->in[1];
        break;
    default:
        break;
    }
    return ls__cuda_small_op(k->base.device, k->base.in[0].dims[0], &op);
}

/* Sums over samples of n numbers each, `stride` apart. */
static enum ls_status add_up(const struct ls_cuda_kernel *k, const float *a, int n, int stride, float *out)
{
    const struct ls_cuda_across_job job = {.kind = LS_CUDA_ACROSS_SUM, .a = a, .n_a = n, .stride = stride, .out = out};
    return out ? ls__cuda_small_sum(k->device, k->in[0].dims[0], &job) : LS_OK;
}

static enum ls_status launch_conv_weights(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct small_kernel *k = (const struct small_kernel *)b->kernel;
    const struct ls_cuda_small_conv *c = &k->op.of.conv;
    struct ls_cuda_small_op op = k->op;
    const int n_weights = op.n_partial - c->oc;
    op.in[0].data = b->in[0];
    op.in[1].data = b->in[1];
    op.partial = b->scratch;
    TRY(ls__cuda_small_op(k->base.device, k->base.in[0].dims[0], &op));
    TRY(add_up(&k->base, op.partial, n_weights, op.n_partial, b->out[0]));
    return add_up(&k->base, op.partial + n_weights, c->oc, op.n_partial, b->out[1]);
}

static enum ls_status launch_linear_weights(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct small_kernel *k = (const struct small_kernel *)b->kernel;
    const struct ls_cuda_across_job job = {.kind = LS_CUDA_ACROSS_PRODUCT,
                                           .a = b->in[1],
                                           .b = b->in[0],
                                           .n_a = k->op.in[1].n,
                                           .n_b = k->op.in[0].n,
                                           .out = b->out[0]};
    TRY(ls__cuda_small_sum(k->base.device, k->base.in[0].dims[0], &job));
    return add_up(&k->base, b->in[1], k->op.in[1].n, k->op.in[1].n, b->out[1]);
}

static enum ls_status launch_loss(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct small_kernel *k = (const struct small_kernel *)b->kernel;
    struct ls_cuda_small_op op = k->op;
    struct ls_cuda_small_loss *l = &op.of.loss;
    op.in[0].data = b->in[0];
    op.out.data = b->out[0];
    l->a.n_valid = ctx->n_valid;
    l->a.grad_scale = ctx->grad_scale;
    op.in[1] = (struct ls_cuda_small_value){.data = b->in[1], .n = 1};
    l->others = b->in[2];
    l->shares = b->in[3];
    l->rows = b->scratch;
    TRY(ls__cuda_small_op(k->base.device, l->a.mb, &op));
    const struct ls_cuda_across_job job = {.kind = LS_CUDA_ACROSS_LOSS, .rows = l->rows, .out = b->out[1]};
    return ls__cuda_small_sum(k->base.device, l->a.mb, &job);
}

/* --- tables --- */

#define SMALL(NAME, name_, launch_, release_)                                                                          \
    const struct ls_impl ls__cuda_small_##name_ = {                                                                    \
        .name = "small", .op = LS_OP_##NAME, .prepare = prepare, .launch = launch_, .release = release_}
SMALL(CONV2D, conv2d, launch, NULL);
SMALL(CONV2D_BWD_DATA, conv2d_bwd_data, launch, NULL);
SMALL(CONV2D_BWD_WEIGHTS, conv2d_bwd_weights, launch_conv_weights, NULL);
SMALL(LINEAR, linear, launch, NULL);
SMALL(LINEAR_BWD_DATA, linear_bwd_data, launch, NULL);
SMALL(LINEAR_BWD_WEIGHTS, linear_bwd_weights, launch_linear_weights, NULL);
SMALL(MAXPOOL, maxpool, launch, NULL);
SMALL(MAXPOOL_BWD, maxpool_bwd, launch, NULL);
SMALL(AVGPOOL, avgpool, launch, NULL);
SMALL(AVGPOOL_BWD, avgpool_bwd, launch, NULL);
SMALL(RELU, relu, launch, NULL);
SMALL(RELU_BWD, relu_bwd, launch, NULL);
SMALL(ADD, add, launch, NULL);
SMALL(SOFTMAX_CE, softmax_ce, launch_loss, ls__cuda_unwatch);
