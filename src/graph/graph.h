/* graph.h: a training step as plain data: values (tensors with a name and a shape) and nodes (ops over values).
 *
 * Everything becomes graph. The model builder appends the forward pass, then passes append the rest:
 *
 *     ls_model_build        forward nodes and, with labels, the loss
 *     ls_graph_fuse         relu folded into the conv, linear, batchnorm or add before it
 *     ls_graph_fuse_adds    where the backend wants it: an add folded into the batchnorm before it
 *     ls_graph_add_gradient backward nodes and the `reduce` nodes that carry gradients out of the shard
 *     ls_optim_add_update   nodes that change the parameters
 *
 * Plan and exec know nodes only. Invariants:
 *   1. Nodes are in execution order: every input of a node is made by an earlier node, or is an input, label or stored
 * value.
 *   2. A value has at most one producer. Ids index `values` and never change.
 *   3. SHARD values exist once per shard being computed (in a thread's arena); STEP values exist once per process (in
 * the store) and live from step to step.
 *   4. A SHARD node reads STEP values but never writes one, except `reduce`, which adds in fixed point (order-free),
 * and `keep`, which writes the rows of its own samples.
 *
 * dims[0] of every activation is `mb`, the number of samples in the shard this graph is for.
 */
#ifndef LS_GRAPH_H
#define LS_GRAPH_H

#include "base/status.h"
#include "tensor/tensor.h"

