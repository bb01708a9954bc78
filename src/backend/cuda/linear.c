/* linear.c: dst = src * weights^T + bias, and its two gradients, by cuBLASLt.
 *
 * In:  src [mb,ic], weights [oc,ic], bias [oc]?, diff_dst [mb,oc]
 * Out: dst [mb,oc] | diff_src [mb,ic] | diff_weights [oc,ic], diff_bias [oc]?
 *
 * cuBLASLt thinks in columns: a row-major [r,c] matrix is its c x r one. With W = ic x oc, S = ic x mb, D = oc x mb:
 *
 *     dst: D = W^T S        diff_src: S = W D        diff_weights: W = S D^T
 *
 * The algorithm is the first of the heuristics among those whose order of summation is fixed (no split along k but by
 * way of the workspace). prepare decides it; launch uses it as it is. float32 is without TF32 unless that was asked
 * for; with bf16 rows and weights are bf16, the logits and the gradient of the weights float32.
 */
#include "backend/cuda/cuda.h"

#include <stdio.h>

struct linear_kernel {
    struct ls_cuda_kernel base;
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algo;
    size_t workspace_bytes;
};

/* c = op(a) * op(b); each m x n of cuBLASLt's, without gaps. */
struct product {
    bool is_a_turned, is_b_turned;
    int64_t a[2], b[2], c[2];
    enum ls_cuda_type in, out; /* of a and b; of c */
};

static const struct linear_kernel *kernel_of(const struct ls_bound *b)
{
    return (const struct linear_kernel *)b->kernel;
}

static void release(struct ls_kernel *kernel)
{
    struct linear_kernel *k = (struct linear_kernel *)kernel;
    if (k->product) (void)cublasLtMatmulDescDestroy(k->product);
    if (k->a) (void)cublasLtMatrixLayoutDestroy(k->a);
    if (k->b) (void)cublasLtMatrixLayoutDestroy(k->b);
    if (k->c) (void)cublasLtMatrixLayoutDestroy(k->c);
}

static enum ls_status make_matrix(const int64_t dims[2], enum ls_cuda_type type, cublasLtMatrixLayout_t *out)
{
    const cudaDataType_t data = type == LS_CUDA_BF16 ? CUDA_R_16BF : CUDA_R_32F;
    return LS_BLAS(cublasLtMatrixLayoutCreate(out, data, (uint64_t)dims[0], (uint64_t)dims[1], dims[0]));
}

static enum ls_status describe(struct linear_kernel *k, const struct product *p)
{
    const cublasOperation_t a = p->is_a_turned ? CUBLAS_OP_T : CUBLAS_OP_N,
                            b = p->is_b_turned ? CUBLAS_OP_T : CUBLAS_OP_N;
    const bool is_exact = k->base.device->precision == LS_PRECISION_F32;
    const cublasComputeType_t compute = is_exact                ? CUBLAS_COMPUTE_32F_PEDANTIC
                                        : p->in == LS_CUDA_BF16 ? CUBLAS_COMPUTE_32F
                                                                : CUBLAS_COMPUTE_32F_FAST_TF32;
    TRY(LS_BLAS(cublasLtMatmulDescCreate(&k->product, compute, CUDA_R_32F)));
    TRY(LS_BLAS(cublasLtMatmulDescSetAttribute(k->product, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a)));
    TRY(LS_BLAS(cublasLtMatmulDescSetAttribute(k->product, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b)));
    TRY(make_matrix(p->a, p->in, &k->a));
    TRY(make_matrix(p->b, p->in, &k->b));
    return make_matrix(p->c, p->out, &k->c);
}

static enum ls_status set_limits(cublasLtMatmulPreference_t limits)
{
    const uint64_t workspace = (uint64_t)32 << 20;
    const uint32_t split = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, alignment = 16; /* slots have 64 */
    TRY(LS_BLAS(cublasLtMatmulPreferenceSetAttribute(limits, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                                     sizeof workspace)));
    TRY(LS_BLAS(cublasLtMatmulPreferenceSetAttribute(limits, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &split,
                                                     sizeof split)));
    static const cublasLtMatmulPreferenceAttributes_t alignments[4] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    for (int i = 0; i < 4; i++)
        TRY(LS_BLAS(cublasLtMatmulPreferenceSetAttribute(limits, alignments[i], &alignment, sizeof alignment)));
    return LS_OK;
}

