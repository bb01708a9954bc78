/* keep.c: a shard's rows go to their place in the batch, for linear_sum. */
#include "backend/ref/ref.h"

#include <string.h>

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const size_t row = (size_t)k->in[0].dims[1];
    memcpy((float *)b->out[0] + (size_t)ctx->first * row, b->in[0], (size_t)ctx->n_valid * row * sizeof(float));
    return LS_OK;
}

const struct ls_impl ls__ref_keep = {
    .name = "ref",
    .op = LS_OP_KEEP,
    .prepare = ls__ref_prepare,
    .launch = launch,
};
