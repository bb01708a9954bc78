/* dnn.c: see dnn.h. Descriptors are made, given attributes and finalized; a plan keeps what it needs of the others. */
#include "backend/cuda/dnn.h"

#include "backend/cuda/engines.h"

#include <stdio.h>
#include <string.h>

/* Plans and graphs of older cuDNN 9 want the handle; newer ones call that deprecated. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

enum { UID_SRC = 1, UID_WEIGHTS, UID_DST, UID_BIAS, UID_PRODUCT, UID_SUM };
enum { ALIGNMENT = 16, MAX_CONFIGS = 64, MAX_NOTES = 16, MAX_KNOBS = 16, KNOBS_TEXT = 256 };
static const size_t max_workspace = (size_t)1 << 30;

static enum ls_status set(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                          cudnnBackendAttributeType_t type, int64_t n, const void *values)
{
    return LS_DNN(cudnnBackendSetAttribute(d, name, type, n, values));
}

static enum ls_status set_one(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t of)
{
    return set(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &of);
}

static enum ls_status create(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out)
{
    return LS_DNN(cudnnBackendCreateDescriptor(type, out));
}

static enum ls_status finalize(cudnnBackendDescriptor_t d)
{
    return LS_DNN(cudnnBackendFinalize(d));
}

static void destroy(cudnnBackendDescriptor_t *d)
{
    if (*d) (void)cudnnBackendDestroyDescriptor(*d);
    *d = NULL;
}

/* What describes the problem. */
struct problem {
    cudnnBackendDescriptor_t src, weights, dst, conv, op, graph;
    /* with bias and relu: the product and the sum are never in memory */
    cudnnBackendDescriptor_t bias, product, sum, add, add_op, relu, relu_op;
};

static void problem_release(struct problem *p)
{
    destroy(&p->graph);
    destroy(&p->relu_op);
    destroy(&p->relu);
    destroy(&p->add_op);
    destroy(&p->add);
    destroy(&p->sum);
    destroy(&p->product);
    destroy(&p->bias);
    destroy(&p->op);
    destroy(&p->conv);
    destroy(&p->dst);
    destroy(&p->weights);
    destroy(&p->src);
}

/* A tensor of a problem: [n,c,h,w] */
struct tensor {
    int64_t uid, dims[4];
    enum ls_cuda_type type;
    bool is_last, is_virtual;
};

static enum ls_status make_tensor(const struct tensor *t, cudnnBackendDescriptor_t *out)
{
    const int64_t *d = t->dims, plain[4] = {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1},
                  last[4] = {d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]}, alignment = ALIGNMENT;
    const cudnnDataType_t type = t->type == LS_CUDA_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    TRY(create(CUDNN_BACKEND_TENSOR_DESCRIPTOR, out));
    TRY(set(*out, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type));
    TRY(set(*out, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, d));
    TRY(set(*out, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, t->is_last ? last : plain));
    TRY(set(*out, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &t->uid));
    TRY(set(*out, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment));
    if (t->is_virtual) TRY(set(*out, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &t->is_virtual));
    return finalize(*out);
}

static enum ls_status make_conv(const struct ls_cuda_conv *c, cudnnBackendDescriptor_t *out)
{
    const int64_t n_spatial = 2, pads[2] = {c->ph, c->pw}, strides[2] = {c->sh, c->sw}, dilations[2] = {c->dh, c->dw};
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    TRY(create(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, out));
    TRY(set(*out, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &n_spatial));
    TRY(set(*out, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute));
    TRY(set(*out, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode));
    TRY(set(*out, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, pads));
    TRY(set(*out, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, pads));
    TRY(set(*out, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilations));
    TRY(set(*out, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, strides));
    return finalize(*out);
}

