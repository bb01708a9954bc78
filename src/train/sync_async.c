/* sync_async.c: --sync async and --sync ssp:K: a worker computes a whole batch with the newest parameters, and its
 * gradient is applied as soon as it comes. A step of the training is one update; which batch it is of depends on who
 * was faster, so two runs differ. With ssp:K no update is computed with parameters that lack more than K others; ssp:0
 * has one batch under way at a time, in order, and the bits of one process.
 *
 * An epoch has every batch once. Within it a checkpoint names the batches that are in (train_state.applied).
 */
#include "base/log.h"
#include "base/parse.h"
#include "train/served.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "H:a,b": batches before H are in, but not a and b. Back into the map. */
static enum ls_status take_applied(struct sync *sync, const struct train_state *st)
{
    struct served *v = sync->state;
    const char *text = st->applied;
    char *end;
    long long high = *text ? strtoll(text, &end, 10) : st->epoch_step, n = 0;
    if (st->epoch_step == sync->steps_per_epoch) return LS_OK; /* the next epoch begins with none */
    if (high < 0 || high > sync->steps_per_epoch) high = -1;
    for (long long i = 0; i < high; i++) v->applied[i] = 1;
    while (*text && high >= 0 && (*end == ':' || *end == ',') && end[1]) {
        long long batch = strtoll(end + 1, &end, 10);
        if (batch < 0 || batch >= high) break;
        v->applied[batch] = 0;
    }
    for (int64_t i = 0; i < sync->steps_per_epoch; i++) n += v->applied[i];
    if (n == st->epoch_step) return LS_OK;
    return ls_fail(LS_CHECKPOINT, "the checkpoint's batches of this epoch (%s) are not %lld of %lld", text,
                   (long long)st->epoch_step, (long long)sync->steps_per_epoch);
}

static enum ls_status tell_state(const struct sync *sync, struct train_state *st)
{
    const struct served *v = sync->state;
    int64_t high = sync->steps_per_epoch;
    while (high > 0 && !v->applied[high - 1]) high--;
    size_t at = (size_t)snprintf(st->applied, sizeof st->applied, "%lld:", (long long)high);
    bool is_prefix = true;
    for (int64_t i = 0; i < high; i++) {
        if (v->applied[i]) continue;
        at += (size_t)snprintf(st->applied + at, sizeof st->applied - at, "%s%lld", is_prefix ? "" : ",", (long long)i);
        is_prefix = false;
        if (at + 24 > sizeof st->applied)
            return ls_fail(LS_CHECKPOINT, "too many batches are under way for a checkpoint within an epoch");
    }
    if (is_prefix) st->applied[0] = '\0';
    return LS_OK;
}

static enum ls_status open(struct sync *sync, const struct session_options *o, const struct train_state *st)
{
    const bool is_bound = strcmp(sync->choice.name->name, "ssp") == 0;
    TRY(ls__served_open(sync, st->step, is_bound ? sync->choice.number : -1));
    return take_applied(sync, st);
}

static enum ls_status begin_epoch(struct sync *sync, const struct ls_exec_step *step)
{
    struct served *v = sync->state;
    const int64_t batch_size = sync->s->batch_size, n_batches = sync->steps_per_epoch;
    const struct ls_round round = {.step = step->batch->epoch * sync->steps_per_epoch,
                                   .epoch = step->batch->epoch,
                                   .n_items = (int)n_batches,
                                   .item_n = (int)batch_size,
                                   .last_n = (int)(sync->s->train->n - (n_batches - 1) * batch_size),
                                   .is_batches = true,
                                   .done = v->applied};
    TRY(ls__served_publish(sync));
    if (v->is_begun) return LS_OK;
    v->is_begun = true;
    return ls__server_begin(v->server, &round);
}

static enum ls_status apply(struct sync *sync, const struct ls_exec_step *step, int batch, struct ls_exec_stats *stats)
{
    struct served *v = sync->state;
    struct ls_exec_step own = *step;
    const int64_t left = sync->s->train->n - (int64_t)batch * sync->s->batch_size;
    const struct ls_batch size = {.epoch = step->batch->epoch,
                                  .step = batch,
                                  .n = (int)(left < sync->s->batch_size ? left : sync->s->batch_size)};
    own.batch = &size;
    TRY(ls_exec_apply(sync->s->exec, &own, stats));
    v->applied[batch] = 1;
    v->is_published = false;
    return ls__served_publish(sync); /* before anybody hears of it: who gets work next has it */
}

static enum ls_status update(struct sync *sync, const struct ls_exec_step *step, struct ls_exec_stats *stats)
{
    struct served *v = sync->state;
    enum ls_server_event event;
    struct ls_server_push push;
    TRY(begin_epoch(sync, step));
    TRY(ls__served_wait(sync, step, &event, &push));
    stats->is_undone = stats->stop_wanted = event == LS_SERVER_STOPPED;
    if (event == LS_SERVER_DONE) return ls_fail(LS_INTERNAL, "all batches are done before the epoch is over");
    if (event != LS_SERVER_PUSH) return LS_OK;
    TRY(apply(sync, step, push.items[0], stats));
    ls__server_settle(v->server, &push);
    return LS_OK;
}

static enum ls_status step(struct sync *sync, const struct ls_exec_step *step, bool stop, bool save,
                           struct ls_exec_stats *stats)
{
    *stats = (struct ls_exec_stats){0};
    ls_exec_want(sync->s->exec, stop, save);
    enum ls_status status = update(sync, step, stats);
    return status != LS_OK || stats->is_undone ? ls__served_give_up(sync, status) : LS_OK;
}

static enum ls_status end_epoch(struct sync *sync)
{
    struct served *v = sync->state;
    memset(v->applied, 0, (size_t)sync->steps_per_epoch);
    v->is_begun = false;
    return LS_OK;
}

static void say_hello(const struct sync *sync)
{
    if (sync->choice.name->has_number && sync->choice.number == 0) return;
    ls__log(LS_LOG_INFO, "--sync %s: gradients are applied as they come, so two runs do not give the same weights",
            sync->o->sync);
    /* Of a quadratic: stable up to 2(1+m)/curvature with fresh gradients, (1-m)/curvature with those one update late.
     */
    const double m = sync->o->momentum, of_fresh = (1 - m) / (2 * (1 + m));
    if (strcmp(sync->o->optimizer, "sgd") == 0 && m >= 0.9 && sync->o->workers != 1)
        ls__log(LS_LOG_WARN,
                "--sync %s with --momentum %.3g: where gradients come one update late, training is stable up to %.2g "
                "times the rate that it bears otherwise; lower --momentum or --lr if the loss does not fall",
                sync->o->sync, m, of_fresh);
}

#define ASYNC_WAY                                                                                                      \
    .open = open, .close = ls__served_close, .step = step, .end_epoch = end_epoch, .tell_state = tell_state,           \
    .say_hello = say_hello, .foretell = ls__served_foretell, .report = ls__served_report,                              \
    .tell_workers = ls__served_tell, .is_fed_elsewhere = true

const struct sync_way ls__sync_async = {.name = "async", ASYNC_WAY};
const struct sync_way ls__sync_ssp = {.name = "ssp", ASYNC_WAY};