static enum ls_status choose(struct linear_kernel *k)
{
    cublasLtMatmulPreference_t limits = NULL;
    cublasLtMatmulHeuristicResult_t best;
    int n = 0;
    TRY(LS_BLAS(cublasLtMatmulPreferenceCreate(&limits)));
    enum ls_status status = set_limits(limits);
    if (status == LS_OK)
        status = LS_BLAS(cublasLtMatmulAlgoGetHeuristic(k->base.device->blas, k->product, k->a, k->b, k->c, k->c,
                                                        limits, 1, &best, &n));
    (void)cublasLtMatmulPreferenceDestroy(limits);
    TRY(status);
    if (n == 0) return ls_fail(LS_UNSUPPORTED, "cuBLASLt has no algorithm for it");
    k->algo = best.algo;
    k->workspace_bytes = best.workspaceSize;
    return LS_OK;
}

static enum ls_status prepare(const struct ls_prep *prep, const struct ls_impl *impl, const struct product *p,
                              struct ls_kernel **out)
{
    struct linear_kernel *k;
    TRY(ls__cuda_need_blas(prep->device));
    TRY(ls__cuda_kernel_create(&k, sizeof *k, prep, impl));
    *out = &k->base.base;
    enum ls_status status = describe(k, p);
    if (status == LS_OK) status = choose(k);
    if (status != LS_OK) ls_kernel_destroy(out);
    if (status == LS_OK) (*out)->scratch_bytes = ls__cuda_workspace_bytes(k->workspace_bytes);
    return status;
}

static int64_t rows_of(const struct ls_prep *prep, int value)
{
    return prep->graph->values[value].shape.dims[0];
}

static bool is_bf16(const struct ls_prep *prep)
{
    const struct ls_node *n = prep->node;
    const bool is_rows =
        prep->graph->values[n->in[0]].shape.n_dims == 2 && prep->graph->values[n->out[0]].shape.n_dims == 2;
    return prep->device->precision == LS_PRECISION_BF16 && is_rows;
}

/* The layouts of a product in bf16; what is not its in[0] or in[1] or out[0] is plain float32. */
static void set_bf16(struct ls_kernel *kernel, bool is_out_bf16)
{
    struct ls_cuda_kernel *k = (struct ls_cuda_kernel *)kernel;
    k->type = is_out_bf16 ? LS_CUDA_BF16 : LS_CUDA_F32;
    k->is_last = true;
    for (int i = 0; i < 2; i++) {
        kernel->in[i] = ls__cuda_layout(LS_CUDA_LAST_BF16, &k->in[i]);
        kernel->wide[i] = ls_layout_plain(&k->in[i], LS_F32);
    }
    if (is_out_bf16) kernel->out[0] = ls__cuda_layout(LS_CUDA_LAST_BF16, &k->out[0]);
}

/* Images are rows of all their pixels. */
static int64_t columns_of(const struct ls_prep *prep, int value)
{
    return ls_shape_count(&prep->graph->values[value].shape) / rows_of(prep, value);
}

static enum ls_status prepare_forward(const struct ls_prep *prep, struct ls_kernel **out)
{
    const struct ls_node *n = prep->node;
    const int64_t mb = rows_of(prep, n->in[0]), ic = columns_of(prep, n->in[0]), oc = rows_of(prep, n->in[1]);
    struct product p = {.is_a_turned = true, .a = {ic, oc}, .b = {ic, mb}, .c = {oc, mb}};
    const bool is_logits = n->out[0] == prep->graph->logits;
    if (is_bf16(prep)) p.in = LS_CUDA_BF16;
    if (is_bf16(prep) && !is_logits) p.out = LS_CUDA_BF16;
    TRY(prepare(prep, &ls__cuda_linear, &p, out));
    if (is_bf16(prep)) set_bf16(*out, !is_logits);
    return LS_OK;
}

