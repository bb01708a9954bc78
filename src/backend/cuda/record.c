/* record.c: launches recorded as a CUDA graph. Addresses and values are the launches' own; seed, step and rates, which
 * change from step to step, are read from device->now, which the load of the step writes, or a small kernel
 * before the next launch. */
#include "backend/cuda/cuda.h"

static enum ls_status begin(struct ls_device *d)
{
    if (d->is_unrecordable) return ls_fail(LS_UNSUPPORTED, "cuda: too many kinds of AdamW to record");
    cudaStream_t stream = ls__cuda_stream(d);
    if (d->failure.status != LS_OK) return ls__fail_again(&d->failure); /* of before: settle tells it */
    TRY(LS_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed)));
    d->is_recording = true;
    return LS_OK;
}

/* What waits beside the stream belongs to the capture that ends here, also when it fails: nobody may wait for it later.
 */
static enum ls_status end(struct ls_device *d, void **recording)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    *recording = NULL;
    cudaStream_t stream = ls__cuda_stream(d);
    ls__cuda_keep_failure(d, ls__cuda_join(d));
    d->is_recording = false;
    d->n_aside = 0;
    const enum ls_status enqueued = ls__cuda_take_failure(d);
    const enum ls_status ended = LS_CUDA(cudaStreamEndCapture(stream, &graph));
    enum ls_status status = enqueued != LS_OK ? enqueued : ended;
    if (status == LS_OK) status = LS_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    if (graph) (void)cudaGraphDestroy(graph);
    *recording = exec;
    return status;
}

static enum ls_status replay(struct ls_device *d, void *recording)
{
    cudaStream_t stream = ls__cuda_stream(d);
    TRY(ls__cuda_take_failure(d));
    return LS_CUDA(cudaGraphLaunch(recording, stream));
}

static void release(struct ls_device *d, void *recording)
{
    (void)cudaStreamSynchronize(ls__cuda_stream(d));
    (void)cudaGraphExecDestroy(recording);
}

static enum ls_status now(struct ls_device *d, const struct ls_step_ctx *ctx)
{
    d->next_now = (struct ls_cuda_now){.seed = ctx->seed, .step = ctx->step, .lr = ctx->lr};
    for (int i = 0; i < d->n_rates; i++) d->next_now.rates[i] = ls__cuda_rates(&d->rates[i], ctx);
    d->has_next_now = true;
    return LS_OK;
}

/* Only after a failure, so it may take its time. */
static int64_t failed_step(struct ls_device *d)
{
    int64_t step = -1;
    if (cudaMemcpyAsync(&step, &d->now->step, sizeof step, cudaMemcpyDeviceToHost, ls__cuda_stream(d)) == cudaSuccess)
        (void)cudaStreamSynchronize(d->stream);
    return step;
}

const struct ls_device_recording ls__cuda_recording = {
    .begin = begin, .end = end, .replay = replay, .free = release, .now = now, .failed_step = failed_step};
