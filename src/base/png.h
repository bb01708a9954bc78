/* png.h: bytes of a picture as a PNG file in memory, by zlib alone. */
#ifndef LS_BASE_PNG_H
#define LS_BASE_PNG_H

#include "base/buf.h"

#include <stdint.h>

/* pixels [c,h,w], c 1 (grey) or 3 (colour). */
enum ls_status ls__png_encode(int c, int h, int w, const uint8_t *pixels, struct ls_buf *out) LS_MUST_CHECK;

#endif
