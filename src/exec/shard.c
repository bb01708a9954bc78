/* shard.c: the phase of the shards: one shard, start to end, on one thread. */
#include "exec/exec_internal.h"

/* Adds a gradient to its sum, part by part, each under its lock. The lock belongs to the sum's entry in the store, not
 * to the op: shards of two sizes follow two plans at the same time, in which the op's number may differ. Shards begin
 * at different parts so that threads in step with each other do not queue. */
static enum ls_status reduce(struct ls_exec *e, const struct ls_plan *p, const struct ls_plan_op *op,
                             const struct ls_bound *b, int shard, struct ls_step_ctx *ctx)
{
    enum ls_status status = LS_OK;
    const struct ls_impl *impl = op->kernel->impl;
    int entry = p->slots[op->node.out[0]].stored;
    float *remainder = ls__compress_by_device(e, p, op, shard);
    ctx->n_parts = op->n_parts;
    ls__compress_gradient(e, p, op, b, shard);
    for (int i = 0; i < op->n_parts && status == LS_OK; i++) {
        ctx->part = (i + shard) % op->n_parts;
        e->together->lock(e, entry + ctx->part);
        status = remainder ? impl->launch_coarse(b, ctx, remainder, e->compress.bits) : impl->launch(b, ctx);
        e->together->unlock(e, entry + ctx->part);
    }
    ctx->part = 0;
    ctx->n_parts = 1;
    if (status == LS_OK) e->together->contribute(e, e->sums.places[entry].bucket);
    return status;
}

struct shard_cut ls__shard_cut(const struct ls_exec_step *ask, int shard)
{
    int first = (int)(shard * ask->shard_size);
    int left = ask->batch->n - first;
    return (struct shard_cut){first, left < ask->shard_size ? left : (int)ask->shard_size};
}

static void *at(const struct ls_plan *p, int value, char *arena)
{
    return arena + p->slots[value].offset;
}

struct ls_load ls__shard_load_of(const struct step *s, const struct bound_plan *bp, struct shard_cut c, int thread)
{
    const struct ls_batch *batch = s->ask->batch;
    const struct ls_plan *p = bp->plan;
    char *arena = s->e->workers[thread].arena;
    const bool is_mixing = p->graph->mix_labels >= 0;
    return (struct ls_load){.transform = s->ask->transform,
                            .is_training = s->is_training,
                            .seed = s->ask->seed,
                            .epoch = batch->epoch,
                            .n = c.n,
                            .mb = (int)p->graph->mb,
                            .samples = batch->samples + c.first,
                            .labels = batch->labels + c.first,
                            .pixels = batch->pixels + c.first,
                            .kept = batch->kept,
                            .dst = at(p, p->graph->input, arena),
                            .dst_labels = at(p, p->graph->labels, arena),
                            .dst_samples = (uint32_t *)(arena + ls__samples_offset(s->e)),
                            .dst_mix_labels = is_mixing ? at(p, p->graph->mix_labels, arena) : NULL,
                            .dst_mix_shares = is_mixing ? at(p, p->graph->mix_shares, arena) : NULL,
                            .fetched = ls__fetch_number(s, c)};
}

/* Bytes to floats, straight into the arena of the thread that will read them. */
enum ls_status ls__shard_load(const struct step *s, const struct bound_plan *bp, struct shard_cut c, int thread)
{
    const struct ls_backend *backend = s->e->backend;
    const struct ls_load load = ls__shard_load_of(s, bp, c, thread);
    return (backend->load ? backend->load : ls_backend_load)(s->e->device, &load);
}

struct ls_step_ctx ls__shard_context(const struct ls_exec_step *ask, struct shard_cut c)
{
    return (struct ls_step_ctx){.seed = ask->seed,
                                .step = ask->step,
                                .n_valid = c.n,
                                .first = c.first,
                                .grad_scale = (float)(1.0 / ask->batch->n),
                                .share = (float)((double)c.n / ask->batch->n),
                                .clip_scale = 1,
                                .n_parts = 1};
}

const struct bound_plan *ls__shard_plan(const struct step *s, struct shard_cut c)
{
    return ls__exec_find(s->e, s->is_training ? c.n : s->ask->shard_size, s->is_training);
}

