/* reshape.c: the same elements in the same row-major order under another shape: nothing to compute.
 *
 * In:  src   Out: dst, which is src in memory
 *
 * Where there is one pixel only, its channels lie the same in every layout; else it takes the plain one.
 */
#include "backend/cuda/cuda.h"

static enum ls_status prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__cuda_prepare(prep, out));
    struct ls_cuda_kernel *k = (struct ls_cuda_kernel *)*out;
    const bool is_flat = ls__cuda_nchw(&k->in[0]).hw == 1 && ls__cuda_nchw(&k->out[0]).hw == 1;
    (*out)->is_view = true;
    if (!is_flat || prep->in[0].id != LS_CUDA_LAST_BF16) return LS_OK;
    (*out)->in[0] = prep->in[0];
    (*out)->out[0] = ls__cuda_layout(LS_CUDA_LAST_BF16, &k->out[0]);
    return LS_OK;
}

const struct ls_impl ls__cuda_reshape = {
    .name = "cuda",
    .op = LS_OP_RESHAPE,
    .prepare = prepare,
};
