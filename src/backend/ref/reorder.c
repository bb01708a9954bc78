/* reorder.c: a copy. The reference backend knows the plain layout only, so there is nothing to reorder.
 *
 * In:  src   Out: dst
 */
#include "backend/ref/ref.h"

#include <string.h>

static enum ls_status prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    if (prep->in[0].id > LS_LAYOUT_PLAIN || prep->out[0].id > LS_LAYOUT_PLAIN)
        return ls_fail(LS_UNSUPPORTED, "ref: reorders plain to plain only, not %s to %s", prep->in[0].tag,
                       prep->out[0].tag);
    return ls__ref_prepare(prep, out);
}

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    memcpy(b->out[0], b->in[0], b->kernel->in[0].bytes);
    return LS_OK;
}

const struct ls_impl ls__ref_reorder = {
    .name = "ref",
    .op = LS_OP_REORDER,
    .prepare = prepare,
    .launch = launch,
};
