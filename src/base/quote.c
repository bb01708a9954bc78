/* quote.c: puts quotes around what a shell would not take as one word. See quote.h. */
#include "base/quote.h"

#include <stdio.h>
#include <string.h>

static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=@%+,-";

const char *ls__quote_word(const char *word, char *out, size_t size)
{
    if (*word && strspn(word, plain) == strlen(word)) {
        snprintf(out, size, "%s", word);
        return out;
    }
    size_t at = (size_t)snprintf(out, size, "'");
    for (; *word && at + 6 < size; word++) /* a quote is four characters, the last one and the end are two */
        at += (size_t)snprintf(out + at, size - at, *word == '\'' ? "'\\''" : "%c", *word);
    snprintf(out + at, size - at, "'");
    return out;
}

const char *ls__quote_path(const char *path, char *out, size_t size)
{
    const size_t n_dot = *path == '-' && size > 2 ? 2 : 0;
    memcpy(out, "./", n_dot);
    ls__quote_word(path, out + n_dot, size - n_dot);
    return out;
}

void ls__make_printable(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f) *text = '?';
}
