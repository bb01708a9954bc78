/* tune_read.c: the text of a tuning table into lines; see tune.h. Any bytes may come in. */
#include "plan/tune.h"

#include <stdio.h>
#include <string.h>

enum { MAX_WORDS = 16, MAX_LINE = 400 };

struct reader {
    struct ls_tune *t;
    const char *origin;
    int line;
    bool has_format, has_isa, has_library;
    char copy[MAX_LINE + 1]; /* the line, cut into words */
    char *words[MAX_WORDS];
    int n_words;
};

static bool is_op(const char *word)
{
    for (int op = 0; op < LS_N_OPS; op++)
        if (strcmp(ls_op_name((enum ls_op)op), word) == 0) return true;
    return false;
}

/* "16x64x32x32": 1 to 4 numbers */
static bool is_shape(const char *word)
{
    for (int n = 0; n < LS_MAX_DIMS; n++) {
        size_t digits = strspn(word, "0123456789");
        if (digits == 0 || digits > 12) return false;
        word += digits;
        if (*word == '\0') return true;
        if (*word++ != 'x') return false;
    }
    return false;
}

/* "k3x3", "s1x1", "p1x1", "d1x1", "g1", in this order */
static bool is_window(char *const *words, int n)
{
    static const char letters[] = "kspdg";
    for (int i = 0; i < n && i < 5; i++)
        if (words[i][0] != letters[i] || !is_shape(words[i] + 1) || (strchr(words[i], 'x') == NULL) != (i == 4))
            return false;
    return n == 0 || n == 5;
}

/* Names are lower case letters, digits, '_', '-' and '.'. */
static bool is_name(const char *word, size_t size)
{
    return strlen(word) < size && word[strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789_-.")] == '\0';
}

static enum ls_status cut(struct reader *r, const char *begin, size_t len)
{
    if (len > MAX_LINE)
        return ls_fail(LS_DATA, "%s:%d: a line of %zu bytes, expected %d at most", r->origin, r->line, len, MAX_LINE);
    for (size_t i = 0; i < len; i++)
        if ((begin[i] < ' ' && begin[i] != '\t' && begin[i] != '\r') || begin[i] > '~')
            return ls_fail(LS_DATA, "%s:%d: byte 0x%02x is not text; is this a tuning table?", r->origin, r->line,
                           (unsigned char)begin[i]);
    memcpy(r->copy, begin, len);
    r->copy[len] = '\0';
    r->copy[strcspn(r->copy, "#")] = '\0';
    r->n_words = 0;
    for (char *save, *w = strtok_r(r->copy, " \t\r", &save); w; w = strtok_r(NULL, " \t\r", &save)) {
        if (r->n_words == MAX_WORDS)
            return ls_fail(LS_DATA, "%s:%d: more than %d words", r->origin, r->line, MAX_WORDS);
        r->words[r->n_words++] = w;
    }
    return LS_OK;
}

/* One of the three lines at the top; *is_done says whether the line was one. */
static enum ls_status read_header(struct reader *r, bool *is_done)
{
    const struct {
        const char *word;
        bool *has;
        char *to;
        size_t size;
    } headers[] = {
        {"tune", &r->has_format, NULL, 0},
        {"isa", &r->has_isa, r->t->id.isa, sizeof r->t->id.isa},
        {"library", &r->has_library, r->t->id.software, sizeof r->t->id.software},
    };
    *is_done = false;
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(r->words[0], headers[i].word) != 0) continue;
        if (*headers[i].has || r->t->n_lines > 0)
            return ls_fail(LS_DATA, "%s:%d: '%s' stands once, at the top", r->origin, r->line, r->words[0]);
        if (r->n_words != 2 || !is_name(r->words[1], headers[i].to ? headers[i].size : 2))
            return ls_fail(LS_DATA, "%s:%d: expected '%s' and one %s", r->origin, r->line, headers[i].word,
                           headers[i].to ? "name" : "digit");
        if (!headers[i].to && strcmp(r->words[1], "1") != 0)
            return ls_fail(LS_DATA, "%s:%d: format %s; this program reads format 1", r->origin, r->line, r->words[1]);
        if (headers[i].to) snprintf(headers[i].to, headers[i].size, "%s", r->words[1]);
        *headers[i].has = *is_done = true;
    }
    return LS_OK;
}

