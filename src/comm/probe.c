/* probe.c: what the network between the nodes gives, and what sums cost to travel, both as the ring uses them.
 *
 * Latency: a small message goes round the leaders, one at a time; the median time of a hop, with all that waking up
 * costs. Bandwidth: every leader sends to the next and hears from the one before at the same time, several messages
 * under way, as in a sum. Node 0 has the clock: before each round it tells the others how large the next one is.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "comm/comm_internal.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL = 64, MIN_MESSAGE = 1 << 14, MAX_MESSAGE = 1 << 18, WINDOW = 4, PER_SLOT = 4, MAX_ROUNDS = 128 };

static int next_of(const struct ls_comm *c)
{
    return c->leaders[(c->place.node + 1) % c->place.n_nodes];
}

static int prev_of(const struct ls_comm *c)
{
    return c->leaders[(c->place.node + c->place.n_nodes - 1) % c->place.n_nodes];
}

/* Once around the ring. What node 0 had in `data` all have afterwards. */
static enum ls_status go_round(struct ls_comm *c, void *data, size_t bytes)
{
    if (c->place.node == 0) {
        TRY(ls__link_send(c, data, bytes, next_of(c), TAG_PROBE, c->timeout));
        return ls__link_receive(c, data, bytes, prev_of(c), TAG_PROBE, c->timeout);
    }
    TRY(ls__link_receive(c, data, bytes, prev_of(c), TAG_PROBE, c->timeout));
    return ls__link_send(c, data, bytes, next_of(c), TAG_PROBE, c->timeout);
}

/* One message each way, and how many are left. */
struct slot {
    struct ls_request sending, receiving;
    bool has_sent, has_received;
    int n_left;
};

static enum ls_status begin_slot(struct ls_comm *c, struct slot *s, int i, char *data, size_t bytes)
{
    s->has_sent = s->has_received = false;
    s->n_left--;
    TRY(ls__link_begin_receive(c, data + (size_t)(2 * i) * MAX_MESSAGE, bytes, prev_of(c), TAG_RING + i,
                               &s->receiving));
    return ls__link_begin_send(c, data + (size_t)(2 * i + 1) * MAX_MESSAGE, bytes, next_of(c), TAG_RING + i,
                               &s->sending);
}

/* *is_done: this slot has no more to do. */
static enum ls_status move_slot(struct ls_comm *c, struct slot *s, int i, char *data, size_t bytes, bool *has_moved,
                                bool *is_done)
{
    size_t got;
    bool before = s->has_sent && s->has_received;
    *is_done = before && s->n_left == 0;
    if (*is_done) return LS_OK;
    if (!s->has_received) TRY(ls__link_test(c, &s->receiving, &s->has_received, &got));
    if (!s->has_sent) TRY(ls__link_test(c, &s->sending, &s->has_sent, &got));
    if (!s->has_sent || !s->has_received) return LS_OK;
    *has_moved = true;
    if (s->n_left > 0) return begin_slot(c, s, i, data, bytes);
    *is_done = true;
    return LS_OK;
}

/* WINDOW * PER_SLOT messages each way. */
static enum ls_status stream(struct ls_comm *c, char *data, size_t bytes)
{
    struct slot slots[WINDOW] = {0};
    int64_t moved_ns = ls__now_ns();
    for (int i = 0; i < WINDOW; i++) {
        slots[i].n_left = PER_SLOT;
        TRY(begin_slot(c, &slots[i], i, data, bytes));
    }
    for (int n_idle = 0, n_done = 0; n_done < WINDOW;) {
        bool has_moved = false, is_done;
        n_done = 0;
        for (int i = 0; i < WINDOW; i++) {
            TRY(move_slot(c, &slots[i], i, data, bytes, &has_moved, &is_done));
            n_done += is_done;
        }
        TRY(ls__link_pump(c));
        if (has_moved) {
            n_idle = 0;
            moved_ns = ls__now_ns();
            continue;
        }
        if (ls__seconds_since(moved_ns) > c->timeout) TRY(ls__late_peers(c, ls__seconds_since(moved_ns)));
        ls__link_idle(c, &n_idle);
    }
    return LS_OK;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_size);
    return n ? x[n / 2] : 0;
}

struct probe {
    double seconds, latency, bandwidth;
    char *data; /* a message each way for every slot */
};

