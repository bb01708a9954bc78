/* across.cu: what small networks add up over samples: gradients of weights, of biases, the loss; all of them in one
 * kernel, in orders that follow from the shapes. */
#include "backend/cuda/kernels/reduce.cuh"
#include "backend/cuda/kernels/small.h"
#include "backend/cuda/kernels/softmax.cuh"

/* A product is made in tiles of TILE x TILE by four quarters of a block, each with its own samples. */
enum { TILE = 32, QUARTERS = 4, PER_QUARTER = 32, CHUNK = QUARTERS * PER_QUARTER, EACH = 4 };
enum { QUARTER = THREADS / QUARTERS }; /* threads, 8 x 8 of EACH x EACH results */

struct tile {
    float a[CHUNK][TILE], b[CHUNK][TILE];
};

/* A thread brings PER_THREAD words of a tile, ROWS samples apart. */
enum { ROWS = THREADS / (2 * TILE), PER_THREAD = CHUNK / ROWS };

/* Into registers, all at once: none waits for another, nor for what is still done with the tile before. Behind the ends
 * there are zeros; what is read for them is the first word. */
static __device__ __forceinline__ void fetch_tile(float x[PER_THREAD], const struct ls_cuda_across_job &j, int first,
                                                  int mb, int a0, int b0)
{
    const int column = threadIdx.x % (2 * TILE), is_b = column >= TILE;
    const int n = is_b ? j.n_b : j.n_a, c = (is_b ? b0 : a0) + column % TILE;
    const float *const from = is_b ? j.b : j.a;
    const int sample = first + (int)threadIdx.x / (2 * TILE);
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        const int s = sample + i * ROWS;
        const bool is_there = s < mb && c < n;
        const float word = from[is_there ? (int64_t)s * n + c : 0];
        x[i] = is_there ? word : 0.0f;
    }
}

static __device__ __forceinline__ void fill_tile(struct tile &to, const float x[PER_THREAD])
{
    const int column = threadIdx.x % (2 * TILE);
    float(*const half)[TILE] = column >= TILE ? to.b : to.a;
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) half[threadIdx.x / (2 * TILE) + i * ROWS][column % TILE] = x[i];
}

static __device__ __forceinline__ void multiply(const struct tile &t, int quarter, int ty, int tx,
                                                float sums[EACH][EACH])
{
#pragma unroll 4
    for (int s = quarter * PER_QUARTER; s < (quarter + 1) * PER_QUARTER; s++) {
        const float4 a = *reinterpret_cast<const float4 *>(&t.a[s][ty * EACH]);
        const float4 b = *reinterpret_cast<const float4 *>(&t.b[s][tx * EACH]);
        const float x[EACH] = {a.x, a.y, a.z, a.w}, y[EACH] = {b.x, b.y, b.z, b.w};
#pragma unroll
        for (int i = 0; i < EACH; i++)
#pragma unroll
            for (int k = 0; k < EACH; k++) sums[i][k] = fmaf(x[i], y[k], sums[i][k]);
    }
}

static __device__ __forceinline__ void check(const struct ls_cuda_across_job &j, struct ls_cuda_fault *fault, float x)
{
    if (j.is_checked && is_bad(j.reduce, x)) report(fault, j.reduce.fault_id, 0);
}

