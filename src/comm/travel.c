/* travel.c: the sums of a step over the machines, bucket by bucket, as the machine completes them.
 *
 * A bucket travels when the machine's contributions to it are in. It is cut into chunks, and what a machine sends to
 * whom in which hop of a chunk is its way's to say (ring.c, doubling.c). WINDOW chunks are under way at once: while one
 * waits for the network another is packed. Chunk i uses slot i % WINDOW and its tag on every machine, and messages of
 * one sender and tag keep their order, so no two chunks mix. Integers: any order of addition gives the same sum.
 *
 * Numbers travel packed (pack.c), or, where messages stay in one memory, as they are: then they are sent from the block
 * and received into it, without a copy of ours. That is safe because what goes out in a hop is not what comes in; where
 * it is (doubling.c, few numbers) a copy goes out.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "comm/comm_internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = LS_COMM_WINDOW };
_Static_assert(2 * WINDOW <= LS_TRANSPORT_MOST, "more requests than one look takes");

/* A chunk under way, or a free slot. As all of this file the communication thread's. */
struct chunk {
    bool is_active;
    const struct ls__sum_way *way;
    int64_t begin, n; /* of the block */
    int hop, n_hops;
    struct ls__sum_hop now;
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

/* --- a hop --- */

static size_t raw_bytes(int64_t begin, int64_t end)
{
    return (size_t)(end - begin) * sizeof(int64_t);
}

static enum ls_status send_hop(struct ls_comm *c, struct chunk *k, int slot)
{
    const struct ls__sum_hop *h = &k->now;
    const int64_t *from = c->running.block + k->begin + h->out_begin;
    const void *data = k->out;
    size_t bytes = raw_bytes(h->out_begin, h->out_end);
    bool is_apart = h->from < 0 || h->out_end <= h->in_begin || h->in_end <= h->out_begin;
    if (!c->is_raw)
        bytes = ls__pack(from, (size_t)(h->out_end - h->out_begin), k->out);
    else if (is_apart)
        data = from;
    else
        memcpy(k->out, from, bytes);
    return ls__link_begin_send(c, data, bytes, c->leaders[h->to], TAG_SUM + slot, &k->sending);
}

/* Where it comes in directly nothing is left to do then. */
static bool is_direct(const struct ls_comm *c, const struct chunk *k)
{
    return c->is_raw && !k->now.add;
}

static enum ls_status start_hop(struct ls_comm *c, struct chunk *k, int slot)
{
    k->now = k->way->hop(k->n, c->place.machine, c->place.n_machines, k->hop);
    const struct ls__sum_hop *h = &k->now;
    k->is_taken_in = h->from < 0;
    if (h->from >= 0) {
        void *to = is_direct(c, k) ? (void *)(c->running.block + k->begin + h->in_begin) : k->in;
        size_t room = is_direct(c, k) ? raw_bytes(h->in_begin, h->in_end) : k->capacity;
        TRY(ls__link_begin_receive(c, to, room, c->leaders[h->from], TAG_SUM + slot, &k->receiving));
    }
    return h->to >= 0 ? send_hop(c, k, slot) : LS_OK;
}

static void add_raw(const uint8_t *in, int64_t *to, int64_t n)
{
    const int64_t *from = (const int64_t *)(const void *)in; /* aligned: allocated as such */
    for (int64_t i = 0; i < n; i++) to[i] = (int64_t)((uint64_t)to[i] + (uint64_t)from[i]);
}

static enum ls_status take_in(struct ls_comm *c, struct chunk *k)
{
    const struct ls__sum_hop *h = &k->now;
    int64_t *to = c->running.block + k->begin + h->in_begin, n = h->in_end - h->in_begin;
    size_t bytes = k->receiving.bytes;
    atomic_fetch_add_explicit(&c->bytes_received, (long long)bytes, memory_order_relaxed);
    bool is_good =
        c->is_raw ? bytes == raw_bytes(h->in_begin, h->in_end) : ls__unpack(k->in, bytes, to, (size_t)n, h->add);
    if (!is_good)
        return ls_fail(LS_REMOTE, "rank %d got a malformed message from rank %d", c->place.rank, c->leaders[h->from]);
    if (c->is_raw && h->add) add_raw(k->in, to, n);
    k->is_taken_in = true;
    return LS_OK;
}

static enum ls_status advance(struct ls_comm *c, int slot)
{
    struct chunk *k = &c->chunks[slot];
    if (!k->is_taken_in && !k->receiving.is_open) TRY(take_in(c, k));
    if (!k->is_taken_in || k->sending.is_open) return LS_OK;
    if (++k->hop < k->n_hops) return start_hop(c, k, slot);
    k->is_active = false;
    return LS_OK;
}

/* --- all that is under way --- */

/* *has_moved: something came or went. */
static enum ls_status advance_all(struct ls_comm *c, bool *has_moved)
{
    struct ls_request *open[2 * WINDOW];
    int n = 0;
    for (int i = 0; i < WINDOW; i++) {
        struct chunk *k = &c->chunks[i];
        if (k->is_active && k->receiving.is_open) open[n++] = &k->receiving;
        if (k->is_active && k->sending.is_open) open[n++] = &k->sending;
    }
    TRY(ls__link_poll(c, open, n));
    for (int i = 0; i < n; i++) *has_moved |= !open[i]->is_open;
    for (int i = 0; i < WINDOW && *has_moved; i++)
        if (c->chunks[i].is_active) TRY(advance(c, i));
    return LS_OK;
}

static enum ls_status make_chunks(struct ls_comm *c)
{
    if (c->chunks) return LS_OK;
    TRY(ls__calloc(&c->chunks, WINDOW, sizeof *c->chunks));
    size_t bytes = c->is_raw ? (SUM_MOST_NEAR + 1) * sizeof(int64_t) : ls__pack_bound(SUM_MOST + 1);
    for (int i = 0; i < WINDOW; i++) {
        c->chunks[i].capacity = bytes;
        TRY(ls__alloc_aligned(&c->chunks[i].out, bytes));
        TRY(ls__alloc_aligned(&c->chunks[i].in, bytes));
    }
    return LS_OK;
}

void ls__travel_release(struct ls_comm *c)
{
    for (int i = 0; c->chunks && i < WINDOW; i++) {
        ls__free_aligned(c->chunks[i].out, c->chunks[i].capacity);
        ls__free_aligned(c->chunks[i].in, c->chunks[i].capacity);
    }
    free(c->chunks);
    c->chunks = NULL;
}

bool ls__travel_sends_to(const struct ls_comm *c, int machine)
{
    for (int i = 0; c->chunks && i < WINDOW; i++)
        if (c->chunks[i].is_active && c->chunks[i].sending.is_open && c->chunks[i].now.to == machine) return true;
    return false;
}

/* Puts chunks into free slots, as far as buckets are ready. Chunks start in order and each has its own slot. */
static enum ls_status start_chunks(struct ls_comm *c, struct progress *p)
{
    const int n_machines = c->place.n_machines;
    while (p->bucket < c->running.n_buckets) {
        const struct ls_comm_bucket *b = &c->running.buckets[p->bucket];
        const int slot = (int)(p->n_started % WINDOW);
        struct chunk *k = &c->chunks[slot];
        if (k->is_active || atomic_load_explicit(&c->board->parts[p->bucket], memory_order_acquire) < b->n_parts)
            return LS_OK;
        if (p->at < b->begin) p->at = b->begin;
        k->way = ls__sum_way(b->end - b->begin, n_machines, c->is_raw, c->way);
        int64_t n = k->way->chunk(b->end - b->begin, n_machines, c->is_raw);
        k->begin = p->at;
        k->n = p->at + n < b->end ? n : b->end - p->at;
        k->hop = 0;
        k->n_hops = k->way->n_hops(k->n, c->place.machine, n_machines);
        k->is_active = true;
        ls__sum_travels(c, true);
        p->at += k->n;
        p->n_started++;
        if (p->at == b->end) p->bucket++;
        TRY(start_hop(c, k, slot));
        p->moved_ns = ls__now_ns();
    }
    return LS_OK;
}

/* Tells the waiters how far the sums are. Who registers after the look at `awaited` sees the new `summed`. */
static void publish(struct ls_comm *c, struct progress *p)
{
    struct board *b = c->board;
    int64_t end = p->at;
    for (int i = 0; i < WINDOW; i++)
        if (c->chunks[i].is_active && c->chunks[i].begin < end) end = c->chunks[i].begin;
    if (end == p->done_end) return;
    p->done_end = end;
    atomic_store(&b->summed, end);
    if (atomic_load(&b->awaited) > end) return;
    atomic_store(&b->awaited, LLONG_MAX);
    atomic_fetch_add(&b->summed_word, 1);
    ls__futex_wake(&b->summed_word);
}

static bool is_any_active(const struct ls_comm *c)
{
    for (int i = 0; i < WINDOW; i++)
        if (c->chunks[i].is_active) return true;
    return false;
}

/* Nothing has moved. seen: of board->parts_word, before the buckets were looked at. */
static enum ls_status pause(struct ls_comm *c, const struct progress *p, unsigned seen)
{
    enum { HEARTBEAT_NS = 5000000 };
    int64_t waited_ns = ls__now_ns() - p->moved_ns;
    if ((double)waited_ns * 1e-9 > c->timeout) TRY(ls__late_peers(c, (double)waited_ns * 1e-9));
    TRY(ls__ending_check(c));
    TRY(ls__late_ended(c));
    if (is_any_active(c))
        ls__wait_a_little(c, waited_ns, atomic_load_explicit(&c->board->n_waiting, memory_order_relaxed) > 0);
    else
        ls__futex_wait(&c->board->parts_word, seen, HEARTBEAT_NS);
    return LS_OK;
}

enum ls_status ls__travel(struct ls_comm *c)
{
    struct progress p = {.moved_ns = ls__now_ns()};
    TRY(make_chunks(c));
    while (p.bucket < c->running.n_buckets || is_any_active(c)) {
        bool has_moved = false;
        unsigned seen = atomic_load(&c->board->parts_word);
        TRY(start_chunks(c, &p));
        TRY(advance_all(c, &has_moved));
        publish(c, &p);
        ls__sum_travels(c, is_any_active(c));
        ls__link_pump(c);
        if (has_moved || !is_any_active(c)) p.moved_ns = ls__now_ns();
        if (has_moved) continue;
        TRY(pause(c, &p, seen));
    }
    atomic_fetch_add_explicit(&c->n_sums, 1, memory_order_relaxed);
    return LS_OK;
}
