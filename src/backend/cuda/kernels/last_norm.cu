/* last_norm.cu: batch norm and its gradient, rows of channels, channels last; also with something added before the
 * relu, whose gradient is then made on the way.
 *
 * One kernel in two phases: the blocks sum their rows; then each adds up what all blocks of its tile wrote, in the
 * order of the pieces, in double, and goes over its rows again. Between the phases the blocks of a tile wait for each
 * other, which takes a grid that is on the card as a whole; where it is not, the phases are two launches of the same
 * kernel, with the same bits. Values are taken relative to the first row, so that variance does not cancel when the
 * mean is large.
 */
#include "backend/cuda/kernels/last.cuh"

enum { SUMS = 1, APPLY = 2, BOTH = SUMS | APPLY };
enum { BLOCKS = 132, MIN_ROWS = 4 }; /* one for each multiprocessor of a Hopper; a constant: orders depend on it */
enum { AHEAD_ONE = 8, AHEAD_TWO = 4, AHEAD_THREE = 3 }; /* rows, of so many tensors */

/* Until all blocks of the tile are here. tickets: two per tile, who is here and how often all were. */
static __device__ void meet(unsigned *tickets)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned *here = &tickets[2 * blockIdx.y];
        volatile unsigned *times = &tickets[2 * blockIdx.y + 1];
        const unsigned before = *times;
        __threadfence();
        if (atomicAdd(here, 1u) == gridDim.x - 1) {
            *here = 0;
            __threadfence();
            *times = before + 1;
        } else {
            while (*times == before) {
            }
        }
        __threadfence();
    }
    __syncthreads();
}

/* What phase two needs of every channel of the tile, in shared memory. */
struct per_tile {
    float mean[MAX_ACROSS], scale[MAX_ACROSS], beta[MAX_ACROSS], mean_dy[MAX_ACROSS], slope[MAX_ACROSS];
};

template <int V> static __device__ __forceinline__ struct floats<V> of_tile(const float *x, const struct cover &g) {
    return per_channel<V>(x, (int)threadIdx.x % g.tx * V);
}

/* --- forward --- */

template <class T, int V>
static __device__ __forceinline__ void sum_values(const struct ls_cuda_last_norm &n, const struct cover &g,
                                                  const struct walk &w)
{
    float a[V] = {}, b[V] = {};
    if (w.n > 0) {
        const struct floats<V> shift = get<T, V>(n.src, w.channel / V);
        each_row<T, V, AHEAD_ONE>(w, n.src, [&](int64_t, const struct floats<V> &x) {
#pragma unroll
            for (int k = 0; k < V; k++) {
                const float d = x.v[k] - shift.v[k];
                a[k] += d;
                b[k] = fmaf(d, d, b[k]);
            }
        });
    }
    write_piece<V>(g, a, b, n.partial);
}

/* The statistics of the tile's channels, by one thread each; those of the first piece also write them down. */
template <class T, int V>
static __device__ void make_stats(const struct ls_cuda_last_norm &n, const struct cover &g, struct per_tile *tile)
{
    __shared__ double sums[2 * MAX_ACROSS];
    const int across = g.tx * V, x = (int)threadIdx.x, c = (int)blockIdx.y * across + x;
    const bool is_mine = x < across && c < g.c;
    const double shift = is_mine && !n.is_given ? (double)widen(((const T *)n.src)[c]) : 0.0, count = (double)g.rows;
    const float gamma = is_mine ? n.gamma[c] : 0.0f, beta = is_mine ? n.beta[c] : 0.0f;
    if (!n.is_given) add_pieces<V>(g, n.partial, sums);
    if (is_mine) {
        double mean, var;
        if (n.is_given) {
            mean = (double)n.mean[c];
            var = (double)n.var[c];
        } else {
            mean = shift + sums[x] / count;
            var = (sums[across + x] - sums[x] * sums[x] / count) / count;
            if (var < 0.0) var = 0.0;
        }
        const double inv_std = 1.0 / sqrt(var + (double)n.eps);
        tile->mean[x] = (float)mean;
        tile->scale[x] = (float)((double)gamma * inv_std);
        tile->beta[x] = beta;
        if (blockIdx.x == 0 && !n.is_given) {
            n.mean[c] = (float)mean;
            n.var[c] = (float)var;
            n.stats[c] = (float)mean;
            n.stats[g.c + c] = (float)inv_std;
            n.stats[2 * g.c + c] = (float)((double)gamma * inv_std);
            n.stats[3 * g.c + c] = beta;
        }
    }
    __syncthreads();
}

