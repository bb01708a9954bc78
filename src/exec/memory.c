/* memory.c: the memory of the device: the only file that touches store, sums and arenas other than through kernels.
 *
 * A device may have memory of its own, which the host cannot read (ls_backend.memory); then everything here copies.
 * Where it is the host's memory, a view is the data itself and a copy is memcpy.
 */
#include "base/mem.h"
#include "exec/exec_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct ls_device_memory *own_memory(const struct ls_exec *e)
{
    return e->backend->memory; /* NULL: the host's */
}

enum ls_status ls__memory_alloc(struct ls_exec *e, size_t bytes, void **out)
{
    const struct ls_device_memory *m = own_memory(e);
    return m ? m->alloc(e->device, bytes, out) : ls__alloc_aligned(out, bytes);
}

void ls__memory_free(struct ls_exec *e, void *data, size_t bytes)
{
    const struct ls_device_memory *m = own_memory(e);
    if (!data) return;
    if (m)
        m->free(e->device, data, bytes);
    else
        ls__free_aligned(data, bytes);
}

enum ls_status ls__memory_settle(struct ls_exec *e)
{
    return own_memory(e) ? own_memory(e)->settle(e->device) : LS_OK;
}

enum ls_status ls__memory_read(struct ls_exec *e, const void *data, size_t bytes, void *host)
{
    const struct ls_device_memory *m = own_memory(e);
    if (m) {
        if (m->read) return m->read(e->device, host, data, bytes);
        TRY(m->settle(e->device));
        return m->copy(e->device, host, data, bytes, LS_TO_HOST);
    }
    memcpy(host, data, bytes);
    return LS_OK;
}

enum ls_status ls__memory_write(struct ls_exec *e, void *data, size_t bytes, const void *host)
{
    const struct ls_device_memory *m = own_memory(e);
    if (m) return m->copy(e->device, data, host, bytes, LS_TO_DEVICE);
    memcpy(data, host, bytes);
    return LS_OK;
}

enum ls_status ls__memory_zero(struct ls_exec *e, void *data, size_t bytes)
{
    const struct ls_device_memory *m = own_memory(e);
    if (m) return m->fill(e->device, data, 0, bytes);
    memset(data, 0, bytes);
    return LS_OK;
}

enum ls_status ls__memory_view(struct ls_exec *e, const void *data, size_t bytes, const void **view)
{
    void *copy = NULL;
    *view = data;
    if (!own_memory(e)) return LS_OK;
    TRY(ls__alloc_aligned(&copy, bytes));
    *view = copy;
    enum ls_status status = ls__memory_read(e, data, bytes, copy);
    if (status != LS_OK) ls__memory_release_view(e, data, bytes, copy);
    return status;
}

void ls__memory_release_view(struct ls_exec *e, const void *data, size_t bytes, const void *view)
{
    if (view != data) ls__free_aligned((void *)view, bytes);
}

bool ls_exec_is_far(const struct ls_exec *e)
{
    return own_memory(e);
}

/* --- parts of stored values --- */

static enum ls_status copy_all(struct ls_exec *e, const struct ls_copy_part *parts, int n, enum ls_copy to)
{
    const struct ls_device_memory *m = own_memory(e);
    if (m && m->copy_all) return m->copy_all(e->device, parts, n, to);
    for (int i = 0; i < n; i++)
        TRY(to == LS_TO_HOST ? ls__memory_read(e, parts[i].data, parts[i].bytes, parts[i].host)
                             : ls__memory_write(e, parts[i].data, parts[i].bytes, parts[i].host));
    return LS_OK;
}

static enum ls_status copy_parts(struct ls_exec *e, const struct ls_stored_part *parts, int n, char *host,
                                 enum ls_copy to)
{
    enum { AT_ONCE = 64 };
    struct ls_copy_part list[AT_ONCE];
    for (int first = 0; first < n; first += AT_ONCE) {
        const int n_list = n - first < AT_ONCE ? n - first : AT_ONCE;
        for (int i = 0; i < n_list; i++) {
            const struct ls_stored_part *p = &parts[first + i];
            list[i] = (struct ls_copy_part){(float *)e->store->entries[p->entry].data + p->begin, host,
                                            (size_t)p->n * sizeof(float)};
            host += list[i].bytes;
        }
        TRY(copy_all(e, list, n_list, to));
    }
    return LS_OK;
}

enum ls_status ls_exec_get_parts(struct ls_exec *e, const struct ls_stored_part *parts, int n, void *out)
{
    return copy_parts(e, parts, n, out, LS_TO_HOST);
}

