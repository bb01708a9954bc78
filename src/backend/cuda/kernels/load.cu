/* load.cu: bytes to normalised floats with augmentation: ls_transform_apply (ref/load.c) for one sample per row of
 * blocks, with the same random numbers and the same two roundings per pixel. */
#include "backend/cuda/kernels/placement.cuh"

enum { CHUNK = 4096 }; /* elements of a block */

static __device__ __forceinline__ float pixel_at(const struct ls_cuda_augment &a, const struct drawn &d,
                                                 const uint8_t *plane, int c, int y, int x)
{
    if (y >= d.cut.y0 && y < d.cut.y1 && x >= d.cut.x0 && x < d.cut.x1) return 0.0f;
    const int from_y = y + d.at.dy, from_x = (d.at.is_mirrored ? a.w - 1 - x : x) + d.at.dx;
    if (from_y < 0 || from_y >= a.h || from_x < 0 || from_x >= a.w) return a.offset[c];
    return (float)plane[from_y * a.w + from_x] * a.scale[c] + a.offset[c];
}

static __global__ void augment(struct ls_cuda_augment a, struct ls_cuda_next_now next)
{
    __shared__ struct drawn d;
    __shared__ int64_t place;
    const int64_t i = blockIdx.x, hw = (int64_t)a.h * a.w, image = a.c * hw;
    const bool is_padding = i >= a.n;
    if (blockIdx.x + blockIdx.y + threadIdx.x == 0) set_now(next);
    if (threadIdx.x == 0) {
        const uint32_t sample = is_padding ? 0 : a.samples[i];
        if (blockIdx.y == 0) a.dst_samples[i] = sample;
        if (blockIdx.y == 0) a.dst_labels[i] = is_padding ? -1 : a.labels[i];
        place = a.is_kept ? sample : i;
        d = draw(a, sample);
    }
    __syncthreads();
    const int64_t first = (int64_t)blockIdx.y * CHUNK, end = first + CHUNK < image ? first + CHUNK : image;
#pragma unroll 4
    for (int64_t j = first + threadIdx.x; j < end; j += THREADS) {
        const struct divided plane = divide(j, hw), row = divide(plane.rest, a.w);
        const int c = (int)plane.quotient;
        a.dst[i * image + j] =
            is_padding ? 0.0f : pixel_at(a, d, a.pixels + place * image + c * hw, c, (int)row.quotient, (int)row.rest);
    }
}

extern "C" cudaError_t ls__cuda_run_augment(cudaStream_t stream, struct ls_cuda_augment a, struct ls_cuda_next_now next)
{
    const int64_t image = (int64_t)a.c * a.h * a.w;
    augment<<<dim3((unsigned)a.mb, (unsigned)((image + CHUNK - 1) / CHUNK)), THREADS, 0, stream>>>(a, next);
    return cudaGetLastError();
}
