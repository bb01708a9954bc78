/* pictures.c: see pictures.h.
 *
 * Each sample's outcome has a place of its own, written by the one thread that reads the sample; who gets the sample
 * from the loader's queue sees it.
 */
#include "data/pictures.h"

#include "base/file.h"
#include "base/mem.h"
#include "data/format.h"
#include "data/formats/parsers.h"
#include "data/resize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX_BYTES = 256 << 20 };

struct pictures {
    const char *const *files;    /* [n] borrowed */
    struct ls_picture *pictures; /* [n] */
    int64_t n;
};

/* Rec. 601, in integers: a grey picture keeps its bytes. */
static void to_luma(const uint8_t *rgb, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t sum = 19595u * rgb[i] + 38470u * rgb[n + i] + 7471u * rgb[2 * n + i] + 32768u;
        out[i] = (uint8_t)(sum >> 16);
    }
}

/* The decoded picture to out [c,h,w]. */
static enum ls_status fit(const struct ls_dataset *ds, const struct ls_image *image, uint8_t *out)
{
    struct ls_image_layout in = {
        .c = 3, .h = image->h, .w = image->w, .channel = 1, .row = (size_t)image->w * 3, .pixel = 3};
    size_t n = (size_t)ds->h * (size_t)ds->w;
    uint8_t *rgb;
    if (ds->c == 3) return ls__resample(image->rgb, &in, ds->h, ds->w, out);
    TRY(ls__calloc(&rgb, n, 3));
    enum ls_status status = ls__resample(image->rgb, &in, ds->h, ds->w, rgb);
    if (status == LS_OK) to_luma(rgb, n, out);
    free(rgb);
    return status;
}

static enum ls_status read_file(const struct ls_dataset *ds, const char *path, struct ls_picture *p, uint8_t *out)
{
    struct ls_image image = {0};
    char *data;
    size_t len;
    TRY(ls__file_read(path, FILE_MAX_BYTES, &data, &len));
    enum ls_status status = ls__image_load(path, (const uint8_t *)data, len, ds->h, ds->w, &image);
    free(data);
    if (status == LS_OK) status = fit(ds, &image, out);
    *p = (struct ls_picture){.h = image.file_h, .w = image.file_w, .is_grey = image.is_grey};
    free(image.rgb);
    return status;
}

static enum ls_status pictures_read(const struct ls_dataset *ds, int64_t sample, uint8_t *out)
{
    const struct pictures *set = ds->impl->state;
    struct ls_picture *p = &set->pictures[sample];
    if (p->error) return LS_OK; /* read before */
    enum ls_status status = read_file(ds, set->files[sample], p, out);
    if (status == LS_OK || status == LS_NOMEM || status == LS_UNSUPPORTED) return status;
    memset(out, 0, (size_t)ds->c * (size_t)ds->h * (size_t)ds->w);
    return ls__strdup(&p->error, ls_error_message());
}

static void pictures_close(struct ls_dataset *ds)
{
    struct pictures *set = ds->impl->state;
    if (!set) return;
    for (int64_t i = 0; set->pictures && i < set->n; i++) free(set->pictures[i].error);
    free(set->pictures);
    free(set);
}

static enum ls_status build(struct ls_dataset *ds, const struct ls_picture_shape *shape, const char *const *files,
                            int64_t n)
{
    struct pictures *set;
    TRY(ls__calloc(&ds->impl, 1, sizeof *ds->impl));
    TRY(ls__calloc(&set, 1, sizeof *set));
    ds->impl->state = set;
    ds->impl->read = pictures_read;
    ds->impl->close = pictures_close;
    set->files = files;
    set->n = n;
    TRY(ls__calloc(&set->pictures, (size_t)n, sizeof *set->pictures));
    snprintf(ds->name, sizeof ds->name, "pictures");
    ds->split = LS_TEST;
    ds->n = n;
    ds->c = shape->c;
    ds->h = shape->h;
    ds->w = shape->w;
    ds->n_classes = shape->n_classes;
    return ls__dataset_alloc_labels(ds);
}

enum ls_status ls__pictures_open(struct ls_dataset **out, const struct ls_picture_shape *shape,
                                 const char *const *files, int64_t n)
{
    *out = NULL;
    if (shape->c != 1 && shape->c != 3)
        return ls_fail(LS_DATA, "the network takes images of %d channels; a picture has 1 or 3", shape->c);
    TRY(ls__calloc(out, 1, sizeof **out));
    enum ls_status status = build(*out, shape, files, n);
    if (status != LS_OK) ls_dataset_close(out);
    return status;
}

const struct ls_picture *ls__picture_at(const struct ls_dataset *ds, int64_t sample)
{
    const struct pictures *set = ds->impl->state;
    return &set->pictures[sample];
}
