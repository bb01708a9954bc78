/* network.c: latency and bandwidth as people write them, and networks that people have. */
#include "predict/predict.h"

#include "base/parse.h"

#include <string.h>
#include <strings.h>

/* Share of a core that the communication thread was seen to take. */
#define TALK 0.4

/* One-way times between two processes over TCP, as usual switches and cards give them. */
static const struct ls_predict_network presets[] = {
    {"1GbE", 60e-6, 1e9 / 8 * LS_LINE_TO_DATA, TALK, 0},
    {"10GbE", 25e-6, 10e9 / 8 * LS_LINE_TO_DATA, TALK, 0},
    {"25GbE", 18e-6, 25e9 / 8 * LS_LINE_TO_DATA, TALK, 0},
    {"100GbE", 12e-6, 100e9 / 8 * LS_LINE_TO_DATA, TALK, 0},
    {"loopback", 8e-6, 2.5e9, TALK, 0},
};

const struct ls_predict_network *ls_predict_presets(int *n)
{
    *n = (int)(sizeof presets / sizeof presets[0]);
    return presets;
}

const struct ls_predict_network *ls_predict_preset(const char *name)
{
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++)
        if (strcasecmp(name, presets[i].name) == 0) return &presets[i];
    return NULL;
}

struct unit {
    const char *name;
    double factor;
};

/* A positive number directly followed by one of the units. */
static bool parse(const char *text, const struct unit *units, int n_units, double *out)
{
    char number[64];
    size_t digits = strspn(text, "0123456789.");
    size_t len = digits;
    if (digits > 0 && (text[len] == 'e' || text[len] == 'E')) { /* 2e-5s */
        size_t sign = text[len + 1] == '-' || text[len + 1] == '+';
        size_t exponent = strspn(text + len + 1 + sign, "0123456789");
        if (exponent > 0) len += 1 + sign + exponent;
    }
    if (len == 0 || len >= sizeof number) return false;
    memcpy(number, text, len);
    number[len] = '\0';
    double value;
    if (!ls__parse_f64(number, &value)) return false;
    for (int i = 0; i < n_units; i++)
        if (strcmp(text + len, units[i].name) == 0) {
            *out = value * units[i].factor;
            return true;
        }
    return false;
}

bool ls_predict_parse_latency(const char *text, double *seconds)
{
    static const struct unit units[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
    return parse(text, units, 4, seconds) && *seconds <= 60;
}

bool ls_predict_parse_bandwidth(const char *text, double *bytes_per_second)
{
#define LINE(prefix, factor)                                                                                           \
    {prefix "bit", (factor) / 8 * LS_LINE_TO_DATA}, {prefix "bit/s", (factor) / 8 * LS_LINE_TO_DATA},                  \
    {                                                                                                                  \
        prefix "bps", (factor) / 8 * LS_LINE_TO_DATA                                                                   \
    }
#define DATA(prefix, factor)                                                                                           \
    {prefix "B", factor},                                                                                              \
    {                                                                                                                  \
        prefix "B/s", factor                                                                                           \
    }
    static const struct unit units[] = {LINE("k", 1e3), LINE("K", 1e3), LINE("M", 1e6), LINE("G", 1e9), LINE("T", 1e12),
                                        DATA("k", 1e3), DATA("K", 1e3), DATA("M", 1e6), DATA("G", 1e9)};
    return parse(text, units, (int)(sizeof units / sizeof units[0]), bytes_per_second) && *bytes_per_second >= 1000;
}
