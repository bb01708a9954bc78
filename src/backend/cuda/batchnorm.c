/* batchnorm.c: normalisation per channel over the samples and pixels of the shard, for evaluation by given statistics,
 * and the gradient of the first.
 *
 * In:  src [mb,c,h,w] or [mb,c]; gamma, beta, mean, var [c]; other?, dst, diff_dst, diff_more? like src
 * Out: dst like src, mean, var [c] (biased) | diff_src, diff_gamma, diff_beta, diff_other?
 *
 * The workspace keeps the statistics in double: f64 [3][c], mean, variance, gamma / std; with channels last in float:
 * f32 [3][c], mean, 1 / std, gamma / std, and behind them relu's mask, a bit per element: there backward does not read
 * dst.
 */
#include "backend/cuda/cuda.h"

enum { N_STATS = 3, N_SLOPES = 2 }; /* f64 [3][c] is room enough for f32 [3][c] */

static size_t channel_doubles(const struct ls_shape *s, int per_channel)
{
    return (size_t)(per_channel * ls__cuda_nchw(s).c) * sizeof(double);
}

/* Layouts and the scratch of the sums. */
static enum ls_status finish_prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    struct ls_cuda_kernel *k = (struct ls_cuda_kernel *)*out;
    const enum ls_status status = ls__cuda_follow(prep, 0, k);
    if (status != LS_OK)
        ls_kernel_destroy(out);
    else
        (*out)->scratch_bytes =
            k->is_last ? ls__cuda_last_partial_bytes(ls__cuda_rows(&k->in[0])) : ls__cuda_channel_scratch(&k->in[0]);
    return status;
}

static enum ls_status prepare_forward(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__cuda_prepare(prep, out));
    TRY(finish_prepare(prep, out));
    const struct ls_cuda_kernel *k = (struct ls_cuda_kernel *)*out;
    (*out)->out[3].bytes = channel_doubles(&k->in[0], N_STATS);
    if (k->is_last && k->attrs.relu)
        (*out)->out[3].bytes += ls__cuda_last_mask_bytes(k->type, ls__cuda_rows(&k->in[0]));
    return LS_OK;
}

static uint8_t *mask_in(const struct ls_cuda_kernel *k, void *workspace)
{
    return k->attrs.relu ? (uint8_t *)workspace + channel_doubles(&k->in[0], N_STATS) : NULL;
}

static enum ls_status launch_last(const struct ls_bound *b)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    const struct ls_cuda_last_norm a = {.src = b->in[0],
                                        .gamma = b->in[1],
                                        .beta = b->in[2],
                                        .other = b->in[3],
                                        .mean = b->out[1],
                                        .var = b->out[2],
                                        .stats = b->out[3],
                                        .mask = mask_in(k, b->out[3]),
                                        .partial = b->scratch,
                                        .dst = b->out[0],
                                        .eps = k->attrs.eps,
                                        .relu = k->attrs.relu};
    return LS_CUDA(ls__cuda_run_last_norm(ls__cuda_stream(k->device), k->type, a, ls__cuda_rows(&k->in[0])));
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    const struct ls_cuda_nchw n = ls__cuda_nchw(&k->in[0]);
    cudaStream_t stream = ls__cuda_stream(k->device);
    const void *other = b->in[3];
    if (k->is_last) return launch_last(b);
    TRY(LS_CUDA(ls__cuda_run_batchnorm_stats(stream, b->in[0], b->in[1], b->out[1], b->out[2], b->out[3], b->scratch, n,
                                             k->attrs.eps)));
    TRY(LS_CUDA(
        ls__cuda_run_batchnorm_apply(stream, b->in[0], b->out[3], b->in[2], b->out[0], n, k->attrs.relu && !other)));
    if (!other) return LS_OK;
    return LS_CUDA(
        ls__cuda_run_add(stream, k->type, b->out[0], other, b->out[0], ls_shape_count(&k->in[0]), k->attrs.relu));
}

static enum ls_status prepare_eval(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__cuda_prepare_following(prep, out));
    (*out)->scratch_bytes = channel_doubles(&((struct ls_cuda_kernel *)*out)->in[0], N_STATS);
    return LS_OK;
}

static enum ls_status launch_last_eval(const struct ls_bound *b)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    const struct ls_cuda_last_norm a = {.src = b->in[0],
                                        .gamma = b->in[1],
                                        .beta = b->in[2],
                                        .mean = b->in[3],
                                        .var = b->in[4],
                                        .is_given = true,
                                        .dst = b->out[0],
                                        .eps = k->attrs.eps,
                                        .relu = k->attrs.relu};
    return LS_CUDA(ls__cuda_run_last_norm(ls__cuda_stream(k->device), k->type, a, ls__cuda_rows(&k->in[0])));
}

