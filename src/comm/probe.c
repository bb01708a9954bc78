/* probe.c: what the network between the machines gives, and what sums cost to travel.
 *
 * Latency: a small message goes round the leaders, one at a time; the median time of a hop, with all that waking up
 * costs. Then all exchange at once, as in every sum: where machines share cores and take turns on them a hop takes
 * longer so, and the longer of the two counts. Bandwidth: the leaders add up numbers nobody needs, the way gradients
 * are, so what a sum of a step will get is what is measured; once with idle cores and once while threads compute, whose
 * loss of speed is what sums take from computing: packing, the network's own work in the kernel, and whatever else
 * shares the cores. Machine 0 has the clock: before each round it tells the others how large the next one is.
 *
 * A sum has a few hundred kilobytes under way at most, which over a long line is less than the line holds: then it
 * measures the latency, not the bandwidth, and what a plain stream gets counts instead. How a sum waits on such a line
 * is the prediction's to say.
 */
#include "base/clock.h"
#include "base/median.h"
#include "base/mem.h"
#include "comm/comm_internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SMALL = 64, MIN_SUMS = 1 << 13, MAX_SUMS = 1 << 21, MAX_ROUNDS = 128 };

static int next_of(const struct ls_comm *c)
{
    return c->leaders[(c->place.machine + 1) % c->place.n_machines];
}

static int prev_of(const struct ls_comm *c)
{
    return c->leaders[(c->place.machine + c->place.n_machines - 1) % c->place.n_machines];
}

/* Once around the ring. What machine 0 had in `data` all have afterwards. */
static enum ls_status go_round(struct ls_comm *c, void *data, size_t bytes)
{
    if (c->place.machine == 0) {
        TRY(ls__link_send(c, data, bytes, next_of(c), TAG_PROBE, c->timeout));
        return ls__link_receive(c, data, bytes, prev_of(c), TAG_PROBE, c->timeout);
    }
    TRY(ls__link_receive(c, data, bytes, prev_of(c), TAG_PROBE, c->timeout));
    return ls__link_send(c, data, bytes, next_of(c), TAG_PROBE, c->timeout);
}

/* Machine 0's, to all: in a tree, since a round takes the longer the more machines there are. */
static enum ls_status hear_word(struct ls_comm *c, int64_t *word)
{
    struct broadcast b = {.data = (char *)word, .bytes = sizeof *word, .is_among_machines = true};
    return ls__broadcast(c, &b);
}

/* Numbers that take as many bytes as gradients do, added up over the machines. */
static enum ls_status sum_up(struct ls_comm *c, int64_t *sums, int64_t n)
{
    const int bits = 34;
    for (int64_t i = 0; i < n; i++) sums[i] = (int64_t)((uint64_t)(i + 1) * 0x9e3779b97f4a7c15u) >> (64 - bits);
    c->running.block = sums;
    c->running.n_buckets = 1;
    c->running.buckets[0] = (struct ls_comm_bucket){.begin = 0, .end = n, .n_parts = 0};
    return ls__travel(c);
}

struct probe {
    double seconds; /* for a part of it */
    int n_threads;
    struct ls_comm_network network;
    int64_t *data; /* [MAX_SUMS] */
    bool is_far;   /* machine 0's: sums wait for the latency more than for the bandwidth */
};

/* --- threads that compute --- */

enum { MAX_CROWD = 256 };

struct crowd {
    pthread_t threads[MAX_CROWD];
    int n;
    int64_t end_ns; /* they stop by themselves then */
    atomic_bool is_ending;
    struct {
        _Alignas(64) atomic_llong done; /* pieces of work */
    } count[MAX_CROWD];
};

struct member {
    struct crowd *crowd;
    int index;
};

static void *compute(void *arg)
{
    struct member m = *(struct member *)arg;
    volatile double sink;
    double x = 1;
    free(arg);
    while (!atomic_load_explicit(&m.crowd->is_ending, memory_order_relaxed) && ls__now_ns() < m.crowd->end_ns) {
        for (int i = 0; i < 1000; i++) x = x * 0.999 + 0.001;
        atomic_fetch_add_explicit(&m.crowd->count[m.index].done, 1, memory_order_relaxed);
    }
    sink = x;
    (void)sink;
    return NULL;
}

/* As many of n as can be had. */
static void crowd_start(struct crowd *crowd, int n, double seconds)
{
    crowd->end_ns = ls__now_ns() + (int64_t)(seconds * 1e9);
    for (int i = 0; i < n && i < MAX_CROWD; i++) {
        struct member *m;
        if (ls__calloc(&m, 1, sizeof *m) != LS_OK) return;
        *m = (struct member){crowd, i};
        if (pthread_create(&crowd->threads[i], NULL, compute, m) != 0) {
            free(m);
            return;
        }
        crowd->n++;
    }
}

