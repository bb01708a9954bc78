/* device.c: a card: opened, described, closed; the list of its ops; the plug-in. */
#include "backend/cuda/small.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- is there a card? --- */

enum { OLDEST_MAJOR = 8 }; /* compute capability: what the kernels are compiled for */
enum { N_TICKETS = 1 << 14 };

static enum ls_status driver_is_old(void)
{
    int driver = 0, runtime = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
        return ls_fail(LS_UNSUPPORTED, "cuda: this machine has no NVIDIA driver; install it, or use --device cpu");
    (void)cudaRuntimeGetVersion(&runtime);
    return ls_fail(LS_UNSUPPORTED,
                   "cuda: the NVIDIA driver is for CUDA %d.%d, this build needs %d.%d; install a newer driver",
                   driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
}

static enum ls_status find_card(int *n_cards)
{
    const cudaError_t error = cudaGetDeviceCount(n_cards);
    if (error == cudaErrorInsufficientDriver || error == cudaErrorSystemDriverMismatch) return driver_is_old();
    if (error == cudaErrorNoDevice || (error == cudaSuccess && *n_cards == 0)) {
        const char *visible = getenv("CUDA_VISIBLE_DEVICES");
        return ls_fail(LS_UNSUPPORTED, "cuda: no NVIDIA card is to be seen here%s%s; use --device cpu",
                       visible ? ", CUDA_VISIBLE_DEVICES is " : "", visible ? visible : "");
    }
    return LS_CUDA(error);
}

static enum ls_status check_card(const struct cudaDeviceProp *card)
{
    if (card->major >= OLDEST_MAJOR) return LS_OK;
    return ls_fail(LS_UNSUPPORTED, "cuda: %s has compute capability %d.%d, at least %d.0 is needed; use --device cpu",
                   card->name, card->major, card->minor, OLDEST_MAJOR);
}

/* --- device --- */

void ls__cuda_make_current(const struct ls_device *d)
{
    if (d->ordinal > 0) (void)cudaSetDevice(d->ordinal); /* the first is every thread's from its start */
}

/* Processes take the cards in turn; more of them than cards share, unless each is to have its own. */
static enum ls_status choose_card(int n_cards, int turn, bool is_own, int *ordinal)
{
    struct cudaDeviceProp first;
    *ordinal = turn % n_cards;
    if (!is_own || turn < n_cards) return LS_OK;
    TRY(LS_CUDA(cudaGetDeviceProperties(&first, 0)));
    return ls_fail(LS_UNSUPPORTED,
                   "cuda: --gpus wants %d cards or more, %d %s to be seen here (%s); use --gpus %d, or -w to let more "
                   "processes share %s",
                   turn + 1, n_cards, n_cards == 1 ? "is" : "are", first.name, n_cards, n_cards == 1 ? "it" : "them");
}

static enum ls_status build(struct ls_device *d, int turn, bool is_own)
{
    int n_cards = 0, urgent = 0;
    void *fault = NULL;
    TRY(find_card(&n_cards));
    TRY(choose_card(n_cards, turn, is_own, &d->ordinal));
    TRY(ls__calloc(&d->card, 1, sizeof *d->card));
    TRY(LS_CUDA(cudaGetDeviceProperties(d->card, d->ordinal)));
    TRY(check_card(d->card));
    TRY(LS_CUDA(cudaSetDevice(d->ordinal)));
    TRY(LS_CUDA(cudaDeviceGetStreamPriorityRange(NULL, &urgent)));
    TRY(LS_CUDA(cudaStreamCreateWithPriority(&d->stream, cudaStreamNonBlocking, urgent)));
    TRY(LS_CUDA(cudaMalloc(&fault, sizeof *d->fault)));
    d->fault = fault;
    TRY(LS_CUDA(cudaMemsetAsync(d->fault, 0, sizeof *d->fault, d->stream)));
    TRY(LS_CUDA(cudaMallocHost(&fault, sizeof *d->seen)));
    d->seen = fault;
    memset(d->seen, 0, sizeof *d->seen);
    TRY(LS_CUDA(cudaMalloc(&fault, sizeof *d->now)));
    d->now = fault;
    TRY(LS_CUDA(cudaMalloc(&fault, N_TICKETS * sizeof *d->tickets)));
    d->tickets = fault;
    TRY(LS_CUDA(cudaMemsetAsync(d->tickets, 0, N_TICKETS * sizeof *d->tickets, d->stream)));
    TRY(ls__cuda_small_create(d));
    TRY(ls__calloc(&d->updates, 1, sizeof *d->updates));
    return ls__calloc(&d->jobs, 1, sizeof *d->jobs);
}

static void device_close(struct ls_device **device)
{
    struct ls_device *d = *device;
    if (!d) return;
    ls__cuda_sums.leave(d);
    if (d->stream) (void)cudaStreamSynchronize(d->stream);
    ls__cuda_aside_release(d);
    ls__cuda_moments_release(d);
    ls__cuda_load_release(d);
    if (d->dnn) (void)cudnnDestroy(d->dnn);
    if (d->blas) (void)cublasLtDestroy(d->blas);
    (void)cudaFree(d->fault);
    (void)cudaFree(d->now);
    (void)cudaFree(d->tickets);
    (void)cudaFreeHost(d->seen);
    (void)cudaFreeHost(d->passing);
    if (d->stream) (void)cudaStreamDestroy(d->stream);
    (void)cudaGetLastError();
    ls__cuda_small_destroy(d);
    free(d->jobs);
    free(d->updates);
    free(d->copies);
    free(d->watched);
    free(d->card);
    free(d);
    *device = NULL;
}

static enum ls_status device_open_at(struct ls_device **out, int turn, bool is_own)
{
    TRY(ls__calloc(out, 1, sizeof **out));
    enum ls_status status = build(*out, turn, is_own);
    if (status != LS_OK) device_close(out);
    return status;
}

static enum ls_status device_open(struct ls_device **out)
{
    return device_open_at(out, 0, false);
}

static int device_count(const struct ls_device *d)
{
    int n = 0;
    return cudaGetDeviceCount(&n) == cudaSuccess ? n : 0;
}

static enum ls_status set_precision(struct ls_device *d, enum ls_precision precision)
{
    d->precision = precision;
    return LS_OK;
}

/* --- what the card could do at its highest clock, by its kind --- */

static double attribute(const struct ls_device *d, enum cudaDeviceAttr which)
{
    int value = 0;
    return cudaDeviceGetAttribute(&value, which, d->ordinal) == cudaSuccess ? (double)value : 0.0;
}

/* Floating-point operations per clock of a multiprocessor, dense. */
static double flops_per_clock(const struct ls_device *d)
{
    const bool is_hopper = d->card->major >= 9;
    switch (d->precision) {
    case LS_PRECISION_BF16:
        return is_hopper ? 4096.0 : d->card->minor == 0 ? 2048.0 : 1024.0;
    case LS_PRECISION_TF32:
        return is_hopper ? 2048.0 : d->card->minor == 0 ? 1024.0 : 512.0;
    default:
        return is_hopper || d->card->minor > 0 ? 256.0 : 128.0;
    }
}

static double peak_gflops(const struct ls_device *d)
{
    return flops_per_clock(d) * attribute(d, cudaDevAttrMultiProcessorCount) * attribute(d, cudaDevAttrClockRate) *
           1e-6;
}

unsigned *ls__cuda_tickets(struct ls_device *d, int n)
{
    if (d->n_tickets + n > N_TICKETS) return NULL;
    d->n_tickets += n;
    return d->tickets + d->n_tickets - n;
}

enum ls_status ls__cuda_need_dnn(struct ls_device *d)
{
    if (d->dnn) return LS_OK;
    TRY(LS_DNN(cudnnCreate(&d->dnn)));
    return LS_DNN(cudnnSetStream(d->dnn, d->stream));
}

enum ls_status ls__cuda_need_blas(struct ls_device *d)
{
    return d->blas ? LS_OK : LS_BLAS(cublasLtCreate(&d->blas));
}

static void describe(const struct ls_device *d, char *text, size_t size)
{
    static const char *const names[] = {
        [LS_PRECISION_F32] = "float32", [LS_PRECISION_TF32] = "tf32", [LS_PRECISION_BF16] = "bf16"};
    int runtime = 0;
    (void)cudaRuntimeGetVersion(&runtime);
    const size_t dnn = cudnnGetVersion();
    snprintf(text, size, "%s, sm_%d%d, CUDA %d.%d, cuDNN %zu.%zu.%zu, cuBLASLt %zu, %s", d->card->name, d->card->major,
             d->card->minor, runtime / 1000, runtime % 1000 / 10, dnn / 10000, dnn / 100 % 100, dnn % 100,
             cublasLtGetVersion(), names[d->precision]);
}

static void identify(const struct ls_device *d, struct ls_backend_id *id)
{
    snprintf(id->software, sizeof id->software, "cudnn-%zu-cublaslt-%zu", cudnnGetVersion(), cublasLtGetVersion());
    snprintf(id->isa, sizeof id->isa, "sm_%d%d", d->card->major, d->card->minor);
}

static void place(const struct ls_device *d, char *text, size_t size)
{
    if (cudaDeviceGetPCIBusId(text, (int)size, d->ordinal) != cudaSuccess) text[0] = '\0';
}

/* --- ops --- */

/* Small networks' first; then cuDNN's convolutions, then ours; one of every other op. */
#define SMALL_IMPL(NAME, name) &ls__cuda_small_##name,
#define IMPL(NAME, name) &ls__cuda_##name,
#define IMPL_OF(NAME, name) [LS_OP_##NAME] = &ls__cuda_##name,
static const struct ls_impl *const impls[] = {
    LS_CUDA_SMALL_MAP(SMALL_IMPL) LS_OP_MAP(IMPL) & ls__cuda_direct_conv2d,
    &ls__cuda_direct_conv2d_bwd_data,
    &ls__cuda_direct_conv2d_bwd_weights,
    NULL,
};
static const struct ls_impl *const impl_of[LS_N_OPS] = {LS_OP_MAP(IMPL_OF)};
#undef SMALL_IMPL
#undef IMPL
#undef IMPL_OF

enum ls_status ls__cuda_kernel_create(void *out, size_t size, const struct ls_prep *prep, const struct ls_impl *impl)
{
    struct ls_cuda_kernel *k;
    TRY(ls_kernel_create(&k, size, prep, impl));
    k->base.n_parts = 1;
    k->device = prep->device;
    ls_prep_describe(prep, &k->attrs, k->in, k->out, k->name, sizeof k->name);
    *(struct ls_cuda_kernel **)out = k;
    return LS_OK;
}

enum ls_status ls__cuda_prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    struct ls_cuda_kernel *k;
    TRY(ls__cuda_kernel_create(&k, sizeof *k, prep, impl_of[prep->node->op]));
    *out = &k->base;
    return LS_OK;
}

