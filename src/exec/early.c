/* early.c: sums that devices add while their last shard is still computed.
 *
 * A device that adds (devices.c) would rather make few large sums than many small ones, so REDUCE comes last in its
 * plans (ls_backend.is_reduce_last), and what REDUCE reads lives until then. In the last shard of a device its REDUCE
 * ops are launched bucket by bucket instead, each bucket behind the op that makes the last value it reads:
 *
 *     plan          f f f  b b b b b b b b  R R R R
 *     last shard    f f f  b b b R R b b b R b b R
 *                               ready 1     ready 2
 *
 * Nothing else changes: the plan's memory is as it was, for a REDUCE is never launched later than the plan says, and
 * what it reads has not changed since it was made. The order of additions changes, which integers do not mind.
 */
#include "base/mem.h"
#include "exec/exec_internal.h"

#include <stdlib.h>

static int bucket_of(const struct ls_exec *e, const struct ls_plan *p, int op)
{
    const int bucket = e->sums.places[p->slots[p->ops[op].node.out[0]].stored].bucket;
    return bucket > 0 ? bucket : 1; /* the stats go with the first */
}

static bool is_reduce(const struct ls_plan *p, int op)
{
    return p->ops[op].phase == LS_SHARD && p->ops[op].node.op == LS_OP_REDUCE;
}

/* The op of the shard that makes a value; -1: none does. */
static int maker_of(const struct ls_plan *p, int value)
{
    for (int i = 0; i < p->n_ops; i++)
        for (int k = 0; p->ops[i].phase == LS_SHARD && k < p->ops[i].node.n_out; k++)
            if (p->ops[i].node.out[k] == value) return i;
    return -1;
}

static int at_least(int *x, int least)
{
    if (*x < least) *x = least;
    return *x;
}

/* Buckets become ready one after the other, as they are added. */
static void put_in_order(int *ready, int n_buckets)
{
    for (int b = 1; b < n_buckets; b++) at_least(&ready[b], ready[b - 1]);
}

static void place_reduces(const struct ls_exec *e, const struct ls_plan *p, struct early *early)
{
    const int n = e->sums.n_buckets;
    for (int i = 0; i < p->n_ops; i++)
        if (is_reduce(p, i)) at_least(&early->ready[bucket_of(e, p, i)], maker_of(p, p->ops[i].node.in[0]));
    put_in_order(early->ready, n);
    for (int i = 0; i < p->n_ops; i++) early->reduce[i] = -1;
    for (int i = 0; i < p->n_ops; i++) /* never later than its place in the plan */
        if (is_reduce(p, i) && early->ready[bucket_of(e, p, i)] < i)
            early->reduce[i] = early->ready[bucket_of(e, p, i)];
    for (int i = 0; i < p->n_ops; i++)
        if (is_reduce(p, i)) at_least(&early->ready[bucket_of(e, p, i)], early->reduce[i] < 0 ? i : early->reduce[i]);
    put_in_order(early->ready, n);
}

/* Those with a part that JOIN makes are not early, nor those that wait for the last op besides REDUCE. */
static int n_early(const struct ls_exec *e, const struct ls_plan *p, const struct early *early)
{
    int last = 0, b = 1;
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].phase == LS_SHARD && !is_reduce(p, i)) last = i;
    while (b < e->sums.n_buckets - 1 && b < LS_MAX_READY && e->sums.per_step[b] == 0 && early->ready[b] < last) b++;
    return b > 1 ? b : 0;
}

enum ls_status ls__early_find(const struct ls_exec *e, struct bound_plan *bp)
{
    struct early *early = &bp->early;
    if (ls__devices_bucket(e) == 0 || !bp->plan->graph->is_training) return LS_OK;
    if (early->ready || e->n_threads > 1) return LS_OK; /* of several threads none knows which shard ends last */
    TRY(ls__calloc(&early->reduce, (size_t)bp->plan->n_ops + 1, sizeof *early->reduce));
    TRY(ls__calloc(&early->ready, (size_t)e->sums.n_buckets, sizeof *early->ready));
    place_reduces(e, bp->plan, early);
    early->n_buckets = n_early(e, bp->plan, early);
    return LS_OK;
}

void ls__early_free(struct early *early)
{
    free(early->reduce);
    free(early->ready);
}

bool ls__early_is(const struct step *s, const struct bound_plan *bp, int shard)
{
    return bp->early.n_buckets > 0 && s->is_training && shard == s->first + s->n_own - 1;
}

struct ls_sum_range ls__early_range(const struct ls_exec *e, int bucket)
{
    const struct ls_comm_bucket *b = &e->sums.buckets[bucket];
    return (struct ls_sum_range){bucket == 1 ? 0 : b->begin, b->end};
}
