/* linear_sum.cu: the gradient of a large linear layer, summed over the shards: for every shard diff_dst^T * src over
 * its rows in float32, rounded to fixed point by itself, as LINEAR_BWD_WEIGHTS and REDUCE would.
 *
 * A block owns a tile of weights and goes through all shards, so a sum is read and written once per step.
 */
#include "backend/cuda/kernels/common.cuh"

enum { TILE = 64, DEPTH = 16, SIDE = 4 }; /* a thread owns SIDE x SIDE of the tile */

static __device__ __forceinline__ bool is_mine(const struct ls_cuda_linear_sum &a, int shard)
{
    return a.mine[shard / 32] >> (shard % 32) & 1;
}

/* Rows [row, row + DEPTH) of columns [column, column + TILE) of x [.,width], zero outside [.., end) and the matrix. */
static __device__ __forceinline__ void fetch(const float *x, int64_t width, int64_t column, int row, int end,
                                             float tile[DEPTH][TILE])
{
    for (int i = threadIdx.x; i < DEPTH * TILE; i += THREADS) {
        const int r = i / TILE, c = i % TILE;
        tile[r][c] = row + r < end && column + c < width ? x[(int64_t)(row + r) * width + column + c] : 0.0f;
    }
}

static __device__ void shard_product(const float *src, const float *diff_dst, const struct ls_cuda_linear_sum &a,
                                     int64_t o0, int64_t i0, int first, int end, float acc[SIDE][SIDE])
{
    __shared__ float d[DEPTH][TILE], s[DEPTH][TILE];
    const int ty = threadIdx.x / (TILE / SIDE), tx = threadIdx.x % (TILE / SIDE);
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) acc[y][x] = 0.0f;
    for (int row = first; row < end; row += DEPTH) {
        fetch(diff_dst, a.oc, o0, row, end, d);
        fetch(src, a.ic, i0, row, end, s);
        __syncthreads();
#pragma unroll
        for (int r = 0; r < DEPTH; r++)
#pragma unroll
            for (int y = 0; y < SIDE; y++)
#pragma unroll
                for (int x = 0; x < SIDE; x++) acc[y][x] = fmaf(d[r][ty * SIDE + y], s[r][tx * SIDE + x], acc[y][x]);
        __syncthreads();
    }
}

static __global__ void __launch_bounds__(THREADS)
    sum_weights(const float *src, const float *diff_dst, int64_t *weights, struct ls_cuda_fault *fault,
                const __grid_constant__ struct ls_cuda_linear_sum a)
{
    const int64_t i0 = (int64_t)blockIdx.x * TILE, o0 = a.first_oc + (int64_t)blockIdx.y * TILE;
    const int ty = threadIdx.x / (TILE / SIDE), tx = threadIdx.x % (TILE / SIDE);
    int64_t sums[SIDE][SIDE] = {{0}};
    bool is_good = true;
    for (int first = 0, shard = 0; first < a.batch_n; first += a.shard_size, shard++) {
        float acc[SIDE][SIDE];
        if (!is_mine(a, shard)) continue; /* the same for the whole grid */
        shard_product(src, diff_dst, a, o0, i0, first, min(first + a.shard_size, a.batch_n), acc);
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                const double v = (double)acc[y][x] * a.factor;
                is_good = is_good && fabs(v) < a.limit; /* false for NaN */
                sums[y][x] += __double2ll_rn(v);
            }
    }
    if (!is_good) report(fault, a.fault_id, 0);
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            const int64_t o = o0 + ty * SIDE + y, i = i0 + tx * SIDE + x;
            if (o < a.end_oc && i < a.ic) weights[o * a.ic + i] += sums[y][x];
        }
}

static __global__ void sum_bias(const float *diff_dst, int64_t *bias, struct ls_cuda_fault *fault,
                                const __grid_constant__ struct ls_cuda_linear_sum a)
{
    FOR_EACH(k, a.end_oc - a.first_oc)
    {
        const int64_t o = a.first_oc + k;
        int64_t sum = 0;
        for (int first = 0, shard = 0; first < a.batch_n; first += a.shard_size, shard++) {
            double acc = 0.0;
            if (!is_mine(a, shard)) continue;
            for (int r = first; r < min(first + a.shard_size, a.batch_n); r++) acc += (double)diff_dst[r * a.oc + o];
            const double v = (double)(float)acc * a.factor;
            if (!(fabs(v) < a.limit)) report(fault, a.fault_id, 0);
            sum += __double2ll_rn(v);
        }
        bias[o] += sum;
    }
}

extern "C" cudaError_t ls__cuda_run_linear_sum(cudaStream_t stream, const float *src, const float *diff_dst,
                                               int64_t *weights, int64_t *bias, struct ls_cuda_fault *fault,
                                               const struct ls_cuda_linear_sum *a)
{
    const int64_t n = a->end_oc - a->first_oc;
    if (n <= 0) return cudaSuccess;
    const dim3 grid((unsigned)((a->ic + TILE - 1) / TILE), (unsigned)((n + TILE - 1) / TILE));
    sum_weights<<<grid, THREADS, 0, stream>>>(src, diff_dst, weights, fault, *a);
    if (bias) sum_bias<<<blocks_for(n), THREADS, 0, stream>>>(diff_dst, bias, fault, *a);
    return cudaGetLastError();
}
