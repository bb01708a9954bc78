/* fake.c: random images for measuring speed, `fake:CxHxW:CLASSES:N`.
 *
 * In: the sizes. Out: n random images with random labels; the test split has a tenth of N. However large N is, only a
 * pool of POOL_IMAGES distinct images (fewer when they are large) exists, made on first use: sample i shows image i %
 * pool.
 */
#include "base/mem.h"
#include "base/parse.h"
#include "base/rng.h"
#include "data/lazy.h"

#include <stdio.h>
#include <string.h>

#define FAKE_SEED 0x66616b65u
enum { POOL_IMAGES = 2048, POOL_BYTES = 64 << 20, MAX_SIDE = 1024, MAX_CLASSES = 65536, MAX_SAMPLES = 100000000 };
enum { PIXEL_KEYS = 0, LABEL_KEYS = 2 }; /* added to the split in the random numbers' key */

static void make_image(const struct ls_dataset *ds, int64_t image, uint8_t *out)
{
    size_t n = (size_t)ds->c * (size_t)ds->h * (size_t)ds->w;
    for (size_t i = 0; i < n; i += 16) {
        struct ls_rng4 r = ls__rng(FAKE_SEED, LS_RNG_DATA, PIXEL_KEYS + ds->split, (uint32_t)image, i / 16);
        for (size_t k = 0; k < 16 && i + k < n; k++) out[i + k] = (uint8_t)(r.v[k / 4] >> (8 * (k % 4)));
    }
}

static void make_labels(struct ls_dataset *ds)
{
    for (int64_t i = 0; i < ds->n; i += 4) {
        struct ls_rng4 r = ls__rng(FAKE_SEED, LS_RNG_DATA, LABEL_KEYS + ds->split, (uint32_t)(i / 4), 0);
        for (int k = 0; k < 4 && i + k < ds->n; k++)
            ds->impl->labels[i + k] = (uint16_t)ls__rng_below(r.v[k], (uint64_t)ds->n_classes);
    }
}

/* Fills sizes from "CxHxW:CLASSES:N"; *n is the size of the training split. */
static enum ls_status parse(struct ls_dataset *ds, const char *arg, int64_t *n)
{
    char text[96];
    int64_t dims[3], n_classes;
    if (!arg || strlen(arg) >= sizeof text)
        return ls_fail(LS_USAGE, "data set fake: expected fake:CxHxW:CLASSES:N, for example fake:3x32x32:10:5000");
    memcpy(text, arg, strlen(arg) + 1);
    char *classes = strchr(text, ':');
    char *samples = classes ? strchr(classes + 1, ':') : NULL;
    if (!samples)
        return ls_fail(LS_USAGE, "data set fake:%s: expected fake:CxHxW:CLASSES:N, for example fake:3x32x32:10:5000",
                       arg);
    *classes++ = '\0';
    *samples++ = '\0';
    if (ls__parse_dims(text, dims) != 3 || dims[0] > 3 || dims[1] > MAX_SIDE || dims[2] > MAX_SIDE)
        return ls_fail(LS_USAGE, "data set fake:%s: '%s' is not CxHxW with 1 to 3 channels and sides of 1 to %d", arg,
                       text, MAX_SIDE);
    if (!ls__parse_i64(classes, 2, MAX_CLASSES, &n_classes))
        return ls_fail(LS_USAGE, "data set fake:%s: '%s' classes; expected 2 to %d", arg, classes, MAX_CLASSES);
    if (!ls__parse_i64(samples, 1, MAX_SAMPLES, n))
        return ls_fail(LS_USAGE, "data set fake:%s: '%s' samples; expected 1 to %d", arg, samples, MAX_SAMPLES);
    ds->c = (int)dims[0];
    ds->h = (int)dims[1];
    ds->w = (int)dims[2];
    ds->n_classes = (int)n_classes;
    return LS_OK;
}

enum ls_status ls__fake_open(struct ls_dataset *ds, const char *arg)
{
    static const float mean[3] = {0.5f, 0.5f, 0.5f}, std[3] = {0.2898f, 0.2898f, 0.2898f}; /* of uniform bytes */
    char generator[128];
    int64_t n = 0;
    TRY(parse(ds, arg, &n));
    ds->n = ds->split == LS_TRAIN ? n : n / 10 + (n < 10);
    ls__dataset_set_mean_std(ds, mean, std);

    int64_t pool = POOL_BYTES / ((int64_t)ds->c * ds->h * ds->w);
    if (pool > POOL_IMAGES) pool = POOL_IMAGES;
    if (pool > ds->n) pool = ds->n;
    TRY(ls__lazy_open(ds, pool, make_image));
    TRY(ls__dataset_alloc_labels(ds));
    make_labels(ds);
    snprintf(generator, sizeof generator, "fake-1:%s", arg);
    ls__lazy_checksum(ds, generator);
    return LS_OK;
}
