/* cuda.h: the CUDA backend: NVIDIA cards, through the plug-in lockstep-cuda.so.
 *
 * Rules of the house:
 *
 *   - One stream per device; everything is enqueued there in the order of the plan, but for gradients of convolutions'
 *     weights, which go beside it (aside.c), and images on their way to the card (load.c). launch only enqueues.
 *   - What can fail on the card (a sum out of range, a label out of range) writes the number of its kernel into
 *     `fault`, in the card's memory. Updates read it and change nothing once it is set. settle reads it, once per step.
 *   - Convolutions are cuDNN's (dnn.h), matrix products cuBLASLt's (linear.c), the rest is our own.
 *   - Layouts are plain in float32; with tf32 and bf16 most activations and convolutions' weights lie with the channels
 *     last (layout.c). Parameters are float32 always; bf16 is a copy of them.
 *   - Deterministic only: no atomic addition of floats, every sum in an order that follows from the shapes alone,
 *     algorithms by a table or the libraries' heuristics, never by measurement while running. float32 is float32: TF32
 * only when asked for.
 *   - Sums, updates and copies of parameters wait in a list (jobs.c) and become one kernel. So whoever enqueues
 *     something else takes the stream from ls__cuda_stream, which enqueues the list first.
 *   - The ops of small networks wait too (small.c), before those.
 *   - nvcc compiles kernels/ only; its launchers are declared in kernels/kernels.h. The rest is C.
 *
 * One file per op family holds its prepare, launch and const tables, under the name ref uses; device.c lists them.
 */
#ifndef LS_BACKEND_CUDA_CUDA_H
#define LS_BACKEND_CUDA_CUDA_H

#include "backend/backend.h"
#include "backend/cuda/kernels/kernels.h"
#include "base/status_kept.h"

#include <cublasLt.h>
#include <cudnn.h>

#define LS_CUDA_DECLARE(NAME, name) extern const struct ls_impl ls__cuda_##name;
LS_OP_MAP(LS_CUDA_DECLARE)
#undef LS_CUDA_DECLARE
/* conv2d_direct.c: our own convolutions, for what cuDNN has no deterministic float32 engine for */
/* small_ops.c: the ops of small networks, tried first */
#define LS_CUDA_SMALL_MAP(X)                                                                                           \
    X(CONV2D, conv2d)                                                                                                  \
    X(CONV2D_BWD_DATA, conv2d_bwd_data)                                                                                \
    X(CONV2D_BWD_WEIGHTS, conv2d_bwd_weights)                                                                          \
    X(LINEAR, linear)                                                                                                  \
    X(LINEAR_BWD_DATA, linear_bwd_data)                                                                                \
    X(LINEAR_BWD_WEIGHTS, linear_bwd_weights)                                                                          \
    X(MAXPOOL, maxpool)                                                                                                \
    X(MAXPOOL_BWD, maxpool_bwd)                                                                                        \
    X(AVGPOOL, avgpool)                                                                                                \
    X(AVGPOOL_BWD, avgpool_bwd)                                                                                        \
    X(RELU, relu)                                                                                                      \
    X(RELU_BWD, relu_bwd)                                                                                              \
    X(ADD, add)                                                                                                        \
    X(SOFTMAX_CE, softmax_ce)
#define LS_CUDA_DECLARE_SMALL(NAME, name) extern const struct ls_impl ls__cuda_small_##name;
LS_CUDA_SMALL_MAP(LS_CUDA_DECLARE_SMALL)
#undef LS_CUDA_DECLARE_SMALL
extern const struct ls_impl ls__cuda_direct_conv2d, ls__cuda_direct_conv2d_bwd_data, ls__cuda_direct_conv2d_bwd_weights;

/* Pinned memory that a load writes, and the card's memory that it is copied to; load.c. */
struct ls_cuda_staging {
    void *host, *landing;
    size_t bytes, landing_bytes;
    cudaEvent_t is_read; /* the card has read `host`: what was copied from there has landed */
    cudaEvent_t is_used; /* its kernels have read `landing` */
    int64_t fetched;     /* the number of the fetch whose load has not come yet; 0: none */
};
enum { LS_CUDA_N_STAGING = 2 };

/* A parameter's copy in bf16, in the same order: the update writes both (copies.c). */
struct ls_cuda_copy {
    const void *param;
    void *copy;
    int64_t n;   /* elements */
    int n_bound; /* how many ops make it */
};

struct ls_pool;
struct ls_cuda_group; /* sums_real.c */
struct ls_cuda_small; /* small.c */

