/* loader.c: batches prepared ahead of the training loop.
 *
 * In: a data set, a seed, a place to start (epoch, step). Out: one ls_batch after the other, for ever.
 *
 *      producer thread                                   training loop
 *      take a free slot -> fill it -> ready queue -----> ls_loader_next: give back the slot before the last, take one
 *             ^                                                  |
 *             +---------------------- free queue <---------------+
 *
 * There are n_slots slots and no other memory: a step allocates nothing, and the producer sleeps when all slots are
 * full. Slots that hold pointers only are many and go back in lots, so that the producer wakes once in many steps: to
 * wake a thread takes as long as a tenth of a small network's step. What is in a batch depends on (seed, epoch, step,
 * batch size) alone, so a run that starts at (epoch, step) sees what the unbroken run saw. Three kinds of data sets,
 * from cheap to dear: all bytes at hand (a slot holds pointers), a view that is made when first asked for (pointers
 * too), read (the slot owns the bytes and n_threads threads decode into it).
 *
 * A failing sample ends the producer: its slot carries status and message, which every later ls_loader_next returns.
 */
#include "base/mem.h"
#include "base/pool.h"
#include "base/queue.h"
#include "base/status_kept.h"
#include "data/format.h"
#include "trace/trace.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DECODED_SLOTS = 4, POINTER_SLOTS = 32, MAX_SLOTS = POINTER_SLOTS };
enum { MAX_BATCH = 1 << 20, MAX_THREADS = 1024 };

struct slot {
    struct ls_batch batch;  /* points into the arrays below */
    uint32_t *samples;      /* [batch_size] */
    uint16_t *labels;       /* [batch_size] */
    const uint8_t **pixels; /* [batch_size] */
    uint8_t *decoded;       /* [batch_size,c,h,w]; NULL unless samples are decoded */
    struct ls_kept outcome;
};

struct ls_loader {
    const struct ls_dataset *ds;
    struct ls_loader_options options;
    int64_t steps_per_epoch;
    int64_t epoch, step; /* of the next batch to prepare; the producer's */
    uint32_t *order;     /* [n], of epoch order_epoch; the producer's */
    int64_t order_epoch;
    size_t image_bytes, decoded_bytes;

    struct slot slots[MAX_SLOTS];
    int n_slots, lot;                 /* slots go back `lot` at a time */
    struct slot *returned[MAX_SLOTS]; /* not yet given back */
    int n_returned;
    struct slot *current; /* lent to the caller; after a failure the failed one, for good */
    struct slot *last;    /* lent before that */
    struct ls_queue *free, *ready;
    struct ls_pool *decoders; /* NULL unless samples are decoded */
    struct ls_lane **lanes;   /* [n_lanes] the producer's, which decodes too, and the other decoders' */
    int n_lanes;
    pthread_t producer;
    bool is_started;
    atomic_bool is_ending; /* hurries the producer and the decoders out */
};

/* --- the producer --- */

static void find_order(struct ls_loader *l)
{
    if (l->order_epoch == l->epoch) return;
    if (l->options.shuffle)
        ls_sampler_order(l->options.seed, l->epoch, l->ds->n, l->order);
    else if (l->order_epoch < 0)
        for (int64_t i = 0; i < l->ds->n; i++) l->order[i] = (uint32_t)i;
    l->order_epoch = l->epoch;
}

struct decode_job {
    const struct ls_loader *loader;
    struct slot *slot;
    int n, first; /* where in the batch this process begins: ranks of a machine begin apart and share the work */
};

static enum ls_status decode_one(void *arg, int item, int worker)
{
    struct decode_job *job = arg;
    const struct ls_dataset *ds = job->loader->ds;
    item = (item + job->first) % job->n;
    uint8_t *out = job->slot->decoded + (size_t)item * job->loader->image_bytes;
    job->slot->pixels[item] = out;
    if (atomic_load_explicit(&job->loader->is_ending, memory_order_relaxed)) return LS_OK;
    struct ls_lane *lane = job->loader->lanes[worker];
    struct ls_begun begun = ls__span_begin(lane, LS_SPAN_DECODE, "sample", job->slot->samples[item]);
    enum ls_status status = ls_dataset_read(ds, job->slot->samples[item], out);
    ls__span_end(lane, begun);
    return status;
}

