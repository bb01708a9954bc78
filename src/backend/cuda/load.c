/* load.c: a shard's bytes become floats on the card.
 *
 * A set that fits is copied to the card once (keep_images); then only the numbers of the images travel, those of few
 * as arguments of the kernel, of many by way of pinned memory that the card reads by itself. Other bytes go through
 * pinned memory, in a stream of their own:
 *
 *     host      gather k+1 ..                      wait for step k       gather k+2 ..
 *     copying        copy k+1 ..                                              copy k+2 ..
 *     stream    | load k | step k                                | load k+1 | step k+1
 *
 * What backend/augment.h adds is drawn here, by the CPU's own functions, and done by the card (kernels/more.cu).
 *
 * The bytes are read before the call returns. There are two staging buffers. One is written again when the card has
 * copied it (is_read), the place it was copied to when the kernels have read that (is_used); the stream waits for the
 * copy alone. So one shard's bytes come while another is computed: that of the next step by fetch, those of the same
 * step by load.
 */
#include "backend/augment.h"
#include "backend/cuda/cuda.h"
#include "base/pool.h"

#include <string.h>

enum { ALIGNMENT = 256, MOST_GATHERERS = 4 };
/* What is copied at once, while the next is gathered; what a thread gathers at once. */
static const size_t piece_bytes = (size_t)8 << 20, item_bytes = (size_t)512 << 10;

