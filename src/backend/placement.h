/* placement.h: crop with padding, mirror and cut-out of one image, drawn from (seed, epoch, sample): the same numbers,
 * and so the same images, on every device. nvcc compiles it too; it then defines LS_RNG_FN first, as for base/rng.h.
 *
 * One Philox call supplies the draws, in this order whether or not an augmentation is on: crop row, crop column,
 * mirror; the second call: cut-out row, cut-out column.
 */
#ifndef LS_BACKEND_PLACEMENT_H
#define LS_BACKEND_PLACEMENT_H

#include "base/rng.h"

#include <stdbool.h>

struct ls_placement {
    int dy, dx; /* out(y,x) shows in(y+dy, x+dx), before mirroring */
    bool is_mirrored;
};
LS_RNG_FN struct ls_placement ls__placement_draw(uint64_t seed, int64_t epoch, int64_t sample, int crop_pad, bool flip)
{
    const struct ls_rng4 r = ls__rng(seed, LS_RNG_AUGMENT, (uint32_t)epoch, (uint32_t)sample, 0);
    const uint64_t n_offsets = 2 * (uint64_t)crop_pad + 1;
    struct ls_placement at;
    at.dy = (int)ls__rng_below(r.v[0], n_offsets) - crop_pad;
    at.dx = (int)ls__rng_below(r.v[1], n_offsets) - crop_pad;
    at.is_mirrored = flip && (r.v[2] >> 31);
    return at;
}

/* Rows [y0,y1) and columns [x0,x1), which may reach beyond the image. */
struct ls_cutout {
    int y0, y1, x0, x1;
};
LS_RNG_FN struct ls_cutout ls__cutout_draw(uint64_t seed, int64_t epoch, int64_t sample, int h, int w, int side)
{
    const struct ls_rng4 r = ls__rng(seed, LS_RNG_AUGMENT, (uint32_t)epoch, (uint32_t)sample, 1);
    struct ls_cutout cut;
    cut.y0 = (int)ls__rng_below(r.v[0], (uint64_t)h) - side / 2;
    cut.x0 = (int)ls__rng_below(r.v[1], (uint64_t)w) - side / 2;
    cut.y1 = cut.y0 + side;
    cut.x1 = cut.x0 + side;
    return cut;
}

#endif
