/* journey.c: what a chunk of sums costs under each algorithm.
 *
 * In all of them P is the number of peers, m the chunk's bytes, B the bandwidth and a the latency. A message of s bytes
 * takes a + s/B; a link carries both directions at once; packing and adding happen on one thread.
 *
 *     ring     2(P-1) messages of m/P, one after the other
 *     tree     2 log2(P) messages, 2(P-1)/P m in all; when P is no power of two, those beyond it first give everything
 *              to a partner and get it back at the end
 *
 * Chunks follow each other: the slowest of link and packing thread sets the pace, the messages of a chunk its delay.
 */
#include "predict/journey.h"

#include <math.h>

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* What a chunk takes alone, and what of it the link and the packing thread are busy. */
struct cost {
    double delay, link, cpu, bytes;
};

static double bandwidth_at(const struct journey *j, double ready)
{
    const struct ls_predict_network *net = j->cluster->network;
    return ready < j->busy_until && net->busy_bandwidth > 0 ? net->busy_bandwidth : net->bandwidth;
}

static struct cost ring_cost(const struct journey *j, double n, double bytes, double bandwidth)
{
    double p = j->n_peers, hops = 2 * (p - 1);
    double crossing = j->n_machines / p; /* of the hops between neighbours those that leave a machine */
    double link = hops / p * bytes / bandwidth;
    double cpu = hops / p * n * (j->profile->pack_seconds + j->profile->unpack_seconds);
    return (struct cost){.delay = hops * crossing * j->cluster->network->latency + link + cpu,
                         .link = link,
                         .cpu = cpu,
                         .bytes = hops / p * bytes};
}

/* What Lockstep does. */
static struct cost route_cost(const struct journey *j, const struct ls_comm_route *route, double n, double bytes,
                              double bandwidth)
{
    double link = route->volume * bytes / bandwidth;
    double cpu = route->volume * n * (j->profile->pack_seconds + j->profile->unpack_seconds);
    return (struct cost){.delay = route->n_hops * j->cluster->network->latency + link + cpu,
                         .link = link,
                         .cpu = cpu,
                         .bytes = route->volume * bytes};
}

static struct cost tree_cost(const struct journey *j, double n, double bytes, double bandwidth)
{
    int rounds = 0, machines = j->n_machines, even = 1;
    for (; even * 2 <= machines; even *= 2) rounds++;
    double volume = 2.0 * (even - 1) / even + (machines > even ? 2 : 0);
    double link = volume * bytes / bandwidth;
    double cpu = volume * n * (j->profile->pack_seconds + j->profile->unpack_seconds);
    double messages = 2 * rounds + (machines > even ? 2 : 0);
    return (struct cost){.delay = messages * j->cluster->network->latency + link + cpu,
                         .link = link,
                         .cpu = cpu,
                         .bytes = volume * bytes};
}

/* A chunk starts when it is complete and a slot is free. */
static void send_chunk(struct journey *j, struct cost c, double ready)
{
    double *slot = &j->slots[j->n_chunks++ % LS_COMM_WINDOW];
    double start = later(ready, *slot);
    j->arrived = *slot = later(start + c.delay, j->arrived + later(c.link, c.cpu));
    j->wire_seconds += c.link;
    j->wire_bytes += c.bytes;
    j->cpu_seconds += c.cpu;
}

double ls__journey_send(struct journey *j, int64_t n, double bytes, double ready)
{
    const bool is_ours = j->algorithm == LS_PREDICT_HIERARCHICAL;
    const struct ls_comm_route route = ls_comm_route(n, j->n_peers, j->profile->is_near, is_ours ? NULL : "ring");
    for (int64_t at = 0; at < n; at += route.chunk) {
        double start = later(ready, j->slots[j->n_chunks % LS_COMM_WINDOW]);
        double count = (double)(n - at < route.chunk ? n - at : route.chunk), part = count / (double)n;
        if (j->algorithm == LS_PREDICT_TREE)
            send_chunk(j, tree_cost(j, count, part * bytes, bandwidth_at(j, start)), ready);
        else if (is_ours)
            send_chunk(j, route_cost(j, &route, count, part * bytes, bandwidth_at(j, start)), ready);
        else
            send_chunk(j, ring_cost(j, count, part * bytes, bandwidth_at(j, start)), ready);
    }
    return j->arrived;
}
