/* bind.c: gives every op of a plan its addresses, once per thread. */
#include "base/mem.h"
#include "exec/exec_internal.h"

#include <stdlib.h>

static void *address(const struct ls_exec *e, const struct ls_plan *p, int thread, int value)
{
    if (value < 0) return NULL;
    const struct ls_slot *s = &p->slots[value];
    return s->stored >= 0 ? e->store->entries[s->stored].data : e->workers[thread].arena + s->offset;
}

static enum ls_status bind_op(struct ls_exec *e, const struct ls_plan *p, int thread, int index, struct ls_bound *b)
{
    const struct ls_plan_op *op = &p->ops[index];
    *b = (struct ls_bound){.kernel = op->kernel};
    for (int i = 0; i < op->node.n_in; i++) b->in[i] = address(e, p, thread, op->node.in[i]);
    for (int i = 0; i < op->node.n_out; i++) b->out[i] = address(e, p, thread, op->node.out[i]);
    b->scratch = e->workers[thread].arena + op->scratch_offset;
    b->samples = (const uint32_t *)(e->workers[thread].arena + ls__samples_offset(e));
    return op->kernel->impl->bind && !op->kernel->is_view ? op->kernel->impl->bind(b) : LS_OK;
}

/* Updates in the order in which the sums they read come in. */
static enum ls_status order_updates(const struct ls_exec *e, struct bound_plan *bp)
{
    const struct ls_plan *p = bp->plan;
    int n = 0;
    TRY(ls__calloc(&bp->post_order, (size_t)p->n_post + 1, sizeof *bp->post_order));
    for (int i = 0; i < p->n_ops; i++) {
        if (p->ops[i].phase != LS_POST) continue;
        int64_t end = ls__sums_end(e, p, &p->ops[i]);
        int at = n++;
        for (; at > 0 && ls__sums_end(e, p, &p->ops[bp->post_order[at - 1]]) > end; at--)
            bp->post_order[at] = bp->post_order[at - 1];
        bp->post_order[at] = i;
    }
    return LS_OK;
}

/* Pairs of a sum and the update that alone reads it. */
static enum ls_status pair_updates(struct bound_plan *bp)
{
    const struct ls_plan *p = bp->plan;
    TRY(ls__calloc(&bp->at_once, (size_t)p->n_ops + 1, sizeof *bp->at_once));
    for (int i = 0; i < p->n_ops; i++) bp->at_once[i] = -1;
    for (int i = 0; i < p->n_ops; i++) {
        if (p->ops[i].phase != LS_JOIN || !p->ops[i].kernel->impl->fits) continue;
        for (int k = 0; k < p->n_ops; k++) {
            const struct ls_plan_op *op = &p->ops[k];
            if (op->phase != LS_POST || !op->kernel->impl->update || op->node.in[1] != p->ops[i].node.out[0]) continue;
            bp->at_once[i] = k;
            bp->at_once[k] = i;
            bp->has_at_once = true;
        }
    }
    return LS_OK;
}

enum ls_status ls__exec_bind(struct ls_exec *e, struct bound_plan *bp)
{
    const struct ls_plan *p = bp->plan;
    if (!bp->post_order) TRY(order_updates(e, bp));
    if (!bp->at_once) TRY(pair_updates(bp));
    TRY(ls__early_find(e, bp));
    if (!bp->bound) TRY(ls__calloc(&bp->bound, (size_t)e->n_threads, sizeof *bp->bound));
    for (int t = 0; t < e->n_threads; t++) {
        TRY(ls__calloc(&bp->bound[t], (size_t)p->n_ops, sizeof **bp->bound));
        for (int i = 0; i < p->n_ops; i++) TRY(bind_op(e, p, t, i, &bp->bound[t][i]));
    }
    return LS_OK;
}

void ls__exec_unbind(struct ls_exec *e, struct bound_plan *bp)
{
    ls__exec_forget_recordings(e);
    for (int t = 0; bp->bound && t < e->n_threads; t++) {
        for (int i = 0; bp->bound[t] && i < bp->plan->n_ops; i++) {
            struct ls_bound *b = &bp->bound[t][i];
            if (b->kernel && b->kernel->impl->unbind) b->kernel->impl->unbind(b);
        }
        free(bp->bound[t]);
        bp->bound[t] = NULL;
    }
}

void ls__exec_free_plan(struct ls_exec *e, struct bound_plan *bp)
{
    ls__exec_unbind(e, bp);
    free(bp->bound);
    free(bp->post_order);
    free(bp->at_once);
    ls__early_free(&bp->early);
    ls_plan_destroy(&bp->plan);
}

const struct bound_plan *ls__exec_find(const struct ls_exec *e, int64_t mb, bool is_training)
{
    for (int i = 0; i < e->n_plans; i++)
        if (e->plans[i].plan->graph->mb == mb && e->plans[i].plan->graph->is_training == is_training)
            return &e->plans[i];
    return NULL;
}
