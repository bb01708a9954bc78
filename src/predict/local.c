/* local.c: --sync local:H (train/sync_local.c): every shard trains a model of its own, and every H steps all are
 * averaged.
 *
 *     step      waves of replicas, one thread each: a shard, and a whole update of its own
 *     average   of n values (parameters, buffers, optimizer state): exponents of every 128 of them, gathered and handed
 * out again; every replica added to the machine's sums; those summed between the machines, like any others; the mean
 * into every replica
 *
 * A point is the mean over H steps. Averages at the end of an epoch are not in it: how long one is nobody says here.
 */
#include "predict/local.h"

#include "comm/average.h"
#include "predict/journey.h"

enum { CONTROL_WORDS = 8 };

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* One replica's step on one thread. */
static double replica_seconds(const struct ls_predict_profile *p)
{
    double join = 0, update = 0;
    for (int i = 0; i < p->n_buckets; i++) {
        join += p->buckets[i].join_seconds;
        update += p->buckets[i].update_seconds;
    }
    return p->pre_seconds + p->shard_seconds + join / (double)p->shards + update;
}

/* What the network takes of one average; wire_seconds and wire_bytes of *r. */
static double talk_seconds(const struct ls_predict_profile *p, const struct ls_predict_cluster *c, int per_machine,
                           struct ls_predict_point *r)
{
    struct journey j = {.algorithm = LS_PREDICT_HIERARCHICAL,
                        .profile = p,
                        .cluster = c,
                        .n_peers = r->machines,
                        .n_machines = r->machines};
    const double exponents = (double)p->n_averaged / LS_AVERAGE_BLOCK, bandwidth = c->network->bandwidth;
    int rounds = 0;
    if (r->machines == 1) return 0;
    while (1 << rounds < c->workers) rounds++;
    const double gathered = (c->workers - per_machine) * exponents / bandwidth, handed = rounds * exponents / bandwidth;
    const double summed = ls__journey_send(&j, p->n_averaged + CONTROL_WORDS, p->averaged_bytes + CONTROL_WORDS, 0);
    r->wire_seconds = j.wire_seconds + gathered + handed;
    r->wire_bytes = j.wire_bytes + exponents * (per_machine + (r->machines - 1.0) / r->machines);
    return (1 + rounds) * c->network->latency + gathered + handed + summed;
}

struct ls_predict_point ls__local_step(const struct ls_predict_profile *p, const struct ls_predict_cluster *c)
{
    const int per_machine = c->workers < c->workers_per_machine ? c->workers : c->workers_per_machine;
    const int64_t own = divide_up(p->shards, c->workers), threads = (int64_t)c->workers * c->threads;
    const double n = (double)p->n_averaged, period = c->period > 0 ? c->period : 1, shards = (double)p->shards;
    struct ls_predict_point r = {.workers = c->workers,
                                 .machines = (int)divide_up(c->workers, per_machine),
                                 .busy_threads = (int)(threads < p->shards ? threads : p->shards)};
    const double replica = replica_seconds(p), add = n * p->average_seconds, take = n * p->spread_seconds;
    const double once = take + n * p->copy_seconds; /* of a machine: the mean for itself, sums back to zero */
    const double talk = talk_seconds(p, c, per_machine, &r);
    const double average = ((double)own * (add + take) + once) / c->threads;
    r.step_seconds = (double)divide_up(own, c->threads) * replica + p->overhead_seconds + (average + talk) / period;
    r.images_per_second = (double)p->batch_size / r.step_seconds;
    r.compute = (shards * replica + (shards * (add + take) + r.machines * once) / period) / (double)threads;
    r.communicate = talk / period;
    r.wire_seconds /= period;
    r.wire_bytes /= period;
    r.wait = r.step_seconds - r.compute - r.communicate;
    if (r.wait < 0) r.wait = 0; /* rounding */
    return r;
}
