/* resize.h: images of another size: scaled until the shorter side fits, the centre cut out. */
#ifndef LS_DATA_RESIZE_H
#define LS_DATA_RESIZE_H

#include "data/data.h"

/* Where the bytes of an image lie: src[k*channel + y*row + x*pixel]. */
struct ls_image_layout {
    int c, h, w;
    size_t channel, row, pixel;
};

/* src to out [c,h,w]. Fails only for want of memory. */
enum ls_status ls__resample(const uint8_t *src, const struct ls_image_layout *in, int h, int w,
                            uint8_t *out) LS_MUST_CHECK;

/* Replaces *ds by a set that shows its samples as h x w, resized on reading, and owns the old one. On failure *ds is as
 * it was. */
enum ls_status ls__dataset_resize(struct ls_dataset **ds, int h, int w) LS_MUST_CHECK;

#endif