static enum ls_status find_pixels(struct ls_loader *l, struct slot *slot, int n)
{
    const struct ls_dataset *ds = l->ds;
    int first = (int)((int64_t)n * (getpid() % 8) / 8);
    if (l->decoders) return ls__pool_run(l->decoders, n, decode_one, &(struct decode_job){l, slot, n, first});
    for (int i = 0; i < n; i++)
        slot->pixels[i] =
            ds->pixels ? ds->pixels + (size_t)slot->samples[i] * l->image_bytes : ds->impl->view(ds, slot->samples[i]);
    return LS_OK;
}

static enum ls_status fill(struct ls_loader *l, struct slot *slot)
{
    int64_t first = l->step * l->options.batch_size;
    int64_t n_left = l->ds->n - first;
    int n = n_left < l->options.batch_size ? (int)n_left : l->options.batch_size;
    find_order(l);
    memcpy(slot->samples, l->order + first, (size_t)n * sizeof *slot->samples);
    for (int i = 0; i < n; i++) slot->labels[i] = l->ds->labels[slot->samples[i]];
    slot->batch = (struct ls_batch){l->epoch, l->step, n, slot->samples, slot->labels, slot->pixels, l->options.kept};
    if (++l->step == l->steps_per_epoch) {
        l->step = 0;
        l->epoch++;
    }
    return l->options.kept ? LS_OK : find_pixels(l, slot, n);
}

static void *produce(void *arg)
{
    struct ls_loader *l = arg;
    struct slot *slot;
    while ((slot = ls__queue_take(l->free)) && !atomic_load_explicit(&l->is_ending, memory_order_relaxed)) {
        struct ls_begun begun = ls__span_begin(l->lanes[0], LS_SPAN_LOAD, "batch", l->step);
        enum ls_status status = fill(l, slot);
        ls__span_end(l->lanes[0], begun);
        slot->outcome.status = status;
        if (status != LS_OK) slot->outcome = ls__keep(status);
        bool has_failed = status != LS_OK; /* after put the slot is no longer ours */
        if (!ls__queue_put(l->ready, slot) || has_failed) break;
    }
    return NULL;
}

/* --- life --- */

static enum ls_status check(const struct ls_dataset *ds, const struct ls_loader_options *options)
{
    if (!ds || !options) return ls_fail(LS_USAGE, "a loader without data or without options");
    if (options->batch_size < 1 || options->batch_size > MAX_BATCH)
        return ls_fail(LS_USAGE, "batch size %d: expected 1 to %d", options->batch_size, MAX_BATCH);
    if (options->n_threads < 0 || options->n_threads > MAX_THREADS)
        return ls_fail(LS_USAGE, "%d loader threads: expected 1 to %d", options->n_threads, MAX_THREADS);
    if (options->first_epoch < 0 || options->first_step < 0)
        return ls_fail(LS_USAGE, "start at epoch %lld, step %lld: expected numbers from 0 up",
                       (long long)options->first_epoch, (long long)options->first_step);
    if (ds->n < 1) return ls_fail(LS_DATA, "data set %s has no samples", ds->name);
    if (ds->n > UINT32_MAX)
        return ls_fail(LS_UNSUPPORTED, "data set %s has %lld samples; at most %lld are supported", ds->name,
                       (long long)ds->n, (long long)UINT32_MAX);
    return LS_OK;
}

static enum ls_status build_slot(struct ls_loader *l, struct slot *slot)
{
    size_t n = (size_t)l->options.batch_size;
    TRY(ls__calloc(&slot->samples, n, sizeof *slot->samples));
    TRY(ls__calloc(&slot->labels, n, sizeof *slot->labels));
    TRY(ls__calloc(&slot->pixels, n, sizeof *slot->pixels));
    if (l->decoders) TRY(ls__alloc_aligned(&slot->decoded, l->decoded_bytes));
    if (!ls__queue_put(l->free, slot)) return ls_fail(LS_INTERNAL, "the loader's queue is closed");
    return LS_OK;
}

