/* blocks.cu: see kernels.h. Images go through shared memory, a row of blocks at a time: s lines of every channel are
 * read in their order, and the blocks are written in theirs. Of weights, one thread per stored element. */
#include "backend/cuda/kernels/typed.cuh"

static __device__ __forceinline__ float read_at(const void *src, const struct ls_cuda_place &p, int64_t mb, int64_t c,
                                                int64_t hw)
{
    const int64_t i = p.is_last ? (mb * p.hw + hw) * p.stored_c + c : (mb * p.stored_c + c) * p.hw + hw;
    return p.type == LS_CUDA_BF16 ? widen(((const bf16 *)src)[i]) : ((const float *)src)[i];
}

enum { TILE_BYTES = 32 * 1024, MAX_WARPS = 16 };

/* What a block makes: `blocks` blocks of a row of them, fewer at its end, from c * s lines of `width` pixels. */
struct strip {
    int blocks, lines, width;
};

static inline struct strip strip_of(const struct ls_cuda_blocks &b)
{
    const int most = TILE_BYTES / (int)sizeof(float) / (b.c * b.s * b.s);
    const int strips = (b.blocks_w + most - 1) / most;
    struct strip t;
    t.blocks = (b.blocks_w + strips - 1) / strips;
    t.lines = b.c * b.s;
    t.width = t.blocks * b.s;
    return t;
}

/* Line dy * c + c0 of the tile is line y * s + dy - pad of channel c0, from pixel `left` on; zero beyond the image. */
template <class From>
static __device__ __forceinline__ void read_strip(float *tile, const From *src, const struct ls_cuda_place &from,
                                                  const struct ls_cuda_blocks &b, const struct strip &t, int64_t image,
                                                  int y, int left)
{
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, warps = (int)blockDim.x / WARP;
    const int step = from.is_last ? (int)from.stored_c : 1;
    for (int i = warp; i < t.lines; i += warps) {
        const int c = i % b.c, from_y = y * b.s + i / b.c - b.pad;
        const bool is_there = from_y >= 0 && from_y < b.ih;
        const int64_t at = (int64_t)from_y * b.iw;
        const From *line = src + (from.is_last ? (image * from.hw + at) * from.stored_c + c
                                               : (image * from.stored_c + c) * from.hw + at);
#pragma unroll 4
        for (int x = lane; x < t.width; x += WARP) {
            const int from_x = left + x;
            tile[i * t.width + x] = is_there && from_x >= 0 && from_x < b.iw ? widen(line[from_x * step]) : 0.0f;
        }
    }
}

/* Where in the tile the channels of its first block are; -1: nowhere, they are zero. */
static __device__ __forceinline__ void find_channels(int *places, const struct ls_cuda_blocks &b, const struct strip &t)
{
    for (int i = (int)threadIdx.x; i < b.stored_c; i += (int)blockDim.x) {
        const int tap = i / b.c, dy = tap / b.s, dx = tap % b.s;
        places[i] = dy < b.s ? (dy * b.c + i % b.c) * t.width + dx : -1;
    }
}

template <class T, int V>
static __global__ void image_blocks(const void *src, struct ls_cuda_place from, void *dst, struct ls_cuda_blocks b,
                                    struct strip t)
{
    extern __shared__ float tile[]; /* [lines][width], then int places[stored_c] */
    int *places = reinterpret_cast<int *>(tile + t.lines * t.width);
    const int wide = b.stored_c / V, y = (int)(blockIdx.x % (unsigned)b.blocks_h), first = (int)blockIdx.y * t.blocks;
    const int64_t image = blockIdx.x / (unsigned)b.blocks_h;
    find_channels(places, b, t);
    if (from.type == LS_CUDA_BF16)
        read_strip(tile, (const bf16 *)src, from, b, t, image, y, first * b.s - b.pad);
    else
        read_strip(tile, (const float *)src, from, b, t, image, y, first * b.s - b.pad);
    __syncthreads();
    const int n = min(t.blocks, b.blocks_w - first) * wide;
    const int64_t to = ((image * b.blocks_h + y) * b.blocks_w + first) * wide;
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x) {
        const int block = i / wide, *place = places + i % wide * V;
        struct floats<V> x;
#pragma unroll
        for (int k = 0; k < V; k++) x.v[k] = place[k] >= 0 ? tile[place[k] + block * b.s] : 0.0f;
        put<T, V>(dst, to + i, x);
    }
}