static size_t align(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Whether more than crops, mirrors and cut-outs is to be done. */
static bool is_more(const struct ls_load *l)
{
    return l->dst_mix_labels || (l->is_training && ls_transform_beyond_crops(l->transform));
}

/* Where the parts of a load lie, in staging as in landing. */
struct parts {
    size_t image, labels, samples, drawn, bytes; /* bytes of an image; offsets; all; images come first */
};

static struct parts parts_of(const struct ls_load *l)
{
    struct parts p = {.image = (size_t)l->transform->c * (size_t)l->transform->h * (size_t)l->transform->w};
    p.labels = l->kept ? 0 : align((size_t)l->n * p.image);
    p.samples = p.labels + align((size_t)l->n * sizeof(int32_t));
    p.drawn = p.samples + align((size_t)l->n * sizeof(uint32_t));
    p.bytes = p.drawn + (is_more(l) ? align((size_t)l->n * sizeof(struct ls_cuda_drawn)) : 0);
    return p;
}

/* Grown in the first steps only. */
static enum ls_status need(struct ls_cuda_staging *s, size_t bytes)
{
    if (!s->is_read) TRY(LS_CUDA(cudaEventCreateWithFlags(&s->is_read, cudaEventDisableTiming)));
    TRY(LS_CUDA(cudaEventSynchronize(s->is_read)));
    s->fetched = 0;
    if (s->bytes >= bytes) return LS_OK;
    (void)cudaFreeHost(s->host);
    s->host = NULL;
    s->bytes = 0;
    TRY(LS_CUDA(cudaMallocHost(&s->host, bytes)));
    s->bytes = bytes;
    return LS_OK;
}

/* The same for bytes that are copied. Not by ls__cuda_memory: its zeros would come by the stream, after the copy. */
static enum ls_status need_landing(struct ls_device *d, struct ls_cuda_staging *s, size_t bytes)
{
    const int n_cpus = ls__cpu_count(), n = n_cpus < MOST_GATHERERS ? n_cpus : MOST_GATHERERS;
    TRY(need(s, bytes));
    if (!d->copying) TRY(LS_CUDA(cudaStreamCreateWithFlags(&d->copying, cudaStreamNonBlocking)));
    if (!d->gatherers) TRY(ls__pool_create(&d->gatherers, n, false, NULL));
    if (!s->is_used) TRY(LS_CUDA(cudaEventCreateWithFlags(&s->is_used, cudaEventDisableTiming)));
    if (s->landing_bytes >= bytes) return LS_OK;
    TRY(LS_CUDA(cudaEventSynchronize(s->is_used)));
    (void)cudaFree(s->landing);
    s->landing = NULL;
    s->landing_bytes = 0;
    if (cudaMalloc(&s->landing, bytes) != cudaSuccess) {
        (void)cudaGetLastError();
        return ls_fail(LS_NOMEM, "cuda: no memory for %zu MiB of images; a smaller -b needs less", bytes >> 20);
    }
    s->landing_bytes = bytes;
    return LS_OK;
}

/* --- into pinned memory --- */

static void gather_numbers(const struct ls_load *l, const struct parts *p, char *host)
{
    int32_t *labels = (int32_t *)(host + p->labels);
    for (int i = 0; i < l->n; i++) labels[i] = l->labels[i];
    memcpy(host + p->samples, l->samples, (size_t)l->n * sizeof *l->samples);
}

/* Images [first, end), an item being per_item of them. */
struct gathering {
    const struct ls_load *load;
    size_t image;
    char *host;
    int first, end, per_item;
};

static enum ls_status gather_item(void *arg, int item, int thread)
{
    const struct gathering *g = arg;
    const int first = g->first + item * g->per_item;
    const int end = first + g->per_item < g->end ? first + g->per_item : g->end;
    for (int i = first; i < end; i++) memcpy(g->host + (size_t)i * g->image, g->load->pixels[i], g->image);
    return LS_OK;
}

/* Images are gathered and copied piece by piece, by several threads where there are enough. */
static enum ls_status send_images(struct ls_device *d, const struct ls_load *l, const struct parts *p,
                                  const struct ls_cuda_staging *s)
{
    const int per_piece = (int)(piece_bytes / p->image) + 1;
    struct gathering g = {.load = l, .image = p->image, .host = s->host, .per_item = (int)(item_bytes / p->image) + 1};
    for (; g.first < l->n; g.first = g.end) {
        g.end = l->n - g.first < per_piece ? l->n : g.first + per_piece;
        const int n_items = (g.end - g.first + g.per_item - 1) / g.per_item;
        const size_t at = (size_t)g.first * p->image, bytes = (size_t)(g.end - g.first) * p->image;
        TRY(ls__pool_run(d->gatherers, n_items, gather_item, &g));
        TRY(LS_CUDA(
            cudaMemcpyAsync((char *)s->landing + at, (char *)s->host + at, bytes, cudaMemcpyHostToDevice, d->copying)));
    }
    return LS_OK;
}

/* --- what is drawn for each sample --- */

static struct ls_cuda_drawn draw_one(const struct ls_load *l, uint32_t sample)
{
    const struct ls_transform *t = l->transform;
    struct ls_cuda_drawn d = {.colours = {-1, -1, -1, -1}, .share = 1.0f};
    if (!l->is_training) return d;
    if (t->resized_crop > 0) {
        const struct ls_crop c = ls__augment_draw_crop(t->h, t->w, t->resized_crop, l->seed, l->epoch, sample);
        d.crop_y = c.y;
        d.crop_x = c.x;
        d.crop_h = c.h;
        d.crop_w = c.w;
    }
    if (ls__augment_has_colours(t)) {
        const struct ls_colours c = ls__augment_draw_colours(t, l->seed, l->epoch, sample);
        memcpy(d.colours, c.order, sizeof d.colours);
        memcpy(d.by, c.by, sizeof d.by);
    }
    if (t->erasing > 0) {
        const struct ls_box b = ls__augment_draw_erasing(t, l->seed, l->epoch, sample);
        d.erased = (struct ls_cuda_box){b.y0, b.y1, b.x0, b.x1};
    }
    return d;
}

static void draw_all(const struct ls_load *l, struct ls_cuda_drawn *drawn)
{
    const bool is_mixing = l->is_training && ls_transform_is_mixing(l->transform);
    for (int i = 0; i < l->n; i++) drawn[i] = draw_one(l, l->samples[i]);
    for (int i = 0; is_mixing && i + 1 < l->n; i += 2) {
        const struct ls_mix m = ls__augment_draw_mix(l->transform, l->seed, l->epoch, l->samples + i);
        for (int k = 0; k < 2; k++) {
            drawn[i + k].is_cut = m.is_cut;
            drawn[i + k].share = m.share[k];
            drawn[i + k].mixed = (struct ls_cuda_box){m.box[k].y0, m.box[k].y1, m.box[k].x0, m.box[k].x1};
        }
    }
}

_Static_assert((int)LS_N_COLOURS == (int)LS_CUDA_N_COLOURS && (int)LS_HUE == (int)LS_CUDA_HUE &&
                   (int)LS_CONTRAST == (int)LS_CUDA_CONTRAST,
               "the same numbers");

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

/* The kernels of a load whose parts lie at `landing`. */
static enum ls_status run(cudaStream_t stream, const struct ls_load *l, const struct parts *p, const char *landing,
                          struct ls_cuda_next_now next)
{
    const struct ls_transform *t = l->transform;
    struct ls_cuda_more m = {.a = augment_of(l, p, landing)};
    if (!is_more(l)) return LS_CUDA(ls__cuda_run_augment(stream, m.a, next));
    m.is_apart = l->is_training && (t->resized_crop > 0 || ls__augment_has_colours(t));
    m.is_mixing = l->is_training && ls_transform_is_mixing(t);
    m.drawn = (const struct ls_cuda_drawn *)(landing + p->drawn);
    m.dst_mix_labels = l->dst_mix_labels;
    m.dst_mix_shares = l->dst_mix_shares;
    for (int c = 0; m.is_apart && c < t->c; c++) {
        m.a.scale[c] = 1.0f / 255.0f;
        m.a.offset[c] = 0.0f;
        m.scale[c] = 1.0f / t->std[c];
        m.offset[c] = -t->mean[c] / t->std[c];
    }
    return LS_CUDA(ls__cuda_run_more(stream, m));
}

/* Nothing is staged: what the launch needs is its own. */
static enum ls_status load_few(cudaStream_t stream, const struct ls_load *l, struct ls_cuda_next_now next)
{
    const struct parts p = parts_of(l);
    int32_t labels[LS_CUDA_FEW];
    struct ls_cuda_augment a = augment_of(l, &p, (const char *)labels); /* both of these are set here */
    for (int i = 0; i < l->n; i++) labels[i] = l->labels[i];
    a.labels = labels;
    a.samples = l->samples;
    a.is_at_host = true;
    return LS_CUDA(ls__cuda_run_augment(stream, a, next));
}

static struct ls_cuda_staging *next_staging(struct ls_device *d)
{
    struct ls_cuda_staging *s = &d->staging[d->next_staging];
    d->next_staging = (d->next_staging + 1) % LS_CUDA_N_STAGING;
    return s;
}

static void write_numbers(const struct ls_load *l, const struct parts *p, const struct ls_cuda_staging *s)
{
    gather_numbers(l, p, s->host);
    if (is_more(l)) draw_all(l, (struct ls_cuda_drawn *)((char *)s->host + p->drawn));
}

/* Everything of a load on its way to `landing`. Touches the stream not at all: it may stand in the middle of a step. */
static enum ls_status send(struct ls_device *d, const struct ls_load *l, const struct parts *p,
                           struct ls_cuda_staging *s)
{
    TRY(need_landing(d, s, p->bytes));
    TRY(LS_CUDA(cudaStreamWaitEvent(d->copying, s->is_used, 0)));
    TRY(send_images(d, l, p, s));
    write_numbers(l, p, s);
    TRY(LS_CUDA(cudaMemcpyAsync((char *)s->landing + p->labels, (char *)s->host + p->labels, p->bytes - p->labels,
                                cudaMemcpyHostToDevice, d->copying)));
    return LS_CUDA(cudaEventRecord(s->is_read, d->copying));
}

enum ls_status ls__cuda_fetch(struct ls_device *d, const struct ls_load *l, int64_t number)
{
    const struct parts p = parts_of(l);
    struct ls_cuda_staging *s = next_staging(d);
    ls__cuda_make_current(d);
    TRY(send(d, l, &p, s));
    s->fetched = number;
    return LS_OK;
}

/* Where it was fetched to; NULL: it was not, or others came between. */
static struct ls_cuda_staging *find_fetched(struct ls_device *d, int64_t number)
{
    for (int i = 0; number > 0 && i < LS_CUDA_N_STAGING; i++)
        if (d->staging[i].fetched == number) return &d->staging[i];
    return NULL;
}

static enum ls_status load_sent(struct ls_device *d, cudaStream_t stream, const struct ls_load *l,
                                struct ls_cuda_next_now next)
{
    const struct parts p = parts_of(l);
    struct ls_cuda_staging *s = find_fetched(d, l->fetched);
    if (!s) TRY(send(d, l, &p, s = next_staging(d)));
    s->fetched = 0;
    TRY(LS_CUDA(cudaStreamWaitEvent(stream, s->is_read, 0)));
    TRY(run(stream, l, &p, s->landing, next));
    return LS_CUDA(cudaEventRecord(s->is_used, stream));
}

/* The card reads numbers from the host's memory by itself. */
static enum ls_status load_many(struct ls_device *d, cudaStream_t stream, const struct ls_load *l,
                                struct ls_cuda_next_now next)
{
    const struct parts p = parts_of(l);
    struct ls_cuda_staging *s = next_staging(d);
    TRY(need(s, p.bytes));
    write_numbers(l, &p, s);
    TRY(run(stream, l, &p, s->host, next));
    return LS_CUDA(cudaEventRecord(s->is_read, stream));
}

enum ls_status ls__cuda_load(struct ls_device *d, const struct ls_load *l)
{
    struct ls_cuda_next_now next = {0};
    if (d->has_next_now && !is_more(l)) { /* it goes along */
        next = ls__cuda_next_now(d);
        d->has_next_now = false;
    }
    cudaStream_t stream = ls__cuda_stream(d);
    if (!l->kept) return load_sent(d, stream, l, next);
    return !is_more(l) && l->n <= LS_CUDA_FEW ? load_few(stream, l, next) : load_many(d, stream, l, next);
}

void ls__cuda_load_release(struct ls_device *d)
{
    if (d->copying) (void)cudaStreamSynchronize(d->copying);
    ls__pool_destroy(&d->gatherers);
    for (int i = 0; i < LS_CUDA_N_STAGING; i++) {
        struct ls_cuda_staging *s = &d->staging[i];
        if (s->is_read) (void)cudaEventDestroy(s->is_read);
        if (s->is_used) (void)cudaEventDestroy(s->is_used);
        (void)cudaFreeHost(s->host);
        (void)cudaFree(s->landing);
    }
    if (d->copying) (void)cudaStreamDestroy(d->copying);
}