static enum ls_status build(struct ls_loader *l)
{
    const struct ls_dataset *ds = l->ds;
    enum { MOST_BY_ITSELF = 4 };
    int n_cores = ls__cpu_count(), n_threads = l->options.n_threads;
    if (n_threads == 0) n_threads = n_cores < MOST_BY_ITSELF ? n_cores : MOST_BY_ITSELF;
    if (l->options.batch_size > ds->n) l->options.batch_size = (int)ds->n;
    l->steps_per_epoch = (ds->n + l->options.batch_size - 1) / l->options.batch_size;
    l->epoch = l->options.first_epoch + l->options.first_step / l->steps_per_epoch;
    l->step = l->options.first_step % l->steps_per_epoch;
    l->order_epoch = -1;
    l->image_bytes = (size_t)ds->c * (size_t)ds->h * (size_t)ds->w;
    l->decoded_bytes = l->image_bytes * (size_t)l->options.batch_size;

    TRY(ls__calloc(&l->order, (size_t)ds->n, sizeof *l->order));
    bool is_at_hand = l->options.kept || ls_dataset_is_at_hand(ds);
    l->n_slots = is_at_hand ? POINTER_SLOTS : DECODED_SLOTS;
    l->lot = is_at_hand ? POINTER_SLOTS / 2 : 1;
    TRY(ls__queue_create(&l->free, (size_t)l->n_slots));
    TRY(ls__queue_create(&l->ready, (size_t)l->n_slots));
    if (!is_at_hand) TRY(ls__pool_create(&l->decoders, n_threads, false, NULL));
    for (int i = 0; i < l->n_slots; i++) TRY(build_slot(l, &l->slots[i]));
    l->n_lanes = is_at_hand ? 1 : n_threads;
    TRY(ls__calloc(&l->lanes, (size_t)l->n_lanes, sizeof *l->lanes));
    for (int i = 0; i < l->n_lanes; i++)
        TRY(ls__lane_take(l->options.trace, i == 0 ? "loader" : "decoder", &l->lanes[i]));

    TRY(ls__thread_start(&l->producer, "the loader's thread", produce, l));
    l->is_started = true;
    return LS_OK;
}

enum ls_status ls_loader_create(struct ls_loader **out, const struct ls_dataset *ds,
                                const struct ls_loader_options *options)
{
    *out = NULL;
    TRY(check(ds, options));
    TRY(ls__calloc(out, 1, sizeof **out));
    (*out)->ds = ds;
    (*out)->options = *options;
    enum ls_status status = build(*out);
    if (status != LS_OK) ls_loader_destroy(out);
    return status;
}

/* The slot lent last but one, and with it the others of its lot when it is full. */
static enum ls_status give_back(struct ls_loader *l)
{
    struct slot *slot = l->last;
    l->last = l->current;
    l->current = NULL;
    if (!slot) return LS_OK;
    l->returned[l->n_returned++] = slot;
    if (l->n_returned < l->lot) return LS_OK;
    while (l->n_returned > 0)
        if (!ls__queue_put(l->free, l->returned[--l->n_returned]))
            return ls_fail(LS_INTERNAL, "the loader is being destroyed");
    return LS_OK;
}

enum ls_status ls_loader_next(struct ls_loader *l, struct ls_batch *batch)
{
    if (l->current && l->current->outcome.status == LS_OK) TRY(give_back(l));
    if (!l->current) l->current = ls__queue_take(l->ready);
    if (!l->current) return ls_fail(LS_INTERNAL, "the loader is being destroyed");
    TRY(ls__fail_again(&l->current->outcome));
    *batch = l->current->batch;
    return LS_OK;
}

void ls_loader_destroy(struct ls_loader **loader)
{
    struct ls_loader *l = *loader;
    if (!l) return;
    atomic_store(&l->is_ending, true);
    if (l->free) ls__queue_close(l->free);
    if (l->ready) ls__queue_close(l->ready);
    if (l->is_started) pthread_join(l->producer, NULL);
    ls__pool_destroy(&l->decoders);
    for (int i = 0; l->lanes && i < l->n_lanes; i++) ls__lane_give_back(l->lanes[i]);
    free(l->lanes);
    ls__queue_destroy(&l->free);
    ls__queue_destroy(&l->ready);
    for (int i = 0; i < MAX_SLOTS; i++) {
        free(l->slots[i].samples);
        free(l->slots[i].labels);
        free(l->slots[i].pixels);
        ls__free_aligned(l->slots[i].decoded, l->decoded_bytes);
    }
    free(l->order);
    free(l);
    *loader = NULL;
}
