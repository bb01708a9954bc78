/* fuzz_tune.c: any bytes as a tuning table; what is read must be found again, and read the same once written; what is
 * refused is refused with the file and the line. */
#include "base/buf.h"
#include "plan/tune.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct ls_tune *t, *again;
    struct ls_buf b = LS_BUF_INIT;
    int line = -1;
    enum ls_status status = ls__tune_parse(&t, "fuzz.tune", (const char *)data, len);
    if (status != LS_OK) {
        bool is_named = sscanf(ls_error_message(), "fuzz.tune:%d: ", &line) == 1 && line >= 0 && status == LS_DATA;
        if (status != LS_NOMEM && !is_named) __builtin_trap();
        return 0;
    }
    ls__buf_addf(&b, "tune 1\nisa %s\nlibrary %s\n", t->id.isa, t->id.software);
    for (int i = 0; i < t->n_lines; i++) {
        const char *impl = ls__tune_find(t, t->lines[i].key);
        if (!impl || strcmp(impl, t->lines[i].impl) != 0) __builtin_trap();
        ls__buf_addf(&b, "%s = %s\n", t->lines[i].key, impl);
    }
    if (b.len <= LS_TUNE_FILE_BYTES) {
        if (ls__tune_parse(&again, "again", b.text, b.len) != LS_OK) __builtin_trap();
        if (strcmp(t->hash, again->hash) != 0) __builtin_trap();
        ls__tune_destroy(&again);
    }
    ls__buf_release(&b);
    ls__tune_destroy(&t);
    return 0;
}