/* All members are written by the one thread that launches; a device serves one at a time (max_threads). */
struct ls_device {
    struct cudaDeviceProp *card;
    int ordinal;                 /* its number, of those that CUDA_VISIBLE_DEVICES shows */
    struct ls_cuda_group *group; /* NULL: alone */
    cudaStream_t stream;         /* take it from ls__cuda_stream */
    cudaStream_t aside;          /* aside.c; NULL until it is needed, as its events */
    cudaEvent_t aside_begin, aside_ends[LS_ASIDE];
    cudaEvent_t ready[LS_MAX_READY];   /* sums that are made, there; NULL until they are needed */
    cudaEvent_t moments[LS_N_MOMENTS]; /* moments.c; NULL until they are needed */
    bool is_adding;                    /* since BEGIN the moment ADDING was recorded */
    int n_aside;                       /* ops there that the stream has not waited for, or has by way of later ones */
    enum ls_precision precision;
    struct ls_cuda_small *small;         /* ops not yet enqueued */
    struct ls_cuda_jobs *jobs, *updates; /* the same, after them; the second after the first */
    struct ls_cuda_copy *copies;
    int n_copies;
    bool is_recording;           /* kernels read what changes from step to step from `now` */
    struct ls_cuda_now *now;     /* in the card's memory */
    struct ls_cuda_now next_now; /* what it becomes, by the next that is enqueued */
    bool has_next_now;
    struct ls_attrs rates[LS_CUDA_MAX_RATES]; /* of AdamW: those whose rates `now` has */
    int n_rates;
    bool is_unrecordable; /* there are more of them */
    unsigned *tickets;    /* in the card's memory, zero between launches; each kernel takes its own */
    int n_tickets;
    cudnnHandle_t dnn; /* NULL until a convolution is prepared, as the next */
    cublasLtHandle_t blas;
    struct ls_cuda_fault *fault; /* in the card's memory */
    struct ls_cuda_seen *seen;   /* in pinned memory: what the host reads */
    uint32_t n_seen;             /* messages asked for */
    struct ls_kept failure;      /* the first of what could not be enqueued when somebody took the stream */
    /* Kernels that may report a fault, by number - 1; NULL: gone. */
    const struct ls_cuda_kernel **watched;
    int n_watched;
    struct ls_cuda_staging staging[LS_CUDA_N_STAGING];
    int next_staging;
    cudaStream_t copying;      /* of bytes to `landing`; NULL until it is needed, as the next */
    struct ls_pool *gatherers; /* threads that write `host` */
    void *passing;             /* memory.c: in pinned memory, on the way either way; NULL until it is needed */
};

/* The kernel of every op begins with this: what launch needs to know of the node, copied. */
struct ls_cuda_kernel {
    struct ls_kernel base;
    struct ls_device *device;
    struct ls_attrs attrs;
    struct ls_shape in[LS_MAX_IN], out[LS_MAX_OUT]; /* zero dims where absent */
    char name[64];                                  /* the node's, for messages */
    int fault_id;                                   /* > 0: what it writes into device->fault */
    enum ls_cuda_type type;                         /* of the activations */
    bool is_last;                                   /* channels last */
    unsigned *tickets;                              /* of kernels whose blocks meet at the end */
};

static inline const struct ls_cuda_kernel *ls__cuda_kernel_of(const struct ls_bound *b)
{
    return (const struct ls_cuda_kernel *)b->kernel;
}

/* Makes a kernel of `size` bytes that begins with struct ls_cuda_kernel: plain layouts, no scratch, one part. */
enum ls_status ls__cuda_kernel_create(void *out, size_t size, const struct ls_prep *prep,
                                      const struct ls_impl *impl) LS_MUST_CHECK;