extern "C" cudaError_t ls__cuda_run_blocks_image(cudaStream_t stream, const void *src, struct ls_cuda_place from,
                                                 void *dst, enum ls_cuda_type type, struct ls_cuda_blocks b)
{
    const struct strip t = strip_of(b);
    const unsigned warps = (unsigned)(t.lines < MAX_WARPS ? t.lines : MAX_WARPS);
    const size_t bytes = (size_t)(t.lines * t.width + b.stored_c) * sizeof(float);
    const dim3 grid((unsigned)(from.mb * b.blocks_h), (unsigned)((b.blocks_w + t.blocks - 1) / t.blocks));
#define CALL(T, V) image_blocks<T, V><<<grid, warps * WARP, bytes, stream>>>(src, from, dst, b, t);
    BY_TYPE(type, b.stored_c, CALL)
#undef CALL
    return cudaGetLastError();
}

/* The tap of the kernel that element i of the blocked weights is, or false: none. */
struct tap {
    int64_t oc;
    int ky, kx, c;
};
static __device__ bool tap_of(int64_t i, const struct ls_cuda_blocks &b, struct tap *t)
{
    const struct divided at = divide(i, b.stored_c), row = divide(at.quotient, b.n), oc = divide(row.quotient, b.n);
    const int which = (int)at.rest / b.c;
    t->oc = oc.quotient;
    t->c = (int)at.rest % b.c;
    t->ky = (int)oc.rest * b.s + which / b.s;
    t->kx = (int)row.rest * b.s + which % b.s;
    return which < b.s * b.s && t->ky < b.k && t->kx < b.k;
}

template <class T>
static __global__ void weight_blocks(const void *src, struct ls_cuda_place from, T *dst, struct ls_cuda_blocks b)
{
    FOR_EACH(i, from.mb * b.n * b.n * b.stored_c)
    {
        struct tap t;
        const bool is_there = tap_of(i, b, &t);
        dst[i] = narrow<T>(is_there ? read_at(src, from, t.oc, t.c, (int64_t)t.ky * b.k + t.kx) : 0.0f);
    }
}

extern "C" cudaError_t ls__cuda_run_blocks_weights(cudaStream_t stream, const void *src, struct ls_cuda_place from,
                                                   void *dst, enum ls_cuda_type type, struct ls_cuda_blocks b)
{
    const unsigned blocks = blocks_for(from.mb * b.n * b.n * b.stored_c);
    if (type == LS_CUDA_BF16)
        weight_blocks<<<blocks, THREADS, 0, stream>>>(src, from, (bf16 *)dst, b);
    else
        weight_blocks<<<blocks, THREADS, 0, stream>>>(src, from, (float *)dst, b);
    return cudaGetLastError();
}

template <class T> static __global__ void weights_back(const T *src, float *dst, int64_t oc, struct ls_cuda_blocks b)
{
    FOR_EACH(i, oc * b.n * b.n * b.stored_c)
    {
        struct tap t;
        if (tap_of(i, b, &t)) dst[((t.oc * b.k + t.ky) * b.k + t.kx) * b.c + t.c] = widen(src[i]);
    }
}

extern "C" cudaError_t ls__cuda_run_blocks_back(cudaStream_t stream, enum ls_cuda_type type, const void *src,
                                                float *dst, int64_t oc, struct ls_cuda_blocks b)
{
    const unsigned blocks = blocks_for(oc * b.n * b.n * b.stored_c);
    if (type == LS_CUDA_BF16)
        weights_back<<<blocks, THREADS, 0, stream>>>((const bf16 *)src, dst, oc, b);
    else
        weights_back<<<blocks, THREADS, 0, stream>>>((const float *)src, dst, oc, b);
    return cudaGetLastError();
}
