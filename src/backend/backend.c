/* backend.c: what all backends share: finding one by name, the life of a kernel, the cutting of tensors into parts. */
#include "backend/backend.h"

#include "base/mem.h"
#include "base/plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct ls_backend *ls_backend_find(const char *name)
{
    for (int i = 0; ls_backends[i]; i++)
        if (!name || strcmp(ls_backends[i]->name, name) == 0) return ls_backends[i];
    return NULL;
}

bool ls_precision_parse(const char *name, enum ls_precision *out)
{
    static const char *const names[] = {
        [LS_PRECISION_F32] = "f32", [LS_PRECISION_TF32] = "tf32", [LS_PRECISION_BF16] = "bf16"};
    *out = LS_PRECISION_F32;
    for (int i = LS_PRECISION_F32; name && i <= LS_PRECISION_BF16; i++)
        if (strcmp(names[i], name) == 0) {
            *out = (enum ls_precision)i;
            return true;
        }
    return !name;
}

bool ls_backend_exists(const char *name)
{
    return ls_backend_find(name) || ls__plugin_exists(name);
}

/* What a wrong name is answered with: what there is, and for a name we know what it needs. */
static enum ls_status no_such_backend(const char *name)
{
    char have[96] = "";
    size_t at = 0;
    for (int i = 0; ls_backends[i] && at < sizeof have; i++)
        at += (size_t)snprintf(have + at, sizeof have - at, "%s%s", i ? ", " : "", ls_backends[i]->name);
    if (strcmp(name, "cuda") == 0)
        return ls_fail(LS_USAGE,
                       "--device cuda: the plug-in lockstep-cuda.so was not found; it is built where nvcc, cuDNN and "
                       "cuBLAS are installed; this build has %s",
                       have);
    return ls_fail(LS_USAGE, "--device %s: this build has %s", name, have);
}

enum ls_status ls_backend_get(const char *name, const struct ls_backend **out)
{
    const void *symbol;
    *out = ls_backend_find(name);
    if (*out) return LS_OK;
    if (!ls__plugin_exists(name)) return no_such_backend(name);
    TRY(ls__plugin_symbol(name, LS_BACKEND_PLUGIN, false, "", &symbol));
    const struct ls_backend_plugin *plugin = symbol;
    if (plugin->abi != LS_BACKEND_ABI || !plugin->backend || strcmp(plugin->backend->name, name) != 0)
        return ls_fail(LS_UNSUPPORTED, "lockstep-%s.so is not a backend of this version; build it again", name);
    *out = plugin->backend;
    return LS_OK;
}

/* An absent optional value (-1) keeps the zeroed layout. */
static struct ls_layout plain_of(const struct ls_graph *g, int value)
{
    if (value < 0) return (struct ls_layout){0};
    const struct ls_value *v = &g->values[value];
    return ls_layout_plain(&v->shape, v->dtype);
}

enum ls_status ls_kernel_create(void *out, size_t size, const struct ls_prep *prep, const struct ls_impl *impl)
{
    struct ls_kernel *k;
    const struct ls_node *n = prep->node;
    TRY(ls__calloc(&k, 1, size));
    k->impl = impl;
    snprintf(k->name, sizeof k->name, "%s", impl->name);
    for (int i = 0; i < n->n_in; i++) k->in[i] = plain_of(prep->graph, n->in[i]);
    for (int i = 0; i < n->n_out; i++) k->out[i] = plain_of(prep->graph, n->out[i]);
    memcpy(out, &k, sizeof k);
    return LS_OK;
}

void ls_prep_describe(const struct ls_prep *prep, struct ls_attrs *attrs, struct ls_shape *in, struct ls_shape *out,
                      char *name, size_t name_bytes)
{
    const struct ls_node *n = prep->node;
    *attrs = n->attrs;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] >= 0) in[i] = prep->graph->values[n->in[i]].shape;
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] >= 0) out[i] = prep->graph->values[n->out[i]].shape;
    snprintf(name, name_bytes, "%s", n->name ? n->name : ls_op_name(n->op));
}

void ls_kernel_destroy(struct ls_kernel **kernel)
{
    struct ls_kernel *k = *kernel;
    if (!k) return;
    if (k->impl && k->impl->release) k->impl->release(k);
    free(k);
    *kernel = NULL;
}

enum { PART_ALIGN = 16 }; /* elements: a cache line of floats, so that no two parts write to the same line */

static int64_t part_begin(int64_t count, int part, int n_parts)
{
    int64_t n_blocks = (count + PART_ALIGN - 1) / PART_ALIGN;
    /* quotient and remainder apart: n_blocks * part might overflow */
    int64_t block = n_blocks / n_parts * part + n_blocks % n_parts * part / n_parts;
    int64_t at = block * PART_ALIGN;
    return at < count ? at : count;
}

void ls_part_range(int64_t count, int part, int n_parts, int64_t *begin, int64_t *end)
{
    *begin = part_begin(count, part, n_parts);
    *end = part_begin(count, part + 1, n_parts);
}

const char *ls_transform_beyond_crops(const struct ls_transform *t)
{
    return t->resized_crop > 0 ? "--resized-crop"
           : t->brightness > 0 ? "--brightness"
           : t->contrast > 0   ? "--contrast"
           : t->saturation > 0 ? "--saturation"
           : t->hue > 0        ? "--hue"
           : t->erasing > 0    ? "--erasing"
           : t->mixup > 0      ? "--mixup"
           : t->cutmix > 0     ? "--cutmix"
                               : NULL;
}
