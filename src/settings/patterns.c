/* patterns.c: matches names of parameters with lists of patterns, and reads the rates behind them. See patterns.h. */
#include "settings/patterns.h"

#include "base/parse.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

/* The i-th entry, "PATTERN" or "PATTERN=RATE". */
static bool entry_at(const char *list, int i, char entry[LS_PATTERN_BYTES])
{
    if (!list) return false;
    for (; i > 0; i--) {
        list += strcspn(list, ",");
        if (*list++ == '\0') return false;
    }
    size_t len = strcspn(list, ",");
    if (len >= LS_PATTERN_BYTES) len = LS_PATTERN_BYTES - 1; /* is_valid has refused it */
    snprintf(entry, LS_PATTERN_BYTES, "%.*s", (int)len, list);
    return true;
}

bool ls__pattern_at(const char *list, int i, char pattern[LS_PATTERN_BYTES])
{
    if (!entry_at(list, i, pattern)) return false;
    char *rate = strrchr(pattern, '=');
    if (rate) *rate = '\0';
    return true;
}

bool ls__pattern_matches(const char *pattern, const char *name)
{
    return fnmatch(pattern, name, 0) == 0;
}

bool ls__patterns_match(const char *list, const char *name)
{
    char pattern[LS_PATTERN_BYTES];
    for (int i = 0; ls__pattern_at(list, i, pattern); i++)
        if (ls__pattern_matches(pattern, name)) return true;
    return false;
}

static bool is_list(const char *list)
{
    for (;;) {
        size_t len = strcspn(list, ",");
        if (len == 0 || len >= LS_PATTERN_BYTES) return false;
        if (list[len] == '\0') return true;
        list += len + 1;
    }
}

bool ls__patterns_is_valid(const char *list)
{
    return is_list(list) && !strchr(list, '=');
}

/* "0.001" or "x0.1" */
static bool read_rate(const char *entry, double *value, bool *is_factor)
{
    const char *rate = strrchr(entry, '=');
    if (!rate || rate == entry) return false;
    *is_factor = rate[1] == 'x';
    return ls__parse_f64(rate + 1 + *is_factor, value) && *value >= 0 && *value <= 1e6;
}

bool ls__rates_is_valid(const char *list)
{
    char entry[LS_PATTERN_BYTES];
    double value;
    bool is_factor;
    if (!is_list(list)) return false;
    for (int i = 0; entry_at(list, i, entry); i++)
        if (!read_rate(entry, &value, &is_factor)) return false;
    return true;
}

double ls__rate_factor(const char *list, const char *name, double lr)
{
    char entry[LS_PATTERN_BYTES], pattern[LS_PATTERN_BYTES];
    double factor = 1, value;
    bool is_factor;
    for (int i = 0; entry_at(list, i, entry) && ls__pattern_at(list, i, pattern); i++)
        if (ls__pattern_matches(pattern, name) && read_rate(entry, &value, &is_factor))
            factor = is_factor ? value : lr > 0 ? value / lr : 0;
    return factor;
}
