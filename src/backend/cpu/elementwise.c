/* elementwise.c: relu, its backward, and add, over tensors in any layout.
 *
 * An op that treats every element alike does not care how the elements lie, as long as all its tensors lie alike; so it
 * takes the layout of its first input and runs over the storage, padding included (zeros stay zeros). A NaN passes
 * through, so that a broken value is seen where it is looked for.
 */
#include "backend/cpu/impls.h"

#include "base/simd.h"

struct elementwise {
    struct ls_kernel base;
    size_t n; /* stored elements */
    bool relu;
};

/* All tensors in the layout of in[0], whatever it is. */
static enum ls_status prepare(const struct ls_prep *prep, const struct ls_impl *impl, int n_in, int alias_in,
                              struct ls_kernel **out)
{
    struct elementwise *k;
    TRY(ls_kernel_create(&k, sizeof *k, prep, impl));
    for (int i = 0; i < n_in; i++) k->base.in[i] = prep->in[0];
    k->base.out[0] = prep->in[0];
    k->base.may_alias = true;
    k->base.alias_in = alias_in;
    k->n = prep->in[0].bytes / sizeof(float);
    k->relu = prep->node->attrs.relu;
    *out = &k->base;
    return LS_OK;
}

static const struct elementwise *of(const struct ls_bound *b)
{
    return (const struct elementwise *)b->kernel;
}

LS_VECTORIZE static void relu(const float *src, float *dst, size_t n)
{
    LS_INDEPENDENT
    for (size_t i = 0; i < n; i++) dst[i] = src[i] < 0 ? 0 : src[i];
}

LS_VECTORIZE static void relu_bwd(const float *dst, const float *diff_dst, float *diff_src, size_t n)
{
    LS_INDEPENDENT
    for (size_t i = 0; i < n; i++) diff_src[i] = dst[i] > 0 ? diff_dst[i] : 0;
}

LS_VECTORIZE static void add(const float *a, const float *b, float *dst, size_t n)
{
    LS_INDEPENDENT
    for (size_t i = 0; i < n; i++) dst[i] = a[i] + b[i];
}

LS_VECTORIZE static void add_relu(const float *a, const float *b, float *dst, size_t n)
{
    LS_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        float sum = a[i] + b[i];
        dst[i] = sum < 0 ? 0 : sum;
    }
}

static enum ls_status prepare_relu(const struct ls_prep *prep, struct ls_kernel **out)
{
    return prepare(prep, &ls__cpu_relu, 1, 0, out);
}

static enum ls_status launch_relu(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    relu(b->in[0], b->out[0], of(b)->n);
    return LS_OK;
}

const struct ls_impl ls__cpu_relu = {.name = "own", .op = LS_OP_RELU, .prepare = prepare_relu, .launch = launch_relu};

static enum ls_status prepare_relu_bwd(const struct ls_prep *prep, struct ls_kernel **out)
{
    return prepare(prep, &ls__cpu_relu_bwd, 2, 1, out);
}

static enum ls_status launch_relu_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    relu_bwd(b->in[0], b->in[1], b->out[0], of(b)->n);
    return LS_OK;
}

const struct ls_impl ls__cpu_relu_bwd = {
    .name = "own", .op = LS_OP_RELU_BWD, .prepare = prepare_relu_bwd, .launch = launch_relu_bwd};

static enum ls_status prepare_add(const struct ls_prep *prep, struct ls_kernel **out)
{
    return prepare(prep, &ls__cpu_add, 2, 0, out);
}

static enum ls_status launch_add(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    if (of(b)->relu)
        add_relu(b->in[0], b->in[1], b->out[0], of(b)->n);
    else
        add(b->in[0], b->in[1], b->out[0], of(b)->n);
    return LS_OK;
}

const struct ls_impl ls__cpu_add = {.name = "own", .op = LS_OP_ADD, .prepare = prepare_add, .launch = launch_add};
