/* softmax_ce.c: softmax and cross entropy in one, with label smoothing, and the gradient of the mean loss.
 *
 * In:  logits [mb,c], labels i32 [mb], mix_labels i32 [mb]?, mix_shares [mb]?
 * Out: diff_logits [mb,c]?, stats [2]: sum of the losses, number right
 *
 * A label that is no class is a fault, which settle reports.
 */
#include "backend/cuda/cuda.h"

static enum ls_status prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__cuda_prepare(prep, out));
    struct ls_cuda_kernel *k = (struct ls_cuda_kernel *)*out;
    (*out)->scratch_bytes = 2 * (size_t)k->in[0].dims[0] * sizeof(double);
    const enum ls_status status = ls__cuda_watch(k);
    if (status != LS_OK) ls_kernel_destroy(out);
    return status;
}

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    const int64_t mb = k->in[0].dims[0];
    const struct ls_cuda_softmax a = {.mb = mb,
                                      .n = ls_shape_count(&k->in[0]) / mb,
                                      .n_valid = ctx->n_valid,
                                      .smoothing = k->attrs.label_smoothing,
                                      .grad_scale = ctx->grad_scale,
                                      .fault_id = k->fault_id};
    return LS_CUDA(ls__cuda_run_softmax_ce(ls__cuda_stream(k->device), b->in[0], b->in[1], b->in[2], b->in[3],
                                           b->out[0], b->out[1], b->scratch, k->device->fault, a));
}

const struct ls_impl ls__cuda_softmax_ce = {
    .name = "cuda",
    .op = LS_OP_SOFTMAX_CE,
    .prepare = prepare,
    .launch = launch,
    .release = ls__cuda_unwatch,
};
