/* fault_op.c: where launches only enqueue: an update after a failed sum changes nothing, settle tells, and forgets.
 *
 *     fault n=
 *
 * On backends with memory of their own; where launch returns the failure itself, there is nothing to hold back.
 */
#include "checks.h"

#include <math.h>
#include <string.h>

enum { SRC, SUM, PARAM, GRADIENT, N_VALUES };

struct fault {
    const struct ls_backend *backend;
    struct ls_device *device;
    struct ls_graph *g;
    struct ls_kernel *kernels[2]; /* REDUCE of src, SGD of param by gradient */
    struct ls_bound bound[2];
    struct mirror mirror;
    struct buffer values[N_VALUES];
    int64_t n;
};

bool is_fault_case(const struct test_case *c)
{
    return strcmp(c->op, "fault") == 0;
}

static enum ls_status add_values(struct fault *f, int ids[N_VALUES], void *at[N_VALUES])
{
    static const enum ls_value_kind kinds[N_VALUES] = {LS_VALUE_TEMP, LS_VALUE_SUM, LS_VALUE_PARAM, LS_VALUE_SUM};
    const struct ls_shape shape = LS_SHAPE1(f->n);
    f->mirror = (struct mirror){.backend = f->backend, .device = f->device};
    for (int i = 0; i < N_VALUES; i++) {
        const enum ls_dtype dtype = kinds[i] == LS_VALUE_SUM ? LS_I64 : LS_F32;
        TRY(ls_graph_add_value(f->g, NULL, kinds[i], dtype, &shape, &ids[i]));
        TRY(buffer_create(&f->values[i], (size_t)f->n * ls_dtype_bytes(dtype), 0));
        TRY(mirror_add(&f->mirror, &f->values[i], &at[i]));
    }
    return LS_OK;
}

static enum ls_status prepare(struct fault *f)
{
    const struct ls_attrs attrs = {.scale_log2 = LS_SCALE_GRAD};
    int ids[N_VALUES];
    void *at[N_VALUES];
    TRY(f->backend->device_open(&f->device));
    TRY(ls_graph_create(&f->g, 1, true));
    TRY(add_values(f, ids, at));
    TRY(ls_graph_add_node(f->g, LS_OP_REDUCE, "fc1.weight", &attrs, &ids[SRC], 1, NULL));
    TRY(ls_graph_add_node(f->g, LS_OP_SGD, "fc1.weight", &attrs, &ids[PARAM], 2, NULL));
    f->bound[0] = (struct ls_bound){.in = {at[SRC]}, .out = {at[SUM]}};
    f->bound[1] = (struct ls_bound){.in = {at[PARAM], at[GRADIENT]}};
    for (int i = 0; i < 2; i++) {
        const struct ls_prep prep = {.device = f->device, .graph = f->g, .node = &f->g->nodes[i]};
        TRY(pick_kernel(f->backend, &prep, &f->kernels[i]));
        f->bound[i].kernel = f->kernels[i];
        if (f->kernels[i]->impl->bind) TRY(f->kernels[i]->impl->bind(&f->bound[i]));
    }
    return LS_OK;
}

static void release(struct fault *f)
{
    for (int i = 0; i < 2; i++) {
        if (f->bound[i].kernel && f->kernels[i]->impl->unbind) f->kernels[i]->impl->unbind(&f->bound[i]);
        ls_kernel_destroy(&f->kernels[i]);
    }
    mirror_release(&f->mirror);
    for (int i = 0; i < N_VALUES; i++) buffer_release(&f->values[i]);
    ls_graph_destroy(&f->g);
    if (f->device) f->backend->device_close(&f->device);
}

/* A sum of src, then the update; everything begins anew. */
static enum ls_status launch_both(struct fault *f, float src)
{
    const struct ls_step_ctx ctx = {.lr = 1, .clip_scale = 1, .share = 1, .n_parts = 1};
    for (int64_t i = 0; i < f->n; i++) {
        ((float *)f->values[SRC].data)[i] = 1;
        ((float *)f->values[PARAM].data)[i] = 5;
        ((int64_t *)f->values[SUM].data)[i] = 0;
        ((int64_t *)f->values[GRADIENT].data)[i] = (int64_t)1 << LS_SCALE_GRAD;
    }
    ((float *)f->values[SRC].data)[f->n / 2] = src;
    TRY(mirror_send(&f->mirror));
    for (int i = 0; i < 2; i++) TRY(f->kernels[i]->impl->launch(&f->bound[i], &ctx));
    return LS_OK;
}

static enum ls_status check_params(const struct fault *f, float param, int64_t gradient)
{
    for (int64_t i = 0; i < f->n; i++)
        if (((const float *)f->values[PARAM].data)[i] != param ||
            ((const int64_t *)f->values[GRADIENT].data)[i] != gradient)
            return ls_fail(LS_ERROR, "parameter %lld is %g with a sum of %lld, not %g and %lld", (long long)i,
                           (double)((const float *)f->values[PARAM].data)[i],
                           (long long)((const int64_t *)f->values[GRADIENT].data)[i], (double)param,
                           (long long)gradient);
    return LS_OK;
}

static enum ls_status run(struct fault *f)
{
    TRY(prepare(f));
    TRY(launch_both(f, NAN));
    const enum ls_status status = mirror_fetch(&f->mirror);
    if (status != LS_NONFINITE || !strstr(ls_error_message(), "fc1.weight"))
        return ls_fail(LS_ERROR, "settle gives %s after a NaN was summed", ls_status_name(status));
    TRY(mirror_fetch(&f->mirror)); /* it is told once */
    TRY(check_params(f, 5, (int64_t)1 << LS_SCALE_GRAD));
    TRY(launch_both(f, 1));
    TRY(mirror_fetch(&f->mirror));
    return check_params(f, 4, 0);
}

enum ls_status check_fault(struct test_case *c, const struct ls_backend *backend)
{
    struct fault f = {.backend = backend, .n = case_int(c, "n", 100)};
    TRY(case_check_used(c));
    if (!backend->memory) return LS_OK;
    const enum ls_status status = run(&f);
    release(&f);
    return status == LS_OK ? LS_OK : ls_fail_in(status, "%s", backend->name);
}
