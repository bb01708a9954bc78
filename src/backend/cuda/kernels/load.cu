/* load.cu: bytes to normalised floats with augmentation: ls_transform_apply (ref/load.c) for one sample per row of
 * blocks, with the same random numbers and the same two roundings per pixel.
 *
 * A thread has pieces of a row, V pixels each. One that lies wholly in the image and outside the cut-out is V bytes in
 * order or mirrored, at any address; the others are made pixel by pixel. The bytes of several pieces are on their way
 * at once.
 *
 * Numbers and labels of few samples travel as arguments of the launch: a look into the host's memory takes longer than
 * a small network's images take to be made. */
#include "backend/cuda/kernels/placement.cuh"

#include <string.h>

enum { CHUNK = 8192, AT_ONCE = 4 }; /* elements of a block; pieces of a thread that are read before one is written */

struct sizes {
    int hw, pieces;           /* of a plane, of an image */
    struct divisor across, h; /* across: pieces of a row */
};

struct piece {
    int c, y, x;
    bool is_whole;
    uint32_t bytes; /* where it is */
};

static __device__ __forceinline__ float pixel_at(const struct ls_cuda_augment &a, const struct drawn &d,
                                                 const uint8_t *plane, int c, int y, int x)
{
    if (y >= d.cut.y0 && y < d.cut.y1 && x >= d.cut.x0 && x < d.cut.x1) return 0.0f;
    const int from_y = y + d.at.dy, from_x = (d.at.is_mirrored ? a.w - 1 - x : x) + d.at.dx;
    if (from_y < 0 || from_y >= a.h || from_x < 0 || from_x >= a.w) return a.offset[c];
    return (float)plane[from_y * a.w + from_x] * a.scale[c] + a.offset[c];
}

/* The first is the lowest. Of four, only words that hold one of them are read: images are whole words, so those exist.
 */
template <int V> static __device__ __forceinline__ uint32_t bytes_at(const uint8_t *p)
{
    if (V == 1) return *p;
    const uintptr_t beyond = reinterpret_cast<uintptr_t>(p) % 4;
    const uint32_t *word = reinterpret_cast<const uint32_t *>(p - beyond);
    return __funnelshift_r(word[0], word[beyond != 0], 8 * (unsigned)beyond);
}

/* Piece j of the image. Without a branch: of those that are not whole any bytes are read. */
template <int V>
static __device__ __forceinline__ struct piece look(const struct ls_cuda_augment &a, const struct drawn &d,
                                                    const uint8_t *image, const struct sizes &n, int j)
{
    const struct divided32 row = divide((uint32_t)j, n.across), plane = divide((uint32_t)row.quotient, n.h);
    struct piece p;
    p.c = plane.quotient;
    p.y = plane.rest;
    p.x = row.rest * V;
    const int from_y = p.y + d.at.dy, from_x = (d.at.is_mirrored ? a.w - V - p.x : p.x) + d.at.dx;
    const bool is_cut = p.y >= d.cut.y0 && p.y < d.cut.y1 && p.x + V > d.cut.x0 && p.x < d.cut.x1;
    p.is_whole = !is_cut && from_y >= 0 && from_y < a.h && from_x >= 0 && from_x + V <= a.w;
    p.bytes = bytes_at<V>(image + (p.is_whole ? p.c * n.hw + from_y * a.w + from_x : 0));
    if (V == 4 && d.at.is_mirrored) p.bytes = __byte_perm(p.bytes, 0, 0x0123);
    return p;
}

template <int V>
static __device__ __forceinline__ struct pack<V> floats_of(const struct ls_cuda_augment &a, const struct drawn &d,
                                                           const uint8_t *image, const struct sizes &n,
                                                           const struct piece &p) {
    struct pack<V> f;
    if (p.is_whole) {
        const float scale = a.scale[p.c], offset = a.offset[p.c];
#pragma unroll
        for (int k = 0; k < V; k++) f.v[k] = (float)(p.bytes >> 8 * k & 0xff) * scale + offset;
    } else {
#pragma unroll
        for (int k = 0; k < V; k++) f.v[k] = pixel_at(a, d, image + p.c * n.hw, p.c, p.y, p.x + k);
    }
    return f;
}

