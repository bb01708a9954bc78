/* channels.cu: sums over the samples and pixels of a channel, and batch norm, which is made of them.
 *
 * A channel's mb * hw values are cut into pieces, one block each; a second kernel adds the pieces in their order. Sums
 * are in double: batch norm's have a million terms and outlive the step. Variance comes from differences to the
 * channel's first value, so it does not cancel when the mean is large, and one pass over the data is enough.
 */
#include "backend/cuda/kernels/common.cuh"

enum { PIECE = 2048, MAX_PIECES = 256 };

extern "C" int64_t ls__cuda_channel_pieces(struct ls_cuda_nchw n)
{
    const int64_t pieces = (n.mb * n.hw + PIECE - 1) / PIECE;
    return pieces < 1 ? 1 : pieces < MAX_PIECES ? pieces : MAX_PIECES;
}

/* A walk over elements of a channel, THREADS apart, without a division at every step. */
struct walk {
    int64_t at, pixel; /* in memory; in the plane */
    int64_t hw, step_pixel, step_at, wrap_at;
};

static __device__ __forceinline__ struct walk walk_from(int64_t j, int64_t c, struct ls_cuda_nchw n)
{
    const struct divided d = divide(j, n.hw), step = divide(THREADS, n.hw);
    struct walk w;
    w.pixel = d.rest;
    w.at = (d.quotient * n.c + c) * n.hw + d.rest;
    w.hw = n.hw;
    w.step_pixel = step.rest;
    w.step_at = step.quotient * n.c * n.hw + step.rest;
    w.wrap_at = (n.c - 1) * n.hw; /* from the end of a plane to the channel's plane of the next sample */
    return w;
}

static __device__ __forceinline__ void walk_on(struct walk *w)
{
    w->pixel += w->step_pixel;
    w->at += w->step_at;
    if (w->pixel >= w->hw) {
        w->pixel -= w->hw;
        w->at += w->wrap_at;
    }
}

/* What is summed: two numbers per element. */
struct plain_sum {
    const float *x;
    __device__ void begin(int64_t c, struct ls_cuda_nchw n)
    {
    }
    __device__ void add(int64_t at, double *a, double *b) const
    {
        *a += (double)x[at];
    }
};

struct moments {
    const float *x;
    double shift;
    __device__ void begin(int64_t c, struct ls_cuda_nchw n)
    {
        shift = (double)x[c * n.hw];
    }
    __device__ void add(int64_t at, double *a, double *b) const
    {
        const double d = (double)x[at] - shift;
        *a += d;
        *b += d * d;
    }
};

static __device__ __forceinline__ double masked(const float *dst, const float *diff_dst, int64_t i)
{
    const double d = (double)diff_dst[i];
    return !dst || dst[i] > 0.0f ? d : 0.0;
}

struct gradient_sums {
    struct ls_cuda_batchnorm_bwd a;
    double mean;
    __device__ void begin(int64_t c, struct ls_cuda_nchw n)
    {
        mean = a.stats[c];
    }
    __device__ void add(int64_t at, double *dy, double *dy_x) const
    {
        const double d = masked(a.dst, a.diff_dst, at);
        *dy += d;
        *dy_x += d * ((double)a.src[at] - mean);
    }
};

/* partial [2][c][pieces]; grid: pieces, channels */
template <class T> static __global__ void sum_pieces(T what, double *partial, struct ls_cuda_nchw n)
{
    __shared__ double shared[THREADS / WARP];
    const int64_t piece = blockIdx.x, pieces = gridDim.x, count = n.mb * n.hw;
    const int64_t length = (count + pieces - 1) / pieces, begin = piece * length;
    const int64_t end = begin + length < count ? begin + length : count;
    for (int64_t c = blockIdx.y; c < n.c; c += gridDim.y) {
        double a = 0.0, b = 0.0;
        what.begin(c, n);
        struct walk w = walk_from(begin + threadIdx.x, c, n);
#pragma unroll 4
        for (int64_t j = begin + threadIdx.x; j < end; j += THREADS) {
            what.add(w.at, &a, &b);
            walk_on(&w);
        }
        a = block_sum(a, shared);
        b = block_sum(b, shared);
        if (threadIdx.x == 0) {
            partial[c * pieces + piece] = a;
            partial[(n.c + c) * pieces + piece] = b;
        }
    }
}