static void crowd_stop(struct crowd *crowd)
{
    atomic_store(&crowd->is_ending, true);
    for (int i = 0; i < crowd->n; i++) pthread_join(crowd->threads[i], NULL);
}

static int64_t crowd_work(struct crowd *crowd)
{
    int64_t done = 0;
    for (int i = 0; crowd && i < crowd->n; i++)
        done += atomic_load_explicit(&crowd->count[i].done, memory_order_relaxed);
    return done;
}

/* --- messages --- */

static enum ls_status measure_latency(struct ls_comm *c, struct probe *p, int n_rounds)
{
    double times[MAX_ROUNDS];
    for (int i = 0; i < n_rounds; i++) {
        int64_t start = ls__now_ns();
        TRY(go_round(c, p->data, SMALL));
        times[i] = ls__seconds_since(start) / c->place.n_machines;
    }
    p->network.latency = ls__median(times, n_rounds);
    return LS_OK;
}

/* What a hop takes in sums of a few numbers, at best. Several of them in a row: they do not begin together. */
static enum ls_status measure_hop(struct ls_comm *c, struct probe *p)
{
    enum { IN_A_ROW = 4, LEAST = 3 };
    const int n_machines = c->place.n_machines;
    const struct ls__sum_way *way = ls__sum_way(SMALL, n_machines, c->is_raw, c->way);
    const int n_hops = way->n_hops(SMALL, 0, n_machines);
    double hop = 1e9;
    int n = 0;
    int64_t begin = ls__now_ns(), is_more = 1;
    for (;;) {
        TRY(hear_word(c, &is_more));
        if (!is_more) break;
        const int64_t start = ls__now_ns();
        for (int i = 0; i < IN_A_ROW; i++) TRY(sum_up(c, p->data, SMALL));
        if (c->place.machine > 0) continue;
        const double took = ls__seconds_since(start) / (IN_A_ROW * n_hops);
        hop = took < hop ? took : hop;
        is_more = ++n < LEAST || (n < MAX_ROUNDS && ls__seconds_since(begin) < p->seconds / 8);
    }
    if (c->place.machine == 0 && hop > p->network.latency) p->network.latency = hop;
    return LS_OK;
}

/* Machine 0: how large the next round is, 0 for none. Rounds grow until they are long enough to say something. */
static int64_t next_size(const struct ls_comm *c, const struct probe *p, int64_t begin, double took, int64_t n,
                         int64_t most)
{
    double latencies = 10 * c->place.n_machines * p->network.latency, tenth = p->seconds / 10;
    if (ls__seconds_since(begin) + took > p->seconds) return 0;
    return n < most && took < (latencies > tenth ? latencies : tenth) ? 2 * n : n;
}

/* *work: pieces per second the crowd does meanwhile. */
static enum ls_status measure_sums(struct ls_comm *c, struct probe *p, struct crowd *crowd, double *bandwidth,
                                   double *work)
{
    double rates[MAX_ROUNDS] = {0}, works[MAX_ROUNDS] = {0}, took = 0;
    int n_rounds = 0;
    int64_t begin = ls__now_ns(), n = MIN_SUMS;
    for (;;) {
        TRY(hear_word(c, &n));
        if (n == 0) break;
        int64_t start = ls__now_ns(), work_start = crowd_work(crowd), sent = atomic_load(&c->bytes_sent);
        TRY(sum_up(c, p->data, n));
        took = ls__seconds_since(start);
        if (c->place.machine > 0) continue;
        works[n_rounds] = (double)(crowd_work(crowd) - work_start) / took;
        rates[n_rounds++] = (double)(atomic_load(&c->bytes_sent) - sent) / took;
        int64_t next = n_rounds == MAX_ROUNDS ? 0 : next_size(c, p, begin, took, n, MAX_SUMS);
        if (next > n) n_rounds = 0; /* small ones do not count */
        n = next;
    }
    p->is_far = 2 * (c->place.n_machines - 1) * p->network.latency > took / 4;
    *bandwidth = ls__median(rates, n_rounds);
    *work = ls__median(works, n_rounds);
    return LS_OK;
}

/* --- a stream --- */

enum { STREAM_DEPTH = LS_TRANSPORT_MOST / 2, STREAM_BYTES = 60000 }; /* MPI sends as much without asking first */
_Static_assert(2 * STREAM_DEPTH * STREAM_BYTES <= MAX_SUMS * 8, "the messages under way do not fit");