enum ls_status ls__cuda_prepare_in_place(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__cuda_prepare(prep, out));
    (*out)->may_alias = true;
    (*out)->alias_in = 0;
    return LS_OK;
}

enum ls_status ls__cuda_prepare_following(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__cuda_prepare_in_place(prep, out));
    return ls__cuda_follow(prep, 0, (struct ls_cuda_kernel *)*out);
}

enum ls_status ls__cuda_watch(struct ls_cuda_kernel *k)
{
    struct ls_device *d = k->device;
    TRY(ls__grow(&d->watched, (size_t)d->n_watched, (size_t)d->n_watched + 1, sizeof *d->watched));
    d->watched[d->n_watched++] = k;
    k->fault_id = d->n_watched;
    return LS_OK;
}

void ls__cuda_unwatch(struct ls_kernel *kernel)
{
    struct ls_cuda_kernel *k = (struct ls_cuda_kernel *)kernel;
    if (k->fault_id) k->device->watched[k->fault_id - 1] = NULL;
    k->fault_id = 0;
}

struct ls_cuda_nchw ls__cuda_nchw(const struct ls_shape *s)
{
    struct ls_cuda_nchw n = {s->dims[0], s->n_dims > 1 ? s->dims[1] : 1, 1};
    for (int i = 2; i < s->n_dims; i++) n.hw *= s->dims[i];
    return n;
}

