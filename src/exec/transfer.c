/* transfer.c: stored values as plain tensors: initial weights, checkpoints, tests. */
#include "base/mem.h"
#include "base/rng.h"
#include "base/simd.h"
#include "exec/exec_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    struct ls_bound b = {.kernel = kernel, .in = {(void *)in}, .out = {out}};
    const struct ls_step_ctx ctx = {.n_parts = 1};
    if (status == LS_OK) status = ls__alloc_aligned(&b.scratch, kernel->scratch_bytes);
    if (status == LS_OK && kernel->impl->bind) status = kernel->impl->bind(&b);
    if (status == LS_OK) status = kernel->impl->launch(&b, &ctx);
    if (kernel && kernel->impl->unbind) kernel->impl->unbind(&b);
    if (kernel) ls__free_aligned(b.scratch, kernel->scratch_bytes);
    ls_kernel_destroy(&kernel);
    ls_graph_destroy(&g);
    return status;
}

enum ls_status ls_exec_get(struct ls_exec *e, int entry, float *out)
{
    const struct ls_stored *s = &e->store->entries[entry];
    const struct ls_layout plain = ls_layout_plain(&s->shape, LS_F32);
    if (s->layout.id != LS_LAYOUT_PLAIN) return reorder(e, s, &s->layout, s->data, &plain, out);
    memcpy(out, s->data, plain.bytes);
    return LS_OK;
}

enum ls_status ls_exec_set(struct ls_exec *e, int entry, const float *in)
{
    const struct ls_stored *s = &e->store->entries[entry];
    const struct ls_layout plain = ls_layout_plain(&s->shape, LS_F32);
    e->store->version++; /* copies in other layouts are stale now */
    if (s->layout.id != LS_LAYOUT_PLAIN) return reorder(e, s, &plain, in, &s->layout, s->data);
    memcpy(s->data, in, plain.bytes);
    return LS_OK;
}

enum ls_status ls_exec_get_gradient(struct ls_exec *e, int entry, float *out)
{
    const struct ls_stored *s = &e->store->entries[entry];
    size_t n = s->layout.bytes / sizeof(int64_t);
    const int64_t *sum = s->data;
    float *blocked;
    TRY(ls__alloc_aligned(&blocked, n * sizeof *blocked));
    for (size_t i = 0; i < n; i++) blocked[i] = (float)ldexp((double)sum[i], -LS_SCALE_GRAD);
    struct ls_layout layout = s->layout;
    layout.bytes /= 2;
    const struct ls_layout plain = ls_layout_plain(&s->shape, LS_F32);
    enum ls_status status = LS_OK;
    if (layout.id != LS_LAYOUT_PLAIN)
        status = reorder(e, s, &layout, blocked, &plain, out);
    else
        memcpy(out, blocked, plain.bytes);
    ls__free_aligned(blocked, n * sizeof *blocked);
    return status;
}

enum ls_status ls_exec_logits(struct ls_exec *e, int64_t mb, float *out)
{
    const struct ls_plan *p = ls_exec_plan(e, mb, false);
    if (!p) return ls_fail(LS_INTERNAL, "no plan to evaluate shards of %lld samples", (long long)mb);
    if (e->n_threads != 1)
        return ls_fail(LS_UNSUPPORTED, "logits are kept with one thread only, here are %d", e->n_threads);
    const struct ls_slot *slot = &p->slots[p->graph->logits]; /* alive after the last op: plan/memory.c */
    const struct ls_stored s = {.name = "logits", .shape = p->graph->values[p->graph->logits].shape};
    const struct ls_layout plain = ls_layout_plain(&s.shape, LS_F32);
    const char *data = e->arenas[0].data + slot->offset;
    if (slot->layout.id != LS_LAYOUT_PLAIN) return reorder(e, &s, &slot->layout, data, &plain, out);
    memcpy(out, data, plain.bytes);
    return LS_OK;
}

/* --- initial values --- */

enum { FILL_PART = 1 << 16 }; /* elements; a multiple of 4 */