/* layout.c: how values lie besides plain. bf16 halves are narrow, their wide version is the line below. */
enum {
    LS_CUDA_LAST_BF16 = 1, /* [mb,h,w,c], of two dims plain order, in bf16 */
    LS_CUDA_LAST_F32,      /* the same in float32, of four dims only */
    LS_CUDA_PADDED_BF16,   /* channels filled up with zeros to a multiple of 8 */
    LS_CUDA_PADDED_F32,
    /* From here on: blocks of a convolution with a stride (kernels.h), of images and of weights; ls__cuda_blocks_id */
    LS_CUDA_BLOCKS = 1 << 16,
};
enum ls_cuda_blocked { LS_CUDA_BLOCKED_IMAGE, LS_CUDA_BLOCKED_WEIGHTS };
int ls__cuda_blocks_id(enum ls_cuda_blocked what, enum ls_cuda_type type, int k, int s, int pad);
bool ls__cuda_is_blocks(int id, enum ls_cuda_blocked *what, enum ls_cuda_type *type);
/* shape: the image's, or the weights', whose image is then not known */
struct ls_cuda_blocks ls__cuda_blocks(int id, const struct ls_shape *shape);
struct ls_layout ls__cuda_layout(int id, const struct ls_shape *s);
/* The layout in which the elements lie in float32 in the same order: LAST_F32, or plain for fewer than four dims. */
struct ls_layout ls__cuda_wide(const struct ls_shape *s);
/* What activations of the device's precision are: LAST_BF16, or LAST_F32 for tf32 (plain for fewer than four dims). */
struct ls_layout ls__cuda_native(const struct ls_device *d, const struct ls_shape *s);
struct ls_cuda_place ls__cuda_place(int id, const struct ls_shape *s);
/* A prepare that takes the layout of input `in` for all inputs and outputs of its shape: elementwise ops. */
enum ls_status ls__cuda_follow(const struct ls_prep *prep, int in, struct ls_cuda_kernel *k) LS_MUST_CHECK;
enum ls_status ls__cuda_prepare_following(const struct ls_prep *prep, struct ls_kernel **out) LS_MUST_CHECK;

/* The stream, with everything enqueued that waited; what could not be is kept (ls__cuda_take_failure). */
cudaStream_t ls__cuda_stream(struct ls_device *device);
struct ls_cuda_next_now
ls__cuda_next_now(const struct ls_device *device); /* what a kernel of the next step is to set */
/* aside.c: begin gives the stream in which the op's work goes, end comes after it; join: the other one waits for it. */
enum ls_status ls__cuda_aside_begin(struct ls_device *device, cudaStream_t *stream) LS_MUST_CHECK;
enum ls_status ls__cuda_aside_end(struct ls_device *device) LS_MUST_CHECK;
enum ls_status ls__cuda_join(struct ls_device *device) LS_MUST_CHECK;
/* ls_device_sums.ready: the sums that wait are made there, behind all that was launched and beside what comes. */
enum ls_status ls__cuda_ready(struct ls_device *device, int which, const int64_t *data, int64_t n) LS_MUST_CHECK;
void ls__cuda_aside_release(struct ls_device *device);
/* jobs.c: adds one; same kinds are enqueued together. */
enum ls_status ls__cuda_job(struct ls_device *device, const struct ls_cuda_job *job) LS_MUST_CHECK;
/* Enqueues what waits there. */
enum ls_status ls__cuda_let_jobs_go(struct ls_device *device) LS_MUST_CHECK;
/* Sums alone, in another stream, where nothing else waits; false: there is more, nothing was done. */
bool ls__cuda_sums_are_alone(const struct ls_device *device);
enum ls_status ls__cuda_let_sums_go(struct ls_device *device, cudaStream_t stream) LS_MUST_CHECK;
/* A failure that its caller cannot return is kept, the first one; sums and updates are not enqueued behind it. Whoever
 * tells the host how things went (settle, read, replay, end) takes it: returns it, and forgets it. */
void ls__cuda_keep_failure(struct ls_device *device, enum ls_status status);
enum ls_status ls__cuda_take_failure(struct ls_device *device) LS_MUST_CHECK;
/* copies.c: an op that narrows `param` is bound, or unbound; is_followed: updates bring this copy along. */
enum ls_status ls__cuda_copy_bind(struct ls_device *device, const void *param, void *copy, int64_t n,
                                  bool *is_followed) LS_MUST_CHECK;
void ls__cuda_copy_unbind(struct ls_device *device, const void *param, const void *copy);
void *ls__cuda_copy_of(const struct ls_device *device, const void *param, int64_t n); /* NULL: it has none */
/* small.c */
enum ls_status ls__cuda_small_create(struct ls_device *device) LS_MUST_CHECK;
void ls__cuda_small_destroy(struct ls_device *device);
/* What is added up over samples is checked, and the loss reduced, where it is made: those jobs are taken away. */
void ls__cuda_small_take_over(struct ls_device *device, struct ls_cuda_jobs *jobs);
bool ls__cuda_small_is_waiting(const struct ls_device *device);
enum ls_status ls__cuda_small_flush(struct ls_device *device) LS_MUST_CHECK;
/* Some unsigned numbers in the card's memory, zero, for a kernel to count in; NULL: none are left. */
unsigned *ls__cuda_tickets(struct ls_device *device, int n);
enum ls_status ls__cuda_take_tickets(struct ls_cuda_kernel *k, const struct ls_shape *s) LS_MUST_CHECK;
struct ls_cuda_rows ls__cuda_rows(const struct ls_shape *s);
/* What recorded kernels read, or NULL: the values of the launch. */
static inline const struct ls_cuda_now *ls__cuda_now(const struct ls_device *d)
{
    return d->is_recording ? d->now : NULL;
}
/* record.c */
extern const struct ls_device_recording ls__cuda_recording;
/* adamw.c */
struct ls_cuda_adamw ls__cuda_rates(const struct ls_attrs *a, const struct ls_step_ctx *ctx);

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
struct ls_cuda_range ls__cuda_part(const struct ls_cuda_kernel *k, const struct ls_step_ctx *ctx);

