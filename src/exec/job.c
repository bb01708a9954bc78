/* job.c: an executor as part of a job: which shards are this node's, what all learn at the end of a step, and stores
 * that must hold the same.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "exec/exec_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_N_SHARDS = 4096, BALANCE_STEPS = 8, WEIGHT_UNIT = 1 << 20 };

static enum ls_status give(void *giver, size_t bytes, void **out)
{
    return ls_comm_share(giver, bytes, out);
}

enum ls_status ls_exec_join_job(struct ls_exec *e, struct ls_comm *comm, bool is_balanced)
{
    const struct ls_comm_place *at = ls_comm_place(comm);
    e->comm = comm;
    e->seat = at->seat;
    e->n_seats = at->n_seats;
    e->node = at->node;
    e->n_nodes = at->n_nodes;
    e->is_balanced = is_balanced;
    if (e->n_seats > 1) {
        e->store->allocate = give;
        e->store->giver = comm;
    }
    TRY(ls__calloc(&e->weights, 4 * (size_t)e->n_nodes, sizeof *e->weights));
    e->window_ns = e->weights + e->n_nodes;
    e->total_ns = e->weights + 2 * e->n_nodes;
    e->total_shards = e->weights + 3 * e->n_nodes;
    for (int k = 0; k < e->n_nodes; k++) e->weights[k] = 1;
    TRY(ls__calloc(&e->mine, MAX_N_SHARDS, 1));
    return ls_comm_share(comm, sizeof *e->news + (size_t)e->n_nodes * sizeof(int64_t), (void **)&e->news);
}

/* --- whose shards --- */

/* The first shard of a node: shares in proportion to the weights, rounded so that all add up. */
int ls__exec_first_shard(const struct ls_exec *e, int n_shards, int node)
{
    int64_t before = 0, all = 0;
    if (e->n_nodes == 1) return node > 0 ? n_shards : 0; /* an executor outside a job has no weights */
    for (int k = 0; k < e->n_nodes; k++) {
        if (k < node) before += e->weights[k];
        all += e->weights[k];
    }
    return (int)((2 * before * n_shards + all) / (2 * all));
}

void ls__exec_share_shards(struct ls_exec *e, int n_shards)
{
    e->first_shard = 0;
    e->n_own_shards = n_shards;
    if (e->n_nodes == 1) return;
    /* With remainders a shard stays where they are, also in a smaller last batch. */
    int n = e->compress.bits ? e->compress.n_all : n_shards;
    int first = ls__exec_first_shard(e, n, e->node), end = ls__exec_first_shard(e, n, e->node + 1);
    e->first_shard = first < n_shards ? first : n_shards;
    e->n_own_shards = (end < n_shards ? end : n_shards) - e->first_shard;
    memset(e->mine, 0, (size_t)n_shards);
    memset(e->mine + e->first_shard, 1, (size_t)e->n_own_shards);
}

/* Time of a shard's worth of work on each node over the last steps; the same numbers on all of them. */
static void balance(struct ls_exec *e, int n_shards)
{
    double fastest = INFINITY, now = 0, then = 0;
    double *tau;
    if (e->n_nodes == 1 || !e->is_balanced || ++e->window_steps < BALANCE_STEPS) return;
    if (ls__calloc(&tau, (size_t)e->n_nodes, sizeof *tau) != LS_OK) return; /* another time */
    for (int k = 0; k < e->n_nodes; k++) {
        int n = ls__exec_first_shard(e, n_shards, k + 1) - ls__exec_first_shard(e, n_shards, k);
        tau[k] = n > 0 ? (double)e->window_ns[k] / n : 0;
        if (tau[k] > 0 && tau[k] < fastest) fastest = tau[k];
        if ((double)e->window_ns[k] > now) now = (double)e->window_ns[k];
    }
    double speed = 0;
    for (int k = 0; k < e->n_nodes; k++) speed += tau[k] > 0 ? 1 / tau[k] : 1 / fastest;
    then = n_shards / speed;
    if (isfinite(fastest) && then < 0.92 * now)
        for (int k = 0; k < e->n_nodes; k++)
            e->weights[k] = 1 + (int64_t)(WEIGHT_UNIT * (tau[k] > 0 ? fastest / tau[k] : 1));
    free(tau);
    memset(e->window_ns, 0, (size_t)e->n_nodes * sizeof *e->window_ns);
    e->window_steps = 0;
}

/* --- control --- */

void ls_exec_want(struct ls_exec *e, bool stop, bool save)
{
    e->own_control[LS_CONTROL_STOP] = stop;
    e->own_control[LS_CONTROL_SAVE] = save;
}