template <class T> static cudaError_t launch_pieces(cudaStream_t stream, T what, double *partial, struct ls_cuda_nchw n)
{
    const dim3 grid((unsigned)ls__cuda_channel_pieces(n), (unsigned)(n.c < 65535 ? n.c : 65535));
    sum_pieces<<<grid, THREADS, 0, stream>>>(what, partial, n);
    return cudaGetLastError();
}

/* Which: 0 or 1, the first or second number. */
static __device__ double gather(const double *partial, int which, int64_t c, int64_t pieces, int64_t n_channels)
{
    double sum = 0.0;
    for (int64_t p = 0; p < pieces; p++) sum += partial[(which * n_channels + c) * pieces + p];
    return sum;
}

static __global__ void finish_sums(const double *partial, float *sums, int64_t pieces, struct ls_cuda_nchw n)
{
    FOR_EACH(c, n.c) sums[c] = (float)gather(partial, 0, c, pieces, n.c);
}

extern "C" cudaError_t ls__cuda_run_channel_sums(cudaStream_t stream, const float *x, float *sums, double *partial,
                                                 struct ls_cuda_nchw n)
{
    const struct plain_sum what = {x};
    const cudaError_t error = launch_pieces(stream, what, partial, n);
    if (error != cudaSuccess) return error;
    finish_sums<<<blocks_for(n.c), THREADS, 0, stream>>>(partial, sums, ls__cuda_channel_pieces(n), n);
    return cudaGetLastError();
}

/* --- batch norm --- */

static __device__ __forceinline__ void keep_stats(double *stats, int64_t c, int64_t n_channels, double mean, double var,
                                                  float gamma, float eps)
{
    stats[c] = mean;
    stats[n_channels + c] = var;
    stats[2 * n_channels + c] = (double)gamma / sqrt(var + (double)eps);
}

static __global__ void finish_stats(const float *src, const float *gamma, const double *partial, float *mean,
                                    float *var, double *stats, int64_t pieces, struct ls_cuda_nchw n, float eps)
{
    const double count = (double)(n.mb * n.hw);
    FOR_EACH(c, n.c)
    {
        const double sum = gather(partial, 0, c, pieces, n.c), squares = gather(partial, 1, c, pieces, n.c);
        const double m = (double)src[c * n.hw] + sum / count;
        double v = (squares - sum * sum / count) / count;
        if (v < 0.0) v = 0.0;
        mean[c] = (float)m;
        var[c] = (float)v;
        keep_stats(stats, c, n.c, m, v, gamma[c], eps);
    }
}

extern "C" cudaError_t ls__cuda_run_batchnorm_stats(cudaStream_t stream, const float *src, const float *gamma,
                                                    float *mean, float *var, double *stats, double *partial,
                                                    struct ls_cuda_nchw n, float eps)
{
    const struct moments what = {src, 0.0};
    const cudaError_t error = launch_pieces(stream, what, partial, n);
    if (error != cudaSuccess) return error;
    finish_stats<<<blocks_for(n.c), THREADS, 0, stream>>>(src, gamma, partial, mean, var, stats,
                                                          ls__cuda_channel_pieces(n), n, eps);
    return cudaGetLastError();
}

static __global__ void given_stats(const float *gamma, const float *mean, const float *var, double *stats,
                                   int64_t n_channels, float eps)
{
    FOR_EACH(c, n_channels) keep_stats(stats, c, n_channels, (double)mean[c], (double)var[c], gamma[c], eps);
}

extern "C" cudaError_t ls__cuda_run_batchnorm_given(cudaStream_t stream, const float *gamma, const float *mean,
                                                    const float *var, double *stats, int64_t c, float eps)
{
    given_stats<<<blocks_for(c), THREADS, 0, stream>>>(gamma, mean, var, stats, c, eps);
    return cudaGetLastError();
}

