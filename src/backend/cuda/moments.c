/* moments.c: a step's moments by the card's clock: events in its stream, read when the step has been waited for.
 * Without a group nobody asks, and none are made. */
#include "backend/cuda/cuda.h"

static enum ls_status mark(struct ls_device *d, enum ls_moment moment)
{
    ls__cuda_make_current(d);
    if (!d->moments[moment]) TRY(LS_CUDA(cudaEventCreate(&d->moments[moment])));
    if (moment == LS_MOMENT_BEGIN) d->is_adding = false;
    /* At the beginning nothing waits to be enqueued but `now`, which travels with the load. */
    cudaStream_t stream = moment == LS_MOMENT_BEGIN ? d->stream : ls__cuda_stream(d);
    return LS_CUDA(cudaEventRecord(d->moments[moment], stream));
}

enum ls_status ls__cuda_mark_adding(struct ls_device *d, cudaStream_t stream)
{
    cudaEvent_t *event = &d->moments[LS_MOMENT_ADDING];
    if (d->is_adding || !d->moments[LS_MOMENT_BEGIN]) return LS_OK;
    if (!*event) TRY(LS_CUDA(cudaEventCreate(event)));
    d->is_adding = true;
    return LS_CUDA(cudaEventRecord(*event, stream));
}

static enum ls_status read(struct ls_device *d, int64_t ns[LS_N_MOMENTS])
{
    ls__cuda_make_current(d);
    TRY(LS_CUDA(cudaEventSynchronize(d->moments[LS_MOMENT_END]))); /* it is behind us: what was waited for came later */
    for (int i = 0; i < LS_N_MOMENTS; i++) {
        const int of = i == LS_MOMENT_ADDING && !d->is_adding ? LS_MOMENT_SHARDS : i;
        float ms = 0;
        TRY(LS_CUDA(cudaEventElapsedTime(&ms, d->moments[LS_MOMENT_BEGIN], d->moments[of])));
        ns[i] = (int64_t)(1e6 * (double)ms);
    }
    return LS_OK;
}

void ls__cuda_moments_release(struct ls_device *d)
{
    for (int i = 0; i < LS_N_MOMENTS; i++)
        if (d->moments[i]) (void)cudaEventDestroy(d->moments[i]);
}

const struct ls_device_clock ls__cuda_clock = {.mark = mark, .read = read};
