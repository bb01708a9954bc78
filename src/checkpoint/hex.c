/* hex.c: metadata values that JSON cannot take as they are; see internal.h. */
#include "base/mem.h"
#include "checkpoint/internal.h"

#include <stdlib.h>
#include <string.h>

static const char mark[] = "hex:";
enum { MARK_BYTES = sizeof mark - 1 };

bool ls__ckpt_needs_hex(const char *value)
{
    return strncmp(value, mark, MARK_BYTES) == 0;
}

enum ls_status ls__ckpt_to_hex(const char *value, char **hex)
{
    static const char digits[] = "0123456789abcdef";
    size_t n = strlen(value);
    TRY(ls__calloc(hex, MARK_BYTES + 2 * n + 1, 1));
    memcpy(*hex, mark, MARK_BYTES);
    for (size_t i = 0; i < n; i++) {
        (*hex)[MARK_BYTES + 2 * i] = digits[(unsigned char)value[i] >> 4];
        (*hex)[MARK_BYTES + 2 * i + 1] = digits[(unsigned char)value[i] & 15];
    }
    return LS_OK;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

enum ls_status ls__ckpt_from_hex(const char *value, char **bytes)
{
    *bytes = NULL;
    if (!ls__ckpt_needs_hex(value)) return LS_OK;
    value += MARK_BYTES;
    size_t n = strlen(value) / 2;
    TRY(ls__calloc(bytes, n + 1, 1));
    bool is_good = strlen(value) % 2 == 0;
    for (size_t i = 0; is_good && i < n; i++) {
        int high = digit(value[2 * i]), low = digit(value[2 * i + 1]);
        is_good = high >= 0 && low >= 0 && high + low > 0; /* a text has no zero byte */
        if (is_good) (*bytes)[i] = (char)(high << 4 | low);
    }
    if (is_good) return LS_OK;
    free(*bytes);
    *bytes = NULL;
    return LS_OK;
}
