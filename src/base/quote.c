/* quote.c: see quote.h. */
#include "base/quote.h"

#include <stdio.h>
#include <string.h>

static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=@%+,-";

const char *ls__quote_path(const char *path, char *out, size_t size)
{
    const char *dot = *path == '-' ? "./" : "";
    if (*path && strspn(path, plain) == strlen(path)) {
        snprintf(out, size, "%s%s", dot, path);
        return out;
    }
    size_t at = (size_t)snprintf(out, size, "%s'", dot);
    for (; *path && at + 6 < size; path++) /* a quote is four characters, the last one and the end are two */
        at += (size_t)snprintf(out + at, size - at, *path == '\'' ? "'\\''" : "%c", *path);
    snprintf(out + at, size - at, "'");
    return out;
}
