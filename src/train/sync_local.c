/* sync_local.c: local SGD (--sync local:H): every shard trains a model of its own for H steps, then all are averaged.
 *
 * For networks too slow to meet at every step. It is another algorithm than synchronous training and gives other
 * weights and often another accuracy; but a replica belongs to a shard, not to a worker, and averages are formed in
 * fixed point, so the result depends on H and the number of shards, never on who computed it.
 *
 *     each step          replica i: forward, backward and update on shard i alone
 *     every H steps and at the end of an epoch: parameters, buffers and optimizer state become their average over all
 *                        replicas
 *
 * When anything is averaged depends on H and the length of an epoch alone. In between the session's store gets the
 * average of the moment when somebody wants to read it (view), and the replicas go on as they were. A checkpoint then
 * holds them too (carry.h). The average itself is made in local_average.c.
 */
#include "base/log.h"
#include "base/mem.h"
#include "comm/average.h"
#include "train/carry.h"
#include "train/local.h"

#include <stdlib.h>
#include <string.h>

enum { PART = 1 << 16 }; /* elements; a multiple of LS_AVERAGE_BLOCK */

static enum ls_status cut_pieces(struct local *l)
{
    const struct ls_store *store = l->s->store;
    for (int i = 0; i < store->n_entries; i++) {
        if (!ls_stored_is_saved(&store->entries[i])) continue;
        int64_t n = (int64_t)(store->entries[i].layout.bytes / sizeof(float));
        TRY(ls__grow(&l->saved, (size_t)l->n_saved, (size_t)l->n_saved + 1, sizeof *l->saved));
        l->saved[l->n_saved++] = (struct ls_stored_part){i, 0, n};
        for (int64_t at = 0; at < n; at += PART) {
            int64_t end = at + PART < n ? at + PART : n;
            TRY(ls__grow(&l->pieces, (size_t)l->n_pieces, (size_t)l->n_pieces + 1, sizeof *l->pieces));
            l->pieces[l->n_pieces++] = (struct piece){i, at, end, l->n_values, l->n_exponents};
            l->n_values += end - at;
            l->n_exponents += ls__average_n_blocks(end - at);
        }
    }
    return LS_OK;
}

/* A replica's entries must lie as the session's do. */
static enum ls_status check_same(const struct session *s, const struct session *replica)
{
    for (int i = 0; i < s->store->n_entries; i++) {
        const struct ls_stored *a = &s->store->entries[i];
        if (!ls_stored_is_saved(a)) continue;
        const struct ls_stored *b = i < replica->store->n_entries ? &replica->store->entries[i] : NULL;
        if (!b || strcmp(a->name, b->name) != 0 || a->layout.id != b->layout.id || a->layout.bytes != b->layout.bytes)
            return ls_fail(LS_INTERNAL, "the replica of a shard has another layout of %s", a->name);
    }
    return LS_OK;
}

/* Such a device launches for one thread at a time; threads of the host only average. */
static enum ls_status open_far(struct local *l)
{
    enum { MOST_THREADS = 8 };
    const int n = ls__cpu_count();
    TRY(ls__alloc_aligned(&l->plain, (size_t)l->n_values * sizeof *l->plain));
    return ls__pool_create(&l->pool, n < MOST_THREADS ? n : MOST_THREADS, false, NULL);
}

