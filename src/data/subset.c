/* subset.c: a data set cut in two: samples held out to judge by, and the rest to train on.
 *
 * In: a set, how many to hold out, a seed. Out: two sets over it, each in the order of the whole. Which samples are
 * held out depends on (seed, n) alone: they are the first of a shuffle of their own, drawn as an epoch's order is.
 */
#include "base/mem.h"
#include "base/rng.h"
#include "data/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct subset {
    const struct ls_dataset *of;
    uint32_t *sample; /* [n] of the whole, rising */
};

static enum ls_status subset_read(const struct ls_dataset *ds, int64_t sample, uint8_t *out)
{
    const struct subset *s = ds->impl->state;
    return ls_dataset_read(s->of, s->sample[sample], out);
}

static const uint8_t *subset_view(const struct ls_dataset *ds, int64_t sample)
{
    const struct subset *s = ds->impl->state;
    size_t bytes = (size_t)ds->c * (size_t)ds->h * (size_t)ds->w;
    return s->of->pixels ? s->of->pixels + s->sample[sample] * bytes : s->of->impl->view(s->of, s->sample[sample]);
}

static void subset_close(struct ls_dataset *ds)
{
    struct subset *s = ds->impl->state;
    if (s) free(s->sample);
    free(s);
}

static void checksum(struct ls_dataset *ds, const struct subset *s)
{
    XXH3_state_t *state = XXH3_createState();
    if (!state) return;
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, s->of->checksum, sizeof s->of->checksum);
    XXH3_128bits_update(state, s->sample, (size_t)ds->n * sizeof *s->sample);
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    snprintf(ds->checksum, sizeof ds->checksum, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
}

/* The samples whose mark is `mark`, n of them. */
static enum ls_status build(struct ls_dataset *ds, const struct ls_dataset *whole, const bool *marks, bool mark,
                            int64_t n)
{
    struct subset *s;
    *ds = *whole;
    ds->n = n;
    ds->pixels = NULL;
    ds->labels = NULL;
    ds->impl = NULL;
    TRY(ls__calloc(&ds->impl, 1, sizeof *ds->impl));
    TRY(ls__calloc(&s, 1, sizeof *s));
    ds->impl->state = s;
    ds->impl->close = subset_close;
    ds->impl->read = subset_read;
    if (whole->pixels || whole->impl->view) ds->impl->view = subset_view;
    s->of = whole;
    TRY(ls__calloc(&s->sample, (size_t)n, sizeof *s->sample));
    TRY(ls__dataset_alloc_labels(ds));
    int64_t at = 0;
    for (int64_t i = 0; i < whole->n; i++) {
        if (marks[i] != mark) continue;
        ds->impl->labels[at] = whole->labels[i];
        s->sample[at++] = (uint32_t)i;
    }
    checksum(ds, s);
    return LS_OK;
}

static enum ls_status create(struct ls_dataset **out, const struct ls_dataset *whole, const bool *marks, bool mark,
                             int64_t n)
{
    TRY(ls__calloc(out, 1, sizeof **out));
    enum ls_status status = build(*out, whole, marks, mark, n);
    if (status != LS_OK) ls_dataset_close(out);
    return status;
}

/* Marks n of the samples. */
static enum ls_status draw(int64_t n_all, int64_t n, uint64_t seed, bool *marks)
{
    uint32_t *order;
    TRY(ls__calloc(&order, (size_t)n_all, sizeof *order));
    for (int64_t i = 0; i < n_all; i++) order[i] = (uint32_t)i;
    for (int64_t i = 0; i < n; i++) { /* the beginning of a shuffle */
        struct ls_rng4 r = ls__rng(seed, LS_RNG_HOLD_OUT, 0, (uint32_t)(i / 4), 0);
        int64_t j = i + ls__rng_below(r.v[i % 4], (uint64_t)(n_all - i));
        uint32_t drawn = order[j];
        order[j] = order[i];
        marks[drawn] = true;
    }
    free(order);
    return LS_OK;
}

enum ls_status ls__dataset_hold_out(const struct ls_dataset *whole, int64_t n, uint64_t seed, struct ls_dataset **rest,
                                    struct ls_dataset **held)
{
    bool *marks;
    *rest = *held = NULL;
    if (n < 1 || n >= whole->n)
        return ls_fail(LS_USAGE, "%s: %lld of %lld images cannot be held out; expected 1 to %lld", whole->name,
                       (long long)n, (long long)whole->n, (long long)whole->n - 1);
    TRY(ls__calloc(&marks, (size_t)whole->n, sizeof *marks));
    enum ls_status status = draw(whole->n, n, seed, marks);
    if (status == LS_OK) status = create(rest, whole, marks, false, whole->n - n);
    if (status == LS_OK) status = create(held, whole, marks, true, n);
    if (status != LS_OK) ls_dataset_close(rest);
    free(marks);
    return status;
}