/* What y is computed as, everywhere: backward finds relu's mask by it. */
static __device__ __forceinline__ float normalised(float x, float mean, float scale, float beta)
{
    return fmaf(x - mean, scale, beta);
}

template <class T, int V>
static __device__ __forceinline__ void apply(const struct ls_cuda_last_norm &n, const struct cover &g,
                                             const struct walk &w, const struct per_tile &tile)
{
    const struct floats<V> mean = of_tile<V>(tile.mean, g), scale = of_tile<V>(tile.scale, g),
                           beta = of_tile<V>(tile.beta, g);
    if (n.other) {
        each_pair<T, V, AHEAD_TWO>(
            w, n.src, n.other, [&](int64_t i, struct floats<V> x, const struct floats<V> &other) {
                unsigned positive = 0;
#pragma unroll
                for (int k = 0; k < V; k++) {
                    const float y = normalised(x.v[k], mean.v[k], scale.v[k], beta.v[k]) + other.v[k];
                    positive |= (y > 0.0f ? 1u : 0u) << k;
                    x.v[k] = n.relu ? relu1(y) : y;
                }
                put<T, V>(n.dst, i, x);
                if (n.mask) n.mask[i] = (uint8_t)positive;
            });
        return;
    }
    each_row<T, V, AHEAD_ONE>(w, n.src, [&](int64_t i, struct floats<V> x) {
#pragma unroll
        for (int k = 0; k < V; k++) {
            const float y = normalised(x.v[k], mean.v[k], scale.v[k], beta.v[k]);
            x.v[k] = n.relu ? relu1(y) : y;
        }
        put<T, V>(n.dst, i, x);
    });
}

template <class T, int V>
static __global__ void __launch_bounds__(SUM_THREADS, 1) norm(struct ls_cuda_last_norm n, struct cover g, int phases)
{
    __shared__ struct per_tile tile;
    const struct walk w = walk_of<V>(g);
    if (phases & SUMS) sum_values<T, V>(n, g, w);
    if (phases == BOTH) meet(n.tickets);
    if (!(phases & APPLY)) return;
    make_stats<T, V>(n, g, &tile);
    apply<T, V>(n, g, phases == BOTH ? reversed(w) : w, tile);
}

/* --- backward --- */

template <int V>
static __device__ __forceinline__ void mask(struct floats<V> *d, const struct floats<V> &x,
                                            const struct floats<V> &mean, const struct floats<V> &scale,
                                            const struct floats<V> &beta)
{
#pragma unroll
    for (int k = 0; k < V; k++)
        if (!(normalised(x.v[k], mean.v[k], scale.v[k], beta.v[k]) > 0.0f)) d->v[k] = 0.0f;
}

template <int V> struct slopes {
    float dy[V], dy_x[V];
};

template <int V>
static __device__ __forceinline__ void add_slopes(struct slopes<V> *s, const struct floats<V> &d,
                                                  const struct floats<V> &x, const struct floats<V> &mean)
{
#pragma unroll
    for (int k = 0; k < V; k++) {
        s->dy[k] += d.v[k];
        s->dy_x[k] = fmaf(d.v[k], x.v[k] - mean.v[k], s->dy_x[k]);
    }
}

