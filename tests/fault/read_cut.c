/* read_cut.c: files given to their parsers whole and cut at many lengths, for a tool that sees reads of memory that was
 * never written (uninitialised.sh).
 *
 *     read_cut image|model|tune|idx FILE...
 *
 * Prints how many inputs were read; the outcome of each is branched on, so that a status or size that nobody set is
 * seen.
 */
#include "base/file.h"
#include "base/mem.h"
#include "data/formats/parsers.h"
#include "model/model.h"
#include "plan/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 1 << 20, CUTS = 60 };

static enum ls_status read_image(const char *name, const uint8_t *data, size_t len)
{
    uint8_t out[3 * 9 * 5];
    unsigned sum = 0;
    TRY(ls__image_decode(name, data, len, 9, 5, out));
    for (size_t i = 0; i < sizeof out; i++) sum += out[i];
    return sum > 3 * 9 * 5 * 255 ? ls_fail(LS_INTERNAL, "bytes above 255") : LS_OK;
}

static enum ls_status read_model(const char *name, const uint8_t *data, size_t len)
{
    const struct ls_model_options o = {.mb = 4, .c = 3, .h = 32, .w = 32, .n_classes = 10, .is_training = true};
    struct ls_model *m;
    struct ls_graph *g;
    TRY(ls_model_parse(&m, name, (const char *)data, len));
    enum ls_status status = ls_model_build(m, &o, &g);
    ls_graph_destroy(&g);
    ls_model_destroy(&m);
    return status;
}

static enum ls_status read_tune(const char *name, const uint8_t *data, size_t len)
{
    struct ls_tune *t;
    TRY(ls__tune_parse(&t, name, (const char *)data, len));
    ls__tune_destroy(&t);
    return LS_OK;
}

static enum ls_status read_idx(const char *name, const uint8_t *data, size_t len)
{
    static const struct ls_expect e = {.c = 1, .h = 28, .w = 28, .n_classes = 10, .max_n = 1000};
    struct ls_dataset_impl impl = {0};
    struct ls_dataset ds = {.c = 1, .h = 28, .w = 28, .impl = &impl};
    struct ls_stream s;
    enum ls_status status = ls__stream_open_memory(&s, name, data, len);
    if (status == LS_OK) status = ls__idx_read_labels(&ds, &s, &e);
    ls__stream_close(&s);
    ls__free_aligned(impl.labels, impl.labels_bytes);
    return status;
}

static const struct {
    const char *name;
    enum ls_status (*read)(const char *name, const uint8_t *data, size_t len);
} kinds[] = {{"image", read_image}, {"model", read_model}, {"tune", read_tune}, {"idx", read_idx}};

int main(int argc, char **argv)
{
    int kind = -1, n_good = 0, n_bad = 0;
    for (int k = 0; argc > 2 && k < 4; k++)
        if (strcmp(argv[1], kinds[k].name) == 0) kind = k;
    if (kind < 0) return 2;
    for (int i = 2; i < argc; i++) {
        char *data;
        size_t len;
        if (ls__file_read(argv[i], MAX_BYTES, &data, &len) != LS_OK) return 2;
        for (size_t n = 0, step = 1; n <= len; n += step) {
            uint8_t *cut = malloc(n + (n == 0)); /* its own block, so that reading past the end is seen */
            memcpy(cut, data, n);
            enum ls_status status = kinds[kind].read(argv[i], cut, n);
            if (status == LS_OK)
                n_good++;
            else
                n_bad++;
            free(cut);
            step = len > CUTS && n + len / CUTS < len ? len / CUTS : 1;
        }
        free(data);
    }
    printf("%s: %d inputs were read, %d refused\n", argv[1], n_good, n_bad);
    return n_good > 0 && n_bad > 0 ? 0 : 1;
}
