/* data.h: one's own labelled images, from memory, instead of a data set that is named.
 *
 *     const struct ls_images train = {.n = n, .c = 1, .h = 28, .w = 28, .n_classes = 10, .pixels = pixels, .labels =
 * labels}; options.train_images = &train; options.test_images = &test;
 *
 * The checksum of pixels and labels is part of what a run is: a checkpoint made from other images is not resumed.
 */
#ifndef LOCKSTEP_DATA_H
#define LOCKSTEP_DATA_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* n images of c x h x w bytes. The struct itself and the class names are read while it is opened only. */
struct ls_images {
    int64_t n;                      /* images; at least 1 */
    int c, h, w;                    /* 1 to 3 channels, rows, columns */
    int n_classes;                  /* 2 to 65536 */
    const uint8_t *pixels;          /* [n,c,h,w]: image by image, channel by channel, row by row */
    const uint16_t *labels;         /* [n], each below n_classes */
    const char *const *class_names; /* [n_classes], or NULL: none; kept in checkpoints, for ls_classifier_class_name */
    /* Per channel, of pixels scaled to [0,1]: subtracted, and divided by. All 0: 0.5 and 0.25. */
    float mean[3], std[3];
    /* false: pixels and labels are borrowed and must not change until the call that got them returns, or, of a
     * trainer, until it is closed. true: they are copied while it is opened. */
    bool is_copied;
};

#ifdef __cplusplus
}
#endif

#endif
