/* checkpoint.h: everything a run needs to go on, in one safetensors file.
 *
 * docs/formats/checkpoint.md has the format. In short: weights and running statistics under PyTorch's names,
 * optimizer state as "optimizer.<state>.<name>", and string metadata: what the loop needs (step, epoch, position, seed,
 * ...) and a checksum over the whole file. Written atomically; a file either verifies completely or is refused with
 * LS_CHECKPOINT. Loading allocates nothing beyond the file's size plus a small bound for the header.
 */
#ifndef LS_CHECKPOINT_H
#define LS_CHECKPOINT_H

#include "base/status.h"
#include "tensor/tensor.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A named tensor in plain layout. */
struct ls_ckpt_tensor {
    const char *name;
    enum ls_dtype dtype; /* read: any; written: LS_F32, LS_I64, LS_I32 or LS_U8 */
    struct ls_shape shape;
    const void *data;
};

struct ls_ckpt_meta {
    const char *key, *value;
};

/* Writes path atomically. Names must be unique. LS_CHECKPOINT on failure. */
enum ls_status ls_ckpt_write(const char *path, const struct ls_ckpt_tensor *tensors, int n_tensors,
                             const struct ls_ckpt_meta *meta, int n_meta) LS_MUST_CHECK;

/* An open, verified checkpoint: the file mapped read-only, header parsed, checksum checked (files without our checksum,
 * from elsewhere, are accepted when everything else holds: *has_checksum says which). */
struct ls_ckpt;
enum ls_status ls_ckpt_open(struct ls_ckpt **out, const char *path) LS_MUST_CHECK;
/* The same from memory that outlives the object, for tests and fuzzing. */
enum ls_status ls_ckpt_parse(struct ls_ckpt **out, const char *origin, const void *data, size_t len) LS_MUST_CHECK;
void ls_ckpt_close(struct ls_ckpt **ckpt);

bool ls_ckpt_has_checksum(const struct ls_ckpt *ckpt);
int ls_ckpt_n_tensors(const struct ls_ckpt *ckpt);
const struct ls_ckpt_tensor *ls_ckpt_tensor_at(const struct ls_ckpt *ckpt, int index);   /* in file order */
const struct ls_ckpt_tensor *ls_ckpt_find(const struct ls_ckpt *ckpt, const char *name); /* NULL if absent */
const char *ls_ckpt_meta(const struct ls_ckpt *ckpt, const char *key);                   /* NULL if absent */
int ls_ckpt_n_meta(const struct ls_ckpt *ckpt);
struct ls_ckpt_meta ls_ckpt_meta_at(const struct ls_ckpt *ckpt, int index);

/* --- a folder of them: step-00000468.safetensors, with links best.safetensors and latest.safetensors --- */

/* The writer owns a background thread. ls_ckpt_writer_submit copies everything it is given (the snapshot) and returns;
 * it blocks only while an earlier checkpoint is still being written. After a write it removes what is neither among the
 * last `keep` nor the best. A failed write is reported by the next submit or finish (LS_CHECKPOINT), once. */
struct ls_ckpt_writer;
enum ls_status ls_ckpt_writer_create(struct ls_ckpt_writer **out, const char *folder, int keep) LS_MUST_CHECK;
enum ls_status ls_ckpt_writer_submit(struct ls_ckpt_writer *w, int64_t step, bool is_best,
                                     const struct ls_ckpt_tensor *tensors, int n_tensors,
                                     const struct ls_ckpt_meta *meta, int n_meta) LS_MUST_CHECK;
enum ls_status ls_ckpt_writer_finish(struct ls_ckpt_writer *w) LS_MUST_CHECK; /* waits until all is on disk */
void ls_ckpt_writer_destroy(struct ls_ckpt_writer **w);                       /* waits too */

/* Opens the newest checkpoint of a folder that verifies, warning (log) about each newer one that is skipped and why.
 * *path (LS_PATH_BYTES) gets its name. LS_CHECKPOINT if there is none; *n_seen says how many files were looked at. */
enum ls_status ls_ckpt_open_newest(struct ls_ckpt **out, const char *folder, char *path, int *n_seen) LS_MUST_CHECK;
/* What a network is used from: a run directory's best checkpoint, else its newest; a file is itself. *path as above. */
enum ls_status ls_ckpt_open_best(struct ls_ckpt **out, const char *what, char *path) LS_MUST_CHECK;
/* The newest of those before `step`. */
enum ls_status ls_ckpt_open_before(struct ls_ckpt **out, const char *folder, int64_t step, char *path,
                                   int *n_seen) LS_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
