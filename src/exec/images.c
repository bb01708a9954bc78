/* images.c: a copy of a data set's bytes in the device's memory, made once. Then only sample numbers travel. */
#include "base/mem.h"
#include "exec/exec_internal.h"

#include <stdlib.h>

/* Sets beyond these stay where they are: the first leaves room for networks on any card, the second is what is made
 * within a second where samples are not there as bytes yet. */
static const size_t most_bytes = (size_t)16 << 30, most_made = (size_t)512 << 20, piece_bytes = (size_t)32 << 20;

/* LOCKSTEP_KEEP_MIB: another limit for both; 0: nothing is kept. */
static size_t limit_of(const struct ls_dataset *ds)
{
    const char *mib = getenv("LOCKSTEP_KEEP_MIB");
    if (mib) return (size_t)strtoull(mib, NULL, 10) << 20;
    return ds->pixels ? most_bytes : most_made;
}

/* Samples [first, first + n) by way of the host's memory. */
static enum ls_status send_piece(struct ls_exec *e, const struct ls_dataset *ds, size_t image, int64_t first, int64_t n,
                                 uint8_t *piece, uint8_t *to)
{
    for (int64_t i = 0; i < n; i++) TRY(ls_dataset_read(ds, first + i, piece + (size_t)i * image));
    return ls__memory_write(e, to + (size_t)first * image, (size_t)n * image, piece);
}

static enum ls_status send(struct ls_exec *e, const struct ls_dataset *ds, size_t image, uint8_t *to)
{
    const int64_t per_piece = (int64_t)(piece_bytes / image) + 1;
    uint8_t *piece;
    if (ds->pixels) return ls__memory_write(e, to, (size_t)ds->n * image, ds->pixels);
    TRY(ls__alloc_aligned(&piece, (size_t)per_piece * image));
    enum ls_status status = LS_OK;
    for (int64_t i = 0; i < ds->n && status == LS_OK; i += per_piece)
        status = send_piece(e, ds, image, i, ds->n - i < per_piece ? ds->n - i : per_piece, piece, to);
    ls__free_aligned(piece, (size_t)per_piece * image);
    return status;
}

enum ls_status ls_exec_keep_images(struct ls_exec *e, const struct ls_dataset *ds, const uint8_t **kept)
{
    const size_t image = (size_t)ds->c * (size_t)ds->h * (size_t)ds->w, bytes = (size_t)ds->n * image;
    struct kept_images *k = &e->kept[e->n_kept];
    *kept = NULL;
    if (!e->backend->can_keep_images || !ls_dataset_is_at_hand(ds) || e->n_kept == MAX_KEPT) return LS_OK;
    if (bytes > limit_of(ds)) return LS_OK;
    enum ls_status status = ls__memory_alloc(e, bytes, &k->data);
    if (status == LS_NOMEM) return LS_OK; /* then they are sent batch by batch */
    TRY(status);
    k->bytes = bytes;
    e->n_kept++;
    TRY(send(e, ds, image, k->data));
    *kept = k->data;
    return LS_OK;
}

void ls__images_free(struct ls_exec *e)
{
    for (int i = 0; i < e->n_kept; i++) ls__memory_free(e, e->kept[i].data, e->kept[i].bytes);
    e->n_kept = 0;
}
