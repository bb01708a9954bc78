/* last_norm.cu: batch norm and its gradient, rows of channels, channels last; also with something added before the
 * relu, whose gradient is then made on the way.
 *
 * Two kernels each way: the blocks sum their rows and write the sums down; then each block of the second one adds up
 * what all blocks of its tile wrote, in the order of the pieces, in double, and goes over its rows again. Values are
 * taken relative to the first row, so that variance does not cancel when the mean is large. Either kernel may
 * come onto the card while the one before it still runs; it waits for that one before it reads what it made.
 */
#include "backend/cuda/kernels/last.cuh"

enum { BLOCKS = 132 }; /* one for each multiprocessor of a Hopper; a constant: orders depend on it */
enum { AHEAD_ONE = 4, AHEAD_TWO = 4, AHEAD_THREE = 3 }; /* rows, of so many tensors */

/* What the second kernel needs of every channel of the tile, in shared memory. */
struct per_tile {
    float mean[MAX_ACROSS], scale[MAX_ACROSS], beta[MAX_ACROSS], mean_dy[MAX_ACROSS], slope[MAX_ACROSS];
};

template <int V> static __device__ __forceinline__ struct floats<V> of_tile(const float *x, const struct cover &g) {
    return per_channel<V>(x, (int)threadIdx.x % g.tx * V);
}

/* --- kernels that come early --- */

