/* sync_ps.c: --sync ps: workers compute the shards of every step, this process adds their sums and updates.
 *
 * The sums are integers and a shard counts once, so the step is that of one process, whoever computed what, and however
 * many workers came or died in it. With --servers K the other servers add and update their ranges of the parameters;
 * this process has them again when somebody reads the store.
 */
#include "base/log.h"
#include "train/served.h"

static enum ls_status open(struct sync *sync, const struct session_options *o, const struct train_state *st)
{
    return ls__served_open(sync, st->step, -1);
}

/* All shards, by whoever takes them; is_stopped: nobody is there to finish them. */
static enum ls_status collect(struct sync *sync, const struct ls_exec_step *step, bool *is_stopped)
{
    struct served *v = sync->state;
    const int n_shards = (int)((step->batch->n + step->shard_size - 1) / step->shard_size);
    const struct ls_round round = {.step = step->step,
                                   .epoch = step->batch->epoch,
                                   .batch = step->batch->step,
                                   .batch_n = step->batch->n,
                                   .n_items = n_shards,
                                   .item_n = (int)step->shard_size,
                                   .last_n = step->batch->n - (n_shards - 1) * (int)step->shard_size,
                                   .is_last = step->step + 1 == sync->last_step};
    enum ls_server_event event = LS_SERVER_PUSH;
    struct ls_server_push push;
    TRY(ls__served_publish(sync));
    if (!v->is_handed_out) TRY(ls__server_hand_out(v->server, v->others, step->step, is_stopped));
    if (*is_stopped) return LS_OK;
    v->is_handed_out = true;
    TRY(ls__server_begin(v->server, &round));
    while (event == LS_SERVER_PUSH || event == LS_SERVER_PIECE) {
        TRY(ls__served_wait(sync, step, &event, &push));
        if (event == LS_SERVER_PUSH) ls__server_settle(v->server, &push);
    }
    *is_stopped = event == LS_SERVER_STOPPED;
    return LS_OK;
}

static enum ls_status step(struct sync *sync, const struct ls_exec_step *step, bool stop, bool save,
                           struct ls_exec_stats *stats)
{
    struct served *v = sync->state;
    bool is_stopped = false;
    *stats = (struct ls_exec_stats){0};
    ls_exec_want(sync->s->exec, stop, save);
    v->n_applied = 0;
    enum ls_status status = collect(sync, step, &is_stopped);
    if (status != LS_OK || is_stopped) {
        stats->is_undone = stats->stop_wanted = true;
        return ls__served_give_up(sync, status);
    }
    v->is_published = false;
    if (v->n_applied > 0) {
        *stats = v->stats;
        return LS_OK;
    }
    if (v->split.n == 1) return ls_exec_apply(sync->s->exec, step, stats);
    struct ls_exec_step own = *step;
    own.sums = v->split.ranges[0];
    v->is_whole = false;
    TRY(ls__server_apply(v->server, step)); /* they update while this process does */
    return ls_exec_apply(sync->s->exec, &own, stats);
}

static bool is_whole(const struct sync *sync)
{
    return ((const struct served *)sync->state)->is_whole;
}

/* The parts of the other servers, for who reads the store. */
static enum ls_status view(struct sync *sync, struct tally *pending)
{
    struct served *v = sync->state;
    struct ls_begun begun = ls__span_begin(sync->s->lane, LS_SPAN_COMMUNICATE, "collect", 0);
    enum ls_status status = ls__server_collect(v->server, v->others);
    ls__span_end(sync->s->lane, begun);
    v->is_whole = status == LS_OK;
    return status;
}

const struct sync_way ls__sync_ps = {
    .name = "ps",
    .open = open,
    .close = ls__served_close,
    .step = step,
    .is_settled = is_whole,
    .view = view,
    .foretell = ls__served_foretell,
    .report = ls__served_report,
    .tell_workers = ls__served_tell,
    .is_fed_elsewhere = true,
};
