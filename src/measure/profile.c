/* profile.c: see profile.h. */
#include "measure/profile.h"

#include "base/clock.h"
#include "base/mem.h"
#include "comm/average.h"
#include "comm/comm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t count_parameters(const struct ls_graph *g)
{
    int64_t n = 0;
    for (int v = 0; v < g->n_values; v++)
        if (g->values[v].kind == LS_VALUE_PARAM) n += ls_shape_count(&g->values[v].shape);
    return n;
}

/* Bytes and packing from the sums that lie there; of large buckets the first ones stand for all. */
static enum ls_status weigh(const struct session *s, struct ls_predict_profile *p)
{
    enum { MOST = 1 << 19 };
    double pack = 0, unpack = 0, copy = 0, weighed = 0;
    for (int i = 0; i < p->n_buckets; i++) {
        struct ls_predict_bucket *b = &p->buckets[i];
        struct ls_comm_weight w, near;
        const int64_t *sums = ls_exec_bucket(s->exec, i, &b->n);
        int64_t n = b->n < MOST ? b->n : MOST;
        TRY(ls_comm_weigh(sums, n, p->is_near, &w));
        TRY(ls_comm_weigh(sums, n, true, &near));
        b->bytes = n ? w.bytes * (double)b->n / (double)n : 0;
        pack += w.pack_seconds;
        unpack += w.unpack_seconds;
        copy += 2 * near.unpack_seconds; /* half of them are added there */
        weighed += (double)n;
    }
    if (weighed > 0) {
        p->pack_seconds = pack / weighed;
        p->unpack_seconds = unpack / weighed;
        p->copy_seconds = copy / weighed;
    }
    return LS_OK;
}

/* When in a shard its buckets are complete, from the share each op has of it. */
static void order_buckets(const struct session *s, const struct ls_plan *plan, struct ls_predict_profile *p)
{
    double total = 0, now = 0;
    for (int i = 0; i < plan->n_ops; i++)
        if (plan->ops[i].phase == LS_SHARD) total += ls_exec_op_seconds(s->exec, plan, i);
    for (int i = 0; i < plan->n_ops; i++) {
        if (plan->ops[i].phase != LS_SHARD) continue;
        now += ls_exec_op_seconds(s->exec, plan, i);
        int bucket = ls_exec_op_bucket(s->exec, plan, i);
        if (bucket >= 0) p->buckets[bucket].ready_seconds = total > 0 ? p->shard_seconds * now / total : 0;
    }
}

/* Work after the shards goes with the number of sums. */
static void spread(const struct session *s, const struct ls_plan *plan, const struct ls_phases *t,
                   struct ls_predict_profile *p)
{
    double n_all = 0, n_joined = 0;
    for (int i = 0; i < plan->n_ops; i++) {
        int bucket = plan->ops[i].phase == LS_JOIN ? ls_exec_op_bucket(s->exec, plan, i) : -1;
        if (bucket >= 0) p->buckets[bucket].join_seconds = 1; /* a mark */
    }
    for (int i = 0; i < p->n_buckets; i++) {
        n_all += (double)p->buckets[i].n;
        if (p->buckets[i].join_seconds > 0) n_joined += (double)p->buckets[i].n;
    }
    for (int i = 0; i < p->n_buckets; i++) {
        struct ls_predict_bucket *b = &p->buckets[i];
        b->update_seconds = t->update * (double)b->n / n_all;
        if (b->join_seconds > 0) b->join_seconds = t->join * (double)b->n / n_joined;
    }
}

/* Whether sums of this job are sent as they lie there. In a job of one machine none are sent; what is foretold is one
 * of several, which pack them. */
static bool is_near(const struct session *s)
{
    return s->comm && ls_comm_place(s->comm)->n_machines > 1 && ls_comm_is_near(s->comm);
}

enum ls_status ls__profile_fill(const struct session *s, const struct ls_phases *t, struct ls_predict_profile *p)
{
    const struct ls_plan *plan = ls_exec_plan(s->exec, s->shard_size, true);
    *p = (struct ls_predict_profile){.n_parameters = count_parameters(plan->graph),
                                     .batch_size = s->batch_size,
                                     .shards = s->shards,
                                     .shard_seconds = t->shards / (double)s->shards,
                                     .pre_seconds = t->pre,
                                     .is_near = is_near(s)};
    snprintf(p->model, sizeof p->model, "%s", ls_model_name(s->model));
    p->n_buckets = ls_exec_n_buckets(s->exec);
    TRY(ls__calloc(&p->buckets, (size_t)p->n_buckets, sizeof *p->buckets));
    TRY(weigh(s, p));
    order_buckets(s, plan, p);
    spread(s, plan, t, p);
    return LS_OK;
}

/* --- the average of replicas --- */

enum { SAMPLE = 1 << 16 };

/* Values to try it with, and where they go. */
struct sample {
    float *x; /* [n] and more */
    int64_t *sums;
    uint8_t exponents[SAMPLE / LS_AVERAGE_BLOCK];
    int64_t n;
};

