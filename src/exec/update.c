/* update.c: what happens once per step: parameters brought into other layouts, the gradient's norm, the update. */
#include "base/clock.h"
#include "base/mem.h"
#include "exec/exec_internal.h"

#include <math.h>
#include <stdlib.h>

/* When an op began: on the clock, and in the thread's own time while profiling. */
struct moment {
    int64_t wall_ns, thread_ns;
};

static struct moment begin(const struct ls_exec *e)
{
    return (struct moment){ls__now_ns(), e->is_profiling ? ls__thread_ns() : 0};
}

static void account(struct ls_exec *e, const struct bound_plan *bp, int thread, int op, struct moment start)
{
    e->arenas[thread].busy_ns += ls__now_ns() - start.wall_ns;
    if (e->is_profiling) bp->op_ns[thread][op] += ls__thread_ns() - start.thread_ns;
}

/* --- pre: copies of parameters in the layouts that backward wants --- */

struct pre_run {
    struct ls_exec *e;
    const struct bound_plan *bp;
    const int *ops;
};

/* The copy a PRE op makes. */
static struct ls_stored *copy_of(struct ls_exec *e, const struct ls_plan *p, int op)
{
    return &e->store->entries[p->slots[p->ops[op].node.out[0]].stored];
}

static enum ls_status run_pre(void *arg, int item, int thread)
{
    const struct pre_run *run = arg;
    const struct ls_step_ctx ctx = {.n_parts = 1};
    struct moment start = begin(run->e);
    /* Bound per thread because the scratch is the thread's own. */
    const struct ls_bound *b = &run->bp->bound[thread][run->ops[item]];
    enum ls_status status = b->kernel->impl->launch(b, &ctx);
    account(run->e, run->bp, thread, run->ops[item], start);
    return status;
}

/* One round of copies. Every rank notes what the whole team has made. */
static enum ls_status make_copies(struct ls_exec *e, const struct bound_plan *bp, const int *ops, int n)
{
    struct pre_run run = {e, bp, ops};
    if (n == 0) return LS_OK;
    TRY(ls__team_run(e, n, run_pre, &run));
    for (int i = 0; i < n; i++) copy_of(e, bp->plan, ops[i])->version = e->store->version;
    return LS_OK;
}

enum ls_status ls__exec_pre(struct ls_exec *e, const struct bound_plan *bp)
{
    enum { ROUND = 1024 };
    const struct ls_plan *p = bp->plan;
    int stale[ROUND], n_stale = 0;
    for (int i = 0; i < p->n_ops; i++) {
        if (p->ops[i].phase != LS_PRE || copy_of(e, p, i)->version == e->store->version) continue;
        stale[n_stale++] = i;
        if (n_stale < ROUND) continue;
        TRY(make_copies(e, bp, stale, n_stale));
        n_stale = 0;
    }
    return make_copies(e, bp, stale, n_stale);
}

/* --- the norm of the whole gradient, from the exact sums --- */

enum { NORM_PART = 1 << 15 };

struct norm_item {
    const int64_t *sum;
    int64_t n;
    double result;
};

static enum ls_status run_norm(void *arg, int item, int thread)
{
    struct norm_item *it = (struct norm_item *)arg + item;
    const double unit = ldexp(1, -LS_SCALE_GRAD);
    double lanes[8] = {0};
    for (int64_t i = 0; i < it->n; i++) {
        double g = (double)it->sum[i] * unit;
        lanes[i & 7] += g * g;
    }
    for (int k = 0; k < 8; k++) it->result += lanes[k];
    return LS_OK;
}

static int64_t n_norm_items(const struct ls_exec *e, const struct ls_plan *p, struct norm_item *items)
{
    int64_t at = 0;
    for (int v = 0; v < p->graph->n_values; v++) {
        if (p->graph->values[v].kind != LS_VALUE_PARAM || p->graph->values[v].grad < 0) continue;
        const struct ls_stored *s = &e->store->entries[p->slots[p->graph->values[v].grad].stored];
        int64_t n = (int64_t)(s->layout.bytes / sizeof(int64_t));
        for (int64_t i = 0; i < n; i += NORM_PART, at++)
            if (items)
                items[at] = (struct norm_item){(const int64_t *)s->data + i, n - i < NORM_PART ? n - i : NORM_PART, 0};
    }
    return at;
}

/* Parts and their order depend on the parameters alone, so the rounding does too. */
enum ls_status ls__exec_grad_norm(struct ls_exec *e, const struct ls_plan *plan, double *norm)
{
    int64_t n = n_norm_items(e, plan, NULL);
    struct norm_item *items;
    TRY(ls__calloc(&items, (size_t)n, sizeof *items));
    n_norm_items(e, plan, items);
    enum ls_status status = ls__pool_run(e->pool, (int)n, run_norm, items);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += items[i].result;
    free(items);
    *norm = sqrt(sum);
    return status;
}

/* --- join and post: ops over stored values, large ones in parts --- */

