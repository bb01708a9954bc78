/* data.h: labelled images, wherever they come from.
 *
 * A data set is opened by a spec (`mnist`, `fake:3x32x32:10:5000`, `folder:PATH`, ...) and a split, and is then a list
 * of n samples: c x h x w bytes (channel by channel, row by row) and a label in [0, n_classes). Everything else (MAT
 * files, gzip, JPEG) ends inside src/data. Sets that fit are held or mapped as bytes; folders are decoded when read.
 *
 * Every byte count a file claims is checked against the file's size before anything is allocated; a bad file is LS_DATA
 * with the file's name, what was expected and, where it helps, the offset. Failures of the search (no such set, not
 * downloaded) are LS_DATA too and say which folders were searched and which command gets the set.
 */
#ifndef LS_DATA_H
#define LS_DATA_H

#include "base/status.h"
#include "lockstep/control.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ls_split { LS_TRAIN, LS_TEST };

struct ls_dataset {
    char name[128]; /* the spec it was opened by */
    enum ls_split split;
    int c, h, w, n_classes;
    int64_t n;
    float mean[3], std[3]; /* per channel, of pixels scaled to [0,1]; used when normalising */
    char checksum[33]; /* XXH3-128 of all pixels and labels, in hex; for `folder:` of names, labels and files' bytes */

    /* All samples as bytes, n * c*h*w; NULL if samples are decoded on reading. */
    const uint8_t *pixels;  /* [n,c,h,w] */
    const uint16_t *labels; /* [n] */

    const char *class_names; /* one per line; NULL: none are known */

    struct ls_dataset_impl *impl; /* the format's own */
};

/* What ls_data_open may need to know; all may be 0 or NULL. */
struct ls_data_options {
    const char *data_dir;             /* searched first */
    int resize_h, resize_w;           /* 0: the format's own size (folders: 224) */
    const struct ls_control *control; /* (optional) asked now and then while a large folder is read: stop is LS_ERROR */
};

enum ls_status ls_data_open(struct ls_dataset **out, const char *spec, enum ls_split split,
                            const struct ls_data_options *options) LS_MUST_CHECK;
/* The same out of the caller's memory (lockstep/data.h); the name is for people. */
struct ls_images;
enum ls_status ls__data_from_images(struct ls_dataset **out, const char *name, enum ls_split split,
                                    const struct ls_images *images,
                                    const struct ls_data_options *options) LS_MUST_CHECK;
void ls_dataset_close(struct ls_dataset **ds);

/* Two sets over one, which must outlive them: n samples held out by seed, and the rest. */
enum ls_status ls__dataset_hold_out(const struct ls_dataset *whole, int64_t n, uint64_t seed, struct ls_dataset **rest,
                                    struct ls_dataset **held) LS_MUST_CHECK;
/* Pictures PATH/CLASS/FILE in the size and with the classes of another set, by their names where it has names. */
enum ls_status ls__data_open_like(struct ls_dataset **out, const char *path, const struct ls_dataset *like,
                                  const struct ls_data_options *options) LS_MUST_CHECK;
/* Whether all samples can be read quickly: they lie in memory, or are made by a formula. */
bool ls_dataset_is_at_hand(const struct ls_dataset *ds);

/* One sample's bytes into out [c,h,w]. Thread-safe. For sets with `pixels` it is a memcpy. */
enum ls_status ls_dataset_read(const struct ls_dataset *ds, int64_t sample, uint8_t *out) LS_MUST_CHECK;

/* The file a sample is in, where each has one ("cat/001.png" of a folder); NULL otherwise. The set's. */
const char *ls_dataset_file(const struct ls_dataset *ds, int64_t sample);

/* The order of an epoch: a permutation of [0,n) that depends on (seed, epoch, n) alone. order has room for n. */
void ls_sampler_order(uint64_t seed, int64_t epoch, int64_t n, uint32_t *order);

/* One global batch. All arrays belong to the loader and stay valid until the next ls_loader_next but one: the batch of
 * the next step may be asked for while this one is still computed. */
struct ls_batch {
    int64_t epoch, step;          /* step within the epoch, from 0 */
    int n;                        /* samples; the last batch of an epoch may be smaller than the others */
    const uint32_t *samples;      /* [n] sample numbers */
    const uint16_t *labels;       /* [n] */
    const uint8_t *const *pixels; /* [n] -> [c,h,w] bytes; with kept they are not set */
    const uint8_t *kept;          /* the loader's option */
};

/* Prepares batches ahead in a background thread behind a bounded queue (for sets held as bytes there is nothing to
 * decode and it only gathers pointers; for folders `n_threads` threads decode). Starts at (epoch, step). */
struct ls_loader;
struct ls_trace;
struct ls_loader_options {
    int batch_size;
    uint64_t seed;
    int64_t first_epoch, first_step;
    bool shuffle;
    int n_threads;          /* decoders, for folders; 0: one per core, at most 4 */
    const uint8_t *kept;    /* (optional) where a device has the whole set: nobody needs the bytes here */
    struct ls_trace *trace; /* (optional) where its threads' time goes; outlives it */
};
enum ls_status ls_loader_create(struct ls_loader **out, const struct ls_dataset *ds,
                                const struct ls_loader_options *options) LS_MUST_CHECK;
/* The next batch, epoch after epoch without end. */
enum ls_status ls_loader_next(struct ls_loader *loader, struct ls_batch *batch) LS_MUST_CHECK;
void ls_loader_destroy(struct ls_loader **loader);

#ifdef __cplusplus
}
#endif

#endif
