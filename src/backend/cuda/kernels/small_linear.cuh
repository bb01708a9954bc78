/* small_linear.cuh: linear layers of one sample. Weights are read from memory: each is needed once. V: words read at
 * once, 4 where rows of weights allow it. */
#ifndef LS_BACKEND_CUDA_SMALL_LINEAR_CUH
#define LS_BACKEND_CUDA_SMALL_LINEAR_CUH

#include "backend/cuda/kernels/small.cuh"

enum { OUTPUTS = 4, QUARTERS = 4 };

/* A warp has OUTPUTS results, its lanes share the inputs. */
template <int V> static __device__ __forceinline__ void linear(const struct team &t, const struct ls_cuda_small_op &op)
{
    const struct ls_cuda_small_linear l = op.of.linear;
    const struct sink to = sink_of(t, op.out);
    const float *weights = op.weights;
    const int lane = threadIdx.x % WARP, n = l.ic / V;
    const float *src = shared_of(op.in[0]), *biases = op.bias;
    const bool has_relu = op.relu;
    for (int first = t.first / WARP * OUTPUTS; first < l.oc; first += t.n / WARP * OUTPUTS) {
        float sums[OUTPUTS] = {};
        const int mine = min(first + lane, l.oc - 1); /* lanes below OUTPUTS end with a result each */
        const float bias = biases ? __ldg(biases + mine) : 0.0f;
#pragma unroll 4
        for (int i = lane; i < n; i += WARP) {
            const struct pack<V> x = load<V>(src, i);
#pragma unroll
            for (int o = 0; o < OUTPUTS; o++) {
                const int row = min(first + o, l.oc - 1);
                const struct pack<V> w = load_constant<V>(weights + (int64_t)row * l.ic, i);
#pragma unroll
                for (int v = 0; v < V; v++) sums[o] = fmaf(x.v[v], w.v[v], sums[o]);
            }
        }
        float sum = 0.0f;
#pragma unroll
        for (int o = 0; o < OUTPUTS; o++) {
            const float all = lanes_sum(sums[o], WARP);
            if (lane == o) sum = all;
        }
        if (biases) sum += bias;
        if (lane < OUTPUTS && first + lane < l.oc) put(t, to, first + lane, has_relu ? relu1(sum) : sum);
    }
}

/* QUARTERS neighbouring lanes share the rows of weights; each has V columns. */
template <int V>
static __device__ __forceinline__ void linear_bwd(const struct team &t, const struct ls_cuda_small_op &op)
{
    const struct ls_cuda_small_linear l = op.of.linear;
    const struct sink to = sink_of(t, op.out);
    const float *weights = op.weights;
    const int lane = threadIdx.x % WARP, n = l.ic / V * QUARTERS;
    const float *diff = shared_of(op.in[0]);
    for (int begin = t.first - lane; begin < n; begin += t.n) { /* whole warps: the lanes meet */
        const int u = begin + lane, quarter = u % QUARTERS, column = u / QUARTERS;
        float sums[V] = {};
        if (u < n) {
#pragma unroll 8
            for (int o = quarter; o < l.oc; o += QUARTERS) {
                const struct pack<V> w = load_constant<V>(weights + (int64_t)o * l.ic, column);
                const float d = diff[o];
#pragma unroll
                for (int v = 0; v < V; v++) sums[v] = fmaf(d, w.v[v], sums[v]);
            }
        }
#pragma unroll
        for (int v = 0; v < V; v++) {
            const float sum = lanes_sum(sums[v], QUARTERS);
            if (u < n && quarter == v % QUARTERS) put(t, to, column * V + v, sum);
        }
    }
}

#endif
