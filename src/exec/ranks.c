/* ranks.c: processes of one machine. Store and sums lie in memory they share; every rank's threads claim items from the
 * machine's one counter, as threads of one process do, and a round ends with a barrier, which also spreads a failure.
 * See struct together in exec_internal.h.
 */
#include "exec/exec_internal.h"

enum ls_status ls__ranks_share(struct ls_exec *e, size_t bytes, void **out)
{
    if (e->backend->memory)
        return ls__memory_alloc(e, bytes, out); /* such ranks share nothing: ls_comm_options.is_apart */
    return ls_comm_share(e->comm, bytes, out);
}

void ls__ranks_unshare(struct ls_exec *e, void *data, size_t bytes)
{
    if (e->backend->memory) ls__memory_free(e, data, bytes); /* else it is the job's until that ends */
}

struct claim_run {
    struct ls_exec *e;
    int n_items;
    ls_pool_fn *fn;
    void *arg;
};

static enum ls_status claim_items(void *arg, int item, int thread)
{
    const struct claim_run *run = arg;
    enum ls_status status = LS_OK;
    for (int i; (i = ls_comm_claim(run->e->comm)) < run->n_items;) {
        enum ls_status one = run->fn(run->arg, i, thread);
        if (status == LS_OK) status = one; /* the others still run, so that the outcome does not depend on timing */
    }
    return status;
}

enum ls_status ls__ranks_run(struct ls_exec *e, int n_items, ls_pool_fn *fn, void *arg)
{
    struct claim_run run = {e, n_items, fn, arg};
    bool is_active = e->n_active == 0 || e->local_rank < e->n_active;
    enum ls_status status = is_active ? ls__pool_run(e->pool, e->n_threads, claim_items, &run) : LS_OK;
    return ls__ranks_barrier(e, status);
}

enum ls_status ls__ranks_barrier(struct ls_exec *e, enum ls_status mine)
{
    struct ls_lane *lane = e->workers[0].lane;
    struct ls_begun begun = ls__span_begin(lane, LS_SPAN_BARRIER, "ranks", e->local_rank);
    enum ls_status status = ls_comm_barrier(e->comm, mine, e->local_rank);
    ls__span_end(lane, begun);
    return status;
}

void ls__ranks_lock(struct ls_exec *e, int which)
{
    ls_comm_lock(e->comm, which);
}

void ls__ranks_unlock(struct ls_exec *e, int which)
{
    ls_comm_unlock(e->comm, which);
}

static enum ls_status sum_begin(struct step *s)
{
    ls__result_wish(s); /* all are in when the shards' barrier is passed */
    return LS_OK;
}

static enum ls_status publish(struct step *s)
{
    struct ls_exec *e = s->e;
    s->is_published = true;
    if (e->local_rank > 0) return LS_OK;
    TRY(ls__result_take_all(s, e->result));
    e->result->n_active = ls__active_next(e);
    return LS_OK;
}

static enum ls_status result(struct step *s, struct step_result *own, const struct step_result **out)
{
    struct ls_exec *e = s->e;
    *out = e->result;
    if (s->is_published) return LS_OK; /* and a barrier was passed since */
    return ls__ranks_barrier(e, e->local_rank == 0 ? ls__result_take_all(s, e->result) : LS_OK);
}

const struct together ls__ranks = {
    .name = "ranks of one machine",
    .share = ls__ranks_share,
    .unshare = ls__ranks_unshare,
    .run = ls__ranks_run,
    .barrier = ls__ranks_barrier,
    .lock = ls__ranks_lock,
    .unlock = ls__ranks_unlock,
    .sum_begin = sum_begin,
    .contribute = ls__alone_contribute,
    .sum_copy = ls__alone_sum_copy,
    .sum_close = ls__alone_sum_close,
    .sum_wait = ls__alone_sum_wait,
    .publish = publish,
    .result = result,
};