enum ls_status ls_exec_set_parts(struct ls_exec *e, const struct ls_stored_part *parts, int n, const void *in)
{
    return copy_parts(e, parts, n, (char *)in, LS_TO_DEVICE);
}

enum ls_status ls_exec_move_sums(struct ls_exec *e, struct ls_sum_range range, void *out)
{
    const struct ls_copy_part sums = {e->sums.block + range.begin, out,
                                      (size_t)(range.end - range.begin) * sizeof(int64_t)};
    TRY(copy_all(e, &sums, 1, LS_TO_HOST));
    return ls__memory_zero(e, sums.data, sums.bytes);
}

enum ls_status ls_exec_zero_sums(struct ls_exec *e)
{
    struct sum_block *b = &e->sums;
    if (b->travel != b->block) memset(b->travel, 0, (size_t)b->control * sizeof *b->travel);
    for (int i = 0; i < e->store->n_entries; i++) {
        const struct ls_stored *s = &e->store->entries[i];
        if (s->kind == LS_VALUE_SUM) TRY(ls__memory_zero(e, s->data, s->layout.bytes));
    }
    return LS_OK;
}

/* --- stored values as plain tensors --- */

/* Both in the device's memory. */
static enum ls_status run_reorder(struct ls_exec *e, struct ls_kernel *kernel, const void *in, void *out)
{
    struct ls_bound b = {.kernel = kernel, .in = {(void *)in}, .out = {out}};
    const struct ls_step_ctx ctx = {.n_parts = 1};
    TRY(ls__memory_alloc(e, kernel->scratch_bytes, &b.scratch));
    enum ls_status status = kernel->impl->bind ? kernel->impl->bind(&b) : LS_OK;
    if (status == LS_OK) status = kernel->impl->launch(&b, &ctx);
    if (status == LS_OK) status = ls__memory_settle(e);
    if (kernel->impl->unbind) kernel->impl->unbind(&b);
    ls__memory_free(e, b.scratch, kernel->scratch_bytes);
    return status;
}

/* Runs one REORDER outside any plan: a graph of one node. */
static enum ls_status reorder(struct ls_exec *e, const struct ls_stored *s, const struct ls_layout *from,
                              const void *in, const struct ls_layout *to, void *out)
{
    struct ls_graph *g;
    struct ls_kernel *kernel = NULL;
    const struct ls_attrs none = {0};
    struct ls_prep prep = {.device = e->device, .in = {*from}, .out = {*to}};
    int value;
    TRY(ls_graph_create(&g, 1, false));
    enum ls_status status = ls_graph_add_value(g, s->name, LS_VALUE_PARAM, LS_F32, &s->shape, &value);
    if (status == LS_OK) status = ls_graph_add_node(g, LS_OP_REORDER, s->name, &none, &value, 1, NULL);
    prep.graph = g;
    prep.node = status == LS_OK ? &g->nodes[0] : NULL;
    for (int i = 0; status == LS_OK && e->backend->impls[i] && !kernel; i++)
        if (e->backend->impls[i]->op == LS_OP_REORDER) status = e->backend->impls[i]->prepare(&prep, &kernel);
    if (status == LS_OK && !kernel) status = ls_fail(LS_INTERNAL, "backend %s cannot reorder", e->backend->name);
    if (status == LS_OK) status = run_reorder(e, kernel, in, out);
    ls_kernel_destroy(&kernel);
    ls_graph_destroy(&g);
    return status;
}

/* A device's value as plain floats of the host. */
enum ls_status ls__memory_to_plain(struct ls_exec *e, const struct ls_stored *s, const struct ls_layout *layout,
                                   const void *data, float *out)
{
    const struct ls_layout plain = ls_layout_plain(&s->shape, LS_F32);
    void *staging;
    if (layout->id == LS_LAYOUT_PLAIN) return ls__memory_read(e, data, plain.bytes, out);
    if (!own_memory(e)) return reorder(e, s, layout, data, &plain, out);
    TRY(ls__memory_alloc(e, plain.bytes, &staging));
    enum ls_status status = reorder(e, s, layout, data, &plain, staging);
    if (status == LS_OK) status = ls__memory_read(e, staging, plain.bytes, out);
    ls__memory_free(e, staging, plain.bytes);
    return status;
}

enum ls_status ls_exec_get(struct ls_exec *e, int entry, float *out)
{
    const struct ls_stored *s = &e->store->entries[entry];
    return ls__memory_to_plain(e, s, &s->layout, s->data, out);
}