/* What an operation calls its parts. */
static const struct {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t src, weights, dst, conv, alpha, beta;
} operations[] = {
    [LS_CUDA_CONV_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [LS_CUDA_CONV_BWD_DATA] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [LS_CUDA_CONV_BWD_WEIGHTS] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

static enum ls_status make_operation(struct problem *p, enum ls_cuda_conv_op op, cudnnBackendDescriptor_t dst)
{
    const float one = 1.0f, zero = 0.0f;
    TRY(create(operations[op].type, &p->op));
    TRY(set_one(p->op, operations[op].src, p->src));
    TRY(set_one(p->op, operations[op].weights, p->weights));
    TRY(set_one(p->op, operations[op].dst, dst));
    TRY(set_one(p->op, operations[op].conv, p->conv));
    TRY(set(p->op, operations[op].alpha, CUDNN_TYPE_FLOAT, 1, &one));
    TRY(set(p->op, operations[op].beta, CUDNN_TYPE_FLOAT, 1, &zero));
    return finalize(p->op);
}

static enum ls_status make_pointwise(cudnnPointwiseMode_t mode, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                                     cudnnBackendDescriptor_t y, cudnnBackendDescriptor_t *what,
                                     cudnnBackendDescriptor_t *op)
{
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    TRY(create(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, what));
    TRY(set(*what, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode));
    TRY(set(*what, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute));
    TRY(finalize(*what));
    TRY(create(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, op));
    TRY(set_one(*op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, *what));
    TRY(set_one(*op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x));
    if (b) TRY(set_one(*op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b));
    TRY(set_one(*op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y));
    return finalize(*op);
}

/* product -> + bias -> sum -> relu -> dst, or without one of the two. */
static enum ls_status make_ending(struct problem *p, const struct tensor *dst, const struct ls_cuda_conv_form *form)
{
    struct tensor t = {.uid = UID_BIAS, .dims = {1, dst->dims[1], 1, 1}, .type = LS_CUDA_F32, .is_last = dst->is_last};
    cudnnBackendDescriptor_t at = p->product;
    if (form->has_bias) TRY(make_tensor(&t, &p->bias));
    t = *dst;
    t.uid = UID_SUM;
    t.type = LS_CUDA_F32;
    t.is_virtual = true;
    if (form->has_bias && form->has_relu) TRY(make_tensor(&t, &p->sum));
    if (form->has_bias) {
        cudnnBackendDescriptor_t to = form->has_relu ? p->sum : p->dst;
        TRY(make_pointwise(CUDNN_POINTWISE_ADD, at, p->bias, to, &p->add, &p->add_op));
        at = to;
    }
    return form->has_relu ? make_pointwise(CUDNN_POINTWISE_RELU_FWD, at, NULL, p->dst, &p->relu, &p->relu_op) : LS_OK;
}

static enum ls_status make_operations(struct problem *p, enum ls_cuda_conv_op op, const struct tensor *dst,
                                      const struct ls_cuda_conv_form *form)
{
    struct tensor product = *dst;
    if (!form->has_bias && !form->has_relu) return make_operation(p, op, p->dst);
    product.uid = UID_PRODUCT;
    product.type = LS_CUDA_F32;
    product.is_virtual = true;
    TRY(make_tensor(&product, &p->product));
    TRY(make_operation(p, op, p->product));
    return make_ending(p, dst, form);
}

static enum ls_status make_graph(struct ls_device *d, struct problem *p)
{
    cudnnBackendDescriptor_t ops[3] = {p->op};
    int64_t n = 1;
    if (p->add_op) ops[n++] = p->add_op;
    if (p->relu_op) ops[n++] = p->relu_op;
    TRY(create(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &p->graph));
    TRY(set(p->graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &d->dnn));
    TRY(set(p->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, n, ops));
    return finalize(p->graph);
}

static enum ls_status make_problem(struct ls_device *d, enum ls_cuda_conv_op op, const struct ls_cuda_conv *c,
                                   const struct ls_cuda_conv_form *form, struct problem *p)
{
    const struct tensor src = {UID_SRC, {c->mb, c->ic, c->ih, c->iw}, form->type, form->is_last, false};
    const struct tensor dst = {UID_DST, {c->mb, c->oc, c->oh, c->ow}, form->type, form->is_last, false};
    struct tensor weights = {UID_WEIGHTS, {c->oc, c->ic / c->groups, c->kh, c->kw}, form->type, form->is_last, false};
    if (op == LS_CUDA_CONV_BWD_WEIGHTS) weights.type = form->diff_weights;
    TRY(make_tensor(&src, &p->src));
    TRY(make_tensor(&weights, &p->weights));
    TRY(make_tensor(&dst, &p->dst));
    TRY(make_conv(c, &p->conv));
    TRY(make_operations(p, op, &dst, form));
    return make_graph(d, p);
}

/* --- which engine --- */

/* Deterministic, and with the numbers asked for all the way. */
static bool is_note_allowed(cudnnBackendNumericalNote_t note, bool tensor_cores)
{
    switch (note) {
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE: /* TF32, where the data is float32 */
        return tensor_cores;
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
    case CUDNN_NUMERICAL_NOTE_FFT:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
        return false;
    default:
        return true;
    }
}

/* What is looked for. */
struct wish {
    enum ls_cuda_conv_op op;
    bool tensor_cores;                   /* may be used */
    bool is_demanding;                   /* must be used: for bf16 the others are slower than float32 */
    const struct ls_cuda_engine *engine; /* this one; NULL: any */
};

static enum ls_status look_at_engine(cudnnBackendDescriptor_t config, cudnnBackendDescriptor_t engine,
                                     const struct wish *wish, bool *is_allowed, int64_t *number)
{
    cudnnBackendNumericalNote_t notes[MAX_NOTES];
    int64_t n = 0;
    TRY(LS_DNN(
        cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine)));
    TRY(LS_DNN(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &n, number)));
    TRY(LS_DNN(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, MAX_NOTES,
                                        &n, notes)));
    bool has_cores = false;
    *is_allowed = true;
    for (int64_t i = 0; i < n && i < MAX_NOTES; i++) {
        if (notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE) has_cores = true;
        if (!is_note_allowed(notes[i], wish->tensor_cores)) *is_allowed = false;
    }
    if (wish->is_demanding && !has_cores) *is_allowed = false;
    return LS_OK;
}

