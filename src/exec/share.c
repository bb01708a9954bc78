/* share.c: which shards are a machine's. Shares follow from weights that all machines derive from the same control
 * words; with balancing a slower machine gets fewer.
 */
#include "base/mem.h"
#include "exec/exec_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BALANCE_STEPS = 8, WEIGHT_UNIT = 1 << 20 };

enum ls_status ls__share_open(struct ls_exec *e, bool is_balanced)
{
    struct balance *b = &e->balance;
    size_t n = (size_t)e->n_machines;
    b->is_on = is_balanced;
    if (n == 1) return LS_OK;
    TRY(ls__calloc(&b->tau, n, sizeof *b->tau));
    TRY(ls__calloc(&b->weights, 4 * n, sizeof *b->weights));
    b->window_ns = b->weights + n;
    b->total_ns = b->weights + 2 * n;
    b->total_shards = b->weights + 3 * n;
    for (size_t k = 0; k < n; k++) b->weights[k] = 1;
    return ls__calloc(&e->mine, MAX_N_SHARDS, 1);
}

void ls__share_close(struct ls_exec *e)
{
    free(e->balance.weights);
    free(e->balance.tau);
    free(e->mine);
}

/* Shares in proportion to the weights, rounded so that all add up. */
int ls__share_first(const struct ls_exec *e, int n_shards, int machine)
{
    int64_t before = 0, all = 0;
    if (e->n_machines == 1) return machine > 0 ? n_shards : 0;
    for (int k = 0; k < e->n_machines; k++) {
        if (k < machine) before += e->balance.weights[k];
        all += e->balance.weights[k];
    }
    return (int)((2 * before * n_shards + all) / (2 * all));
}

void ls__share_shards(struct step *s)
{
    const struct ls_exec *e = s->e;
    /* With remainders a shard stays where they are, also in a smaller last batch. */
    int n = e->compress.bits ? e->compress.n_all : s->n_shards;
    int first = ls__share_first(e, n, e->machine), end = ls__share_first(e, n, e->machine + 1);
    s->first = first < s->n_shards ? first : s->n_shards;
    s->n_own = (end < s->n_shards ? end : s->n_shards) - s->first;
    if (!e->mine) return;
    memset(e->mine, 0, (size_t)s->n_shards);
    memset(e->mine + s->first, 1, (size_t)s->n_own);
}

/* Time of a shard's worth of work on each machine over the last steps; the same numbers on all of them. */
static void balance(struct ls_exec *e, int n_shards)
{
    struct balance *b = &e->balance;
    double fastest = INFINITY, now = 0, then = 0;
    double *tau = b->tau;
    if (!b->is_on || ++b->window_steps < BALANCE_STEPS) return;
    for (int k = 0; k < e->n_machines; k++) {
        int n = ls__share_first(e, n_shards, k + 1) - ls__share_first(e, n_shards, k);
        tau[k] = n > 0 ? (double)b->window_ns[k] / n : 0;
        if (tau[k] > 0 && tau[k] < fastest) fastest = tau[k];
        if ((double)b->window_ns[k] > now) now = (double)b->window_ns[k];
    }
    double speed = 0;
    for (int k = 0; k < e->n_machines; k++) speed += tau[k] > 0 ? 1 / tau[k] : 1 / fastest;
    then = n_shards / speed;
    if (isfinite(fastest) && then < 0.92 * now)
        for (int k = 0; k < e->n_machines; k++)
            b->weights[k] = 1 + (int64_t)(WEIGHT_UNIT * (tau[k] > 0 ? fastest / tau[k] : 1));
    memset(b->window_ns, 0, (size_t)e->n_machines * sizeof *b->window_ns);
    b->window_steps = 0;
}

void ls__share_note(struct step *s, const struct step_result *r)
{
    struct ls_exec *e = s->e;
    struct balance *b = &e->balance;
    if (!b->weights) return;
    for (int k = 0; k < e->n_machines; k++) {
        b->window_ns[k] += r->machine_ns[k];
        b->total_ns[k] += r->machine_ns[k];
        if (r->machine_ns[k] == 0) continue; /* not told */
        b->total_shards[k] += ls__share_first(e, s->n_shards, k + 1) - ls__share_first(e, s->n_shards, k);
    }
    balance(e, s->n_shards);
}

double ls_exec_machine_shard_seconds(const struct ls_exec *e, int machine)
{
    const struct balance *b = &e->balance;
    if (!b->weights || !b->total_shards[machine]) return 0;
    return (double)b->total_ns[machine] * 1e-9 / (double)b->total_shards[machine];
}
