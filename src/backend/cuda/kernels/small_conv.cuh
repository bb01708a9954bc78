/* small_conv.cuh: convolutions of one sample, stride 1, image and weights in shared memory.
 *
 * Forward, and the gradient by data, which is the same with the weights turned: a thread has ROWS pixels below each
 * other of BLOCK channels; neighbouring threads have neighbouring columns. Each result adds up over channels, columns
 * and rows of the kernel, in this order.
 *
 * The gradient of the weights: a thread has one column of the kernel, one channel of the source and BLOCK channels of
 * the result; it walks down columns of the image with the K pixels that meet in registers. `split` lanes share the
 * columns.
 */
#ifndef LS_BACKEND_CUDA_SMALL_CONV_CUH
#define LS_BACKEND_CUDA_SMALL_CONV_CUH

#include "backend/cuda/kernels/small.cuh"

/* Weights into shared memory: [ic][kx][ky][padded_oc]. Each block of the team has all of them. */
static __device__ void stage_weights(const struct ls_cuda_small_op &op)
{
    const struct ls_cuda_small_conv c = op.of.conv;
    const float *weights = op.weights;
    float *to = pool + op.weights_at;
    const int k = c.k, kk = k * k, inner = c.is_turned ? c.oc : c.ic;
    for (int i = threadIdx.x; i < c.oc * c.ic * kk; i += blockDim.x) {
        const int tap = i % kk, plane = i / kk, outer_c = plane / inner, inner_c = plane % inner;
        const int ky = tap / k, kx = tap % k;
        const int ic = c.is_turned ? outer_c : inner_c, oc = c.is_turned ? inner_c : outer_c;
        const int at = c.is_turned ? (ic * k + k - 1 - kx) * k + k - 1 - ky : (ic * k + kx) * k + ky;
        copy_word(to + at * c.padded_oc + oc, weights + i);
    }
    const int rest = c.padded_oc - c.oc;
    for (int i = threadIdx.x; i < rest * c.ic * kk; i += blockDim.x)
        to[i / rest * c.padded_oc + c.oc + i % rest] = 0.0f;
}

template <int K, int ROWS, int BLOCK>
static __device__ __forceinline__ void conv_sums(const struct ls_cuda_small_conv &c, const float *src, const float *w,
                                                 int y0, int x0, float sums[ROWS][BLOCK])
{
    constexpr int SEEN = ROWS + K - 1;
    unsigned is_inside = 0;
#pragma unroll
    for (int r = 0; r < SEEN; r++) is_inside |= (unsigned)(y0 + r >= 0 && y0 + r < c.ih) << r;
    for (int ic = 0; ic < c.ic; ic++) {
        const float *plane = src + ic * c.ih * c.iw + y0 * c.iw + x0;
#pragma unroll(ROWS *BLOCK > 16 ? 1 : K)
        for (int kx = 0; kx < K; kx++) {
            const unsigned mask = x0 + kx >= 0 && x0 + kx < c.iw ? is_inside : 0;
            float v[SEEN];
#pragma unroll
            for (int r = 0; r < SEEN; r++) v[r] = mask >> r & 1 ? plane[r * c.iw + kx] : 0.0f;
#pragma unroll
            for (int ky = 0; ky < K; ky++) {
                const float4 *four = reinterpret_cast<const float4 *>(w + ((ic * K + kx) * K + ky) * c.padded_oc);
#pragma unroll
                for (int b = 0; b < BLOCK / 4; b++) {
                    const float4 f = four[b];
#pragma unroll
                    for (int r = 0; r < ROWS; r++) {
                        sums[r][4 * b] = fmaf(v[r + ky], f.x, sums[r][4 * b]);
                        sums[r][4 * b + 1] = fmaf(v[r + ky], f.y, sums[r][4 * b + 1]);
                        sums[r][4 * b + 2] = fmaf(v[r + ky], f.z, sums[r][4 * b + 2]);
                        sums[r][4 * b + 3] = fmaf(v[r + ky], f.w, sums[r][4 * b + 3]);
                    }
                }
            }
        }
    }
}

template <int K, int ROWS, int BLOCK>
static __device__ __forceinline__ void conv_tiles(const struct team &t, const struct ls_cuda_small_op &op)
{
    const struct ls_cuda_small_conv c = op.of.conv; /* copies: what is put does not change them */
    const struct sink to = sink_of(t, op.out);
    const float *src = shared_of(op.in[0]), *weights = pool + op.weights_at, *biases = op.bias;
    const bool has_relu = op.relu;
    const int groups = (c.oh + ROWS - 1) / ROWS, per_block = groups * c.ow;
    const int n = per_block * ((c.oc + BLOCK - 1) / BLOCK);
    for (int u = t.first; u < n; u += t.n) {
        const int block = u / per_block, spot = u % per_block, group = spot / c.ow, x = spot % c.ow;
        float sums[ROWS][BLOCK] = {};
        float bias[BLOCK];
#pragma unroll
        for (int b = 0; b < BLOCK; b++) bias[b] = biases ? __ldg(biases + min(block * BLOCK + b, c.oc - 1)) : 0.0f;
        conv_sums<K, ROWS, BLOCK>(c, src, weights + block * BLOCK, group * ROWS - c.pad, x - c.pad, sums);
#pragma unroll
        for (int b = 0; b < BLOCK; b++) {
            const int oc = block * BLOCK + b;
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const int y = group * ROWS + r;
                const float sum = biases ? sums[r][b] + bias[b] : sums[r][b];
                if (oc < c.oc && y < c.oh) put(t, to, (oc * c.oh + y) * c.ow + x, has_relu ? relu1(sum) : sum);
            }
        }
    }
}

