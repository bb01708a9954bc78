/* apart.c: the phases of a step for executors that share nothing: one computes shards that somebody hands out, another
 * adds the sums of all and applies them (exec.h: ls_exec_compute, ls_exec_apply).
 *
 * Invariant: the block is all that passes between them. A shard adds to it what it would add in ls_exec_train, JOIN
 * adds the kept rows of those shards only (ls_exec.mine), and POST reads nothing else.
 *
 * A device with memory of its own has a block where shards and updates see it; others' sums are added to the host's
 * (sum_block.travel). Sums go each way once per step, however many shards.
 */
#include "base/mem.h"
#include "base/status_kept.h"
#include "exec/exec_internal.h"

#include <string.h>

struct handed_out {
    struct step *s;
    const struct ls_shard_source *source;
};

/* The first failure of a thread; the shards behind it still run. */
static void note(struct ls_kept *heard, enum ls_status status)
{
    if (status != LS_OK && heard->status == LS_OK) *heard = ls__keep(status);
}

/* Who asks for more is done with what it has: otherwise a slow device would get as much as a fast one. */
static int next_shard(const struct handed_out *run, struct ls_kept *heard)
{
    const struct ls_shard_source *source = run->source;
    if (!source->is_asking || source->is_asking(source->arg)) note(heard, ls__memory_settle(run->s->e));
    return source->next(source->arg);
}

/* Items are the threads. */
static enum ls_status run_as_they_come(void *arg, int item, int thread)
{
    const struct handed_out *run = arg;
    const struct ls_shard_source *source = run->source;
    struct ls_kept heard = {0};
    for (int shard; (shard = next_shard(run, &heard)) >= 0;) {
        if (shard >= run->s->n_shards) return ls_fail(LS_INTERNAL, "shard %d of %d", shard, run->s->n_shards);
        enum ls_status one = source->read ? source->read(source->arg, shard) : LS_OK;
        run->s->e->mine[shard] = one == LS_OK; /* one writer each: a shard is handed out once */
        note(&heard, one == LS_OK ? ls__exec_run_shard(run->s, shard, thread) : one);
    }
    return ls__fail_again(&heard);
}

static enum ls_status compute(struct step *s, const struct ls_shard_source *source)
{
    struct ls_exec *e = s->e;
    struct handed_out run = {s, source};
    enum ls_status status = ls__step_prepare(s);
    if (status != LS_OK) return status;
    struct ls_begun begun = ls__span_begin(e->workers[0].lane, LS_SPAN_ROUND, "shards", s->ask->step);
    status = ls__pool_run(e->pool, e->n_threads, run_as_they_come, &run);
    s->shards_ns = ls__span_end(e->workers[0].lane, begun);
    if (status == LS_OK) status = ls__exec_join(s);
    const struct ls_kept heard = ls__keep(status);
    const enum ls_status settled = ls__memory_settle(e); /* also what failed behind a failure: it is not heard again */
    return heard.status != LS_OK ? ls__fail_again(&heard) : settled;
}

enum ls_status ls_exec_compute(struct ls_exec *e, const struct ls_exec_step *ask, const struct ls_shard_source *source)
{
    struct step s = ls__step_of(e, ask, true);
    const struct ls_step_ctx now = {.seed = ask->seed, .step = ask->step};
    if (e->together != &ls__alone || s.n_shards > MAX_N_SHARDS)
        return ls_fail(LS_INTERNAL, "shards handed out to an executor that is not alone");
    if (!e->mine) TRY(ls__calloc(&e->mine, MAX_N_SHARDS, 1));
    memset(e->mine, 0, MAX_N_SHARDS);
    s.first = 0;
    s.n_own = s.n_shards;
    TRY(ls__step_find_plans(&s));
    TRY(ls__exec_now(e, &now));
    enum ls_status status = ls__step_diagnose(&s, compute(&s, source));
    if (status == LS_OK) return LS_OK;
    const struct ls_kept why = ls__keep(status);
    TRY(ls_exec_zero_sums(e));
    return ls__fail_again(&why);
}

int64_t *ls_exec_sums(const struct ls_exec *e, int64_t *n)
{
    *n = e->sums.control;
    return e->sums.travel;
}

/* Whose updates take less than waking threads, on cores where others compute. */
static bool is_small(int64_t n_sums)
{
    enum { WORTH_THREADS = 1 << 18 };
    return n_sums < WORTH_THREADS;
}

enum ls_status ls_exec_apply(struct ls_exec *e, const struct ls_exec_step *ask, struct ls_exec_stats *stats)
{
    const struct ls_step_ctx update = {
        .seed = ask->seed, .step = ask->step, .lr = (float)ask->lr, .clip_scale = 1, .n_parts = 1};
    struct step s = ls__step_of(e, ask, true);
    *stats = (struct ls_exec_stats){0};
    TRY(ls__step_find_plans(&s));
    TRY(ls__exec_now(e, &update));
    TRY(ls__sums_take_up(e, ask->sums));
    ls__pool_rest(e->pool, is_small(e->sums.control));
    enum ls_status status = ls__exec_conclude(&s, ls__exec_post(&s, update, stats), stats);
    ls__pool_rest(e->pool, false);
    return status;
}

void ls_exec_note_change(struct ls_exec *e)
{
    e->store->version++;
}

/* One thread launches to a device, but more may work on the host's memory. */
static enum ls_status run_on_host(struct ls_exec *e, int n_items, ls_pool_fn *fn, void *arg)
{
    enum { MOST_THREADS = 8 };
    const int n = ls__cpu_count();
    if (!e->helpers) TRY(ls__pool_create(&e->helpers, n < MOST_THREADS ? n : MOST_THREADS, false, NULL));
    return ls__pool_run(e->helpers, n_items, fn, arg);
}

enum ls_status ls_exec_run(struct ls_exec *e, int n_items, ls_pool_fn *fn, void *arg)
{
    const bool is_far = e->backend->memory && e->n_threads == 1;
    if (is_far && !is_small(e->sums.control)) return run_on_host(e, n_items, fn, arg);
    ls__pool_rest(e->pool, is_small(e->sums.control));
    enum ls_status status = ls__pool_run(e->pool, n_items, fn, arg);
    ls__pool_rest(e->pool, false);
    return status;
}
