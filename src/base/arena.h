/* arena.h: many small blocks of memory with one owner and one end.
 *
 *     struct ls_arena a = {0};
 *     TRY(ls__arena_alloc(&a, &values, n, sizeof *values));
 *     ls__arena_release(&a);     everything at once
 */
#ifndef LS_BASE_ARENA_H
#define LS_BASE_ARENA_H

#include "lockstep/status.h"

#include <stddef.h>

struct ls_arena {
    void **blocks; /* [n_blocks] */
    size_t n_blocks;
};

/* Zeroed memory for n elements in *out (a pointer to any object pointer); n may be 0. */
enum ls_status ls__arena_alloc(struct ls_arena *a, void *out, size_t n, size_t size) LS_MUST_CHECK;
/* A copy of `len` bytes of text, with a '\0' after them. */
enum ls_status ls__arena_text(struct ls_arena *a, const char **out, const char *text, size_t len) LS_MUST_CHECK;
/* A text made of others; NULL for want of memory, which is the caller's to report. */
const char *ls__arena_format(struct ls_arena *a, const char *fmt, ...) LS_PRINTF(2, 3);
void ls__arena_release(struct ls_arena *a);

#endif
