/* aside.c: gradients of convolutions' weights beside the rest of backward. Nobody waits for them before the sums, so
 * they go into a stream of their own, which begins where the first one is at that moment; what the larger kernels leave
 * of the card is used. The first stream is the more urgent one.
 *
 * What such an op reads, and its scratch, stays untouched until the op LS_ASIDE ops of this kind later is launched
 * (ls_kernel.is_aside; plan/memory.c), for which the first stream waits until it is done. Who reads what they make,
 * sums (jobs.c) or REORDER, and who copies to the host, calls ls__cuda_join.
 *
 * Sums that other cards wait for while the first stream goes on are made here, too, behind the gradients that they
 * read.
 */
#include "backend/cuda/cuda.h"

static cudaEvent_t *end_of(struct ls_device *d, int op)
{
    return &d->aside_ends[op % LS_ASIDE];
}

/* Made with the first op. */
static enum ls_status need_stream(struct ls_device *d)
{
    if (d->aside) return LS_OK;
    TRY(LS_CUDA(cudaEventCreateWithFlags(&d->aside_begin, cudaEventDisableTiming)));
    for (int i = 0; i < LS_ASIDE; i++)
        TRY(LS_CUDA(cudaEventCreateWithFlags(&d->aside_ends[i], cudaEventDisableTiming)));
    return LS_CUDA(cudaStreamCreateWithFlags(&d->aside, cudaStreamNonBlocking));
}

enum ls_status ls__cuda_aside_begin(struct ls_device *d, cudaStream_t *out)
{
    cudaStream_t stream = ls__cuda_stream(d);
    TRY(need_stream(d));
    if (d->n_aside >= LS_ASIDE) TRY(LS_CUDA(cudaStreamWaitEvent(stream, *end_of(d, d->n_aside), 0)));
    TRY(LS_CUDA(cudaEventRecord(d->aside_begin, stream)));
    TRY(LS_CUDA(cudaStreamWaitEvent(d->aside, d->aside_begin, 0)));
    *out = d->aside;
    return LS_OK;
}

enum ls_status ls__cuda_aside_end(struct ls_device *d)
{
    TRY(LS_CUDA(cudaEventRecord(*end_of(d, d->n_aside), d->aside)));
    d->n_aside++;
    return LS_OK;
}

enum ls_status ls__cuda_join(struct ls_device *d)
{
    if (d->n_aside == 0) return LS_OK;
    const int last = d->n_aside - 1;
    d->n_aside = 0;
    return LS_CUDA(cudaStreamWaitEvent(d->stream, *end_of(d, last), 0));
}

static enum ls_status record_ready(struct ls_device *d, int which, cudaStream_t stream)
{
    cudaEvent_t *event = &d->ready[which];
    if (!*event) TRY(LS_CUDA(cudaEventCreateWithFlags(event, cudaEventDisableTiming)));
    /* External: in a recording it is a node, which records it each time, for who waits outside. */
    return d->is_recording ? LS_CUDA(cudaEventRecordWithFlags(*event, stream, cudaEventRecordExternal))
                           : LS_CUDA(cudaEventRecord(*event, stream));
}

enum ls_status ls__cuda_ready(struct ls_device *d, int which, const int64_t *data, int64_t n)
{
    ls__cuda_make_current(d);
    if (!ls__cuda_sums_are_alone(d)) {
        cudaStream_t stream = ls__cuda_stream(d);
        TRY(ls__cuda_join(d));
        return record_ready(d, which, stream);
    }
    TRY(need_stream(d));
    TRY(LS_CUDA(cudaEventRecord(d->aside_begin, d->stream)));
    TRY(LS_CUDA(cudaStreamWaitEvent(d->aside, d->aside_begin, 0)));
    TRY(ls__cuda_let_sums_go(d, d->aside));
    TRY(record_ready(d, which, d->aside));
    if (d->n_aside == 0) d->n_aside = 1;
    return LS_CUDA(cudaEventRecord(*end_of(d, d->n_aside - 1), d->aside)); /* the last op's end comes later */
}

void ls__cuda_aside_release(struct ls_device *d)
{
    if (d->aside) (void)cudaStreamSynchronize(d->aside);
    for (int i = 0; i < LS_ASIDE; i++)
        if (d->aside_ends[i]) (void)cudaEventDestroy(d->aside_ends[i]);
    for (int i = 0; i < LS_MAX_READY; i++)
        if (d->ready[i]) (void)cudaEventDestroy(d->ready[i]);
    if (d->aside_begin) (void)cudaEventDestroy(d->aside_begin);
    if (d->aside) (void)cudaStreamDestroy(d->aside);
}