struct fill_run {
    const struct ls_stored *s;
    uint64_t seed;
    uint32_t number;
    float *out;
};

/* PyTorch's default: uniform in [-bound, bound). Element i of parameter number k is word i%4 of (seed, k, i/4). */
LS_VECTORIZE static void fill_uniform(float *out, int64_t begin, int64_t end, uint64_t seed, uint32_t number,
                                      float bound)
{
    int64_t n_whole = (end - begin) / 4;
    for (int64_t q = 0; q < n_whole; q++) {
        struct ls_rng4 r = ls__rng(seed, LS_RNG_INIT, number, 0, (uint64_t)(begin / 4 + q));
        for (int k = 0; k < 4; k++) out[begin + 4 * q + k] = bound * (2 * ls__rng_unit(r.v[k]) - 1);
    }
    for (int64_t i = begin + 4 * n_whole; i < end; i++) {
        struct ls_rng4 r = ls__rng(seed, LS_RNG_INIT, number, 0, (uint64_t)i / 4);
        out[i] = bound * (2 * ls__rng_unit(r.v[i % 4]) - 1);
    }
}

static enum ls_status fill_part(void *arg, int item, int worker)
{
    const struct fill_run *f = arg;
    int64_t n = ls_shape_count(&f->s->shape), begin = (int64_t)item * FILL_PART;
    int64_t end = begin + FILL_PART < n ? begin + FILL_PART : n;
    if (f->s->init == LS_INIT_UNIFORM)
        fill_uniform(f->out, begin, end, f->seed, f->number, f->s->init_bound);
    else
        for (int64_t i = begin; i < end; i++) f->out[i] = f->s->init == LS_INIT_ONE ? 1.0f : 0.0f;
    return LS_OK;
}

/* Plain values on their way into another layout lie in the first arena where it is large enough: the first step needs
 * that memory anyway, and having the kernel clear as much again would take longer than drawing the numbers. */
static enum ls_status fill(struct ls_exec *e, int entry, uint64_t seed, uint32_t number)
{
    struct ls_stored *s = &e->store->entries[entry];
    struct fill_run f = {s, seed, number, s->data};
    int64_t n = ls_shape_count(&s->shape);
    size_t bytes = (size_t)n * sizeof *f.out;
    bool is_plain = s->layout.id == LS_LAYOUT_PLAIN, fits_arena = e->arenas[0].bytes >= bytes;
    if (!is_plain && fits_arena) f.out = (float *)e->arenas[0].data;
    if (!is_plain && !fits_arena) TRY(ls__alloc_aligned(&f.out, bytes));
    enum ls_status status = ls__pool_run(e->pool, (int)((n + FILL_PART - 1) / FILL_PART), fill_part, &f);
    if (is_plain) return status;
    if (status == LS_OK) status = ls_exec_set(e, entry, f.out);
    if (!fits_arena) ls__free_aligned(f.out, bytes);
    return status;
}

static enum ls_status init_store(struct ls_exec *e, uint64_t seed)
{
    uint32_t number = 0;
    bool is_fresh = e->store->version == 0; /* memory comes zeroed: state needs no second pass then */
    for (int i = 0; i < e->store->n_entries; i++) {
        const struct ls_stored *s = &e->store->entries[i];
        if (s->source >= 0 || s->kind == LS_VALUE_SUM || s->kind == LS_VALUE_KEPT) continue;
        if (s->kind == LS_VALUE_STATE) {
            if (!is_fresh) memset(s->data, 0, s->layout.bytes);
            continue;
        }
        TRY(fill(e, i, seed, number));
        if (s->kind == LS_VALUE_PARAM) number++;
    }
    return LS_OK;
}

/* Of a team that shares the store, the leader does it. */
enum ls_status ls_exec_init_store(struct ls_exec *e, uint64_t seed)
{
    enum ls_status status = e->seat == 0 ? init_store(e, seed) : LS_OK;
    e->store->version++;
    return ls__team_meet(e, status);
}
