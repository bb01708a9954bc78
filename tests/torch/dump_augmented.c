/* dump_augmented.c: a batch of images after augmentation, for augment.py.
 *
 *     dump_augmented C H W N SEED EPOCH FLIP CROP BRIGHTNESS CONTRAST SATURATION HUE ERASING MIXUP CUTMIX
 *
 * stdin: bytes [n,c,h,w], then labels, a byte each; the samples are numbered from 0. stdout: float32 [n,c,h,w], not
 * normalised; second labels i32 [n]; shares float32 [n].
 */
#include "load_images.h"

#include <stdio.h>
#include <stdlib.h>

enum { N_ARGS = 15 };

static int write_all(const void *data, size_t size, size_t n)
{
    return fwrite(data, size, n, stdout) == n ? 0 : 1;
}

int main(int argc, char **argv)
{
    double a[N_ARGS];
    if (argc != N_ARGS + 1) return 2;
    for (int i = 0; i < N_ARGS; i++) a[i] = strtod(argv[1 + i], NULL);
    const int n = (int)a[3];
    const struct ls_transform t = {.c = (int)a[0],
                                   .h = (int)a[1],
                                   .w = (int)a[2],
                                   .std = {1, 1, 1},
                                   .flip = a[6] != 0,
                                   .resized_crop = (float)a[7],
                                   .brightness = (float)a[8],
                                   .contrast = (float)a[9],
                                   .saturation = (float)a[10],
                                   .hue = (float)a[11],
                                   .erasing = (float)a[12],
                                   .mixup = (float)a[13],
                                   .cutmix = (float)a[14]};
    const size_t image = (size_t)(t.c * t.h * t.w), count = (size_t)n;
    uint8_t *bytes = calloc(count, image), *in_labels = calloc(count, 1);
    uint16_t *labels = calloc(count, sizeof *labels);
    int32_t *others = calloc(count, sizeof *others);
    float *images = calloc(count * image, sizeof *images), *shares = calloc(count, sizeof *shares);
    if (fread(bytes, image, count, stdin) != count || fread(in_labels, 1, count, stdin) != count) return 1;
    for (int i = 0; i < n; i++) labels[i] = in_labels[i];
    if (load_images(&t, (uint64_t)a[4], (int64_t)a[5], n, bytes, labels, images, others, shares) != LS_OK) return 1;
    return write_all(images, sizeof *images, count * image) || write_all(others, sizeof *others, count) ||
           write_all(shares, sizeof *shares, count);
}
