/* fuzz_model.c: any bytes as a model text, built for images of several sizes when they parse, training and evaluating.
 * Whatever is refused is refused with the file and the line. */
#include "model/model.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_message(enum ls_status status)
{
    int line = 0;
    if (status == LS_NOMEM) return;
    bool is_kind = status == LS_DATA || status == LS_USAGE; /* USAGE: the model is good, the size of shards is not */
    if (sscanf(ls_error_message(), "fuzz.net:%d: ", &line) == 1 && line > 0 && is_kind) return;
    fprintf(stderr, "%s without file and line: %s\n", ls_status_name(status), ls_error_message());
    __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const struct ls_model_options sizes[] = {
        {.mb = 4, .c = 3, .h = 32, .w = 32, .n_classes = 10},
        {.mb = 1, .c = 1, .h = 1, .w = 1, .n_classes = 1},
        {.mb = 4, .c = 65536, .h = 65536, .w = 65536, .n_classes = 1 << 20},
        {.mb = 4, .c = 3, .h = 32, .w = 0, .n_classes = 10},
        {.mb = 4, .c = 3, .h = 32, .w = 32, .n_classes = 1 << 30},
    };
    struct ls_model *m;
    enum ls_status status = ls_model_parse(&m, "fuzz.net", (const char *)data, len);
    if (status != LS_OK) {
        check_message(status);
        return 0;
    }
    for (int i = 0; i < 2 * (int)(sizeof sizes / sizeof sizes[0]); i++) {
        struct ls_model_options o = sizes[i / 2];
        struct ls_graph *g;
        o.is_training = i % 2;
        status = ls_model_build(m, &o, &g);
        if (status != LS_OK) {
            check_message(status);
            continue;
        }
        if (g->logits < 0 || g->values[g->logits].shape.dims[1] != o.n_classes) __builtin_trap();
        ls_graph_destroy(&g);
    }
    ls_model_destroy(&m);
    return 0;
}
