/* memory.c: gives every value of the shard, and the scratch memory of every op, a place in the arena.
 *
 * Values that are the same memory (a view and what it views; an op that may work in place and the input it overwrites)
 * are one block. A block lives from the op that makes its first value to the op that last reads one; the scratch of an
 * op is a block that lives during that op. What an op that others overtake (ls_kernel.is_aside) reads lives longer, and
 * its scratch too. Blocks are placed in order of size, the largest first, each at the lowest
 * offset where no block alive at the same time lies. For the networks at hand this comes within a few percent of the
 * largest sum of blocks alive at once, which is the bound. Ops before and after the shards find the arena empty.
 *
 * Where the backend keeps values apart (ls_backend.keeps_apart), every block lives as long as the shard.
 */
#include "base/mem.h"
#include "plan/plan_internal.h"

#include <stdlib.h>

enum { ALIGNMENT = 64 };

struct block {
    int value; /* the value that stands for it; n_slots + i: scratch of op i */
    size_t bytes, offset;
    int first, last;
};

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static int root_of(int *parent, int value)
{
    while (parent[value] != value) value = parent[value] = parent[parent[value]];
    return value;
}

static bool in_arena(const struct ls_plan *p, int value)
{
    return value >= 0 && p->slots[value].stored < 0;
}

/* Up to which op the inputs and the scratch of op i are needed. */
static int end_of(const struct ls_plan *p, int i)
{
    int n = 0;
    if (!p->ops[i].kernel->is_aside) return i;
    for (int k = i + 1; k < p->n_ops; k++)
        if (p->ops[k].phase == LS_SHARD && p->ops[k].kernel->is_aside && ++n == LS_ASIDE) return k;
    return p->n_ops;
}

/* first/last of every value, in positions of shard ops. Ops of the other phases touch stored values only. */
static void find_lifetimes(struct ls_plan *p)
{
    for (int i = 0; i < p->n_ops; i++) {
        const struct ls_node *n = &p->ops[i].node;
        if (p->ops[i].phase != LS_SHARD) continue;
        for (int k = 0; k < n->n_out; k++)
            if (in_arena(p, n->out[k])) {
                p->slots[n->out[k]].first = p->slots[n->out[k]].last = i;
                p->slots[n->out[k]].is_used = true;
            }
        for (int k = 0; k < n->n_in; k++)
            if (in_arena(p, n->in[k])) {
                const int end = end_of(p, i);
                if (end > p->slots[n->in[k]].last) p->slots[n->in[k]].last = end;
                p->slots[n->in[k]].is_used = true;
            }
    }
    for (int v = 0; v < p->n_slots; v++) p->slots[v].bytes = p->slots[v].layout.bytes;
    int logits = p->graph->logits; /* read by callers after the last op */
    if (logits >= 0 && p->slots[logits].is_used && !p->graph->is_training) p->slots[logits].last = p->n_ops;
}

/* The end of the life of the whole block `root` so far. */
static int last_of_block(const struct ls_plan *p, int *parent, int root)
{
    int last = -1;
    for (int v = 0; v < p->n_slots; v++)
        if (p->slots[v].is_used && root_of(parent, v) == root && p->slots[v].last > last) last = p->slots[v].last;
    return last;
}

static bool keeps_apart(const struct ls_plan *p)
{
    return p->backend->keeps_apart && p->backend->keeps_apart(p->device, p->graph);
}

static void join_aliases(struct ls_plan *p, int *parent, bool is_apart)
{
    for (int i = 0; i < p->n_ops; i++) {
        const struct ls_plan_op *op = &p->ops[i];
        const struct ls_node *n = &op->node;
        if (op->phase != LS_SHARD || n->n_out < 1 || n->out[0] < 0) continue;
        int from = op->kernel->is_view                  ? n->in[0]
                   : op->kernel->may_alias && !is_apart ? n->in[op->kernel->alias_in]
                                                        : -1;
        if (!in_arena(p, from) || !in_arena(p, n->out[0])) continue;
        if (!op->kernel->is_view) {
            /* In place only over memory that dies here, is not the shard's input and is large enough. */
            if (from == p->graph->input || p->slots[from].bytes != p->slots[n->out[0]].bytes) continue;
            if (last_of_block(p, parent, root_of(parent, from)) != i) continue;
            bool read_twice = false;
            for (int k = 0; k < n->n_in; k++)
                if (n->in[k] >= 0 && k != op->kernel->alias_in && in_arena(p, n->in[k]) &&
                    root_of(parent, n->in[k]) == root_of(parent, from))
                    read_twice = true;
            if (read_twice) continue;
        }
        parent[root_of(parent, n->out[0])] = root_of(parent, from);
    }
}