#include <assert.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Every op: enum suffix, name. One file src/graph/ops/<op>.c per forward op holds the shape and gradient rules of the
 * op and of its backward companions. Inputs -> outputs ("?" = may be absent), attributes:
 *
 * - CONV2D: src weights bias? -> dst; kernel stride pad dilation groups relu
 * - CONV2D_BWD_DATA: diff_dst weights -> diff_src
 * - CONV2D_BWD_WEIGHTS: src diff_dst -> diff_weights diff_bias?
 * - LINEAR: src weights bias? -> dst; relu
 * - LINEAR_BWD_DATA: diff_dst weights -> diff_src
 * - LINEAR_BWD_WEIGHTS: src diff_dst -> diff_weights diff_bias?
 * - BIAS: src bias -> dst (bias [c] added per channel)
 * - BIAS_BWD: diff_dst -> diff_bias
 * - RELU: src -> dst
 * - RELU_BWD: dst diff_dst -> diff_src (dst > 0 ? diff_dst : 0)
 * - ACTIVATION: src -> dst; activation alpha (every element alike)
 * - ACTIVATION_BWD: x diff_dst -> diff_src; x is src or dst, as ls_activation_reads_dst says
 * - MAXPOOL: src -> dst workspace?; kernel stride pad dilation ceil
 * - MAXPOOL_BWD: diff_dst workspace -> diff_src
 * - AVGPOOL: src -> dst; kernel stride pad ceil skip_pad, or oh ow (adaptive). Padding is counted in the mean unless
 *   skip_pad; what ceil adds beyond it never is
 * - AVGPOOL_BWD: diff_dst -> diff_src
 * - BATCHNORM: src gamma beta other? -> dst mean var workspace?; eps relu (training; var is the biased one). other, of
 *   src's shape, is added before the relu
 * - BATCHNORM_EVAL: src gamma beta mean var -> dst; eps relu
 * - BATCHNORM_BWD: src gamma mean var dst? diff_dst workspace? diff_more? -> diff_src diff_gamma diff_beta diff_other?;
 *   eps relu (dst > 0 masks). With `other`: the gradient of dst may come in two parts, diff_dst + diff_more, and
 *   diff_other is it behind the relu
 * - GROUPNORM: src gamma beta -> dst; groups eps (per sample, over the pixels of each group of channels)
 * - GROUPNORM_BWD: src gamma diff_dst -> diff_src diff_gamma diff_beta; groups eps
 * - LAYERNORM: src gamma beta -> dst; eps. gamma [c]: per sample and pixel over the channels; gamma like a sample's
 *   part of src: per sample over all of it
 * - LAYERNORM_BWD: src gamma diff_dst -> diff_src diff_gamma diff_beta; eps
 * - DROPOUT: src -> dst; p layer
 * - DROPOUT_BWD: diff_dst -> diff_src (the same mask, drawn again)
 * - LRN: src -> dst workspace?; size alpha beta k (PyTorch's: alpha/size)
 * - LRN_BWD: src diff_dst workspace? -> diff_src
 * - ADD: a b -> dst; relu
 * - CONCAT: a b ... -> dst (along channels)
 * - CONCAT_BWD: diff_dst -> diff_src; offset (first channel), shape of output
 * - RESHAPE: src -> dst (row-major order kept; flatten and its gradient)
 * - SOFTMAX_CE: logits labels mix_labels? mix_shares? -> diff_logits? stats; label_smoothing. stats f32 [2]: sum of the
 *   losses, number right; padding samples (label < 0) count nothing. With mix_labels the target is mix_shares of the
 *   first label and the rest of the other; right is the one with the larger share
 * - REORDER: src -> dst (same elements, another layout; made by the plan)
 * - REDUCE: src -> sum (SHARD f32 -> STEP i64); scale_log2 by_share
 * - KEEP: src -> kept (the shard's rows of a STEP f32 [batch,c], for LINEAR_SUM)
 * - LINEAR_SUM: kept_src kept_diff_dst -> sum_weights sum_bias? (once per step: LINEAR_BWD_WEIGHTS and REDUCE of every
 * shard in one pass over a large layer's sums); scale_log2
 * - SGD: param sum momentum? -> (in place); momentum nesterov weight_decay
 * - ADAMW: param sum m v -> (in place); beta1 beta2 eps weight_decay
 * - RUNNING_STATS: running sum -> (in place); momentum (of the batch norm), scale_log2
 */
#define LS_OP_MAP(X)                                                                                                   \
    X(CONV2D, conv2d)                                                                                                  \
    X(CONV2D_BWD_DATA, conv2d_bwd_data)                                                                                \
    X(CONV2D_BWD_WEIGHTS, conv2d_bwd_weights)                                                                          \
    X(LINEAR, linear)                                                                                                  \
    X(LINEAR_BWD_DATA, linear_bwd_data)                                                                                \
    X(LINEAR_BWD_WEIGHTS, linear_bwd_weights)                                                                          \
    X(BIAS, bias)                                                                                                      \
    X(BIAS_BWD, bias_bwd)                                                                                              \
    X(RELU, relu)                                                                                                      \
    X(RELU_BWD, relu_bwd)                                                                                              \
    X(ACTIVATION, activation)                                                                                          \
    X(ACTIVATION_BWD, activation_bwd)                                                                                  \
    X(MAXPOOL, maxpool)                                                                                                \
    X(MAXPOOL_BWD, maxpool_bwd)                                                                                        \
    X(AVGPOOL, avgpool)                                                                                                \
    X(AVGPOOL_BWD, avgpool_bwd)                                                                                        \
    X(BATCHNORM, batchnorm)                                                                                            \
    X(BATCHNORM_EVAL, batchnorm_eval)                                                                                  \
    X(BATCHNORM_BWD, batchnorm_bwd)                                                                                    \
    X(GROUPNORM, groupnorm)                                                                                            \
    X(GROUPNORM_BWD, groupnorm_bwd)                                                                                    \
    X(LAYERNORM, layernorm)                                                                                            \
    X(LAYERNORM_BWD, layernorm_bwd)                                                                                    \
    X(DROPOUT, dropout)                                                                                                \
    X(DROPOUT_BWD, dropout_bwd)                                                                                        \
    X(LRN, lrn)                                                                                                        \
    X(LRN_BWD, lrn_bwd)                                                                                                \
    X(ADD, add)                                                                                                        \
    X(CONCAT, concat)                                                                                                  \
    X(CONCAT_BWD, concat_bwd)                                                                                          \
    X(RESHAPE, reshape)                                                                                                \
    X(SOFTMAX_CE, softmax_ce)                                                                                          \
    X(REORDER, reorder)                                                                                                \
    X(REDUCE, reduce)                                                                                                  \
    X(KEEP, keep)                                                                                                      \
    X(LINEAR_SUM, linear_sum)                                                                                          \
    X(SGD, sgd)                                                                                                        \
    X(ADAMW, adamw)                                                                                                    \
    X(RUNNING_STATS, running_stats)

enum ls_op {
#define LS_OP_ENUM(NAME, name) LS_OP_##NAME,
    LS_OP_MAP(LS_OP_ENUM)
#undef LS_OP_ENUM
        LS_N_OPS
};

const char *ls_op_name(enum ls_op op);

/* The functions of ACTIVATION, as PyTorch defines them; name for people and for the model language. */
#define LS_ACTIVATION_MAP(X)                                                                                           \
    X(GELU, "gelu")                                                                                                    \
    X(GELU_TANH, "gelu_tanh") /* approximate="tanh" */                                                                 \
    X(SILU, "silu")                                                                                                    \
    X(HARDSWISH, "hardswish")                                                                                          \
    X(TANH, "tanh")                                                                                                    \
    X(SIGMOID, "sigmoid")                                                                                              \
    X(LEAKY_RELU, "leakyrelu") /* alpha: the slope below 0 */                                                          \
    X(RELU6, "relu6")

enum ls_activation {
#define LS_ACTIVATION_ENUM(NAME, name) LS_ACT_##NAME,
    LS_ACTIVATION_MAP(LS_ACTIVATION_ENUM)
#undef LS_ACTIVATION_ENUM
        LS_N_ACTIVATIONS
};
const char *ls_activation_name(enum ls_activation activation);
/* Whether its backward is made from dst (then src may be overwritten) or from src. */
static inline bool ls_activation_reads_dst(enum ls_activation activation)
{
    return activation >= LS_ACT_TANH;
}

/* One struct for all ops; the table above says which op reads which member. Unused members are zero. */
struct ls_attrs {
    int kh, kw, sh, sw, ph, pw; /* kernel, stride, padding (symmetric) */
    int dh, dw;                 /* dilation, 1 = none */
    int oh, ow;                 /* AVGPOOL: > 0: adaptive, into this many windows; the above are not read */
    int groups;
    enum ls_activation activation;
    bool relu; /* the op ends in a relu */
    bool ceil; /* pools: a last window that begins inside the image or its first padding counts, though it ends outside
                */
    bool skip_pad;  /* AVGPOOL: padding is not counted in the mean */
    bool nesterov;  /* SGD */
    bool by_share;  /* REDUCE: scale by (samples of the shard) / (samples of the batch) first */
    bool float_sum; /* REDUCE: round every addition to float32; gives up the promise, for comparison */
    int layer;      /* DROPOUT: its number in the graph, keys the random numbers */
    int offset;     /* CONCAT_BWD: first channel */
    int size;       /* LRN */
    int scale_log2; /* REDUCE, RUNNING_STATS: fixed-point scale is 2^scale_log2 */
    float p;        /* DROPOUT: probability of zero */
    float eps, alpha, beta, k;
    float momentum, weight_decay, beta1, beta2;
    float label_smoothing;
    double lr_factor; /* SGD, ADAMW: on the learning rate; 0: none */
};

enum ls_value_kind {
    LS_VALUE_INPUT,  /* SHARD f32: the samples */
    LS_VALUE_LABELS, /* SHARD i32 [mb] */
    LS_VALUE_TEMP,   /* SHARD: made by a node */
    LS_VALUE_PARAM,  /* STEP f32: trained */
    LS_VALUE_BUFFER, /* STEP f32: kept with the weights but not trained (running statistics) */
    LS_VALUE_STATE,  /* STEP f32: the optimizer's */
    LS_VALUE_SUM,    /* STEP i64: fixed-point sum over shards, zero at the start of a step */
    LS_VALUE_KEPT,   /* STEP f32 [batch,c]: from the shards to LINEAR_SUM of the same step */
};

enum ls_init { LS_INIT_ZERO, LS_INIT_ONE, LS_INIT_UNIFORM /* [-bound, bound) */ };

struct ls_value {
    char *name; /* PyTorch's for PARAM and BUFFER: "layer1.0.conv1.weight"; unique among STEP values */
    enum ls_value_kind kind;
    enum ls_dtype dtype;
    struct ls_shape shape;
    int producer; /* node, or -1 */
    enum ls_init init;
    float init_bound;
    int grad;          /* PARAM, BUFFER: the SUM value that belongs to it, or -1 */
    bool is_frozen;    /* PARAM, BUFFER: never updated; no gradient is computed for it */
    bool is_workspace; /* opaque bytes between a forward kernel and its backward; size and layout are the kernel's */
};

enum { LS_MAX_IN = 8, LS_MAX_OUT = 4 };

struct ls_node {
    enum ls_op op;
    char *name; /* the layer it came from: "conv1", "layer1.0.bn1", "relu3" */
    struct ls_attrs attrs;
    int n_in, in[LS_MAX_IN];    /* value ids; -1 = absent optional */
    int n_out, out[LS_MAX_OUT]; /* value ids; -1 = absent optional */
    int forward;                /* backward nodes: the forward node they belong to; -1 otherwise */
    int line;                   /* of the model text, 0 if none */
};

struct ls_graph {
    int64_t mb;
    int64_t batch_size; /* the global batch; 0: not told, so nothing is kept for LINEAR_SUM */
    bool is_training;
    bool is_mixing;     /* the loss of training has second labels (mixup, cutmix) */
    bool is_low_memory; /* backward computes activations again rather than keep them; the same numbers */
    struct ls_value *values;
    int n_values;
    struct ls_node *nodes;
    int n_nodes;
    int input, labels, logits, stats; /* value ids, -1 while absent */
    int mix_labels, mix_shares;       /* LABELS i32 [mb], INPUT f32 [mb]; -1 unless is_mixing, and training */
    int stats_sum;                    /* SUM of stats, -1 while absent */
    int n_dropouts;
};

enum ls_status ls_graph_create(struct ls_graph **out, int64_t mb, bool is_training) LS_MUST_CHECK;
void ls_graph_destroy(struct ls_graph **graph);

/* Appends a value and returns its id in *id. The name is copied; NULL makes one up ("t17"). */
enum ls_status ls_graph_add_value(struct ls_graph *g, const char *name, enum ls_value_kind kind, enum ls_dtype dtype,
                                  const struct ls_shape *shape, int *id) LS_MUST_CHECK;

/* Appends a node: checks the inputs against the op's shape rule and makes its output values. n_in and in[] as in the
 * table (pass -1 for an absent optional one). A shape that does not fit is LS_DATA with a message that names the shapes
 * but not the layer; the caller adds it. The ids of the outputs are in g->nodes[g->n_nodes-1].out afterwards; *dst (may
 * be NULL) gets the first one. */
enum ls_status ls_graph_add_node(struct ls_graph *g, enum ls_op op, const char *name, const struct ls_attrs *attrs,
                                 const int *in, int n_in, int *dst) LS_MUST_CHECK;

/* Passes; each returns with the graph extended or rewritten and the invariants intact. */
enum ls_status ls_graph_fuse(struct ls_graph *g) LS_MUST_CHECK;
/* After fuse, and only for a backend with `has_norm_add`. */
enum ls_status ls_graph_fuse_adds(struct ls_graph *g) LS_MUST_CHECK;
enum ls_status ls_graph_add_loss(struct ls_graph *g, float label_smoothing) LS_MUST_CHECK;
enum ls_status ls_graph_add_gradient(struct ls_graph *g) LS_MUST_CHECK;

/* Floating-point operations of one execution (a multiply-add counts 2). */
double ls_node_flops(const struct ls_graph *g, const struct ls_node *n);

int ls_graph_find_value(const struct ls_graph *g, const char *name); /* -1 if absent; STEP values only */

static inline bool ls_value_is_stored(const struct ls_value *v)
{
    return v->kind >= LS_VALUE_PARAM;
}

/* The limits of fixed point and of shards. What leaves a shard leaves as round(x * 2^scale) and is added to a 64-bit
 * sum, in any order (docs/decisions/0001-fixed-point.md has the reasons, ARCHITECTURE.md the ranges in numbers). Two
 * kinds of sums:
 *
 *   - of a batch (gradients, loss): every shard stays below 2^LS_FIXED_BITS, so LS_MAX_SHARDS of them fit.
 *   - a mean over a batch (statistics of batch norm): shards are weighted by their share of the samples. The shares add
 *     up to 1, so if no shard's value reaches 2^LS_FIXED_MEAN_BITS, neither does the sum. */
enum { LS_SCALE_GRAD = 46, LS_SCALE_STATS = 32, LS_SCALE_RUNNING = 40 };
enum { LS_MAX_SHARDS = 512, LS_FIXED_BITS = 54, LS_FIXED_MEAN_BITS = 62 };
#define LS_FIXED_LIMIT ((double)((int64_t)1 << LS_FIXED_BITS))
#define LS_FIXED_MEAN_LIMIT ((double)((int64_t)1 << LS_FIXED_MEAN_BITS))

static_assert(((uint64_t)LS_MAX_SHARDS << LS_FIXED_BITS) <= (uint64_t)1 << 63, "sums of all shards fit an int64_t");
static_assert(LS_FIXED_MEAN_BITS < 63, "a mean fits an int64_t, with room for shares that are rounded up");
static_assert(LS_FIXED_BITS - LS_SCALE_GRAD >= 8, "a shard's gradient may reach 256");
static_assert(LS_FIXED_BITS - LS_SCALE_STATS >= 22, "a shard's losses may add up to 4.2 million");
static_assert(LS_FIXED_MEAN_BITS - LS_SCALE_RUNNING >= 22, "a mean or variance may reach 4.2 million");

#ifdef __cplusplus
}
#endif

#endif