enum ls_status ls__memory_from_plain(struct ls_exec *e, const struct ls_stored *s, const struct ls_layout *layout,
                                     const float *in, void *data)
{
    const struct ls_layout plain = ls_layout_plain(&s->shape, LS_F32);
    void *staging;
    if (layout->id == LS_LAYOUT_PLAIN) return ls__memory_write(e, data, plain.bytes, in);
    if (!own_memory(e)) return reorder(e, s, &plain, in, layout, data);
    TRY(ls__memory_alloc(e, plain.bytes, &staging));
    enum ls_status status = ls__memory_write(e, staging, plain.bytes, in);
    if (status == LS_OK) status = reorder(e, s, &plain, staging, layout, data);
    ls__memory_free(e, staging, plain.bytes);
    return status;
}

enum ls_status ls_exec_set(struct ls_exec *e, int entry, const float *in)
{
    const struct ls_stored *s = &e->store->entries[entry];
    e->store->version++; /* copies in other layouts are stale now */
    return ls__memory_from_plain(e, s, &s->layout, in, s->data);
}

enum ls_status ls_exec_get_gradient(struct ls_exec *e, int entry, float *out)
{
    const struct ls_stored *s = &e->store->entries[entry];
    size_t n = s->layout.bytes / sizeof(int64_t);
    const void *sums;
    float *floats;
    void *data = NULL;
    struct ls_layout layout = s->layout;
    layout.bytes /= 2;
    TRY(ls__alloc_aligned(&floats, n * sizeof *floats));
    enum ls_status status = ls__memory_view(e, s->data, s->layout.bytes, &sums);
    if (status == LS_OK) {
        for (size_t i = 0; i < n; i++) floats[i] = (float)ldexp((double)((const int64_t *)sums)[i], -LS_SCALE_GRAD);
        ls__memory_release_view(e, s->data, s->layout.bytes, sums);
        status = ls__memory_alloc(e, n * sizeof *floats, &data);
    }
    if (status == LS_OK) status = ls__memory_write(e, data, n * sizeof *floats, floats);
    if (status == LS_OK) status = ls__memory_to_plain(e, s, &layout, data, out);
    ls__memory_free(e, data, n * sizeof *floats);
    ls__free_aligned(floats, n * sizeof *floats);
    return status;
}

enum ls_status ls__memory_logits(struct ls_exec *e, const struct ls_plan *p, int thread, int n, float *out)
{
    const struct ls_slot *slot = &p->slots[p->graph->logits]; /* alive after the last op: plan/memory.c */
    const struct ls_stored s = {.name = "logits", .shape = p->graph->values[p->graph->logits].shape};
    const char *data = e->workers[thread].arena + slot->offset;
    size_t bytes = (size_t)n * (size_t)s.shape.dims[1] * sizeof *out;
    float *all;
    if (slot->layout.id == LS_LAYOUT_PLAIN) return ls__memory_read(e, data, bytes, out);
    TRY(ls__alloc_aligned(&all, (size_t)ls_shape_count(&s.shape) * sizeof *all));
    enum ls_status status = ls__memory_to_plain(e, &s, &slot->layout, data, all);
    if (status == LS_OK) memcpy(out, all, bytes);
    ls__free_aligned(all, (size_t)ls_shape_count(&s.shape) * sizeof *all);
    return status;
}

enum ls_status ls_exec_logits(struct ls_exec *e, int64_t mb, float *out)
{
    const struct ls_plan *p = ls_exec_plan(e, mb, false);
    if (!p) return ls_fail(LS_INTERNAL, "no plan to evaluate shards of %lld samples", (long long)mb);
    if (e->n_threads != 1)
        return ls_fail(LS_UNSUPPORTED, "logits are kept with one thread only, here are %d", e->n_threads);
    return ls__memory_logits(e, p, 0, (int)mb, out);
}

/* One machine's values to all, through the host's memory. */
static enum ls_status broadcast(struct ls_exec *e, int root, const struct ls_stored *s)
{
    void *copy;
    if (!own_memory(e)) return ls_comm_broadcast_machines(e->comm, root, s->data, s->layout.bytes);
    TRY(ls__alloc_aligned(&copy, s->layout.bytes));
    enum ls_status status = ls__memory_read(e, s->data, s->layout.bytes, copy);
    if (status == LS_OK) status = ls_comm_broadcast_machines(e->comm, root, copy, s->layout.bytes);
    if (status == LS_OK) status = ls__memory_write(e, s->data, s->layout.bytes, copy);
    ls__free_aligned(copy, s->layout.bytes);
    return status;
}

enum ls_status ls_exec_sync_store(struct ls_exec *e, int root)
{
    if (!e->comm) return LS_OK;
    for (int i = 0; i < e->store->n_entries; i++)
        if (ls_stored_is_saved(&e->store->entries[i])) TRY(broadcast(e, root, &e->store->entries[i]));
    e->store->version++;
    return e->together->barrier(e, LS_OK);
}
