/* probe.c: what the network between the nodes gives, and what sums cost to travel.
 *
 * Latency: a small message goes round the leaders, one at a time; the median time of a hop, with all that waking up
 * costs. Bandwidth: the leaders add up numbers nobody needs, in the ring that also adds up gradients, so what a sum of
 * a step will get is what is measured; once with idle cores and once while threads compute, whose loss of speed is what
 * sums take from computing: packing, the network's own work in the kernel, and whatever else shares the cores. Node 0
 * has the clock: before each round it tells the others how large the next one is.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "comm/comm_internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SMALL = 64, MIN_SUMS = 1 << 13, MAX_SUMS = 1 << 21, MAX_ROUNDS = 128 };

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

/* Numbers that take as many bytes as gradients do, added up over the nodes. */
static enum ls_status sum_up(struct ls_comm *c, int64_t *sums, int64_t n)
{
    const int bits = 34;
    for (int64_t i = 0; i < n; i++) sums[i] = (int64_t)((uint64_t)(i + 1) * 0x9e3779b97f4a7c15u) >> (64 - bits);
    c->running.block = sums;
    c->running.n_buckets = 1;
    c->running.buckets[0] = (struct ls_comm_bucket){.begin = 0, .end = n, .n_parts = 0};
    return ls__ring_run(c);
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
    double seconds;
    int n_threads;
    struct ls_comm_network network;
    int64_t *data;
};

/* --- threads that compute --- */

enum { MAX_CROWD = 256 };

struct crowd {
    pthread_t threads[MAX_CROWD];
    int n;
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
    while (!atomic_load_explicit(&m.crowd->is_ending, memory_order_relaxed)) {
        for (int i = 0; i < 1000; i++) x = x * 0.999 + 0.001;
        atomic_fetch_add_explicit(&m.crowd->count[m.index].done, 1, memory_order_relaxed);
    }
    sink = x;
    (void)sink;
    return NULL;
}

/* As many of n as can be had. */
static void crowd_start(struct crowd *crowd, int n)
{
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
        times[i] = ls__seconds_since(start) / c->place.n_nodes;
    }
    p->network.latency = median(times, n_rounds);
    return LS_OK;
}

/* Sums grow as long as a round is short. *work: pieces per second the crowd does meanwhile. */
static enum ls_status measure_bandwidth(struct ls_comm *c, struct probe *p, struct crowd *crowd, double *bandwidth,
                                        double *work)
{
    double rates[MAX_ROUNDS], works[MAX_ROUNDS];
    int n_rounds = 0;
    int64_t begin = ls__now_ns(), n = MIN_SUMS;
    for (;;) {
        TRY(go_round(c, &n, sizeof n)); /* node 0's word */
        if (n == 0) break;
        int64_t start = ls__now_ns(), work_start = crowd_work(crowd), sent = c->stats.bytes_sent;
        TRY(sum_up(c, p->data, n));
        double took = ls__seconds_since(start);
        if (c->place.node > 0) continue;
        works[n_rounds] = (double)(crowd_work(crowd) - work_start) / took;
        rates[n_rounds++] = (double)(c->stats.bytes_sent - sent) / took;
        if (n_rounds == MAX_ROUNDS || ls__seconds_since(begin) + took > p->seconds) {
            n = 0;
        } else if (n < MAX_SUMS && took < p->seconds / 10) {
            n *= 2;
            n_rounds = 0; /* small ones do not count */
        }
    }
    *bandwidth = median(rates, n_rounds);
    *work = median(works, n_rounds);
    return LS_OK;
}

/* All nodes compute, at first in silence. */
static enum ls_status measure_busy(struct ls_comm *c, struct probe *p)
{
    const struct timespec pause = {0, 20000000};
    struct crowd *crowd;
    double silent = 0, travelling = 0;
    TRY(ls__alloc_aligned(&crowd, sizeof *crowd));
    memset(crowd, 0, sizeof *crowd);
    crowd_start(crowd, p->n_threads);
    enum ls_status status = go_round(c, p->data, SMALL); /* all have begun */
    int64_t start = ls__now_ns(), work = crowd_work(crowd);
    while (status == LS_OK && ls__seconds_since(start) < p->seconds / 3) {
        nanosleep(&pause, NULL);
        status = ls__link_pump(c);
    }
    silent = (double)(crowd_work(crowd) - work) / ls__seconds_since(start);
    p->seconds *= 2.0 / 3;
    if (status == LS_OK) status = measure_bandwidth(c, p, crowd, &p->network.busy_bandwidth, &travelling);
    if (p->network.busy_bandwidth > p->network.bandwidth) p->network.bandwidth = p->network.busy_bandwidth;
    p->network.cpu = silent > travelling ? crowd->n * (1 - travelling / silent) : 0;
    crowd_stop(crowd);
    ls__free_aligned(crowd, sizeof *crowd);
    return status;
}

static enum ls_status probe(struct ls_comm *c, void *arg)
{
    struct probe *p = arg;
    const size_t bytes = MAX_SUMS * sizeof *p->data;
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
    double unused;
    p->seconds *= 0.35;
    if (status == LS_OK) status = measure_bandwidth(c, p, NULL, &p->network.bandwidth, &unused);
    if (status == LS_OK) status = measure_busy(c, p);
    ls__free_aligned(p->data, bytes);
    c->stats = before;
    return status;
}

enum ls_status ls_comm_probe(struct ls_comm *c, double seconds, int n_threads, struct ls_comm_network *network)
{
    struct probe p = {.seconds = seconds, .n_threads = n_threads};
    *network = (struct ls_comm_network){0};
    if (c->place.n_nodes == 1) return LS_OK;
    if (c->place.seat == 0) TRY(ls__courier_call(c, probe, &p));
    *network = p.network;
    return ls_comm_broadcast(c, 0, network, sizeof *network);
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
