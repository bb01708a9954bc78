/* update.c: SGD, AdamW and running statistics by vectors (sums.h), in the layout of the parameter, with ref's bits.
 * What they compute is told in ref/sgd.c, ref/adamw.c and ref/running_stats.c.
 */
#include "backend/cpu/impls.h"
#include "backend/cpu/sums.h"

struct update_kernel {
    struct ls_kernel base;
    const struct cpu_sums *sums;
    struct ls_attrs attrs;
};

static enum ls_status prepare_as(const struct ls_impl *impl, const struct ls_prep *prep, struct ls_kernel **out)
{
    struct update_kernel *k;
    TRY(ls_kernel_create(&k, sizeof *k, prep, impl));
    k->sums = ls__cpu_sums();
    k->attrs = prep->node->attrs;
    *out = &k->base;
    if (prep->in[0].id <= LS_LAYOUT_PLAIN) return LS_OK;
    for (int i = 0; i < prep->node->n_in; i++) {
        if (prep->node->in[i] < 0) continue;
        k->base.in[i] = prep->in[0];
        if (i == 1) k->base.in[i].bytes = prep->in[0].bytes / ls_dtype_bytes(LS_F32) * ls_dtype_bytes(LS_I64);
    }
    return LS_OK;
}

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    int64_t begin, end;
    ls_part_range((int64_t)(b->kernel->in[0].bytes / sizeof(float)), ctx->part, ctx->n_parts, &begin, &end);
    b->kernel->impl->update(b, ctx, begin, end - begin, (int64_t *)b->in[1] + begin);
    return LS_OK;
}

static const struct update_kernel *kernel_of(const struct ls_bound *b)
{
    return (const struct update_kernel *)b->kernel;
}

static float *at(const struct ls_bound *b, int input, int64_t begin)
{
    return b->in[input] ? (float *)b->in[input] + begin : NULL;
}

static void sgd(const struct ls_bound *b, const struct ls_step_ctx *ctx, int64_t begin, int64_t n, int64_t *sums)
{
    const struct update_kernel *k = kernel_of(b);
    const struct ls_sgd_rates r = ls__sgd_rates(&k->attrs, ctx);
    k->sums->sgd(at(b, 0, begin), sums, at(b, 2, begin), n, &r, k->attrs.nesterov);
}

static void adamw(const struct ls_bound *b, const struct ls_step_ctx *ctx, int64_t begin, int64_t n, int64_t *sums)
{
    const struct update_kernel *k = kernel_of(b);
    const struct ls_adamw_rates r = ls__adamw_rates(&k->attrs, ctx);
    k->sums->adamw(at(b, 0, begin), sums, at(b, 2, begin), at(b, 3, begin), n, &r);
}

static void running_stats(const struct ls_bound *b, const struct ls_step_ctx *ctx, int64_t begin, int64_t n,
                          int64_t *sums)
{
    const struct update_kernel *k = kernel_of(b);
    k->sums->running_stats(at(b, 0, begin), sums, n, ls__update_unit(&k->attrs), k->attrs.momentum);
}

static enum ls_status prepare_sgd(const struct ls_prep *prep, struct ls_kernel **out)
{
    return prepare_as(&ls__cpu_sgd, prep, out);
}

static enum ls_status prepare_adamw(const struct ls_prep *prep, struct ls_kernel **out)
{
    return prepare_as(&ls__cpu_adamw, prep, out);
}

static enum ls_status prepare_running_stats(const struct ls_prep *prep, struct ls_kernel **out)
{
    return prepare_as(&ls__cpu_running_stats, prep, out);
}

const struct ls_impl ls__cpu_sgd = {
    .name = "cpu", .op = LS_OP_SGD, .prepare = prepare_sgd, .launch = launch, .update = sgd};
const struct ls_impl ls__cpu_adamw = {
    .name = "cpu", .op = LS_OP_ADAMW, .prepare = prepare_adamw, .launch = launch, .update = adamw};
const struct ls_impl ls__cpu_running_stats = {.name = "cpu",
                                              .op = LS_OP_RUNNING_STATS,
                                              .prepare = prepare_running_stats,
                                              .launch = launch,
                                              .update = running_stats};