/* Engine 17 of weights' gradients is a Winograd (its scratch and its error, 4e-5 where the others have 1e-6, say so)
 * whose notes are empty, in cuDNN 9.14. */
static bool is_engine_allowed(enum ls_cuda_conv_op op, int64_t engine)
{
    return !(op == LS_CUDA_CONV_BWD_WEIGHTS && engine == 17);
}

/* A configuration's knobs as text, as engines.h has them; what cannot be read is like no table's. */
static void write_knobs(cudnnBackendDescriptor_t config, char text[KNOBS_TEXT])
{
    cudnnBackendDescriptor_t knobs[MAX_KNOBS] = {NULL};
    int64_t n = 0, one, v = -1;
    size_t at = 0;
    text[0] = 0;
    for (int i = 0; i < MAX_KNOBS; i++)
        if (create(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, &knobs[i]) != LS_OK) break;
    (void)cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_KNOBS,
                                   &n, knobs);
    for (int64_t i = 0; i < n && i < MAX_KNOBS && at < KNOBS_TEXT; i++) {
        cudnnBackendKnobType_t t = CUDNN_KNOB_TYPE_COUNTS;
        (void)cudnnBackendGetAttribute(knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &one, &t);
        (void)cudnnBackendGetAttribute(knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &one, &v);
        at += (size_t)snprintf(text + at, KNOBS_TEXT - at, "%d=%lld,", (int)t, (long long)v);
    }
    for (int i = 0; i < MAX_KNOBS; i++) destroy(&knobs[i]);
}

static bool is_wished(const struct wish *wish, cudnnBackendDescriptor_t config, int64_t engine)
{
    char knobs[KNOBS_TEXT];
    if (!wish->engine) return true;
    write_knobs(config, knobs);
    return engine == wish->engine->number && strcmp(knobs, wish->engine->knobs) == 0;
}

/* A plan of this configuration, or LS_UNSUPPORTED. */
static enum ls_status try_config(struct ls_device *d, const struct wish *wish, cudnnBackendDescriptor_t config,
                                 struct ls_cuda_dnn_plan *out)
{
    cudnnBackendDescriptor_t engine = NULL;
    bool is_allowed = false;
    int64_t bytes = 0, n;
    TRY(create(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine));
    enum ls_status status = look_at_engine(config, engine, wish, &is_allowed, &out->engine);
    destroy(&engine);
    TRY(status);
    if (!is_allowed || !is_engine_allowed(wish->op, out->engine) || !is_wished(wish, config, out->engine))
        return LS_UNSUPPORTED;
    TRY(create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &out->plan));
    TRY(set(out->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &d->dnn));
    TRY(set_one(out->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config));
    TRY(finalize(out->plan));
    TRY(LS_DNN(cudnnBackendGetAttribute(out->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n,
                                        &bytes)));
    out->workspace_bytes = (size_t)bytes;
    return out->workspace_bytes <= max_workspace ? LS_OK : LS_UNSUPPORTED;
}

