/* fuzz_cifar.c: any bytes as a CIFAR binary batch, with samples of 3x2x2 so that short inputs reach the records.
 *
 *     clang -fsanitize=fuzzer,address,undefined -Iinclude -Isrc tests/fuzz/fuzz_cifar.c LIBRARY -o fuzz_cifar &&
 * ./fuzz_cifar
 */
#include "data/formats/parsers.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static enum ls_status parse(struct ls_dataset *ds, struct ls_stream *s)
{
    static const struct ls_expect e = {.c = 3, .h = 2, .w = 2, .n_classes = 10, .max_n = 1000};
    TRY(ls__cifar_count(s, &e, &ds->n));
    TRY(ls__dataset_alloc(ds));
    return ls__cifar_read(ds, 0, ds->n, s, &e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct ls_dataset *ds = calloc(1, sizeof *ds);
    struct ls_stream s;
    ds->impl = calloc(1, sizeof *ds->impl);
    ds->c = 3;
    ds->h = ds->w = 2;
    if (ls__stream_open_memory(&s, "fuzz", data, len) == LS_OK && parse(ds, &s) != LS_OK &&
        ls_error_message()[0] == '\0')
        abort(); /* a failure without a message */
    ls__stream_close(&s);
    ls_dataset_close(&ds);
    return 0;
}
