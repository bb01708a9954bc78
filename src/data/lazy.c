/* lazy.c: see lazy.h.
 *
 * Each image has a state: EMPTY -> (one thread wins) MAKING -> READY. Bytes are written between the last two and read
 * only after READY was seen with acquire order. Making cannot fail, so MAKING always ends.
 */
#include "data/lazy.h"

#include "base/mem.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <xxhash.h>

enum { EMPTY, MAKING, READY };

struct lazy {
    ls_lazy_make_fn *make;
    int64_t n_images;
    size_t image_bytes, cache_bytes;
    uint8_t *cache;       /* [n_images,c,h,w] */
    atomic_uchar *states; /* [n_images] */
};

static const uint8_t *view(const struct ls_dataset *ds, int64_t sample)
{
    const struct lazy *lazy = ds->impl->state;
    int64_t image = sample % lazy->n_images;
    uint8_t *bytes = lazy->cache + (size_t)image * lazy->image_bytes;
    atomic_uchar *state = &lazy->states[image];
    if (atomic_load_explicit(state, memory_order_acquire) == READY) return bytes;
    unsigned char expected = EMPTY;
    if (atomic_compare_exchange_strong(state, &expected, MAKING)) {
        lazy->make(ds, image, bytes);
        atomic_store_explicit(state, READY, memory_order_release);
    } else {
        while (atomic_load_explicit(state, memory_order_acquire) != READY) sched_yield();
    }
    return bytes;
}

static enum ls_status read_copy(const struct ls_dataset *ds, int64_t sample, uint8_t *out)
{
    const struct lazy *lazy = ds->impl->state;
    memcpy(out, view(ds, sample), lazy->image_bytes);
    return LS_OK;
}

static void close_lazy(struct ls_dataset *ds)
{
    struct lazy *lazy = ds->impl->state;
    if (!lazy) return;
    ls__free_aligned(lazy->cache, lazy->cache_bytes);
    free(lazy->states);
    free(lazy);
    ds->impl->state = NULL;
}

enum ls_status ls__lazy_open(struct ls_dataset *ds, int64_t n_images, ls_lazy_make_fn *make)
{
    struct lazy *lazy;
    TRY(ls__calloc(&lazy, 1, sizeof *lazy));
    ds->impl->state = lazy;
    ds->impl->read = read_copy;
    ds->impl->view = view;
    ds->impl->close = close_lazy;
    lazy->make = make;
    lazy->n_images = n_images;
    lazy->image_bytes = (size_t)ds->c * (size_t)ds->h * (size_t)ds->w;
    lazy->cache_bytes = lazy->image_bytes * (size_t)n_images;
    TRY(ls__alloc_aligned(&lazy->cache, lazy->cache_bytes));
    TRY(ls__calloc(&lazy->states, (size_t)n_images, sizeof *lazy->states));
#ifdef MADV_NOHUGEPAGE
    /* The first batch is scattered all over the cache: with huge pages it would clear nearly all of it. */
    uintptr_t first_page = ((uintptr_t)lazy->cache + 4095) & ~(uintptr_t)4095;
    uintptr_t end = (uintptr_t)lazy->cache + lazy->cache_bytes;
    if (end > first_page + (1 << 21)) madvise((void *)first_page, end - first_page, MADV_NOHUGEPAGE); /* a wish */
#endif
    return LS_OK;
}

void ls__lazy_checksum(struct ls_dataset *ds, const char *generator)
{
    char text[256];
    int n = snprintf(text, sizeof text, "%s/%s", generator, ds->split == LS_TRAIN ? "train" : "test");
    XXH128_hash_t hash = XXH3_128bits(text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
    snprintf(ds->checksum, sizeof ds->checksum, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
}
