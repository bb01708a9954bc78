/* local_average.c: the average of the replicas of --sync local:H, in integers (comm/average.h), over the ranks of all
 * machines.
 *
 * Values are averaged where they lie. On a device with memory of its own that is not possible: there one replica after
 * the other comes down (local.plain), twice, and the mean goes up to each. The integers are the same.
 */
#include "comm/average.h"
#include "train/local.h"

#include <math.h>
#include <string.h>

/* --- values of a device with memory of its own --- */

static enum ls_status bring_down(struct local *l, struct ls_exec *exec)
{
    return ls_exec_get_parts(exec, l->saved, l->n_saved, l->plain);
}

static enum ls_status take_up(struct local *l, struct ls_exec *exec)
{
    return ls_exec_set_parts(exec, l->saved, l->n_saved, l->plain);
}

enum ls_status ls__local_hand_out(struct local *l)
{
    if (l->plain) TRY(bring_down(l, l->s->exec));
    for (int r = 0; r < l->n_own; r++) {
        for (int i = 0; !l->plain && i < l->s->store->n_entries; i++) {
            const struct ls_stored *e = &l->s->store->entries[i];
            if (ls_stored_is_saved(e)) memcpy(l->replicas[r].store->entries[i].data, e->data, e->layout.bytes);
        }
        if (l->plain) TRY(take_up(l, l->replicas[r].exec));
        ls_exec_note_change(l->replicas[r].exec);
    }
    return LS_OK;
}

/* --- rounds over the pieces --- */

/* Replicas [first, first + n), whose values are at hand. */
struct round {
    struct local *l;
    int first, n;
};

static const float *values_of(const struct local *l, int replica, const struct piece *p)
{
    return l->plain ? l->plain + p->at : (const float *)l->replicas[replica].store->entries[p->entry].data + p->begin;
}

/* Every piece with all replicas of this rank. */
static enum ls_status go_over(struct local *l, ls_pool_fn *fn)
{
    struct round round = {l, 0, l->n_own};
    if (!l->plain) return ls__pool_run(l->pool, l->n_pieces, fn, &round);
    round.n = 1;
    for (round.first = 0; round.first < l->n_own; round.first++) {
        TRY(bring_down(l, l->replicas[round.first].exec));
        TRY(ls__pool_run(l->pool, l->n_pieces, fn, &round));
    }
    return LS_OK;
}

static enum ls_status measure_piece(void *arg, int item, int thread)
{
    const struct round *round = arg;
    const struct local *l = round->l;
    const struct piece *p = &l->pieces[item];
    uint8_t *exponents = l->exponents + p->at_exponent;
    int64_t n = p->end - p->begin, n_blocks = ls__average_n_blocks(n);
    for (int r = round->first; r < round->first + round->n; r++)
        ls__average_exponents(values_of(l, r, p), n, exponents);
    if (memchr(exponents, LS_AVERAGE_NOT_FINITE, (size_t)n_blocks))
        return ls_fail(LS_NONFINITE, "%s of a replica is not finite; try a lower --lr, --warmup-epochs or --clip-norm",
                       l->s->store->entries[p->entry].name);
    return LS_OK;
}

/* The exponents of all ranks' replicas. */
static enum ls_status agree_exponents(struct local *l)
{
    const struct ls_comm_place *at = ls_comm_place(l->comm);
    int64_t n = l->n_exponents;
    memset(l->exponents, 0, (size_t)n);
    TRY(go_over(l, measure_piece));
    TRY(ls_comm_gather(l->comm, l->exponents, (size_t)n, l->gathered));
    for (int r = 0; at->rank == 0 && r < at->n_ranks; r++) ls__average_join(l->exponents, l->gathered + r * n, n);
    return ls_comm_broadcast(l->comm, 0, l->exponents, (size_t)n);
}

/* Adds this rank's replicas to the machine's sums, piece by piece. */
static enum ls_status add_piece(void *arg, int item, int thread)
{
    const struct round *round = arg;
    struct local *l = round->l;
    const struct piece *p = &l->pieces[item];
    ls_comm_lock(l->comm, item);
    for (int r = round->first; r < round->first + round->n; r++)
        ls__average_add(values_of(l, r, p), p->end - p->begin, l->exponents + p->at_exponent, l->block + p->at);
    ls_comm_unlock(l->comm, item);
    return LS_OK;
}

/* --- the mean --- */

