/* placement.cuh: crop, mirror and cut-out of a sample, drawn as ref/load.c draws them. */
#ifndef LS_BACKEND_CUDA_PLACEMENT_CUH
#define LS_BACKEND_CUDA_PLACEMENT_CUH

#include "backend/cuda/kernels/common.cuh"

#define LS_RNG_FN static __device__ __forceinline__
#include "backend/placement.h"

struct drawn {
    struct ls_placement at;
    struct ls_cutout cut;
};

static __device__ struct drawn draw(const struct ls_cuda_augment &a, uint32_t sample)
{
    struct drawn d = {};
    if (a.is_moved) d.at = ls__placement_draw(a.seed, a.epoch, sample, a.crop_pad, a.flip);
    if (a.cutout > 0) d.cut = ls__cutout_draw(a.seed, a.epoch, sample, a.h, a.w, a.cutout);
    return d;
}

#endif