/* The gradient behind the relu is written and, as it was rounded, summed. */
template <class T, int V>
static __device__ __forceinline__ void sum_other(const struct ls_cuda_last_norm_bwd &n, const struct walk &w,
                                                 const struct floats<V> &mean, struct slopes<V> *sums)
{
    for (int r = 0; r < w.n; r += AHEAD_THREE) {
        const int64_t first = w.first + r * w.step;
        struct stored<T, V> x[AHEAD_THREE], d[AHEAD_THREE], more[AHEAD_THREE];
        uint8_t positive[AHEAD_THREE];
#pragma unroll
        for (int u = 0; u < AHEAD_THREE; u++)
            if (r + u < w.n) {
                x[u] = fetch<T, V>(n.src, first + u * w.step);
                d[u] = fetch<T, V>(n.diff_dst, first + u * w.step);
                if (n.diff_more) more[u] = fetch<T, V>(n.diff_more, first + u * w.step);
                positive[u] = n.mask ? n.mask[first + u * w.step] : 0xff;
            }
#pragma unroll
        for (int u = 0; u < AHEAD_THREE; u++)
            if (r + u < w.n) {
#pragma unroll
                for (int k = 0; k < V; k++) {
                    if (n.diff_more) d[u].v[k] = narrow<T>(widen(d[u].v[k]) + widen(more[u].v[k]));
                    if (!(positive[u] >> k & 1)) d[u].v[k] = narrow<T>(0.0f);
                }
                reinterpret_cast<struct stored<T, V> *>(n.diff_other)[first + u * w.step] = d[u];
                add_slopes<V>(sums, widened(d[u]), widened(x[u]), mean);
            }
    }
}

template <class T, int V, bool HAS_OTHER>
static __device__ __forceinline__ void sum_slopes(const struct ls_cuda_last_norm_bwd &n, const struct cover &g,
                                                  const struct walk &w)
{
    struct slopes<V> sums = {
    };
    if (w.n > 0) {
        const struct floats<V> mean = per_channel<V>(n.stats, w.channel);
        if (HAS_OTHER) {
            sum_other<T, V>(n, w, mean, &sums);
        } else {
            const struct floats<V> scale = per_channel<V>(n.stats + 2 * g.c, w.channel),
                                   beta = per_channel<V>(n.stats + 3 * g.c, w.channel);
            each_pair<T, V, AHEAD_TWO>(w, n.src, n.diff_dst,
                                       [&](int64_t, const struct floats<V> &x, struct floats<V> d) {
                                           if (n.relu) mask(&d, x, mean, scale, beta);
                                           add_slopes<V>(&sums, d, x, mean);
                                       });
        }
    }
    write_piece<V>(g, sums.dy, sums.dy_x, n.partial);
}

template <int V>
static __device__ void make_slopes(const struct ls_cuda_last_norm_bwd &n, const struct cover &g, struct per_tile *tile)
{
    __shared__ double sums[2 * MAX_ACROSS];
    const int across = g.tx * V, x = (int)threadIdx.x, c = (int)blockIdx.y * across + x;
    const bool is_mine = x < across && c < g.c;
    const double inv_std = is_mine ? (double)n.stats[g.c + c] : 0.0, count = (double)g.rows;
    if (is_mine) {
        tile->mean[x] = n.stats[c];
        tile->scale[x] = n.stats[2 * g.c + c];
        tile->beta[x] = n.stats[3 * g.c + c];
    }
    add_pieces<V>(g, n.partial, sums);
    if (is_mine) {
        const double dy = sums[x], dy_x = sums[across + x];
        tile->mean_dy[x] = (float)(dy / count);
        tile->slope[x] = (float)(dy_x * inv_std * inv_std / count);
        if (blockIdx.x == 0 && n.diff_gamma) n.diff_gamma[c] = (float)(dy_x * inv_std);
        if (blockIdx.x == 0 && n.diff_beta) n.diff_beta[c] = (float)dy;
    }
    __syncthreads();
}

