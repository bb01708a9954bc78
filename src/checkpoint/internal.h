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

#include "base/dir.h"
#include "checkpoint/checkpoint.h"

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

/* hex.c: a metadata value may be any bytes, a path for one. JSON takes UTF-8 only: other values, and those that begin
 * with "hex:", are written as "hex:" and two digits per byte. free() what is made. */
bool ls__ckpt_needs_hex(const char *value); /* begins with "hex:" */
enum ls_status ls__ckpt_to_hex(const char *value, char **hex) LS_MUST_CHECK;
enum ls_status ls__ckpt_from_hex(const char *value, char **bytes) LS_MUST_CHECK; /* NULL if it is no such text */

/* What ls_ckpt_write does, into a folder held open; with is_trial everything but the data, which may be NULL: the
 * header is made and a file of the full size is tried. */
enum ls_status ls__ckpt_write_in(const struct ls_dir *folder, const char *name, const struct ls_ckpt_tensor *tensors,
                                 int n_tensors, const struct ls_ckpt_meta *meta, int n_meta,
                                 bool is_trial) LS_MUST_CHECK;

/* A text from a file made fit for one line of a message: control characters become '?', long ones are cut. */
enum { LS_CKPT_SHOWN = 80 };
const char *ls__ckpt_shown(const char *text, char out[LS_CKPT_SHOWN]);

/* --- names in a folder --- */
enum { LS_CKPT_NAME_BYTES = 48 };
const char *ls__ckpt_step_name(int64_t step, char out[LS_CKPT_NAME_BYTES]); /* "step-00000468.safetensors" */
bool ls__ckpt_name_is_step(const char *name, int64_t *step);                /* exactly what step_name makes */
/* All steps of a folder, ascending, in *steps (free() it). */
enum ls_status ls__ckpt_list(const struct ls_dir *folder, int64_t **steps, int *n_steps) LS_MUST_CHECK;
/* Replaces link (in folder) by a relative symbolic link to name; atomic, not yet durable. *is_missing instead of a
 * failure on file systems that have no links. */
enum ls_status ls__ckpt_link(const struct ls_dir *folder, const char *link, const char *name,
                             bool *is_missing) LS_MUST_CHECK;
bool ls__ckpt_read_link(const struct ls_dir *folder, const char *link, int64_t *step);
/* Removes temporaries that a dead process left; the caller holds the folder's lock. */
void ls__ckpt_remove_stale(const struct ls_dir *folder);

#endif