/* Of N samples; of none: where they are. */
template <int N>
struct numbers {
    uint32_t samples[N];
    int32_t labels[N];
};
template <> struct numbers<0> {
    const uint32_t *samples;
    const int32_t *labels;
};

/* __grid_constant__: read by a number that is not known, arguments would be copied into every thread's memory. */
template <int V, int N>
static __global__ void __launch_bounds__(THREADS)
    augment(const __grid_constant__ struct ls_cuda_augment a, const __grid_constant__ struct ls_cuda_next_now next,
            struct sizes n, const __grid_constant__ struct numbers<N> of)
{
    __shared__ struct drawn d;
    __shared__ int64_t place;
    const int64_t i = blockIdx.x, image = (int64_t)n.pieces * V;
    const bool is_padding = i >= a.n;
    if (blockIdx.x + blockIdx.y + threadIdx.x == 0) set_now(next);
    if (blockIdx.y == 0 && threadIdx.x == WARP) /* numbers may come from the host's memory: both at the same time */
        a.dst_labels[i] = is_padding ? -1 : of.labels[i];
    if (threadIdx.x == 0) {
        const uint32_t sample = is_padding ? 0 : of.samples[i];
        if (blockIdx.y == 0) a.dst_samples[i] = sample;
        place = a.is_kept ? sample : i;
        d = draw(a, sample);
    }
    __syncthreads();
    const uint8_t *bytes = a.pixels + place * image;
    float *dst = a.dst + i * image;
    const int first = (int)blockIdx.y * (CHUNK / V), end = min(first + CHUNK / V, n.pieces);
    for (int j = first + (int)threadIdx.x; j < end; j += AT_ONCE * THREADS) {
        struct piece p[AT_ONCE];
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
            if (!is_padding && j + u * THREADS < end) p[u] = look<V>(a, d, bytes, n, j + u * THREADS);
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
            if (j + u * THREADS < end)
                store<V>(dst, j + u * THREADS, is_padding ? pack<V>{} : floats_of<V>(a, d, bytes, n, p[u]));
    }
}

static void fill(struct numbers<0> *of, const struct ls_cuda_augment &a)
{
    *of = {a.samples, a.labels};
}
template <int N> static void fill(struct numbers<N> *of, const struct ls_cuda_augment &a)
{
    memcpy(of->samples, a.samples, (size_t)a.n * sizeof *of->samples);
    memcpy(of->labels, a.labels, (size_t)a.n * sizeof *of->labels);
}

template <int V, int N>
static void launch(cudaStream_t stream, const struct ls_cuda_augment &a, const struct ls_cuda_next_now &next)
{
    const struct sizes n = {a.h * a.w, a.c * a.h * a.w / V, divisor_of(a.w / V), divisor_of(a.h)};
    const dim3 grid((unsigned)a.mb, (unsigned)((n.pieces + CHUNK / V - 1) / (CHUNK / V)));
    struct numbers<N> of;
    fill(&of, a);
    augment<V, N><<<grid, THREADS, 0, stream>>>(a, next, n, of);
}

template <int N>
static void launch_of(cudaStream_t stream, const struct ls_cuda_augment &a, const struct ls_cuda_next_now &next)
{
    (a.w % WIDE == 0 ? launch<WIDE, N> : launch<1, N>)(stream, a, next);
}

extern "C" cudaError_t ls__cuda_run_augment(cudaStream_t stream, struct ls_cuda_augment a, struct ls_cuda_next_now next)
{
    if (a.is_at_host && a.n > LS_CUDA_FEW) return cudaErrorInvalidValue;
    (!a.is_at_host ? launch_of<0> : a.n <= 128 ? launch_of<128> : launch_of<LS_CUDA_FEW>)(stream, a, next);
    return cudaGetLastError();
}
