/* batchnorm.c: normalisation per channel over the samples and pixels of the shard, for evaluation by given statistics,
 * and the gradient of the first.
 *
 * In:  src [mb,c,h,w] or [mb,c]; gamma, beta, mean, var [c]; dst, diff_dst like src
 * Out: dst like src, mean, var [c] (biased) | diff_src, diff_gamma, diff_beta
 *
 * The workspace keeps the statistics in double: f64 [3][c], mean, variance, gamma / std.
 */
#include "backend/cuda/cuda.h"

enum { N_STATS = 3, N_SLOPES = 2 };

static size_t channel_doubles(const struct ls_shape *s, int per_channel)
{
    return (size_t)(per_channel * ls__cuda_nchw(s).c) * sizeof(double);
}

static enum ls_status prepare_forward(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__cuda_prepare(prep, out));
    const struct ls_cuda_kernel *k = (struct ls_cuda_kernel *)*out;
    (*out)->out[3].bytes = channel_doubles(&k->in[0], N_STATS);
    (*out)->scratch_bytes = ls__cuda_channel_scratch(&k->in[0]);
    return LS_OK;
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    const struct ls_cuda_nchw n = ls__cuda_nchw(&k->in[0]);
    cudaStream_t stream = k->device->stream;
    TRY(LS_CUDA(ls__cuda_run_batchnorm_stats(stream, b->in[0], b->in[1], b->out[1], b->out[2], b->out[3], b->scratch, n,
                                             k->attrs.eps)));
    return LS_CUDA(ls__cuda_run_batchnorm_apply(stream, b->in[0], b->out[3], b->in[2], b->out[0], n, k->attrs.relu));
}

static enum ls_status prepare_eval(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__cuda_prepare_in_place(prep, out));
    (*out)->scratch_bytes = channel_doubles(&((struct ls_cuda_kernel *)*out)->in[0], N_STATS);
    return LS_OK;
}

static enum ls_status launch_eval(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    const struct ls_cuda_nchw n = ls__cuda_nchw(&k->in[0]);
    cudaStream_t stream = k->device->stream;
    TRY(LS_CUDA(ls__cuda_run_batchnorm_given(stream, b->in[1], b->in[3], b->in[4], b->scratch, n.c, k->attrs.eps)));
    return LS_CUDA(ls__cuda_run_batchnorm_apply(stream, b->in[0], b->scratch, b->in[2], b->out[0], n, k->attrs.relu));
}

static enum ls_status prepare_bwd(const struct ls_prep *prep, struct ls_kernel **out)
{
    if (!prep->forward || prep->forward->impl != &ls__cuda_batchnorm || prep->node->n_in < 7 || prep->node->in[6] < 0)
        return ls_fail(LS_UNSUPPORTED, "cuda: reads the workspace of its own batchnorm only");
    TRY(ls__cuda_prepare(prep, out));
    const struct ls_shape *src = &((struct ls_cuda_kernel *)*out)->in[0];
    (*out)->in[6] = prep->forward->out[3];
    (*out)->scratch_bytes = ls__cuda_channel_scratch(src) + channel_doubles(src, N_SLOPES);
    (*out)->may_alias = true;
    (*out)->alias_in = 5; /* diff_dst */
    return LS_OK;
}

static enum ls_status launch_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    const struct ls_cuda_batchnorm_bwd a = {
        .src = b->in[0],
        .dst = k->attrs.relu ? b->in[4] : NULL,
        .diff_dst = b->in[5],
        .stats = b->in[6],
        .diff_src = b->out[0],
        .diff_gamma = b->out[1],
        .diff_beta = b->out[2],
        .partial = b->scratch,
        .slopes = (double *)((char *)b->scratch + ls__cuda_channel_scratch(&k->in[0])),
        .eps = k->attrs.eps,
    };
    return LS_CUDA(ls__cuda_run_batchnorm_bwd(k->device->stream, a, ls__cuda_nchw(&k->in[0])));
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
