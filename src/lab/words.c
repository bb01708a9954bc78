/* words.c: the pieces of a lab file: words, lists in the arena, messages with a line number. */
#include "lab/draft.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum ls_status ls__draft_fail(const struct draft *d, int line, const char *fmt, ...)
{
    char made[768];
    va_list args;
    va_start(args, fmt);
    vsnprintf(made, sizeof made, fmt, args);
    va_end(args);
    return ls_fail(LS_USAGE, "%s:%d: %s", d->origin, line, made);
}

/* The room doubles; what was there before stays in the arena, at most as much again. */
enum ls_status ls__draft_grow(struct draft *d, struct draft_list *list, size_t size, void *out)
{
    size_t n = (size_t)list->n;
    if ((n & (n - 1)) == 0) { /* 0, 1, 2, 4, ... */
        void *more;
        TRY(ls__arena_alloc(&d->lab->memory, &more, n ? 2 * n : 1, size));
        if (n) memcpy(more, list->at, n * size);
        list->at = more;
    }
    void *element = (char *)list->at + n * size;
    memcpy(out, &element, sizeof element);
    list->n++;
    return LS_OK;
}

enum ls_status ls__draft_text(struct draft *d, struct draft_list *list, const char **out)
{
    char *end;
    TRY(ls__draft_grow(d, list, 1, &end)); /* zeroed */
    *out = list->at;
    return LS_OK;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

enum ls_status ls__draft_word(const struct draft *d, int line, char **rest, char **word)
{
    char *p = *rest, *to;
    bool is_quoted = false;
    while (is_blank(*p)) p++;
    *word = *p && *p != '#' ? p : NULL;
    if (!*word) return LS_OK;
    for (to = p; *p && (is_quoted || !is_blank(*p)); p++) {
        if (*p == '"')
            is_quoted = !is_quoted;
        else
            *to++ = *p;
    }
    if (is_quoted) return ls__draft_fail(d, line, "a \" without its partner: write key=\"words with blanks\"");
    *rest = *p ? p + 1 : p;
    *to = '\0';
    return LS_OK;
}
