/* last.cu: rows of channels, channels last: bias, sums over the rows, batch norm.
 *
 * A block has tx threads across the channels, V channels each, and ty rows at a time; a thread keeps its channels and
 * walks down the rows, so what belongs to a channel is read once. Sums: every block writes those of its rows, and the
 * last block to come adds them up in their order, in double: which block that is changes nothing. Values are taken
 * relative to the first row, so that variance does not cancel when the mean is large.
 */
#include "backend/cuda/kernels/typed.cuh"

/* Sums have larger blocks: fewer of them, and more threads for the last one to add up what the others wrote. */
enum { SUM_THREADS = 512, SUM_BLOCKS = 264, SUM_ROWS = 4, MIN_ROWS = 8, APPLY_BLOCKS = 2048 };

/* How a grid covers the rows: tiles of channels (blockIdx.y), pieces of rows (blockIdx.x). */
struct cover {
    int64_t rows;
    int c, tx, ty;
};

/* Tiles are a line of memory wide: more tiles have more last blocks. tx is a power of two, so that a warp's rows can be
 * added by shuffles; lanes beyond the channels idle. */
static struct cover cover_of(struct ls_cuda_rows n, int v, int threads)
{
    const int wide = n.c / v, tile = v == 1 ? 32 : 8;
    struct cover g;
    g.rows = n.rows;
    g.c = n.c;
    g.tx = 1;
    while (g.tx < wide && g.tx < tile) g.tx *= 2;
    g.ty = threads / g.tx;
    return g;
}

static dim3 grid_of(const struct cover &g, int v, int max_blocks, int min_rows)
{
    const int64_t pieces = (g.rows + (int64_t)g.ty * min_rows - 1) / ((int64_t)g.ty * min_rows);
    const int tiles = (g.c / v + g.tx - 1) / g.tx, max_pieces = tiles < max_blocks ? max_blocks / tiles : 1;
    return dim3((unsigned)(pieces < 1 ? 1 : pieces < max_pieces ? pieces : max_pieces), (unsigned)tiles);
}

/* What one thread goes through. */
struct walk {
    int channel; /* its first; c or more: none */
    int64_t row, end;
};

template <int V> static __device__ __forceinline__ struct walk walk_of(const struct cover &g)
{
    struct walk w;
    const int x = (int)threadIdx.x % g.tx, y = (int)threadIdx.x / g.tx;
    const int64_t pieces = gridDim.x, length = (g.rows + pieces - 1) / pieces, begin = (int64_t)blockIdx.x * length;
    w.channel = ((int)blockIdx.y * g.tx + x) * V;
    w.row = begin + y;
    w.end = begin + length < g.rows ? begin + length : g.rows;
    return w;
}

template <int V> static __device__ __forceinline__ struct floats<V> per_channel(const float *x, int channel) {
    struct floats<V> f;
#pragma unroll
    for (int k = 0; k < V; k++) f.v[k] = x[channel + k];
    return f;
}

/* f(i, x) for every row, i counting V elements each; AHEAD rows are read before the first is used. */
enum {
    AHEAD = 4
};
template <class T, int V, class F>
static __device__ __forceinline__ void each_row(const struct cover &g, const struct walk &w, const void *x, F f)
{
    const int64_t step = (int64_t)g.ty * g.c / V;
    int64_t r = w.row, i = (w.row * g.c + w.channel) / V;
    for (; r + (AHEAD - 1) * g.ty < w.end; r += AHEAD * g.ty, i += AHEAD * step) {
        struct stored<T, V> s[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; u++) s[u] = fetch<T, V>(x, i + u * step);
#pragma unroll
        for (int u = 0; u < AHEAD; u++) f(i + u * step, widened(s[u]));
    }
    for (; r < w.end; r += g.ty, i += step) f(i, get<T, V>(x, i));
}

/* f(i, x, y) likewise. */
template <class T, int V, class F>
static __device__ __forceinline__ void each_pair(const struct cover &g, const struct walk &w, const void *x,
                                                 const void *y, F f)
{
    const int64_t step = (int64_t)g.ty * g.c / V;
    int64_t r = w.row, i = (w.row * g.c + w.channel) / V;
    for (; r + (AHEAD - 1) * g.ty < w.end; r += AHEAD * g.ty, i += AHEAD * step) {
        struct stored<T, V> s[AHEAD], t[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            s[u] = fetch<T, V>(x, i + u * step);
            t[u] = fetch<T, V>(y, i + u * step);
        }
#pragma unroll
        for (int u = 0; u < AHEAD; u++) f(i + u * step, widened(s[u]), widened(t[u]));
    }
    for (; r < w.end; r += g.ty, i += step) f(i, get<T, V>(x, i), get<T, V>(y, i));
}

