/* exec.c: the life of an executor and the step. See lockstep/exec.h. */
#include "base/clock.h"
#include "base/mem.h"
#include "exec/exec_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum ls_status build(struct ls_exec *e)
{
    TRY(ls__calloc(&e->arenas, (size_t)e->n_threads, sizeof *e->arenas));
    return ls__pool_create(&e->pool, e->n_threads, true, e->backend->thread_begin);
}

enum ls_status ls_exec_create(struct ls_exec **out, const struct ls_backend *backend, struct ls_device *device,
                              struct ls_store *store, int n_threads)
{
    *out = NULL;
    TRY(ls__calloc(out, 1, sizeof **out));
    struct ls_exec *e = *out;
    e->backend = backend;
    e->device = device;
    e->store = store;
    e->n_threads = n_threads;
    e->n_seats = e->n_nodes = 1;
    enum ls_status status = build(e);
    if (status != LS_OK) ls_exec_destroy(out);
    return status;
}

void ls_exec_destroy(struct ls_exec **exec)
{
    struct ls_exec *e = *exec;
    if (!e) return;
    ls__pool_destroy(&e->pool);
    for (int i = 0; i < e->n_plans; i++) ls__exec_free_plan(e, &e->plans[i]);
    free(e->plans);
    for (int t = 0; e->arenas && t < e->n_threads; t++) ls__free_aligned(e->arenas[t].data, e->arenas[t].bytes);
    free(e->arenas);
    ls__exec_free_sums(e);
    ls__compress_release(e);
    free(e->weights);
    free(e->mine);
    free(e);
    *exec = NULL;
}

int ls_exec_n_threads(const struct ls_exec *e)
{
    return e->n_threads;
}

size_t ls_exec_arena_bytes(const struct ls_exec *e)
{
    return e->arena_bytes;
}

/* Larger arenas for all threads. Every plan must be bound again: its addresses changed. */
static enum ls_status grow_arenas(struct ls_exec *e, size_t bytes)
{
    for (int i = 0; i < e->n_plans; i++) ls__exec_unbind(e, &e->plans[i]);
    for (int t = 0; t < e->n_threads; t++) {
        ls__free_aligned(e->arenas[t].data, e->arenas[t].bytes);
        e->arenas[t].data = NULL;
        TRY(ls__alloc_aligned(&e->arenas[t].data, bytes));
        e->arenas[t].bytes = bytes;
    }
    e->arena_bytes = bytes;
    for (int i = 0; i < e->n_plans - 1; i++) TRY(ls__exec_bind(e, &e->plans[i]));
    return LS_OK;
}

enum ls_status ls_exec_add_plan(struct ls_exec *e, struct ls_plan **plan)
{
    enum ls_status status = ls__grow(&e->plans, (size_t)e->n_plans, (size_t)e->n_plans + 1, sizeof *e->plans);
    if (status != LS_OK) {
        ls_plan_destroy(plan);
        return status;
    }
    struct bound_plan *bp = &e->plans[e->n_plans++];
    *bp = (struct bound_plan){.plan = *plan};
    *plan = NULL;
    TRY(ls__exec_place_sums(e, bp->plan));
    TRY(ls_store_allocate(e->store));
    if (bp->plan->arena_bytes > e->arena_bytes || !e->arenas[0].data) TRY(grow_arenas(e, bp->plan->arena_bytes));
    return ls__exec_bind(e, bp);
}

const struct ls_plan *ls_exec_plan(const struct ls_exec *e, int64_t mb, bool is_training)
{
    const struct bound_plan *bp = ls__exec_find(e, mb, is_training);
    return bp ? bp->plan : NULL;
}

void ls_exec_zero_sums(struct ls_exec *e)
{
    for (int i = 0; i < e->store->n_entries; i++)
        if (e->store->entries[i].kind == LS_VALUE_SUM)
            memset(e->store->entries[i].data, 0, e->store->entries[i].layout.bytes);
}

static int n_shards_of(const struct ls_exec_step *s)
{
    return (int)((s->batch->n + s->shard_size - 1) / s->shard_size);
}

static void note(struct ls_exec *e, const struct ls_exec_step *s, const char *what)
{
    if (e->comm) ls_comm_note(e->comm, s->step + 1, what);
}

/* Which op made the first bad value: the leader looks, all of the node hear it. */
static enum ls_status diagnose(struct ls_exec *e, const struct ls_exec_step *s, enum ls_status status)
{
    if (e->seat == 0) status = ls__exec_diagnose(e, s, e->first_shard, e->first_shard + e->n_own_shards);
    return ls__team_meet(e, status);
}

/* Parameters in the layouts that the shards of this batch want. *bp: the plan of its full shards. */
static enum ls_status prepare(struct ls_exec *e, const struct ls_exec_step *s, bool is_training,
                              const struct bound_plan **bp)
{
    int n_shards = n_shards_of(s);
    int rest = (int)(s->batch->n - (n_shards - 1) * s->shard_size);
    int64_t full = is_training && n_shards == 1 ? rest : s->shard_size;
    *bp = ls__exec_find(e, full, is_training);
    if (!*bp) return ls_fail(LS_INTERNAL, "no plan for shards of %lld samples", (long long)full);
    note(e, s, "layouts");
    TRY(ls__exec_pre(e, *bp));
    if (!is_training || rest == full) return LS_OK;
    const struct bound_plan *last = ls__exec_find(e, rest, true);
    if (!last) return ls_fail(LS_INTERNAL, "no plan for shards of %d samples", rest);
    return ls__exec_pre(e, last);
}

