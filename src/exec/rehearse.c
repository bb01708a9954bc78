/* rehearse.c: what a prediction needs to know about a step: where its sums lie, and the time of shards that nobody
 * sums.
 */
#include "base/clock.h"
#include "exec/exec_internal.h"

int ls_exec_n_buckets(const struct ls_exec *e)
{
    return e->sums.n_buckets > 0 ? e->sums.n_buckets - 1 : 0; /* the last holds the control words */
}

const int64_t *ls_exec_bucket(const struct ls_exec *e, int bucket, int64_t *n)
{
    const struct ls_comm_bucket *b = &e->sums.buckets[bucket];
    *n = b->end - b->begin;
    return e->sums.block + b->begin;
}

static int bucket_of(const struct ls_exec *e, const struct ls_plan *p, int value)
{
    int entry = value < 0 ? -1 : p->slots[value].stored;
    if (entry < 0 || e->store->entries[entry].kind != LS_VALUE_SUM || !e->sums.places[entry].is_placed) return -1;
    return e->sums.places[entry].bucket;
}

int ls_exec_op_bucket(const struct ls_exec *e, const struct ls_plan *p, int op)
{
    const struct ls_plan_op *o = &p->ops[op];
    int last = -1;
    for (int k = 0; o->phase != LS_POST && k < o->node.n_out; k++)
        if (bucket_of(e, p, o->node.out[k]) > last) last = bucket_of(e, p, o->node.out[k]);
    for (int k = 0; o->phase == LS_POST && k < o->node.n_in; k++)
        if (bucket_of(e, p, o->node.in[k]) > last) last = bucket_of(e, p, o->node.in[k]);
    return last;
}

/* One shard for every thread of the node, as far as it has so many full ones. */
static int n_rehearsed(const struct ls_exec *e, const struct ls_exec_step *s)
{
    int n_full = (int)(s->batch->n / s->shard_size) - e->first_shard, n_threads = e->n_threads * e->n_seats;
    int n = e->n_own_shards < n_threads ? e->n_own_shards : n_threads;
    return n_full < 0 ? 0 : n < n_full ? n : n_full;
}

enum ls_status ls_exec_rehearse(struct ls_exec *e, const struct ls_exec_step *s, struct ls_exec_rehearsal *r)
{
    const struct bound_plan *bp = ls__exec_find(e, s->shard_size, true);
    int n_shards = (int)((s->batch->n + s->shard_size - 1) / s->shard_size);
    *r = (struct ls_exec_rehearsal){0};
    if (!bp) return ls_fail(LS_INTERNAL, "no plan for shards of %lld samples", (long long)s->shard_size);
    if (e->comm) ls_comm_note(e->comm, s->step, "rehearsal");
    int64_t start = ls__now_ns();
    TRY(ls__exec_pre(e, bp));
    TRY(ls__compress_begin(e, bp->plan));
    r->pre_seconds = ls__seconds_since(start);
    ls__exec_share_shards(e, n_shards);
    r->n_own = e->n_own_shards;
    r->n_run = n_rehearsed(e, s);
    struct shard_run run = {e, s, true, e->first_shard};
    start = ls__now_ns();
    TRY(ls__team_run(e, r->n_run, ls__exec_run_shard, &run));
    r->shard_seconds = ls__seconds_since(start);
    const struct ls_step_ctx join = {.shard_size = (int)s->shard_size,
                                     .batch_n = s->batch->n,
                                     .n_parts = 1,
                                     .mine = e->n_nodes > 1 ? e->mine : NULL};
    start = ls__now_ns();
    TRY(ls__exec_join(e, bp, &join, NULL));
    r->join_seconds = ls__seconds_since(start);
    return LS_OK;
}

enum ls_status ls_exec_end_rehearsal(struct ls_exec *e)
{
    if (e->seat == 0) ls_exec_zero_sums(e);
    TRY(ls_exec_forget_remainders(e));
    return ls__team_meet(e, LS_OK);
}
