/* parse.c: numbers from text, whole and within their range; anything else is refused. */
#include "base/parse.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

bool ls__parse_i64(const char *text, int64_t min, int64_t max, int64_t *out)
{
    if (!isdigit((unsigned char)*text) && *text != '-') return false;
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (errno || *end || end == text || v < min || v > max) return false;
    *out = v;
    return true;
}

bool ls__parse_f64(const char *text, double *out)
{
    if (!isdigit((unsigned char)*text) && *text != '-' && *text != '.') return false;
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (*end || end == text || !isfinite(v)) return false;
    *out = v;
    return true;
}

int ls__parse_dims(const char *text, int64_t dims[3])
{
    for (int n = 0; n < 3; n++) {
        int64_t v = 0;
        if (!isdigit((unsigned char)*text)) return 0;
        for (; isdigit((unsigned char)*text); text++) {
            v = v * 10 + (*text - '0');
            if (v > 65536) return 0;
        }
        if (v < 1) return 0;
        dims[n] = v;
        if (*text == '\0') return n + 1;
        if (*text++ != 'x') return 0;
    }
    return 0;
}
