/* norm.c: group norm and layer norm, and their gradients.
 *
 * In:  src [mb,c,h,w] or [mb,c]; gamma, beta [c], or of layer norm like a sample; diff_dst like src
 * Out: dst like src | diff_src, diff_gamma, diff_beta
 *
 * Which elements are a set is said in ref/norm.c.
 */
#include "backend/cuda/cuda.h"

static struct ls_cuda_sets sets_of(const struct ls_cuda_kernel *k)
{
    const enum ls_op op = k->base.impl->op;
    const struct ls_cuda_nchw n = ls__cuda_nchw(&k->in[0]);
    struct ls_cuda_sets s = {.is_last = k->is_last, .mb = n.mb, .c = n.c, .hw = n.hw, .groups = 1};
    s.eps = k->attrs.eps;
    s.n_params = ls_shape_count(&k->in[1]);
    if (op == LS_OP_GROUPNORM || op == LS_OP_GROUPNORM_BWD) {
        s.kind = LS_CUDA_SET_GROUP;
        s.groups = k->attrs.groups;
    } else {
        s.kind = s.n_params == n.c ? LS_CUDA_SET_PIXEL : LS_CUDA_SET_SAMPLE;
    }
    s.n = s.kind == LS_CUDA_SET_PIXEL ? n.mb * n.hw : n.mb * s.groups;
    s.count = n.mb * n.c * n.hw / s.n;
    return s;
}

static enum ls_status prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__cuda_prepare(prep, out));
    return ls__cuda_follow(prep, 0, (struct ls_cuda_kernel *)*out);
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    return LS_CUDA(
        ls__cuda_run_norm(ls__cuda_stream(k->device), k->type, b->in[0], b->in[1], b->in[2], b->out[0], sets_of(k)));
}

static enum ls_status prepare_bwd(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(prepare(prep, out));
    const struct ls_cuda_sets s = sets_of((const struct ls_cuda_kernel *)*out);
    (*out)->scratch_bytes = 2 * (size_t)s.n * sizeof(double);
    return LS_OK;
}

static enum ls_status launch_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    const struct ls_cuda_norm_bwd a = {.src = b->in[0],
                                       .gamma = b->in[1],
                                       .diff_dst = b->in[2],
                                       .diff_src = b->out[0],
                                       .diff_gamma = b->out[1],
                                       .diff_beta = b->out[2],
                                       .moments = b->scratch};
    return LS_CUDA(ls__cuda_run_norm_bwd(ls__cuda_stream(k->device), k->type, a, sets_of(k)));
}

#define NORM(OP, lower, prepare_, launch_)                                                                             \
    const struct ls_impl ls__cuda_##lower = {.name = "cuda", .op = LS_OP_##OP, .prepare = prepare_, .launch = launch_};

NORM(GROUPNORM, groupnorm, prepare, launch_forward)
NORM(GROUPNORM_BWD, groupnorm_bwd, prepare_bwd, launch_bwd)
NORM(LAYERNORM, layernorm, prepare, launch_forward)
NORM(LAYERNORM_BWD, layernorm_bwd, prepare_bwd, launch_bwd)
