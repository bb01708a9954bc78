/* first.cu: the first layer of a network for images: 3x3 with stride 1 and padding 1 over at most four channels, bf16,
 * channels last. Its few channels fill a fifth of what cuDNN's tiles multiply; here all taps together are one dimension
 * of a product: four channels of nine taps, filled up with zeros.
 *
 * Forward: a warp has 16 neighbouring pixels and COLUMNS channels of the result. The weights stay in its registers,
 * pixels come straight from memory (each is read by nine taps, from the cache), results go by way of shared memory so
 * that they are written in whole lines. Every result is one thread's sum in the order of the taps.
 *
 * The gradient of the weights: a warp takes 16 pixels at a time, diff_dst and the nine neighbours of each in its own
 * part of shared memory, and adds their product to what it has in registers; while it multiplies, the next 16 arrive. A
 * column of ones behind the taps gives the gradient of the bias. Warps are added within their block, blocks by a second
 * kernel, in their order, in double; which pixels a warp takes follows from the shape.
 */
#include "backend/cuda/kernels/typed.cuh"

enum { PIXELS = 16, COLUMNS = 64, TILES = COLUMNS / 8, STEPS = 3, TAPS = 9, STORED_C = 8, WARPS = THREADS / WARP };
enum { PITCH = COLUMNS + 8 }; /* of results in shared memory: no two rows begin in the same bank */
enum { BLOCKS = 264 };
/* of the gradient: columns (taps, ones), their number of 8, pieces of 16 rows, warps of a block, buffers of a warp */
enum { WIDTH = 40, ONES = 36, N_TILES = WIDTH / 8, M_TILES = COLUMNS / 16, TEAM = 4, BUFFERS = 2 };

/* c [16][8] += a [16][16] times b [16][8], each thread having its part of them */
static __device__ __forceinline__ void multiply(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

static __device__ __forceinline__ uint32_t two_at(const bf16 *x)
{
    return __ldg(reinterpret_cast<const uint32_t *>(x));
}

static __device__ __forceinline__ uint32_t packed(float low, float high)
{
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t *>(&both);
}

/* Which tap a thread multiplies in half `h` of step `s`, and which two channels of it. */
static __device__ __forceinline__ int tap_of(int s, int h)
{
    return 4 * s + 2 * h + (int)(threadIdx.x % 4 >> 1);
}

static __device__ __forceinline__ int channels_of_thread(void)
{
    return (int)(threadIdx.x & 1) * 2;
}

/* The pixels around pixel p that this thread multiplies. */
static __device__ __forceinline__ void gather(const struct ls_cuda_first &f, const bf16 *src, int p,
                                              uint32_t seen[2 * STEPS])
{
    const int row = p / f.w, x = p - row * f.w, y = row % f.h;
    const bf16 *at = src + (int64_t)p * STORED_C + channels_of_thread();
#pragma unroll
    for (int k = 0; k < 2 * STEPS; k++) {
        const int tap = tap_of(k / 2, k % 2), dy = tap / 3 - 1, dx = tap % 3 - 1;
        const bool is_inside =
            tap < TAPS && p < f.n_pixels && (unsigned)(y + dy) < (unsigned)f.h && (unsigned)(x + dx) < (unsigned)f.w;
        seen[k] = is_inside ? two_at(at + (dy * f.w + dx) * STORED_C) : 0;
    }
}

static __global__ void __launch_bounds__(THREADS, 2)
    first_forward(const bf16 *src /* [mb,h,w,8] */, const bf16 *weights /* [oc,3,3,8] */, const float *bias,
                  bf16 *dst /* [mb,h,w,oc] */, struct ls_cuda_first f)
{
    __shared__ __align__(16) bf16 results[WARPS][PIXELS][PITCH];
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, group = lane / 4, column = lane % 4 * 2;
    const int first_oc = (int)blockIdx.y * COLUMNS, n_tiles = (f.n_pixels + PIXELS - 1) / PIXELS;
    uint32_t b[STEPS][TILES][2];
#pragma unroll
    for (int k = 0; k < 2 * STEPS; k++)
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            const int tap = tap_of(k / 2, k % 2), oc = first_oc + t * 8 + group;
            b[k / 2][t][k % 2] =
                tap < TAPS ? two_at(weights + ((int64_t)oc * TAPS + tap) * STORED_C + channels_of_thread()) : 0;
        }
    for (int tile = (int)blockIdx.x * WARPS + warp; tile < n_tiles; tile += (int)gridDim.x * WARPS) {
        uint32_t upper[2 * STEPS], lower[2 * STEPS];
        float c[TILES][4] = {};
        gather(f, src, tile * PIXELS + group, upper);
        gather(f, src, tile * PIXELS + group + 8, lower);
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            const uint32_t a[4] = {upper[2 * s], lower[2 * s], upper[2 * s + 1], lower[2 * s + 1]};
#pragma unroll
            for (int t = 0; t < TILES; t++) multiply(c[t], a, b[s][t]);
        }
        __syncwarp();
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            if (bias) {
                const float2 two = __ldg(reinterpret_cast<const float2 *>(bias + first_oc + t * 8 + column));
                c[t][0] += two.x, c[t][1] += two.y, c[t][2] += two.x, c[t][3] += two.y;
            }
#pragma unroll
            for (int k = 0; k < 4; k++) c[t][k] = f.relu ? relu1(c[t][k]) : c[t][k];
            *reinterpret_cast<uint32_t *>(&results[warp][group][t * 8 + column]) = packed(c[t][0], c[t][1]);
            *reinterpret_cast<uint32_t *>(&results[warp][group + 8][t * 8 + column]) = packed(c[t][2], c[t][3]);
        }
        __syncwarp();
