/* safetensors_read.h: a file that is being read, for the two files that read it: safetensors_read.c the header, the
 * metadata, the checksum and the object; safetensors_tensors.c the tensors. Internal to src/checkpoint.
 */
#ifndef LS_CHECKPOINT_SAFETENSORS_READ_H
#define LS_CHECKPOINT_SAFETENSORS_READ_H

#include "checkpoint/internal.h"

#include <jansson.h>

struct ls_ckpt {
    struct ls_map map;              /* {0} when parsed from the caller's memory */
    json_t *root;                   /* owns all names, keys and values */
    struct ls_ckpt_tensor *tensors; /* [n_tensors] by offset */
    struct ls_ckpt_meta *meta;      /* [n_meta] in header order */
    int n_tensors, n_meta;
    bool has_checksum;
    void *copies; /* of the tensors that lie misaligned in the file */
    size_t copies_bytes;
};

/* The file, taken apart. */
struct ls_ckpt_view {
    const char *origin;
    const uint8_t *file;
    size_t file_len;
    const char *header;
    size_t header_len;
    const uint8_t *buffer;
    size_t buffer_len;
};

/* Every tensor of the header, checked; the ranges cover the buffer exactly. */
enum ls_status ls__ckpt_read_tensors(struct ls_ckpt *c, const struct ls_ckpt_view *v) LS_MUST_CHECK;

#endif
