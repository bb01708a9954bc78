/* conv2d.cu: direct convolution and its gradients, sums in double: slow, obviously right, for any attributes. */
#include "backend/cuda/kernels/common.cuh"

static __global__ void forward(const float *src, const float *weights, float *dst, struct ls_cuda_conv p)
{
    const int64_t icg = p.ic / p.groups, ocg = p.oc / p.groups;
    FOR_EACH(i, p.mb * p.oc * p.oh * p.ow)
    {
        const struct divided row = divide(i, p.ow), plane = divide(row.quotient, p.oh),
                             image = divide(plane.quotient, p.oc);
        const int64_t oc = image.rest;
        const float *from = src + (image.quotient * p.ic + oc / ocg * icg) * p.ih * p.iw,
                    *w = weights + oc * icg * p.kh * p.kw;
        double sum = 0.0;
        for (int64_t ic = 0; ic < icg; ic++)
            for (int kh = 0; kh < p.kh; kh++)
                for (int kw = 0; kw < p.kw; kw++) {
                    const int64_t y = plane.rest * p.sh - p.ph + kh * p.dh, x = row.rest * p.sw - p.pw + kw * p.dw;
                    if (y < 0 || y >= p.ih || x < 0 || x >= p.iw) continue;
                    sum = fma((double)w[(ic * p.kh + kh) * p.kw + kw], (double)from[(ic * p.ih + y) * p.iw + x], sum);
                }
        dst[i] = (float)sum;
    }
}

extern "C" cudaError_t ls__cuda_run_conv2d(cudaStream_t stream, const float *src, const float *weights, float *dst,
                                           struct ls_cuda_conv p)
{
    forward<<<blocks_for(p.mb * p.oc * p.oh * p.ow), THREADS, 0, stream>>>(src, weights, dst, p);
    return cudaGetLastError();
}

/* The output whose tap at `shift` is input i, or -1. */
static __device__ __forceinline__ int64_t output_of(int64_t i, int64_t shift, int stride, int64_t n_out)
{
    const int64_t at = i - shift;
    return at < 0 || at % stride != 0 || at / stride >= n_out ? -1 : at / stride;
}

static __global__ void bwd_data(const float *diff_dst, const float *weights, float *diff_src, struct ls_cuda_conv p)
{
    const int64_t icg = p.ic / p.groups, ocg = p.oc / p.groups;
    FOR_EACH(i, p.mb * p.ic * p.ih * p.iw)
    {
        const struct divided row = divide(i, p.iw), plane = divide(row.quotient, p.ih),
                             image = divide(plane.quotient, p.ic);
        const int64_t group = image.rest / icg, ic = image.rest % icg;
        double sum = 0.0;
        for (int64_t oc = group * ocg; oc < (group + 1) * ocg; oc++)
            for (int kh = 0; kh < p.kh; kh++)
                for (int kw = 0; kw < p.kw; kw++) {
                    const int64_t y = output_of(plane.rest, (int64_t)kh * p.dh - p.ph, p.sh, p.oh);
                    const int64_t x = output_of(row.rest, (int64_t)kw * p.dw - p.pw, p.sw, p.ow);
                    if (y < 0 || x < 0) continue;
                    sum = fma((double)weights[((oc * icg + ic) * p.kh + kh) * p.kw + kw],
                              (double)diff_dst[((image.quotient * p.oc + oc) * p.oh + y) * p.ow + x], sum);
                }
        diff_src[i] = (float)sum;
    }
}

extern "C" cudaError_t ls__cuda_run_conv2d_bwd_data(cudaStream_t stream, const float *diff_dst, const float *weights,
                                                    float *diff_src, struct ls_cuda_conv p)
{
    bwd_data<<<blocks_for(p.mb * p.ic * p.ih * p.iw), THREADS, 0, stream>>>(diff_dst, weights, diff_src, p);
    return cudaGetLastError();
}

/* One block per weight. */
static __global__ void bwd_weights(const float *src, const float *diff_dst, float *diff_weights, struct ls_cuda_conv p)
{
    __shared__ double shared[THREADS / WARP];
    const int64_t icg = p.ic / p.groups, ocg = p.oc / p.groups, n = p.oc * icg * p.kh * p.kw;
    for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
        const int64_t kw = i % p.kw, kh = i / p.kw % p.kh, ic = i / p.kw / p.kh % icg, oc = i / p.kw / p.kh / icg;
        double sum = 0.0;
        for (int64_t j = threadIdx.x; j < p.mb * p.oh * p.ow; j += THREADS) {
            const struct divided row = divide(j, p.ow), image = divide(row.quotient, p.oh);
            const int64_t y = image.rest * p.sh - p.ph + kh * p.dh, x = row.rest * p.sw - p.pw + kw * p.dw;
            if (y < 0 || y >= p.ih || x < 0 || x >= p.iw) continue;
            sum = fma((double)src[((image.quotient * p.ic + oc / ocg * icg + ic) * p.ih + y) * p.iw + x],
                      (double)diff_dst[((image.quotient * p.oc + oc) * p.oh + image.rest) * p.ow + row.rest], sum);
        }
        sum = block_sum(sum, shared);
        if (threadIdx.x == 0) diff_weights[i] = (float)sum;
    }
}

extern "C" cudaError_t ls__cuda_run_conv2d_bwd_weights(cudaStream_t stream, const float *src, const float *diff_dst,
                                                       float *diff_weights, struct ls_cuda_conv p)
{
    const int64_t n = p.oc * (p.ic / p.groups) * p.kh * p.kw;
    bwd_weights<<<(unsigned)(n < 1 << 20 ? n : 1 << 20), THREADS, 0, stream>>>(src, diff_dst, diff_weights, p);
    return cudaGetLastError();
}
