/* sync.c: the list of ways to synchronise, and what an entry that a way leaves out means. */
#include "train/sync.h"

#include <string.h>

static const struct sync_way *const ways[] = {&ls__sync_allreduce, &ls__sync_ps, &ls__sync_async, &ls__sync_ssp,
                                              &ls__sync_local};

enum ls_status ls__sync_choose(struct sync *sync, const struct ls_train_options *o)
{
    *sync = (struct sync){.o = o};
    TRY(ls__sync_check(o->sync, o->compress));
    (void)ls__sync_parse(o->sync, &sync->choice);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (strcmp(ways[i]->name, sync->choice.name->name) == 0) sync->way = ways[i];
    if (!sync->way) return ls_fail(LS_INTERNAL, "--sync %s has a name and no table", o->sync);
    if (sync->way->carried) sync->carried = sync->way->carried(o);
    return LS_OK;
}

enum ls_status ls__sync_open(struct sync *sync, struct session *s, const struct session_options *o,
                             const struct train_state *st, int64_t steps_per_epoch)
{
    sync->s = s;
    sync->steps_per_epoch = steps_per_epoch;
    enum ls_status status = sync->way->open ? sync->way->open(sync, o, st) : LS_OK;
    if (status != LS_OK) ls__sync_close(sync);
    return status;
}

void ls__sync_close(struct sync *sync)
{
    if (sync->state && sync->way->close) sync->way->close(sync);
    sync->state = NULL;
}

enum ls_status ls__sync_step(struct sync *sync, const struct ls_exec_step *step, bool stop, bool save,
                             struct ls_exec_stats *stats)
{
    return sync->way->step(sync, step, stop, save, stats);
}

enum ls_status ls__sync_end_epoch(struct sync *sync)
{
    return sync->way->end_epoch ? sync->way->end_epoch(sync) : LS_OK;
}

bool ls__sync_is_settled(const struct sync *sync)
{
    return !sync->way->is_settled || sync->way->is_settled(sync);
}

enum ls_status ls__sync_view(struct sync *sync, struct tally *pending)
{
    *pending = (struct tally){0};
    return ls__sync_is_settled(sync) ? LS_OK : sync->way->view(sync, pending);
}

int64_t ls__sync_samples(const struct sync *sync)
{
    return sync->way->samples ? sync->way->samples(sync) : ls_exec_samples(sync->s->exec);
}

struct ls_exec *ls__sync_measured(const struct sync *sync)
{
    return sync->way->measured ? sync->way->measured(sync) : sync->s->exec;
}

void ls__sync_say_hello(const struct sync *sync)
{
    if (sync->way->say_hello) sync->way->say_hello(sync);
}

enum ls_status ls__sync_tell_state(const struct sync *sync, struct train_state *st)
{
    return sync->way->tell_state && sync->state ? sync->way->tell_state(sync, st) : LS_OK;
}

void ls__sync_tell_workers(const struct sync *sync, struct ls_elastic_result *out)
{
    out->n_told = 0;
    if (sync->way->tell_workers && sync->state) sync->way->tell_workers(sync, out);
}

void ls__sync_report(const struct sync *sync, struct ls_result *r)
{
    if (sync->way->report && sync->state) sync->way->report(sync, r);
}

enum ls_status ls__sync_foretell(struct sync *sync, struct forecast *f)
{
    *f = (struct forecast){0};
    return sync->way->foretell ? sync->way->foretell(sync, f) : LS_OK;
}
