/* fuzz_safetensors.c: any bytes as a checkpoint.
 *
 * Law: ls_ckpt_parse refuses with LS_CHECKPOINT and a message, or gives tensors whose every byte may be read at an
 * address fit for its type, with names that are found again. Build: clang -fsanitize=fuzzer,address,undefined with the
 * static library. The fuzzer cannot guess a checksum; the structure behind it is reached by files that have none.
 */
#include "checkpoint/checkpoint.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool truth)
{
    if (!truth) abort();
}

static unsigned read_all(const struct ls_ckpt *c)
{
    unsigned sum = 0;
    for (int i = 0; i < ls_ckpt_n_tensors(c); i++) {
        const struct ls_ckpt_tensor *t = ls_ckpt_tensor_at(c, i);
        size_t bytes = (size_t)ls_shape_count(&t->shape) * ls_dtype_bytes(t->dtype);
        require(ls_ckpt_find(c, t->name) == t);
        require(bytes == 0 || (uintptr_t)t->data % ls_dtype_bytes(t->dtype) == 0);
        for (size_t k = 0; k < bytes; k++) sum += ((const uint8_t *)t->data)[k];
    }
    for (int i = 0; i < ls_ckpt_n_meta(c); i++) {
        struct ls_ckpt_meta m = ls_ckpt_meta_at(c, i);
        require(strcmp(ls_ckpt_meta(c, m.key), m.value) == 0);
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ls_ckpt *c = NULL;
    enum ls_status status = ls_ckpt_parse(&c, "fuzz", data, size);
    require(status == LS_OK || status == LS_CHECKPOINT);
    require((status == LS_OK) == (c != NULL));
    require(status == LS_OK || ls_error_message()[0] != '\0');
    static volatile unsigned sink;
    if (c) sink = read_all(c);
    (void)sink;
    ls_ckpt_close(&c);
    return 0;
}