/* --- elementwise --- */

template <class T, int V>
static __global__ void bias_add(const void *src, const float *bias, void *dst, struct cover g, bool has_relu)
{
    const struct walk w = walk_of<V>(g);
    if (w.channel >= g.c) return;
    struct floats<V> b = {
    };
    if (bias) b = per_channel<V>(bias, w.channel);
    each_row<T, V>(g, w, src, [=](int64_t i, struct floats<V> x) {
        for (int k = 0; k < V; k++) {
            const float y = x.v[k] + b.v[k];
            x.v[k] = has_relu ? relu1(y) : y;
        }
        put<T, V>(dst, i, x);
    });
}

extern "C" cudaError_t ls__cuda_run_last_bias(cudaStream_t stream, enum ls_cuda_type type, const void *src,
                                              const float *bias, void *dst, struct ls_cuda_rows n, bool relu)
{
#define CALL(T, V)                                                                                                     \
    const struct cover g = cover_of(n, V, THREADS);                                                                    \
    bias_add<T, V><<<grid_of(g, V, APPLY_BLOCKS, MIN_ROWS), THREADS, 0, stream>>>(src, bias, dst, g, relu);
    BY_TYPE(type, n.c, CALL)
#undef CALL
    return cudaGetLastError();
}

/* --- sums of two numbers per channel --- */

size_t ls__cuda_last_partial_bytes(struct ls_cuda_rows n)
{
    return 2 * (size_t)SUM_BLOCKS * (size_t)n.c * sizeof(float);
}

int ls__cuda_last_n_tickets(struct ls_cuda_rows n)
{
    return (n.c + 7) / 8; /* tiles have 8 channels at least, but for the last */
}

/* This block's two sums per channel: a[V], b[V] of every thread, added over the rows. partial: [pieces][2][c] */
template <int V> static __device__ void write_piece(const struct cover &g, float a[V], float b[V], float *partial)
{
    __shared__ float shared[2][SUM_THREADS / WARP][WARP * V];
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
    const int first = (int)blockIdx.y * across;
    for (int i = (int)threadIdx.x; i < 2 * across; i += SUM_THREADS) {
        const int which = i / across, c = i % across;
        if (first + c >= g.c) continue;
        float sum = 0.0f;
#pragma unroll
        for (int r = 0; r < SUM_THREADS / WARP; r++) sum += shared[which][r][c];
        partial[((int64_t)blockIdx.x * 2 + which) * g.c + first + c] = sum;
    }
}

/* Whether all other blocks of this tile are done. */
static __device__ bool is_last_block(unsigned *tickets)
{
    __shared__ bool is_last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned ticket = atomicAdd(&tickets[blockIdx.y], 1u);
        is_last = ticket == gridDim.x - 1;
        if (is_last) tickets[blockIdx.y] = 0;
    }
    __syncthreads();
    __threadfence();
    return is_last;
}

/* The tile's sums, in the order of the pieces, handed to finish(channel, a, b). Several threads share a channel's
 * pieces. */
template <int V, class F> static __device__ void finish_tile(const struct cover &g, const float *partial, F finish)
{
    __shared__ double shared[2][SUM_THREADS];
    const int across = g.tx * V, first = (int)blockIdx.y * across, pieces = (int)gridDim.x;
    const int share = SUM_THREADS / across, c = (int)threadIdx.x % across, part = (int)threadIdx.x / across;
    const bool is_there = first + c < g.c;
    double a = 0.0, b = 0.0;
    if (is_there)
#pragma unroll 16
        for (int p = part; p < pieces; p += share) {
            a += (double)__ldcg(&partial[((int64_t)p * 2) * g.c + first + c]);
            b += (double)__ldcg(&partial[((int64_t)p * 2 + 1) * g.c + first + c]);
        }
    shared[0][threadIdx.x] = a;
    shared[1][threadIdx.x] = b;
    __syncthreads();
    if (part > 0 || !is_there) return;
    for (int k = 1; k < share; k++) {
        a += shared[0][c + k * across];
        b += shared[1][c + k * across];
    }
    finish(first + c, a, b);
}