static enum ls_status measure_latency(struct ls_comm *c, struct probe *p, int n_rounds)
{
    double times[MAX_ROUNDS];
    for (int i = 0; i < n_rounds; i++) {
        int64_t start = ls__now_ns();
        TRY(go_round(c, p->data, SMALL));
        times[i] = ls__seconds_since(start) / c->place.n_nodes;
    }
    p->latency = median(times, n_rounds);
    return LS_OK;
}

/* Messages grow as long as a round is short. */
static enum ls_status measure_bandwidth(struct ls_comm *c, struct probe *p)
{
    double rates[MAX_ROUNDS];
    int n = 0;
    int64_t begin = ls__now_ns(), bytes = MIN_MESSAGE;
    for (;;) {
        TRY(go_round(c, &bytes, sizeof bytes)); /* node 0's word */
        if (bytes == 0) break;
        int64_t start = ls__now_ns();
        TRY(stream(c, p->data, (size_t)bytes));
        double took = ls__seconds_since(start);
        if (c->place.node > 0) continue;
        rates[n++] = (double)bytes * WINDOW * PER_SLOT / took;
        if (n == MAX_ROUNDS || ls__seconds_since(begin) + took > p->seconds) {
            bytes = 0;
        } else if (bytes < MAX_MESSAGE && took < p->seconds / 20) {
            bytes *= 2;
            n = 0; /* small ones do not count */
        }
    }
    p->bandwidth = median(rates, n);
    return LS_OK;
}

static enum ls_status probe(struct ls_comm *c, void *arg)
{
    struct probe *p = arg;
    const size_t bytes = (size_t)MAX_MESSAGE * 2 * WINDOW;
    struct ls_comm_stats before = c->stats; /* not what a user wants counted */
    double first;
    TRY(ls__alloc_aligned(&p->data, bytes));
    int64_t start = ls__now_ns();
    enum ls_status status = measure_latency(c, p, 4); /* connections are made with the first message */
    first = ls__seconds_since(start) / 4;
    int64_t n_rounds = (int64_t)(p->seconds / 4 / (first > 1e-6 ? first : 1e-6));
    n_rounds = n_rounds < 5 ? 5 : n_rounds > MAX_ROUNDS ? MAX_ROUNDS : n_rounds;
    if (status == LS_OK) status = go_round(c, &n_rounds, sizeof n_rounds); /* node 0's word */
    if (status == LS_OK) status = measure_latency(c, p, (int)n_rounds);
    p->seconds *= 0.75;
    if (status == LS_OK) status = measure_bandwidth(c, p);
    ls__free_aligned(p->data, bytes);
    c->stats = before;
    return status;
}

enum ls_status ls_comm_probe(struct ls_comm *c, double seconds, double *latency, double *bandwidth)
{
    struct probe p = {.seconds = seconds};
    double found[2] = {0, 0};
    *latency = *bandwidth = 0;
    if (c->place.n_nodes == 1) return LS_OK;
    if (c->place.seat == 0) TRY(ls__courier_call(c, probe, &p));
    found[0] = p.latency;
    found[1] = p.bandwidth;
    TRY(ls_comm_broadcast(c, 0, found, sizeof found));
    *latency = found[0];
    *bandwidth = found[1];
    return LS_OK;
}

/* --- what sums weigh --- */

enum { PIECE = 1 << 16 };

enum ls_status ls_comm_weigh(const int64_t *sums, int64_t n, struct ls_comm_weight *weight)
{
    struct {
        int64_t sums[PIECE];
        uint8_t packed[];
    } * room;
    *weight = (struct ls_comm_weight){0};
    TRY(ls__calloc(&room, 1, sizeof *room + ls__pack_bound(PIECE)));
    for (int64_t at = 0; at < n; at += PIECE) {
        size_t count = (size_t)(n - at < PIECE ? n - at : PIECE);
        int64_t start = ls__now_ns();
        size_t bytes = ls__pack(sums + at, count, room->packed);
        int64_t packed = ls__now_ns();
        bool is_good = ls__unpack(room->packed, bytes, room->sums, count, true);
        weight->unpack_seconds += ls__seconds_since(packed);
        weight->pack_seconds += (double)(packed - start) * 1e-9;
        weight->bytes += (double)bytes;
        if (is_good) continue;
        free(room);
        return ls_fail(LS_INTERNAL, "%zu packed sums cannot be unpacked", count);
    }
    free(room);
    return LS_OK;
}