/* Before the meeting that ends the shards: the words of all ranks of the node are in then. */
void ls__exec_fill_control(struct ls_exec *e)
{
    if (!e->comm) return;
    for (int i = 0; i < LS_CONTROL_NODES; i++)
        if (e->own_control[i]) __atomic_fetch_add(&ls__exec_control(e)[i], e->own_control[i], __ATOMIC_RELAXED);
}

/* The leader's: how the node fared. Then everything may travel. */
void ls__exec_flush(struct ls_exec *e, bool has_failed)
{
    if (e->n_nodes == 1 || e->seat > 0) return;
    ls__exec_control(e)[LS_CONTROL_FAILED] = has_failed;
    ls__exec_control(e)[LS_CONTROL_NODES + e->node] = e->shards_ns;
    ls_comm_sum_flush(e->comm);
}

static void read_stats(struct ls_exec *e, const struct ls_plan *p, struct step_news *news)
{
    int64_t *sum = e->store->entries[p->slots[p->graph->stats_sum].stored].data;
    news->loss = sum[0];
    news->n_correct = sum[1];
    sum[0] = sum[1] = 0;
    if (!e->comm) return;
    int64_t *control = ls__exec_control(e);
    memcpy(news->control, control, sizeof news->control);
    memcpy(news->node_ns, control + LS_CONTROL_NODES, (size_t)e->n_nodes * sizeof *control);
    memset(control, 0, (size_t)(e->sums.n - e->sums.control) * sizeof *control);
}

void ls__exec_publish(struct ls_exec *e, const struct ls_plan *p)
{
    if (e->n_seats == 1 || e->n_nodes > 1) return;
    if (e->seat == 0) {
        read_stats(e, p, e->news);
        e->news->n_active = ls__active_next(e);
    }
    e->is_published = true;
}

/* All sums are here, and every rank of the node has met since it last touched them. */
static enum ls_status gather_news(struct ls_exec *e, const struct ls_plan *p, struct step_news *news)
{
    int64_t start = ls__now_ns();
    if (e->n_nodes > 1) TRY(ls_comm_sum_wait(e->comm, e->sums.n));
    e->comm_ns += ls__now_ns() - start;
    if (e->seat == 0) read_stats(e, p, news);
    return ls__team_meet(e, LS_OK);
}

static void count_node_time(struct ls_exec *e, const struct step_news *news, int n_shards)
{
    for (int k = 0; e->n_nodes > 1 && k < e->n_nodes; k++) {
        e->window_ns[k] += news->node_ns[k];
        e->total_ns[k] += news->node_ns[k];
        e->total_shards[k] += ls__exec_first_shard(e, n_shards, k + 1) - ls__exec_first_shard(e, n_shards, k);
    }
    balance(e, n_shards);
}

enum ls_status ls__exec_read_news(struct ls_exec *e, const struct ls_plan *p, int n_shards, struct ls_exec_stats *stats)
{
    struct step_news own = {0}, *news = e->news ? e->news : &own;
    if (!e->is_published) TRY(gather_news(e, p, news));
    e->is_published = false;
    e->n_active = news->n_active;
    stats->loss_sum = ldexp((double)news->loss, -LS_SCALE_STATS);
    stats->n_correct = news->n_correct >> LS_SCALE_STATS;
    stats->stop_wanted = news->control[LS_CONTROL_STOP] > 0;
    stats->save_wanted = news->control[LS_CONTROL_SAVE] > 0;
    if (p->graph->is_training) count_node_time(e, news, n_shards);
    if (news->control[LS_CONTROL_FAILED] > 0)
        return ls_fail(LS_REMOTE, "%lld of %d nodes failed in this step; see their messages",
                       (long long)news->control[LS_CONTROL_FAILED], e->n_nodes);
    return LS_OK;
}

double ls_exec_node_shard_seconds(const struct ls_exec *e, int node)
{
    return e->total_shards && e->total_shards[node] ? (double)e->total_ns[node] * 1e-9 / (double)e->total_shards[node]
                                                    : 0;
}

/* --- stores --- */

enum ls_status ls_exec_sync_store(struct ls_exec *e, int root)
{
    if (!e->comm) return LS_OK;
    for (int i = 0; i < e->store->n_entries; i++) {
        const struct ls_stored *s = &e->store->entries[i];
        if (s->source >= 0 || s->kind == LS_VALUE_SUM || s->kind == LS_VALUE_KEPT) continue;
        TRY(ls_comm_broadcast_nodes(e->comm, root, s->data, s->layout.bytes));
    }
    e->store->version++;
    return ls__team_meet(e, LS_OK);
}