template <int K> static __device__ __forceinline__ void conv(const struct team &t, const struct ls_cuda_small_op &op)
{
    const struct ls_cuda_small_conv &c = op.of.conv;
    if (c.rows == 4 && c.block == 8) return conv_tiles<K, 4, 8>(t, op);
    if (c.block == 8) return conv_tiles<K, 2, 8>(t, op);
    if (c.rows == 2) return conv_tiles<K, 2, 4>(t, op);
    conv_tiles<K, 1, 4>(t, op);
}

/* Pixel `row` of a column, zero outside. Always reads something: a choice is cheaper than a branch. */
static __device__ __forceinline__ float pixel(const float *column, int row, int h, int w)
{
    const int inside = min(max(row, 0), h - 1);
    const float x = column[inside * w];
    return inside == row ? x : 0.0f;
}

/* Column x of the image against column kx of the kernel. Channels from n_block on repeat the last; nobody takes their
 * sums. */
template <int K, int BLOCK>
static __device__ __forceinline__ void walk_down(const struct ls_cuda_small_conv &c, const float *src /* [ih] */,
                                                 const float *diff /* [BLOCK][oh] */, int n_block, float sums[BLOCK][K])
{
    float seen[K];
    int of[BLOCK];
#pragma unroll
    for (int r = 1; r < K; r++) seen[r] = pixel(src, r - 1 - c.pad, c.ih, c.iw);
#pragma unroll
    for (int b = 0; b < BLOCK; b++) of[b] = min(b, n_block - 1) * c.oh * c.ow;
#pragma unroll(K)
    for (int y = 0; y < c.oh; y++) {
#pragma unroll
        for (int r = 0; r + 1 < K; r++) seen[r] = seen[r + 1];
        seen[K - 1] = pixel(src, y + K - 1 - c.pad, c.ih, c.iw);
#pragma unroll
        for (int b = 0; b < BLOCK; b++) {
            const float d = diff[of[b] + y * c.ow];
#pragma unroll
            for (int ky = 0; ky < K; ky++) sums[b][ky] = fmaf(seen[ky], d, sums[b][ky]);
        }
    }
}

template <int K, int BLOCK>
static __device__ __forceinline__ void conv_weights(const struct team &t, const struct ls_cuda_small_op &op)
{
    const struct ls_cuda_small_conv c = op.of.conv;
    const float *src = shared_of(op.in[0]), *diff = shared_of(op.in[1]);
    const int lane = threadIdx.x % WARP, n = (c.oc + BLOCK - 1) / BLOCK * c.ic * K * c.split;
    float *to = op.partial + (int64_t)t.sample * op.n_partial;
    for (int begin = t.first - lane; begin < n; begin += t.n) { /* whole warps: the lanes meet */
        const int u = begin + lane, part = u % c.split, group = u / c.split;
        const int kx = group % K, ic = group / K % c.ic, oc = group / (K * c.ic) * BLOCK;
        float sums[BLOCK][K] = {};
        for (int x = part; u < n && x < c.ow; x += c.split)
            if (x + kx - c.pad >= 0 && x + kx - c.pad < c.iw)
                walk_down<K, BLOCK>(c, src + ic * c.ih * c.iw + x + kx - c.pad, diff + oc * c.oh * c.ow + x, c.oc - oc,
                                    sums);
#pragma unroll
        for (int b = 0; b < BLOCK; b++)
#pragma unroll
            for (int ky = 0; ky < K; ky++) {
                const float sum = lanes_sum(sums[b][ky], c.split);
                if (u < n && part == 0 && oc + b < c.oc) to[(((oc + b) * c.ic + ic) * K + ky) * K + kx] = sum;
            }
    }
    for (int oc = t.first / WARP; oc < c.oc; oc += t.n / WARP) { /* the biases' */
        float sum = 0.0f;
        for (int i = lane; i < c.oh * c.ow; i += WARP) sum += diff[oc * c.oh * c.ow + i];
        sum = lanes_sum(sum, WARP);
        if (lane == 0) to[c.oc * c.ic * K * K + oc] = sum;
    }
}

template <int K>
static __device__ __forceinline__ void conv_gradient(const struct team &t, const struct ls_cuda_small_op &op)
{
    if (op.of.conv.block == 4) return conv_weights<K, 4>(t, op);
    conv_weights<K, 2>(t, op);
}

#endif
