/* buf.c: a text that grows. */
#include "base/buf.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char ls__buf_empty[1];

static bool reserve(struct ls_buf *b, size_t extra)
{
    if (b->failed) return false;
    if (b->cap && extra < b->cap - b->len) return true;
    size_t cap = (b->len + extra + 1) * 3 / 2 + 32;
    char *old = b->cap ? b->text : NULL;
    if (ls__grow(&old, b->cap, cap, 1) != LS_OK) {
        b->failed = true;
        return false;
    }
    b->text = old;
    b->cap = cap;
    return true;
}

void ls__buf_add(struct ls_buf *b, const void *bytes, size_t len)
{
    if (!reserve(b, len)) return;
    if (len) memcpy(b->text + b->len, bytes, len);
    b->len += len;
    b->text[b->len] = '\0';
}

void ls__buf_adds(struct ls_buf *b, const char *text)
{
    ls__buf_add(b, text, strlen(text));
}

void ls__buf_addf(struct ls_buf *b, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n >= 0 && reserve(b, (size_t)n)) {
        vsnprintf(b->text + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

void ls__buf_truncate(struct ls_buf *b, size_t len)
{
    if (len >= b->len) return;
    b->len = len;
    b->text[len] = '\0';
}

enum ls_status ls__buf_check(const struct ls_buf *b)
{
    return b->failed ? ls_fail(LS_NOMEM, "out of memory while building a text of %zu bytes", b->len) : LS_OK;
}

char *ls__buf_take(struct ls_buf *b)
{
    char *text = NULL;
    if (reserve(b, 0)) {
        b->text[b->len] = '\0';
        text = b->text;
    } else if (b->cap) {
        free(b->text);
    }
    *b = (struct ls_buf)LS_BUF_INIT;
    return text;
}

void ls__buf_release(struct ls_buf *b)
{
    if (b->cap) free(b->text);
    *b = (struct ls_buf)LS_BUF_INIT;
}
