/* shard.c: one shard, start to end, on one thread. */
#include "base/clock.h"
#include "exec/exec_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Adds a gradient to its sum, part by part, each under its lock. The lock belongs to the sum's entry in the store, not
 * to the op: shards of two sizes follow two plans at the same time, in which the op's number may differ. Shards begin
 * at different parts so that threads in step with each other do not queue. */
static enum ls_status reduce(struct ls_exec *e, const struct ls_plan *p, const struct ls_plan_op *op,
                             const struct ls_bound *b, int shard, struct ls_step_ctx *ctx)
{
    enum ls_status status = LS_OK;
    int entry = p->slots[op->node.out[0]].stored;
    ctx->n_parts = op->n_parts;
    ls__compress_gradient(e, p, op, b, shard);
    for (int i = 0; i < op->n_parts && status == LS_OK; i++) {
        ctx->part = (i + shard) % op->n_parts;
        ls__team_lock(e, entry + ctx->part);
        status = op->kernel->impl->launch(b, ctx);
        ls__team_unlock(e, entry + ctx->part);
    }
    ctx->part = 0;
    ctx->n_parts = 1;
    if (status == LS_OK) ls__exec_contribute(e, entry);
    return status;
}

/* The samples of a shard. */
struct cut {
    int first, n;
};

static struct cut cut_of(const struct ls_exec_step *s, int shard)
{
    int first = (int)(shard * s->shard_size);
    int left = s->batch->n - first;
    return (struct cut){first, left < s->shard_size ? left : (int)s->shard_size};
}

/* Bytes to floats, straight into the arena of the thread that will read them. */
static void load(const struct ls_exec *e, const struct bound_plan *bp, const struct ls_exec_step *s, struct cut c,
                 int thread, bool is_training)
{
    const struct ls_graph *g = bp->plan->graph;
    const struct ls_transform *t = s->transform;
    size_t image = (size_t)t->c * (size_t)t->h * (size_t)t->w;
    float *input = (float *)(e->arenas[thread].data + bp->plan->slots[g->input].offset);
    int32_t *labels = (int32_t *)(e->arenas[thread].data + bp->plan->slots[g->labels].offset);
    for (int i = 0; i < c.n; i++) {
        int at = c.first + i;
        ls_transform_apply(t, is_training, s->seed, s->batch->epoch, s->batch->samples[at], s->batch->pixels[at],
                           input + (size_t)i * image);
        labels[i] = s->batch->labels[at];
    }
    for (int64_t i = c.n; i < g->mb; i++) {
        memset(input + (size_t)i * image, 0, image * sizeof *input);
        labels[i] = -1;
    }
}

static struct ls_step_ctx context_of(const struct ls_exec_step *s, struct cut c)
{
    return (struct ls_step_ctx){.seed = s->seed,
                                .step = s->step,
                                .n_valid = c.n,
                                .samples = s->batch->samples + c.first,
                                .first = c.first,
                                .grad_scale = (float)(1.0 / s->batch->n),
                                .share = (float)((double)c.n / s->batch->n),
                                .clip_scale = 1,
                                .n_parts = 1};
}

static const struct bound_plan *plan_of(const struct ls_exec *e, const struct ls_exec_step *s, struct cut c,
                                        bool is_training)
{
    return ls__exec_find(e, is_training ? c.n : s->shard_size, is_training);
}

enum ls_status ls__exec_run_shard(void *arg, int item, int thread)
{
    const struct shard_run *run = arg;
    struct ls_exec *e = run->e;
    int shard = run->first + item;
    int64_t start = ls__now_ns();
    struct cut c = cut_of(run->step, shard);
    const struct bound_plan *bp = plan_of(e, run->step, c, run->is_training);
    if (!bp) return ls_fail(LS_INTERNAL, "no plan for shards of %d samples", c.n);
    struct ls_step_ctx ctx = context_of(run->step, c);
    load(e, bp, run->step, c, thread, run->is_training);
    for (int i = 0; i < bp->plan->n_ops; i++) {
        const struct ls_plan_op *op = &bp->plan->ops[i];
        if (op->phase != LS_SHARD || op->kernel->is_view) continue;
        int64_t before = e->is_profiling ? ls__thread_ns() : 0;
        if (op->node.op == LS_OP_REDUCE)
            TRY(reduce(e, bp->plan, op, &bp->bound[thread][i], shard, &ctx));
        else
            TRY(op->kernel->impl->launch(&bp->bound[thread][i], &ctx));
        if (e->is_profiling) bp->op_ns[thread][i] += ls__thread_ns() - before;
    }
    e->arenas[thread].busy_ns += ls__now_ns() - start;
    return LS_OK;
}

