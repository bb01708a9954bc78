/* shape.c: how good a network is, as people write it (cable.h). */
#include "base/parse.h"
#include "nodes/cable.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

struct unit {
    const char *name;
    double factor;
};

static const struct unit rates[] = {{"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {NULL, 0}};
static const struct unit times[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {NULL, 0}};
static const struct unit shares[] = {{"%", 0.01}, {NULL, 0}};

/* A number directly followed by one of the units. */
static bool parse(const char *word, const struct unit *units, double *out)
{
    char number[32];
    size_t len = strspn(word, "0123456789.");
    if (len == 0 || len >= sizeof number) return false;
    memcpy(number, word, len);
    number[len] = '\0';
    for (; units->name; units++) {
        if (strcasecmp(word + len, units->name) != 0) continue;
        if (!ls__parse_f64(number, out)) return false;
        *out *= units->factor;
        return true;
    }
    return false;
}

bool ls__cable_shape_parse(const char *text, struct ls_cable_shape *shape)
{
    int n_rates = 0, n_delays = 0, n_losses = 0;
    *shape = (struct ls_cable_shape){0};
    for (const char *at = text;; at++) {
        char word[48];
        size_t len = strcspn(at, ",");
        if (len == 0 || len >= sizeof word) return false;
        memcpy(word, at, len);
        word[len] = '\0';
        if (parse(word, rates, &shape->bits_per_second))
            n_rates++;
        else if (parse(word, times, &shape->delay))
            n_delays++;
        else if (parse(word, shares, &shape->loss))
            n_losses++;
        else
            return false;
        at += len;
        if (*at == '\0') break;
    }
    bool is_rate = n_rates == 0 || (shape->bits_per_second >= 1e4 && shape->bits_per_second <= 1e12);
    return n_rates <= 1 && n_delays <= 1 && n_losses <= 1 && is_rate && shape->delay <= 10 && shape->loss <= 0.5;
}

void ls__cable_shape_print(const struct ls_cable_shape *s, char *out, size_t size)
{
    const struct unit *unit = &rates[1];
    char rate[32] = "any rate", delay[32] = "no delay", loss[32] = "";
    static const char *const names[] = {"bit/s", "kbit/s", "Mbit/s", "Gbit/s"};
    while (unit < &rates[3] && s->bits_per_second >= unit[1].factor) unit++;
    if (s->bits_per_second > 0)
        snprintf(rate, sizeof rate, "%.4g %s", s->bits_per_second / unit->factor, names[unit - rates]);
    if (s->delay > 0) snprintf(delay, sizeof delay, "%.4g ms", s->delay * 1e3);
    if (s->loss > 0) snprintf(loss, sizeof loss, ", %.3g %% lost", s->loss * 100);
    snprintf(out, size, "%s, %s%s", rate, delay, loss);
}
