/* sync_ps.c: --sync ps: workers compute the shards of every step, this process adds their sums and updates.
 *
 * The sums are integers and a shard counts once, so the step is that of one process, whoever computed what, and however
 * many workers came or died in it.
 */
#include "base/log.h"
#include "train/served.h"

static enum ls_status open(struct sync *sync, const struct session_options *o, const struct train_state *st)
{
    return ls__served_open(sync, -1);
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
                                   .n_items = n_shards};
    enum ls_server_event event = LS_SERVER_PUSH;
    struct ls_server_push push;
    TRY(ls__served_publish(sync));
    TRY(ls__server_begin(v->server, &round));
    while (event == LS_SERVER_PUSH) {
        TRY(ls__served_wait(sync, step->step, &event, &push));
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
    enum ls_status status = collect(sync, step, &is_stopped);
    if (status != LS_OK || is_stopped) {
        stats->is_undone = stats->stop_wanted = true;
        return ls__served_give_up(sync, status);
    }
    ls_exec_want(sync->s->exec, stop, save);
    v->is_published = false;
    TRY(ls_exec_apply(sync->s->exec, step, stats));
    return LS_OK;
}

const struct sync_way ls__sync_ps = {
    .name = "ps",
    .open = open,
    .close = ls__served_close,
    .step = step,
    .report = ls__served_report,
    .is_fed_elsewhere = true,
};
