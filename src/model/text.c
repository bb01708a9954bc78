/* text.c: model text into statements: lines cut into words, comments dropped, statement words recognised.
 *
 * In:  any bytes. Out: statements whose words are printable ASCII of at most LS_MODEL_NAME characters.
 * Memory is bounded by the length of the text, which is bounded by LS_MODEL_TEXT_BYTES.
 */
#include "base/mem.h"
#include "model/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum ls_status ls__text_fail(const char *origin, int line, const char *fmt, ...)
{
    char made[768];
    va_list args;
    va_start(args, fmt);
    vsnprintf(made, sizeof made, fmt, args);
    va_end(args);
    return ls_fail(LS_DATA, "%s:%d: %s", origin, line, made);
}

void ls__text_release(struct ls_text *text)
{
    free(text->copy);
    free(text->words);
    free(text->statements);
    *text = (struct ls_text){0};
}

static enum ls_status add_word(struct ls_text *t, char *word)
{
    if (t->n_words == t->cap_words) {
        size_t cap = t->cap_words ? 2 * t->cap_words : 256;
        TRY(ls__grow(&t->words, t->cap_words, cap, sizeof *t->words));
        t->cap_words = cap;
    }
    t->words[t->n_words++] = word;
    return LS_OK;
}

static enum ls_status add_statement(struct ls_text *t, const struct ls_statement *s)
{
    if (t->n_statements == t->cap_statements) {
        int cap = t->cap_statements ? 2 * t->cap_statements : 64;
        TRY(ls__grow(&t->statements, (size_t)t->cap_statements, (size_t)cap, sizeof *t->statements));
        t->cap_statements = cap;
    }
    t->statements[t->n_statements++] = *s;
    return LS_OK;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Cuts text[*at..] up to the next blank, comment or line end; the caller knows that a word begins there. */
static enum ls_status cut_word(const char *origin, int line, const char *begin, const char *end, size_t *n)
{
    const char *p = begin;
    for (; p < end && !is_blank(*p) && *p != '#'; p++)
        if ((unsigned char)*p <= ' ' || (unsigned char)*p > '~')
            return ls__text_fail(origin, line, "byte 0x%02x is not allowed outside comments (plain ASCII only)",
                                 (unsigned char)*p);
    *n = (size_t)(p - begin);
    if (*n > LS_MODEL_NAME)
        return ls__text_fail(origin, line, "word of %zu characters (%.20s...); at most %d are allowed", *n, begin,
                             LS_MODEL_NAME);
    return LS_OK;
}

/* One line [begin,end): its words, and the statement they make. Writes a '\0' after each word, at most at *end, which
 * is the line end or the byte after the text. */
static enum ls_status cut_line(const char *origin, int line, char *begin, char *end, struct ls_text *t)
{
    struct ls_statement s = {.line = line, .first = (int)t->n_words};
    for (char *p = begin; p < end && *p != '#';) {
        if (is_blank(*p)) {
            p++;
            continue;
        }
        size_t n = 0;
        TRY(cut_word(origin, line, p, end, &n));
        if (s.n_words == LS_MODEL_WORDS)
            return ls__text_fail(origin, line, "more than %d words in a line", LS_MODEL_WORDS);
        TRY(add_word(t, p));
        s.n_words++;
        bool at_comment = p + n < end && p[n] == '#';
        p[n] = '\0';
        if (at_comment) break;
        p += n + 1;
    }
    if (s.n_words == 0) return LS_OK;
    const char *word = t->words[s.first];
    if (!ls__word_find(word, &s.kind)) {
        const char *near = ls__word_nearest(word);
        return ls__text_fail(origin, line, "unknown statement \"%s\"%s%s%s", word, near ? "; did you mean \"" : "",
                             near ? near : "", near ? "\"?" : "");
    }
    if (t->n_statements == LS_MODEL_STATEMENTS)
        return ls__text_fail(origin, line, "more than %d statements", LS_MODEL_STATEMENTS);
    return add_statement(t, &s);
}

enum ls_status ls__text_cut(const char *origin, const char *text, size_t len, struct ls_text *out)
{
    if (len > LS_MODEL_TEXT_BYTES)
        return ls__text_fail(origin, 1, "the text has %zu bytes; a model may have at most %d", len,
                             LS_MODEL_TEXT_BYTES);
    TRY(ls__calloc(&out->copy, len + 1, 1));
    memcpy(out->copy, text, len);
    char *p = out->copy, *stop = out->copy + len;
    for (;;) {
        out->n_lines++;
        char *end = memchr(p, '\n', (size_t)(stop - p));
        TRY(cut_line(origin, out->n_lines, p, end ? end : stop, out));
        if (!end || end + 1 == stop) return LS_OK;
        p = end + 1;
    }
}
