/* small_conv.cuh: convolutions of one sample, stride 1, image and weights in shared memory.
 *
 * All go along rows, whose ends have zeros behind them (struct ls_cuda_small_value); rows outside the image are passed
 * over. Loops are short on purpose: code that runs once per step has to be fetched first.
 *
 * Forward, and the gradient by data, which is the same with the weights turned: a thread has CHUNK neighbours of a row
 * of BLOCK channels. A result adds up over every split-th channel, rows and columns of the kernel, in this order, and
 * then over the `split` lanes.
 *
 * The gradient of the weights: a thread has one row of the kernel, one channel of the source and BLOCK channels of the
 * result; it walks along rows of the image with the K pixels that meet in registers. `split` lanes share the rows.
 */
#ifndef LS_BACKEND_CUDA_SMALL_CONV_CUH
#define LS_BACKEND_CUDA_SMALL_CONV_CUH

#include "backend/cuda/kernels/small.cuh"

enum { CHUNK = LS_CUDA_SMALL_CHUNK };

/* Weights into shared memory: [oc / block][ic][ky][kx][block]; a warp takes a plane, its lanes the taps. Each block of
 * the team has all of them. Channels that only fill up the last block are left as they are: nobody takes their sums. */
static __device__ void stage_weights(const struct ls_cuda_small_op &op)
{
    constexpr int AT_ONCE = 6; /* planes of a warp */
    const struct ls_cuda_small_conv c = op.of.conv;
    const int tap = threadIdx.x % WARP, kk = c.k * c.k, n = c.oc * c.ic, n_warps = blockDim.x / WARP;
    const int at = (c.is_turned ? kk - 1 - tap : tap) * c.block, shift = __ffs(c.block) - 1;
    float *const to = pool + op.weights_at;
    const float *const from = op.weights;
    if (tap >= kk) return;
#pragma unroll 1
    for (int first = threadIdx.x / WARP; first < n; first += AT_ONCE * n_warps) {
        float x[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) x[k] = __ldg(from + min(first + k * n_warps, n - 1) * kk + tap);
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const int plane = first + k * n_warps;
            const int outer_c = (int)divided_by(c.planes, plane), inner_c = plane - outer_c * (int)c.planes.by;
            const int ic = c.is_turned ? outer_c : inner_c, oc = c.is_turned ? inner_c : outer_c;
            const int block = oc >> shift, b = oc - (block << shift);
            if (plane < n) to[(block * c.ic + ic) * kk * c.block + at + b] = x[k];
        }
    }
}

/* Rows [lo, hi) of the kernel, which meet the image. plane: where tap (0, 0) of the first pixel lies. */
template <int K, int BLOCK>
static __device__ __forceinline__ void conv_plane(const float *plane, int pitch, const float *w, int lo, int hi,
                                                  float sums[BLOCK * CHUNK])
{
#pragma unroll 1
    for (int ky = lo; ky < hi; ky++) {
        float v[CHUNK + K - 1];
#pragma unroll
        for (int i = 0; i < CHUNK + K - 1; i++) v[i] = plane[ky * pitch + i];
#pragma unroll
        for (int kx = 0; kx < K; kx++) {
            const struct pack<BLOCK> f = load<BLOCK>(w, ky * K + kx);
#pragma unroll
            for (int b = 0; b < BLOCK; b++)
#pragma unroll
                for (int x = 0; x < CHUNK; x++) sums[b * CHUNK + x] = fmaf(v[x + kx], f.v[b], sums[b * CHUNK + x]);
        }
    }
}

template <int K, int BLOCK>
static __device__ __forceinline__ void conv_chunks(const struct team &t, const struct ls_cuda_small_op &op)
{
    const struct ls_cuda_small_conv c = op.of.conv; /* copies: what is put does not change them */
    const struct result to = result_of(t, op);
    const float *src = shared_of(op.in[0]), *weights = pool + op.weights_at, *biases = op.bias;
    const bool has_relu = op.relu, has_mask = op.mask.data != NULL;
    const int lane = threadIdx.x % WARP, shift = __ffs(c.split) - 1, pitch = c.iw + op.in[0].gap;
    const int n = (int)c.chunks.by * c.oh * ((c.oc + BLOCK - 1) / BLOCK) << shift;
#pragma unroll 1
    for (int begin = t.first - lane; begin < n; begin += t.n) { /* whole warps: the lanes meet */
        const int u = min(begin + lane, n - 1), part = u & (c.split - 1), spot = u >> shift;
        const int line = (int)divided_by(c.chunks, spot), x0 = (spot - line * (int)c.chunks.by) * CHUNK;
        const int block = (int)divided_by(c.rows, line), y = line - block * c.oh;
        const int lo = max(c.pad - y, 0), hi = min(c.ih + c.pad - y, K);
        float sums[BLOCK * CHUNK] = {}, bias[BLOCK];
#pragma unroll
        for (int b = 0; b < BLOCK; b++) bias[b] = biases ? __ldg(biases + min(block * BLOCK + b, c.oc - 1)) : 0.0f;
#pragma unroll 1
        for (int ic = part; ic < c.ic; ic += c.split)
            conv_plane<K, BLOCK>(src + (ic * c.ih + y - c.pad) * pitch + x0 - c.pad, pitch,
                                 weights + (block * c.ic + ic) * K * K * BLOCK, lo, hi, sums);
        lanes_sums<BLOCK * CHUNK>(sums, c.split);
        const int mine = begin + lane < n ? part : -1; /* the lanes share what is to be put, too */
#pragma unroll
        for (int b = 0; b < BLOCK; b++) {
            const int oc = block * BLOCK + b, row = oc * c.oh + y, end = oc < c.oc ? c.ow - x0 : 0;
            float *memory = to.to.memory + row * c.ow + x0, *shared = to.to.shared + row * (c.ow + to.out.gap) + x0;
            const float *mask = pool + to.mask.at + row * (c.ow + to.mask.gap) + x0;
#pragma unroll
            for (int x = 0; x < CHUNK; x++) {
                const bool is_mine = ((b * CHUNK + x) & (c.split - 1)) == mine && x < end;
                float sum = biases ? sums[b * CHUNK + x] + bias[b] : sums[b * CHUNK + x];
                sum = has_relu ? relu1(sum) : sum;
                if (has_mask && is_mine) sum = mask[x] > 0.0f ? sum : 0.0f;
                put_if(t, is_mine, memory + x, to.to.is_written, shared + x, sum);
            }
        }
    }
}

