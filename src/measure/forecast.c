/* forecast.c: rehearses and probes before the first step, and says what machines will gain. */
#include "measure/forecast.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "comm/comm.h"
#include "measure/bench.h"
#include "measure/profile.h"
#include "session/rehearse.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static struct ls_phases phases_of(const struct session *s, const struct best *best)
{
    const struct ls_plan *plan = ls_exec_plan(s->exec, s->shard_size, true);
    struct ls_phases t = {0};
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
    struct ls_phases t = phases_of(s, best);
    TRY(ls_loader_next(loader, &batch));
    const struct ls_exec_step step = {
        .batch = &batch, .transform = &s->transform, .shard_size = s->shard_size, .seed = 1, .lr = 1e-4};
    TRY(ls_exec_backward(s->exec, &step, &stats));
    return ls__profile_fill(s, &t, p);
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
    if (status == LS_OK) status = ls__profile_average(s, p);
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

/* The first round finds cold caches and pages that are not there yet, and says how many more there is time for: the
 * same number on all ranks. *alone: the first machine's, while the others wait; *r: all at once. */
static enum ls_status rehearse(struct session *s, const struct ls_exec_step *step, struct ls_exec_rehearsal *alone,
                               struct ls_exec_rehearsal *r)
{
    const double enough = 0.4; /* seconds */
    enum ls_status status = ls_exec_rehearse(s->exec, step, r);
    int32_t n = ls__rehearse_count(r, enough);
    TRY(ls_comm_broadcast(s->comm, 0, &n, sizeof n));
    if (status == LS_OK && ls_comm_place(s->comm)->machine == 0) status = ls__rehearse(s, step, n, alone);
    TRY(ls_comm_broadcast(s->comm, 0, &n, sizeof n)); /* the others wait here */
    if (status == LS_OK) status = ls_exec_profile(s->exec, true);
    return status == LS_OK ? ls__rehearse(s, step, n, r) : status;
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

enum ls_status ls__forecast_foretell(struct forecast *f, const struct session *s, const struct forecast_basis *b)
{
    struct ls_predict_profile p = {0};
    struct ls_predict_cluster one = *b->cluster;
    one.workers = 1;
    one.threads = b->threads;
    enum ls_status status = ls__profile_rehearsed(s, b->alone, b->threads, b->times, &p);
    if (status == LS_OK) {
        f->alone_seconds = ls_predict_step(&p, &one, LS_PREDICT_HIERARCHICAL).step_seconds;
        ls__profile_slow_down(&p, b->alone, b->together, b->shard_seconds);
        const struct ls_predict_point point = ls_predict_step(&p, b->cluster, b->algorithm);
        f->step_seconds = point.step_seconds;
        f->wire_seconds = point.wire_seconds;
        f->n_parameters = p.n_parameters;
        f->is_made = true;
    }
    ls_predict_profile_release(&p);
    return status;
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
    const int threads = s->threads * at->n_local;
    const struct ls_predict_cluster c = {
        .workers = at->n_machines, .workers_per_machine = 1, .threads = threads, .network = &network};
    const struct forecast_basis basis = {.alone = alone,
                                         .together = r,
                                         .threads = threads,
                                         .times = (double)s->shards / r->n_run,
                                         .shard_seconds = common_seconds,
                                         .cluster = &c,
                                         .algorithm = LS_PREDICT_HIERARCHICAL};
    return ls__forecast_foretell(f, s, &basis);
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

/* The latency sets the pace, not what is sent. */
static bool is_waiting(const struct forecast *f)
{
    return f->wire_seconds < (f->step_seconds - f->alone_seconds) / 2;
}

static void tell_machines(const struct forecast *f, const char *step, const char *alone, const char *wire,
                          const char *latency)
{
    ls__log(LS_LOG_INFO, "predicted: %s per step on %d machines (network: %s, %.3g MB/s), %s on one alone", step,
            f->n_machines, latency, f->network.bandwidth * 1e-6, alone);
    if (f->step_seconds <= f->alone_seconds) return;
    if (is_waiting(f))
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

static void tell_served(const struct forecast *f, const char *step, const char *alone, const char *wire,
                        const char *latency)
{
    char network[80] = "shared memory";
    if (f->network.bandwidth > 0)
        snprintf(network, sizeof network, "network: %s, %.3g MB/s", latency, f->network.bandwidth * 1e-6);
    ls__log(LS_LOG_INFO, "predicted: %s per step of %d worker%s and %d server%s (%s), %s on one machine alone", step,
            f->n_machines, f->n_machines == 1 ? "" : "s", f->n_servers, f->n_servers == 1 ? "" : "s", network, alone);
    if (f->step_seconds <= f->alone_seconds || f->network.bandwidth <= 0) return;
    if (is_waiting(f))
        ls__log(LS_LOG_WARN,
                "this will be slower than one machine: %s per step instead of %s; the network's latency of %s sets the "
                "pace. --sync local:H or a larger batch help",
                step, alone, latency);
    else
        ls__log(LS_LOG_WARN,
                "this will be slower than one machine: %s per step instead of %s; %.3g M parameters need %s per step "
                "on the wire. More --servers, --sync allreduce, a faster network or a larger batch help",
                step, alone, (double)f->n_parameters * 1e-6, wire);
}

void ls__forecast_tell(const struct forecast *f)
{
    char step[32], alone[32], wire[32], latency[32];
    if (!f->is_made) return;
    seconds_text(f->step_seconds, step);
    seconds_text(f->alone_seconds, alone);
    seconds_text(f->wire_seconds, wire);
    seconds_text(f->network.latency, latency);
    if (f->n_servers > 0)
        tell_served(f, step, alone, wire, latency);
    else
        tell_machines(f, step, alone, wire, latency);
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
