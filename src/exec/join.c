/* join.c: after the shards: gradients of large layers over the rows that the shards kept, once for all of them.
 *
 * On one machine the updates of these layers are applied while their sums are made, and the sums never exist as a
 * whole. A step that fails changes nothing: so first every shard's rows are looked through, and weights are updated
 * early only when nothing can fail any more. Over several machines the sums have to travel first.
 */
#include "exec/exec_internal.h"

/* Items are the shards: LS_NONFINITE if a sum of it might not fit. */
static enum ls_status check_shard(void *arg, int item, int thread)
{
    const struct parts *r = arg;
    const struct bound_plan *bp = r->s->plan;
    struct ls_lane *lane = r->s->e->workers[thread].lane;
    struct ls_begun begun = ls__span_begin(lane, r->s->work, "range", item);
    struct ls_step_ctx ctx = r->ctx;
    bool fits = true;
    ctx.part = item;
    for (int i = 0; i < bp->plan->n_ops && fits; i++) {
        const struct ls_bound *b = &bp->bound[thread][i];
        if (bp->plan->ops[i].phase == LS_JOIN && bp->at_once[i] >= 0) fits = b->kernel->impl->fits(b, &ctx);
    }
    ls__span_end(lane, begun);
    return fits ? LS_OK : LS_NONFINITE;
}

static enum ls_status choose_at_once(const struct parts *r)
{
    struct step *s = r->s;
    struct ls_exec *e = s->e;
    if (!s->update || !s->plan->has_at_once || e->n_machines > 1 || e->is_update_apart) return LS_OK;
    enum ls_status status = e->together->run(e, s->n_shards, check_shard, (void *)r);
    s->is_at_once = status == LS_OK;
    return status == LS_NONFINITE ? LS_OK : status;
}

enum ls_status ls__exec_join(struct step *s)
{
    const struct parts round = {
        s, LS_JOIN, {.shard_size = (int)s->ask->shard_size, .batch_n = s->ask->batch->n, .n_parts = 1}};
    TRY(choose_at_once(&round));
    return ls__exec_run_parts(&round);
}

void ls_exec_update_apart(struct ls_exec *e, bool on)
{
    e->is_update_apart = on;
}