template <int K> static __device__ __forceinline__ void conv(const struct team &t, const struct ls_cuda_small_op &op)
{
    if (op.of.conv.block == 4) return conv_chunks<K, 4>(t, op);
    conv_chunks<K, 2>(t, op);
}

/* A row of the image against row ky of the kernel. */
template <int K, int BLOCK>
static __device__ __forceinline__ void walk_along(const float *src /* [iw], from the first tap on */,
                                                  const float *diff /* [BLOCK][ow] */, const int of[BLOCK], int n,
                                                  float sums[BLOCK * K])
{
    float seen[K];
#pragma unroll
    for (int r = 1; r < K; r++) seen[r] = src[r - 1];
#pragma unroll(K)
    for (int x = 0; x < n; x++) {
#pragma unroll
        for (int r = 0; r + 1 < K; r++) seen[r] = seen[r + 1];
        seen[K - 1] = src[x + K - 1];
#pragma unroll
        for (int b = 0; b < BLOCK; b++) {
            const float d = diff[of[b] + x];
#pragma unroll
            for (int kx = 0; kx < K; kx++) sums[b * K + kx] = fmaf(seen[kx], d, sums[b * K + kx]);
        }
    }
}

/* A warp has a channel, its lanes the columns of the image in turn. */
static __device__ __forceinline__ void bias_gradient(const struct team &t, const struct ls_cuda_small_conv &c,
                                                     const float *diff, int pitch, float *to)
{
    const int lane = threadIdx.x % WARP;
#pragma unroll 1
    for (int oc = t.first / WARP; oc < c.oc; oc += t.n / WARP) {
        float sum = 0.0f;
#pragma unroll 1
        for (int x = lane; x < c.ow; x += WARP)
#pragma unroll 4
            for (int y = 0; y < c.oh; y++) sum += diff[(oc * c.oh + y) * pitch + x];
        lanes_sums<1>(&sum, WARP);
        if (lane == 0) to[oc] = sum;
    }
}

template <int K, int BLOCK>
static __device__ __forceinline__ void conv_weights(const struct team &t, const struct ls_cuda_small_op &op)
{
    const struct ls_cuda_small_conv c = op.of.conv;
    const float *src = shared_of(op.in[0]), *diff = shared_of(op.in[1]);
    const int src_pitch = c.iw + op.in[0].gap, pitch = c.ow + op.in[1].gap;
    const int lane = threadIdx.x % WARP, shift = __ffs(c.split) - 1;
    const int n = (c.oc + BLOCK - 1) / BLOCK * c.ic * K << shift;
    float *to = op.partial + (int64_t)t.sample * op.n_partial;
#pragma unroll 1
    for (int begin = t.first - lane; begin < n; begin += t.n) { /* whole warps: the lanes meet */
        const int u = min(begin + lane, n - 1), part = u & (c.split - 1), group = u >> shift;
        const int plane = group / K, ky = group - plane * K;
        const int block = (int)divided_by(c.channels, plane), ic = plane - block * c.ic, oc = block * BLOCK;
        float sums[BLOCK * K] = {};
        int of[BLOCK]; /* channels that only fill up the block repeat the last; nobody takes their sums */
#pragma unroll
        for (int b = 0; b < BLOCK; b++) of[b] = min(b, c.oc - 1 - oc) * c.oh * pitch;
#pragma unroll 1
        for (int y = part; y < c.oh; y += c.split) {
            const int from = y + ky - c.pad;
            if (from >= 0 && from < c.ih)
                walk_along<K, BLOCK>(src + (ic * c.ih + from) * src_pitch - c.pad, diff + (oc * c.oh + y) * pitch, of,
                                     c.ow, sums);
        }
        lanes_sums<BLOCK * K>(sums, c.split);
        const int mine = begin + lane < n ? part : -1;
#pragma unroll
        for (int b = 0; b < BLOCK; b++)
#pragma unroll
            for (int kx = 0; kx < K; kx++)
                if (((b * K + kx) & (c.split - 1)) == mine && oc + b < c.oc)
                    to[(((oc + b) * c.ic + ic) * K + ky) * K + kx] = sums[b * K + kx];
    }
    bias_gradient(t, c, diff, pitch, to + c.oc * c.ic * K * K);
}

template <int K>
static __device__ __forceinline__ void conv_gradient(const struct team &t, const struct ls_cuda_small_op &op)
{
    if (op.of.conv.block == 4) return conv_weights<K, 4>(t, op);
    conv_weights<K, 2>(t, op);
}

#endif