template <class T, int V, bool HAS_OTHER>
static __device__ __forceinline__ void apply_bwd(const struct ls_cuda_last_norm_bwd &n, const struct cover &g,
                                                 const struct walk &w, const struct per_tile &tile)
{
    const struct floats<V> mean = of_tile<V>(tile.mean, g), scale = of_tile<V>(tile.scale, g),
                           beta = of_tile<V>(tile.beta, g), mean_dy = of_tile<V>(tile.mean_dy, g),
                           slope = of_tile<V>(tile.slope, g);
    each_pair<T, V, AHEAD_TWO>(
        w, n.src, HAS_OTHER ? n.diff_other : n.diff_dst, [&](int64_t i, const struct floats<V> &x, struct floats<V> d) {
            if (!HAS_OTHER && n.relu) mask(&d, x, mean, scale, beta);
#pragma unroll
            for (int k = 0; k < V; k++)
                d.v[k] = scale.v[k] * fmaf(mean.v[k] - x.v[k], slope.v[k], d.v[k] - mean_dy.v[k]);
            put<T, V>(n.diff_src, i, d);
        });
}

template <class T, int V, bool HAS_OTHER>
static __global__ void __launch_bounds__(SUM_THREADS, 1)
    norm_bwd(struct ls_cuda_last_norm_bwd n, struct cover g, int phases)
{
    __shared__ struct per_tile tile;
    const struct walk w = walk_of<V>(g);
    if (phases & SUMS) sum_slopes<T, V, HAS_OTHER>(n, g, w);
    if (phases == BOTH) meet(n.tickets);
    if (!(phases & APPLY)) return;
    make_slopes<V>(n, g, &tile);
    apply_bwd<T, V, HAS_OTHER>(n, g, phases == BOTH ? reversed(w) : w, tile);
}

/* --- launching --- */

/* Whether a grid of this kernel is on the card as a whole. */
template <class K> static bool fits(K *kernel, dim3 grid)
{
    int device = 0, processors = 0, per_processor = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return false;
    if (cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) return false;
    if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, kernel, SUM_THREADS, 0) != cudaSuccess)
        return false;
    return grid.x * grid.y <= (unsigned)(processors * per_processor);
}

template <class A>
static cudaError_t run(cudaStream_t stream, void (*kernel)(A, struct cover, int), A a, struct cover g, int v)
{
    int both = BOTH;
    void *arguments[] = {&a, &g, &both};
    const dim3 grid = grid_of(g, v, BLOCKS, MIN_ROWS);
    if (fits(kernel, grid)) return cudaLaunchCooperativeKernel(kernel, grid, dim3(SUM_THREADS), arguments, 0, stream);
    kernel<<<grid, SUM_THREADS, 0, stream>>>(a, g, SUMS);
    kernel<<<grid, SUM_THREADS, 0, stream>>>(a, g, APPLY);
    return cudaGetLastError();
}

extern "C" cudaError_t ls__cuda_run_last_norm(cudaStream_t stream, enum ls_cuda_type type, struct ls_cuda_last_norm a,
                                              struct ls_cuda_rows n)
{
#define CALL(T, V)                                                                                                     \
    const struct cover g = cover_of(n, V, SUM_THREADS);                                                                \
    if (!a.is_given) return run(stream, norm<T, V>, a, g, V);                                                          \
    norm<T, V><<<grid_of(g, V, BLOCKS, MIN_ROWS), SUM_THREADS, 0, stream>>>(a, g, APPLY);
    BY_TYPE(type, n.c, CALL)
#undef CALL
    return cudaGetLastError();
}

extern "C" cudaError_t ls__cuda_run_last_norm_bwd(cudaStream_t stream, enum ls_cuda_type type,
                                                  struct ls_cuda_last_norm_bwd a, struct ls_cuda_rows n)
{
#define CALL(T, V)                                                                                                     \
    const struct cover g = cover_of(n, V, SUM_THREADS);                                                                \
    return run(stream, a.diff_other ? norm_bwd<T, V, true> : norm_bwd<T, V, false>, a, g, V);
    BY_TYPE(type, n.c, CALL)
#undef CALL
    return cudaGetLastError();
}

size_t ls__cuda_last_mask_bytes(enum ls_cuda_type type, struct ls_cuda_rows n)
{
#define CALL(T, V) return (size_t)n.rows * (size_t)n.c / V;
    BY_TYPE(type, n.c, CALL)
#undef CALL
}