#pragma unroll
        for (int r = lane / 8; r < PIXELS; r += 4) {
            const int64_t p = tile * PIXELS + r;
            const uint4 eight = *reinterpret_cast<const uint4 *>(&results[warp][r][lane % 8 * 8]);
            if (p < f.n_pixels) *reinterpret_cast<uint4 *>(dst + p * f.oc + first_oc + lane % 8 * 8) = eight;
        }
    }
}

extern "C" cudaError_t ls__cuda_run_first(cudaStream_t stream, const void *src, const void *weights, const float *bias,
                                          void *dst, struct ls_cuda_first f)
{
    const int tiles = (f.n_pixels + PIXELS - 1) / PIXELS, blocks = (tiles + WARPS - 1) / WARPS;
    first_forward<<<dim3((unsigned)(blocks < BLOCKS ? blocks : BLOCKS), (unsigned)(f.oc / COLUMNS)), THREADS, 0,
                    stream>>>((const bf16 *)src, (const bf16 *)weights, bias, (bf16 *)dst, f);
    return cudaGetLastError();
}

/* --- the gradient of the weights --- */

/* What a warp multiplies next. */
struct arriving {
    bf16 diff[PIXELS][PITCH], seen[PIXELS][WIDTH];
};

/* Bytes from memory, or zeros; await_last waits for all but the newest group of them. */
template <int BYTES> static __device__ __forceinline__ void copy_async(void *to, const void *from, bool is_there)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"((uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from), "n"(BYTES), "r"(is_there ? BYTES : 0)
                 : "memory");
}

