/* machines.c: several machines, each of one or more ranks. Within a machine as ranks.c; between machines the block of
 * sums travels in buckets while shards are still being computed, and control words travel with it. See struct together
 * in exec_internal.h.
 *
 * Where the device's memory is not the host's, a copy of the block travels: it is made when all shards are in and
 * written back when all of it has been summed.
 */
#include "exec/exec_internal.h"

static enum ls_status sum_begin(struct step *s)
{
    struct ls_exec *e = s->e;
    struct sum_block *b = &e->sums;
    const bool is_copy =
        b->travel != b->block; /* made in sum_close: until then no bucket may leave, not even an empty one */
    const struct ls_comm_bucket stats_only[2] = {{b->buckets[0].begin, b->buckets[0].end, is_copy ? 1 : s->n_own},
                                                 {b->control, b->n, 1}};
    for (int i = 0; s->is_training && i < b->n_buckets - 1; i++)
        b->buckets[i].n_parts = is_copy ? 1 : b->per_shard[i] * s->n_own + b->per_step[i];
    TRY(s->is_training ? ls_comm_sum_begin(e->comm, b->travel, b->buckets, b->n_buckets,
                                           s->work == LS_SPAN_COMPUTE ? LS_SPAN_SUM : s->work)
                       : ls_comm_sum_begin(e->comm, b->travel, stats_only, 2, s->work));
    ls__result_wish(s);
    return LS_OK;
}

static void contribute(struct ls_exec *e, int bucket)
{
    if (e->sums.travel == e->sums.block) ls_comm_sum_part(e->comm, bucket);
}

/* The shards of such a device are done when it says so; what comes then is the first part of the sums' way. */
static enum ls_status sum_copy(struct step *s)
{
    struct ls_exec *e = s->e;
    struct ls_lane *lane = e->workers[0].lane;
    if (e->sums.travel == e->sums.block) return LS_OK;
    ls__fetch_next(s);
    struct ls_begun begun = ls__span_begin(lane, s->work, "shards", s->ask->step);
    enum ls_status status = ls__memory_settle(e);
    s->shards_ns += ls__span_end(lane, begun);
    if (status != LS_OK) return status;
    begun = ls__span_begin(lane, LS_SPAN_COMMUNICATE, "all sums", s->ask->step);
    status = ls__sums_to_host(e);
    ls__span_end(lane, begun);
    return status;
}

static void sum_close(struct step *s, bool has_failed)
{
    struct ls_exec *e = s->e;
    if (e->local_rank > 0) return;
    ls__sums_control(e)[LS_CONTROL_FAILED] = has_failed;
    ls__sums_control(e)[LS_CONTROL_MACHINES + e->machine] = s->shards_ns;
    ls_comm_sum_flush(e->comm);
}

static enum ls_status sum_wait(struct step *s, int64_t end)
{
    struct ls_exec *e = s->e;
    struct sum_block *b = &e->sums;
    if (b->travel == b->block) return ls_comm_sum_wait(e->comm, end);
    if (s->is_home) return LS_OK; /* in POST it is */
    TRY(ls_comm_sum_wait(e->comm, b->n));
    s->is_home = true;
    int64_t n = s->is_training ? b->control : b->buckets[0].end;
    return ls__memory_write(e, b->block, (size_t)n * sizeof *b->block, b->travel);
}

/* The calling thread's, when nothing else is left to do. */
static enum ls_status await_all(struct step *s)
{
    struct ls_lane *lane = s->e->workers[0].lane;
    struct ls_begun begun = ls__span_begin(lane, LS_SPAN_COMMUNICATE, "all sums", s->ask->step);
    enum ls_status status = sum_wait(s, s->e->sums.n);
    ls__span_end(lane, begun);
    return status;
}

/* A copy comes home before any thread updates: an update zeroes the sums it has read. */
static enum ls_status publish(struct step *s)
{
    return s->e->sums.travel == s->e->sums.block ? LS_OK : await_all(s);
}

static enum ls_status result(struct step *s, struct step_result *own, const struct step_result **out)
{
    struct ls_exec *e = s->e;
    *out = e->result;
    TRY(await_all(s));
    return ls__ranks_barrier(e, e->local_rank == 0 ? ls__result_take_all(s, e->result) : LS_OK);
}

const struct together ls__machines = {
    .name = "machines",
    .is_awaited = true,
    .share = ls__ranks_share,
    .unshare = ls__ranks_unshare,
    .run = ls__ranks_run,
    .barrier = ls__ranks_barrier,
    .lock = ls__ranks_lock,
    .unlock = ls__ranks_unlock,
    .sum_begin = sum_begin,
    .contribute = contribute,
    .sum_copy = sum_copy,
    .sum_close = sum_close,
    .sum_wait = sum_wait,
    .publish = publish,
    .result = result,
};