static bool is_problem(const struct reader *r)
{
    int at = 1, n = r->n_words - 2;
    while (at < n && at < 3 && is_shape(r->words[at])) at++;
    if (at == 1 || at + 1 >= n || strcmp(r->words[at], ">") != 0 || !is_shape(r->words[at + 1])) return false;
    return is_window(r->words + at + 2, n - at - 2);
}

static enum ls_status read_choice(struct reader *r)
{
    char key[LS_TUNE_KEY_BYTES] = "";
    size_t at = 0;
    if (!r->has_format || !r->has_isa || !r->has_library)
        return ls_fail(LS_DATA, "%s:%d: expected 'tune 1', 'isa NAME' and 'library NAME' before '%s'", r->origin,
                       r->line, r->words[0]);
    if (!is_op(r->words[0])) return ls_fail(LS_DATA, "%s:%d: no op '%s'", r->origin, r->line, r->words[0]);
    if (r->n_words < 4 || strcmp(r->words[r->n_words - 2], "=") != 0 ||
        !is_name(r->words[r->n_words - 1], LS_TUNE_NAME_BYTES))
        return ls_fail(LS_DATA, "%s:%d: expected '= NAME' of an implementation at the end", r->origin, r->line);
    if (!is_problem(r))
        return ls_fail(LS_DATA,
                       "%s:%d: expected shapes as in '16x3x32x32 64x3x3x3 > 16x64x32x32 k3x3 s1x1 p1x1 d1x1 g1'",
                       r->origin, r->line);
    for (int i = 0; i < r->n_words - 2; i++) {
        int len = snprintf(key + at, sizeof key - at, "%s%s", i ? " " : "", r->words[i]);
        if ((size_t)len >= sizeof key - at) return ls_fail(LS_DATA, "%s:%d: numbers too long", r->origin, r->line);
        at += (size_t)len;
    }
    if (ls__tune_find(r->t, key)) return ls_fail(LS_DATA, "%s:%d: '%s' is listed twice", r->origin, r->line, key);
    if (r->t->n_lines == LS_TUNE_LINES)
        return ls_fail(LS_DATA, "%s:%d: more than %d choices", r->origin, r->line, LS_TUNE_LINES);
    return ls__tune_add(r->t, key, r->words[r->n_words - 1]);
}

static enum ls_status read_all(struct reader *r, const char *text, size_t len)
{
    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end ? (size_t)(end - text) - at : len - at;
        bool is_header;
        r->line++;
        TRY(cut(r, text + at, n));
        at += n + 1;
        if (r->n_words == 0) continue;
        TRY(read_header(r, &is_header));
        if (!is_header) TRY(read_choice(r));
    }
    if (!r->has_format || !r->has_isa || !r->has_library)
        return ls_fail(LS_DATA, "%s:%d: ends without '%s'; is this a tuning table?", r->origin, r->line,
                       !r->has_format ? "tune 1"
                       : !r->has_isa  ? "isa NAME"
                                      : "library NAME");
    return ls__tune_rehash(r->t);
}

enum ls_status ls__tune_parse(struct ls_tune **out, const char *origin, const char *text, size_t len)
{
    const struct ls_backend_id nothing = {.isa = ""};
    *out = NULL;
    if (len > LS_TUNE_FILE_BYTES)
        return ls_fail(LS_DATA, "%s:1: %zu bytes, a tuning table has %d at most", origin, len, LS_TUNE_FILE_BYTES);
    TRY(ls__tune_create(out, origin, &nothing));
    struct reader r = {.t = *out, .origin = origin};
    enum ls_status status = read_all(&r, text, len);
    if (status != LS_OK) ls__tune_destroy(out);
    return status;
}
