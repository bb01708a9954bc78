/* doc.c: pictures that own what they show; see draw.h. */
#include "draw/doc.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum ls_status ls__doc_alloc(struct ls_draw_doc *doc, void *out, size_t n, size_t size)
{
    void *block = NULL;
    if ((doc->n_owned & (doc->n_owned - 1)) == 0) /* a power of two: full */
        TRY(ls__grow(&doc->owned, doc->n_owned, doc->n_owned ? 2 * doc->n_owned : 1, sizeof *doc->owned));
    TRY(ls__calloc(&block, n ? n : 1, size));
    doc->owned[doc->n_owned++] = block;
    memcpy(out, &block, sizeof block);
    return LS_OK;
}

enum ls_status ls__doc_text(struct ls_draw_doc *doc, const char **out, const char *text, size_t len)
{
    char *copy;
    TRY(ls__doc_alloc(doc, &copy, len + 1, 1));
    memcpy(copy, text, len);
    *out = copy;
    return LS_OK;
}

enum ls_status ls_draw_doc_parse(struct ls_draw_doc **out, const char *name, const char *text, size_t len, bool is_json)
{
    *out = NULL;
    TRY(ls__calloc(out, 1, sizeof **out));
    enum ls_status status = (is_json ? ls__doc_read_json : ls__doc_read_csv)(*out, name, text, len);
    if (status != LS_OK) ls_draw_doc_destroy(out);
    return status;
}

const struct ls_draw_picture *ls_draw_doc_picture(const struct ls_draw_doc *doc)
{
    return &doc->picture;
}

void ls_draw_doc_destroy(struct ls_draw_doc **doc)
{
    if (!*doc) return;
    for (size_t i = 0; i < (*doc)->n_owned; i++) free((*doc)->owned[i]);
    free((*doc)->owned);
    free(*doc);
    *doc = NULL;
}