struct ls_cuda_range ls__cuda_part(const struct ls_cuda_kernel *k, const struct ls_step_ctx *ctx)
{
    int64_t begin, end;
    ls_part_range(ls_shape_count(&k->in[0]), ctx->part, ctx->n_parts, &begin, &end);
    return (struct ls_cuda_range){begin, end - begin};
}

enum { WORKSPACE_ALIGNMENT = 256, SCRATCH_ALIGNMENT = 64 };

size_t ls__cuda_workspace_bytes(size_t bytes)
{
    return bytes ? bytes + WORKSPACE_ALIGNMENT - SCRATCH_ALIGNMENT : 0;
}

void *ls__cuda_workspace(void *scratch)
{
    const uintptr_t mask = WORKSPACE_ALIGNMENT - 1;
    return (void *)(((uintptr_t)scratch + mask) & ~mask);
}

size_t ls__cuda_channel_scratch(const struct ls_shape *s)
{
    const struct ls_cuda_nchw n = ls__cuda_nchw(s);
    return 2 * (size_t)(n.c * ls__cuda_channel_pieces(n)) * sizeof(double);
}

static struct ls_cuda_rows rows_of(const struct ls_shape *s)
{
    const struct ls_cuda_nchw n = ls__cuda_nchw(s);
    return (struct ls_cuda_rows){n.mb * n.hw, (int)n.c};
}