struct parts_run {
    struct ls_exec *e;
    const struct bound_plan *bp;
    const struct ls_step_ctx *ctx, *update;
    enum ls_phase phase;
};

/* Whether the op has a part in this round: updates that were applied at once do not come again. */
static bool is_in(const struct ls_exec *e, const struct bound_plan *bp, enum ls_phase phase, int op)
{
    return bp->plan->ops[op].phase == phase && !(phase == LS_POST && e->is_at_once && bp->at_once[op] >= 0);
}

/* Items are the parts of all ops of the phase, counted through: JOIN in the plan's order, POST as sums arrive. */
static int find_op(const struct parts_run *run, int *part)
{
    const struct ls_plan *p = run->bp->plan;
    for (int i = 0;; i++) {
        int op = run->phase == LS_POST ? run->bp->post_order[i] : i;
        if (!is_in(run->e, run->bp, run->phase, op)) continue;
        if (*part < p->ops[op].n_parts) return op;
        *part -= p->ops[op].n_parts;
    }
}

static void contribute(struct ls_exec *e, const struct ls_plan *p, const struct ls_plan_op *op)
{
    for (int k = 0; k < op->node.n_out; k++)
        if (op->node.out[k] >= 0) ls__exec_contribute(e, p->slots[op->node.out[k]].stored);
}

static enum ls_status run_part(void *arg, int item, int thread)
{
    const struct parts_run *run = arg;
    struct ls_exec *e = run->e;
    const struct ls_plan *p = run->bp->plan;
    struct ls_step_ctx ctx = *run->ctx;
    ctx.part = item;
    int i = find_op(run, &ctx.part);
    ctx.n_parts = p->ops[i].n_parts;
    if (run->phase == LS_JOIN && e->is_at_once && run->bp->at_once[i] >= 0) {
        ctx.update = &run->bp->bound[thread][run->bp->at_once[i]];
        ctx.update_ctx = run->update;
    }
    if (run->phase == LS_POST && e->n_nodes > 1) {
        int64_t before = ls__now_ns();
        TRY(ls__exec_await_sums(e, p, &p->ops[i]));
        if (thread == 0) e->comm_ns += ls__now_ns() - before;
    }
    struct moment start = begin(e);
    const struct ls_bound *b = &run->bp->bound[thread][i];
    enum ls_status status = b->kernel->impl->launch(b, &ctx);
    account(e, run->bp, thread, i, start);
    if (run->phase == LS_JOIN && status == LS_OK) contribute(e, p, &p->ops[i]);
    return status;
}

static enum ls_status run_parts(const struct parts_run *run)
{
    int n_items = 0;
    for (int i = 0; i < run->bp->plan->n_ops; i++)
        if (is_in(run->e, run->bp, run->phase, i)) n_items += run->bp->plan->ops[i].n_parts;
    return n_items ? ls__team_run(run->e, n_items, run_part, (void *)run) : LS_OK;
}

/* --- updates while sums are made --- */

/* Items are the shards: LS_NONFINITE if a sum of it might not fit. */
static enum ls_status check_shard(void *arg, int item, int thread)
{
    const struct parts_run *run = arg;
    struct ls_step_ctx ctx = *run->ctx;
    ctx.part = item;
    for (int i = 0; i < run->bp->plan->n_ops; i++) {
        const struct ls_bound *b = &run->bp->bound[thread][i];
        if (run->bp->plan->ops[i].phase != LS_JOIN || run->bp->at_once[i] < 0) continue;
        if (!b->kernel->impl->fits(b, &ctx)) return LS_NONFINITE;
    }
    return LS_OK;
}

/* A step that fails changes nothing: weights are updated early only when nothing can fail any more. In a job of several
 * machines the sums have to travel first. */
static enum ls_status find_at_once(const struct parts_run *run)
{
    struct ls_exec *e = run->e;
    const struct ls_step_ctx *ctx = run->ctx;
    e->is_at_once = false;
    if (!run->update || !run->bp->has_at_once || e->n_nodes > 1 || e->is_update_apart) return LS_OK;
    enum ls_status status =
        ls__team_run(e, (ctx->batch_n + ctx->shard_size - 1) / ctx->shard_size, check_shard, (void *)run);
    e->is_at_once = status == LS_OK;
    return status == LS_NONFINITE ? LS_OK : status;
}

enum ls_status ls__exec_join(struct ls_exec *e, const struct bound_plan *bp, const struct ls_step_ctx *ctx,
                             const struct ls_step_ctx *update)
{
    const struct parts_run run = {e, bp, ctx, update, LS_JOIN};
    TRY(find_at_once(&run));
    return run_parts(&run);
}

void ls_exec_update_apart(struct ls_exec *e, bool on)
{
    e->is_update_apart = on;
}

enum ls_status ls__exec_post(struct ls_exec *e, const struct bound_plan *bp, const struct ls_step_ctx *ctx)
{
    const struct parts_run run = {e, bp, ctx, NULL, LS_POST};
    TRY(run_parts(&run));
    e->store->version++;
    return LS_OK;
}
