/* pool.cu: maxima and means of windows. Gradients are gathered, not scattered: each input element adds what the windows
 * that hold it send, in their order, as ref does. */
#include "backend/cuda/kernels/common.cuh"

struct window {
    int y0, y1, x0, x1; /* clipped to the image */
};

static __device__ __forceinline__ struct window window_of(const struct ls_cuda_pool &p, int oy, int ox)
{
    struct window w;
    w.y0 = oy * p.sh - p.ph;
    w.x0 = ox * p.sw - p.pw;
    w.y1 = min(w.y0 + p.kh, p.ih);
    w.x1 = min(w.x0 + p.kw, p.iw);
    w.y0 = max(w.y0, 0);
    w.x0 = max(w.x0, 0);
    return w;
}

struct spot {
    int64_t plane;
    int y, x;
};

static __device__ __forceinline__ struct spot spot_of(int64_t i, int h, int w)
{
    const struct divided row = divide(i, w), plane = divide(row.quotient, h);
    struct spot s;
    s.plane = plane.quotient;
    s.y = (int)plane.rest;
    s.x = (int)row.rest;
    return s;
}

/* Outputs [first, end) of n whose windows of k at stride s, padding p, hold input i. */
static __device__ __forceinline__ void holders(int i, int k, int s, int p, int n, int *first, int *end)
{
    const int last = i + p; /* the window that begins here or before ... */
    *first = last - k + 1 <= 0 ? 0 : (last - k + s) / s;
    *end = min(last / s + 1, n);
}

static __global__ void maxpool(const float *src, float *dst, int32_t *chosen, struct ls_cuda_pool p)
{
    FOR_EACH(i, p.planes * p.oh * p.ow)
    {
        const struct spot at = spot_of(i, p.oh, p.ow);
        const struct window w = window_of(p, at.y, at.x);
        const float *plane = src + at.plane * p.ih * p.iw;
        int best = -1;
        float most = -INFINITY;
        for (int y = w.y0; y < w.y1; y++)
            for (int x = w.x0; x < w.x1; x++) {
                const float v = plane[y * p.iw + x];
                if (isnan(most) || (best >= 0 && !(v > most) && !isnan(v))) continue; /* the first NaN stays */
                best = y * p.iw + x;
                most = v;
            }
        dst[i] = most;
        if (chosen) chosen[i] = best;
    }
}

extern "C" cudaError_t ls__cuda_run_maxpool(cudaStream_t stream, const float *src, float *dst, int32_t *chosen,
                                            struct ls_cuda_pool p)
{
    maxpool<<<blocks_for(p.planes * p.oh * p.ow), THREADS, 0, stream>>>(src, dst, chosen, p);
    return cudaGetLastError();
}

static __global__ void maxpool_bwd(const float *diff_dst, const int32_t *chosen, float *diff_src, struct ls_cuda_pool p)
{
    FOR_EACH(i, p.planes * p.ih * p.iw)
    {
        const struct spot at = spot_of(i, p.ih, p.iw);
        const int64_t base = at.plane * p.oh * p.ow;
        const int self = at.y * p.iw + at.x;
        int y0, y1, x0, x1;
        float sum = 0.0f;
        holders(at.y, p.kh, p.sh, p.ph, p.oh, &y0, &y1);
        holders(at.x, p.kw, p.sw, p.pw, p.ow, &x0, &x1);
        for (int y = y0; y < y1; y++)
            for (int x = x0; x < x1; x++)
                if (chosen[base + y * p.ow + x] == self) sum += diff_dst[base + y * p.ow + x];
        diff_src[i] = sum;
    }
}

extern "C" cudaError_t ls__cuda_run_maxpool_bwd(cudaStream_t stream, const float *diff_dst, const int32_t *chosen,
                                                float *diff_src, struct ls_cuda_pool p)
{
    maxpool_bwd<<<blocks_for(p.planes * p.ih * p.iw), THREADS, 0, stream>>>(diff_dst, chosen, diff_src, p);
    return cudaGetLastError();
}

static __global__ void avgpool(const float *src, float *dst, struct ls_cuda_pool p)
{
    const double divisor = (double)p.kh * p.kw;
    FOR_EACH(i, p.planes * p.oh * p.ow)
    {
        const struct spot at = spot_of(i, p.oh, p.ow);
        const struct window w = window_of(p, at.y, at.x);
        const float *plane = src + at.plane * p.ih * p.iw;
        double sum = 0.0;
        for (int y = w.y0; y < w.y1; y++)
            for (int x = w.x0; x < w.x1; x++) sum += (double)plane[y * p.iw + x];
        dst[i] = (float)(sum / divisor);
    }
}

extern "C" cudaError_t ls__cuda_run_avgpool(cudaStream_t stream, const float *src, float *dst, struct ls_cuda_pool p)
{
    avgpool<<<blocks_for(p.planes * p.oh * p.ow), THREADS, 0, stream>>>(src, dst, p);
    return cudaGetLastError();
}

static __global__ void avgpool_bwd(const float *diff_dst, float *diff_src, struct ls_cuda_pool p)
{
    const float divisor = (float)(p.kh * p.kw);
    FOR_EACH(i, p.planes * p.ih * p.iw)
    {
        const struct spot at = spot_of(i, p.ih, p.iw);
        const float *plane = diff_dst + at.plane * p.oh * p.ow;
        int y0, y1, x0, x1;
        float sum = 0.0f;
        holders(at.y, p.kh, p.sh, p.ph, p.oh, &y0, &y1);
        holders(at.x, p.kw, p.sw, p.pw, p.ow, &x0, &x1);
        for (int y = y0; y < y1; y++)
            for (int x = x0; x < x1; x++) sum += plane[y * p.ow + x] / divisor;
        diff_src[i] = sum;
    }
}

extern "C" cudaError_t ls__cuda_run_avgpool_bwd(cudaStream_t stream, const float *diff_dst, float *diff_src,
                                                struct ls_cuda_pool p)
{
    avgpool_bwd<<<blocks_for(p.planes * p.ih * p.iw), THREADS, 0, stream>>>(diff_dst, diff_src, p);
    return cudaGetLastError();
}
