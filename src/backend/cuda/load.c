/* load.c: a shard's bytes become floats on the card.
 *
 * A set that fits is copied to the card once (keep_images); then only the numbers of the images travel, by way of
 * pinned memory that the card reads by itself. Other bytes go through pinned memory.
 *
 * The bytes are read before the call returns. A staging buffer is written again only when the card has copied it, so
 * with two of them a shard's bytes are gathered while the card computes the shard before.
 */
#include "backend/cuda/cuda.h"

#include <string.h>

enum { ALIGNMENT = 256 };

static size_t align(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Where the parts of a load lie, in staging as in landing. */
struct parts {
    size_t image, labels, samples, bytes; /* bytes of an image; offsets; all; images come first */
};

static struct parts parts_of(const struct ls_load *l)
{
    struct parts p = {.image = (size_t)l->transform->c * (size_t)l->transform->h * (size_t)l->transform->w};
    p.labels = l->kept ? 0 : align((size_t)l->n * p.image);
    p.samples = p.labels + align((size_t)l->n * sizeof(int32_t));
    p.bytes = p.samples + align((size_t)l->n * sizeof(uint32_t));
    return p;
}

/* Grown in the first steps only. */
static enum ls_status need(struct ls_device *d, struct ls_cuda_staging *s, size_t bytes, size_t landing_bytes)
{
    if (!s->is_free) TRY(LS_CUDA(cudaEventCreateWithFlags(&s->is_free, cudaEventDisableTiming)));
    TRY(LS_CUDA(cudaEventSynchronize(s->is_free)));
    if (s->bytes < bytes) {
        (void)cudaFreeHost(s->host);
        s->host = NULL;
        s->bytes = 0;
        TRY(LS_CUDA(cudaMallocHost(&s->host, bytes)));
        s->bytes = bytes;
    }
    if (d->landing_bytes < landing_bytes) {
        TRY(LS_CUDA(cudaStreamSynchronize(d->stream)));
        ls__cuda_memory.free(d, d->landing, d->landing_bytes);
        d->landing = NULL;
        d->landing_bytes = 0;
        TRY(ls__cuda_memory.alloc(d, landing_bytes, &d->landing));
        d->landing_bytes = landing_bytes;
    }
    return LS_OK;
}

static void gather(const struct ls_load *l, const struct parts *p, char *host)
{
    int32_t *labels = (int32_t *)(host + p->labels);
    for (int i = 0; i < l->n; i++) {
        if (!l->kept) memcpy(host + (size_t)i * p->image, l->pixels[i], p->image);
        labels[i] = l->labels[i];
    }
    memcpy(host + p->samples, l->samples, (size_t)l->n * sizeof *l->samples);
}

/* The factors as ls_transform_apply computes them. */
static struct ls_cuda_augment augment_of(const struct ls_load *l, const struct parts *p, const char *landing)
{
    const struct ls_transform *t = l->transform;
    struct ls_cuda_augment a = {
        .c = t->c,
        .h = t->h,
        .w = t->w,
        .n = l->n,
        .mb = l->mb,
        .crop_pad = t->crop_pad,
        .cutout = l->is_training ? t->cutout : 0,
        .is_moved = l->is_training && (t->crop_pad > 0 || t->flip),
        .flip = t->flip,
        .seed = l->seed,
        .epoch = l->epoch,
        .pixels = l->kept ? l->kept : (const uint8_t *)landing,
        .is_kept = l->kept != NULL,
        .labels = (const int32_t *)(landing + p->labels),
        .samples = (const uint32_t *)(landing + p->samples),
        .dst = l->dst,
        .dst_labels = l->dst_labels,
        .dst_samples = l->dst_samples,
    };
    for (int c = 0; c < t->c; c++) {
        a.scale[c] = 1.0f / (255.0f * t->std[c]);
        a.offset[c] = -t->mean[c] / t->std[c];
    }
    return a;
}

enum ls_status ls__cuda_load(struct ls_device *d, const struct ls_load *l)
{
    if (l->is_training && ls_transform_beyond_crops(l->transform))
        return ls_fail(LS_UNSUPPORTED, "cuda has no %s yet; use --device cpu", ls_transform_beyond_crops(l->transform));
    const struct parts p = parts_of(l);
    struct ls_cuda_staging *s = &d->staging[d->next_staging];
    cudaStream_t stream = ls__cuda_stream(d);
    d->next_staging = (d->next_staging + 1) % LS_CUDA_N_STAGING;
    TRY(need(d, s, p.bytes, l->kept ? 0 : p.bytes));
    gather(l, &p, s->host);
    if (!l->kept) {
        TRY(LS_CUDA(cudaMemcpyAsync(d->landing, s->host, p.bytes, cudaMemcpyHostToDevice, stream)));
        TRY(LS_CUDA(cudaEventRecord(s->is_free, stream)));
        return LS_CUDA(ls__cuda_run_augment(stream, augment_of(l, &p, d->landing)));
    }
    TRY(LS_CUDA(ls__cuda_run_augment(stream, augment_of(l, &p, s->host))));
    return LS_CUDA(cudaEventRecord(s->is_free, stream));
}

void ls__cuda_load_release(struct ls_device *d)
{
    for (int i = 0; i < LS_CUDA_N_STAGING; i++) {
        if (d->staging[i].is_free) (void)cudaEventDestroy(d->staging[i].is_free);
        (void)cudaFreeHost(d->staging[i].host);
    }
    (void)cudaFree(d->landing);
}
