/* sums.c: all sums as one block, in the order in which they are made, so that pieces of it can travel early.
 *
 *     [ stats | sums that shards make, in the order of backward | sums made in JOIN | control words ]
 *
 * Between machines the block is summed in buckets of neighbouring sums. A bucket may go when every shard of the machine
 * has added to every sum in it. Devices that add have larger ones (early.c). The control words go last: they tell every
 * machine what happened on the others (failures, signals, the time its shards took), so that all decide alike.
 */
#include "base/mem.h"
#include "exec/exec_internal.h"

#include <stdlib.h>
#include <string.h>

enum { MIN_BUCKET = 1 << 16, MAX_N_BUCKETS = 400 };

int64_t *ls__sums_control(const struct ls_exec *e)
{
    return e->sums.travel + e->sums.control;
}

static int64_t elements(const struct ls_stored *s)
{
    return (int64_t)(s->layout.bytes / sizeof(int64_t) + 7) / 8 * 8; /* every sum begins at a cache line */
}

/* Gives an entry its place. The memory comes when all have one. */
static void place(struct ls_exec *e, int entry)
{
    struct ls_stored *s = &e->store->entries[entry];
    if (s->data || e->sums.places[entry].is_placed) return;
    e->sums.places[entry] = (struct sum_place){.begin = e->sums.n, .end = e->sums.n + elements(s), .is_placed = true};
    e->sums.n += elements(s);
}

static bool is_sum(const struct ls_exec *e, const struct ls_plan *p, int value)
{
    int entry = value < 0 ? -1 : p->slots[value].stored;
    return entry >= 0 && e->store->entries[entry].kind == LS_VALUE_SUM;
}

static void place_outputs(struct ls_exec *e, const struct ls_plan *p, enum ls_phase phase)
{
    for (int i = 0; i < p->n_ops; i++) {
        const struct ls_plan_op *op = &p->ops[i];
        for (int k = 0; op->phase == phase && k < op->node.n_out; k++)
            if (is_sum(e, p, op->node.out[k])) place(e, p->slots[op->node.out[k]].stored);
    }
}

/* Contributions a bucket gets: from each shard, and once per step. */
static void count_parts(struct ls_exec *e, const struct ls_plan *p)
{
    struct sum_block *s = &e->sums;
    for (int i = 0; i < p->n_ops; i++) {
        const struct ls_plan_op *op = &p->ops[i];
        for (int k = 0; k < op->node.n_out; k++) {
            if (!is_sum(e, p, op->node.out[k])) continue;
            int bucket = s->places[p->slots[op->node.out[k]].stored].bucket;
            if (op->phase == LS_SHARD) s->per_shard[bucket]++;
            if (op->phase == LS_JOIN) s->per_step[bucket] += op->n_parts;
        }
    }
}

/* What is worth a message, or a sum of devices, which are few. */
static int64_t least_bucket(const struct ls_exec *e)
{
    const int64_t by_devices = ls__devices_bucket(e);
    const int64_t least = by_devices ? by_devices : MIN_BUCKET;
    const int64_t share = e->sums.control / (by_devices ? LS_MAX_READY - 2 : MAX_N_BUCKETS);
    return share > least ? share : least;
}

/* Neighbours are put together until a bucket is worth it. Entries are visited in the order of the block. */
static enum ls_status make_buckets(struct ls_exec *e, const struct ls_plan *p)
{
    struct sum_block *s = &e->sums;
    const int64_t target = least_bucket(e);
    int n = e->store->n_entries;
    TRY(ls__calloc(&s->buckets, (size_t)n + 1, sizeof *s->buckets));
    TRY(ls__calloc(&s->per_shard, (size_t)n + 1, sizeof *s->per_shard));
    TRY(ls__calloc(&s->per_step, (size_t)n + 1, sizeof *s->per_step));
    for (int64_t at = 0; at < s->control;) {
        int entry = 0;
        while (entry < n && (!s->places[entry].is_placed || s->places[entry].begin != at)) entry++;
        if (entry == n || s->places[entry].end <= at)
            return ls_fail(LS_INTERNAL, "the block of sums has a hole or an empty sum at %lld", (long long)at);
        bool is_first = s->n_buckets <= 1; /* the first holds the stats alone: evaluation sums them only */
        if (is_first || s->buckets[s->n_buckets - 1].end - s->buckets[s->n_buckets - 1].begin >= target)
            s->buckets[s->n_buckets++] = (struct ls_comm_bucket){.begin = at, .end = at};
        s->buckets[s->n_buckets - 1].end = s->places[entry].end;
        s->places[entry].bucket = s->n_buckets - 1;
        at = s->places[entry].end;
    }
    s->buckets[s->n_buckets++] = (struct ls_comm_bucket){.begin = s->control, .end = s->n, .n_parts = 1};
    count_parts(e, p);
    return LS_OK;
}

