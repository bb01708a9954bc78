/* fuzz_unpack.c: any bytes as a message between machines (comm/pack.c). What is accepted packs and unpacks to the same
 * numbers. */
#include "comm/comm_internal.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_N = 600 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    int64_t sum[MAX_N] = {0}, again[MAX_N];
    if (len < 2) return 0;
    size_t n = (data[0] + 256u * data[1]) % (MAX_N + 1);
    int64_t *x = calloc(n + 1, sizeof *x); /* of its size, so that a write beyond it is seen */
    uint8_t *packed = malloc(ls__pack_bound(n));
    if (x && packed && ls__unpack(data + 2, len - 2, x, n, false)) {
        if (!ls__unpack(data + 2, len - 2, sum, n, true) || memcmp(sum, x, n * sizeof *x) != 0) __builtin_trap();
        size_t bytes = ls__pack(x, n, packed);
        if (bytes > ls__pack_bound(n) || !ls__unpack(packed, bytes, again, n, false)) __builtin_trap();
        if (memcmp(again, x, n * sizeof *x) != 0) __builtin_trap();
    }
    free(x);
    free(packed);
    return 0;
}
