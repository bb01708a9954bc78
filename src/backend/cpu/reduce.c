/* reduce.c: a shard's value leaves it: sum += round(src * factor * 2^scale_log2), in 64-bit fixed point; ref/reduce.c
 * says what that means. Here by vectors (sums.h), in whatever layout the sum has, with ref's bits.
 */
#include "backend/cpu/fixed.h"
#include "backend/cpu/impls.h"
#include "backend/cpu/sums.h"

#include <stdio.h>

struct reduce_kernel {
    struct ls_kernel base;
    const struct cpu_sums *sums;
    double whole; /* factor of a shard that is the whole batch */
    bool by_share;
    char name[64];
};

static struct ls_layout with_type(struct ls_layout like, enum ls_dtype from, enum ls_dtype to)
{
    like.bytes = like.bytes / ls_dtype_bytes(from) * ls_dtype_bytes(to);
    return like;
}

static enum ls_status prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    const struct ls_attrs *a = &prep->node->attrs;
    struct reduce_kernel *k;
    if (a->float_sum) return ls_fail(LS_UNSUPPORTED, "sums in float32 are ref's");
    TRY(ls_kernel_create(&k, sizeof *k, prep, &ls__cpu_reduce));
    k->sums = ls__cpu_sums();
    k->whole = ldexp(a->alpha != 0.0f ? (double)a->alpha : 1.0, a->scale_log2);
    k->by_share = a->by_share;
    snprintf(k->name, sizeof k->name, "%s", prep->node->name ? prep->node->name : "reduce");
    *out = &k->base;
    if (prep->out[0].id > LS_LAYOUT_PLAIN) {
        k->base.out[0] = prep->out[0];
        k->base.in[0] = with_type(prep->out[0], LS_I64, LS_F32);
    } else if (prep->out[0].id == LS_LAYOUT_ANY && prep->in[0].id > LS_LAYOUT_PLAIN) {
        k->base.in[0] = prep->in[0];
        k->base.out[0] = with_type(prep->in[0], LS_F32, LS_I64);
    }
    return LS_OK;
}

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct reduce_kernel *k = (const struct reduce_kernel *)b->kernel;
    const double limit = k->by_share ? LS_FIXED_MEAN_LIMIT : LS_FIXED_LIMIT;
    int64_t begin, end;
    float most;
    ls_part_range((int64_t)(k->base.in[0].bytes / sizeof(float)), ctx->part, ctx->n_parts, &begin, &end);
    const uint32_t largest = k->sums->accumulate((const float *)b->in[0] + begin, (int64_t *)b->out[0] + begin,
                                                 end - begin, k->by_share ? k->whole * (double)ctx->share : k->whole);
    memcpy(&most, &largest, sizeof most);
    if ((double)most * fabs(k->whole) < limit) return LS_OK; /* false for NaN */
    return ls_fail(LS_NONFINITE, "%s: a shard's value is not finite or beyond %g, the range of fixed point", k->name,
                   limit / fabs(k->whole));
}

const struct ls_impl ls__cpu_reduce = {.name = "cpu", .op = LS_OP_REDUCE, .prepare = prepare, .launch = launch};
