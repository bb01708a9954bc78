/* fuzz_model.c: any bytes as a model text, built for 3x32x32 images when they parse, training and evaluating. */
#include "lockstep/model.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct ls_model *m;
    if (ls_model_parse(&m, "fuzz.net", (const char *)data, len) != LS_OK) return 0;
    for (int is_training = 0; is_training < 2; is_training++) {
        const struct ls_model_options o = {
            .mb = 4, .c = 3, .h = 32, .w = 32, .n_classes = 10, .is_training = is_training};
        struct ls_graph *g;
        if (ls_model_build(m, &o, &g) != LS_OK) continue;
        if (g->logits < 0 || g->values[g->logits].shape.dims[1] != 10) __builtin_trap();
        ls_graph_destroy(&g);
    }
    ls_model_destroy(&m);
    return 0;
}
