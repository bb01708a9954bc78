/* alone.c: one process on one machine. Nobody to wait for, nothing to send; the entries that concern others are empty.
 * See struct together in exec_internal.h.
 */
#include "exec/exec_internal.h"

#include <sched.h>

static enum ls_status run(struct ls_exec *e, int n_items, ls_pool_fn *fn, void *arg)
{
    return ls__pool_run(e->pool, n_items, fn, arg);
}

static enum ls_status barrier(struct ls_exec *e, enum ls_status mine)
{
    return mine;
}

static void lock(struct ls_exec *e, int which)
{
    atomic_int *taken = &e->locks[which % N_LOCKS].taken;
    for (int spins = 0; atomic_exchange_explicit(taken, 1, memory_order_acquire); spins++)
        if (spins > 200) sched_yield();
}

static void unlock(struct ls_exec *e, int which)
{
    atomic_store_explicit(&e->locks[which % N_LOCKS].taken, 0, memory_order_release);
}

static enum ls_status sum_begin(struct step *s)
{
    return LS_OK;
}

void ls__alone_contribute(struct ls_exec *e, int bucket)
{
}

enum ls_status ls__alone_sum_copy(struct step *s)
{
    return LS_OK;
}

void ls__alone_sum_close(struct step *s, bool has_failed)
{
}

enum ls_status ls__alone_sum_wait(struct step *s, int64_t end)
{
    return LS_OK;
}

static enum ls_status publish(struct step *s)
{
    return LS_OK;
}

static enum ls_status result(struct step *s, struct step_result *own, const struct step_result **out)
{
    *out = own;
    TRY(ls__result_take(s, own));
    own->control[LS_CONTROL_STOP] = s->e->stop_wanted;
    own->control[LS_CONTROL_SAVE] = s->e->save_wanted;
    return LS_OK;
}

const struct together ls__alone = {
    .name = "alone",
    .share = ls__memory_alloc,
    .unshare = ls__memory_free,
    .run = run,
    .barrier = barrier,
    .lock = lock,
    .unlock = unlock,
    .sum_begin = sum_begin,
    .contribute = ls__alone_contribute,
    .sum_copy = ls__alone_sum_copy,
    .sum_close = ls__alone_sum_close,
    .sum_wait = ls__alone_sum_wait,
    .publish = publish,
    .result = result,
};
