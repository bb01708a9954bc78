/* pool.cuh: windows of pools, one direction at a time, for either layout. */
#ifndef LS_BACKEND_CUDA_POOL_CUH
#define LS_BACKEND_CUDA_POOL_CUH

#include "backend/cuda/kernels/common.cuh"

/* Places [begin,end) of the image, and how many count in the mean. */
struct span {
    int begin, end, n;
};

/* Of window `at`, as ref/avgpool.c says. has_parts: part `at` of n_parts that together cover the image. */
static __device__ __forceinline__ struct span span_of(int at, int size, int k, int s, int pad, bool skip_pad,
                                                      bool has_parts, int n_parts)
{
    struct span w;
    if (has_parts) {
        w.begin = at * size / n_parts;
        w.end = ((at + 1) * size + n_parts - 1) / n_parts;
        w.n = w.end - w.begin;
        return w;
    }
    w.begin = at * s - pad;
    w.end = min(w.begin + k, size + pad);
    w.n = w.end - w.begin;
    w.begin = max(w.begin, 0);
    w.end = min(w.end, size);
    if (skip_pad) w.n = w.end - w.begin;
    return w;
}

static __device__ __forceinline__ struct span rows_of(const struct ls_cuda_pool &p, int y)
{
    return span_of(y, p.ih, p.kh, p.sh, p.ph, p.skip_pad, p.has_rows, p.oh);
}

static __device__ __forceinline__ struct span columns_of(const struct ls_cuda_pool &p, int x)
{
    return span_of(x, p.iw, p.kw, p.sw, p.pw, p.skip_pad, p.has_columns, p.ow);
}

/* Outputs [first, end) of n whose windows of k at stride s, padding p, reach over input i. */
static __device__ __forceinline__ void holders(int i, int k, int s, int p, int n, int *first, int *end)
{
    const int last = i + p; /* the window that begins here or before ... */
    *first = last - k + 1 <= 0 ? 0 : (last - k + s) / s;
    *end = min(last / s + 1, n);
}

/* The same among n parts of an image of `size`. */
static __device__ __forceinline__ void part_holders(int i, int size, int n, int *first, int *end)
{
    *first = i * n / size;
    *end = min(((i + 1) * n + size - 1) / size, n);
}

static __device__ __forceinline__ void mean_holders(const struct ls_cuda_pool &p, int y, int x, int *y0, int *y1,
                                                    int *x0, int *x1)
{
    if (p.has_rows)
        part_holders(y, p.ih, p.oh, y0, y1);
    else
        holders(y, p.kh, p.sh, p.ph, p.oh, y0, y1);
    if (p.has_columns)
        part_holders(x, p.iw, p.ow, x0, x1);
    else
        holders(x, p.kw, p.sw, p.pw, p.ow, x0, x1);
}

/* With dilation a window reaches over places that it does not hold. */
static __device__ __forceinline__ void max_holders(const struct ls_cuda_pool &p, int y, int x, int *y0, int *y1,
                                                   int *x0, int *x1)
{
    holders(y, (p.kh - 1) * p.dh + 1, p.sh, p.ph, p.oh, y0, y1);
    holders(x, (p.kw - 1) * p.dw + 1, p.sw, p.pw, p.ow, x0, x1);
}

#endif
