/* lazy.h: data sets whose images are made when first asked for. Internal to src/data.
 *
 * Made images stay in a cache of n_images, so a second epoch costs nothing and the loader hands out pointers into it.
 * Opening touches no image. Any thread may ask for any image: the first one makes it, the others wait those few
 * microseconds.
 */
#ifndef LS_DATA_LAZY_H
#define LS_DATA_LAZY_H

#include "data/format.h"

/* Writes image [c,h,w] completely; a pure function of (ds, image). */
typedef void ls_lazy_make_fn(const struct ls_dataset *ds, int64_t image, uint8_t *out);

/* Gives ds its read, view and close: sample i shows image i % n_images. c, h, w and n are set. */
enum ls_status ls__lazy_open(struct ls_dataset *ds, int64_t n_images, ls_lazy_make_fn *make) LS_MUST_CHECK;

/* ds->checksum from a text that says how the images are made and which split this is: it needs no pixels. */
void ls__lazy_checksum(struct ls_dataset *ds, const char *generator);

#endif
