/* internal.h: what the files of the checkpoint module share: the fixed points of the format and the names in a folder.
 *
 * Where things lie in a file of ours (docs/formats/checkpoint.md):
 *
 *     0        8                                         46                             78           8+N, multiple of
 * 64 | N (LE) | {"__metadata__":{"lockstep.checksum":"  | 32 hex digits (the checksum) | ","lockst.. | tensors back to
 * back |
 *
 * The checksum therefore always lies at the same place, and hashing needs no search: see checksum.c.
 */
#ifndef LS_CHECKPOINT_INTERNAL_H
#define LS_CHECKPOINT_INTERNAL_H

#include "base/file.h"
#include "lockstep/checkpoint.h"

#define LS_CKPT_METADATA "__metadata__"
#define LS_CKPT_CHECKSUM_KEY "lockstep.checksum"
#define LS_CKPT_FORMAT_KEY "lockstep.format"
#define LS_CKPT_FORMAT "1"
#define LS_CKPT_OPENING "{\"" LS_CKPT_METADATA "\":{\"" LS_CKPT_CHECKSUM_KEY "\":\""

enum {
    LS_CKPT_LENGTH_BYTES = 8,
    LS_CKPT_CHECKSUM_AT = LS_CKPT_LENGTH_BYTES + (int)sizeof LS_CKPT_OPENING - 1,
    LS_CKPT_CHECKSUM_DIGITS = 32,
    LS_CKPT_DATA_ALIGN = 64,
    /* Bounds on a header, far above any network's, so that parsing one never costs more than about 30 MiB. */
    LS_CKPT_MAX_HEADER_BYTES = 2 << 20,
    LS_CKPT_MAX_TENSORS = 8192,
    LS_CKPT_MAX_TOKENS = 1 << 17,
};

/* Hex digits of XXH3-128 over all pieces, the 32 bytes at LS_CKPT_CHECKSUM_AT taken as '0'. Those lie in pieces[0]. */
enum ls_status ls__ckpt_checksum(const struct ls_piece *pieces, size_t n_pieces,
                                 char hex[LS_CKPT_CHECKSUM_DIGITS + 1]) LS_MUST_CHECK;

const char *ls__ckpt_dtype_name(enum ls_dtype dtype); /* "F32", as the file says it */
/* Storage of a tensor that a caller gave us; LS_CHECKPOINT if its shape, type or data pointer make no sense. */
enum ls_status ls__ckpt_tensor_bytes(const struct ls_ckpt_tensor *t, size_t *bytes) LS_MUST_CHECK;

/* A text from a file made fit for one line of a message: control characters become '?', long ones are cut. */
enum { LS_CKPT_SHOWN = 80 };
const char *ls__ckpt_shown(const char *text, char out[LS_CKPT_SHOWN]);

/* --- names in a folder --- */
enum { LS_CKPT_NAME_BYTES = 48 };
const char *ls__ckpt_step_name(int64_t step, char out[LS_CKPT_NAME_BYTES]); /* "step-00000468.safetensors" */
bool ls__ckpt_name_is_step(const char *name, int64_t *step);                /* exactly what step_name makes */
/* All steps of a folder, ascending, in *steps (free() it). */
enum ls_status ls__ckpt_list(const char *folder, int64_t **steps, int *n_steps) LS_MUST_CHECK;
/* Replaces link (in folder) by a relative symbolic link to name; atomic, not yet durable. *is_missing instead of a
 * failure on file systems that have no links. */
enum ls_status ls__ckpt_link(const char *folder, const char *link, const char *name, bool *is_missing) LS_MUST_CHECK;
bool ls__ckpt_read_link(const char *folder, const char *link, int64_t *step);
/* Removes temporaries that a dead process left; the caller holds the folder's lock. */
void ls__ckpt_remove_stale(const char *folder);
enum ls_status ls__ckpt_fsync_folder(const char *folder) LS_MUST_CHECK;

#endif
