/* sums_stub.c: built without NCCL's header: sums over several cards go through the host. */
#include "backend/cuda/cuda.h"

enum ls_status ls__cuda_wait(struct ls_device *d)
{
    return LS_CUDA(cudaStreamSynchronize(d->stream));
}

static enum ls_status join(struct ls_device *d, const struct ls_device_group *of)
{
    return ls_fail(LS_UNSUPPORTED, "this lockstep-cuda.so was built without NCCL");
}

static void leave(struct ls_device *d)
{
}

/* Never reached: nobody joins. */
static enum ls_status add(struct ls_device *d, int64_t *data, int64_t n, int which)
{
    return ls_fail(LS_INTERNAL, "cuda: no NCCL");
}

static enum ls_status tell(struct ls_device *d, int64_t *words, const int64_t *mine, int64_t n)
{
    return ls_fail(LS_INTERNAL, "cuda: no NCCL");
}

const struct ls_device_sums ls__cuda_sums = {.join = join, .leave = leave, .add = add, .tell = tell};
