/* arena.c: the blocks of arena.h stand in one list that grows by doubling; release walks it. */
#include "base/arena.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum ls_status ls__arena_alloc(struct ls_arena *a, void *out, size_t n, size_t size)
{
    void *block = NULL;
    if ((a->n_blocks & (a->n_blocks - 1)) == 0) /* a power of two: full */
        TRY(ls__grow(&a->blocks, a->n_blocks, a->n_blocks ? 2 * a->n_blocks : 1, sizeof *a->blocks));
    TRY(ls__calloc(&block, n ? n : 1, size));
    a->blocks[a->n_blocks++] = block;
    memcpy(out, &block, sizeof block);
    return LS_OK;
}

enum ls_status ls__arena_text(struct ls_arena *a, const char **out, const char *text, size_t len)
{
    char *copy;
    TRY(ls__arena_alloc(a, &copy, len + 1, 1));
    memcpy(copy, text, len);
    *out = copy;
    return LS_OK;
}

const char *ls__arena_format(struct ls_arena *a, const char *fmt, ...)
{
    va_list args, again;
    char *text = NULL;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n >= 0 && ls__arena_alloc(a, &text, (size_t)n + 1, 1) == LS_OK) vsnprintf(text, (size_t)n + 1, fmt, again);
    va_end(again);
    return text;
}

void ls__arena_release(struct ls_arena *a)
{
    for (size_t i = 0; i < a->n_blocks; i++) free(a->blocks[i]);
    free(a->blocks);
    a->blocks = NULL;
    a->n_blocks = 0;
}
