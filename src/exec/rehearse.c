/* rehearse.c: what a prediction needs to know about a step: where its sums lie, and the time of shards that nobody
 * sums.
 */
#include "exec/exec_internal.h"

int ls_exec_n_buckets(const struct ls_exec *e)
{
    return e->sums.n_buckets > 0 ? e->sums.n_buckets - 1 : 0; /* the last holds the control words */
}

const int64_t *ls_exec_bucket(const struct ls_exec *e, int bucket, int64_t *n)
{
    const struct ls_comm_bucket *b = &e->sums.buckets[bucket];
    *n = b->end - b->begin;
    return e->sums.travel + b->begin;
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

/* One shard for every thread of the machine, as far as it has so many full ones. */
static int n_rehearsed(const struct step *s)
{
    int n_full = (int)(s->ask->batch->n / s->ask->shard_size) - s->first, n_threads = s->e->n_threads * s->e->n_local;
    int n = s->n_own < n_threads ? s->n_own : n_threads;
    return n_full < 0 ? 0 : n < n_full ? n : n_full;
}

enum ls_status ls_exec_rehearse(struct ls_exec *e, const struct ls_exec_step *ask, struct ls_exec_rehearsal *r)
{
    struct ls_lane *lane = e->workers[0].lane;
    struct step s = ls__step_of(e, ask, true);
    s.work = LS_SPAN_SETUP;
    *r = (struct ls_exec_rehearsal){.n_own = s.n_own, .n_run = n_rehearsed(&s)};
    s.plan = ls__exec_find(e, ask->shard_size, true);
    if (!s.plan) return ls_fail(LS_INTERNAL, "no plan for shards of %lld samples", (long long)ask->shard_size);
    ls__step_note(&s, "rehearsal");
    struct ls_begun begun = ls__span_begin(lane, LS_SPAN_ROUND, "layouts", ask->step);
    TRY(ls__exec_pre(&s, s.plan));
    TRY(ls__compress_begin(e, s.plan->plan));
    r->pre_seconds = 1e-9 * (double)ls__span_end(lane, begun);
    begun = ls__span_begin(lane, LS_SPAN_ROUND, "shards", ask->step);
    TRY(e->together->run(e, r->n_run, ls__exec_run_shard, &s));
    r->shard_seconds = 1e-9 * (double)ls__span_end(lane, begun);
    begun = ls__span_begin(lane, LS_SPAN_ROUND, "sums", ask->step);
    TRY(ls__exec_join(&s));
    r->join_seconds = 1e-9 * (double)ls__span_end(lane, begun);
    return ls__sums_to_host(e); /* for who weighs them */
}

enum ls_status ls_exec_end_rehearsal(struct ls_exec *e)
{
    enum ls_status status = e->local_rank == 0 ? ls_exec_zero_sums(e) : LS_OK;
    TRY(e->together->barrier(e, status));
    return ls_exec_forget_remainders(e);
}
