/* last.cu: rows of channels, channels last: bias, sums over the rows. Sums: every block writes those of its rows, and
 * the last block to come adds them up in their order, in double: which block that is changes nothing. */
#include "backend/cuda/kernels/last.cuh"

enum { SUM_ROWS = 4, MIN_ROWS = 8, APPLY_BLOCKS = 2048 };
enum { AHEAD = 4, SUM_AHEAD = 6 }; /* rows that a thread reads at once */
/* Two for each multiprocessor of a Hopper, which therefore may have 64 registers; a constant: orders depend on it. */
enum { SUM_BLOCKS = 264 };

template <class T, int V>
static __global__ void bias_add(const void *src, const float *bias, void *dst, struct cover g, bool has_relu)
{
    const struct walk w = walk_of<V>(g);
    if (w.channel >= g.c) return;
    struct floats<V> b = {
    };
    if (bias) b = per_channel<V>(bias, w.channel);
    each_row<T, V, AHEAD>(w, src, [=](int64_t i, struct floats<V> x) {
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

size_t ls__cuda_last_partial_bytes(struct ls_cuda_rows n)
{
    const size_t stored_c = ((size_t)n.c + MAX_ACROSS - 1) / MAX_ACROSS * MAX_ACROSS; /* whole tiles */
    return 2 * (size_t)SUM_BLOCKS * stored_c * sizeof(float);
}

int ls__cuda_last_n_tickets(struct ls_cuda_rows n)
{
    return (n.c + 31) / 32; /* tiles have 32 channels at least, but for the last */
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

template <class T, int V>
static __global__ void __launch_bounds__(SUM_THREADS, 2)
    channel_sums(const void *x, float *sums, float *partial, unsigned *tickets, struct cover g)
{
    __shared__ double all[2 * MAX_ACROSS];
    const struct walk w = walk_of<V>(g);
    const int channel = (int)blockIdx.y * g.tx * V + (int)threadIdx.x;
    float a[V] = {}, b[V] = {};
    each_row<T, V, SUM_AHEAD>(w, x, [&](int64_t, const struct floats<V> &v) {
        for (int k = 0; k < V; k++) a[k] += v.v[k];
    });
    write_piece<V>(g, a, b, partial);
    if (!is_last_block(tickets)) return;
    add_pieces<V>(g, partial, all);
    if ((int)threadIdx.x < g.tx * V && channel < g.c) sums[channel] = (float)all[threadIdx.x];
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
