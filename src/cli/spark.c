/* spark.c: draws values as blocks of eight heights, in UTF-8 or plain letters. See spark.h. */
#include "cli/spark.h"

#include "draw/text.h"

#include <math.h>
#include <stdlib.h>
#include <strings.h>

static bool has_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (!value || !*value) continue;
        size_t n = 0;
        while (value[n] && value[n] != '.') n++;
        return value[n] && (strcasecmp(value + n, ".utf-8") == 0 || strcasecmp(value + n, ".utf8") == 0);
    }
    return true; /* nothing is said: most terminals do */
}

static const char *block(int height)
{
    static const char *const blocks[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                         "\u2585", "\u2586", "\u2587", "\u2588"};
    static const char *const plain[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
    return has_utf8() ? blocks[height] : plain[height];
}

/* The mean of what falls into a column; NAN for nothing. */
static double column(const double *values, size_t n, int c, int width, bool is_log)
{
    size_t from = n * (size_t)c / (size_t)width, to = n * ((size_t)c + 1) / (size_t)width, count = 0;
    double sum = 0;
    if (to == from) to = from + 1;
    for (size_t i = from; i < to && i < n; i++) {
        double v = is_log ? values[i] > 0 ? log(values[i]) : NAN : values[i];
        if (isfinite(v)) sum += v, count++;
    }
    return count ? sum / (double)count : NAN;
}

void ls__spark(struct ls_buf *b, const double *values, size_t n, int width, bool is_log)
{
    double low = INFINITY, high = -INFINITY;
    if ((size_t)width > n) width = (int)n;
    for (int c = 0; c < width; c++) {
        double v = column(values, n, c, width, is_log);
        if (isfinite(v)) low = fmin(low, v), high = fmax(high, v);
    }
    for (int c = 0; c < width; c++) {
        double v = column(values, n, c, width, is_log);
        int height = high > low ? (int)((v - low) / (high - low) * 7.999) : 3;
        ls__buf_adds(b, isfinite(v) ? block(height < 0 ? 0 : height > 7 ? 7 : height) : " ");
    }
}

void ls__spark_bar(struct ls_buf *b, double fraction, int width)
{
    int full = isfinite(fraction) ? (int)(fraction * width + 0.5) : 0;
    for (int i = 0; i < width && i < full; i++) ls__buf_adds(b, block(7));
}

void ls__spark_text(struct ls_buf *b, const char *text)
{
    char clean[LS_LABEL_BYTES];
    ls__buf_adds(b, ls__text_clean(clean, sizeof clean, text));
}