/* The libraries want their workspaces at multiples of 256; a plan's scratch lies at one of 64. What to ask for, and
 * where the workspace then begins. */
size_t ls__cuda_workspace_bytes(size_t bytes);
void *ls__cuda_workspace(void *scratch);

/* Scratch of the sums over channels (kernels/channels.cu) of a tensor of this shape. */
size_t ls__cuda_channel_scratch(const struct ls_shape *s);

/* sgd.c, for all updates: what they have in common */
struct ls_cuda_job ls__cuda_update(const struct ls_bound *b, struct ls_cuda_range r, enum ls_cuda_job_kind kind);
enum ls_status ls__cuda_prepare_update(const struct ls_prep *prep, struct ls_kernel **out) LS_MUST_CHECK;
/* avgpool.c, for maxpool too */
struct ls_cuda_pool ls__cuda_pool(const struct ls_attrs *a, const struct ls_shape *image,
                                  const struct ls_shape *pooled);
struct ls_cuda_last_pool ls__cuda_last_pool(const struct ls_attrs *a, const struct ls_shape *image,
                                            const struct ls_shape *pooled);
enum ls_status ls__cuda_prepare_pool(const struct ls_prep *prep, struct ls_kernel **out) LS_MUST_CHECK;
/* conv2d_direct.c, for both convolutions */
struct ls_cuda_conv ls__cuda_conv(const struct ls_attrs *a, const struct ls_shape *src, const struct ls_shape *dst);
/* conv2d.c and linear.c: bias and relu after the product, in place; nothing where there are none */
enum ls_status ls__cuda_finish(const struct ls_cuda_kernel *k, const float *bias, void *dst) LS_MUST_CHECK;
/* and the gradient of the bias, from diff_dst of shape s in the kernel's type */
enum ls_status ls__cuda_bias_scratch(struct ls_cuda_kernel *k, const struct ls_shape *s) LS_MUST_CHECK;
enum ls_status ls__cuda_bias_sums(cudaStream_t stream, const struct ls_bound *b, const struct ls_shape *s,
                                  const void *diff_dst, float *diff_bias) LS_MUST_CHECK;

/* device.c: made when first needed, because loading the libraries takes a while */
enum ls_status ls__cuda_need_dnn(struct ls_device *device) LS_MUST_CHECK;
enum ls_status ls__cuda_need_blas(struct ls_device *device) LS_MUST_CHECK;

/* sums_real.c */
extern const struct ls_device_sums ls__cuda_sums;
/* Until all that was enqueued is done. The stream is the caller's: what waits in the lists is not enqueued. */
enum ls_status ls__cuda_wait(struct ls_device *device) LS_MUST_CHECK;
/* device.c: a card is current per thread; the one that opened the device need not be the one that launches */
void ls__cuda_make_current(const struct ls_device *device);

/* moments.c */
extern const struct ls_device_clock ls__cuda_clock;
/* The moment ADDING, once per step: what follows in this stream is the first sum beside the shards. */
enum ls_status ls__cuda_mark_adding(struct ls_device *device, cudaStream_t stream) LS_MUST_CHECK;
void ls__cuda_moments_release(struct ls_device *device);
/* memory.c */
extern const struct ls_device_memory ls__cuda_memory;
/* load.c */
enum ls_status ls__cuda_load(struct ls_device *device, const struct ls_load *load) LS_MUST_CHECK;
enum ls_status ls__cuda_fetch(struct ls_device *device, const struct ls_load *load, int64_t number) LS_MUST_CHECK;
void ls__cuda_load_release(struct ls_device *device);

/* errors.c: foreign codes become ours; the text names the call. */
enum ls_status ls__cuda_status(cudaError_t error, const char *call) LS_MUST_CHECK;
enum ls_status ls__cuda_dnn_status(cudnnStatus_t error, const char *call) LS_MUST_CHECK;
enum ls_status ls__cuda_blas_status(cublasStatus_t error, const char *call) LS_MUST_CHECK;
#define LS_CUDA(call) ls__cuda_status((call), #call)
#define LS_DNN(call) ls__cuda_dnn_status((call), #call)
#define LS_BLAS(call) ls__cuda_blas_status((call), #call)

#endif
