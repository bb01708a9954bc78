/* lrn.c: local response normalisation across channels, and its gradient; ref/lrn.c has the formulas.
 *
 * In:  src [mb,c,h,w] | src, diff_dst, workspace?
 * Out: dst, workspace? | diff_src
 */
#include "backend/cuda/cuda.h"

static enum ls_status prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__cuda_prepare(prep, out));
    if (prep->node->op == LS_OP_LRN) {
        (*out)->out[1].bytes = 0; /* workspace: none */
        return LS_OK;
    }
    (*out)->scratch_bytes = 2 * (*out)->in[0].bytes;
    if (prep->node->n_in > 2 && prep->forward) (*out)->in[2] = prep->forward->out[1]; /* and not read */
    return LS_OK;
}

static struct ls_cuda_lrn lrn_of(const struct ls_attrs *a)
{
    return (struct ls_cuda_lrn){a->size, a->alpha, a->beta, a->k};
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    return LS_CUDA(
        ls__cuda_run_lrn(ls__cuda_stream(k->device), b->in[0], b->out[0], ls__cuda_nchw(&k->in[0]), lrn_of(&k->attrs)));
}

static enum ls_status launch_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    float *power = b->scratch, *t = power + ls_shape_count(&k->in[0]);
    return LS_CUDA(ls__cuda_run_lrn_bwd(ls__cuda_stream(k->device), b->in[0], b->in[1], b->out[0], power, t,
                                        ls__cuda_nchw(&k->in[0]), lrn_of(&k->attrs)));
}

const struct ls_impl ls__cuda_lrn = {
    .name = "cuda",
    .op = LS_OP_LRN,
    .prepare = prepare,
    .launch = launch_forward,
};

const struct ls_impl ls__cuda_lrn_bwd = {
    .name = "cuda",
    .op = LS_OP_LRN_BWD,
    .prepare = prepare,
    .launch = launch_bwd,
};
