/* dropout.c: elements set to zero with probability p, the others scaled by 1 / (1 - p). The masks are ref's.
 *
 * In:  src | diff_dst   (any shape, samples first)
 * Out: dst | diff_src
 */
#include "backend/cuda/cuda.h"

/* The masks are keyed by places in plain order: rows only may be bf16. */
static enum ls_status prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__cuda_prepare_in_place(prep, out));
    struct ls_cuda_kernel *k = (struct ls_cuda_kernel *)*out;
    return k->in[0].n_dims == 2 ? ls__cuda_follow(prep, 0, k) : LS_OK;
}

/* The same both ways: diff_src = diff_dst * mask. */
static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    const int64_t mb = k->in[0].dims[0];
    const struct ls_cuda_dropout d = {.type = k->type,
                                      .seed = ctx->seed,
                                      .step = ctx->step,
                                      .mb = mb,
                                      .n = ls_shape_count(&k->in[0]) / mb,
                                      .layer = k->attrs.layer,
                                      .n_valid = ctx->n_valid,
                                      .p = k->attrs.p};
    return LS_CUDA(
        ls__cuda_run_dropout(ls__cuda_stream(k->device), b->in[0], b->samples, b->out[0], d, ls__cuda_now(k->device)));
}

const struct ls_impl ls__cuda_dropout = {
    .name = "cuda",
    .op = LS_OP_DROPOUT,
    .prepare = prepare,
    .launch = launch,
};

const struct ls_impl ls__cuda_dropout_bwd = {
    .name = "cuda",
    .op = LS_OP_DROPOUT_BWD,
    .prepare = prepare,
    .launch = launch,
};