/* The best of a few rounds: a replica into the sums, and the mean back into it. */
static void time_average(struct sample *m, struct ls_predict_profile *p)
{
    enum { ROUNDS = 4 };
    p->average_seconds = p->spread_seconds = 1;
    for (int round = 0; round < ROUNDS; round++) {
        memset(m->exponents, 0, sizeof m->exponents);
        memset(m->sums, 0, SAMPLE * sizeof *m->sums);
        const int64_t begin = ls__now_ns();
        ls__average_exponents(m->x, m->n, m->exponents);
        ls__average_add(m->x, m->n, m->exponents, m->sums);
        const int64_t middle = ls__now_ns();
        ls__average_take(m->sums, m->n, m->exponents, 1, m->x);
        const double add = 1e-9 * (double)(middle - begin), take = ls__seconds_since(middle), n = (double)m->n;
        if (add / n < p->average_seconds) p->average_seconds = add / n;
        if (take / n < p->spread_seconds) p->spread_seconds = take / n;
    }
}

/* Replicas have much the same values, but hardly ever the same bits: those decide how long packed sums are. */
static enum ls_status weigh_average(struct sample *m, struct ls_predict_profile *p)
{
    struct ls_comm_weight w;
    for (int64_t i = 1; i < p->shards; i++) {
        for (int64_t j = 0; j < m->n; j++) m->x[j] *= 0.999f;
        ls__average_add(m->x, m->n, m->exponents, m->sums);
    }
    TRY(ls_comm_weigh(m->sums, m->n, p->is_near, &w));
    p->averaged_bytes = w.bytes * (double)p->n_averaged / (double)m->n;
    return LS_OK;
}

enum ls_status ls__profile_average(const struct session *s, struct ls_predict_profile *p)
{
    const struct ls_store *store = s->store;
    struct sample *m = NULL;
    int largest = -1;
    int64_t most = 0;
    p->n_averaged = 0;
    for (int i = 0; i < store->n_entries; i++) {
        const struct ls_stored *e = &store->entries[i];
        const int64_t n = ls_shape_count(&e->shape);
        if (!ls_stored_is_saved(e)) continue;
        p->n_averaged += (int64_t)(e->layout.bytes / sizeof(float));
        if (e->kind != LS_VALUE_PARAM || n <= most) continue;
        most = n;
        largest = i;
    }
    if (largest < 0) return LS_OK;
    TRY(ls__calloc(&m, 1, sizeof *m));
    m->n = most < SAMPLE ? most : SAMPLE;
    enum ls_status status = ls__calloc(&m->x, (size_t)most, sizeof *m->x);
    if (status == LS_OK) status = ls__calloc(&m->sums, SAMPLE, sizeof *m->sums);
    if (status == LS_OK) status = ls_exec_get(s->exec, largest, m->x);
    if (status == LS_OK) {
        time_average(m, p);
        status = weigh_average(m, p);
    }
    free(m->x);
    free(m->sums);
    free(m);
    return status;
}

/* An update reads and writes sums, weights and momentum: seconds per sum of a loop that does the same. */
static double update_seconds(void)
{
    enum { N = 1 << 21 };
    struct {
        int64_t sums[N];
        float weights[N], momentum[N];
    } * room;
    double best = 4e-9;
    if (ls__alloc_aligned(&room, sizeof *room) != LS_OK) return best;
    for (int round = 0; round < 3; round++) {
        int64_t start = ls__now_ns();
        for (int i = 0; i < N; i++) {
            room->momentum[i] = 0.9f * room->momentum[i] + (float)room->sums[i];
            room->weights[i] -= 0.1f * room->momentum[i];
            room->sums[i] = i;
        }
        double took = ls__seconds_since(start) / N;
        if (round == 1 || (round > 1 && took < best)) best = took;
    }
    ls__free_aligned(room, sizeof *room);
    return best;
}

/* Sums of so many times as many shards are larger: by as much where gradients agree, by the root of it where they are
 * noise. Between the two, in bytes per sum. */
static double bytes_of_more_shards(double times)
{
    return 0.75 * log2(times) / 8;
}

void ls__profile_slow_down(struct ls_predict_profile *p, const struct ls_exec_rehearsal *alone,
                           const struct ls_exec_rehearsal *r, double common_seconds)
{
    double join = alone->join_seconds > 0 ? r->join_seconds / alone->join_seconds : 1;
    for (int i = 0; i < p->n_buckets; i++) {
        p->buckets[i].ready_seconds *= common_seconds / p->shard_seconds;
        p->buckets[i].join_seconds *= join;
    }
    p->pre_seconds *= alone->pre_seconds > 0 ? r->pre_seconds / alone->pre_seconds : 1;
    p->shard_seconds = common_seconds;
}

enum ls_status ls__profile_rehearsed(const struct session *s, const struct ls_exec_rehearsal *r, int threads,
                                     double times, struct ls_predict_profile *p)
{
    const double own = (double)r->n_own / (double)s->shards;
    const struct ls_phases t = {.pre = r->pre_seconds * threads,
                                .shards = r->shard_seconds * (double)s->shards,
                                .join = r->join_seconds * threads / own};
    TRY(ls__profile_fill(s, &t, p));
    const double each = update_seconds(), more = bytes_of_more_shards(times);
    for (int i = 0; i < p->n_buckets; i++) {
        p->buckets[i].update_seconds = each * (double)p->buckets[i].n;
        p->buckets[i].bytes += more * (double)p->buckets[i].n;
    }
    return LS_OK;
}
