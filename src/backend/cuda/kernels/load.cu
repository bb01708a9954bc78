/* load.cu: bytes to normalised floats with augmentation: ls_transform_apply (ref/load.c) for one sample per row of
 * blocks, with the same random numbers and the same two roundings per pixel. */
#include "backend/cuda/kernels/common.cuh"

#define LS_RNG_FN static __device__ __forceinline__
#include "base/rng.h"

enum { CHUNK = 4096 }; /* elements of a block */

struct placement {
    int dy, dx; /* out(y,x) shows in(y+dy, x+dx), before mirroring */
    bool is_mirrored;
    int y0, y1, x0, x1; /* cut out */
};

static __device__ struct placement draw(const struct ls_cuda_augment &a, uint32_t sample)
{
    struct placement at = {0, 0, false, 0, 0, 0, 0};
    if (a.is_moved) {
        const struct ls_rng4 r = ls__rng(a.seed, LS_RNG_AUGMENT, (uint32_t)a.epoch, sample, 0);
        const uint64_t n_offsets = 2 * (uint64_t)a.crop_pad + 1;
        at.dy = (int)ls__rng_below(r.v[0], n_offsets) - a.crop_pad;
        at.dx = (int)ls__rng_below(r.v[1], n_offsets) - a.crop_pad;
        at.is_mirrored = a.flip && (r.v[2] >> 31);
    }
    if (a.cutout > 0) {
        const struct ls_rng4 r = ls__rng(a.seed, LS_RNG_AUGMENT, (uint32_t)a.epoch, sample, 1);
        at.y0 = (int)ls__rng_below(r.v[0], (uint64_t)a.h) - a.cutout / 2;
        at.x0 = (int)ls__rng_below(r.v[1], (uint64_t)a.w) - a.cutout / 2;
        at.y1 = at.y0 + a.cutout;
        at.x1 = at.x0 + a.cutout;
    }
    return at;
}

static __device__ __forceinline__ float pixel_at(const struct ls_cuda_augment &a, const struct placement &at,
                                                 const uint8_t *plane, int c, int y, int x)
{
    if (y >= at.y0 && y < at.y1 && x >= at.x0 && x < at.x1) return 0.0f;
    const int from_y = y + at.dy, from_x = (at.is_mirrored ? a.w - 1 - x : x) + at.dx;
    if (from_y < 0 || from_y >= a.h || from_x < 0 || from_x >= a.w) return a.offset[c];
    return (float)plane[from_y * a.w + from_x] * a.scale[c] + a.offset[c];
}

static __global__ void augment(struct ls_cuda_augment a)
{
    __shared__ struct placement at;
    __shared__ int64_t place;
    const int64_t i = blockIdx.x, hw = (int64_t)a.h * a.w, image = a.c * hw;
    const bool is_padding = i >= a.n;
    if (threadIdx.x == 0) {
        const uint32_t sample = is_padding ? 0 : a.samples[i];
        if (blockIdx.y == 0) a.dst_samples[i] = sample;
        if (blockIdx.y == 0) a.dst_labels[i] = is_padding ? -1 : a.labels[i];
        place = a.is_kept ? sample : i;
        at = draw(a, sample);
    }
    __syncthreads();
    const int64_t first = (int64_t)blockIdx.y * CHUNK, end = first + CHUNK < image ? first + CHUNK : image;
#pragma unroll 4
    for (int64_t j = first + threadIdx.x; j < end; j += THREADS) {
        const struct divided plane = divide(j, hw), row = divide(plane.rest, a.w);
        const int c = (int)plane.quotient;
        a.dst[i * image + j] =
            is_padding ? 0.0f : pixel_at(a, at, a.pixels + place * image + c * hw, c, (int)row.quotient, (int)row.rest);
    }
}

extern "C" cudaError_t ls__cuda_run_augment(cudaStream_t stream, struct ls_cuda_augment a)
{
    const int64_t image = (int64_t)a.c * a.h * a.w;
    augment<<<dim3((unsigned)a.mb, (unsigned)((image + CHUNK - 1) / CHUNK)), THREADS, 0, stream>>>(a);
    return cudaGetLastError();
}
