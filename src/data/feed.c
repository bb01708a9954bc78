/* feed.c: see feed.h. The order of one epoch is kept; sets that are not at hand are read by who needs the samples. */
#include "data/feed.h"

#include "base/mem.h"
#include "data/format.h"

#include <stdlib.h>
#include <string.h>

struct ls_feed {
    const struct ls_dataset *ds;
    int64_t steps_per_epoch;
    int batch_size;
    uint64_t seed;
    int64_t order_epoch; /* -1: none yet */
    uint32_t *order;     /* [n] of that epoch */
    uint32_t *samples;   /* [batch_size] of the present batch, as the next two */
    uint16_t *labels;
    const uint8_t **pixels;
    int n;
    uint8_t *decoded; /* [batch_size,c,h,w]; NULL where all bytes are at hand */
    size_t image_bytes;
};

static enum ls_status build(struct ls_feed *f)
{
    const size_t n = (size_t)f->batch_size;
    f->image_bytes = (size_t)f->ds->c * (size_t)f->ds->h * (size_t)f->ds->w;
    TRY(ls__calloc(&f->order, (size_t)f->ds->n, sizeof *f->order));
    TRY(ls__calloc(&f->samples, n, sizeof *f->samples));
    TRY(ls__calloc(&f->labels, n, sizeof *f->labels));
    TRY(ls__calloc(&f->pixels, n, sizeof *f->pixels));
    return ls_dataset_is_at_hand(f->ds) ? LS_OK : ls__alloc_aligned(&f->decoded, n * f->image_bytes);
}

enum ls_status ls_feed_create(struct ls_feed **out, const struct ls_dataset *ds, int batch_size, uint64_t seed)
{
    *out = NULL;
    if (ds->n < 1 || ds->n > UINT32_MAX || batch_size < 1)
        return ls_fail(LS_DATA, "data set %s has %lld samples, for batches of %d", ds->name, (long long)ds->n,
                       batch_size);
    TRY(ls__calloc(out, 1, sizeof **out));
    struct ls_feed *f = *out;
    f->ds = ds;
    f->batch_size = batch_size < ds->n ? batch_size : (int)ds->n;
    f->steps_per_epoch = (ds->n + f->batch_size - 1) / f->batch_size;
    f->seed = seed;
    f->order_epoch = -1;
    enum ls_status status = build(f);
    if (status != LS_OK) ls_feed_destroy(out);
    return status;
}

void ls_feed_destroy(struct ls_feed **feed)
{
    struct ls_feed *f = *feed;
    if (!f) return;
    if (f->decoded) ls__free_aligned(f->decoded, (size_t)f->batch_size * f->image_bytes);
    free(f->order);
    free(f->samples);
    free(f->labels);
    free(f->pixels);
    free(f);
    *feed = NULL;
}

enum ls_status ls_feed_batch(struct ls_feed *f, int64_t epoch, int64_t step, struct ls_batch *batch)
{
    if (epoch < 0 || step < 0 || step >= f->steps_per_epoch)
        return ls_fail(LS_DATA, "batch %lld of epoch %lld: an epoch of %s has %lld", (long long)step, (long long)epoch,
                       f->ds->name, (long long)f->steps_per_epoch);
    if (f->order_epoch != epoch) ls_sampler_order(f->seed, epoch, f->ds->n, f->order);
    f->order_epoch = epoch;
    const int64_t first = step * f->batch_size, left = f->ds->n - first;
    f->n = left < f->batch_size ? (int)left : f->batch_size;
    memcpy(f->samples, f->order + first, (size_t)f->n * sizeof *f->samples);
    for (int i = 0; i < f->n; i++) f->labels[i] = f->ds->labels[f->samples[i]];
    *batch = (struct ls_batch){epoch, step, f->n, f->samples, f->labels, f->pixels, NULL};
    return LS_OK;
}

static const uint8_t *at_hand(const struct ls_feed *f, uint32_t sample)
{
    return f->ds->pixels ? f->ds->pixels + (size_t)sample * f->image_bytes : f->ds->impl->view(f->ds, sample);
}

enum ls_status ls_feed_read(struct ls_feed *f, int first, int n)
{
    if (first < 0 || n < 0 || n > f->n - first)
        return ls_fail(LS_INTERNAL, "samples %d to %d of a batch of %d", first, first + n, f->n);
    for (int i = first; i < first + n; i++) {
        uint8_t *own = f->decoded ? f->decoded + (size_t)i * f->image_bytes : NULL;
        if (own) TRY(ls_dataset_read(f->ds, f->samples[i], own));
        f->pixels[i] = own ? own : at_hand(f, f->samples[i]);
    }
    return LS_OK;
}
