/* image_stub.c: in the place of image_real.c where libpng or libjpeg is missing. */
#include "data/formats/parsers.h"

enum ls_status ls__image_load(const char *name, const uint8_t *data, size_t len, int min_h, int min_w,
                              struct ls_image *image)
{
    return ls_fail(LS_UNSUPPORTED, "%s: this build reads no images; install libpng-dev and libjpeg-dev and build again",
                   name);
}
