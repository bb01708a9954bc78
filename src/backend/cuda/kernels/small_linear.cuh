/* small_linear.cuh: linear layers of one sample. As many rows of weights as there is room for came into shared memory
 * while the ops before ran, the others are read from memory. V: words read at once, 4 where rows of weights allow it,
 * and the source has no gaps. */
#ifndef LS_BACKEND_CUDA_SMALL_LINEAR_CUH
#define LS_BACKEND_CUDA_SMALL_LINEAR_CUH

#include "backend/cuda/kernels/small.cuh"

enum { OUTPUTS = 4, QUARTERS = 4 };

/* The words of a linear layer that come into shared memory; a multiple of WIDE. */
static __device__ __forceinline__ int near_words(const struct ls_cuda_small_op &op)
{
    return op.kind == LS_CUDA_SMALL_LINEAR ? op.of.linear.n_near * op.of.linear.ic : 0;
}

/* The first rows of the weights of all linear layers into shared memory, without waiting for them; await_bytes does.
 * The last warp asks for them, an op for each lane in turn. */
static __device__ void bring_weights(const struct ls_cuda_small_op *list, int n, uint64_t *arrival)
{
#if __CUDA_ARCH__ >= 900
    const int lane = threadIdx.x % WARP;
    unsigned bytes = 0;
    if (threadIdx.x / WARP + 1 < blockDim.x / WARP) return;
    for (int i = lane; i < n; i += WARP) bytes += (unsigned)near_words(list[i]) * (unsigned)sizeof(float);
    bytes = __reduce_add_sync(0xffffffffu, bytes);
    if (bytes == 0) return;
    if (lane == 0) expect_bytes(arrival, bytes);
    __syncwarp();
    for (int i = lane; i < n; i += WARP) {
        const unsigned own = (unsigned)near_words(list[i]) * (unsigned)sizeof(float);
        if (own > 0) copy_bytes(pool + list[i].weights_at, list[i].weights, own, arrival);
    }
#else
    for (int i = 0; i < n; i++)
        for (int k = threadIdx.x; k < near_words(list[i]) / WIDE; k += blockDim.x)
            copy_four(pool + list[i].weights_at + k * WIDE, list[i].weights + k * WIDE);
#endif
}

/* Row `row` of the weights. */
static __device__ __forceinline__ const float *weights_row(const float *near, const float *far, int n_near, int ic,
                                                           int row)
{
    return (row < n_near ? near : far) + row * ic;
}

/* A warp has OUTPUTS results, its lanes share the inputs. */
template <int V> static __device__ __forceinline__ void linear(const struct team &t, const struct ls_cuda_small_op &op)
{
    const struct ls_cuda_small_linear l = op.of.linear;
    const struct result to = result_of(t, op);
    const struct ls_cuda_small_value from = op.in[0];
    const float *far = op.weights, *near = pool + op.weights_at;
    const int lane = threadIdx.x % WARP, n = l.ic / V;
    const float *src = shared_of(from), *biases = op.bias;
    const bool has_relu = op.relu;
    for (int first = t.first / WARP * OUTPUTS; first < l.oc; first += t.n / WARP * OUTPUTS) {
        float sums[OUTPUTS] = {};
        const float *rows[OUTPUTS];
#pragma unroll
        for (int o = 0; o < OUTPUTS; o++) rows[o] = weights_row(near, far, l.n_near, l.ic, min(first + o, l.oc - 1));
        const int mine = min(first + lane, l.oc - 1); /* lanes below OUTPUTS end with a result each */
        const float bias = biases ? __ldg(biases + mine) : 0.0f;
#pragma unroll 4
        for (int i = lane; i < n; i += WARP) {
            const struct pack<V> x = load<V>(src, V == 1 ? spread(from, i) : i);
#pragma unroll
            for (int o = 0; o < OUTPUTS; o++) {
                const struct pack<V> w = load<V>(rows[o], i);
#pragma unroll
                for (int v = 0; v < V; v++) sums[o] = fmaf(x.v[v], w.v[v], sums[o]);
            }
        }
        lanes_sums<OUTPUTS>(sums, WARP);
        float sum = sums[0];
#pragma unroll
        for (int o = 1; o < OUTPUTS; o++) sum = lane == o ? sums[o] : sum;
        if (biases) sum += bias;
        put_result_if(t, lane < OUTPUTS && first + lane < l.oc, to, mine, has_relu ? relu1(sum) : sum);
    }
}

/* Every QUARTERS-th row from o to `end`, AT_ONCE at a time; the first that is left. */
template <int V, int AT_ONCE>
static __device__ __forceinline__ int add_rows(const float *weights, int o, int end, int ic, int column,
                                               const float *diff, const struct ls_cuda_small_value &from, float sums[V])
{
#pragma unroll AT_ONCE
    for (; o < end; o += QUARTERS) {
        const struct pack<V> w = load<V>(weights + o * ic, column);
        const float d = diff[spread(from, o)];
#pragma unroll
        for (int v = 0; v < V; v++) sums[v] = fmaf(d, w.v[v], sums[v]);
    }
    return o;
}

/* QUARTERS neighbouring lanes share the rows of weights; each has V columns. */
template <int V>
static __device__ __forceinline__ void linear_bwd(const struct team &t, const struct ls_cuda_small_op &op)
{
    const struct ls_cuda_small_linear l = op.of.linear;
    const struct result to = result_of(t, op);
    const struct ls_cuda_small_value from = op.in[0];
    const float *far = op.weights, *near = pool + op.weights_at;
    const int lane = threadIdx.x % WARP, n = l.ic / V * QUARTERS;
    const float *diff = shared_of(from);
    for (int begin = t.first - lane; begin < n; begin += t.n) { /* whole warps: the lanes meet */
        const int u = begin + lane, quarter = u % QUARTERS, column = u / QUARTERS;
        float sums[V] = {};
        const int at = min(column, l.ic / V - 1);
        const int o = add_rows<V, 2>(near, quarter, l.n_near, l.ic, at, diff, from, sums);
        add_rows<V, 8>(far, o, l.oc, l.ic, at, diff, from, sums);
        lanes_sums<V>(sums, QUARTERS);
        float sum = sums[0]; /* lane `quarter` puts column `quarter` */
#pragma unroll
        for (int v = 1; v < V; v++) sum = quarter == v ? sums[v] : sum;
        put_result_if(t, u < n && quarter < V, to, min(column * V + quarter, l.ic - 1), sum);
    }
}

#endif
