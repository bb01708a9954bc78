/* adamw.c: Adam with decoupled weight decay; ref/adamw.c has the formulas, and the bits are the same.
 *
 * In, changed in place:  param f32, sum i64 (zeroed for the next step), m f32, v f32
 */
#include "backend/cuda/cuda.h"
#include "backend/rates.h"

struct ls_cuda_adamw ls__cuda_rates(const struct ls_attrs *a, const struct ls_step_ctx *ctx)
{
    const struct ls_adamw_rates r = ls__adamw_rates(a, ctx);
    return (struct ls_cuda_adamw){.keep = r.keep,
                                  .beta2 = r.beta2,
                                  .one_minus_beta1 = r.one_minus_beta1,
                                  .one_minus_beta2 = r.one_minus_beta2,
                                  .step_size = r.step_size,
                                  .root_correction2 = r.root_correction2,
                                  .eps = r.eps};
}

/* The rates are made on the host, in double, whether they are recorded or not. */
static int rates_index(struct ls_device *d, const struct ls_attrs *a)
{
    for (int i = 0; i < d->n_rates; i++) {
        const struct ls_attrs *r = &d->rates[i];
        if (r->beta1 == a->beta1 && r->beta2 == a->beta2 && r->eps == a->eps && r->weight_decay == a->weight_decay &&
            r->lr_factor == a->lr_factor)
            return i;
    }
    if (d->n_rates == LS_CUDA_MAX_RATES) {
        d->is_unrecordable = true;
        return -1;
    }
    d->rates[d->n_rates] = *a;
    return d->n_rates++;
}

static enum ls_status prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    (void)rates_index(prep->device, &prep->node->attrs);
    return ls__cuda_prepare_update(prep, out);
}

static enum ls_status enqueue(const struct ls_bound *b, const struct ls_step_ctx *ctx, struct ls_cuda_range r)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    struct ls_cuda_job job = ls__cuda_update(b, r, LS_CUDA_JOB_ADAMW);
    job.clip = ctx->clip_scale;
    job.rates = rates_index(k->device, &k->attrs);
    job.of.adamw = ls__cuda_rates(&k->attrs, ctx);
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

const struct ls_impl ls__cuda_adamw = {
    .name = "cuda",
    .op = LS_OP_ADAMW,
    .prepare = prepare,
    .launch = launch,
    .update = update,
};
