/* buf.h: a growing string, in the manner of git's strbuf.
 *
 * Invariants: text is never NULL after init and always ends in '\0' (not counted in len). A failed allocation is
 * remembered, later additions are ignored, and ls__buf_check reports it once at the end, so that building a text
 * needs no check per line.
 *
 *     struct ls_buf b = LS_BUF_INIT;
 *     ls__buf_addf(&b, "%d nodes\n", n);
 *     TRY(ls__buf_check(&b));     (or write b.text somewhere)
 *     ls__buf_release(&b);
 */
#ifndef LS_BASE_BUF_H
#define LS_BASE_BUF_H

#include "base/status.h"

#include <stdbool.h>

struct ls_buf {
    char *text;
    size_t len, cap;
    bool failed;
};

extern char ls__buf_empty[1];
#define LS_BUF_INIT                                                                                                    \
    {                                                                                                                  \
        .text = ls__buf_empty                                                                                          \
    }

void ls__buf_add(struct ls_buf *b, const void *bytes, size_t len);
void ls__buf_adds(struct ls_buf *b, const char *text);
void ls__buf_addf(struct ls_buf *b, const char *fmt, ...) LS_PRINTF(2, 3);
void ls__buf_truncate(struct ls_buf *b, size_t len); /* len <= b->len */
enum ls_status ls__buf_check(const struct ls_buf *b) LS_MUST_CHECK;
char *ls__buf_take(struct ls_buf *b); /* a malloc'ed string for the caller to free; NULL if the buffer failed */
void ls__buf_release(struct ls_buf *b);

#endif