static __device__ __forceinline__ void end_group(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

static __device__ __forceinline__ void await_last(void)
{
    asm volatile("cp.async.wait_group 1;" ::: "memory");
}

/* Four pieces of 8 x 8, turned: rows[lane / 8][lane % 8] is where this thread's row begins. */
static __device__ __forceinline__ void read_turned(const bf16 *row, uint32_t piece[4])
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(piece[0]), "=r"(piece[1]), "=r"(piece[2]), "=r"(piece[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

static __device__ __forceinline__ void fetch_tile(const struct ls_cuda_first &f, const bf16 *src, const bf16 *diff,
                                                  int first_oc, int tile, struct arriving *to)
{
    const int lane = (int)threadIdx.x % WARP;
#pragma unroll
    for (int r = lane / 8; r < PIXELS; r += 4) {
        const int64_t p = (int64_t)tile * PIXELS + r;
        const bool is_there = p < f.n_pixels;
        copy_async<16>(&to->diff[r][lane % 8 * 8], diff + (is_there ? p * f.oc + first_oc + lane % 8 * 8 : 0),
                       is_there);
    }
#pragma unroll
    for (int i = lane; i < PIXELS * TAPS; i += WARP) {
        const int r = i / TAPS, tap = i % TAPS, dy = tap / 3 - 1, dx = tap % 3 - 1, p = tile * PIXELS + r;
        const int row = p / f.w, x = p - row * f.w, y = row % f.h;
        const bool is_there =
            p < f.n_pixels && (unsigned)(y + dy) < (unsigned)f.h && (unsigned)(x + dx) < (unsigned)f.w;
        copy_async<8>(&to->seen[r][tap * 4], src + (is_there ? (int64_t)(p + dy * f.w + dx) * STORED_C : 0), is_there);
    }
    end_group();
}

static __device__ __forceinline__ void add_tile(const struct arriving &t, float sums[M_TILES][N_TILES][4])
{
    const int lane = (int)threadIdx.x % WARP, row = lane % 8, piece = lane / 8;
    uint32_t b[N_TILES + 1][2];
#pragma unroll
    for (int n = 0; n < N_TILES; n += 2) { /* two columns of pieces at once; behind the last the last again */
        const int column = min(n + (piece >> 1), N_TILES - 1) * 8;
        uint32_t four[4];
        read_turned(&t.seen[(piece & 1) * 8 + row][column], four);
        b[n][0] = four[0], b[n][1] = four[1], b[n + 1][0] = four[2], b[n + 1][1] = four[3];
    }
#pragma unroll
    for (int m = 0; m < M_TILES; m++) {
        uint32_t a[4];
        read_turned(&t.diff[(piece >> 1) * 8 + row][m * 16 + (piece & 1) * 8], a);
#pragma unroll
        for (int n = 0; n < N_TILES; n++) multiply(sums[m][n], a, b[n]);
    }
}

/* Row and column of element k of a thread's part of a result. */
static __device__ __forceinline__ int place_of(int m, int n, int k)
{
    const int lane = (int)threadIdx.x % WARP, row = m * 16 + lane / 4 + (k >> 1) * 8, column = n * 8 + lane % 4 * 2;
    return row * WIDTH + column + (k & 1);
}

static __global__ void __launch_bounds__(TEAM *WARP, 3)
    first_weights(const bf16 *src /* [mb,h,w,8] */, const bf16 *diff /* [mb,h,w,oc] */,
                  float *partial /* [oc / COLUMNS][gridDim.x][COLUMNS][WIDTH] */, struct ls_cuda_first f)
{
    __shared__ __align__(16) struct arriving arriving[TEAM][BUFFERS];
    __shared__ float all[COLUMNS * WIDTH];
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP, first_oc = (int)blockIdx.y * COLUMNS;
    const int n_tiles = (f.n_pixels + PIXELS - 1) / PIXELS, step = (int)gridDim.x * TEAM;
    float sums[M_TILES][N_TILES][4] = {};
    for (int i = lane; i < BUFFERS * PIXELS * (WIDTH - ONES); i += WARP) { /* no tile writes there */
        const int column = i % (WIDTH - ONES), r = i / (WIDTH - ONES);
        arriving[warp][r / PIXELS].seen[r % PIXELS][ONES + column] = narrow<bf16>(column == 0 ? 1.0f : 0.0f);
    }
    int tile = (int)blockIdx.x * TEAM + warp, now = 0;
    fetch_tile(f, src, diff, first_oc, tile, &arriving[warp][now]);
    for (; tile < n_tiles; tile += step) {
        __syncwarp();
        fetch_tile(f, src, diff, first_oc, tile + step, &arriving[warp][1 - now]); /* beyond the last: zeros */
        await_last();
        __syncwarp();
        add_tile(arriving[warp][now], sums);
        now = 1 - now;
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    for (int w = 0; w < TEAM; w++) {
        __syncthreads();
        if (w != warp) continue;
#pragma unroll
        for (int m = 0; m < M_TILES; m++)
#pragma unroll
            for (int n = 0; n < N_TILES; n++)
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    float *at = &all[place_of(m, n, k)];
                    *at = w == 0 ? sums[m][n][k] : *at + sums[m][n][k];
                }
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < COLUMNS * WIDTH; i += TEAM * WARP)
        partial[((int64_t)blockIdx.y * gridDim.x + blockIdx.x) * COLUMNS * WIDTH + i] = all[i];
}

/* A warp has one element of the gradient: a lane some blocks' sums, then all lanes'. */
static __global__ void first_weights_sum(const float *partial, int n_blocks, float *diff_weights /* [oc,3,3,8] */,
                                         float *diff_bias, int oc)
{
    const int i = (int)(blockIdx.x * WARPS + threadIdx.x / WARP), lane = (int)threadIdx.x % WARP;
    const int row = i / WIDTH, column = i % WIDTH, tap = column / 4, c = column % 4;
    if (row >= oc || column > ONES) return;
    const float *from =
        partial + (int64_t)(row / COLUMNS) * n_blocks * COLUMNS * WIDTH + row % COLUMNS * WIDTH + column;
    double sum = 0.0;
    for (int b = lane; b < n_blocks; b += WARP) sum += (double)from[(int64_t)b * COLUMNS * WIDTH];
    sum = warp_sum(sum);
    if (lane > 0) return;
    if (column == ONES) {
        if (diff_bias) diff_bias[row] = (float)sum;
        return;
    }
    diff_weights[((int64_t)row * TAPS + tap) * STORED_C + c] = (float)sum;
    diff_weights[((int64_t)row * TAPS + tap) * STORED_C + 4 + c] = 0.0f;
}

static int blocks_of(const struct ls_cuda_first *f)
{
    const int tiles = (f->n_pixels + PIXELS - 1) / PIXELS, blocks = (tiles + TEAM - 1) / TEAM;
    return blocks < BLOCKS ? blocks : BLOCKS;
}

extern "C" size_t ls__cuda_first_scratch(struct ls_cuda_first f)
{
    return (size_t)blocks_of(&f) * (size_t)f.oc * WIDTH * sizeof(float);
}

extern "C" cudaError_t ls__cuda_run_first_weights(cudaStream_t stream, const void *src, const void *diff_dst,
                                                  float *diff_weights, float *diff_bias, float *partial,
                                                  struct ls_cuda_first f)
{
    const int blocks = blocks_of(&f);
    first_weights<<<dim3((unsigned)blocks, (unsigned)(f.oc / COLUMNS)), TEAM * WARP, 0, stream>>>(
        (const bf16 *)src, (const bf16 *)diff_dst, partial, f);
    first_weights_sum<<<(unsigned)((f.oc * WIDTH + WARPS - 1) / WARPS), THREADS, 0, stream>>>(
        partial, blocks, diff_weights, diff_bias, f.oc);
    return cudaGetLastError();
}
