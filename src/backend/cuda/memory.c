/* memory.c: the card's memory, and the one place where the host waits for the card and hears what failed there. */
#include "backend/cuda/cuda.h"

#include "base/clock.h"

#include <math.h>
#include <string.h>

/* The stream, behind all that was launched. */
static cudaStream_t whole_stream(struct ls_device *d)
{
    cudaStream_t stream = ls__cuda_stream(d);
    ls__cuda_keep_failure(d, ls__cuda_join(d));
    return stream;
}

static enum ls_status alloc(struct ls_device *d, size_t bytes, void **out)
{
    size_t free_bytes = 0, total = 0;
    *out = NULL;
    ls__cuda_make_current(d);
    const cudaError_t error = cudaMalloc(out, bytes);
    if (error == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        (void)cudaMemGetInfo(&free_bytes, &total);
        return ls_fail(
            LS_NOMEM,
            "cuda: %zu MiB were asked for, %zu of the card's %zu MiB are free; a smaller -b or more --shards "
            "needs less, nvidia-smi shows who else uses the card",
            (bytes + ((1 << 20) - 1)) >> 20, free_bytes >> 20, total >> 20);
    }
    TRY(LS_CUDA(error));
    return bytes ? LS_CUDA(cudaMemsetAsync(*out, 0, bytes, whole_stream(d))) : LS_OK;
}

static void release(struct ls_device *d, void *data, size_t bytes)
{
    (void)cudaStreamSynchronize(whole_stream(d)); /* what was enqueued may still use it */
    (void)cudaFree(data);
}

static enum ls_status copy(struct ls_device *d, void *dst, const void *src, size_t bytes, enum ls_copy direction)
{
    const enum cudaMemcpyKind kind = direction == LS_TO_DEVICE ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
    if (bytes == 0) return LS_OK;
    TRY(LS_CUDA(cudaMemcpyAsync(dst, src, bytes, kind, whole_stream(d))));
    return ls__cuda_wait(d);
}

/* Enqueued: nobody can see the bytes but through what is enqueued after it. */
static enum ls_status fill(struct ls_device *d, void *data, int byte, size_t bytes)
{
    return bytes ? LS_CUDA(cudaMemsetAsync(data, byte, bytes, whole_stream(d))) : LS_OK;
}

/* --- what failed on the card --- */

static enum ls_status label_fault(const struct ls_cuda_kernel *k, int label)
{
    const long long n = (long long)(ls_shape_count(&k->in[0]) / k->in[0].dims[0]);
    return ls_fail(LS_DATA, "label %d, but the network has %lld outputs (classes 0 to %lld)", label, n, n - 1);
}

static enum ls_status sum_fault(const struct ls_cuda_kernel *k)
{
    const struct ls_attrs *a = &k->attrs;
    if (k->base.impl->op == LS_OP_LINEAR_SUM)
        return ls_fail(LS_NONFINITE, "%s: gradient not finite or beyond the fixed-point range", k->name);
    const double whole = ldexp(a->alpha != 0.0f ? (double)a->alpha : 1.0, a->scale_log2);
    return ls_fail(LS_NONFINITE, "%s: a shard's value is not finite or beyond %g, the range of fixed point", k->name,
                   ldexp(1, a->by_share ? LS_FIXED_MEAN_BITS : LS_FIXED_BITS) / fabs(whole));
}

/* What the card found, after it has come to the end. What failed elsewhere is told there, and this job ends with its
 * step; until then the flag stays, for updates may still come. */
static enum ls_status look(struct ls_device *d)
{
    const struct ls_cuda_fault seen = d->seen->fault;
    TRY(ls__cuda_take_failure(d));
    if (seen.id == 0 || seen.id == LS_CUDA_FAULT_ELSEWHERE) return LS_OK;
    TRY(LS_CUDA(cudaMemsetAsync(d->fault, 0, sizeof *d->fault, d->stream)));
    const struct ls_cuda_kernel *k = seen.id > 0 && seen.id <= d->n_watched ? d->watched[seen.id - 1] : NULL;
    if (!k) return ls_fail(LS_INTERNAL, "cuda: a fault of unknown origin (%d)", seen.id);
    return k->base.impl->op == LS_OP_SOFTMAX_CE ? label_fault(k, seen.detail) : sum_fault(k);
}

