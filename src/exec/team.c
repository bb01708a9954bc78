/* team.c: the ranks of a node as one team: items are claimed by whichever thread of whichever rank is free.
 *
 * Alone, an executor runs its items on its pool. In a node of several ranks every rank's pool claims from the node's
 * one counter, and the round ends with a meeting, which also spreads a failure to all of them.
 */
#include "exec/exec_internal.h"

#include <sched.h>

struct team_run {
    struct ls_exec *e;
    int n_items;
    ls_pool_fn *fn;
    void *arg;
};

static enum ls_status claim_items(void *arg, int item, int thread)
{
    const struct team_run *run = arg;
    enum ls_status status = LS_OK;
    for (int i; (i = ls_comm_claim(run->e->comm)) < run->n_items;) {
        enum ls_status one = run->fn(run->arg, i, thread);
        if (status == LS_OK) status = one; /* the others still run, so that the outcome does not depend on timing */
    }
    return status;
}

enum ls_status ls__team_run(struct ls_exec *e, int n_items, ls_pool_fn *fn, void *arg)
{
    if (e->n_seats == 1) return ls__pool_run(e->pool, n_items, fn, arg);
    struct team_run run = {e, n_items, fn, arg};
    bool is_active = e->n_active == 0 || e->seat < e->n_active;
    enum ls_status status = is_active ? ls__pool_run(e->pool, e->n_threads, claim_items, &run) : LS_OK;
    return ls_comm_meet(e->comm, status, e->seat);
}

enum ls_status ls__team_meet(struct ls_exec *e, enum ls_status mine)
{
    return e->n_seats == 1 ? mine : ls_comm_meet(e->comm, mine, e->seat);
}

void ls__team_lock(struct ls_exec *e, int which)
{
    if (e->n_seats > 1) {
        ls_comm_lock(e->comm, which);
        return;
    }
    atomic_int *taken = &e->locks[which % N_LOCKS].taken;
    for (int spins = 0; atomic_exchange_explicit(taken, 1, memory_order_acquire); spins++)
        if (spins > 200) sched_yield();
}

void ls__team_unlock(struct ls_exec *e, int which)
{
    if (e->n_seats > 1)
        ls_comm_unlock(e->comm, which);
    else
        atomic_store_explicit(&e->locks[which % N_LOCKS].taken, 0, memory_order_release);
}
