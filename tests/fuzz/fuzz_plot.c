/* fuzz_plot.c: any bytes as the description of a picture, JSON if they begin with '{', else a table; what is understood
 * is drawn. */
#include "draw/draw.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct ls_draw_doc *doc;
    struct ls_buf b = LS_BUF_INIT;
    bool is_json = len > 0 && data[0] == '{';
    enum ls_status status = ls_draw_doc_parse(&doc, "fuzz", (const char *)data, len, is_json);
    if (status != LS_OK) {
        if (status != LS_NOMEM && (status != LS_DATA || strncmp(ls_error_message(), "fuzz:", 5) != 0)) __builtin_trap();
        return 0;
    }
    /* A NAN that became a coordinate; as a name of the input it is what was asked for. */
    static const char nan_as_integer[] = "922337203685477580";
    if (ls_draw(ls_draw_doc_picture(doc), LS_DRAW_SVG, &b) == LS_OK && strstr(b.text, nan_as_integer) &&
        !memmem(data, len, nan_as_integer, sizeof nan_as_integer - 1))
        __builtin_trap();
    ls__buf_release(&b);
    ls_draw_doc_destroy(&doc);
    return 0;
}
