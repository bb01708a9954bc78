/* ref.c: the reference backend's device (none) and the list of its ops. */
#include "backend/ref/ref.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>

#define IMPL_OF(NAME, name) [LS_OP_##NAME] = &ls__ref_##name,
static const struct ls_impl *const impls[LS_N_OPS + 1] = {LS_OP_MAP(IMPL_OF)[LS_N_OPS] = NULL};
#undef IMPL_OF

enum ls_status ls__ref_prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    struct ls_ref_kernel *k;
    TRY(ls_kernel_create(&k, sizeof *k, prep, impls[prep->node->op]));
    ls_prep_describe(prep, &k->attrs, k->in, k->out, k->name, sizeof k->name);
    *out = &k->base;
    return LS_OK;
}

static enum ls_status prepare_over(const struct ls_prep *prep, int in, struct ls_kernel **out)
{
    TRY(ls__ref_prepare(prep, out));
    (*out)->may_alias = true;
    (*out)->alias_in = in;
    return LS_OK;
}

enum ls_status ls__ref_prepare_in_place(const struct ls_prep *prep, struct ls_kernel **out)
{
    return prepare_over(prep, 0, out);
}

enum ls_status ls__ref_prepare_over_1(const struct ls_prep *prep, struct ls_kernel **out)
{
    return prepare_over(prep, 1, out);
}

struct ls_layout ls__ref_layout_like(struct ls_layout like, enum ls_dtype from, enum ls_dtype to)
{
    like.bytes = like.bytes / ls_dtype_bytes(from) * ls_dtype_bytes(to);
    return like;
}

struct ls_ref_nchw ls__ref_nchw(const struct ls_shape *s)
{
    struct ls_ref_nchw n = {s->dims[0], s->n_dims > 1 ? s->dims[1] : 1, 1};
    for (int i = 2; i < s->n_dims; i++) n.hw *= s->dims[i];
    return n;
}

/* Nothing to keep; the object exists so that a device is never NULL. */
struct ls_device {
    char unused;
};

static enum ls_status device_open(struct ls_device **out)
{
    return ls__calloc(out, 1, sizeof **out);
}

static void device_close(struct ls_device **device)
{
    free(*device);
    *device = NULL;
}

static void describe(const struct ls_device *device, char *text, size_t size)
{
    snprintf(text, size, "reference kernels in C, compiler %s", __VERSION__);
}

/* Every clone of a loop gives the same bits (base/simd.h), so the machine does not matter. */
static void identify(const struct ls_device *device, struct ls_backend_id *id)
{
    *id = (struct ls_backend_id){.software = "lockstep", .isa = "any"};
}

const struct ls_backend ls_backend_ref = {
    .name = "ref",
    .device_open = device_open,
    .device_close = device_close,
    .describe = describe,
    .identify = identify,
    .has_norm_add = true,
    .impls = impls,
};
