/* sync_allreduce.c: --sync allreduce: the sums of every step are those of all shards, wherever they are computed.
 *
 * All of it happens within the step (exec.h). With --compress a shard keeps what rounding its gradients left over, to
 * add it to the next ones: until the end of the epoch, when all begin anew.
 */
#include "train/carry.h"
#include "train/sync.h"

static enum ls_status step(struct sync *sync, const struct ls_exec_step *step, bool stop, bool save,
                           struct ls_exec_stats *stats)
{
    ls_exec_want(sync->s->exec, stop, save);
    return ls_exec_train(sync->s->exec, step, stats);
}

/* Whether or not anything is saved here: both go on alike. */
static enum ls_status end_epoch(struct sync *sync)
{
    return ls_exec_forget_remainders(sync->s->exec);
}

static enum ls_status foretell(struct sync *sync, struct forecast *f)
{
    return ls__forecast_make(f, sync->s, (uint64_t)sync->o->seed, sync->o->balance);
}

/* --- what a checkpoint holds of the remainders --- */

static enum ls_status open_remainders(struct sync *sync, int *first, int *n)
{
    TRY(ls_exec_open_remainders(sync->s->exec, first, n));
    if (ls_comm_place(sync->s->comm)->local_rank > 0) *n = 0; /* the leader speaks for its machine */
    return LS_OK;
}

/* All sums may be those of gradients. */
static bool may_have_remainder(const struct ls_stored *e)
{
    return e->kind == LS_VALUE_SUM;
}

static bool has_remainder(const struct sync *sync, int entry)
{
    return ls_exec_has_remainder(sync->s->exec, entry);
}

static bool is_within_epoch(const struct sync *sync, const struct train_state *st)
{
    return st->epoch_step > 0;
}

static enum ls_status get_remainder(struct sync *sync, int shard, int entry, float *out)
{
    return ls_exec_get_remainder(sync->s->exec, entry, shard, out);
}

static enum ls_status set_remainder(struct sync *sync, int shard, int entry, const float *in)
{
    return ls_exec_set_remainder(sync->s->exec, entry, shard, in);
}

static const struct carry_kind remainders = {
    .prefix = "remainder/",
    .stripped = "sum.",
    .what = "remainders of the shards (--compress)",
    .may_carry = may_have_remainder,
    .open = open_remainders,
    .is_carried = has_remainder,
    .is_due = is_within_epoch,
    .get = get_remainder,
    .set = set_remainder,
};

static const struct carry_kind *carried(const struct ls_train_options *o)
{
    return o->compress ? &remainders : NULL;
}

const struct sync_way ls__sync_allreduce = {
    .name = "allreduce",
    .step = step,
    .end_epoch = end_epoch,
    .carried = carried,
    .foretell = foretell,
};