/* The first configuration of a list that works. What fails to build is passed over, as cuDNN's own front end does. */
static enum ls_status try_list(struct ls_device *d, const struct wish *wish, cudnnBackendDescriptor_t heuristics,
                               cudnnBackendDescriptor_t configs[MAX_CONFIGS], struct ls_cuda_dnn_plan *out)
{
    int64_t n = 0;
    TRY(finalize(heuristics));
    TRY(LS_DNN(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                        MAX_CONFIGS, &n, configs)));
    for (int64_t i = 0; i < n; i++) {
        if (try_config(d, wish, configs[i], out) == LS_OK) return LS_OK;
        ls__cuda_dnn_release(out);
    }
    return LS_UNSUPPORTED;
}

static enum ls_status try_mode(struct ls_device *d, const struct wish *wish, const struct problem *p,
                               cudnnBackendHeurMode_t mode, struct ls_cuda_dnn_plan *out)
{
    cudnnBackendDescriptor_t heuristics = NULL, configs[MAX_CONFIGS] = {NULL};
    enum ls_status status = create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristics);
    if (status == LS_OK) status = set_one(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, p->graph);
    if (status == LS_OK) status = set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    for (int i = 0; i < MAX_CONFIGS && status == LS_OK; i++)
        status = create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[i]);
    if (status == LS_OK) status = try_list(d, wish, heuristics, configs, out);
    for (int i = 0; i < MAX_CONFIGS; i++) destroy(&configs[i]);
    destroy(&heuristics);
    return status;
}

enum ls_status ls__cuda_dnn_plan(struct ls_device *d, enum ls_cuda_conv_op op, const struct ls_cuda_conv *conv,
                                 const struct ls_cuda_conv_form *form, struct ls_cuda_dnn_plan *out)
{
    const struct ls_cuda_engine *known = ls__cuda_engine_of(op, conv, form);
    struct wish wish = {op, form->tensor_cores, form->tensor_cores && form->is_last, known};
    /* Mode B takes longer and chooses better where tensor cores meet few channels, worse where there are many. */
    const cudnnBackendHeurMode_t mode = form->tensor_cores && !form->is_last ? CUDNN_HEUR_MODE_B : CUDNN_HEUR_MODE_A;
    struct problem p = {0};
    *out = (struct ls_cuda_dnn_plan){0};
    TRY(ls__cuda_need_dnn(d));
    enum ls_status status = make_problem(d, op, conv, form, &p);
    if (status == LS_OK) status = try_mode(d, &wish, &p, mode, out);
    if (status != LS_OK && p.graph && known) status = try_mode(d, &wish, &p, CUDNN_HEUR_MODE_B, out);
    wish.engine = NULL;
    if (status != LS_OK && p.graph && known) status = try_mode(d, &wish, &p, mode, out);
    if (status != LS_OK && p.graph) status = try_mode(d, &wish, &p, CUDNN_HEUR_MODE_FALLBACK, out);
    wish.is_demanding = false;
    if (status != LS_OK && p.graph) status = try_mode(d, &wish, &p, mode, out);
    if (status != LS_OK && p.graph) status = try_mode(d, &wish, &p, CUDNN_HEUR_MODE_FALLBACK, out);
    problem_release(&p);
    if (status == LS_OK) return LS_OK;
    return ls_fail(LS_UNSUPPORTED, "cuDNN has no deterministic engine for it");
}

void ls__cuda_dnn_release(struct ls_cuda_dnn_plan *plan)
{
    destroy(&plan->plan);
}

enum ls_status ls__cuda_dnn_bind(const struct ls_cuda_conv_data *c, void *workspace, cudnnBackendDescriptor_t *pack)
{
    const int64_t uids[4] = {UID_SRC, UID_WEIGHTS, UID_DST, UID_BIAS}, n = c->bias ? 4 : 3;
    void *const data[4] = {c->src, c->weights, c->dst, c->bias};
    *pack = NULL;
    TRY(create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, pack));
    enum ls_status status = set(*pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, uids);
    if (status == LS_OK) status = set(*pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, data);
    if (status == LS_OK) status = set(*pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    if (status == LS_OK) status = finalize(*pack);
    if (status != LS_OK) destroy(pack);
    return status;
}
