/* last.cuh: rows of channels, channels last: how a grid covers them, how a thread walks down its rows, sums over them.
 *
 * A block has tx threads across the channels, V channels each, and ty rows at a time; a thread keeps its channels and
 * walks down the rows, so what belongs to a channel is read once. Tiles of channels are blockIdx.y, pieces of rows
 * blockIdx.x.
 */
#ifndef LS_BACKEND_CUDA_LAST_CUH
#define LS_BACKEND_CUDA_LAST_CUH

#include "backend/cuda/kernels/typed.cuh"

/* Sums have larger blocks: fewer of them, and more threads to add up what the blocks wrote. */
enum { SUM_THREADS = 512, MAX_ACROSS = 64 };

struct cover {
    int64_t rows;
    double per_row; /* 1 / rows */
    int c, tx, ty;
};

/* Tiles are a line of memory wide. tx is a power of two, so that a warp's rows can be added by shuffles; lanes beyond
 * the channels idle. */
static inline struct cover cover_of(struct ls_cuda_rows n, int v, int threads)
{
    const int wide = n.c / v, tile = v == 1 ? 32 : 8;
    struct cover g;
    g.rows = n.rows;
    g.per_row = 1.0 / (double)n.rows;
    g.c = n.c;
    g.tx = 1;
    while (g.tx < wide && g.tx < tile) g.tx *= 2;
    g.ty = threads / g.tx;
    return g;
}

static inline dim3 grid_of(const struct cover &g, int v, int max_blocks, int min_rows)
{
    const int64_t pieces = (g.rows + (int64_t)g.ty * min_rows - 1) / ((int64_t)g.ty * min_rows);
    const int tiles = (g.c / v + g.tx - 1) / g.tx, max_pieces = tiles < max_blocks ? max_blocks / tiles : 1;
    return dim3((unsigned)(pieces < 1 ? 1 : pieces < max_pieces ? pieces : max_pieces), (unsigned)tiles);
}

/* What one thread goes through: n rows of V channels, by number of V elements each. */
struct walk {
    int channel; /* its first; c or more: none */
    int n;
    int64_t first, step;
};

template <int V> static __device__ __forceinline__ struct walk walk_of(const struct cover &g)
{
    struct walk w;
    const int x = (int)threadIdx.x % g.tx, y = (int)threadIdx.x / g.tx;
    const int64_t pieces = gridDim.x, length = (g.rows + pieces - 1) / pieces, begin = (int64_t)blockIdx.x * length;
    const int64_t end = begin + length < g.rows ? begin + length : g.rows, row = begin + y;
    w.channel = ((int)blockIdx.y * g.tx + x) * V;
    w.n = w.channel < g.c && row < end ? (int)((end - row + g.ty - 1) / g.ty) : 0;
    w.first = (row * g.c + w.channel) / V;
    w.step = (int64_t)g.ty * g.c / V;
    return w;
}

template <int V> static __device__ __forceinline__ struct floats<V> per_channel(const float *x, int channel) {
    struct floats<V> f;
#pragma unroll
    for (int k = 0; k < V; k++) f.v[k] = x[channel + k];
    return f;
}

/* f(i, x) for every row, i counting V elements each; AHEAD rows are read before the first is used. */
template <class T, int V, int AHEAD, class F>
static __device__ __forceinline__ void each_row(const struct walk &w, const void *x, F f)
{
    for (int r = 0; r < w.n; r += AHEAD) {
        const int64_t i = w.first + r * w.step;
        struct held<T, V> s[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            if (r + u < w.n) s[u] = hold<T, V>(x, i + u * w.step);
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            if (r + u < w.n) f(i + u * w.step, widened(unpack(s[u])));
    }
}

/* f(i, x, y) likewise. */
template <class T, int V, int AHEAD, class F>
static __device__ __forceinline__ void each_pair(const struct walk &w, const void *x, const void *y, F f)
{
    for (int r = 0; r < w.n; r += AHEAD) {
        const int64_t i = w.first + r * w.step;
        struct held<T, V> s[AHEAD], t[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            if (r + u < w.n) {
                s[u] = hold<T, V>(x, i + u * w.step);
                t[u] = hold<T, V>(y, i + u * w.step);
            }
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            if (r + u < w.n) f(i + u * w.step, widened(unpack(s[u])), widened(unpack(t[u])));
    }
}

/* This block's two sums per channel: a[V], b[V] of every thread, added over the rows. partial: [tiles][pieces][2][tx *
 * V]
 */
template <int V> static __device__ void write_piece(const struct cover &g, float a[V], float b[V], float *partial)
{
    __shared__ float shared[2][SUM_THREADS / WARP][MAX_ACROSS];
    const int across = g.tx * V, lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
#pragma unroll
    for (int k = 0; k < V; k++) {
        for (int offset = WARP / 2; offset >= g.tx; offset /= 2) {
            a[k] += __shfl_xor_sync(0xffffffffu, a[k], offset);
            b[k] += __shfl_xor_sync(0xffffffffu, b[k], offset);
        }
        if (lane < g.tx) shared[0][warp][lane * V + k] = a[k];
        if (lane < g.tx) shared[1][warp][lane * V + k] = b[k];
    }
    __syncthreads();
    const int i = (int)threadIdx.x;
    if (i >= 2 * across) return;
    float sum = 0.0f;
#pragma unroll
    for (int r = 0; r < SUM_THREADS / WARP; r++) sum += shared[i / across][r][i % across];
    partial[((int64_t)blockIdx.y * gridDim.x + blockIdx.x) * 2 * across + i] = sum;
}

static __device__ __forceinline__ struct stored<float, 4> fetch_piece(const struct stored<float, 4> *x) {
    const float4 f = __ldcg(reinterpret_cast<const float4 *>(x));
    return {{f.x, f.y, f.z, f.w}};
} static __device__ __forceinline__ struct stored<float, 1> fetch_piece(const struct stored<float, 1> *x) {
    return {{__ldcg(reinterpret_cast<const float *>(x))}};
}

/* The tile's sums over all pieces, in their order, in double: sums[which * tx * V + channel], in shared memory. Several
 * threads share a channel's pieces. */
template <int V>
static __device__ void add_pieces(const struct cover &g, const float *partial, double *sums)
{
    constexpr int Q = V >= 4 ? 4 : 1;
    __shared__ double shared[SUM_THREADS * Q];
    const int columns = 2 * g.tx * V, wide = columns / Q, pieces = (int)gridDim.x, parts = SUM_THREADS / wide;
    const int x = (int)threadIdx.x % wide, part = (int)threadIdx.x / wide;
    const struct stored<float, Q> *from =
        reinterpret_cast<const struct stored<float, Q> *>(partial) + (int64_t)blockIdx.y * pieces * wide + x;
    double sum[Q] = {};
#pragma unroll 8
    for (int p = part; p < pieces; p += parts) {
        const struct stored<float, Q> s = fetch_piece(from + (int64_t)p * wide);
#pragma unroll
        for (int k = 0; k < Q; k++) sum[k] += (double)s.v[k];
    }
#pragma unroll
    for (int k = 0; k < Q; k++) shared[part * columns + x * Q + k] = sum[k];
    __syncthreads();
    if ((int)threadIdx.x < columns) {
        double all = 0.0;
#pragma unroll 8
        for (int k = 0; k < parts; k++) all += shared[k * columns + (int)threadIdx.x];
        sums[threadIdx.x] = all;
    }
    __syncthreads();
}

#endif