/* All shards of this node, and what is summed over them once; update: as ls__exec_join takes it. */
static enum ls_status run_shards(struct ls_exec *e, const struct ls_exec_step *s, bool is_training,
                                 const struct ls_step_ctx *update, const struct bound_plan **bp)
{
    TRY(prepare(e, s, is_training, bp));
    ls__exec_share_shards(e, n_shards_of(s));
    if (is_training) TRY(ls__compress_begin(e, (*bp)->plan));
    TRY(ls__exec_sum_begin(e, is_training, e->n_own_shards));
    ls__exec_fill_control(e);
    note(e, s, is_training ? "shards" : "evaluation");
    int64_t start = ls__now_ns();
    struct shard_run run = {e, s, is_training, e->first_shard};
    enum ls_status status = ls__team_run(e, e->n_own_shards, ls__exec_run_shard, &run);
    e->shards_ns = ls__now_ns() - start;
    const struct ls_step_ctx join = {.shard_size = (int)s->shard_size,
                                     .batch_n = s->batch->n,
                                     .n_parts = 1,
                                     .mine = e->n_nodes > 1 ? e->mine : NULL};
    if (status == LS_OK) status = ls__exec_join(e, *bp, &join, update);
    if (status == LS_NONFINITE && is_training) status = diagnose(e, s, status);
    ls__exec_flush(e, status != LS_OK);
    return status;
}

/* The job is broken: no rank may wait for another any more. */
static bool is_job_lost(enum ls_status status)
{
    return status == LS_TIMEOUT || status == LS_REMOTE;
}

/* After the work of a step, done or failed: all nodes have met, everybody knows loss and outcome. */
static enum ls_status conclude(struct ls_exec *e, const struct ls_exec_step *s, const struct bound_plan *bp,
                               enum ls_status status, struct ls_exec_stats *stats)
{
    char message[1024];
    if (is_job_lost(status)) return status;
    snprintf(message, sizeof message, "%s", status == LS_OK ? "" : ls_error_message());
    note(e, s, "sums");
    enum ls_status news = ls__exec_read_news(e, bp->plan, n_shards_of(s), stats);
    stats->n = s->batch->n;
    if (status == LS_OK && news == LS_OK) return LS_OK;
    if (status == LS_OK || is_job_lost(news)) return status == LS_OK ? news : ls_fail(status, "%s", message);
    if (e->seat == 0) ls_exec_zero_sums(e);
    TRY(ls__team_meet(e, LS_OK));
    return ls_fail(status, "%s", message);
}

static void begin_clock(struct ls_exec *e, struct ls_exec_stats *stats)
{
    *stats = (struct ls_exec_stats){0};
    e->comm_ns = 0;
    for (int t = 0; t < e->n_threads; t++) e->arenas[t].busy_ns = 0;
}

static void end_clock(const struct ls_exec *e, int64_t start_ns, struct ls_exec_stats *stats)
{
    int64_t busy_ns = 0;
    for (int t = 0; t < e->n_threads; t++) busy_ns += e->arenas[t].busy_ns;
    stats->compute_seconds = (double)busy_ns * 1e-9 / e->n_threads;
    stats->communicate_seconds = (double)e->comm_ns * 1e-9;
    stats->wait_seconds = ls__seconds_since(start_ns) - stats->compute_seconds - stats->communicate_seconds;
}

enum ls_status ls_exec_backward(struct ls_exec *e, const struct ls_exec_step *s, struct ls_exec_stats *stats)
{
    const struct bound_plan *bp = NULL;
    begin_clock(e, stats);
    enum ls_status status = run_shards(e, s, true, NULL, &bp);
    return bp ? conclude(e, s, bp, status, stats) : status;
}

static enum ls_status update(struct ls_exec *e, const struct ls_exec_step *s, struct ls_step_ctx ctx,
                             const struct bound_plan *bp, struct ls_exec_stats *stats)
{
    note(e, s, "update");
    if (s->clip_norm > 0) {
        int64_t start = ls__now_ns();
        if (e->n_nodes > 1) TRY(ls_comm_sum_wait(e->comm, e->sums.n));
        e->comm_ns += ls__now_ns() - start;
        TRY(ls__team_meet(e, ls__exec_grad_norm(e, bp->plan, &stats->grad_norm))); /* updates zero the sums */
        if (stats->grad_norm > s->clip_norm) ctx.clip_scale = (float)(s->clip_norm / (stats->grad_norm + 1e-6));
    }
    return ls__exec_post(e, bp, &ctx);
}

enum ls_status ls_exec_train(struct ls_exec *e, const struct ls_exec_step *s, struct ls_exec_stats *stats)
{
    const struct bound_plan *bp = NULL;
    int64_t start_ns = ls__now_ns();
    const struct ls_step_ctx ctx = {
        .seed = s->seed, .step = s->step, .lr = (float)s->lr, .clip_scale = 1, .n_parts = 1};
    begin_clock(e, stats);
    enum ls_status status = run_shards(e, s, true, s->clip_norm > 0 ? NULL : &ctx, &bp);
    if (!bp) return status;
    if (status == LS_OK) {
        ls__exec_publish(e, bp->plan);
        status = update(e, s, ctx, bp, stats);
    }
    TRY(conclude(e, s, bp, status, stats));
    end_clock(e, start_ns, stats);
    return LS_OK;
}

enum ls_status ls_exec_evaluate(struct ls_exec *e, const struct ls_exec_step *s, struct ls_exec_stats *stats)
{
    const struct bound_plan *bp = NULL;
    int64_t start_ns = ls__now_ns();
    begin_clock(e, stats);
    enum ls_status status = run_shards(e, s, false, NULL, &bp);
    if (!bp) return status;
    TRY(conclude(e, s, bp, status, stats));
    end_clock(e, start_ns, stats);
    return LS_OK;
}
