/* parts.c: a round over the ops of JOIN or POST, which work on stored values; large ones are cut into parts, and all
 * parts of all ops are the items of one round.
 */
#include "exec/exec_internal.h"

/* Whether the op has a part in this round: updates that were applied at once do not come again. */
static bool is_in(const struct parts *r, int op)
{
    const struct bound_plan *bp = r->s->plan;
    return bp->plan->ops[op].phase == r->phase && !(r->phase == LS_POST && r->s->is_at_once && bp->at_once[op] >= 0);
}

/* Items are the parts of all ops of the phase, counted through: JOIN in the plan's order, POST as sums arrive. */
static int find_op(const struct parts *r, int *part)
{
    const struct bound_plan *bp = r->s->plan;
    for (int i = 0;; i++) {
        int op = r->phase == LS_POST ? bp->post_order[i] : i;
        if (!is_in(r, op)) continue;
        if (*part < bp->plan->ops[op].n_parts) return op;
        *part -= bp->plan->ops[op].n_parts;
    }
}

/* An update waits for the sums it reads. */
static enum ls_status await_sums(struct step *s, const struct ls_plan_op *op, int thread)
{
    struct ls_lane *lane = s->e->workers[thread].lane;
    int64_t end = s->e->together->is_awaited ? ls__sums_end(s->e, s->plan->plan, op) : 0;
    if (end == 0) return LS_OK;
    struct ls_begun begun = ls__span_begin(lane, LS_SPAN_COMMUNICATE, op->node.name, s->ask->step);
    enum ls_status status = s->e->together->sum_wait(s, end);
    ls__span_end(lane, begun);
    return status;
}

static enum ls_status launch_join(struct step *s, int op, const struct ls_bound *b, const struct ls_step_ctx *ctx,
                                  int thread)
{
    const struct bound_plan *bp = s->plan;
    struct ls_join join = {.mine = s->e->mine};
    if (s->is_at_once && bp->at_once[op] >= 0) {
        join.update = &bp->bound[thread][bp->at_once[op]];
        join.update_ctx = s->update;
    }
    TRY(b->kernel->impl->launch_join(b, ctx, &join));
    const struct ls_node *node = &bp->plan->ops[op].node;
    for (int k = 0; k < node->n_out; k++)
        if (node->out[k] >= 0)
            s->e->together->contribute(s->e, s->e->sums.places[bp->plan->slots[node->out[k]].stored].bucket);
    return LS_OK;
}

/* An update, or as much of its part as the step's range of sums has. */
static enum ls_status launch_update(const struct step *s, const struct ls_plan_op *op, const struct ls_bound *b,
                                    const struct ls_step_ctx *ctx)
{
    const struct ls_sum_range range = s->ask->sums;
    if (range.end == 0) return b->kernel->impl->launch(b, ctx);
    const int64_t at = s->e->sums.places[s->plan->plan->slots[op->node.in[1]].stored].begin;
    int64_t begin, end;
    ls_part_range((int64_t)(b->kernel->in[0].bytes / sizeof(float)), ctx->part, ctx->n_parts, &begin, &end);
    if (begin < range.begin - at) begin = range.begin - at;
    if (end > range.end - at) end = range.end - at;
    if (begin < end) b->kernel->impl->update(b, ctx, begin, end - begin, (int64_t *)b->in[1] + begin);
    return LS_OK;
}

static enum ls_status run_part(void *arg, int item, int thread)
{
    const struct parts *r = arg;
    struct step *s = r->s;
    struct ls_step_ctx ctx = r->ctx;
    ctx.part = item;
    int i = find_op(r, &ctx.part);
    const struct ls_plan_op *op = &s->plan->plan->ops[i];
    const struct ls_bound *b = &s->plan->bound[thread][i];
    ctx.n_parts = op->n_parts;
    if (r->phase == LS_POST) TRY(await_sums(s, op, thread));
    struct ls_lane *lane = s->e->workers[thread].lane;
    struct ls_begun begun =
        ls__op_begin(lane, r->phase == LS_JOIN ? s->work : LS_SPAN_UPDATE, op->node.name, s->plan->first_op + i);
    enum ls_status status = r->phase == LS_JOIN ? launch_join(s, i, b, &ctx, thread) : launch_update(s, op, b, &ctx);
    if (status == LS_OK && ls__lane_wants_ops(lane)) status = ls__memory_settle(s->e);
    ls__span_end(lane, begun);
    return status;
}

enum ls_status ls__exec_run_parts(const struct parts *r)
{
    int n_items = 0;
    for (int i = 0; i < r->s->plan->plan->n_ops; i++)
        if (is_in(r, i)) n_items += r->s->plan->plan->ops[i].n_parts;
    return n_items ? r->s->e->together->run(r->s->e, n_items, run_part, (void *)r) : LS_OK;
}
