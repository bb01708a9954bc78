/* augment.h: changes to training images beyond crop, mirror and cut-out, as torchvision has them, on float images.
 *
 * Where they stand in ls_transform_apply (backend/ref/load.c):
 *
 *     resized crop, or crop with padding -> mirror -> colours -> normalise -> cut out -> erase      each image
 *     mixup or cutmix                                                                             pairs of a shard
 *
 * Random numbers are keyed by (seed, epoch, sample), those of a pair by its first sample: who computes, and with how
 * many others, does not matter. Which samples meet follows from the shard, which follows from batch size and shards.
 * All arithmetic is in a fixed order without the C library's functions, so the bits are those of every machine.
 */
#ifndef LS_BACKEND_AUGMENT_H
#define LS_BACKEND_AUGMENT_H

#include "backend/backend.h"

/* What is drawn is apart from what is done with it, for backends that do it themselves. */

/* Rows [y0,y1) and columns [x0,x1); all zero: none. */
struct ls_box {
    int y0, y1, x0, x1;
};

/* The part of an image that a resized crop shows. */
struct ls_crop {
    int y, x, h, w;
};
/* torchvision's RandomResizedCrop: a share of the area from `least` to 1, sides 3:4 to 4:3; ten tries, else the whole.
 */
struct ls_crop ls__augment_draw_crop(int h, int w, float least, uint64_t seed, int64_t epoch, int64_t sample);
/* One channel: that part of `in` [h,w] at the size of `out` [h,w], bilinear (half-pixel centres), as bytes / 255. */
void ls__augment_resize(const uint8_t *in, int h, int w, const struct ls_crop *crop, bool is_mirrored, float *out);

/* torchvision's ColorJitter on values from 0 to 1: brightness, contrast, saturation and hue in a random order. */
bool ls__augment_has_colours(const struct ls_transform *t);
enum ls_colour { LS_BRIGHTNESS, LS_CONTRAST, LS_SATURATION, LS_HUE, LS_N_COLOURS };
struct ls_colours {
    int order[LS_N_COLOURS]; /* which comes when; -1: one that is off, or needs three channels */
    float by[LS_N_COLOURS];  /* factors, of the hue a part of the circle; by enum ls_colour */
};
struct ls_colours ls__augment_draw_colours(const struct ls_transform *t, uint64_t seed, int64_t epoch, int64_t sample);
void ls__augment_colours(const struct ls_transform *t, uint64_t seed, int64_t epoch, int64_t sample,
                         float *image /* [c,h,w] */);

/* torchvision's RandomErasing: with probability t->erasing a rectangle of 2 to 33 % of the area, sides 0.3 to 3.3. */
struct ls_box ls__augment_draw_erasing(const struct ls_transform *t, uint64_t seed, int64_t epoch, int64_t sample);
void ls__augment_erase(const struct ls_transform *t, uint64_t seed, int64_t epoch, int64_t sample,
                       float *image /* [c,h,w] */);

/* A number of the beta distribution with both parameters `alpha`. */
double ls__augment_beta(double alpha, uint64_t seed, int64_t epoch, int64_t sample);
/* How a pair of samples is mixed: the share of itself that each keeps, and with cutmix what comes from the other. */
struct ls_mix {
    bool is_cut;
    float share[2];
    struct ls_box box[2];
};
struct ls_mix ls__augment_draw_mix(const struct ls_transform *t, uint64_t seed, int64_t epoch,
                                   const uint32_t samples[2]);
/* Mixes each sample of a load with its neighbour, images in place; l->dst_mix_labels and dst_mix_shares say how. Of an
 * odd number the last stays as it is. */
void ls__augment_mix(const struct ls_load *l);

#endif
