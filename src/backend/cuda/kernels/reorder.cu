/* reorder.cu: a value from one layout to another. One thread per stored element of dst, or where dst has its channels
 * last and few of them, one per pixel, so that neighbours read neighbours. */
#include "backend/cuda/kernels/typed.cuh"

static __device__ __forceinline__ int64_t place_of(const struct ls_cuda_place &p, int64_t mb, int64_t c, int64_t hw)
{
    return p.is_last ? (mb * p.hw + hw) * p.stored_c + c : (mb * p.stored_c + c) * p.hw + hw;
}

template <class From, class To>
static __global__ void reorder(const From *src, struct ls_cuda_place from, To *dst, struct ls_cuda_place to)
{
    FOR_EACH(i, to.mb * to.stored_c * to.hw)
    {
        int64_t mb, c, hw;
        if (to.is_last) {
            const struct divided pixel = divide(i, to.stored_c), image = divide(pixel.quotient, to.hw);
            c = pixel.rest, hw = image.rest, mb = image.quotient;
        } else {
            const struct divided plane = divide(i, to.hw), image = divide(plane.quotient, to.stored_c);
            hw = plane.rest, c = image.rest, mb = image.quotient;
        }
        dst[i] = narrow<To>(c < to.c ? widen(src[place_of(from, mb, c, hw)]) : 0.0f);
    }
}

/* All 8 stored channels of a pixel. */
template <class From, class To>
static __global__ void reorder_pixels(const From *src, struct ls_cuda_place from, To *dst, struct ls_cuda_place to)
{
    FOR_EACH(i, to.mb * to.hw)
    {
        const struct divided image = divide(i, to.hw);
        constexpr int V = 16 / sizeof(To);
        struct floats<8> x;
#pragma unroll
        for (int c = 0; c < 8; c++)
            x.v[c] = c < to.c ? widen(src[place_of(from, image.quotient, c, image.rest)]) : 0.0f;
#pragma unroll
        for (int c = 0; c < 8; c += V) {
            struct floats<V> part;
#pragma unroll
            for (int k = 0; k < V; k++) part.v[k] = x.v[c + k];
            put<To, V>(dst, (i * 8 + c) / V, part);
        }
    }
}

template <class From, class To>
static void launch(cudaStream_t stream, const void *src, struct ls_cuda_place from, void *dst, struct ls_cuda_place to)
{
    if (to.is_last && to.stored_c == 8)
        reorder_pixels<<<blocks_for(to.mb * to.hw), THREADS, 0, stream>>>((const From *)src, from, (To *)dst, to);
    else
        reorder<<<blocks_for(to.mb * to.stored_c * to.hw), THREADS, 0, stream>>>((const From *)src, from, (To *)dst,
                                                                                 to);
}

extern "C" cudaError_t ls__cuda_run_reorder(cudaStream_t stream, const void *src, struct ls_cuda_place from, void *dst,
                                            struct ls_cuda_place to)
{
    if (from.type == LS_CUDA_F32 && to.type == LS_CUDA_F32)
        launch<float, float>(stream, src, from, dst, to);
    else if (from.type == LS_CUDA_F32)
        launch<float, bf16>(stream, src, from, dst, to);
    else if (to.type == LS_CUDA_F32)
        launch<bf16, float>(stream, src, from, dst, to);
    else
        launch<bf16, bf16>(stream, src, from, dst, to);
    return cudaGetLastError();
}
