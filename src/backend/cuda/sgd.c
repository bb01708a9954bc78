/* sgd.c: stochastic gradient descent with momentum; ref/sgd.c has the formulas, and the bits are the same.
 *
 * In, changed in place:  param f32, sum i64 (zeroed for the next step), momentum f32?
 */
#include "backend/cuda/cuda.h"
#include "backend/rates.h"

#include <math.h>

/* 2^-scale_log2; without a scale LS_SCALE_GRAD's */
static double update_unit(const struct ls_cuda_kernel *k)
{
    return ldexp(1.0, -(k->attrs.scale_log2 != 0 ? k->attrs.scale_log2 : LS_SCALE_GRAD));
}

struct ls_cuda_job ls__cuda_update(const struct ls_bound *b, struct ls_cuda_range r, enum ls_cuda_job_kind kind)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    struct ls_cuda_job job = {.kind = kind, .n = r.n, .unit = update_unit(k), .clip = 1.0f};
    job.a = (float *)b->in[0] + r.begin;
    job.sum = (int64_t *)b->in[1] + r.begin;
    if (b->in[2]) job.b = (float *)b->in[2] + r.begin;
    if (b->in[3]) job.c = (float *)b->in[3] + r.begin;
    uint16_t *copy = ls__cuda_copy_of(k->device, b->in[0], ls_shape_count(&k->in[0]));
    if (copy) job.copy = copy + r.begin;
    return job;
}

enum ls_status ls__cuda_prepare_update(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__cuda_prepare(prep, out));
    for (int i = 0; i < prep->node->n_in; i++)
        if (prep->node->in[i] >= 0) (*out)->in[i] = prep->in[i]; /* element by element, in whatever order */
    return LS_OK;
}

static enum ls_status enqueue(const struct ls_bound *b, const struct ls_step_ctx *ctx, struct ls_cuda_range r)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    struct ls_cuda_job job = ls__cuda_update(b, r, LS_CUDA_JOB_SGD);
    job.clip = ctx->clip_scale;
    job.of.sgd = (struct ls_cuda_sgd){.decay = k->attrs.weight_decay,
                                      .momentum = k->attrs.momentum,
                                      .lr = ls__update_lr(&k->attrs, ctx),
                                      .nesterov = k->attrs.nesterov,
                                      .lr_factor = k->attrs.lr_factor};
    return ls__cuda_job(k->device, &job);
}

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    return enqueue(b, ctx, ls__cuda_part(ls__cuda_kernel_of(b), ctx));
}

static void update(const struct ls_bound *b, const struct ls_step_ctx *ctx, int64_t begin, int64_t n, int64_t *sums)
{
    ls__cuda_keep_failure(ls__cuda_kernel_of(b)->device, enqueue(b, ctx, (struct ls_cuda_range){begin, n}));
}

const struct ls_impl ls__cuda_sgd = {
    .name = "cuda",
    .op = LS_OP_SGD,
    .prepare = ls__cuda_prepare_update,
    .launch = launch,
    .update = update,
};
