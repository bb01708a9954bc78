/* doc.h: a picture that owns what it shows; shared by the readers of JSON and CSV. */
#ifndef LS_DRAW_DOC_H
#define LS_DRAW_DOC_H

#include "draw/draw.h"

struct ls_draw_doc {
    struct ls_draw_picture picture;
    void **owned; /* [n_owned]: every block of memory */
    size_t n_owned;
};

/* Zeroed memory that lives as long as the document; n may be 0. */
enum ls_status ls__doc_alloc(struct ls_draw_doc *doc, void *out, size_t n, size_t size) LS_MUST_CHECK;
enum ls_status ls__doc_text(struct ls_draw_doc *doc, const char **out, const char *text, size_t len) LS_MUST_CHECK;

enum ls_status ls__doc_read_json(struct ls_draw_doc *doc, const char *name, const char *text, size_t len) LS_MUST_CHECK;
enum ls_status ls__doc_read_csv(struct ls_draw_doc *doc, const char *name, const char *text, size_t len) LS_MUST_CHECK;

#endif