/* The average becomes the session's values, by the leader, and unless it is only looked at everyone's replicas. */
struct take {
    struct local *l;
    int n_replicas;
};

static void take_mean(const struct local *l, const struct piece *p, float *out)
{
    ls__average_take(l->block + p->at, p->end - p->begin, l->exponents + p->at_exponent, l->n_replicas, out);
}

static enum ls_status take_piece(void *arg, int item, int thread)
{
    const struct take *t = arg;
    const struct local *l = t->l;
    const struct piece *p = &l->pieces[item];
    bool is_leader = ls_comm_place(l->comm)->local_rank == 0;
    if (l->plain) take_mean(l, p, l->plain + p->at);
    for (int r = is_leader ? -1 : 0; !l->plain && r < t->n_replicas; r++) {
        struct ls_store *store = r < 0 ? l->s->store : l->replicas[r].store;
        take_mean(l, p, (float *)store->entries[p->entry].data + p->begin);
    }
    return LS_OK;
}

/* Each rank is a machine of its own then. */
static enum ls_status take_all_up(const struct take *t)
{
    struct local *l = t->l;
    if (!l->plain) return LS_OK;
    for (int r = 0; r < t->n_replicas; r++) TRY(take_up(l, l->replicas[r].exec));
    return take_up(l, l->s->exec);
}

/* The words of this rank join the machine's. */
static void add_words(struct local *l)
{
    int64_t *words = l->block + l->n_values;
    const int64_t mine[N_WORDS] = {[WORD_LOSS] = llrint(ldexp(l->sum.loss_sum, LS_SCALE_STATS)),
                                   [WORD_CORRECT] = l->sum.n_correct,
                                   [WORD_SAMPLES] = l->sum.n,
                                   [WORD_STOP] = l->sum.stop_wanted,
                                   [WORD_SAVE] = l->sum.save_wanted};
    for (int i = 0; i < N_WORDS; i++) __atomic_fetch_add(&words[i], mine[i], __ATOMIC_RELAXED);
}

static enum ls_status sum_over_machines(struct local *l)
{
    const struct ls_comm_bucket all = {0, l->n_values + N_WORDS, 1};
    TRY(ls_comm_sum_begin(l->comm, l->block, &all, 1, LS_SPAN_SUM));
    if (ls_comm_place(l->comm)->local_rank == 0) ls_comm_sum_flush(l->comm);
    return ls_comm_sum_wait(l->comm, all.end);
}

static void read_words(struct local *l, struct ls_exec_stats *stats)
{
    const int64_t *words = l->block + l->n_values;
    *stats = (struct ls_exec_stats){.loss_sum = ldexp((double)words[WORD_LOSS], -LS_SCALE_STATS),
                                    .n_correct = words[WORD_CORRECT],
                                    .n = words[WORD_SAMPLES],
                                    .stop_wanted = words[WORD_STOP] > 0,
                                    .save_wanted = words[WORD_SAVE] > 0};
}

/* is_view: the replicas stay as they are. */
static enum ls_status average_all(struct local *l, bool is_view, struct ls_exec_stats *stats)
{
    const struct take take = {l, is_view ? 0 : l->n_own};
    TRY(agree_exponents(l));
    TRY(go_over(l, add_piece));
    add_words(l);
    TRY(ls_comm_barrier(l->comm, LS_OK, 0));
    TRY(sum_over_machines(l));
    read_words(l, stats);
    TRY(ls__pool_run(l->pool, l->n_pieces, take_piece, (void *)&take));
    TRY(take_all_up(&take));
    for (int r = 0; r < take.n_replicas; r++) ls_exec_note_change(l->replicas[r].exec);
    ls_exec_note_change(l->s->exec);
    TRY(ls_comm_barrier(l->comm, LS_OK, 0));
    if (ls_comm_place(l->comm)->local_rank == 0)
        memset(l->block, 0, (size_t)(l->n_values + N_WORDS) * sizeof *l->block);
    return ls_comm_barrier(l->comm, LS_OK, 0);
}

enum ls_status ls__local_average(struct local *l, bool is_view, struct ls_exec_stats *stats)
{
    struct ls_begun begun = ls__span_begin(l->s->lane, LS_SPAN_COMMUNICATE, "average", l->n_replicas);
    enum ls_status status = average_all(l, is_view, stats);
    ls__span_end(l->s->lane, begun);
    return status;
}