static enum ls_status allocate(struct ls_exec *e, const struct ls_plan *p)
{
    struct sum_block *s = &e->sums;
    size_t bytes = (size_t)s->n * sizeof(int64_t);
    TRY(e->together->share(e, bytes, (void **)&s->block));
    s->travel = s->block;
    if (e->backend->memory) TRY(ls__alloc_aligned(&s->travel, bytes));
    for (int i = 0; i < e->store->n_entries; i++) {
        if (!s->places[i].is_placed) continue;
        e->store->entries[i].data = s->block + s->places[i].begin;
        e->store->entries[i].is_borrowed = true;
        e->store->bytes += e->store->entries[i].layout.bytes;
    }
    return make_buckets(e, p);
}

enum ls_status ls__sums_place(struct ls_exec *e, const struct ls_plan *p)
{
    struct sum_block *s = &e->sums;
    if (s->block) { /* a later plan adds to the sums of the first; a new one would not be summed over the machines */
        TRY(ls__grow(&s->places, (size_t)s->n_places, (size_t)e->store->n_entries, sizeof *s->places));
        s->n_places = e->store->n_entries;
        return LS_OK;
    }
    TRY(ls__calloc(&s->places, (size_t)e->store->n_entries, sizeof *s->places));
    s->n_places = e->store->n_entries;
    place(e, p->slots[p->graph->stats_sum].stored);
    place_outputs(e, p, LS_SHARD);
    place_outputs(e, p, LS_JOIN);
    s->control = s->n;
    s->n += ((int64_t)LS_CONTROL_MACHINES + e->n_machines + 7) / 8 * 8;
    return allocate(e, p);
}

void ls__sums_free(struct ls_exec *e)
{
    struct sum_block *s = &e->sums;
    size_t bytes = (size_t)s->n * sizeof(int64_t);
    if (s->travel != s->block) ls__free_aligned(s->travel, bytes);
    if (s->block) e->together->unshare(e, s->block, bytes);
    free(s->places);
    free(s->buckets);
    free(s->per_shard);
    free(s->per_step);
}

int64_t ls__sums_end(const struct ls_exec *e, const struct ls_plan *p, const struct ls_plan_op *op)
{
    int64_t end = 0;
    for (int k = 0; k < op->node.n_in; k++)
        if (is_sum(e, p, op->node.in[k]) && e->sums.places[p->slots[op->node.in[k]].stored].end > end)
            end = e->sums.places[p->slots[op->node.in[k]].stored].end;
    return end;
}

enum ls_status ls__sums_to_host(struct ls_exec *e)
{
    struct sum_block *s = &e->sums;
    if (s->travel == s->block) return LS_OK;
    return ls__memory_read(e, s->block, (size_t)s->control * sizeof *s->block, s->travel);
}

enum ls_status ls__sums_take_up(struct ls_exec *e, struct ls_sum_range range)
{
    struct sum_block *s = &e->sums;
    const int64_t begin = range.begin, end = range.end > 0 ? range.end : s->control;
    const size_t bytes = (size_t)(end - begin) * sizeof *s->block;
    if (s->travel == s->block) return LS_OK;
    TRY(ls__memory_write(e, s->block + begin, bytes, s->travel + begin));
    memset(s->travel + begin, 0, bytes);
    return LS_OK;
}
