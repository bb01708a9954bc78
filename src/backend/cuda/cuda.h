/* cuda.h: the CUDA backend: NVIDIA cards, through the plug-in lockstep-cuda.so.
 *
 * Rules of the house:
 *
 *   - One stream per device; everything is enqueued there in the order of the plan. launch only enqueues.
 *   - What can fail on the card (a sum out of range, a label out of range) writes the number of its kernel into
 *     `fault`, in the card's memory. Updates read it and change nothing once it is set. settle reads it, once per step.
 *   - Layouts are plain. Convolutions are cuDNN's (dnn.h), matrix products cuBLASLt's (linear.c), the rest is our own.
 *   - Deterministic only: no atomic addition of floats, every sum in an order that follows from the shapes alone,
 *     algorithms by the libraries' heuristics, never by measurement. float32 is float32: no TF32.
 *   - nvcc compiles kernels/ only; its launchers are declared in kernels/kernels.h. The rest is C.
 *
 * One file per op family holds its prepare, launch and const tables, under the name ref uses; device.c lists them.
 */
#ifndef LS_BACKEND_CUDA_CUDA_H
#define LS_BACKEND_CUDA_CUDA_H

#include "backend/backend.h"
#include "backend/cuda/kernels/kernels.h"

#include <cublasLt.h>
#include <cudnn.h>

#define LS_CUDA_DECLARE(NAME, name) extern const struct ls_impl ls__cuda_##name;
LS_OP_MAP(LS_CUDA_DECLARE)
#undef LS_CUDA_DECLARE
/* conv2d_direct.c: our own convolutions, for what cuDNN has no deterministic float32 engine for */
extern const struct ls_impl ls__cuda_direct_conv2d, ls__cuda_direct_conv2d_bwd_data, ls__cuda_direct_conv2d_bwd_weights;

/* Pinned memory that a load writes and the card copies from. */
struct ls_cuda_staging {
    void *host;
    size_t bytes;
    cudaEvent_t is_free; /* the card has read it */
};
enum { LS_CUDA_N_STAGING = 2 };

/* All members are written by the one thread that launches; a device serves one at a time (max_threads). */
struct ls_device {
    struct cudaDeviceProp *card;
    cudaStream_t stream;
    cudnnHandle_t dnn; /* NULL until a convolution is prepared, as the next */
    cublasLtHandle_t blas;
    struct ls_cuda_fault *fault;      /* in the card's memory */
    struct ls_cuda_fault *fault_seen; /* in pinned memory: what settle reads */
    /* Kernels that may report a fault, by number - 1; NULL: gone. */
    const struct ls_cuda_kernel **watched;
    int n_watched;
    struct ls_cuda_staging staging[LS_CUDA_N_STAGING];
    int next_staging;
    void *landing; /* in the card's memory: where staged bytes arrive */
    size_t landing_bytes;
};

/* The kernel of every op begins with this: what launch needs to know of the node, copied. */
struct ls_cuda_kernel {
    struct ls_kernel base;
    struct ls_device *device;
    struct ls_attrs attrs;
    struct ls_shape in[LS_MAX_IN], out[LS_MAX_OUT]; /* zero dims where absent */
    char name[64];                                  /* the node's, for messages */
    int fault_id;                                   /* > 0: what it writes into device->fault */
};

static inline const struct ls_cuda_kernel *ls__cuda_kernel_of(const struct ls_bound *b)
{
    return (const struct ls_cuda_kernel *)b->kernel;
}

/* Makes a kernel of `size` bytes that begins with struct ls_cuda_kernel: plain layouts, no scratch, one part. */
enum ls_status ls__cuda_kernel_create(void *out, size_t size, const struct ls_prep *prep,
                                      const struct ls_impl *impl) LS_MUST_CHECK;
/* The same as the whole `prepare` of simple ops, by the op's entry of LS_OP_MAP; ..._in_place: and dst may be src. */
enum ls_status ls__cuda_prepare(const struct ls_prep *prep, struct ls_kernel **out) LS_MUST_CHECK;
enum ls_status ls__cuda_prepare_in_place(const struct ls_prep *prep, struct ls_kernel **out) LS_MUST_CHECK;
/* Gives the kernel a number for device->fault; ls__cuda_unwatch is then its release. */
enum ls_status ls__cuda_watch(struct ls_cuda_kernel *k) LS_MUST_CHECK;
void ls__cuda_unwatch(struct ls_kernel *kernel);

/* A value as [mb, c, hw]: activations of two dims have hw = 1. */
struct ls_cuda_nchw ls__cuda_nchw(const struct ls_shape *s);
/* The elements of this call's part of a tensor of floats. */
struct ls_cuda_range {
    int64_t begin, n;
};
struct ls_cuda_range ls__cuda_part(const struct ls_kernel *k, const struct ls_step_ctx *ctx);

/* The libraries want their workspaces at multiples of 256; a plan's scratch lies at one of 64. What to ask for, and
 * where the workspace then begins. */
size_t ls__cuda_workspace_bytes(size_t bytes);
void *ls__cuda_workspace(void *scratch);

/* Scratch of the sums over channels (kernels/channels.cu) of a tensor of this shape. */
size_t ls__cuda_channel_scratch(const struct ls_shape *s);

/* sgd.c, for all updates: 2^-scale_log2; without a scale LS_SCALE_GRAD's */
double ls__cuda_update_unit(const struct ls_cuda_kernel *k);
/* avgpool.c, for maxpool too */
struct ls_cuda_pool ls__cuda_pool(const struct ls_attrs *a, const struct ls_shape *image,
                                  const struct ls_shape *pooled);
/* conv2d_direct.c, for both convolutions */
struct ls_cuda_conv ls__cuda_conv(const struct ls_attrs *a, const struct ls_shape *src, const struct ls_shape *dst);
/* conv2d.c and linear.c: bias and relu after the product, in place; nothing where there are none */
enum ls_status ls__cuda_finish(const struct ls_cuda_kernel *k, const float *bias, float *dst) LS_MUST_CHECK;

/* device.c: made when first needed, because loading the libraries takes a while */
enum ls_status ls__cuda_need_dnn(struct ls_device *device) LS_MUST_CHECK;
enum ls_status ls__cuda_need_blas(struct ls_device *device) LS_MUST_CHECK;

/* memory.c */
extern const struct ls_device_memory ls__cuda_memory;
/* load.c */
enum ls_status ls__cuda_load(struct ls_device *device, const struct ls_load *load) LS_MUST_CHECK;
void ls__cuda_load_release(struct ls_device *device);

/* errors.c: foreign codes become ours; the text names the call. */
enum ls_status ls__cuda_status(cudaError_t error, const char *call) LS_MUST_CHECK;
enum ls_status ls__cuda_dnn_status(cudnnStatus_t error, const char *call) LS_MUST_CHECK;
enum ls_status ls__cuda_blas_status(cublasStatus_t error, const char *call) LS_MUST_CHECK;
#define LS_CUDA(call) ls__cuda_status((call), #call)
#define LS_DNN(call) ls__cuda_dnn_status((call), #call)
#define LS_BLAS(call) ls__cuda_blas_status((call), #call)

#endif
