/* init.c: initial weights, drawn by all threads. */
#include "base/mem.h"
#include "base/rng.h"
#include "base/simd.h"
#include "exec/exec_internal.h"

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

/* Drawn straight into the store where that is plain host memory. Else on the way lies the first arena, where it is the
 * host's and large enough: the first step needs that memory anyway, and having the kernel clear as much again would
 * take longer than drawing the numbers. */
static enum ls_status fill(struct ls_exec *e, int entry, uint64_t seed, uint32_t number)
{
    struct ls_stored *s = &e->store->entries[entry];
    struct fill_run f = {s, seed, number, s->data};
    int64_t n = ls_shape_count(&s->shape);
    size_t bytes = (size_t)n * sizeof *f.out;
    bool is_host = !e->backend->memory, is_direct = is_host && s->layout.id == LS_LAYOUT_PLAIN;
    bool fits_arena = is_host && e->arena_bytes >= bytes;
    if (!is_direct && fits_arena) f.out = (float *)e->workers[0].arena;
    if (!is_direct && !fits_arena) TRY(ls__alloc_aligned(&f.out, bytes));
    enum ls_status status = ls__pool_run(e->pool, (int)((n + FILL_PART - 1) / FILL_PART), fill_part, &f);
    if (is_direct) return status;
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
        if (!ls_stored_is_saved(s)) continue;
        if (s->kind == LS_VALUE_STATE) {
            if (!is_fresh) TRY(ls__memory_zero(e, s->data, s->layout.bytes));
            continue;
        }
        TRY(fill(e, i, seed, number));
        if (s->kind == LS_VALUE_PARAM) number++;
    }
    return LS_OK;
}

/* Of ranks that share the store, the first does it. */
enum ls_status ls_exec_init_store(struct ls_exec *e, uint64_t seed)
{
    enum ls_status status = e->local_rank == 0 ? init_store(e, seed) : LS_OK;
    e->store->version++;
    return e->together->barrier(e, status);
}