static enum ls_status settle(struct ls_device *d)
{
    TRY(LS_CUDA(cudaMemcpyAsync(&d->seen->fault, d->fault, sizeof *d->fault, cudaMemcpyDeviceToHost, whole_stream(d))));
    TRY(ls__cuda_wait(d));
    return look(d);
}

/* Until the message is there. A step of a small network takes less time than the driver's wait, so first we look. */
static enum ls_status await_seen(struct ls_device *d)
{
    enum { SPIN_NS = 200000, LOOKS = 64 };
    const int64_t began = ls__now_ns();
    do {
        for (int i = 0; i < LOOKS; i++)
            if (__atomic_load_n(&d->seen->number, __ATOMIC_ACQUIRE) == d->n_seen) return LS_OK;
    } while (ls__now_ns() - began < SPIN_NS);
    return ls__cuda_wait(d);
}

/* Some bytes come by way of pinned memory, with the fault. */
static enum ls_status read(struct ls_device *d, void *host, const void *data, size_t bytes)
{
    if (bytes > sizeof d->seen->bytes) {
        TRY(LS_CUDA(cudaMemcpyAsync(host, data, bytes, cudaMemcpyDeviceToHost, whole_stream(d))));
        return settle(d);
    }
    d->n_seen++;
    TRY(LS_CUDA(ls__cuda_run_show(whole_stream(d), d->seen, data, (int)bytes, d->fault, d->n_seen)));
    TRY(await_seen(d));
    memcpy(host, d->seen->bytes, bytes);
    return look(d);
}

/* --- many at once, by way of pinned memory --- */

enum { PASSING = 16 << 20, SLOT = 64 }; /* bytes; each part begins at a multiple of the second */

static size_t slot(size_t bytes)
{
    return (bytes + SLOT - 1) / SLOT * SLOT;
}

/* The first of them, as many as fit, with one wait. */
static enum ls_status pass(struct ls_device *d, const struct ls_copy_part *parts, int n, enum ls_copy direction)
{
    cudaStream_t stream = whole_stream(d);
    char *at = d->passing;
    for (int i = 0; i < n; at += slot(parts[i++].bytes)) {
        const struct ls_copy_part *p = &parts[i];
        if (direction == LS_TO_DEVICE) memcpy(at, p->host, p->bytes);
        TRY(direction == LS_TO_DEVICE
                ? LS_CUDA(cudaMemcpyAsync(p->data, at, p->bytes, cudaMemcpyHostToDevice, stream))
                : LS_CUDA(cudaMemcpyAsync(at, p->data, p->bytes, cudaMemcpyDeviceToHost, stream)));
    }
    if (direction == LS_TO_DEVICE) return ls__cuda_wait(d);
    TRY(settle(d));
    at = d->passing;
    for (int i = 0; i < n; at += slot(parts[i++].bytes)) memcpy(parts[i].host, at, parts[i].bytes);
    return LS_OK;
}

static enum ls_status copy_all(struct ls_device *d, const struct ls_copy_part *parts, int n, enum ls_copy direction)
{
    if (!d->passing) TRY(LS_CUDA(cudaMallocHost(&d->passing, PASSING)));
    for (int i = 0, end; i < n; i = end) {
        size_t bytes = 0;
        for (end = i; end < n && bytes + slot(parts[end].bytes) <= PASSING; end++) bytes += slot(parts[end].bytes);
        if (end > i) {
            TRY(pass(d, parts + i, end - i, direction));
            continue;
        }
        const struct ls_copy_part *large = &parts[end++];
        TRY(direction == LS_TO_DEVICE ? copy(d, large->data, large->host, large->bytes, direction)
                                      : read(d, large->host, large->data, large->bytes));
    }
    return LS_OK;
}

const struct ls_device_memory ls__cuda_memory = {
    .alloc = alloc, .free = release, .copy = copy, .fill = fill, .settle = settle, .read = read, .copy_all = copy_all};
