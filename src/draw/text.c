/* text.c: decodes UTF-8, replaces what is not printable, and adds widths up from a table (text.h). */
#include "draw/text.h"

#include <stdint.h>
#include <string.h>

/* Hundredths of the size, from ' ' to '~'. */
static const uint8_t widths[95] = {
    32, 40, 46, 84, 64, 95, 78, 28, 39,  39, 50, 84, 32, 36, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64,
    64, 64, 34, 34, 84, 84, 84, 53, 100, 68, 69, 70, 77, 63, 58, 78, 75, 30, 30, 66, 56, 86, 75, 79,
    60, 79, 70, 64, 61, 73, 68, 99, 69,  61, 69, 39, 34, 39, 84, 50, 50, 61, 64, 55, 64, 62, 35, 64,
    63, 28, 28, 58, 28, 97, 63, 61, 64,  64, 41, 52, 39, 63, 59, 82, 59, 59, 53, 64, 34, 64, 84,
};

/* The next character and its bytes; invalid bytes are U+FFFD, one by one. */
static uint32_t decode(const unsigned char *s, size_t *n)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    size_t len = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    uint32_t c = s[0];
    *n = 1;
    if (len == 1) return c;
    if (s[0] < 0xc2 || s[0] > 0xf4) return 0xfffd;
    c &= 0xffu >> (len + 1);
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0xfffd; /* the '\0' at the end too */
        c = c << 6 | (s[i] & 0x3f);
    }
    if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return 0xfffd;
    *n = len;
    return c;
}

static uint32_t harmless(uint32_t c)
{
    if (c < 0x20 || c == 0x7f || c == 0x2028 || c == 0x2029) return ' ';
    if (c >= 0x80 && c < 0xa0) return 0xfffd;
    if ((c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0x200e || c == 0x200f || c == 0xfeff)
        return 0xfffd;
    if ((c & 0xfffe) == 0xfffe || (c >= 0xfdd0 && c <= 0xfdef)) return 0xfffd; /* no characters, not of XML either */
    return c;
}

static size_t encode(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((0xf00u >> n & 0xf0u) | c);
    return n;
}

char *ls__text_clean(char *out, size_t size, const char *text)
{
    size_t at = 0, n;
    for (const unsigned char *s = (const unsigned char *)(text ? text : ""); *s; s += n) {
        char bytes[4];
        size_t len = encode(harmless(decode(s, &n)), bytes);
        if (at + len >= size) break;
        memcpy(out + at, bytes, len);
        at += len;
    }
    out[at] = '\0';
    return out;
}

static double width_of(uint32_t c)
{
    if (c >= ' ' && c <= '~') return widths[c - ' '];
    if (c >= 0x300 && c < 0x370) return 0; /* accents of the one before */
    if (c >= 0x1100 && (c < 0x1200 || (c >= 0x2e80 && c < 0xd7b0) || c >= 0xf900)) return 100; /* wide scripts */
    return 64;
}

double ls__text_width(const char *clean, double size, bool is_bold)
{
    double sum = 0;
    size_t n;
    for (const unsigned char *s = (const unsigned char *)clean; *s; s += n) sum += width_of(decode(s, &n));
    return sum * size * (is_bold ? 0.0110 : 0.01);
}

void ls__text_fit(char *clean, double width, double size, bool is_bold)
{
    static const char ellipsis[] = "\xe2\x80\xa6";
    double sum = 0, room = width - ls__text_width(ellipsis, size, is_bold);
    size_t n, len = strlen(clean), cut = 0;
    if (ls__text_width(clean, size, is_bold) <= width) return;
    for (size_t at = 0; clean[at]; at += n) {
        sum += width_of(decode((const unsigned char *)clean + at, &n)) * size * (is_bold ? 0.0110 : 0.01);
        if (sum > room) break;
        cut = at + n;
    }
    while (cut > 0 && cut + sizeof ellipsis > len + 1) /* it fits where the text was */
        for (cut--; cut > 0 && ((unsigned char)clean[cut] & 0xc0) == 0x80;) cut--;
    if (cut + sizeof ellipsis <= len + 1)
        memcpy(clean + cut, ellipsis, sizeof ellipsis);
    else
        clean[0] = '\0';
}

size_t ls__text_break(const char *clean, double width, double size, size_t *skip)
{
    double sum = 0;
    size_t n, at = 0, blank = 0;
    *skip = 0;
    for (; clean[at]; at += n) {
        sum += width_of(decode((const unsigned char *)clean + at, &n)) * size * 0.01;
        if (clean[at] == ' ') blank = at;
        if (sum <= width || at == 0) continue;
        if (blank == 0) return at;
        while (clean[blank + *skip] == ' ') ++*skip;
        return blank;
    }
    return at;
}

void ls__text_escape(struct ls_buf *out, const char *text)
{
    size_t n;
    for (const unsigned char *s = (const unsigned char *)(text ? text : ""); *s; s += n) {
        char bytes[4];
        uint32_t c = harmless(decode(s, &n));
        switch (c) {
        case '<':
            ls__buf_adds(out, "&lt;");
            break;
        case '>':
            ls__buf_adds(out, "&gt;");
            break;
        case '&':
            ls__buf_adds(out, "&amp;");
            break;
        case '"':
            ls__buf_adds(out, "&quot;");
            break;
        case '\'':
            ls__buf_adds(out, "&#39;");
            break;
        default:
            ls__buf_add(out, bytes, encode(c, bytes));
        }
    }
}