static enum ls_status build(struct local *l, const struct session_options *o)
{
    const struct ls_comm_place *at = ls_comm_place(l->comm);
    l->n_replicas = (int)l->s->shards;
    l->first = l->n_replicas * at->rank / at->n_ranks;
    l->n_own = l->n_replicas * (at->rank + 1) / at->n_ranks - l->first;
    TRY(cut_pieces(l));
    TRY(ls__calloc(&l->replicas, (size_t)l->n_own + 1, sizeof *l->replicas));
    TRY(ls__calloc(&l->stats, (size_t)l->n_own + 1, sizeof *l->stats));
    TRY(ls__calloc(&l->exponents, (size_t)l->n_exponents, 1));
    TRY(ls__calloc(&l->gathered, at->rank == 0 ? (size_t)at->n_ranks : 1, (size_t)l->n_exponents));
    for (int i = 0; i < l->n_own; i++) {
        TRY(ls__session_replicate(l->s, o, &l->replicas[i]));
        TRY(check_same(l->s, &l->replicas[i]));
    }
    TRY(ls_exec_is_far(l->s->exec) ? open_far(l)
                                   : ls__pool_create(&l->pool, l->s->threads, true, l->s->backend->thread_begin));
    return ls_comm_share(l->comm, (size_t)(l->n_values + N_WORDS) * sizeof(int64_t), (void **)&l->block);
}

static void close_local(struct sync *sync)
{
    struct local *l = sync->state;
    ls__pool_destroy(&l->pool);
    for (int i = 0; l->replicas && i < l->n_own; i++) ls__session_drop_replica(&l->replicas[i]);
    free(l->replicas);
    free(l->stats);
    free(l->exponents);
    free(l->gathered);
    if (l->plain) ls__free_aligned(l->plain, (size_t)l->n_values * sizeof *l->plain);
    free(l->saved);
    free(l->pieces);
    free(l);
}

/* Every replica takes over the session's store: at the start and after a resume, as far as no copies of their own are
 * at hand. */
static enum ls_status start(struct local *l, const struct train_state *st, int64_t steps_per_epoch)
{
    l->is_averaged = st->step % l->period == 0 || st->step % steps_per_epoch == 0;
    if (ls_comm_place(l->comm)->rank == 0) {
        l->sum.loss_sum = st->pending.loss_sum;
        l->sum.n_correct = st->pending.n_correct;
        l->sum.n = st->pending.n;
    }
    TRY(ls__local_hand_out(l));
    return ls_comm_barrier(l->comm, LS_OK, 0);
}

static enum ls_status open_local(struct sync *sync, const struct session_options *o, const struct train_state *st)
{
    struct local *l;
    TRY(ls__calloc(&l, 1, sizeof *l));
    sync->state = l;
    l->s = sync->s;
    l->comm = sync->s->comm;
    l->period = sync->choice.number;
    TRY(build(l, o));
    return start(l, st, sync->steps_per_epoch);
}

static bool is_averaged(const struct sync *sync)
{
    return ((const struct local *)sync->state)->is_averaged;
}

/* --- a step --- */

struct step_run {
    struct local *l;
    const struct ls_exec_step *step;
};

/* A replica's batch is its shard of the global one. */
static enum ls_status step_replica(void *arg, int item, int thread)
{
    const struct step_run *run = arg;
    struct local *l = run->l;
    const struct ls_batch *b = run->step->batch;
    int64_t first = (l->first + item) * run->step->shard_size, left = b->n - first;
    l->stats[item] = (struct ls_exec_stats){0};
    if (left <= 0) return LS_OK; /* a smaller last batch */
    const struct ls_batch own = {.epoch = b->epoch,
                                 .step = b->step,
                                 .n = (int)(left < run->step->shard_size ? left : run->step->shard_size),
                                 .samples = b->samples + first,
                                 .labels = b->labels + first,
                                 .pixels = b->pixels + first,
                                 .kept = b->kept};
    struct ls_exec_step step = *run->step;
    step.batch = &own;
    step.shard_size = own.n;
    step.look = NULL;           /* a replica's gradient is nobody's */
    step.next = NULL;           /* the next batch is all replicas', not one's to ask for */
    step.may_run_ahead = false; /* several share a device: which one failed is known while it is its turn */
    return ls_exec_train(l->replicas[item].exec, &step, &l->stats[item]);
}

static enum ls_status step_replicas(struct step_run *run)
{
    const struct local *l = run->l;
    if (!l->plain) return ls__pool_run(l->pool, l->n_own, step_replica, run);
    for (int r = 0; r < l->n_own; r++) TRY(step_replica(run, r, 0));
    return LS_OK;
}

