/* format.h: what a format implements, and what all formats share. Internal to src/data.
 *
 * A format is one entry of the const table in data.c. ls_data_open makes the zeroed data set with name, split and impl,
 * looks the spec up and calls `open`, which fills the rest:
 *
 *   1. set c, h, w, n_classes, n, and mean and std (preset to 0.5 and 0.25);
 *   2. TRY(ls__dataset_alloc(ds)), then write ds->impl->pixels and ds->impl->labels;
 *      (a format that decodes on reading allocates labels only and sets impl->read, impl->close and impl->state);
 *   3. nothing else: data.c computes the checksum afterwards unless the format has set one.
 *
 * On failure `open` just returns; data.c calls ls_dataset_close, which takes half-built sets.
 *
 * To add a format: one file in formats/, one prototype here, one line in data.c's table, one test.
 */
#ifndef LS_DATA_FORMAT_H
#define LS_DATA_FORMAT_H

#include "data/data.h"

#include <stddef.h>

struct ls_set;
struct ls_stream;

struct ls_dataset_impl {
    uint8_t *pixels;  /* [n,c,h,w], from ls__alloc_aligned; NULL if decoded on reading */
    uint16_t *labels; /* [n], from ls__alloc_aligned */
    size_t pixels_bytes, labels_bytes;
    char *class_names; /* from malloc; NULL: none */

    enum ls_status (*read)(const struct ls_dataset *ds, int64_t sample, uint8_t *out); /* (optional, default memcpy) */
    /* (optional) Where a sample's bytes stay until close; made when first asked for. Thread-safe, cannot fail. */
    const uint8_t *(*view)(const struct ls_dataset *ds, int64_t sample);
    /* (optional, default: none) The file a sample is in, below the set's folder. */
    const char *(*file)(const struct ls_dataset *ds, int64_t sample);
    void (*close)(struct ls_dataset *ds); /* (optional) frees state; state may be half-built or NULL */
    void *state;
};

#define LS_DIGIT_NAMES "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n"

/* The most one data set may hold in memory: 64 GiB. Keeps every product of sizes far from overflow. */
#define LS_DATA_MAX_BYTES ((int64_t)1 << 36)

/* Allocates impl->pixels (n*c*h*w bytes) and impl->labels (n numbers, unless there already), zeroed, and points
 * ds->pixels and ds->labels at them. The product is checked for overflow and against LS_DATA_MAX_BYTES. */
enum ls_status ls__dataset_alloc(struct ls_dataset *ds) LS_MUST_CHECK;
enum ls_status ls__dataset_alloc_labels(struct ls_dataset *ds) LS_MUST_CHECK;

void ls__dataset_checksum(struct ls_dataset *ds); /* XXH3-128 over pixels, then labels, in hex */

/* In the size that the options ask for. */
enum ls_status ls__dataset_show_resized(struct ls_dataset **ds, const struct ls_data_options *options) LS_MUST_CHECK;

void ls__dataset_set_mean_std(struct ls_dataset *ds, const float mean[3], const float std[3]);

/* What a file must be, from the catalogue. */
struct ls_expect {
    int c, h, w, n_classes;
    int64_t max_n; /* a file with more samples than this is refused */
};

/* The formats. ds->split is set; arg is what follows the colon of the spec. */
enum ls_status ls__digits_open(struct ls_dataset *ds, bool is_rgb) LS_MUST_CHECK;
enum ls_status ls__fake_open(struct ls_dataset *ds, const char *arg) LS_MUST_CHECK; /* "3x32x32:10:5000" */
enum ls_status ls__folder_open(struct ls_dataset *ds, const char *path,
                               const struct ls_data_options *options) LS_MUST_CHECK;

/* Readers of the catalogue's sets: paths[i] is where the set's i-th file of this split was found. */
enum ls_status ls__idx_open(struct ls_dataset *ds, const struct ls_set *set, const char *const *paths,
                            int n_paths) LS_MUST_CHECK;
enum ls_status ls__cifar_open(struct ls_dataset *ds, const struct ls_set *set, const char *const *paths,
                              int n_paths) LS_MUST_CHECK;
enum ls_status ls__mat5_open(struct ls_dataset *ds, const struct ls_set *set, const char *const *paths,
                             int n_paths) LS_MUST_CHECK;

#endif
