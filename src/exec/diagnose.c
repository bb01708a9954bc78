/* diagnose.c: after a non-finite value was seen: the shards are run again one by one, and every op's output is looked
 * at, to tell which op made the first one.
 */
#include "base/status_kept.h"
#include "exec/exec_internal.h"

#include <math.h>
#include <stdio.h>

/* No NaN, and nothing of `limit` or more. */
static bool is_below(const float *x, size_t n, float limit)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(x[i]) < limit)) return false;
    return true;
}

static enum ls_status look(struct ls_exec *e, const void *data, size_t bytes, float limit, bool *is_bad)
{
    const void *view;
    TRY(ls__memory_view(e, data, bytes, &view));
    *is_bad = !is_below(view, bytes / sizeof(float), limit);
    ls__memory_release_view(e, data, bytes, view);
    return LS_OK;
}

static enum ls_status look_at_output(struct ls_exec *e, const struct ls_plan *p, const struct ls_plan_op *op,
                                     const struct ls_bound *b, float limit, bool *is_bad)
{
    *is_bad = false;
    for (int k = 0; k < op->node.n_out && !*is_bad; k++) {
        const struct ls_value *v = op->node.out[k] >= 0 ? &p->graph->values[op->node.out[k]] : NULL;
        if (!v || v->dtype != LS_F32 || v->is_workspace || op->kernel->out[k].bytes == 0) continue;
        TRY(look(e, b->out[k], op->kernel->out[k].bytes, limit, is_bad));
    }
    return LS_OK;
}

static enum ls_status check_params(struct ls_exec *e)
{
    for (int i = 0; i < e->store->n_entries; i++) {
        const struct ls_stored *s = &e->store->entries[i];
        bool is_bad;
        if (s->kind != LS_VALUE_PARAM && s->kind != LS_VALUE_BUFFER) continue;
        TRY(look(e, s->data, s->layout.bytes, INFINITY, &is_bad));
        if (is_bad) return ls_fail(LS_NONFINITE, "parameter %s is not finite", s->name);
    }
    return LS_OK;
}

/* limit: INFINITY, or what is too large for a training that goes well; seen: what did not fit then. */
static enum ls_status diagnose_shard(const struct step *s, int shard, float limit, const char *seen)
{
    char what[400] = "the first value that is not finite";
    if (isfinite(limit)) snprintf(what, sizeof what, "%s; the first value beyond %g", seen, (double)limit);
    struct shard_cut c = ls__shard_cut(s->ask, shard);
    const struct bound_plan *bp = ls__shard_plan(s, c);
    struct ls_step_ctx ctx = ls__shard_context(s->ask, c);
    bool is_bad;
    if (!bp || (s->e->mine && !s->e->mine[shard])) return LS_OK;
    TRY(ls__shard_load(s, bp, c, 0));
    for (int i = 0; i < bp->plan->n_ops; i++) {
        const struct ls_plan_op *op = &bp->plan->ops[i];
        if (op->phase != LS_SHARD || op->kernel->is_view || op->node.op == LS_OP_REDUCE) continue;
        TRY(op->kernel->impl->launch(&bp->bound[0][i], &ctx));
        TRY(look_at_output(s->e, bp->plan, op, &bp->bound[0][i], limit, &is_bad));
        if (is_bad)
            return ls_fail(LS_NONFINITE,
                           "step %lld: %s came out of %s of layer %s (shard %d); try a lower --lr, --warmup-epochs or "
                           "--clip-norm",
                           (long long)s->ask->step + 1, what, ls_op_name(op->node.op), op->node.name, shard);
    }
    return LS_OK;
}

/* Values may be finite and yet too large to be summed: then the first large one is where it began. */
enum ls_status ls__exec_diagnose(const struct step *s)
{
    const float large = 1e6f;
    const struct ls_kept seen = ls__keep(LS_NONFINITE);
    TRY(check_params(s->e));
    for (int i = 0; i < s->n_own; i++) TRY(diagnose_shard(s, s->first + i, INFINITY, seen.message));
    for (int i = 0; i < s->n_own; i++) TRY(diagnose_shard(s, s->first + i, large, seen.message));
    return ls_fail(LS_NONFINITE, "step %lld: %s; try a lower --lr, --warmup-epochs or --clip-norm",
                   (long long)s->ask->step + 1, seen.message);
}