template <int V>
static __global__ void apply(const float *src, const double *stats, const float *beta, float *dst,
                             struct ls_cuda_nchw n, bool has_relu)
{
    FOR_EACH(i, n.mb * n.c * n.hw / V)
    {
        const int64_t c = divide(divide(i, n.hw / V).quotient, n.c).rest;
        const double mean = stats[c], scale = stats[2 * n.c + c], shift = (double)beta[c];
        struct pack<V> x = load<V>(src, i);
        for (int k = 0; k < V; k++) {
            const float y = (float)(((double)x.v[k] - mean) * scale + shift);
            x.v[k] = has_relu ? relu1(y) : y;
        }
        store<V>(dst, i, x);
    }
}

extern "C" cudaError_t ls__cuda_run_batchnorm_apply(cudaStream_t stream, const float *src, const double *stats,
                                                    const float *beta, float *dst, struct ls_cuda_nchw n, bool relu)
{
    const int64_t count = n.mb * n.c * n.hw;
    if (n.hw % WIDE == 0)
        apply<WIDE><<<blocks_for(count / WIDE), THREADS, 0, stream>>>(src, stats, beta, dst, n, relu);
    else
        apply<1><<<blocks_for(count), THREADS, 0, stream>>>(src, stats, beta, dst, n, relu);
    return cudaGetLastError();
}

/* slopes [2][c]: mean of dy, mean of dy * xhat / std */
static __global__ void finish_slopes(struct ls_cuda_batchnorm_bwd a, int64_t pieces, struct ls_cuda_nchw n)
{
    const double count = (double)(n.mb * n.hw);
    FOR_EACH(c, n.c)
    {
        const double inv_std = 1.0 / sqrt(a.stats[n.c + c] + (double)a.eps);
        const double dy = gather(a.partial, 0, c, pieces, n.c), dy_x = gather(a.partial, 1, c, pieces, n.c);
        a.slopes[c] = dy / count;
        a.slopes[n.c + c] = dy_x * inv_std * inv_std / count;
        if (a.diff_gamma) a.diff_gamma[c] = (float)(dy_x * inv_std);
        if (a.diff_beta) a.diff_beta[c] = (float)dy;
    }
}

template <int V> static __global__ void apply_bwd(struct ls_cuda_batchnorm_bwd a, struct ls_cuda_nchw n)
{
    FOR_EACH(i, n.mb * n.c * n.hw / V)
    {
        const int64_t c = divide(divide(i, n.hw / V).quotient, n.c).rest;
        const double mean = a.stats[c], scale = a.stats[2 * n.c + c], mean_dy = a.slopes[c], slope = a.slopes[n.c + c];
        const struct pack<V> x = load<V>(a.src, i);
        struct pack<V> d = load<V>(a.diff_dst, i), y;
        if (a.dst) y = load<V>(a.dst, i);
        for (int k = 0; k < V; k++) {
            const double dy = !a.dst || y.v[k] > 0.0f ? (double)d.v[k] : 0.0;
            d.v[k] = (float)(scale * (dy - mean_dy - ((double)x.v[k] - mean) * slope));
        }
        store<V>(a.diff_src, i, d);
    }
}

extern "C" cudaError_t ls__cuda_run_batchnorm_bwd(cudaStream_t stream, struct ls_cuda_batchnorm_bwd a,
                                                  struct ls_cuda_nchw n)
{
    const struct gradient_sums what = {a, 0.0};
    const cudaError_t error = launch_pieces(stream, what, a.partial, n);
    if (error != cudaSuccess) return error;
    finish_slopes<<<blocks_for(n.c), THREADS, 0, stream>>>(a, ls__cuda_channel_pieces(n), n);
    if (n.hw % WIDE == 0)
        apply_bwd<WIDE><<<blocks_for(n.mb * n.c * n.hw / WIDE), THREADS, 0, stream>>>(a, n);
    else
        apply_bwd<1><<<blocks_for(n.mb * n.c * n.hw), THREADS, 0, stream>>>(a, n);
    return cudaGetLastError();
}