/* block: which of the job's */
static __device__ void product(const struct ls_cuda_across_job &j, int block, int mb, struct ls_cuda_fault *fault,
                               struct tile &t)
{
    const int per_row = (j.n_b + TILE - 1) / TILE;
    const int a0 = block / per_row * TILE, b0 = block % per_row * TILE;
    const int quarter = threadIdx.x / QUARTER, ty = threadIdx.x % QUARTER / 8, tx = threadIdx.x % 8;
    float sums[EACH][EACH] = {}, next[PER_THREAD];
    fetch_tile(next, j, 0, mb, a0, b0);
    for (int first = 0; first < mb; first += CHUNK) {
        __syncthreads();
        fill_tile(t, next);
        __syncthreads();
        if (first + CHUNK < mb) fetch_tile(next, j, first + CHUNK, mb, a0, b0);
        if (first + quarter * PER_QUARTER < mb) multiply(t, quarter, ty, tx, sums);
    }
    float(*all)[TILE][TILE] = reinterpret_cast<float(*)[TILE][TILE]>(&t); /* [QUARTERS] */
    __syncthreads();
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int k = 0; k < EACH; k++) all[quarter][ty * EACH + i][tx * EACH + k] = sums[i][k];
    __syncthreads();
    for (int i = threadIdx.x; i < TILE * TILE; i += THREADS) {
        const int y = i / TILE, x = i % TILE;
        float sum = all[0][y][x];
        for (int q = 1; q < QUARTERS; q++) sum += all[q][y][x];
        if (a0 + y >= j.n_a || b0 + x >= j.n_b) continue;
        j.out[(int64_t)(a0 + y) * j.n_b + b0 + x] = sum;
        check(j, fault, sum);
    }
}

/* A warp has WARP neighbouring elements; the warps of a block share the samples. */
static __device__ void sum(const struct ls_cuda_across_job &j, int block, int mb, struct ls_cuda_fault *fault,
                           double (*shared)[WARP])
{
    constexpr int WARPS = THREADS / WARP;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int i = block * WARP + lane;
    const int begin = (int)((int64_t)mb * warp / WARPS), end = (int)((int64_t)mb * (warp + 1) / WARPS);
    double sum = 0.0;
    if (i < j.n_a) {
#pragma unroll 16
        for (int s = begin; s < end; s++) sum += (double)j.a[(int64_t)s * j.stride + i];
    }
    shared[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || i >= j.n_a) return;
    for (int w = 1; w < WARPS; w++) sum += shared[w][lane];
    j.out[i] = (float)sum;
    check(j, fault, (float)sum);
}

static __device__ void losses(const struct ls_cuda_across_job &j, int mb, struct ls_cuda_fault *fault, double *shared)
{
    softmax_total(j.rows, j.out, mb, shared);
    for (int i = 0; j.sum && threadIdx.x == 0 && i < 2; i++) {
        check(j, fault, j.out[i]);
        j.sum[i] = added(j.reduce, j.sum[i], j.out[i]);
    }
}

static __global__ void __launch_bounds__(THREADS) run_across(const __grid_constant__ struct ls_cuda_across across)
{
    __shared__ __align__(16) union {
        struct tile tile;
        double sums[THREADS / WARP][WARP];
        double totals[THREADS / WARP];
    } shared;
    int low = 0, high = across.n; /* the last job that begins at or before this block */
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (across.first_block[middle] <= blockIdx.x)
            low = middle;
        else
            high = middle;
    }
    const struct ls_cuda_across_job &j = across.list[low];
    const int block = (int)(blockIdx.x - across.first_block[low]);
    if (j.kind == LS_CUDA_ACROSS_PRODUCT) return product(j, block, across.mb, across.fault, shared.tile);
    if (j.kind == LS_CUDA_ACROSS_SUM) return sum(j, block, across.mb, across.fault, shared.sums);
    losses(j, across.mb, across.fault, shared.totals);
}

static int64_t blocks_of(const struct ls_cuda_across_job *j)
{
    switch (j->kind) {
    case LS_CUDA_ACROSS_PRODUCT:
        return (int64_t)((j->n_a + TILE - 1) / TILE) * ((j->n_b + TILE - 1) / TILE);
    case LS_CUDA_ACROSS_SUM:
        return (j->n_a + WARP - 1) / WARP;
    default:
        return 1;
    }
}

extern "C" cudaError_t ls__cuda_run_across(cudaStream_t stream, struct ls_cuda_across *across)
{
    int64_t blocks = 0;
    for (int i = 0; i < across->n; i++) {
        across->first_block[i] = (unsigned)blocks;
        blocks += blocks_of(&across->list[i]);
    }
    if (blocks == 0) return cudaSuccess;
    if (blocks > 0x7fffffff) return cudaErrorInvalidConfiguration;
    run_across<<<(unsigned)blocks, THREADS, 0, stream>>>(*across);
    return cudaGetLastError();
}
