/* fetch.c: while the device computes a step, the bytes of the next one come (ls_backend.fetch), where the device does
 * not keep the whole set: the host, about to wait, asks for the next batch and has the device fetch its first shard.
 * Those behind it come while the first is computed, by load.
 *
 * Nothing depends on it: a load that finds nothing brings its bytes itself. So failures are not told here, and shares
 * that change (share.c) cost one fetch in vain.
 */
#include "exec/exec_internal.h"

static bool is_wanted(const struct step *s)
{
    const struct ls_exec_step *ask = s->ask;
    return s->is_training && ask->next && s->e->backend->fetch && !ask->batch->kept && !s->is_fetching;
}

/* The first shard that this machine will have; n is 0 where it has none. */
static struct shard_cut first_of(const struct ls_exec *e, const struct ls_exec_step *ask)
{
    const int n_shards = (int)((ask->batch->n + ask->shard_size - 1) / ask->shard_size);
    const int first = ls__share_first(e, n_shards, e->machine);
    if (first >= ls__share_first(e, n_shards, e->machine + 1)) return (struct shard_cut){0};
    return ls__shard_cut(ask, first);
}

void ls__fetch_next(struct step *s)
{
    struct ls_exec *e = s->e;
    struct ls_exec_step ask = *s->ask;
    struct ls_batch batch;
    if (!is_wanted(s)) return;
    s->is_fetching = true;
    if (ask.next(ask.next_arg, &batch) != LS_OK || batch.kept) return;
    ask.batch = &batch;
    const struct shard_cut c = first_of(e, &ask);
    const struct bound_plan *bp = c.n > 0 ? ls__exec_find(e, c.n, true) : NULL;
    if (!bp) return;
    const struct step next = {.e = e, .ask = &ask, .is_training = true};
    const struct ls_load load = ls__shard_load_of(&next, bp, c, 0);
    struct ls_begun begun = ls__span_begin(e->workers[0].lane, s->work, "fetch", s->ask->step + 1);
    const struct fetched fetched = {e->fetched.number + 1, batch.epoch, batch.step, c.first, c.n};
    if (e->backend->fetch(e->device, &load, fetched.number) == LS_OK) e->fetched = fetched;
    ls__span_end(e->workers[0].lane, begun);
}

int64_t ls__fetch_number(const struct step *s, struct shard_cut c)
{
    const struct fetched *f = &s->e->fetched;
    const struct ls_batch *batch = s->ask->batch;
    const bool is_it =
        s->is_training && f->epoch == batch->epoch && f->step == batch->step && f->first == c.first && f->n == c.n;
    return is_it ? f->number : 0;
}
