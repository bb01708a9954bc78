/* ring.c: the last spans of a lane, for who listens.
 *
 * The writer never waits: it overwrites the oldest slot. It says so first (begun), writes, then says that it is done. A
 * reader copies a slot and looks at `begun` afterwards: if the writer has come round to that slot meanwhile, the copy
 * may be torn and counts as lost.
 */
#include "base/mem.h"
#include "trace/lane.h"

enum ls_status ls__trace_ring_create(struct ring **out, uint64_t n_slots)
{
    TRY(ls__calloc(out, 1, sizeof **out + (size_t)n_slots * sizeof(struct slot)));
    (*out)->n_slots = n_slots;
    return LS_OK;
}

void ls__trace_ring_keep(struct ring *r, const struct frame *f, int depth, int64_t end_ns)
{
    uint64_t i = atomic_load_explicit(&r->done, memory_order_relaxed);
    struct slot *s = &r->slots[i & (r->n_slots - 1)];
    atomic_store_explicit(&r->begun, i + 1, memory_order_relaxed);
    /* Whoever reads any of these also sees `begun`. */
    atomic_store_explicit(&s->kind_and_depth, depth * LS_N_SPAN_KINDS + (int)f->kind, memory_order_release);
    atomic_store_explicit(&s->name, f->name, memory_order_release);
    atomic_store_explicit(&s->start_ns, f->start_ns, memory_order_release);
    atomic_store_explicit(&s->end_ns, end_ns, memory_order_release);
    atomic_store_explicit(&s->arg, f->arg, memory_order_release);
    atomic_store_explicit(&r->done, i + 1, memory_order_release);
}

static bool read_slot(const struct ring *r, uint64_t i, struct ls_span *out)
{
    const struct slot *s = &r->slots[i & (r->n_slots - 1)];
    int kind_and_depth = atomic_load_explicit(&s->kind_and_depth, memory_order_acquire);
    *out = (struct ls_span){
        .kind = (enum ls_span_kind)(kind_and_depth % LS_N_SPAN_KINDS),
        .depth = kind_and_depth / LS_N_SPAN_KINDS,
        .name = atomic_load_explicit(&s->name, memory_order_acquire),
        .start_ns = atomic_load_explicit(&s->start_ns, memory_order_acquire),
        .end_ns = atomic_load_explicit(&s->end_ns, memory_order_acquire),
        .arg = atomic_load_explicit(&s->arg, memory_order_acquire),
    };
    return atomic_load_explicit(&r->begun, memory_order_relaxed) <= i + r->n_slots;
}

int ls__lane_read(const struct ls_lane *lane, int64_t *at, struct ls_span *out, int n, int64_t *n_lost)
{
    const struct ring *r = atomic_load_explicit(&lane->ring, memory_order_acquire);
    int n_read = 0;
    if (!r) return 0;
    uint64_t done = atomic_load_explicit(&r->done, memory_order_acquire), i = (uint64_t)*at;
    if (done - i > r->n_slots) {
        *n_lost += (int64_t)(done - r->n_slots - i);
        i = done - r->n_slots;
    }
    for (; i < done && n_read < n; i++)
        if (read_slot(r, i, &out[n_read]))
            n_read++;
        else
            (*n_lost)++;
    *at = (int64_t)i;
    return n_read;
}
