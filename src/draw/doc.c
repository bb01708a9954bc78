/* doc.c: pictures that own what they show; see draw.h. */
#include "draw/doc.h"

#include "base/mem.h"

#include <stdlib.h>

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
    ls__arena_release(&(*doc)->memory);
    free(*doc);
    *doc = NULL;
}
