/* line.c: lines of metrics, quickly: two million of them are to be read in a second or two, which is more than a JSON
 * library can. What a strict reader would refuse may pass; nothing is ever read beyond the line.
 */
#include "history/internal.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* The slow way, for numbers that need rounding with care. */
static double by_strtod(const char *from, const char *to)
{
    char text[64];
    size_t len = (size_t)(to - from) < sizeof text - 1 ? (size_t)(to - from) : sizeof text - 1;
    memcpy(text, from, len);
    text[len] = '\0';
    return strtod(text, NULL);
}

const char *ls__scan_number(const char *at, const char *end, double *out)
{
    const char *from = at;
    bool is_negative = at < end && *at == '-';
    uint64_t digits = 0;
    int n = 0, exponent = 0, given = 0;
    at += is_negative;
    const char *first = at;
    for (; at < end && isdigit((unsigned char)*at); at++, n++)
        digits = n < 18 ? digits * 10 + (uint64_t)(*at - '0') : digits;
    if (at < end && *at == '.') {
        for (at++; at < end && isdigit((unsigned char)*at); at++, n++, exponent--)
            digits = n < 18 ? digits * 10 + (uint64_t)(*at - '0') : digits;
    }
    if (n == 0 || !isdigit((unsigned char)*first)) return NULL;
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        bool is_down = at < end && *at == '-';
        if (at < end && (*at == '-' || *at == '+')) at++;
        if (at >= end || !isdigit((unsigned char)*at)) return NULL;
        for (; at < end && isdigit((unsigned char)*at); at++) given = given < 10000 ? given * 10 + (*at - '0') : given;
        exponent += is_down ? -given : given;
    }
    if (n > 15 || exponent < -22 || exponent > 22) {
        *out = by_strtod(from, at);
        if (!isfinite(*out)) *out = NAN;
        return at;
    }
    double value = exponent < 0 ? (double)digits / powers[-exponent] : (double)digits * powers[exponent];
    *out = is_negative ? -value : value;
    return at;
}

static const char *skip_blanks(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r')) at++;
    return at;
}

/* `at` is behind a '"': the place of the one that ends the text. */
static const char *end_of_text(const char *at, const char *end)
{
    for (; at < end && *at != '"'; at++)
        if (*at == '\\') at++;
    return at < end ? at : NULL;
}

/* Behind a value that nobody wants: a list, an object, true. */
static const char *skip_value(const char *at, const char *end)
{
    int depth = 0;
    for (; at < end; at++) {
        if (*at == '"') {
            at = end_of_text(at + 1, end);
            if (!at) return NULL;
        } else if (*at == '[' || *at == '{') {
            depth++;
        } else if (*at == ']' || *at == '}') {
            if (depth-- == 0) return at;
        } else if (*at == ',' && depth == 0) {
            return at;
        }
    }
    return NULL;
}

static const char *scan_value(const char *at, const char *end, struct ls_pair *pair, bool *is_wanted)
{
    *is_wanted = true;
    pair->text = NULL;
    pair->number = NAN;
    if (at < end && *at == '"') {
        const char *stop = end_of_text(at + 1, end);
        pair->text = at + 1;
        pair->text_len = stop ? (size_t)(stop - at - 1) : 0;
        return stop ? stop + 1 : NULL;
    }
    if (end - at >= 4 && memcmp(at, "null", 4) == 0) return at + 4;
    if (at < end && (*at == '-' || isdigit((unsigned char)*at))) return ls__scan_number(at, end, &pair->number);
    *is_wanted = false;
    return skip_value(at, end);
}

int ls__scan_object(const char *line, size_t len, struct ls_pair *pairs, int max)
{
    const char *end = line + len, *at = skip_blanks(line, end);
    int n = 0;
    if (at >= end || *at++ != '{') return -1;
    for (at = skip_blanks(at, end); at < end && *at != '}';) {
        struct ls_pair pair;
        bool is_wanted;
        if (*at++ != '"') return -1;
        pair.key = at;
        if (!(at = end_of_text(at, end))) return -1;
        pair.key_len = (size_t)(at - pair.key);
        at = skip_blanks(at + 1, end);
        if (at >= end || *at++ != ':') return -1;
        at = scan_value(skip_blanks(at, end), end, &pair, &is_wanted);
        if (!at) return -1;
        if (is_wanted && n < max) pairs[n++] = pair;
        at = skip_blanks(at, end);
        if (at < end && *at == ',') at = skip_blanks(at + 1, end);
    }
    return at < end ? n : -1;
}
