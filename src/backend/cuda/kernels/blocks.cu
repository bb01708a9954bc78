/* blocks.cu: see kernels.h. One thread per stored element, or per eight of an image's. */
#include "backend/cuda/kernels/typed.cuh"

static __device__ __forceinline__ float read_at(const void *src, const struct ls_cuda_place &p, int64_t mb, int64_t c,
                                                int64_t hw)
{
    const int64_t i = p.is_last ? (mb * p.hw + hw) * p.stored_c + c : (mb * p.stored_c + c) * p.hw + hw;
    return p.type == LS_CUDA_BF16 ? widen(((const bf16 *)src)[i]) : ((const float *)src)[i];
}

template <class T, int V>
static __global__ void image_blocks(const void *src, struct ls_cuda_place from, void *dst, struct ls_cuda_blocks b)
{
    const int wide = b.stored_c / V;
    FOR_EACH(i, from.mb * b.blocks_h * b.blocks_w * wide)
    {
        const struct divided at = divide(i, wide), row = divide(at.quotient, b.blocks_w),
                             image = divide(row.quotient, b.blocks_h);
        struct floats<V> x;
        for (int k = 0; k < V; k++) {
            const int channel = (int)at.rest * V + k, tap = channel / b.c, c = channel % b.c;
            const int y = (int)image.rest * b.s + tap / b.s - b.pad, x0 = (int)row.rest * b.s + tap % b.s - b.pad;
            const bool is_there = tap < b.s * b.s && y >= 0 && y < b.ih && x0 >= 0 && x0 < b.iw;
            x.v[k] = is_there ? read_at(src, from, image.quotient, c, (int64_t)y * b.iw + x0) : 0.0f;
        }
        put<T, V>(dst, i, x);
    }
}

extern "C" cudaError_t ls__cuda_run_blocks_image(cudaStream_t stream, const void *src, struct ls_cuda_place from,
                                                 void *dst, enum ls_cuda_type type, struct ls_cuda_blocks b)
{
    const int64_t n = from.mb * b.blocks_h * b.blocks_w * b.stored_c;
#define CALL(T, V) image_blocks<T, V><<<blocks_for(n / V), THREADS, 0, stream>>>(src, from, dst, b);
    BY_TYPE(type, b.stored_c, CALL)
#undef CALL
    return cudaGetLastError();
}

/* The tap of the kernel that element i of the blocked weights is, or false: none. */
struct tap {
    int64_t oc;
    int ky, kx, c;
};
static __device__ bool tap_of(int64_t i, const struct ls_cuda_blocks &b, struct tap *t)
{
    const struct divided at = divide(i, b.stored_c), row = divide(at.quotient, b.n), oc = divide(row.quotient, b.n);
    const int which = (int)at.rest / b.c;
    t->oc = oc.quotient;
    t->c = (int)at.rest % b.c;
    t->ky = (int)oc.rest * b.s + which / b.s;
    t->kx = (int)row.rest * b.s + which % b.s;
    return which < b.s * b.s && t->ky < b.k && t->kx < b.k;
}

template <class T>
static __global__ void weight_blocks(const void *src, struct ls_cuda_place from, T *dst, struct ls_cuda_blocks b)
{
    FOR_EACH(i, from.mb * b.n * b.n * b.stored_c)
    {
        struct tap t;
        const bool is_there = tap_of(i, b, &t);
        dst[i] = narrow<T>(is_there ? read_at(src, from, t.oc, t.c, (int64_t)t.ky * b.k + t.kx) : 0.0f);
    }
}

extern "C" cudaError_t ls__cuda_run_blocks_weights(cudaStream_t stream, const void *src, struct ls_cuda_place from,
                                                   void *dst, enum ls_cuda_type type, struct ls_cuda_blocks b)
{
    const unsigned blocks = blocks_for(from.mb * b.n * b.n * b.stored_c);
    if (type == LS_CUDA_BF16)
        weight_blocks<<<blocks, THREADS, 0, stream>>>(src, from, (bf16 *)dst, b);
    else
        weight_blocks<<<blocks, THREADS, 0, stream>>>(src, from, (float *)dst, b);
    return cudaGetLastError();
}

template <class T> static __global__ void weights_back(const T *src, float *dst, int64_t oc, struct ls_cuda_blocks b)
{
    FOR_EACH(i, oc * b.n * b.n * b.stored_c)
    {
        struct tap t;
        if (tap_of(i, b, &t)) dst[((t.oc * b.k + t.ky) * b.k + t.kx) * b.c + t.c] = widen(src[i]);
    }
}

extern "C" cudaError_t ls__cuda_run_blocks_back(cudaStream_t stream, enum ls_cuda_type type, const void *src,
                                                float *dst, int64_t oc, struct ls_cuda_blocks b)
{
    const unsigned blocks = blocks_for(oc * b.n * b.n * b.stored_c);
    if (type == LS_CUDA_BF16)
        weights_back<<<blocks, THREADS, 0, stream>>>((const bf16 *)src, dst, oc, b);
    else
        weights_back<<<blocks, THREADS, 0, stream>>>((const float *)src, dst, oc, b);
    return cudaGetLastError();
}
