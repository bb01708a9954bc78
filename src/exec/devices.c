/* devices.c: several processes, each with a device that adds the sums itself (ls_backend.sums), from memory to memory.
 * Each process is a machine of its own. See struct together in exec_internal.h.
 *
 * All is enqueued: the shards, the sums, the control words, the updates. So a step waits once, at its end. A launch
 * that has failed on one device raises the first control word, and by that no device updates; the host learns of it
 * with the result.
 *
 * Sums are added bucket by bucket, in the order of the block, on every rank alike; those that are complete before the
 * end of the last shard (early.c) while that is still computed. The control words come last.
 */
#include "base/log.h"
#include "exec/exec_internal.h"

#include <string.h>

static enum ls_status exchange(void *context, const void *mine, size_t bytes, void *all)
{
    struct ls_exec *e = context;
    TRY(ls_comm_gather(e->comm, mine, bytes, all));
    return ls_comm_broadcast(e->comm, 0, all, bytes * (size_t)ls_comm_place(e->comm)->n_ranks);
}

static enum ls_status check(void *context, double seconds)
{
    const struct ls_exec *e = context;
    return ls_comm_check(e->comm, seconds);
}

enum ls_status ls__devices_join(struct ls_exec *e, bool *has_joined)
{
    const struct ls_device_sums *sums = e->backend->sums;
    const struct ls_comm_place *at = ls_comm_place(e->comm);
    *has_joined = false;
    if (!sums) return LS_OK;
    e->group = (struct ls_device_group){
        .rank = at->rank, .n_ranks = at->n_ranks, .host = at->host, .exchange = exchange, .check = check, .context = e};
    enum ls_status status = sums->join(e->device, &e->group);
    *has_joined = status == LS_OK;
    if (status != LS_UNSUPPORTED) return status;
    if (at->rank == 0) ls__log(LS_LOG_INFO, "sums go through the host: %s", ls_error_message());
    return LS_OK;
}

bool ls_exec_adds_by_devices(const struct ls_exec *e)
{
    return e->together == &ls__devices;
}

void ls__devices_leave(struct ls_exec *e)
{
    if (e->together == &ls__devices) e->backend->sums->leave(e->device);
}

int64_t ls__devices_bucket(const struct ls_exec *e)
{
    const struct ls_device_sums *sums = e->backend->sums;
    return e->together == &ls__devices && sums->bucket ? sums->bucket(e->device) : 0;
}

static enum ls_status sum_begin(struct step *s)
{
    ls__result_wish(s);
    s->is_timed = s->is_training && s->e->backend->clock;
    ls__moments_mark(s, LS_MOMENT_BEGIN);
    return LS_OK;
}

/* What this device's shards took is known when the step has ended, so the next one tells it; not the first after shares
 * were given out anew, where it belongs to the share before. Nobody tells it then, so all speeds stay in proportion. */
static void sum_close(struct step *s, bool has_failed)
{
    const struct balance *b = &s->e->balance;
    const bool is_new = b->is_on && b->window_steps == 0;
    int64_t *control = ls__sums_control(s->e);
    control[LS_CONTROL_FAILED] = has_failed;
    control[LS_CONTROL_MACHINES + s->e->machine] = s->is_timed && !is_new ? b->device_ns : 0;
}

/* The next bucket; which: its `ready`, or LS_NOT_READY. */
static enum ls_status add_next(struct step *s, int which)
{
    const struct ls_exec *e = s->e;
    const struct ls_sum_range range = ls__early_range(e, ++s->n_added);
    return e->backend->sums->add(e->device, e->sums.block + range.begin, range.end - range.begin, which);
}

/* All shards are enqueued, and with them what makes the early buckets. */
static enum ls_status sum_copy(struct step *s)
{
    const struct ls_exec *e = s->e;
    if (s->n_own == 0) return LS_OK;
    const int last = s->first + s->n_own - 1;
    const struct bound_plan *bp = ls__shard_plan(s, ls__shard_cut(s->ask, last));
    if (!bp || !ls__early_is(s, bp, last)) return LS_OK;
    struct ls_begun begun = ls__span_begin(e->workers[0].lane, s->work, "early sums", s->ask->step);
    enum ls_status status = LS_OK;
    while (status == LS_OK && s->n_added + 1 < bp->early.n_buckets) status = add_next(s, s->n_added + 1);
    ls__span_end(e->workers[0].lane, begun);
    return status;
}

/* What is not yet: an evaluation has the stats alone. */
static enum ls_status add_rest(struct step *s)
{
    const struct ls_exec *e = s->e;
    const struct sum_block *b = &e->sums;
    const int n = ls__devices_bucket(e) > 0 ? b->n_buckets - 2 : 0;
    if (!s->is_training) return e->backend->sums->add(e->device, b->block, b->buckets[0].end, LS_NOT_READY);
    if (n == 0) return e->backend->sums->add(e->device, b->block, b->control, LS_NOT_READY);
    while (s->n_added < n) TRY(add_next(s, LS_NOT_READY));
    return LS_OK;
}

/* Once per step; the first word before the updates, the sums before it: a device that cannot add says so by it. */
static enum ls_status sum_wait(struct step *s, int64_t end)
{
    const struct ls_device_sums *sums = s->e->backend->sums;
    const struct sum_block *b = &s->e->sums;
    const int64_t n = s->is_training ? b->control : b->buckets[0].end;
    if (s->is_home) return LS_OK;
    s->is_home = true;
    ls__moments_mark(s, LS_MOMENT_SHARDS);
    TRY(add_rest(s));
    TRY(sums->tell(s->e->device, b->block + b->control, ls__sums_control(s->e), b->n - b->control));
    ls_comm_count_sum(s->e->comm, (n + b->n - b->control) * (int64_t)sizeof *b->block);
    ls__moments_mark(s, LS_MOMENT_SUMS);
    return LS_OK;
}

static enum ls_status publish(struct step *s)
{
    struct ls_lane *lane = s->e->workers[0].lane;
    struct ls_begun begun = ls__span_begin(lane, LS_SPAN_COMMUNICATE, "all sums", s->ask->step);
    enum ls_status status = sum_wait(s, s->e->sums.n);
    ls__span_end(lane, begun);
    return status;
}

static enum ls_status result(struct step *s, struct step_result *own, const struct step_result **out)
{
    struct ls_exec *e = s->e;
    const struct sum_block *b = &e->sums;
    struct step_result *r = e->result;
    const size_t bytes = (size_t)(b->n - b->control) * sizeof *b->block;
    int64_t *control = ls__sums_control(e);
    *out = r;
    TRY(sum_wait(s, b->n));
    memset(control, 0, bytes); /* it has been told */
    ls__moments_mark(s, LS_MOMENT_END);
    TRY(ls__result_take(s, r));
    TRY(ls__memory_read(e, b->block + b->control, bytes, control));
    memcpy(r->control, control, sizeof r->control);
    memcpy(r->machine_ns, control + LS_CONTROL_MACHINES, (size_t)e->n_machines * sizeof *control);
    memset(control, 0, bytes);
    return LS_OK;
}

const struct together ls__devices = {
    .name = "devices",
    .share = ls__ranks_share,
    .unshare = ls__ranks_unshare,
    .run = ls__ranks_run,
    .barrier = ls__ranks_barrier,
    .lock = ls__ranks_lock,
    .unlock = ls__ranks_unlock,
    .sum_begin = sum_begin,
    .contribute = ls__alone_contribute,
    .sum_copy = sum_copy,
    .sum_close = sum_close,
    .sum_wait = sum_wait,
    .publish = publish,
    .result = result,
};
