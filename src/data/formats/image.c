/* image.c: from the bytes of a PNG or JPEG file to a sample of fixed size. */
#include "data/formats/parsers.h"
#include "data/resize.h"

#include <stdlib.h>

enum ls_status ls__image_decode(const char *name, const uint8_t *data, size_t len, int h, int w, uint8_t *out)
{
    struct ls_image image = {0};
    enum ls_status status = ls__image_load(name, data, len, h, w, &image);
    struct ls_image_layout in = {
        .c = 3, .h = image.h, .w = image.w, .channel = 1, .row = (size_t)image.w * 3, .pixel = 3};
    if (status == LS_OK) status = ls__resample(image.rgb, &in, h, w, out);
    free(image.rgb);
    return status;
}
