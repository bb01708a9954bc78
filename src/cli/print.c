/* print.c: results on stdout; see cmd.h. Whether stdout took them is checked once, at the end of main. */
#include "cli/cmd.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum ls_status ls__print_json(struct json_t *object)
{
    char *text;
    TRY(ls__json_dump(object, LS_JSON_FOR_PEOPLE, "JSON", &text));
    puts(text);
    free(text);
    return LS_OK;
}

enum ls_status ls__print_buf(struct ls_buf *b)
{
    enum ls_status status = ls__buf_check(b);
    if (status == LS_OK) fwrite(b->text, 1, b->len, stdout);
    ls__buf_release(b);
    return status;
}

int ls__columns_of(const char *text)
{
    int width = 0;
    for (; *text; text++) width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

void ls__print_plain(const char *text, int width)
{
    width -= ls__columns_of(text);
    for (; *text; text++) putchar((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text);
    if (width > 0) printf("%*s", width, "");
}

static const char *scaled(double value, double base, const char *const *units, int n_units, char out[LS_TEXT_BYTES])
{
    int i = 0;
    for (; value >= base * 0.9995 && i < n_units - 1; i++) value /= base;
    const char *fmt = i == 0 ? "%.0f%s" : value < 9.995 ? "%.2f%s" : value < 99.95 ? "%.1f%s" : "%.0f%s";
    snprintf(out, LS_TEXT_BYTES, fmt, value, units[i]);
    return out;
}

const char *ls__count_text(double count, char out[LS_TEXT_BYTES])
{
    static const char *const units[] = {"", " k", " M", " G", " T"};
    return scaled(count, 1000, units, 5, out);
}

const char *ls__bytes_text(double bytes, char out[LS_TEXT_BYTES])
{
    static const char *const units[] = {" B", " KiB", " MiB", " GiB", " TiB"};
    return scaled(bytes, 1024, units, 5, out);
}

const char *ls__percent_text(double fraction, char out[LS_TEXT_BYTES])
{
    if (isfinite(fraction))
        snprintf(out, LS_TEXT_BYTES, "%.2f %%", 100 * fraction);
    else
        snprintf(out, LS_TEXT_BYTES, "not measured");
    return out;
}