/* Messages of one direction; those under way stand together at the front. */
struct flow {
    struct ls_request requests[STREAM_DEPTH];
    int64_t n_left;
};

static enum ls_status refill(struct ls_comm *c, struct flow *f, char *data, bool is_out)
{
    for (int i = 0; i < STREAM_DEPTH && f->n_left > 0; i++) {
        char *at = data + (size_t)i * STREAM_BYTES;
        struct ls_request *r = &f->requests[i];
        if (r->is_open) continue;
        TRY(is_out ? ls__link_begin_send(c, at, STREAM_BYTES, next_of(c), TAG_PROBE, r)
                   : ls__link_begin_receive(c, at, STREAM_BYTES, prev_of(c), TAG_PROBE, r));
        f->n_left--;
    }
    return LS_OK;
}

/* n messages to the next machine while as many come from the one before. */
static enum ls_status stream(struct ls_comm *c, struct probe *p, int64_t n)
{
    struct flow in = {.n_left = n}, out = {.n_left = n};
    char *data = (char *)p->data;
    int64_t moved_ns = ls__now_ns();
    for (;;) {
        struct ls_request *open[2 * STREAM_DEPTH];
        int n_open = 0, n_left = 0;
        TRY(refill(c, &in, data, false));
        TRY(refill(c, &out, data + (size_t)STREAM_DEPTH * STREAM_BYTES, true));
        for (int i = 0; i < STREAM_DEPTH; i++) {
            if (in.requests[i].is_open) open[n_open++] = &in.requests[i];
            if (out.requests[i].is_open) open[n_open++] = &out.requests[i];
        }
        if (n_open == 0) return LS_OK;
        TRY(ls__link_poll(c, open, n_open));
        for (int i = 0; i < n_open; i++) n_left += open[i]->is_open;
        ls__link_pump(c);
        if (n_left < n_open) {
            moved_ns = ls__now_ns();
            continue;
        }
        if (ls__seconds_since(moved_ns) > c->timeout) TRY(ls__late_peers(c, ls__seconds_since(moved_ns)));
        TRY(ls__ending_check(c));
        TRY(ls__late_ended(c));
        ls__wait_a_little(c, ls__now_ns() - moved_ns, true);
    }
}

/* The best of rounds that grow: a connection begins slowly. */
static enum ls_status measure_stream(struct ls_comm *c, struct probe *p, double *bandwidth)
{
    enum { FIRST = 16, MOST = 1 << 14 };
    int64_t begin = ls__now_ns(), n = p->is_far ? FIRST : 0;
    *bandwidth = 0;
    for (;;) {
        TRY(hear_word(c, &n));
        if (n == 0) return LS_OK;
        int64_t start = ls__now_ns();
        TRY(stream(c, p, n));
        double took = ls__seconds_since(start), rate = (double)n * STREAM_BYTES / took;
        if (c->place.machine > 0) continue;
        if (rate > *bandwidth) *bandwidth = rate;
        n = next_size(c, p, begin, took, n, MOST);
    }
}

/* With idle cores. */
static enum ls_status measure_idle(struct ls_comm *c, struct probe *p, double *sums)
{
    double unused, plain;
    TRY(measure_sums(c, p, NULL, sums, &unused));
    TRY(measure_stream(c, p, &plain));
    p->network.bandwidth = plain > *sums ? plain : *sums;
    return LS_OK;
}

/* All machines compute, at first in silence. sums: what they get with idle cores. Where "machines" share their cores, a
 * sum waits at every hop until those who compute make room, the longer the more there are: so computing ends after a
 * while, and then nothing is known of its cost. */
static enum ls_status measure_busy(struct ls_comm *c, struct probe *p, double sums)
{
    const struct timespec pause = {0, 20000000};
    struct crowd *crowd;
    double silent = 0, travelling = 0, busy = 0;
    TRY(ls__alloc_aligned(&crowd, sizeof *crowd));
    memset(crowd, 0, sizeof *crowd);
    crowd_start(crowd, p->n_threads, 1.5 * p->seconds);
    enum ls_status status = go_round(c, p->data, SMALL); /* all have begun */
    int64_t start = ls__now_ns(), work = crowd_work(crowd);
    while (status == LS_OK && ls__seconds_since(start) < p->seconds / 3) {
        nanosleep(&pause, NULL);
        ls__link_pump(c);
    }
    silent = (double)(crowd_work(crowd) - work) / ls__seconds_since(start);
    p->seconds *= 2.0 / 3;
    if (status == LS_OK) status = measure_sums(c, p, crowd, &busy, &travelling);
    bool is_known = ls__now_ns() < crowd->end_ns;
    if (!is_known) busy = sums;
    if (busy > sums) p->network.bandwidth *= sums > 0 ? busy / sums : 1;
    p->network.busy_bandwidth = p->network.bandwidth * (busy < sums ? busy / sums : 1);
    p->network.cpu = is_known && silent > travelling ? crowd->n * (1 - travelling / silent) : 0;
    crowd_stop(crowd);
    ls__free_aligned(crowd, sizeof *crowd);
    return status;
}

