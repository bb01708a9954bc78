/* lrn.cu: local response normalisation across channels; ref/lrn.c has the formulas. */
#include "backend/cuda/kernels/common.cuh"

/* k + alpha/size * (sum of squares over the window around channel c); x points at channel 0 of the pixel. */
static __device__ float norm_at(const float *x, int64_t c, struct ls_cuda_nchw n, const struct ls_cuda_lrn &a)
{
    const int64_t first = max(c - a.size / 2, (int64_t)0), last = min(c + (a.size - 1) / 2, n.c - 1);
    float sum = 0.0f;
    for (int64_t j = first; j <= last; j++) sum = fmaf(x[j * n.hw], x[j * n.hw], sum);
    return fmaf(a.alpha / (float)a.size, sum, a.k);
}

struct pixel {
    int64_t c, base; /* base: the pixel's place in channel 0 of its sample */
};

static __device__ __forceinline__ struct pixel pixel_of(int64_t i, struct ls_cuda_nchw n)
{
    const struct divided plane = divide(i, n.hw), sample = divide(plane.quotient, n.c);
    struct pixel p;
    p.c = sample.rest;
    p.base = sample.quotient * n.c * n.hw + plane.rest;
    return p;
}

static __global__ void lrn(const float *src, float *dst, struct ls_cuda_nchw n, struct ls_cuda_lrn a)
{
    FOR_EACH(i, n.mb * n.c * n.hw)
    {
        const struct pixel p = pixel_of(i, n);
        dst[i] = src[i] * powf(norm_at(src + p.base, p.c, n, a), -a.beta);
    }
}

extern "C" cudaError_t ls__cuda_run_lrn(cudaStream_t stream, const float *src, float *dst, struct ls_cuda_nchw n,
                                        struct ls_cuda_lrn a)
{
    lrn<<<blocks_for(n.mb * n.c * n.hw), THREADS, 0, stream>>>(src, dst, n, a);
    return cudaGetLastError();
}

/* power: s^-beta, t: diff_dst * src * s^(-beta-1) */
static __global__ void lrn_powers(const float *src, const float *diff_dst, float *power, float *t,
                                  struct ls_cuda_nchw n, struct ls_cuda_lrn a)
{
    FOR_EACH(i, n.mb * n.c * n.hw)
    {
        const struct pixel p = pixel_of(i, n);
        const float s = norm_at(src + p.base, p.c, n, a), w = powf(s, -a.beta);
        power[i] = w;
        t[i] = diff_dst[i] * src[i] * w / s;
    }
}

static __global__ void lrn_bwd(const float *src, const float *diff_dst, float *diff_src, const float *power,
                               const float *t, struct ls_cuda_nchw n, struct ls_cuda_lrn a)
{
    const float factor = 2.0f * a.alpha * a.beta / (float)a.size;
    FOR_EACH(i, n.mb * n.c * n.hw)
    {
        const struct pixel p = pixel_of(i, n);
        const int64_t first = max(p.c - (a.size - 1) / 2, (int64_t)0), last = min(p.c + a.size / 2, n.c - 1);
        float sum = 0.0f;
        for (int64_t j = first; j <= last; j++) sum += t[p.base + j * n.hw];
        diff_src[i] = diff_dst[i] * power[i] - factor * src[i] * sum;
    }
}

extern "C" cudaError_t ls__cuda_run_lrn_bwd(cudaStream_t stream, const float *src, const float *diff_dst,
                                            float *diff_src, float *power, float *t, struct ls_cuda_nchw n,
                                            struct ls_cuda_lrn a)
{
    const unsigned blocks = blocks_for(n.mb * n.c * n.hw);
    lrn_powers<<<blocks, THREADS, 0, stream>>>(src, diff_dst, power, t, n, a);
    lrn_bwd<<<blocks, THREADS, 0, stream>>>(src, diff_dst, diff_src, power, t, n, a);
    return cudaGetLastError();
}