static int by_size(const void *x, const void *y)
{
    const struct block *a = x, *b = y;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return a->value - b->value;
}

static int by_offset(const void *x, const void *y)
{
    const struct block *a = *(const struct block *const *)x, *b = *(const struct block *const *)y;
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

/* The lowest offset for block i among the placed blocks before it. */
static void place(struct block *blocks, int i, const struct block **near)
{
    int n_near = 0;
    for (int k = 0; k < i; k++)
        if (blocks[k].first <= blocks[i].last && blocks[i].first <= blocks[k].last) near[n_near++] = &blocks[k];
    qsort(near, (size_t)n_near, sizeof *near, by_offset);
    size_t at = 0;
    for (int k = 0; k < n_near; k++) {
        if (near[k]->offset >= at + blocks[i].bytes) break;
        size_t end = near[k]->offset + near[k]->bytes;
        if (end > at) at = end;
    }
    blocks[i].offset = at;
}

static void collect(const struct ls_plan *p, int *parent, struct block *blocks)
{
    for (int v = 0; v < p->n_slots; v++) blocks[v] = (struct block){.value = v, .first = -2, .last = -2};
    for (int v = 0; v < p->n_slots; v++) {
        const struct ls_slot *s = &p->slots[v];
        if (!s->is_used) continue;
        struct block *b = &blocks[root_of(parent, v)];
        if (aligned(s->bytes) > b->bytes) b->bytes = aligned(s->bytes);
        if (b->first == -2 || s->first < b->first) b->first = s->first;
        if (s->last > b->last) b->last = s->last;
    }
    for (int i = 0; i < p->n_ops; i++) {
        size_t bytes = p->ops[i].phase == LS_SHARD ? aligned(p->ops[i].kernel->scratch_bytes) : 0;
        blocks[p->n_slots + i] =
            (struct block){.value = p->n_slots + i, .bytes = bytes, .first = i, .last = end_of(p, i)};
    }
}

/* What the ops of the other phases need, which have the arena to themselves. */
static size_t scratch_outside(const struct ls_plan *p)
{
    size_t most = 0;
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].phase != LS_SHARD && aligned(p->ops[i].kernel->scratch_bytes) > most)
            most = aligned(p->ops[i].kernel->scratch_bytes);
    return most;
}

static void pack(struct ls_plan *p, int *parent, struct block *blocks, const struct block **near, int *place_of)
{
    int n_blocks = p->n_slots + p->n_ops;
    for (int v = 0; v < p->n_slots; v++) parent[v] = v;
    find_lifetimes(p);
    const bool is_apart = keeps_apart(p);
    join_aliases(p, parent, is_apart);
    collect(p, parent, blocks);
    for (int i = 0; is_apart && i < n_blocks; i++) {
        blocks[i].first = -1;
        blocks[i].last = p->n_ops;
    }
    qsort(blocks, (size_t)n_blocks, sizeof *blocks, by_size);
    p->arena_bytes = scratch_outside(p);
    for (int i = 0; i < n_blocks && blocks[i].bytes > 0; i++) {
        place(blocks, i, near);
        if (blocks[i].offset + blocks[i].bytes > p->arena_bytes) p->arena_bytes = blocks[i].offset + blocks[i].bytes;
    }
    for (int i = 0; i < n_blocks; i++) place_of[blocks[i].value] = i;
    for (int v = 0; v < p->n_slots; v++)
        if (p->slots[v].is_used) p->slots[v].offset = blocks[place_of[root_of(parent, v)]].offset;
    for (int i = 0; i < p->n_ops; i++) p->ops[i].scratch_offset = blocks[place_of[p->n_slots + i]].offset;
}

enum ls_status ls__plan_memory(struct ls_plan *p)
{
    size_t n = (size_t)p->n_slots + (size_t)p->n_ops;
    int *parent = NULL, *place_of = NULL;
    struct block *blocks = NULL;
    const struct block **near = NULL;
    enum ls_status status = ls__calloc(&parent, n, sizeof *parent);
    if (status == LS_OK) status = ls__calloc(&place_of, n, sizeof *place_of);
    if (status == LS_OK) status = ls__calloc(&blocks, n, sizeof *blocks);
    if (status == LS_OK) status = ls__calloc(&near, n, sizeof *near);
    if (status == LS_OK) pack(p, parent, blocks, near, place_of);
    free(parent);
    free(place_of);
    free(blocks);
    free(near);
    return status;
}