static enum ls_status prepare_bwd_data(const struct ls_prep *prep, struct ls_kernel **out)
{
    const struct ls_node *n = prep->node;
    const int64_t mb = rows_of(prep, n->in[0]), ic = columns_of(prep, n->out[0]), oc = columns_of(prep, n->in[0]);
    struct product p = {.a = {ic, oc}, .b = {oc, mb}, .c = {ic, mb}};
    if (is_bf16(prep)) p.in = p.out = LS_CUDA_BF16;
    TRY(prepare(prep, &ls__cuda_linear_bwd_data, &p, out));
    if (is_bf16(prep)) set_bf16(*out, true);
    return LS_OK;
}

static enum ls_status prepare_bwd_weights(const struct ls_prep *prep, struct ls_kernel **out)
{
    const struct ls_node *n = prep->node;
    const int64_t mb = rows_of(prep, n->in[1]), ic = columns_of(prep, n->in[0]), oc = columns_of(prep, n->in[1]);
    struct product p = {.is_b_turned = true, .a = {ic, mb}, .b = {oc, mb}, .c = {ic, oc}};
    if (is_bf16(prep)) p.in = LS_CUDA_BF16;
    TRY(prepare(prep, &ls__cuda_linear_bwd_weights, &p, out));
    struct ls_cuda_kernel *k = (struct ls_cuda_kernel *)*out;
    if (is_bf16(prep)) set_bf16(*out, false);
    if (is_bf16(prep)) k->type = LS_CUDA_BF16; /* of diff_dst, for the bias */
    const bool has_bias = n->n_out > 1 && n->out[1] >= 0;
    const enum ls_status status = has_bias ? ls__cuda_bias_scratch(k, &k->in[1]) : LS_OK;
    if (status != LS_OK) ls_kernel_destroy(out);
    return status;
}

static enum ls_status multiply(const struct ls_bound *bound, const void *a, const void *b, void *c)
{
    const struct linear_kernel *k = kernel_of(bound);
    const float one = 1.0f, zero = 0.0f;
    return LS_BLAS(cublasLtMatmul(k->base.device->blas, k->product, &one, a, k->a, b, k->b, &zero, c, k->c, c, k->c,
                                  &k->algo, ls__cuda_workspace(bound->scratch), k->workspace_bytes,
                                  ls__cuda_stream(k->base.device)));
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    TRY(multiply(b, b->in[1], b->in[0], b->out[0]));
    return ls__cuda_finish(&kernel_of(b)->base, b->in[2], b->out[0]);
}

static enum ls_status launch_bwd_data(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    return multiply(b, b->in[1], b->in[0], b->out[0]);
}

static enum ls_status launch_bwd_weights(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    TRY(multiply(b, b->in[0], b->in[1], b->out[0]));
    return b->out[1] ? ls__cuda_bias_sums(ls__cuda_stream(kernel_of(b)->base.device), b, &kernel_of(b)->base.in[1],
                                          b->in[1], b->out[1])
                     : LS_OK;
}

const struct ls_impl ls__cuda_linear = {
    .name = "cublaslt",
    .op = LS_OP_LINEAR,
    .prepare = prepare_forward,
    .launch = launch_forward,
    .release = release,
};

const struct ls_impl ls__cuda_linear_bwd_data = {
    .name = "cublaslt",
    .op = LS_OP_LINEAR_BWD_DATA,
    .prepare = prepare_bwd_data,
    .launch = launch_bwd_data,
    .release = release,
};

const struct ls_impl ls__cuda_linear_bwd_weights = {
    .name = "cublaslt",
    .op = LS_OP_LINEAR_BWD_WEIGHTS,
    .prepare = prepare_bwd_weights,
    .launch = launch_bwd_weights,
    .release = release,
};