static enum ls_status launch_eval(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    const struct ls_cuda_nchw n = ls__cuda_nchw(&k->in[0]);
    cudaStream_t stream = ls__cuda_stream(k->device);
    if (k->is_last) return launch_last_eval(b);
    TRY(LS_CUDA(ls__cuda_run_batchnorm_given(stream, b->in[1], b->in[3], b->in[4], b->scratch, n.c, k->attrs.eps)));
    return LS_CUDA(ls__cuda_run_batchnorm_apply(stream, b->in[0], b->scratch, b->in[2], b->out[0], n, k->attrs.relu));
}

static enum ls_status prepare_bwd(const struct ls_prep *prep, struct ls_kernel **out)
{
    if (!prep->forward || prep->forward->impl != &ls__cuda_batchnorm || prep->node->n_in < 7 || prep->node->in[6] < 0)
        return ls_fail(LS_UNSUPPORTED, "cuda: reads the workspace of its own batchnorm only");
    TRY(ls__cuda_prepare(prep, out));
    (*out)->in[6] = prep->forward->out[3];
    (*out)->may_alias = true;
    (*out)->alias_in = 5; /* diff_dst */
    /* src lies as forward had it, or forward would have asked for another */
    TRY(finish_prepare(prep, out));
    (*out)->scratch_bytes += channel_doubles(&((struct ls_cuda_kernel *)*out)->in[0], N_SLOPES);
    return LS_OK;
}

static enum ls_status launch_last_bwd(const struct ls_bound *b)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    const struct ls_cuda_last_norm_bwd a = {.src = b->in[0],
                                            .diff_dst = b->in[5],
                                            .diff_more = b->in[7],
                                            .stats = b->in[6],
                                            .mask = mask_in(k, b->in[6]),
                                            .partial = b->scratch,
                                            .diff_src = b->out[0],
                                            .diff_gamma = b->out[1],
                                            .diff_beta = b->out[2],
                                            .diff_other = b->out[3]};
    return LS_CUDA(ls__cuda_run_last_norm_bwd(ls__cuda_stream(k->device), k->type, a, ls__cuda_rows(&k->in[0])));
}

/* Both parts of diff_dst, behind the relu. */
static enum ls_status make_diff_other(const struct ls_bound *b, cudaStream_t stream)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    const int64_t n = ls_shape_count(&k->in[0]);
    const void *diff = b->in[5];
    if (b->in[7]) {
        TRY(LS_CUDA(ls__cuda_run_add(stream, k->type, diff, b->in[7], b->out[3], n, false)));
        diff = b->out[3];
    }
    if (k->attrs.relu) return LS_CUDA(ls__cuda_run_relu_bwd(stream, k->type, b->in[4], diff, b->out[3], n));
    if (diff == b->out[3]) return LS_OK;
    return LS_CUDA(cudaMemcpyAsync(b->out[3], diff, (size_t)n * sizeof(float), cudaMemcpyDeviceToDevice, stream));
}

static enum ls_status launch_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    cudaStream_t stream = ls__cuda_stream(k->device);
    if (k->is_last) return launch_last_bwd(b);
    if (b->out[3]) TRY(make_diff_other(b, stream));
    const struct ls_cuda_batchnorm_bwd a = {
        .src = b->in[0],
        .dst = k->attrs.relu && !b->out[3] ? b->in[4] : NULL,
        .diff_dst = b->out[3] ? b->out[3] : b->in[5],
        .stats = b->in[6],
        .diff_src = b->out[0],
        .diff_gamma = b->out[1],
        .diff_beta = b->out[2],
        .partial = b->scratch,
        .slopes = (double *)((char *)b->scratch + ls__cuda_channel_scratch(&k->in[0])),
        .eps = k->attrs.eps,
    };
    return LS_CUDA(ls__cuda_run_batchnorm_bwd(stream, a, ls__cuda_nchw(&k->in[0])));
}

const struct ls_impl ls__cuda_batchnorm = {
    .name = "cuda",
    .op = LS_OP_BATCHNORM,
    .prepare = prepare_forward,
    .launch = launch_forward,
};

const struct ls_impl ls__cuda_batchnorm_eval = {
    .name = "cuda",
    .op = LS_OP_BATCHNORM_EVAL,
    .prepare = prepare_eval,
    .launch = launch_eval,
};

const struct ls_impl ls__cuda_batchnorm_bwd = {
    .name = "cuda",
    .op = LS_OP_BATCHNORM_BWD,
    .prepare = prepare_bwd,
    .launch = launch_bwd,
};
