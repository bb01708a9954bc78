/* fuzz_idx.c: any bytes as an IDX file of labels (first byte even) or of images (odd).
 *
 *     clang -fsanitize=fuzzer,address,undefined -Iinclude -Isrc tests/fuzz/fuzz_idx.c LIBRARY -o fuzz_idx && ./fuzz_idx
 */
#include "data/formats/parsers.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static enum ls_status parse(struct ls_dataset *ds, struct ls_stream *s, bool is_labels)
{
    static const struct ls_expect e = {.c = 1, .h = 28, .w = 28, .n_classes = 10, .max_n = 1000};
    ds->n = 1;
    return is_labels ? ls__idx_read_labels(ds, s, &e) : ls__idx_read_images(ds, s, &e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < 1) return 0;
    struct ls_dataset *ds = calloc(1, sizeof *ds);
    struct ls_stream s;
    ds->impl = calloc(1, sizeof *ds->impl);
    ds->c = 1;
    ds->h = ds->w = 28;
    if (ls__stream_open_memory(&s, "fuzz", data + 1, len - 1) == LS_OK && parse(ds, &s, data[0] % 2 == 0) != LS_OK &&
        ls_error_message()[0] == '\0')
        abort(); /* a failure without a message */
    ls__stream_close(&s);
    ls_dataset_close(&ds);
    return 0;
}
