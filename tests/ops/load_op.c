/* load_op.c: a shard's bytes become floats: a backend's load against ls_transform_apply, to the bit.
 *
 *     load c= h= w= n= mb= pad= flip= cutout= train= epoch= rcrop= bright= contrast= sat= hue= erase= mixup= cutmix=
 *
 * Several loads follow each other with other samples, as in a run: none may see bytes of another.
 */
#include "checks.h"

#include "base/mem.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

enum { N_LOADS = 4 };

struct load_case {
    const struct ls_backend *backend;
    struct ls_device *device;
    struct mirror mirror;
    struct buffer dst, labels, samples, mix_labels, mix_shares; /* what the backend makes */
    float *want, *want_mix_shares;
    int32_t *want_labels, *want_mix_labels;
    bool is_mixing;
    uint32_t *want_samples;
    uint8_t *bytes;
    const uint8_t **pixels;
    uint16_t *in_labels;
    uint32_t *in_samples;
    struct ls_transform transform;
    struct ls_load load;
    size_t image;
};

bool is_load_case(const struct test_case *c)
{
    return strcmp(c->op, "load") == 0;
}

static enum ls_status build(struct load_case *l, struct test_case *c)
{
    struct ls_transform *t = &l->transform;
    t->c = (int)case_int(c, "c", 3);
    t->h = (int)case_int(c, "h", 8);
    t->w = (int)case_int(c, "w", t->h);
    t->crop_pad = (int)case_int(c, "pad", 0);
    t->flip = case_int(c, "flip", 0) != 0;
    t->cutout = (int)case_int(c, "cutout", 0);
    t->resized_crop = (float)case_get(c, "rcrop", 0);
    t->brightness = (float)case_get(c, "bright", 0);
    t->contrast = (float)case_get(c, "contrast", 0);
    t->saturation = (float)case_get(c, "sat", 0);
    t->hue = (float)case_get(c, "hue", 0);
    t->erasing = (float)case_get(c, "erase", 0);
    t->mixup = (float)case_get(c, "mixup", 0);
    t->cutmix = (float)case_get(c, "cutmix", 0);
    l->is_mixing = ls_transform_is_mixing(t);
    for (int i = 0; i < 3; i++) {
        t->mean[i] = 0.4f + 0.03f * (float)i;
        t->std[i] = 0.2f + 0.01f * (float)i;
    }
    l->load = (struct ls_load){.transform = t, .seed = case_seed(c), .mb = (int)case_int(c, "mb", 4)};
    l->load.n = (int)case_int(c, "n", l->load.mb);
    l->load.is_training = case_int(c, "train", 1) != 0;
    l->load.epoch = case_int(c, "epoch", 2);
    TRY(case_check_used(c));
    const size_t n = (size_t)l->load.n, mb = (size_t)l->load.mb;
    l->image = (size_t)(t->c * t->h * t->w);
    TRY(ls__calloc(&l->bytes, n, l->image));
    TRY(ls__calloc(&l->pixels, n, sizeof *l->pixels));
    TRY(ls__calloc(&l->in_labels, n, sizeof *l->in_labels));
    TRY(ls__calloc(&l->in_samples, n, sizeof *l->in_samples));
    TRY(ls__calloc(&l->want, mb * l->image, sizeof *l->want));
    TRY(ls__calloc(&l->want_labels, mb, sizeof *l->want_labels));
    TRY(ls__calloc(&l->want_samples, mb, sizeof *l->want_samples));
    TRY(buffer_create(&l->dst, mb * l->image * sizeof(float), 0xFF));
    TRY(buffer_create(&l->labels, mb * sizeof(int32_t), 0xFF));
    TRY(buffer_create(&l->samples, mb * sizeof(uint32_t), 0xFF));
    TRY(ls__calloc(&l->want_mix_labels, mb, sizeof *l->want_mix_labels));
    TRY(ls__calloc(&l->want_mix_shares, mb, sizeof *l->want_mix_shares));
    TRY(buffer_create(&l->mix_labels, mb * sizeof(int32_t), 0xFF));
    TRY(buffer_create(&l->mix_shares, mb * sizeof(float), 0xFF));
    for (size_t i = 0; i < n; i++) l->pixels[i] = l->bytes + (n - 1 - i) * l->image;
    l->load.pixels = l->pixels;
    l->load.labels = l->in_labels;
    l->load.samples = l->in_samples;
    return LS_OK;
}

static void release(struct load_case *l)
{
    mirror_release(&l->mirror);
    buffer_release(&l->dst);
    buffer_release(&l->labels);
    buffer_release(&l->samples);
    buffer_release(&l->mix_labels);
    buffer_release(&l->mix_shares);
    free(l->want_mix_labels);
    free(l->want_mix_shares);
    free(l->want);
    free(l->want_labels);
    free(l->want_samples);
    free(l->bytes);
    free(l->pixels);
    free(l->in_labels);
    free(l->in_samples);
    if (l->device) l->backend->device_close(&l->device);
}