static enum ls_status measure(struct ls_comm *c, struct probe *p)
{
    enum { FIRST = 2 }; /* a round passes every machine: with many of them even a few take long */
    double sums = 0;
    int64_t start = ls__now_ns();
    TRY(measure_latency(c, p, FIRST)); /* connections are made with the first message */
    double first = ls__seconds_since(start) / FIRST;
    int64_t n_rounds = (int64_t)(p->seconds / 4 / (first > 1e-6 ? first : 1e-6));
    n_rounds = n_rounds < FIRST ? FIRST : n_rounds > MAX_ROUNDS ? MAX_ROUNDS : n_rounds;
    TRY(hear_word(c, &n_rounds));
    TRY(measure_latency(c, p, (int)n_rounds));
    TRY(measure_hop(c, p));
    p->seconds *= 0.35;
    TRY(measure_idle(c, p, &sums));
    return measure_busy(c, p, sums);
}

static enum ls_status probe(struct ls_comm *c, void *arg)
{
    struct probe *p = arg;
    const size_t bytes = MAX_SUMS * sizeof *p->data;
    const struct ls_comm_stats before = ls_comm_stats(c); /* not what a user wants counted */
    TRY(ls__alloc_aligned(&p->data, bytes));
    enum ls_status status = measure(c, p);
    ls__free_aligned(p->data, bytes);
    atomic_store(&c->bytes_sent, before.bytes_sent);
    atomic_store(&c->bytes_received, before.bytes_received);
    atomic_store(&c->n_sums, before.n_sums);
    return status;
}

enum ls_status ls_comm_probe(struct ls_comm *c, double seconds, int n_threads, struct ls_comm_network *network)
{
    struct probe p = {.seconds = seconds, .n_threads = n_threads};
    *network = (struct ls_comm_network){0};
    if (c->place.n_machines == 1) return LS_OK;
    if (c->place.local_rank == 0) TRY(ls__comm_thread_call(c, probe, &p));
    *network = p.network;
    return ls_comm_broadcast(c, 0, network, sizeof *network);
}

/* --- what sums weigh --- */

enum { PIECE = 1 << 16 };

struct weighing {
    int64_t sums[PIECE], copy[PIECE];
    uint8_t packed[];
};

static bool weigh_piece(struct weighing *room, const int64_t *sums, size_t n, bool is_near, struct ls_comm_weight *w)
{
    int64_t start = ls__now_ns(), packed;
    bool is_good = true;
    size_t bytes = n * sizeof *sums;
    if (is_near) { /* sent as it lies there; of what comes in one half is added, the other lands in its place */
        memcpy(room->copy, sums, bytes);
        start = packed = ls__now_ns();
        for (size_t i = 0; i < n / 2; i++) room->sums[i] = (int64_t)((uint64_t)room->sums[i] + (uint64_t)room->copy[i]);
    } else {
        bytes = ls__pack(sums, n, room->packed);
        packed = ls__now_ns();
        is_good = ls__unpack(room->packed, bytes, room->sums, n, true);
    }
    w->unpack_seconds += ls__seconds_since(packed);
    w->pack_seconds += (double)(packed - start) * 1e-9;
    w->bytes += (double)bytes;
    return is_good;
}

enum ls_status ls_comm_weigh(const int64_t *sums, int64_t n, bool is_near, struct ls_comm_weight *weight)
{
    struct weighing *room;
    bool is_good = true;
    *weight = (struct ls_comm_weight){0};
    TRY(ls__calloc(&room, 1, sizeof *room + ls__pack_bound(PIECE)));
    for (int64_t at = 0; at < n && is_good; at += PIECE)
        is_good = weigh_piece(room, sums + at, (size_t)(n - at < PIECE ? n - at : PIECE), is_near, weight);
    free(room);
    return is_good ? LS_OK : ls_fail(LS_INTERNAL, "packed sums cannot be unpacked");
}