enum ls_status ls__cuda_finish(const struct ls_cuda_kernel *k, const float *bias, void *dst)
{
    cudaStream_t stream = ls__cuda_stream(k->device);
    if (!bias && !k->attrs.relu) return LS_OK;
    if (k->is_last)
        return LS_CUDA(ls__cuda_run_last_bias(stream, k->type, dst, bias, dst, rows_of(&k->out[0]), k->attrs.relu));
    return LS_CUDA(ls__cuda_run_bias(stream, dst, bias, dst, ls__cuda_nchw(&k->out[0]), k->attrs.relu));
}

enum ls_status ls__cuda_bias_sums(cudaStream_t stream, const struct ls_bound *b, const struct ls_shape *s,
                                  const void *diff_dst, float *diff_bias)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    if (!k->is_last)
        return LS_CUDA(ls__cuda_run_channel_sums(stream, diff_dst, diff_bias, b->scratch, ls__cuda_nchw(s)));
    return LS_CUDA(ls__cuda_run_last_sums(stream, k->type, diff_dst, diff_bias, b->scratch, k->tickets, rows_of(s)));
}

enum ls_status ls__cuda_bias_scratch(struct ls_cuda_kernel *k, const struct ls_shape *s)
{
    const size_t bytes = k->is_last ? ls__cuda_last_partial_bytes(rows_of(s)) : ls__cuda_channel_scratch(s);
    if (bytes > k->base.scratch_bytes) k->base.scratch_bytes = bytes;
    return k->is_last ? ls__cuda_take_tickets(k, s) : LS_OK;
}

enum ls_status ls__cuda_take_tickets(struct ls_cuda_kernel *k, const struct ls_shape *s)
{
    k->tickets = ls__cuda_tickets(k->device, ls__cuda_last_n_tickets(rows_of(s)));
    return k->tickets ? LS_OK : ls_fail(LS_UNSUPPORTED, "cuda: too many layers for one device");
}

struct ls_cuda_rows ls__cuda_rows(const struct ls_shape *s)
{
    return rows_of(s);
}

/* --- the plug-in --- */

static const struct ls_backend backend = {
    .name = "cuda",
    .device_open = device_open,
    .device_open_at = device_open_at,
    .device_count = device_count,
    .device_close = device_close,
    .describe = describe,
    .identify = identify,
    .place = place,
    .memory = &ls__cuda_memory,
    .sums = &ls__cuda_sums,
    .clock = &ls__cuda_clock,
    .max_threads = 1,
    .set_precision = set_precision,
    .peak_gflops = peak_gflops,
    .default_shards = 1,
    .is_reduce_last = true,
    .has_norm_add = true,
    .keeps_apart = ls__cuda_is_small,
    .recording = &ls__cuda_recording,
    .can_keep_images = true,
    .load = ls__cuda_load,
    .fetch = ls__cuda_fetch,
    .impls = impls,
};

extern const struct ls_backend_plugin ls_backend_plugin __attribute__((visibility("default")));
const struct ls_backend_plugin ls_backend_plugin = {LS_BACKEND_ABI, &backend};
