/* dropout.c: elements set to zero with probability p, the others scaled by 1 / (1 - p). The masks are ref's.
 *
 * In:  src | diff_dst   (any shape, samples first)
 * Out: dst | diff_src
 */
#include "backend/cuda/cuda.h"

/* The same both ways: diff_src = diff_dst * mask. */
static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    const int64_t mb = k->in[0].dims[0];
    const struct ls_cuda_dropout d = {.seed = ctx->seed,
                                      .step = ctx->step,
                                      .mb = mb,
                                      .n = ls_shape_count(&k->in[0]) / mb,
                                      .layer = k->attrs.layer,
                                      .n_valid = ctx->n_valid,
                                      .p = k->attrs.p};
    return LS_CUDA(ls__cuda_run_dropout(k->device->stream, b->in[0], b->samples, b->out[0], d));
}

const struct ls_impl ls__cuda_dropout = {
    .name = "cuda",
    .op = LS_OP_DROPOUT,
    .prepare = ls__cuda_prepare_in_place,
    .launch = launch,
};

const struct ls_impl ls__cuda_dropout_bwd = {
    .name = "cuda",
    .op = LS_OP_DROPOUT_BWD,
    .prepare = ls__cuda_prepare_in_place,
    .launch = launch,
};
