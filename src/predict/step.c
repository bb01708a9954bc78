/* step.c: one step of a job, played through on the machine with the most shards. See predict/predict.h. */
#include "base/mem.h"
#include "predict/journey.h"
#include "predict/local.h"
#include "predict/serve.h"

#include <stdlib.h>

enum { CONTROL_WORDS = 8 };

const int ls_predict_workers[LS_PREDICT_POINTS] = {1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024};

const char *ls_predict_name(enum ls_predict_algorithm a)
{
    static const char *const names[LS_N_PREDICT] = {"ring", "tree", "hierarchical", "ps", "async", "local"};
    return names[a];
}

void ls_predict_profile_release(struct ls_predict_profile *p)
{
    free(p->buckets);
    p->buckets = NULL;
    p->n_buckets = 0;
}

double ls_predict_bytes(const struct ls_predict_profile *p)
{
    double bytes = 0;
    for (int i = 0; i < p->n_buckets; i++) bytes += p->buckets[i].bytes;
    return bytes;
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Who shares out the shards: machines whose workers share memory, or workers each for itself. */
struct place {
    int n_peers, n_machines;
    int64_t threads, shards, waves; /* of a peer with all its workers: threads, shards, rounds of them */
    double spare;                   /* cores of a peer that no thread of it computes on */
};

static struct place place_of(const struct ls_predict_profile *p, const struct ls_predict_cluster *c,
                             enum ls_predict_algorithm a)
{
    struct place at;
    int per_machine = c->workers < c->workers_per_machine ? c->workers : c->workers_per_machine;
    at.n_machines = (int)divide_up(c->workers, per_machine);
    bool is_flat = at.n_machines > 1 && a != LS_PREDICT_HIERARCHICAL;
    at.n_peers = is_flat ? c->workers : at.n_machines;
    at.threads = is_flat ? c->threads : (int64_t)c->threads * per_machine;
    at.shards = divide_up(p->shards * at.threads, (int64_t)c->workers * c->threads); /* the last may be smaller */
    at.waves = divide_up(at.shards, at.threads);
    double cores = c->cores > 0 ? c->cores : (double)c->threads * per_machine;
    at.spare = (is_flat ? cores / per_machine : cores) - (double)at.threads;
    return at;
}

/* Times within the step. */
struct timeline {
    double shards_begin, last_wave, shards_end, compute_end;
    double end, exposed;
    double early_cpu; /* seconds the communication thread computes before compute_end */
};

/* delay: by which the machine's shards take longer because communication uses their cores. */
static void lay_out(const struct ls_predict_profile *p, const struct place *at, double delay, struct timeline *t)
{
    double threads = (double)at->threads, share = (double)at->shards / (double)p->shards, join = 0;
    for (int i = 0; i < p->n_buckets; i++) join += p->buckets[i].join_seconds;
    t->shards_begin = p->pre_seconds / threads;
    t->last_wave = t->shards_begin + (double)(at->waves - 1) * p->shard_seconds + delay;
    t->shards_end = t->last_wave + p->shard_seconds;
    t->compute_end = t->shards_end + join * share / threads;
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* What the communication thread needs for a bucket it begins with at `begin`, as far as it falls into the shards' time;
 * returns when it is done. */
static double talk(const struct journey *j, double cpu, double wire, double begin, struct timeline *t)
{
    double active = later(cpu, wire), left = t->compute_end - begin;
    if (active <= 0) return begin;
    const struct ls_predict_network *net = j->cluster->network;
    double share = net->busy_bandwidth > 0 ? net->cpu : later(net->cpu, cpu / active);
    if (left > 0) t->early_cpu += share * (active < left ? active : left);
    return begin + active;
}

/* Sums travel while shards are computed, updates follow them in. */
static void travel(const struct ls_predict_profile *p, const struct place *at, struct journey *j, struct timeline *t)
{
    double threads = (double)at->threads, share = (double)at->shards / (double)p->shards;
    double joined = t->shards_end, now = t->compute_end, talked = 0, arrived;
    t->exposed = t->early_cpu = 0;
    j->busy_until = t->compute_end;
    for (int i = 0; i <= p->n_buckets; i++) {
        const struct ls_predict_bucket none = {.n = CONTROL_WORDS, .bytes = CONTROL_WORDS};
        const struct ls_predict_bucket *b = i < p->n_buckets ? &p->buckets[i] : &none;
        double ready = i < p->n_buckets ? t->last_wave + b->ready_seconds : t->compute_end;
        joined += b->join_seconds * share / threads;
        if (b->join_seconds > 0) ready = joined;
        double cpu_before = j->cpu_seconds, wire_before = j->wire_seconds;
        arrived = at->n_machines > 1 ? ls__journey_send(j, b->n, b->bytes, ready) : ready;
        if (at->n_machines > 1)
            talked = talk(j, j->cpu_seconds - cpu_before, j->wire_seconds - wire_before, later(ready, talked), t);
        if (arrived > now) {
            t->exposed += arrived - now;
            now = arrived;
        }
        now += b->update_seconds / threads;
    }
    t->end = now + p->overhead_seconds;
}

/* Mean over all threads of the job. */
static double busy_seconds(const struct ls_predict_profile *p, const struct ls_predict_cluster *c,
                           const struct place *at)
{
    double once = 0, each = p->pre_seconds, threads = (double)at->threads;
    for (int i = 0; i < p->n_buckets; i++) {
        once += p->buckets[i].join_seconds;
        each += p->buckets[i].update_seconds;
    }
    once += p->shard_seconds * (double)p->shards;
    return once / ((double)c->workers * c->threads) + each / threads;
}

static struct ls_predict_point play(const struct ls_predict_profile *p, const struct ls_predict_cluster *c,
                                    enum ls_predict_algorithm a)
{
    struct place at = place_of(p, c, a);
    struct journey j = {.algorithm = a, .profile = p, .cluster = c, .n_peers = at.n_peers, .n_machines = at.n_machines};
    const struct journey fresh = j;
    struct timeline t;
    lay_out(p, &at, 0, &t);
    travel(p, &at, &j, &t);
    bool is_probed = at.n_machines > 1 && c->network->busy_bandwidth > 0; /* then it knows of spare cores */
    if ((is_probed || at.spare < 1) && t.early_cpu > 0) { /* nowhere to pack but where shards are computed */
        double delay = t.early_cpu * (is_probed || at.spare < 0 ? 1 : 1 - at.spare) / (double)at.threads;
        j = fresh;
        lay_out(p, &at, delay, &t);
        travel(p, &at, &j, &t);
    }
    int64_t threads = (int64_t)c->workers * c->threads;
    struct ls_predict_point r = {.workers = c->workers,
                                 .machines = at.n_machines,
                                 .step_seconds = t.end,
                                 .images_per_second = (double)p->batch_size / t.end,
                                 .compute = busy_seconds(p, c, &at),
                                 .communicate = t.exposed,
                                 .wire_seconds = j.wire_seconds,
                                 .wire_bytes = j.wire_bytes,
                                 .busy_threads = (int)(threads < p->shards ? threads : p->shards)};
    r.wait = r.step_seconds - r.compute - r.communicate;
    if (r.wait < 0) r.wait = 0; /* rounding */
    return r;
}

struct ls_predict_point ls_predict_step(const struct ls_predict_profile *p, const struct ls_predict_cluster *c,
                                        enum ls_predict_algorithm a)
{
    struct ls_predict_cluster one = *c;
    one.workers = 1;
    if (a == LS_PREDICT_LOCAL) {
        struct ls_predict_point local = ls__local_step(p, c);
        local.speedup = ls__local_step(p, &one).step_seconds / local.step_seconds;
        return local;
    }
    const struct ls_predict_point alone = play(p, &one, LS_PREDICT_HIERARCHICAL);
    const bool is_served = c->workers > 1 && (a == LS_PREDICT_PS || a == LS_PREDICT_ASYNC);
    struct ls_predict_point r = !is_served           ? play(p, c, a)
                                : a == LS_PREDICT_PS ? ls__serve_ps(p, c)
                                                     : ls__serve_async(p, c);
    r.speedup = alone.step_seconds / r.step_seconds;
    return r;
}

void ls_predict_sweep(const struct ls_predict_profile *p, const struct ls_predict_cluster *c,
                      enum ls_predict_algorithm a, struct ls_predict_series *out)
{
    out->best = 0;
    out->algorithm = a;
    for (int i = 0; i < LS_PREDICT_POINTS; i++) {
        struct ls_predict_cluster at = *c;
        at.workers = ls_predict_workers[i];
        out->points[i] = ls_predict_step(p, &at, a);
        if (out->points[i].step_seconds < 0.999 * out->points[out->best].step_seconds) out->best = i;
    }
}