static void draw(struct load_case *l, int round)
{
    const size_t n = (size_t)l->load.n;
    for (size_t i = 0; i < n * l->image; i++)
        l->bytes[i] = (uint8_t)ls__rng(l->load.seed, LS_RNG_DATA, (uint32_t)round, 7, i).v[0];
    for (size_t i = 0; i < n; i++) {
        l->in_labels[i] = (uint16_t)(i * 3 + (size_t)round);
        l->in_samples[i] = (uint32_t)(i * 7919 + (size_t)round * 31);
    }
}

/* One load. The bytes are the caller's again when it returns, so they are spoilt before the result is looked at. */
static enum ls_status load_once(struct load_case *l, const struct ls_load *load)
{
    TRY(mirror_send(&l->mirror));
    TRY((l->backend->load ? l->backend->load : ls_backend_load)(l->device, load));
    memset(l->bytes, 0xAA, (size_t)l->load.n * l->image);
    return mirror_fetch(&l->mirror);
}

static enum ls_status compare(const struct load_case *l, int round)
{
    TRY(buffer_check(&l->dst, "floats"));
    TRY(buffer_check(&l->labels, "labels"));
    TRY(buffer_check(&l->samples, "sample numbers"));
    const float *got = l->dst.data;
    for (size_t i = 0; i < l->dst.bytes / sizeof *got; i++)
        if (memcmp(&got[i], &l->want[i], sizeof *got) != 0)
            return ls_fail(LS_ERROR, "load %d: element %zu is %.9g, not %.9g", round, i, (double)got[i],
                           (double)l->want[i]);
    if (memcmp(l->labels.data, l->want_labels, l->labels.bytes) != 0) return ls_fail(LS_ERROR, "other labels");
    if (memcmp(l->samples.data, l->want_samples, l->samples.bytes) != 0)
        return ls_fail(LS_ERROR, "other sample numbers");
    if (!l->is_mixing) return LS_OK;
    TRY(buffer_check(&l->mix_labels, "mixed labels"));
    TRY(buffer_check(&l->mix_shares, "shares"));
    if (memcmp(l->mix_labels.data, l->want_mix_labels, l->mix_labels.bytes) != 0)
        return ls_fail(LS_ERROR, "other mixed labels");
    if (memcmp(l->mix_shares.data, l->want_mix_shares, l->mix_shares.bytes) != 0)
        return ls_fail(LS_ERROR, "other shares");
    return LS_OK;
}

/* Once more, from a set in the device's memory: sample i is image i of it. */
static enum ls_status run_kept(struct load_case *l, struct ls_load want, struct ls_load got)
{
    const size_t n = (size_t)l->load.n, bytes = n * l->image;
    struct buffer set = {0};
    void *kept = NULL;
    draw(l, N_LOADS);
    for (size_t i = 0; i < n; i++) l->in_samples[i] = (uint32_t)(n - 1 - i); /* pixels are in this order, too */
    TRY(ls_backend_load(NULL, &want));
    enum ls_status status = buffer_create(&set, bytes, 0);
    if (status == LS_OK) memcpy(set.data, l->bytes, bytes);
    if (status == LS_OK) status = mirror_add(&l->mirror, &set, &kept);
    got.kept = kept;
    got.pixels = NULL;
    if (status == LS_OK) status = load_once(l, &got);
    if (status == LS_OK) status = compare(l, N_LOADS);
    mirror_release(&l->mirror);
    buffer_release(&set);
    return status;
}

static enum ls_status run(struct load_case *l)
{
    struct ls_load want = l->load, got = l->load;
    void *dst, *labels, *samples, *mix_labels, *mix_shares;
    TRY(l->backend->device_open(&l->device));
    if (l->backend->thread_begin) l->backend->thread_begin();
    l->mirror = (struct mirror){.backend = l->backend, .device = l->device};
    TRY(mirror_add(&l->mirror, &l->dst, &dst));
    TRY(mirror_add(&l->mirror, &l->labels, &labels));
    TRY(mirror_add(&l->mirror, &l->samples, &samples));
    TRY(mirror_add(&l->mirror, &l->mix_labels, &mix_labels));
    TRY(mirror_add(&l->mirror, &l->mix_shares, &mix_shares));
    want.dst = l->want;
    want.dst_labels = l->want_labels;
    want.dst_samples = l->want_samples;
    got.dst = dst;
    got.dst_labels = labels;
    got.dst_samples = samples;
    if (l->is_mixing) {
        want.dst_mix_labels = l->want_mix_labels;
        want.dst_mix_shares = l->want_mix_shares;
        got.dst_mix_labels = mix_labels;
        got.dst_mix_shares = mix_shares;
    }
    for (int round = 0; round < N_LOADS; round++) {
        draw(l, round);
        TRY(ls_backend_load(NULL, &want));
        TRY(load_once(l, &got));
        TRY(compare(l, round));
    }
    return l->backend->can_keep_images ? run_kept(l, want, got) : LS_OK;
}

enum ls_status check_load(struct test_case *c, const struct ls_backend *backend)
{
    struct load_case l = {.backend = backend};
    enum ls_status status = build(&l, c);
    if (status == LS_OK) status = run(&l);
    release(&l);
    return status == LS_OK ? LS_OK : ls_fail_in(status, "%s", backend->name);
}
