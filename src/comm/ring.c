/* ring.c: the sum of the block over the nodes, bucket by bucket, on the courier's thread.
 *
 * A bucket travels when the node's contributions to it are in. It is cut into chunks, and a chunk into as many slices
 * as there are nodes. In a ring of P nodes, each sends to the next and receives from the one before:
 *
 *     hop 0 .. P-2       slice (node - hop) goes out, slice (node - hop - 1) comes in and is added
 *     hop P-1 .. 2P-3    slice (node + P - hop) goes out, slice (node + P - 1 - hop) comes in and replaces
 *
 * so 2(P-1)/P of the data leaves each node, packed (pack.c). WINDOW chunks are under way at once: while one waits for
 * the network another is packed. Chunk i uses slot i % WINDOW and its tag on every node, and messages of one tag keep
 * their order, so no two chunks mix. Integers: any order of addition gives the same sum.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "comm/comm_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 8, CHUNK = 1 << 15 };

struct ring {
    bool is_active;
    int hop;
    int64_t begin, end; /* of the block */
    struct ls_request sending, receiving;
    bool has_sent, has_received;
    size_t bytes; /* received */
    uint8_t *out, *in;
    size_t capacity;
};

/* Where the sum job stands. */
struct progress {
    int bucket;        /* next to start */
    int64_t at;        /* element within it */
    int64_t n_started; /* chunks */
    int64_t done_end;  /* all before it is summed */
    int64_t moved_ns;  /* when anything last moved */
};

static int64_t slice_begin(const struct ring *r, int slice, int p)
{
    return r->begin + (r->end - r->begin) * slice / p;
}

static int wrap(int slice, int p)
{
    return (slice % p + p) % p;
}

static enum ls_status start_hop(struct ls_comm *c, struct ring *r, int slot)
{
    int p = c->place.n_nodes, out = wrap(c->place.node - r->hop + (r->hop >= p - 1 ? p : 0), p);
    int64_t begin = slice_begin(r, out, p), end = slice_begin(r, out + 1, p);
    size_t bytes = ls__pack(c->running.block + begin, (size_t)(end - begin), r->out);
    r->has_sent = r->has_received = false;
    TRY(ls__link_begin_receive(c, r->in, r->capacity, c->leaders[wrap(c->place.node - 1, p)], TAG_RING + slot,
                               &r->receiving));
    return ls__link_begin_send(c, r->out, bytes, c->leaders[wrap(c->place.node + 1, p)], TAG_RING + slot, &r->sending);
}

static enum ls_status take_in(struct ls_comm *c, struct ring *r)
{
    int p = c->place.n_nodes, in = wrap(c->place.node - r->hop - 1 + (r->hop >= p - 1 ? p : 0), p);
    int64_t begin = slice_begin(r, in, p), end = slice_begin(r, in + 1, p);
    c->stats.bytes_received += (int64_t)r->bytes;
    if (!ls__unpack(r->in, r->bytes, c->running.block + begin, (size_t)(end - begin), r->hop < p - 1))
        return ls_fail(LS_REMOTE, "rank %d got a malformed message from rank %d", c->place.rank,
                       c->leaders[wrap(c->place.node - 1, p)]);
    return LS_OK;
}

/* *has_moved: something came or went. */
static enum ls_status advance(struct ls_comm *c, int slot, bool *has_moved)
{
    struct ring *r = &c->rings[slot];
    bool is_done = false;
    size_t bytes;
    if (!r->has_received) {
        TRY(ls__link_test(c, &r->receiving, &is_done, &bytes));
        if (is_done) {
            r->bytes = bytes;
            TRY(take_in(c, r));
        }
        r->has_received = is_done;
        *has_moved |= is_done;
    }
    if (!r->has_sent) {
        TRY(ls__link_test(c, &r->sending, &r->has_sent, &bytes));
        *has_moved |= r->has_sent;
    }
    if (!r->has_sent || !r->has_received) return LS_OK;
    if (++r->hop < 2 * (c->place.n_nodes - 1)) return start_hop(c, r, slot);
    r->is_active = false;
    return LS_OK;
}

static enum ls_status make_rings(struct ls_comm *c)
{
    if (c->rings) return LS_OK;
    TRY(ls__calloc(&c->rings, WINDOW, sizeof *c->rings));
    size_t bytes = ls__pack_bound((size_t)(CHUNK / c->place.n_nodes + 1));
    for (int i = 0; i < WINDOW; i++) {
        c->rings[i].capacity = bytes;
        TRY(ls__alloc_aligned(&c->rings[i].out, bytes));
        TRY(ls__alloc_aligned(&c->rings[i].in, bytes));
    }
    return LS_OK;
}

void ls__ring_release(struct ls_comm *c)
{
    for (int i = 0; c->rings && i < WINDOW; i++) {
        ls__free_aligned(c->rings[i].out, c->rings[i].capacity);
        ls__free_aligned(c->rings[i].in, c->rings[i].capacity);
    }
    free(c->rings);
    c->rings = NULL;
}

/* Puts chunks into free slots, as far as buckets are ready. Chunks start in order and each has its own slot. */
static enum ls_status start_chunks(struct ls_comm *c, struct progress *p)
{
    while (p->bucket < c->running.n_buckets) {
        const struct ls_comm_bucket *b = &c->running.buckets[p->bucket];
        struct ring *r = &c->rings[p->n_started % WINDOW];
        if (r->is_active || atomic_load_explicit(&c->board->parts[p->bucket], memory_order_acquire) < b->n_parts)
            return LS_OK;
        if (p->at < b->begin) p->at = b->begin;
        r->begin = p->at;
        r->end = p->at = p->at + CHUNK < b->end ? p->at + CHUNK : b->end;
        r->hop = 0;
        r->is_active = true;
        TRY(start_hop(c, r, (int)(p->n_started++ % WINDOW)));
        if (p->at == b->end) p->bucket++;
        p->moved_ns = ls__now_ns();
    }
    return LS_OK;
}

/* Tells the waiters how far the sums are. */
static void publish(struct ls_comm *c, struct progress *p)
{
    int64_t end = p->at;
    for (int i = 0; i < WINDOW; i++)
        if (c->rings[i].is_active && c->rings[i].begin < end) end = c->rings[i].begin;
    if (end == p->done_end) return;
    p->done_end = end;
    atomic_store_explicit(&c->board->summed, end, memory_order_release);
    atomic_fetch_add(&c->board->summed_word, 1);
    ls__futex_wake(&c->board->summed_word);
}

static bool is_any_active(const struct ls_comm *c)
{
    for (int i = 0; i < WINDOW; i++)
        if (c->rings[i].is_active) return true;
    return false;
}

enum ls_status ls__ring_run(struct ls_comm *c)
{
    struct progress p = {.moved_ns = ls__now_ns()};
    int n_idle = 0;
    TRY(make_rings(c));
    while (p.bucket < c->running.n_buckets || is_any_active(c)) {
        bool has_moved = false;
        TRY(start_chunks(c, &p));
        for (int i = 0; i < WINDOW; i++)
            if (c->rings[i].is_active) TRY(advance(c, i, &has_moved));
        publish(c, &p);
        TRY(ls__link_pump(c));
        if (has_moved || !is_any_active(c)) p.moved_ns = ls__now_ns();
        if (has_moved) {
            n_idle = 0;
            continue;
        }
        if (ls__seconds_since(p.moved_ns) > c->timeout) TRY(ls__late_peers(c, ls__seconds_since(p.moved_ns)));
        TRY(ls__late_ended(c));
        ls__link_idle(c, &n_idle);
    }
    c->stats.n_sums++;
    return LS_OK;
}
