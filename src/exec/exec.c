/* exec.c: the life of an executor: threads, memory, plans, the job it is part of. See exec/exec.h. */
#include "base/mem.h"
#include "exec/exec_internal.h"

#include <stdlib.h>

/* The store's memory is what all ranks of the machine see. */
static enum ls_status give(void *owner, size_t bytes, void **out)
{
    struct ls_exec *e = owner;
    return e->together->share(e, bytes, out);
}

static void take_back(void *owner, void *data, size_t bytes)
{
    struct ls_exec *e = owner;
    e->together->unshare(e, data, bytes);
}

static enum ls_status build(struct ls_exec *e)
{
    TRY(ls__calloc(&e->workers, (size_t)e->n_threads, sizeof *e->workers));
    return ls__pool_create(&e->pool, e->n_threads, true, e->backend->thread_begin);
}

enum ls_status ls_exec_create(struct ls_exec **out, const struct ls_backend *backend, struct ls_device *device,
                              struct ls_store *store, int n_threads)
{
    *out = NULL;
    TRY(ls__calloc(out, 1, sizeof **out));
    struct ls_exec *e = *out;
    e->backend = backend;
    e->device = device;
    e->store = store;
    e->n_threads = n_threads;
    e->n_local = e->n_machines = 1;
    e->together = &ls__alone;
    e->store->memory = (struct ls_store_memory){give, take_back, e};
    enum ls_status status = build(e);
    if (status != LS_OK) ls_exec_destroy(out);
    return status;
}

void ls_exec_destroy(struct ls_exec **exec)
{
    struct ls_exec *e = *exec;
    if (!e) return;
    ls__devices_leave(e);
    ls__pool_destroy(&e->pool);
    ls__pool_destroy(&e->helpers);
    if (e->workers) ls__exec_give_lanes_back(e);
    ls__trace_destroy(&e->own_trace);
    for (int i = 0; i < e->n_plans; i++) ls__exec_free_plan(e, &e->plans[i]);
    free(e->plans);
    for (int t = 0; e->workers && t < e->n_threads; t++) ls__memory_free(e, e->workers[t].arena, e->workers[t].bytes);
    free(e->workers);
    ls_store_release(e->store);
    ls__sums_free(e);
    ls__images_free(e);
    ls__ahead_free(e);
    ls__compress_release(e);
    ls__share_close(e);
    free(e);
    *exec = NULL;
}

enum ls_status ls_exec_join_job(struct ls_exec *e, struct ls_comm *comm, bool is_balanced)
{
    const struct ls_comm_place *at = ls_comm_place(comm);
    e->comm = comm;
    e->local_rank = at->local_rank;
    e->n_local = at->n_local;
    e->machine = at->machine;
    e->n_machines = at->n_machines;
    TRY(ls_comm_crew(comm, e->n_threads));
    e->together = e->n_machines > 1 ? &ls__machines : e->n_local > 1 ? &ls__ranks : &ls__alone;
    bool is_by_devices = false;
    const bool is_coarse = e->compress.bits > 0;
    if (e->n_machines > 1 && !is_coarse) TRY(ls__devices_join(e, &is_by_devices));
    if (is_by_devices) e->together = &ls__devices;
    if (is_by_devices) TRY(ls__lane_take(e->trace, "sums", &e->adding));
    TRY(ls__share_open(e, is_balanced && !is_coarse && (!is_by_devices || e->backend->clock)));
    if (e->together == &ls__alone) return LS_OK;
    return ls_comm_share(comm, sizeof *e->result + (size_t)e->n_machines * sizeof(int64_t), (void **)&e->result);
}

int ls_exec_n_threads(const struct ls_exec *e)
{
    return e->n_threads;
}

size_t ls_exec_arena_bytes(const struct ls_exec *e)
{
    return e->arena_bytes;
}

/* Larger arenas for all threads. Every plan must be bound again: its addresses changed. */
static enum ls_status grow_arenas(struct ls_exec *e)
{
    size_t bytes = ls__samples_offset(e) + (size_t)e->samples_mb * sizeof(uint32_t);
    for (int i = 0; i < e->n_plans; i++) ls__exec_unbind(e, &e->plans[i]);
    for (int t = 0; t < e->n_threads; t++) {
        struct worker *w = &e->workers[t];
        ls__memory_free(e, w->arena, w->bytes);
        w->arena = NULL;
        TRY(ls__memory_alloc(e, bytes, (void **)&w->arena));
        w->bytes = bytes;
    }
    for (int i = 0; i < e->n_plans - 1; i++) TRY(ls__exec_bind(e, &e->plans[i]));
    return LS_OK;
}

enum ls_status ls_exec_add_plan(struct ls_exec *e, struct ls_plan **plan)
{
    enum ls_status status = ls__grow(&e->plans, (size_t)e->n_plans, (size_t)e->n_plans + 1, sizeof *e->plans);
    if (status != LS_OK) {
        ls_plan_destroy(plan);
        return status;
    }
    struct bound_plan *bp = &e->plans[e->n_plans++];
    *bp = (struct bound_plan){.plan = *plan};
    if (e->n_plans > 1) bp->first_op = bp[-1].first_op + bp[-1].plan->n_ops;
    *plan = NULL;
    TRY(ls__exec_measure_ops(e));
    TRY(ls__sums_place(e, bp->plan));
    TRY(ls_store_allocate(e->store));
    bool is_larger = bp->plan->arena_bytes > e->arena_bytes || bp->plan->graph->mb > e->samples_mb;
    if (bp->plan->arena_bytes > e->arena_bytes) e->arena_bytes = bp->plan->arena_bytes;
    if (bp->plan->graph->mb > e->samples_mb) e->samples_mb = bp->plan->graph->mb;
    if (is_larger) TRY(grow_arenas(e));
    return ls__exec_bind(e, bp);
}

const struct ls_plan *ls_exec_plan(const struct ls_exec *e, int64_t mb, bool is_training)
{
    const struct bound_plan *bp = ls__exec_find(e, mb, is_training);
    return bp ? bp->plan : NULL;
}