static __device__ __forceinline__ void
let_next_come(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/* Until the kernel before is done and all that it wrote is there. */
static __device__ __forceinline__ void await_last(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* --- forward --- */

template <class T, int V>
static __global__ void __launch_bounds__(SUM_THREADS, 1) norm_sums(struct ls_cuda_last_norm n, struct cover g)
{
    const struct walk w = walk_of<V>(g);
    float a[V] = {}, b[V] = {};
    await_last();
    let_next_come(); /* not before: the next one reads src too */
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
    const double shift = is_mine && !n.is_given ? (double)widen(((const T *)n.src)[c]) : 0.0;
    const float gamma = is_mine ? n.gamma[c] : 0.0f, beta = is_mine ? n.beta[c] : 0.0f;
    if (!n.is_given) {
        await_last();
        add_pieces<V>(g, n.partial, sums);
    }
    if (is_mine) {
        double mean, var;
        if (n.is_given) {
            mean = (double)n.mean[c];
            var = (double)n.var[c];
        } else {
            const double d = sums[x] * g.per_row;
            mean = shift + d;
            var = sums[across + x] * g.per_row - d * d;
            if (var < 0.0) var = 0.0;
        }
        const double inv_std = rsqrt(var + (double)n.eps);
        tile->mean[x] = (float)mean;
        tile->scale[x] = (float)((double)gamma * inv_std);
        tile->beta[x] = beta;
        if (blockIdx.x == 0 && !n.is_given) {
            n.mean[c] = (float)mean;
            n.var[c] = (float)var;
            n.stats[c] = (float)mean;
            n.stats[g.c + c] = (float)inv_std;
            n.stats[2 * g.c + c] = (float)((double)gamma * inv_std);
        }
    }
    __syncthreads();
}

/* y, behind the relu, becomes dst; where it is positive is remembered for backward. */
template <class T, int V>
static __device__ __forceinline__ void finish_row(const struct ls_cuda_last_norm &n, int64_t i, struct floats<V> y)
{
    if (n.relu) {
        unsigned positive = 0;
#pragma unroll
        for (int k = 0; k < V; k++) {
            positive |= (y.v[k] > 0.0f ? 1u : 0u) << k;
            y.v[k] = relu1(y.v[k]);
        }
        if (n.mask) n.mask[i] = (uint8_t)positive;
    }
    put<T, V>(n.dst, i, y);
}

template <class T, int V, bool HAS_OTHER>
static __device__ __forceinline__ void apply(const struct ls_cuda_last_norm &n, const struct cover &g,
                                             const struct walk &w, const struct per_tile &tile)
{
    const struct floats<V> mean = of_tile<V>(tile.mean, g), scale = of_tile<V>(tile.scale, g),
                           beta = of_tile<V>(tile.beta, g);
    const auto normalise = [&](struct floats<V> x) {
#pragma unroll
        for (int k = 0; k < V; k++) x.v[k] = fmaf(x.v[k] - mean.v[k], scale.v[k], beta.v[k]);
        return x;
    };
    if (HAS_OTHER)
        each_pair<T, V, AHEAD_TWO>(w, n.src, n.other,
                                   [&](int64_t i, struct floats<V> x, const struct floats<V> &other) {
                                       x = normalise(x);
#pragma unroll
                                       for (int k = 0; k < V; k++) x.v[k] += other.v[k];
                                       finish_row<T, V>(n, i, x);
                                   });
    else
        each_row<T, V, AHEAD_ONE>(w, n.src,
                                  [&](int64_t i, const struct floats<V> &x) { finish_row<T, V>(n, i, normalise(x)); });
}

template <class T, int V, bool HAS_OTHER>
static __global__ void __launch_bounds__(SUM_THREADS, 1) norm_apply(struct ls_cuda_last_norm n, struct cover g)
{
    __shared__ struct per_tile tile;
    make_stats<T, V>(n, g, &tile);
    apply<T, V, HAS_OTHER>(n, g, walk_of<V>(g), tile);
}

/* --- backward --- */

template <class T, int V> static __device__ __forceinline__ void mask(struct stored<T, V> *d, unsigned positive)
{
#pragma unroll
    for (int k = 0; k < V; k++)
        if (!(positive >> k & 1)) d->v[k] = narrow<T>(0.0f);
}

/* f(i, x, d) for every row, d being diff masked; no mask: as it is. */
template <class T, int V, class F>
static __device__ __forceinline__ void each_masked(const struct walk &w, const void *src, const void *diff,
                                                   const uint8_t *positive, F f)
{
    for (int r = 0; r < w.n; r += AHEAD_TWO) {
        const int64_t i = w.first + r * w.step;
        struct held<T, V> x[AHEAD_TWO], diffs[AHEAD_TWO];
        unsigned p[AHEAD_TWO];
#pragma unroll
        for (int u = 0; u < AHEAD_TWO; u++)
            if (r + u < w.n) {
                x[u] = hold<T, V>(src, i + u * w.step);
                diffs[u] = hold<T, V>(diff, i + u * w.step);
                p[u] = positive ? positive[i + u * w.step] : 0xffu;
            }
#pragma unroll
        for (int u = 0; u < AHEAD_TWO; u++)
            if (r + u < w.n) {
                struct stored<T, V> d = unpack(diffs[u]);
                mask<T, V>(&d, p[u]);
                f(i + u * w.step, widened(unpack(x[u])), widened(d));
            }
    }
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

/* Both parts of the gradient, behind the relu, are written and, as they were rounded, summed. */
template <class T, int V>
static __device__ __forceinline__ void sum_other(const struct ls_cuda_last_norm_bwd &n, const struct walk &w,
                                                 const struct floats<V> &mean, struct slopes<V> *sums)
{
    for (int r = 0; r < w.n; r += AHEAD_THREE) {
        const int64_t i = w.first + r * w.step;
        struct held<T, V> x[AHEAD_THREE], diffs[AHEAD_THREE], more[AHEAD_THREE];
        unsigned p[AHEAD_THREE];
#pragma unroll
        for (int u = 0; u < AHEAD_THREE; u++)
            if (r + u < w.n) {
                x[u] = hold<T, V>(n.src, i + u * w.step);
                diffs[u] = hold<T, V>(n.diff_dst, i + u * w.step);
                if (n.diff_more) more[u] = hold<T, V>(n.diff_more, i + u * w.step);
                p[u] = n.mask ? n.mask[i + u * w.step] : 0xffu;
            }
#pragma unroll
        for (int u = 0; u < AHEAD_THREE; u++)
            if (r + u < w.n) {
                struct stored<T, V> d = unpack(diffs[u]);
                if (n.diff_more) {
                    const struct stored<T, V> other = unpack(more[u]);
#pragma unroll
                    for (int k = 0; k < V; k++) d.v[k] = narrow<T>(widen(d.v[k]) + widen(other.v[k]));
                }
                mask<T, V>(&d, p[u]);
                reinterpret_cast<struct stored<T, V> *>(n.diff_other)[i + u * w.step] = d;
                add_slopes<V>(sums, widened(d), widened(unpack(x[u])), mean);
            }
    }
}

template <class T, int V, bool HAS_OTHER>
static __global__ void __launch_bounds__(SUM_THREADS, 1) norm_bwd_sums(struct ls_cuda_last_norm_bwd n, struct cover g)
{
    const struct walk w = walk_of<V>(g);
    struct slopes<V> sums = {
    };
    await_last();
    let_next_come(); /* not before: the next one reads src too */
    if (w.n > 0) {
        const struct floats<V> mean = per_channel<V>(n.stats, w.channel);
        if (HAS_OTHER)
            sum_other<T, V>(n, w, mean, &sums);
        else
            each_masked<T, V>(w, n.src, n.diff_dst, n.mask,
                              [&](int64_t, const struct floats<V> &x, const struct floats<V> &d) {
                                  add_slopes<V>(&sums, d, x, mean);
                              });
    }
    write_piece<V>(g, sums.dy, sums.dy_x, n.partial);
}

template <int V>
static __device__ void make_slopes(const struct ls_cuda_last_norm_bwd &n, const struct cover &g, struct per_tile *tile)
{
    __shared__ double sums[2 * MAX_ACROSS];
    const int across = g.tx * V, x = (int)threadIdx.x, c = (int)blockIdx.y * across + x;
    const bool is_mine = x < across && c < g.c;
    const double inv_std = is_mine ? (double)n.stats[g.c + c] : 0.0;
    if (is_mine) {
        tile->mean[x] = n.stats[c];
        tile->scale[x] = n.stats[2 * g.c + c];
    }
    await_last();
    add_pieces<V>(g, n.partial, sums);
    if (is_mine) {
        const double dy = sums[x], dy_x = sums[across + x] * inv_std;
        tile->mean_dy[x] = (float)(dy * g.per_row);
        tile->slope[x] = (float)(dy_x * inv_std * g.per_row);
        if (blockIdx.x == 0 && n.diff_gamma) n.diff_gamma[c] = (float)dy_x;
        if (blockIdx.x == 0 && n.diff_beta) n.diff_beta[c] = (float)dy;
    }
    __syncthreads();
}

template <class T, int V, bool HAS_OTHER>
static __device__ __forceinline__ void apply_bwd(const struct ls_cuda_last_norm_bwd &n, const struct cover &g,
                                                 const struct walk &w, const struct per_tile &tile)
{
    const struct floats<V> mean = of_tile<V>(tile.mean, g), scale = of_tile<V>(tile.scale, g),
                           mean_dy = of_tile<V>(tile.mean_dy, g), slope = of_tile<V>(tile.slope, g);
    each_masked<T, V>(w, n.src, HAS_OTHER ? n.diff_other : n.diff_dst, HAS_OTHER ? NULL : n.mask,
                      [&](int64_t i, const struct floats<V> &x, struct floats<V> d) {
#pragma unroll
                          for (int k = 0; k < V; k++)
                              d.v[k] = scale.v[k] * fmaf(mean.v[k] - x.v[k], slope.v[k], d.v[k] - mean_dy.v[k]);
                          put<T, V>(n.diff_src, i, d);
                      });
}

template <class T, int V, bool HAS_OTHER>
static __global__ void __launch_bounds__(SUM_THREADS, 1) norm_bwd_apply(struct ls_cuda_last_norm_bwd n, struct cover g)
{
    __shared__ struct per_tile tile;
    make_slopes<V>(n, g, &tile);
    apply_bwd<T, V, HAS_OTHER>(n, g, walk_of<V>(g), tile);
}

/* --- launching --- */

/* Code for cards before Hopper does not wait, so it may not come early. */
template <class A>
static cudaError_t run_early(cudaStream_t stream, void (*kernel)(A, struct cover), const A &a, const struct cover &g,
                             dim3 grid)
{
    cudaFuncAttributes code = {};
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute early = {};
    const cudaError_t error = cudaFuncGetAttributes(&code, (const void *)kernel);
    if (error != cudaSuccess) return error;
    config.gridDim = grid;
    config.blockDim = dim3(SUM_THREADS);
    config.stream = stream;
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &early;
    config.numAttrs = code.ptxVersion >= 90 ? 1 : 0;
    return cudaLaunchKernelEx(&config, kernel, a, g);
}

template <class T, int V, bool HAS_OTHER>
static cudaError_t run(cudaStream_t stream, const struct ls_cuda_last_norm &a, const struct cover &g)
{
    const dim3 grid = grid_of(g, V, BLOCKS, 1);
    if (a.is_given) {
        norm_apply<T, V, HAS_OTHER><<<grid, SUM_THREADS, 0, stream>>>(a, g);
        return cudaGetLastError();
    }
    const cudaError_t error = run_early(stream, norm_sums<T, V>, a, g, grid);
    if (error != cudaSuccess) return error;
    return run_early(stream, norm_apply<T, V, HAS_OTHER>, a, g, grid);
}

extern "C" cudaError_t ls__cuda_run_last_norm(cudaStream_t stream, enum ls_cuda_type type, struct ls_cuda_last_norm a,
                                              struct ls_cuda_rows n)
{
#define CALL(T, V) return (a.other ? run<T, V, true> : run<T, V, false>)(stream, a, cover_of(n, V, SUM_THREADS));
    BY_TYPE(type, n.c, CALL)
#undef CALL
}

template <class T, int V, bool HAS_OTHER>
static cudaError_t run_bwd(cudaStream_t stream, const struct ls_cuda_last_norm_bwd &a, const struct cover &g)
{
    const dim3 grid = grid_of(g, V, BLOCKS, 1);
    const cudaError_t error = run_early(stream, norm_bwd_sums<T, V, HAS_OTHER>, a, g, grid);
    if (error != cudaSuccess) return error;
    return run_early(stream, norm_bwd_apply<T, V, HAS_OTHER>, a, g, grid);
}

extern "C" cudaError_t ls__cuda_run_last_norm_bwd(cudaStream_t stream, enum ls_cuda_type type,
                                                  struct ls_cuda_last_norm_bwd a, struct ls_cuda_rows n)
{
#define CALL(T, V)                                                                                                     \
    return (a.diff_other ? run_bwd<T, V, true> : run_bwd<T, V, false>)(stream, a, cover_of(n, V, SUM_THREADS));
    BY_TYPE(type, n.c, CALL)
#undef CALL
}

size_t ls__cuda_last_mask_bytes(enum ls_cuda_type type, struct ls_cuda_rows n)
{
#define CALL(T, V) return (size_t)n.rows * (size_t)n.c / V;
    BY_TYPE(type, n.c, CALL)
#undef CALL
}
