/* ring.c: a way to sum (struct ls__sum_way): the block over the machines, bucket by bucket, in a ring.
 *
 * A bucket travels when the machine's contributions to it are in. It is cut into chunks, and a chunk into as many
 * slices as there are machines. In a ring of P machines, each sends to the next and receives from the one before:
 *
 *     hop 0 .. P-2       slice (machine - hop) goes out, slice (machine - hop - 1) comes in and is added
 *     hop P-1 .. 2P-3    slice (machine + P - hop) goes out, slice (machine + P - 1 - hop) comes in and replaces
 *
 * so 2(P-1)/P of the data leaves each machine, packed (pack.c). WINDOW chunks are under way at once: while one waits
 * for the network another is packed. Chunk i uses slot i % WINDOW and its tag on every machine, and messages of one tag
 * keep their order, so no two chunks mix. Integers: any order of addition gives the same sum.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "comm/comm_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = LS_COMM_WINDOW };
/* Sums of a message, 5 bytes each: large enough to pay, below the 64 KiB that MPI sends without asking first. */
enum { LEAST_SLICE = 1 << 11, MOST_SLICE = 1 << 13 };
_Static_assert(2 * WINDOW <= LS_TRANSPORT_MOST, "more requests than one look takes");

/* A chunk under way. As all of this file the communication thread's. */
struct ring {
    bool is_active;
    int hop;
    int64_t begin, end; /* of the block */
    struct ls_request sending, receiving;
    bool is_taken_in; /* what was received */
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

static struct ring *rings_of(const struct ls_comm *c)
{
    return c->sum_state;
}

/* Small buckets fill the window too: while one chunk is on its way another is on the wire. */
int64_t ls_comm_chunk(int64_t n, int n_machines)
{
    int64_t slice = n / (WINDOW * (int64_t)n_machines);
    return n_machines * (slice < LEAST_SLICE ? LEAST_SLICE : slice > MOST_SLICE ? MOST_SLICE : slice);
}

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
    int p = c->place.n_machines, out = wrap(c->place.machine - r->hop + (r->hop >= p - 1 ? p : 0), p);
    int64_t begin = slice_begin(r, out, p), end = slice_begin(r, out + 1, p);
    size_t bytes = ls__pack(c->running.block + begin, (size_t)(end - begin), r->out);
    r->is_taken_in = false;
    TRY(ls__link_begin_receive(c, r->in, r->capacity, c->leaders[wrap(c->place.machine - 1, p)], TAG_RING + slot,
                               &r->receiving));
    return ls__link_begin_send(c, r->out, bytes, c->leaders[wrap(c->place.machine + 1, p)], TAG_RING + slot,
                               &r->sending);
}

static enum ls_status take_in(struct ls_comm *c, struct ring *r)
{
    int p = c->place.n_machines, in = wrap(c->place.machine - r->hop - 1 + (r->hop >= p - 1 ? p : 0), p);
    int64_t begin = slice_begin(r, in, p), end = slice_begin(r, in + 1, p);
    size_t bytes = r->receiving.bytes;
    atomic_fetch_add_explicit(&c->bytes_received, (long long)bytes, memory_order_relaxed);
    if (!ls__unpack(r->in, bytes, c->running.block + begin, (size_t)(end - begin), r->hop < p - 1))
        return ls_fail(LS_REMOTE, "rank %d got a malformed message from rank %d", c->place.rank,
                       c->leaders[wrap(c->place.machine - 1, p)]);
    r->is_taken_in = true;
    return LS_OK;
}

static enum ls_status advance(struct ls_comm *c, int slot)
{
    struct ring *r = &rings_of(c)[slot];
    if (!r->is_taken_in && !r->receiving.is_open) TRY(take_in(c, r));
    if (!r->is_taken_in || r->sending.is_open) return LS_OK;
    if (++r->hop < 2 * (c->place.n_machines - 1)) return start_hop(c, r, slot);
    r->is_active = false;
    return LS_OK;
}