/* --- after a non-finite value was seen: which op made the first one? --- */

/* No NaN, and nothing of `limit` or more. */
static bool is_below(const float *x, size_t n, float limit)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(x[i]) < limit)) return false;
    return true;
}

static bool has_bad_output(const struct ls_plan *p, const struct ls_plan_op *op, const struct ls_bound *b, float limit)
{
    for (int k = 0; k < op->node.n_out; k++) {
        const struct ls_value *v = op->node.out[k] >= 0 ? &p->graph->values[op->node.out[k]] : NULL;
        if (!v || v->dtype != LS_F32 || v->is_workspace || op->kernel->out[k].bytes == 0) continue;
        if (!is_below(b->out[k], op->kernel->out[k].bytes / sizeof(float), limit)) return true;
    }
    return false;
}

static enum ls_status check_params(const struct ls_exec *e)
{
    for (int i = 0; i < e->store->n_entries; i++) {
        const struct ls_stored *s = &e->store->entries[i];
        if ((s->kind == LS_VALUE_PARAM || s->kind == LS_VALUE_BUFFER) &&
            !is_below(s->data, s->layout.bytes / sizeof(float), INFINITY))
            return ls_fail(LS_NONFINITE, "parameter %s is not finite", s->name);
    }
    return LS_OK;
}

/* limit: INFINITY, or what is too large for a training that goes well. */
static enum ls_status diagnose_shard(struct ls_exec *e, const struct ls_exec_step *s, int shard, float limit)
{
    char what[64] = "value that is not finite";
    if (isfinite(limit)) snprintf(what, sizeof what, "value beyond %g", (double)limit);
    struct cut c = cut_of(s, shard);
    const struct bound_plan *bp = plan_of(e, s, c, true);
    struct ls_step_ctx ctx = context_of(s, c);
    if (!bp) return LS_OK;
    load(e, bp, s, c, 0, true);
    for (int i = 0; i < bp->plan->n_ops; i++) {
        const struct ls_plan_op *op = &bp->plan->ops[i];
        if (op->phase != LS_SHARD || op->kernel->is_view || op->node.op == LS_OP_REDUCE) continue;
        TRY(op->kernel->impl->launch(&bp->bound[0][i], &ctx));
        if (has_bad_output(bp->plan, op, &bp->bound[0][i], limit))
            return ls_fail(
                LS_NONFINITE,
                "step %lld: the first %s came out of %s of layer %s (shard %d); try a lower --lr, --warmup-epochs or "
                "--clip-norm",
                (long long)s->step + 1, what, ls_op_name(op->node.op), op->node.name, shard);
    }
    return LS_OK;
}

/* Values may be finite and yet too large to be summed: then the first large one is where it began. */
enum ls_status ls__exec_diagnose(struct ls_exec *e, const struct ls_exec_step *s, int first, int end)
{
    const float large = 1e6f;
    char seen[512];
    strncpy(seen, ls_error_message(), sizeof seen - 1);
    seen[sizeof seen - 1] = '\0';
    TRY(check_params(e));
    for (int shard = first; shard < end; shard++) TRY(diagnose_shard(e, s, shard, INFINITY));
    for (int shard = first; shard < end; shard++) TRY(diagnose_shard(e, s, shard, large));
    return ls_fail(LS_NONFINITE, "step %lld: %s; try a lower --lr, --warmup-epochs or --clip-norm",
                   (long long)s->step + 1, seen);
}
