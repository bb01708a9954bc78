/* doc.h: a picture that owns what it shows; shared by the readers of JSON and CSV. */
#ifndef LS_DRAW_DOC_H
#define LS_DRAW_DOC_H

#include "base/arena.h"
#include "draw/draw.h"

struct ls_draw_doc {
    struct ls_draw_picture picture;
    struct ls_arena memory; /* of all that the picture points to */
};

enum ls_status ls__doc_read_json(struct ls_draw_doc *doc, const char *name, const char *text, size_t len) LS_MUST_CHECK;
enum ls_status ls__doc_read_csv(struct ls_draw_doc *doc, const char *name, const char *text, size_t len) LS_MUST_CHECK;

#endif