/* *has_moved: something came or went. */
static enum ls_status advance_all(struct ls_comm *c, bool *has_moved)
{
    struct ls_request *open[2 * WINDOW];
    int n = 0;
    for (int i = 0; i < WINDOW; i++) {
        struct ring *r = &rings_of(c)[i];
        if (r->is_active && r->receiving.is_open) open[n++] = &r->receiving;
        if (r->is_active && r->sending.is_open) open[n++] = &r->sending;
    }
    TRY(ls__link_poll(c, open, n));
    for (int i = 0; i < n; i++) *has_moved |= !open[i]->is_open;
    for (int i = 0; i < WINDOW && *has_moved; i++)
        if (rings_of(c)[i].is_active) TRY(advance(c, i));
    return LS_OK;
}

static enum ls_status make_rings(struct ls_comm *c)
{
    struct ring *rings;
    if (c->sum_state) return LS_OK;
    TRY(ls__calloc(&rings, WINDOW, sizeof *rings));
    c->sum_state = rings;
    size_t bytes = ls__pack_bound(MOST_SLICE + 1);
    for (int i = 0; i < WINDOW; i++) {
        rings[i].capacity = bytes;
        TRY(ls__alloc_aligned(&rings[i].out, bytes));
        TRY(ls__alloc_aligned(&rings[i].in, bytes));
    }
    return LS_OK;
}

static void release(struct ls_comm *c)
{
    struct ring *rings = rings_of(c);
    for (int i = 0; rings && i < WINDOW; i++) {
        ls__free_aligned(rings[i].out, rings[i].capacity);
        ls__free_aligned(rings[i].in, rings[i].capacity);
    }
    free(rings);
    c->sum_state = NULL;
}

/* Puts chunks into free slots, as far as buckets are ready. Chunks start in order and each has its own slot. */
static enum ls_status start_chunks(struct ls_comm *c, struct progress *p)
{
    while (p->bucket < c->running.n_buckets) {
        const struct ls_comm_bucket *b = &c->running.buckets[p->bucket];
        struct ring *r = &rings_of(c)[p->n_started % WINDOW];
        if (r->is_active || atomic_load_explicit(&c->board->parts[p->bucket], memory_order_acquire) < b->n_parts)
            return LS_OK;
        if (p->at < b->begin) p->at = b->begin;
        r->begin = p->at;
        int64_t chunk = ls_comm_chunk(b->end - b->begin, c->place.n_machines);
        r->end = p->at = p->at + chunk < b->end ? p->at + chunk : b->end;
        r->hop = 0;
        r->is_active = true;
        ls__sum_travels(c, true);
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
        if (rings_of(c)[i].is_active && rings_of(c)[i].begin < end) end = rings_of(c)[i].begin;
    if (end == p->done_end) return;
    p->done_end = end;
    atomic_store_explicit(&c->board->summed, end, memory_order_release);
    atomic_fetch_add(&c->board->summed_word, 1);
    ls__futex_wake(&c->board->summed_word);
}

static bool is_any_active(const struct ls_comm *c)
{
    for (int i = 0; i < WINDOW; i++)
        if (rings_of(c)[i].is_active) return true;
    return false;
}

static enum ls_status run(struct ls_comm *c)
{
    struct progress p = {.moved_ns = ls__now_ns()};
    int n_idle = 0;
    TRY(make_rings(c));
    while (p.bucket < c->running.n_buckets || is_any_active(c)) {
        bool has_moved = false;
        TRY(start_chunks(c, &p));
        TRY(advance_all(c, &has_moved));
        publish(c, &p);
        ls__sum_travels(c, is_any_active(c));
        ls__link_pump(c);
        if (has_moved || !is_any_active(c)) p.moved_ns = ls__now_ns();
        if (has_moved) {
            n_idle = 0;
            continue;
        }
        if (ls__seconds_since(p.moved_ns) > c->timeout) TRY(ls__late_peers(c, ls__seconds_since(p.moved_ns)));
        TRY(ls__ending_check(c));
        TRY(ls__late_ended(c));
        ls__link_idle(c, &n_idle);
    }
    atomic_fetch_add_explicit(&c->n_sums, 1, memory_order_relaxed);
    return LS_OK;
}

const struct ls__sum_way ls__sum_ring = {.name = "ring", .run = run, .release = release};
