/* fuzz_mat5.c: any bytes as the elements of a MAT-5 file (the 128-byte header is put in front), with samples of 3x2x2.
 *
 *     clang -fsanitize=fuzzer,address,undefined -Iinclude -Isrc tests/fuzz/fuzz_mat5.c LIBRARY -o fuzz_mat5 &&
 * ./fuzz_mat5
 */
#include "data/formats/parsers.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static const struct ls_expect expect = {.c = 3, .h = 2, .w = 2, .n_classes = 10, .max_n = 1000};

static enum ls_status parse(struct ls_dataset *ds, const uint8_t *file, size_t len)
{
    struct ls_stream s;
    TRY(ls__stream_open_memory(&s, "fuzz", file, len));
    enum ls_status status = ls__mat5_count(&s, &expect, &ds->n);
    ls__stream_close(&s);
    TRY(status);
    TRY(ls__dataset_alloc(ds));
    TRY(ls__stream_open_memory(&s, "fuzz", file, len));
    status = ls__mat5_read(ds, 0, ds->n, &s, &expect);
    ls__stream_close(&s);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct ls_dataset *ds = calloc(1, sizeof *ds);
    uint8_t *file = calloc(1, 128 + len);
    memcpy(file, "MATLAB 5.0", 10);
    memcpy(file + 124, "\0\1IM", 4);
    if (len) memcpy(file + 128, data, len);
    ds->impl = calloc(1, sizeof *ds->impl);
    ds->c = 3;
    ds->h = ds->w = 2;
    if (parse(ds, file, 128 + len) != LS_OK && ls_error_message()[0] == '\0') abort(); /* a failure without a message */
    free(file);
    ls_dataset_close(&ds);
    return 0;
}
