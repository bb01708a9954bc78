/* load_images.h: n images as training loads them: augmented, mixed and normalised as the transform says. */
#ifndef LS_TESTS_LOAD_IMAGES_H
#define LS_TESTS_LOAD_IMAGES_H

#include "backend/augment.h"

#include <stdlib.h>

/* in [n,c,h,w] bytes; images [n,c,h,w], others and shares [n] are made. Samples are numbered from 0. */
static inline enum ls_status load_images(const struct ls_transform *t, uint64_t seed, int64_t epoch, int n,
                                         const uint8_t *in, const uint16_t *labels, float *images, int32_t *others,
                                         float *shares)
{
    const size_t count = (size_t)n, image = (size_t)t->c * (size_t)t->h * (size_t)t->w;
    const uint8_t **pixels = calloc(count, sizeof *pixels);
    uint32_t *samples = calloc(count, sizeof *samples), *dst_samples = calloc(count, sizeof *dst_samples);
    int32_t *dst_labels = calloc(count, sizeof *dst_labels);
    enum ls_status status = pixels && samples && dst_samples && dst_labels ? LS_OK : LS_NOMEM;
    for (size_t i = 0; status == LS_OK && i < count; i++) {
        pixels[i] = in + i * image;
        samples[i] = (uint32_t)i;
    }
    const struct ls_load l = {.transform = t,
                              .is_training = true,
                              .seed = seed,
                              .epoch = epoch,
                              .n = n,
                              .mb = n,
                              .samples = samples,
                              .labels = labels,
                              .pixels = pixels,
                              .dst = images,
                              .dst_labels = dst_labels,
                              .dst_samples = dst_samples,
                              .dst_mix_labels = others,
                              .dst_mix_shares = shares};
    if (status == LS_OK) status = ls_backend_load(NULL, &l);
    free(pixels);
    free(samples);
    free(dst_samples);
    free(dst_labels);
    return status;
}

#endif