template <class T, int V>
static __global__ void __launch_bounds__(SUM_THREADS)
    channel_sums(const void *x, float *sums, float *partial, unsigned *tickets, struct cover g)
{
    const struct walk w = walk_of<V>(g);
    float a[V] = {}, b[V] = {};
    if (w.channel < g.c)
        each_row<T, V>(g, w, x, [&](int64_t, const struct floats<V> &v) {
            for (int k = 0; k < V; k++) a[k] += v.v[k];
        });
    write_piece<V>(g, a, b, partial);
    if (!is_last_block(tickets)) return;
    finish_tile<V>(g, partial, [=](int c, double sum, double) { sums[c] = (float)sum; });
}

extern "C" cudaError_t ls__cuda_run_last_sums(cudaStream_t stream, enum ls_cuda_type type, const void *x, float *sums,
                                              float *partial, unsigned *tickets, struct ls_cuda_rows n)
{
#define CALL(T, V)                                                                                                     \
    const struct cover g = cover_of(n, V, SUM_THREADS);                                                                \
    channel_sums<T, V><<<grid_of(g, V, SUM_BLOCKS, SUM_ROWS), SUM_THREADS, 0, stream>>>(x, sums, partial, tickets, g);
    BY_TYPE(type, n.c, CALL)
#undef CALL
    return cudaGetLastError();
}

/* --- batch norm --- */

static __device__ __forceinline__ void keep(const struct ls_cuda_last_norm &a, int c, int n_channels, double mean,
                                            double var)
{
    const double inv_std = 1.0 / sqrt(var + (double)a.eps);
    a.stats[c] = (float)mean;
    a.stats[n_channels + c] = (float)inv_std;
    a.stats[2 * n_channels + c] = (float)((double)a.gamma[c] * inv_std);
    a.stats[3 * n_channels + c] = a.beta[c];
}

template <class T, int V>
static __global__ void __launch_bounds__(SUM_THREADS) norm_stats(struct ls_cuda_last_norm n, struct cover g)
{
    const struct walk w = walk_of<V>(g);
    float a[V] = {}, b[V] = {};
    if (w.channel < g.c) {
        const struct floats<V> shift = get<T, V>(n.src, w.channel / V);
        each_row<T, V>(g, w, n.src, [&](int64_t, const struct floats<V> &x) {
            for (int k = 0; k < V; k++) {
                const float d = x.v[k] - shift.v[k];
                a[k] += d;
                b[k] = fmaf(d, d, b[k]);
            }
        });
    }
    write_piece<V>(g, a, b, n.partial);
    if (!is_last_block(n.tickets)) return;
    const double count = (double)g.rows;
    finish_tile<V>(g, n.partial, [=](int c, double sum, double squares) {
        const double mean = (double)widen(((const T *)n.src)[c]) + sum / count;
        double var = (squares - sum * sum / count) / count;
        if (var < 0.0) var = 0.0;
        n.mean[c] = (float)mean;
        n.var[c] = (float)var;
        keep(n, c, g.c, mean, var);
    });
}

static __global__ void given_stats(struct ls_cuda_last_norm a, int n_channels)
{
    FOR_EACH(c, n_channels) keep(a, (int)c, n_channels, (double)a.mean[c], (double)a.var[c]);
}

/* What y is computed as, everywhere: backward finds relu's mask by it. */
static __device__ __forceinline__ float normalised(float x, float mean, float scale, float beta)
{
    return fmaf(x - mean, scale, beta);
}

template <class T, int V> static __global__ void norm_apply(struct ls_cuda_last_norm a, struct cover g)
{
    const struct walk w = walk_of<V>(g);
    if (w.channel >= g.c) return;
    const struct floats<V> mean = per_channel<V>(a.stats, w.channel),
                           scale = per_channel<V>(a.stats + 2 * g.c, w.channel),
                           beta = per_channel<V>(a.stats + 3 * g.c, w.channel);
    each_row<T, V>(g, w, a.src, [=](int64_t i, struct floats<V> x) {
        for (int k = 0; k < V; k++) {
            const float y = normalised(x.v[k], mean.v[k], scale.v[k], beta.v[k]);
            x.v[k] = a.relu ? relu1(y) : y;
        }
        put<T, V>(a.dst, i, x);
    });
}