static enum ls_status run_op(struct ls_exec *e, const struct bound_plan *bp, int i, int shard, int thread,
                             struct ls_step_ctx *ctx)
{
    const struct ls_plan_op *op = &bp->plan->ops[i];
    const struct ls_bound *b = &bp->bound[thread][i];
    return op->node.op == LS_OP_REDUCE ? reduce(e, bp->plan, op, b, shard, ctx) : op->kernel->impl->launch(b, ctx);
}

/* One shard's launches. */
struct shard_run {
    struct ls_exec *e;
    const struct bound_plan *bp;
    int shard, thread;
    struct ls_step_ctx ctx;
    bool is_early; /* REDUCE ops come where early.c has them */
};

static enum ls_status launch_op(struct shard_run *run, int i)
{
    const struct ls_plan_op *op = &run->bp->plan->ops[i];
    struct ls_lane *lane = run->e->workers[run->thread].lane;
    if (op->kernel->is_view) return LS_OK;
    if (!ls__lane_wants_ops(lane)) return run_op(run->e, run->bp, i, run->shard, run->thread, &run->ctx);
    struct ls_begun begun = ls__op_begin(lane, LS_SPAN_OP, op->node.name, run->bp->first_op + i);
    TRY(run_op(run->e, run->bp, i, run->shard, run->thread, &run->ctx));
    TRY(ls__memory_settle(run->e)); /* where launch only enqueues, the op ends here */
    ls__span_end(lane, begun);
    return LS_OK;
}

/* What is complete behind op i: the sums that read it, and buckets. */
static enum ls_status launch_early(struct shard_run *run, int i)
{
    const struct early *early = &run->bp->early;
    for (int r = i + 1; r < run->bp->plan->n_ops; r++)
        if (early->reduce[r] == i) TRY(launch_op(run, r));
    for (int b = 1; b < early->n_buckets; b++) {
        const struct ls_sum_range range = ls__early_range(run->e, b);
        if (early->ready[b] == i)
            TRY(run->e->backend->sums->ready(run->e->device, b, run->e->sums.block + range.begin,
                                             range.end - range.begin));
    }
    return LS_OK;
}

static enum ls_status launch_ops(void *arg)
{
    struct shard_run *run = arg;
    const struct bound_plan *bp = run->bp;
    for (int i = 0; i < bp->plan->n_ops; i++) {
        if (bp->plan->ops[i].phase != LS_SHARD || (run->is_early && bp->early.reduce[i] >= 0)) continue;
        TRY(launch_op(run, i));
        if (run->is_early) TRY(launch_early(run, i));
    }
    return LS_OK;
}

/* What reduce() tells besides launching. */
static void contribute_all(struct ls_exec *e, const struct ls_plan *p)
{
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].phase == LS_SHARD && p->ops[i].node.op == LS_OP_REDUCE)
            e->together->contribute(e, e->sums.places[p->slots[p->ops[i].node.out[0]].stored].bucket);
}

static enum ls_status run_ops(const struct step *s, int shard, int thread)
{
    struct shard_cut c = ls__shard_cut(s->ask, shard);
    struct shard_run run = {s->e, ls__shard_plan(s, c), shard, thread, ls__shard_context(s->ask, c), false};
    if (!run.bp) return ls_fail(LS_INTERNAL, "no plan for shards of %d samples", c.n);
    run.is_early = ls__early_is(s, run.bp, shard);
    const struct record_key key = {run.bp->plan, LS_SHARD, c.first, c.n, s->ask->batch->n, s->ask->seed, run.is_early};
    bool is_replayed;
    TRY(ls__shard_load(s, run.bp, c, thread));
    TRY(ls__exec_launch(s->e, &key, launch_ops, &run, &is_replayed));
    if (is_replayed) contribute_all(s->e, run.bp->plan);
    if (s->is_training || !s->ask->logits) return LS_OK;
    const struct ls_graph *g = run.bp->plan->graph;
    return ls__memory_logits(s->e, run.bp->plan, thread, c.n,
                             s->ask->logits + (size_t)c.first * (size_t)g->values[g->logits].shape.dims[1]);
}

enum ls_status ls__exec_run_shard(void *arg, int item, int thread)
{
    const struct step *s = arg;
    struct ls_lane *lane = s->e->workers[thread].lane;
    struct ls_begun begun = ls__span_begin(lane, s->work, "shard", s->first + item);
    enum ls_status status = run_ops(s, s->first + item, thread);
    ls__span_end(lane, begun); /* also that of an op that failed */
    if (s->is_training) s->e->workers[thread].n_samples += ls__shard_cut(s->ask, s->first + item).n;
    return status;
}
