/* pool.cu: maxima and means of windows. Gradients are gathered, not scattered: each input element adds what the windows
 * that hold it send, in their order, as ref does. */
#include "backend/cuda/kernels/pool.cuh"

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

static __global__ void maxpool(const float *src, float *dst, int32_t *chosen, struct ls_cuda_pool p)
{
    FOR_EACH(i, p.planes * p.oh * p.ow)
    {
        const struct spot at = spot_of(i, p.oh, p.ow);
        const float *plane = src + at.plane * p.ih * p.iw;
        int best = -1;
        float most = -INFINITY;
        for (int ky = 0; ky < p.kh; ky++)
            for (int kx = 0; kx < p.kw; kx++) {
                const int y = at.y * p.sh - p.ph + ky * p.dh, x = at.x * p.sw - p.pw + kx * p.dw;
                if (y < 0 || y >= p.ih || x < 0 || x >= p.iw) continue;
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
        max_holders(p, at.y, at.x, &y0, &y1, &x0, &x1);
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
    FOR_EACH(i, p.planes * p.oh * p.ow)
    {
        const struct spot at = spot_of(i, p.oh, p.ow);
        const struct span rows = rows_of(p, at.y), columns = columns_of(p, at.x);
        const float *plane = src + at.plane * p.ih * p.iw;
        double sum = 0.0;
        for (int y = rows.begin; y < rows.end; y++)
            for (int x = columns.begin; x < columns.end; x++) sum += (double)plane[y * p.iw + x];
        dst[i] = (float)(sum / (double)((int64_t)rows.n * columns.n));
    }
}

extern "C" cudaError_t ls__cuda_run_avgpool(cudaStream_t stream, const float *src, float *dst, struct ls_cuda_pool p)
{
    avgpool<<<blocks_for(p.planes * p.oh * p.ow), THREADS, 0, stream>>>(src, dst, p);
    return cudaGetLastError();
}

static __global__ void avgpool_bwd(const float *diff_dst, float *diff_src, struct ls_cuda_pool p)
{
    FOR_EACH(i, p.planes * p.ih * p.iw)
    {
        const struct spot at = spot_of(i, p.ih, p.iw);
        const float *plane = diff_dst + at.plane * p.oh * p.ow;
        int y0, y1, x0, x1;
        float sum = 0.0f;
        mean_holders(p, at.y, at.x, &y0, &y1, &x0, &x1);
        for (int y = y0; y < y1; y++)
            for (int x = x0; x < x1; x++)
                sum += plane[y * p.ow + x] / (float)((int64_t)rows_of(p, y).n * columns_of(p, x).n);
        diff_src[i] = sum;
    }
}

extern "C" cudaError_t ls__cuda_run_avgpool_bwd(cudaStream_t stream, const float *diff_dst, float *diff_src,
                                                struct ls_cuda_pool p)
{
    avgpool_bwd<<<blocks_for(p.planes * p.ih * p.iw), THREADS, 0, stream>>>(diff_dst, diff_src, p);
    return cudaGetLastError();
}
