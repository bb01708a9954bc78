/* bias.c: a number per channel added, and the gradient of those numbers.
 *
 * In:  src [mb,c,h,w] or [mb,c], bias [c] | diff_dst like src
 * Out: dst like src | diff_bias [c]
 */
#include "backend/cuda/cuda.h"

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    cudaStream_t stream = ls__cuda_stream(k->device);
    if (k->is_last)
        return LS_CUDA(
            ls__cuda_run_last_bias(stream, k->type, b->in[0], b->in[1], b->out[0], ls__cuda_rows(&k->in[0]), false));
    return LS_CUDA(ls__cuda_run_bias(stream, b->in[0], b->in[1], b->out[0], ls__cuda_nchw(&k->in[0]), false));
}

static enum ls_status prepare_bwd(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__cuda_prepare(prep, out));
    struct ls_cuda_kernel *k = (struct ls_cuda_kernel *)*out;
    enum ls_status status = ls__cuda_follow(prep, 0, k);
    if (status == LS_OK) status = ls__cuda_bias_scratch(k, &k->in[0]);
    if (status != LS_OK) ls_kernel_destroy(out);
    return status;
}

static enum ls_status launch_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    return ls__cuda_bias_sums(ls__cuda_stream(ls__cuda_kernel_of(b)->device), b, &ls__cuda_kernel_of(b)->in[0],
                              b->in[0], b->out[0]);
}

const struct ls_impl ls__cuda_bias = {
    .name = "cuda",
    .op = LS_OP_BIAS,
    .prepare = ls__cuda_prepare_following,
    .launch = launch_forward,
};

const struct ls_impl ls__cuda_bias_bwd = {
    .name = "cuda",
    .op = LS_OP_BIAS_BWD,
    .prepare = prepare_bwd,
    .launch = launch_bwd,
};
