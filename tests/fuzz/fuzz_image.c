/* fuzz_image.c: any bytes as a PNG or JPEG file, decoded and resized to 9x5.
 *
 *     clang -fsanitize=fuzzer,address,undefined -Iinclude -Isrc tests/fuzz/fuzz_image.c LIBRARY -o fuzz_image &&
 * ./fuzz_image
 */
#include "data/formats/parsers.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    uint8_t out[3 * 9 * 5];
    if (ls__image_decode("fuzz", data, len, 9, 5, out) != LS_OK && ls_error_message()[0] == '\0') abort();
    return 0;
}
