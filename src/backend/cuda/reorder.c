/* reorder.c: a value from one layout to another; layout.c has the list. Copies in bf16 of what is stored in the same
 * order wait in the list of jobs; those of parameters are brought along by updates (copies.c).
 *
 * In:  src   Out: dst
 */
#include "backend/cuda/cuda.h"

#include <stdlib.h>

struct reorder_kernel {
    struct ls_cuda_kernel base;
    struct ls_cuda_place from, to;
    bool is_copy, is_narrowing; /* the same order, in the same type or in bf16 */
    bool is_blocked;            /* into blocks */
    enum ls_cuda_blocked what;
    enum ls_cuda_type block_type;
    struct ls_cuda_blocks blocks;
};

static bool is_same_order(const struct ls_cuda_place *a, const struct ls_cuda_place *b)
{
    const bool is_flat = a->c == 1 || a->hw == 1;
    return a->stored_c == b->stored_c && (a->is_last == b->is_last || is_flat);
}

static enum ls_status prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    struct reorder_kernel *k;
    TRY(ls__cuda_kernel_create(&k, sizeof *k, prep, &ls__cuda_reorder));
    const struct ls_shape *shape = &k->base.in[0];
    const int from = prep->in[0].id, to = prep->out[0].id;
    if (from >= LS_CUDA_BLOCKS) {
        free(k);
        return ls_fail(LS_UNSUPPORTED, "cuda: nothing comes back from layout %s", prep->in[0].tag);
    }
    k->is_blocked = ls__cuda_is_blocks(to, &k->what, &k->block_type);
    if (k->is_blocked) k->blocks = ls__cuda_blocks(to, shape);
    k->from = ls__cuda_place(from, shape);
    k->to = ls__cuda_place(to, shape);
    const bool is_same = !k->is_blocked && is_same_order(&k->from, &k->to);
    k->is_copy = is_same && k->from.type == k->to.type;
    k->is_narrowing = is_same && k->from.type == LS_CUDA_F32 && k->to.type == LS_CUDA_BF16;
    *out = &k->base.base;
    (*out)->in[0] = prep->in[0];
    (*out)->out[0] = ls__cuda_layout(to, shape);
    return LS_OK;
}

static int64_t n_elements(const struct reorder_kernel *k)
{
    return k->from.mb * k->from.stored_c * k->from.hw;
}

static enum ls_status bind(struct ls_bound *b)
{
    const struct reorder_kernel *k = (const struct reorder_kernel *)b->kernel;
    if (!k->is_narrowing) return LS_OK;
    return ls__cuda_copy_bind(k->base.device, b->in[0], b->out[0], n_elements(k), &b->is_followed);
}

static void unbind(struct ls_bound *b)
{
    if (b->is_followed) ls__cuda_copy_unbind(ls__cuda_kernel_of(b)->device, b->in[0], b->out[0]);
    b->is_followed = false;
}

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct reorder_kernel *k = (const struct reorder_kernel *)b->kernel;
    struct ls_device *d = k->base.device;
    TRY(ls__cuda_join(d));
    if (k->is_blocked)
        return LS_CUDA((k->what == LS_CUDA_BLOCKED_IMAGE ? ls__cuda_run_blocks_image : ls__cuda_run_blocks_weights)(
            ls__cuda_stream(d), b->in[0], k->from, b->out[0], k->block_type, k->blocks));
    if (k->is_copy)
        return LS_CUDA(cudaMemcpyAsync(b->out[0], b->in[0], k->base.base.in[0].bytes, cudaMemcpyDeviceToDevice,
                                       ls__cuda_stream(d)));
    if (k->is_narrowing) {
        const struct ls_cuda_job job = {
            .kind = LS_CUDA_JOB_NARROW, .n = n_elements(k), .src = b->in[0], .a = b->out[0]};
        return ls__cuda_job(d, &job);
    }
    return LS_CUDA(ls__cuda_run_reorder(ls__cuda_stream(d), b->in[0], k->from, b->out[0], k->to));
}

const struct ls_impl ls__cuda_reorder = {
    .name = "cuda",
    .op = LS_OP_REORDER,
    .prepare = prepare,
    .bind = bind,
    .unbind = unbind,
    .launch = launch,
};
