/* forecast.c: rehearses and probes before the first step, and says what machines will gain. */
#include "measure/forecast.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/median.h"
#include "base/mem.h"
#include "base/pool.h"
#include "comm/comm.h"
#include "measure/bench.h"
#include "predict/predict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- a profile from what was measured --- */

/* Seconds of one thread for a whole step, by phase. */
struct phases {
    double pre, shards, join, update;
};

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
static void spread(const struct session *s, const struct ls_plan *plan, const struct phases *t,
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

static enum ls_status fill_profile(const struct session *s, const struct phases *t, struct ls_predict_profile *p)
{
    const struct ls_plan *plan = ls_exec_plan(s->exec, s->shard_size, true);
    *p = (struct ls_predict_profile){.n_parameters = count_parameters(plan->graph),
                                     .batch_size = s->batch_size,
                                     .shards = s->shards,
                                     .shard_seconds = t->shards / (double)s->shards,
                                     .pre_seconds = t->pre,
                                     .is_near = s->comm && ls_comm_is_near(s->comm)};
    snprintf(p->model, sizeof p->model, "%s", ls_model_name(s->model));
    p->n_buckets = ls_exec_n_buckets(s->exec);
    TRY(ls__calloc(&p->buckets, (size_t)p->n_buckets, sizeof *p->buckets));
    TRY(weigh(s, p));
    order_buckets(s, plan, p);
    spread(s, plan, t, p);
    return LS_OK;
}

/* --- one machine, for `lockstep predict` --- */

enum { MIN_STEPS = 3, MAX_STEPS = 2000 };

/* The best of several steps: what other programs took from the machine does not count. */
struct best {
    double step_seconds, busy_seconds; /* busy: of all threads together */
    int64_t n;
};

static enum ls_status run_steps(struct session *s, struct ls_loader *loader, double seconds, struct best *best)
{
    int64_t start = ls__now_ns();
    *best = (struct best){.step_seconds = 1e30, .busy_seconds = 1e30};
    for (int64_t i = 0; i < MIN_STEPS || (i < MAX_STEPS && ls__seconds_since(start) < seconds); i++) {
        struct ls_batch batch;
        struct ls_exec_stats stats;
        double busy_before = ls_exec_busy_seconds(s->exec);
        int64_t before = ls__now_ns();
        TRY(ls_loader_next(loader, &batch));
        const struct ls_exec_step step = {
            .batch = &batch, .transform = &s->transform, .shard_size = s->shard_size, .seed = 1, .step = i, .lr = 1e-4};
        TRY(ls_exec_train(s->exec, &step, &stats));
        double took = ls__seconds_since(before), busy = ls_exec_busy_seconds(s->exec) - busy_before;
        if (took < best->step_seconds) best->step_seconds = took;
        if (busy < best->busy_seconds) best->busy_seconds = busy;
        best->n++;
    }
    return LS_OK;
}

static struct phases phases_of(const struct session *s, const struct best *best)
{
    const struct ls_plan *plan = ls_exec_plan(s->exec, s->shard_size, true);
    struct phases t = {0};
    for (int i = 0; i < plan->n_ops; i++) {
        double seconds = ls_exec_op_seconds(s->exec, plan, i) / (double)best->n;
        if (plan->ops[i].phase == LS_PRE) t.pre += seconds;
        if (plan->ops[i].phase == LS_JOIN) t.join += seconds;
        if (plan->ops[i].phase == LS_POST) t.update += seconds;
    }
    t.shards = best->busy_seconds - t.pre - t.join - t.update;
    return t;
}

/* Real sums to weigh: a step that stops before the update. */
static enum ls_status profile_steps(struct session *s, struct ls_loader *loader, const struct best *best,
                                    struct ls_predict_profile *p)
{
    struct ls_batch batch;
    struct ls_exec_stats stats;
    struct phases t = phases_of(s, best);
    TRY(ls_loader_next(loader, &batch));
    const struct ls_exec_step step = {
        .batch = &batch, .transform = &s->transform, .shard_size = s->shard_size, .seed = 1, .lr = 1e-4};
    TRY(ls_exec_backward(s->exec, &step, &stats));
    return fill_profile(s, &t, p);
}

static enum ls_status measure(struct session *s, double seconds, struct ls_predict_profile *p)
{
    struct ls_loader *loader;
    struct best best;
    const struct ls_loader_options lo = {
        .batch_size = (int)s->batch_size, .seed = 1, .shuffle = true, .n_threads = 1, .kept = s->train_kept};
    TRY(ls_exec_init_store(s->exec, 1));
    TRY(ls_loader_create(&loader, s->train, &lo));
    ls_exec_update_apart(s->exec, true);                    /* as on several machines */
    enum ls_status status = run_steps(s, loader, 0, &best); /* caches and pages */
    if (status == LS_OK) status = ls_exec_profile(s->exec, true);
    if (status == LS_OK) status = run_steps(s, loader, seconds, &best);
    if (status == LS_OK) status = profile_steps(s, loader, &best, p);
    ls_loader_destroy(&loader);
    TRY(status);
    /* What the model does not know of, such as waking threads. */
    const struct ls_predict_cluster here = {.workers = 1, .workers_per_machine = 1, .threads = s->threads};
    double known = ls_predict_step(p, &here, LS_PREDICT_HIERARCHICAL).step_seconds;
    if (best.step_seconds > known) p->overhead_seconds = best.step_seconds - known;
    return LS_OK;
}

enum ls_status ls_predict_measure(const struct ls_bench_options *o, struct ls_predict_profile *p, int *threads)
{
    struct session s;
    if (!o || !p || !threads) return ls_fail(LS_USAGE, "ls_predict_measure without options or without room");
    *p = (struct ls_predict_profile){.n_buckets = 0};
    enum ls_status status = ls__bench_open_session(&s, o, true, NULL);
    if (status == LS_OK) status = measure(&s, o->seconds, p);
    *threads = s.threads;
    ls__session_close(&s);
    if (status != LS_OK) ls_predict_profile_release(p);
    return status;
}

/* --- a job, before its first step --- */

/* What a machine found. */
struct found {
    double shard_seconds; /* 0: it has no shard */
    int32_t local_rank;
};

enum { MAX_ROUNDS = 20 };

/* The medians of n rounds: what else runs on the machines now will go on running. */
static enum ls_status rehearse_rounds(struct session *s, const struct ls_exec_step *step, int n,
                                      struct ls_exec_rehearsal *r)
{
    double pre[MAX_ROUNDS] = {0}, shard[MAX_ROUNDS] = {0}, join[MAX_ROUNDS] = {0};
    for (int i = 0; i < n; i++) {
        if (i == n - 1) TRY(ls_exec_end_rehearsal(s->exec)); /* the last one's sums are weighed */
        s->store->version++; /* copies of parameters are made anew, as after an update */
        TRY(ls_exec_rehearse(s->exec, step, r));
        pre[i] = r->pre_seconds;
        shard[i] = r->shard_seconds;
        join[i] = r->join_seconds;
    }
    r->pre_seconds = ls__median(pre, n);
    r->shard_seconds = ls__median(shard, n);
    r->join_seconds = ls__median(join, n);
    return LS_OK;
}

/* The first round finds cold caches and pages that are not there yet, and says how many more there is time for: the
 * same number on all ranks. *alone: the first machine's, while the others wait; *r: all at once. */
static enum ls_status rehearse(struct session *s, const struct ls_exec_step *step, struct ls_exec_rehearsal *alone,
                               struct ls_exec_rehearsal *r)
{
    const double enough = 0.4; /* seconds */
    enum ls_status status = ls_exec_rehearse(s->exec, step, r);
    double took = r->pre_seconds + r->shard_seconds + r->join_seconds;
    int32_t n = took > enough / MAX_ROUNDS ? (int32_t)(enough / took) : MAX_ROUNDS;
    if (n < 3) n = took < 1 ? 3 : 1;
    TRY(ls_comm_broadcast(s->comm, 0, &n, sizeof n));
    if (status == LS_OK && ls_comm_place(s->comm)->machine == 0) status = rehearse_rounds(s, step, n, alone);
    TRY(ls_comm_broadcast(s->comm, 0, &n, sizeof n)); /* the others wait here */
    if (status == LS_OK) status = ls_exec_profile(s->exec, true);
    return status == LS_OK ? rehearse_rounds(s, step, n, r) : status;
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

/* With balance machines share by speed, without the slowest sets the pace. */
static double common_shard_seconds(const struct found *all, int n_ranks, bool is_balanced)
{
    double speed = 0, slowest = 0;
    int n = 0;
    for (int r = 0; r < n_ranks; r++) {
        if (all[r].local_rank != 0 || all[r].shard_seconds <= 0) continue;
        speed += 1 / all[r].shard_seconds;
        if (all[r].shard_seconds > slowest) slowest = all[r].shard_seconds;
        n++;
    }
    return is_balanced && n > 0 ? n / speed : slowest;
}

/* Sums of so many times as many shards are larger: by as much where gradients agree, by the root of it where they are
 * noise. Between the two, in bytes per sum. */
static double bytes_of_more_shards(double times)
{
    return 0.75 * log2(times) / 8;
}

/* The profile of one machine as it fares among the others. */
static void slow_down(struct ls_predict_profile *p, const struct ls_exec_rehearsal *alone,
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

/* Rank 0's. */
static enum ls_status foretell(struct forecast *f, struct session *s, const struct ls_exec_rehearsal *alone,
                               const struct ls_exec_rehearsal *r, double common_seconds)
{
    const struct ls_comm_place *at = ls_comm_place(s->comm);
    const struct ls_predict_network network = {.latency = f->network.latency,
                                               .bandwidth = f->network.bandwidth,
                                               .busy_bandwidth = f->network.busy_bandwidth,
                                               .cpu = f->network.cpu};
    int threads = s->threads * at->n_local;
    struct ls_predict_cluster c = {.workers = 1, .workers_per_machine = 1, .threads = threads, .network = &network};
    struct ls_predict_profile p = {0};
    double own = (double)r->n_own / (double)s->shards;
    struct phases t = {.pre = alone->pre_seconds * threads,
                       .shards = alone->shard_seconds * (double)s->shards,
                       .join = alone->join_seconds * threads / own};
    enum ls_status status = fill_profile(s, &t, &p);
    if (status == LS_OK) {
        double each = update_seconds(), more = bytes_of_more_shards((double)s->shards / r->n_run);
        for (int i = 0; i < p.n_buckets; i++) {
            p.buckets[i].update_seconds = each * (double)p.buckets[i].n;
            p.buckets[i].bytes += more * (double)p.buckets[i].n;
        }
        f->alone_seconds = ls_predict_step(&p, &c, LS_PREDICT_HIERARCHICAL).step_seconds;
        slow_down(&p, alone, r, common_seconds);
        c.workers = at->n_machines;
        struct ls_predict_point point = ls_predict_step(&p, &c, LS_PREDICT_HIERARCHICAL);
        f->step_seconds = point.step_seconds;
        f->wire_seconds = point.wire_seconds;
        f->n_parameters = p.n_parameters;
        f->is_made = true;
    }
    ls_predict_profile_release(&p);
    return status;
}

/* Every rank comes to every collective, whatever failed before. */
static enum ls_status consult(struct forecast *f, struct session *s, const struct ls_exec_step *step, bool is_balanced)
{
    const struct ls_comm_place *at = ls_comm_place(s->comm);
    struct ls_exec_rehearsal alone = {0}, r = {0};
    struct found *all = NULL;
    enum ls_status status = rehearse(s, step, &alone, &r);
    if (status == LS_TIMEOUT || status == LS_REMOTE) return status; /* the job is lost */
    const struct found mine = {status == LS_OK && r.n_run > 0 ? r.shard_seconds : 0, at->local_rank};
    TRY(ls_comm_probe(s->comm, 2, s->threads * at->n_local, &f->network));
    TRY(ls__calloc(&all, (size_t)at->n_ranks, sizeof *all));
    enum ls_status sent = ls_comm_gather(s->comm, &mine, sizeof mine, all);
    if (sent == LS_OK && at->rank == 0 && mine.shard_seconds > 0) /* without a forecast training goes on */
        if (foretell(f, s, &alone, &r, common_shard_seconds(all, at->n_ranks, is_balanced)) != LS_OK)
            f->is_made = false;
    free(all);
    TRY(sent);
    TRY(ls_exec_end_rehearsal(s->exec)); /* also waits until rank 0 has weighed the sums */
    TRY(ls_exec_profile(s->exec, false));
    return ls_comm_broadcast(s->comm, 0, f, sizeof *f);
}

enum ls_status ls__forecast_make(struct forecast *f, struct session *s, uint64_t seed, bool is_balanced)
{
    struct ls_loader *loader;
    struct ls_batch batch;
    *f = (struct forecast){0};
    if (!s->comm || ls_comm_place(s->comm)->n_machines == 1) return LS_OK;
    if (ls_exec_adds_by_devices(s->exec)) return LS_OK; /* the network that is measured here is not theirs */
    f->n_machines = ls_comm_place(s->comm)->n_machines;
    const struct ls_loader_options lo = {
        .batch_size = (int)s->batch_size, .seed = seed, .shuffle = true, .n_threads = 1, .kept = s->train_kept};
    TRY(ls_loader_create(&loader, s->train, &lo));
    enum ls_status status = ls_loader_next(loader, &batch);
    const struct ls_exec_step step = {
        .batch = &batch, .transform = &s->transform, .shard_size = s->shard_size, .seed = seed};
    if (status == LS_OK) status = consult(f, s, &step, is_balanced);
    ls_loader_destroy(&loader);
    return status;
}

static const char *seconds_text(double s, char out[32])
{
    if (s >= 0.9995)
        snprintf(out, 32, "%.3g s", s);
    else
        snprintf(out, 32, "%.3g ms", s * 1e3);
    return out;
}

void ls__forecast_tell(const struct forecast *f)
{
    char step[32], alone[32], wire[32], latency[32];
    if (!f->is_made) return;
    seconds_text(f->step_seconds, step);
    seconds_text(f->alone_seconds, alone);
    seconds_text(f->wire_seconds, wire);
    seconds_text(f->network.latency, latency);
    ls__log(LS_LOG_INFO, "predicted: %s per step on %d machines (network: %s, %.3g MB/s), %s on one alone", step,
            f->n_machines, latency, f->network.bandwidth * 1e-6, alone);
    if (f->step_seconds <= f->alone_seconds) return;
    if (f->wire_seconds < (f->step_seconds - f->alone_seconds) / 2)
        ls__log(LS_LOG_WARN,
                "%d machines will be slower than one: %s per step instead of %s; the network's latency of %s sets the "
                "pace. "
                "--sync local:H or a larger batch help",
                f->n_machines, step, alone, latency);
    else
        ls__log(
            LS_LOG_WARN,
            "%d machines will be slower than one: %s per step instead of %s; %.3g M parameters need %s per step on the "
            "wire. --compress, a faster network or a larger batch help",
            f->n_machines, step, alone, (double)f->n_parameters * 1e-6, wire);
}

void ls__forecast_note(struct forecast *f, double seconds)
{
    enum { COLD = 2 }; /* steps that touch memory for the first time */
    if (f->n_seen++ < COLD) return;
    f->measured_seconds += seconds;
    f->n_measured++;
}

void ls__forecast_compare(const struct forecast *f)
{
    char predicted[32], measured[32];
    if (!f->is_made || f->n_measured == 0) return;
    double mean = f->measured_seconds / (double)f->n_measured;
    ls__log(LS_LOG_INFO, "step: predicted %s, measured %s (prediction off by %+.0f %%)",
            seconds_text(f->step_seconds, predicted), seconds_text(mean, measured), 100 * (f->step_seconds / mean - 1));
}