static void add_stats(struct local *l)
{
    for (int i = 0; i < l->n_own; i++) {
        l->sum.loss_sum += l->stats[i].loss_sum; /* exact: few bits, one scale */
        l->sum.n_correct += l->stats[i].n_correct;
        l->sum.n += l->stats[i].n;
    }
}

static enum ls_status step_all(struct sync *sync, const struct ls_exec_step *step, bool stop, bool save,
                               struct ls_exec_stats *stats)
{
    struct local *l = sync->state;
    struct step_run run = {l, step};
    int64_t n_done = step->step + 1;
    l->sum.stop_wanted |= stop;
    l->sum.save_wanted |= save;
    ls_comm_note(l->comm, n_done, "local steps");
    TRY(step_replicas(&run));
    add_stats(l);
    l->is_averaged = false;
    *stats = (struct ls_exec_stats){0};
    if (n_done % l->period != 0 && n_done % sync->steps_per_epoch != 0) return LS_OK;
    TRY(ls__local_average(l, false, stats));
    l->sum = (struct ls_exec_stats){0};
    l->is_averaged = true;
    return LS_OK;
}

static enum ls_status view(struct sync *sync, struct tally *pending)
{
    struct ls_exec_stats stats;
    TRY(ls__local_average(sync->state, true, &stats));
    *pending = (struct tally){stats.loss_sum, stats.n_correct, stats.n};
    return LS_OK;
}

static int64_t samples(const struct sync *sync)
{
    const struct local *l = sync->state;
    int64_t n = 0;
    for (int i = 0; i < l->n_own; i++) n += ls_exec_samples(l->replicas[i].exec);
    return n;
}

/* Replicas are alike: the first of this rank's. */
static struct ls_exec *measured(const struct sync *sync)
{
    const struct local *l = sync->state;
    return l->n_own > 0 ? l->replicas[0].exec : NULL;
}

static void say_hello(const struct sync *sync)
{
    ls__log(LS_LOG_INFO,
            "local SGD: each of %lld shards trains its own copy, averaged every %lld steps. Not the weights of "
            "synchronous training, but the same for any number of workers",
            (long long)sync->s->shards, (long long)sync->choice.number);
}

/* --- what a checkpoint holds of the replicas --- */

static enum ls_status open_replicas(struct sync *sync, int *first, int *n)
{
    const struct local *l = sync->state;
    *first = l->first;
    *n = l->n_own;
    return LS_OK;
}

static bool is_replicated(const struct sync *sync, int entry)
{
    return ls_stored_is_saved(&sync->s->store->entries[entry]);
}

static bool is_apart(const struct sync *sync, const struct train_state *st)
{
    return !is_averaged(sync);
}

static enum ls_status get_replica(struct sync *sync, int shard, int entry, float *out)
{
    const struct local *l = sync->state;
    return ls_exec_get(l->replicas[shard - l->first].exec, entry, out);
}

static enum ls_status set_replica(struct sync *sync, int shard, int entry, const float *in)
{
    const struct local *l = sync->state;
    return ls_exec_set(l->replicas[shard - l->first].exec, entry, in);
}

static const struct carry_kind replicas = {
    .prefix = "local/",
    .what = "copies of the shards (--sync local:H)",
    .may_carry = ls_stored_is_saved,
    .open = open_replicas,
    .is_carried = is_replicated,
    .is_due = is_apart,
    .get = get_replica,
    .set = set_replica,
};

static const struct carry_kind *carried(const struct ls_train_options *o)
{
    return &replicas;
}

const struct sync_way ls__sync_local = {
    .name = "local",
    .open = open_local,
    .close = close_local,
    .step = step_all,
    .is_settled = is_averaged,
    .view = view,
    .carried = carried,
    .samples = samples,
    .measured = measured,
    .say_hello = say_hello,
};
