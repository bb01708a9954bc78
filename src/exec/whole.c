/* whole.c: a training step of one shard that nobody else takes part in, on a device that records: the copies of
 * parameters, the shard and the updates are one recording, and a step is one call. Copies that updates bring along are
 * made before it, when they are stale: in the first step.
 */
#include "exec/exec_internal.h"

struct whole {
    struct step *s;
    struct ls_step_ctx shard, update;
};

bool ls__exec_is_whole(const struct step *s)
{
    const struct ls_exec *e = s->e;
    return ls__exec_can_record(e) && e->together == &ls__alone && s->n_shards == 1 && s->update && !s->last_plan &&
           s->plan->plan->n_join == 0;
}

/* Whether the other copies are stale or not: the next step replays these launches. */
static enum ls_status launch_all(void *arg)
{
    const struct whole *w = arg;
    const struct bound_plan *bp = w->s->plan;
    const enum ls_phase phases[] = {LS_PRE, LS_SHARD, LS_POST};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < bp->plan->n_ops; i++) {
            const struct ls_plan_op *op = &bp->plan->ops[i];
            if (op->phase != phases[k] || op->kernel->is_view) continue;
            if (phases[k] == LS_PRE && bp->bound[0][i].is_followed) continue;
            struct ls_step_ctx ctx = phases[k] == LS_POST ? w->update : w->shard;
            ctx.n_parts = op->n_parts;
            for (ctx.part = 0; ctx.part < op->n_parts; ctx.part++)
                TRY(op->kernel->impl->launch(&bp->bound[0][i], &ctx));
        }
    return LS_OK;
}

enum ls_status ls__exec_run_whole(struct step *s, bool *is_replayed)
{
    struct ls_exec *e = s->e;
    const struct shard_cut c = ls__shard_cut(s->ask, 0);
    struct whole w = {s, ls__shard_context(s->ask, c), *s->update};
    w.shard.is_only = true;
    const struct record_key key = {s->plan->plan, LS_POST, c.first, c.n, s->ask->batch->n, s->ask->seed, false};
    *is_replayed = false;
    struct ls_begun begun = ls__span_begin(e->workers[0].lane, s->work, "step", s->ask->step);
    enum ls_status status = ls__exec_pre_followed(s, s->plan);
    if (status == LS_OK) status = ls__shard_load(s, s->plan, c, 0);
    if (status == LS_OK) status = ls__exec_launch(e, &key, launch_all, &w, is_replayed);
    ls__span_end(e->workers[0].lane, begun);
    e->workers[0].n_samples += c.n;
    if (status != LS_OK) return status;
    ls__exec_note_update(e, s->plan);
    return LS_OK;
}
