/* parsers.h: the readers of files at the level of one stream, for the formats themselves, the unit tests and the
 * fuzzers.
 *
 * All take hostile bytes: every size is checked against what the stream can still give before it is used.
 */
#ifndef LS_DATA_FORMATS_PARSERS_H
#define LS_DATA_FORMATS_PARSERS_H

#include "data/format.h"
#include "data/stream.h"

/* IDX. The stream may be gzip or plain: recognised by its first two bytes. Both halves of a split are read into ds,
 * labels first: they fix ds->n and allocate the set; the images must then agree. */
enum ls_status ls__idx_read_labels(struct ls_dataset *ds, struct ls_stream *s, const struct ls_expect *e) LS_MUST_CHECK;
enum ls_status ls__idx_read_images(struct ls_dataset *ds, struct ls_stream *s, const struct ls_expect *e) LS_MUST_CHECK;

/* CIFAR-10 binary: how many records a stream of this size holds, then the records into samples [first, first + n). */
enum ls_status ls__cifar_count(const struct ls_stream *s, const struct ls_expect *e, int64_t *n) LS_MUST_CHECK;
enum ls_status ls__cifar_read(struct ls_dataset *ds, int64_t first, int64_t n, struct ls_stream *s,
                              const struct ls_expect *e) LS_MUST_CHECK;

/* SVHN's MAT-5: how many samples the first variable declares, then the whole file into samples [first, first + n). */
enum ls_status ls__mat5_count(struct ls_stream *s, const struct ls_expect *e, int64_t *n) LS_MUST_CHECK;
enum ls_status ls__mat5_read(struct ls_dataset *ds, int64_t first, int64_t n, struct ls_stream *s,
                             const struct ls_expect *e) LS_MUST_CHECK;

/* PNG or JPEG, decoded, resized so that the shorter side fits, cut to the centre: out is [3,h,w]. name is for messages.
 */
enum ls_status ls__image_decode(const char *name, const uint8_t *data, size_t len, int h, int w,
                                uint8_t *out) LS_MUST_CHECK;

/* The decoders behind it (image_real.c, image_stub.c): RGB rows of any size, at least as large as (min_h, min_w) where
 * the image is. free() rgb. */
struct ls_image {
    int h, w;
    uint8_t *rgb;       /* [h,w,3] */
    int file_h, file_w; /* as the file has it */
    bool is_grey;       /* it has no colours */
};
enum ls_status ls__image_load(const char *name, const uint8_t *data, size_t len, int min_h, int min_w,
                              struct ls_image *image) LS_MUST_CHECK;

#endif
