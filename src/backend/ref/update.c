/* update.c: what the kernels of updates share: prepare, the unit of a sum, launch over one part. */
#include "backend/ref/update.h"

enum ls_status ls__ref_prepare_update(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__ref_prepare(prep, out));
    if (prep->in[0].id <= LS_LAYOUT_PLAIN) return LS_OK;
    for (int i = 0; i < prep->node->n_in; i++)
        if (prep->node->in[i] >= 0) (*out)->in[i] = ls__ref_layout_like(prep->in[0], LS_F32, i == 1 ? LS_I64 : LS_F32);
    return LS_OK;
}

enum ls_status ls__ref_launch_update(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    int64_t begin, end;
    ls_part_range((int64_t)(b->kernel->in[0].bytes / sizeof(float)), ctx->part, ctx->n_parts, &begin, &end);
    b->kernel->impl->update(b, ctx, begin, end - begin, (int64_t *)b->in[1] + begin);
    return LS_OK;
}
