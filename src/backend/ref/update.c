/* update.c: see update.h. */
#include "backend/ref/update.h"

#include <math.h>

enum ls_status ls__ref_prepare_update(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__ref_prepare(prep, out));
    if (prep->in[0].id <= LS_LAYOUT_PLAIN) return LS_OK;
    for (int i = 0; i < prep->node->n_in; i++)
        if (prep->node->in[i] >= 0) (*out)->in[i] = ls__ref_layout_like(prep->in[0], LS_F32, i == 1 ? LS_I64 : LS_F32);
    return LS_OK;
}

struct ls_ref_update ls__ref_update_of(const struct ls_ref_kernel *k, const struct ls_step_ctx *ctx)
{
    struct ls_ref_update u;
    int64_t end;
    ls_part_range((int64_t)(k->base.in[0].bytes / sizeof(float)), ctx->part, ctx->n_parts, &u.begin, &end);
    u.n = end - u.begin;
    u.unit = ldexp(1.0, -(k->attrs.scale_log2 != 0 ? k->attrs.scale_log2 : LS_SCALE_GRAD));
    return u;
}