extern "C" cudaError_t ls__cuda_run_last_norm(cudaStream_t stream, enum ls_cuda_type type, struct ls_cuda_last_norm a,
                                              struct ls_cuda_rows n, bool is_given)
{
    if (is_given) given_stats<<<blocks_for(n.c), THREADS, 0, stream>>>(a, n.c);
#define CALL(T, V)                                                                                                     \
    const struct cover g = cover_of(n, V, THREADS);                                                                    \
    const struct cover sums = cover_of(n, V, SUM_THREADS);                                                             \
    if (!is_given) norm_stats<T, V><<<grid_of(sums, V, SUM_BLOCKS, SUM_ROWS), SUM_THREADS, 0, stream>>>(a, sums);      \
    norm_apply<T, V><<<grid_of(g, V, APPLY_BLOCKS, MIN_ROWS), THREADS, 0, stream>>>(a, g);
    BY_TYPE(type, n.c, CALL)
#undef CALL
    return cudaGetLastError();
}

template <int V>
static __device__ __forceinline__ void mask(struct floats<V> *d, const struct floats<V> &x,
                                            const struct floats<V> &mean, const struct floats<V> &scale,
                                            const struct floats<V> &beta)
{
#pragma unroll
    for (int k = 0; k < V; k++)
        if (!(normalised(x.v[k], mean.v[k], scale.v[k], beta.v[k]) > 0.0f)) d->v[k] = 0.0f;
}

template <class T, int V>
static __global__ void __launch_bounds__(SUM_THREADS) norm_slopes(struct ls_cuda_last_norm_bwd n, struct cover g)
{
    const struct walk w = walk_of<V>(g);
    float a[V] = {}, b[V] = {};
    if (w.channel < g.c) {
        const struct floats<V> mean = per_channel<V>(n.stats, w.channel),
                               scale = per_channel<V>(n.stats + 2 * g.c, w.channel),
                               beta = per_channel<V>(n.stats + 3 * g.c, w.channel);
        each_pair<T, V>(g, w, n.src, n.diff_dst, [&](int64_t, const struct floats<V> &x, struct floats<V> d) {
            if (n.relu) mask(&d, x, mean, scale, beta);
            for (int k = 0; k < V; k++) {
                a[k] += d.v[k];
                b[k] = fmaf(d.v[k], x.v[k] - mean.v[k], b[k]);
            }
        });
    }
    write_piece<V>(g, a, b, n.partial);
    if (!is_last_block(n.tickets)) return;
    const double count = (double)g.rows;
    finish_tile<V>(g, n.partial, [=](int c, double dy, double dy_x) {
        const double inv_std = (double)n.stats[g.c + c];
        n.slopes[c] = (float)(dy / count);
        n.slopes[g.c + c] = (float)(dy_x * inv_std * inv_std / count);
        if (n.diff_gamma) n.diff_gamma[c] = (float)(dy_x * inv_std);
        if (n.diff_beta) n.diff_beta[c] = (float)dy;
    });
}

template <class T, int V> static __global__ void norm_apply_bwd(struct ls_cuda_last_norm_bwd n, struct cover g)
{
    const struct walk w = walk_of<V>(g);
    if (w.channel >= g.c) return;
    const struct floats<V> mean = per_channel<V>(n.stats, w.channel),
                           scale = per_channel<V>(n.stats + 2 * g.c, w.channel),
                           beta = per_channel<V>(n.stats + 3 * g.c, w.channel),
                           mean_dy = per_channel<V>(n.slopes, w.channel),
                           slope = per_channel<V>(n.slopes + g.c, w.channel);
    each_pair<T, V>(g, w, n.src, n.diff_dst, [=](int64_t i, const struct floats<V> &x, struct floats<V> d) {
        if (n.relu) mask(&d, x, mean, scale, beta);
        for (int k = 0; k < V; k++) d.v[k] = scale.v[k] * fmaf(mean.v[k] - x.v[k], slope.v[k], d.v[k] - mean_dy.v[k]);
        put<T, V>(n.diff_src, i, d);
    });
}

extern "C" cudaError_t ls__cuda_run_last_norm_bwd(cudaStream_t stream, enum ls_cuda_type type,
                                                  struct ls_cuda_last_norm_bwd a, struct ls_cuda_rows n)
{
#define CALL(T, V)                                                                                                     \
    const struct cover g = cover_of(n, V, THREADS);                                                                    \
    const struct cover sums = cover_of(n, V, SUM_THREADS);                                                             \
    norm_slopes<T, V><<<grid_of(sums, V, SUM_BLOCKS, SUM_ROWS), SUM_THREADS, 0, stream>>>(a, sums);                    \
    norm_apply_bwd<T, V><<<grid_of(g, V, APPLY_BLOCKS, MIN_ROWS), THREADS, 0, stream>>>(a, g);
    BY_TYPE(type, n.c, CALL)
#undef CALL
    return cudaGetLastError();
}
