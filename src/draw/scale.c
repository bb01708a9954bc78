/* scale.c: range, unit, ticks and their texts, linear and logarithmic; what callers get is in scale.h. */
#include "draw/scale.h"

#include "draw/text.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Beyond them nothing is shown: sums and factors of such values stay finite. */
#define LARGEST 1e280
#define SMALLEST 1e-280
#define ANY_TICK 1e290

static bool is_shown(const struct ls_draw_axis *axis, double v)
{
    if (!isfinite(v) || fabs(v) > LARGEST) return false;
    if (axis->at_most > 0 && v > axis->at_most) return false;
    return axis->scale == LS_DRAW_LINEAR || v >= SMALLEST;
}

void ls__range_add(struct ls_range *r, const struct ls_draw_axis *axis, const double *values, size_t n)
{
    for (size_t i = 0; values && i < n; i++) {
        if (!is_shown(axis, values[i])) continue;
        if (values[i] < r->low) r->low = values[i];
        if (values[i] > r->high) r->high = values[i];
    }
}

double ls__round_step(double x)
{
    double unit = pow(10, floor(log10(x)));
    for (int i = 0; i < 4; i++) {
        static const double steps[] = {1, 2, 5, 10};
        if (unit * steps[i] >= x * 0.999) return unit * steps[i];
    }
    return unit * 10;
}

/* --- units --- */

struct unit {
    double from; /* the largest value of the axis is at least this */
    double factor;
    const char *name;
};

static const struct unit second_units[] = {
    {172800, 1 / 86400.0, "days"}, {7200, 1 / 3600.0, "h"}, {180, 1 / 60.0, "min"}, {1, 1, "s"}, {1e-3, 1e3, "ms"},
    {1e-6, 1e6, "\xc2\xb5s"},      {0, 1e9, "ns"}};
static const struct unit byte_units[] = {{1099511627776.0, 1 / 1099511627776.0, "TiB"},
                                         {1073741824, 1 / 1073741824.0, "GiB"},
                                         {1048576, 1 / 1048576.0, "MiB"},
                                         {1024, 1 / 1024.0, "KiB"},
                                         {0, 1, "B"}};

static void choose_unit(struct ls_scale *s, const struct ls_draw_axis *axis, double largest)
{
    const struct unit *u = axis->unit == LS_DRAW_SECONDS ? second_units : byte_units;
    s->factor = 1;
    s->unit[0] = '\0';
    switch (axis->unit) {
    case LS_DRAW_NUMBER:
        ls__text_clean(s->unit, sizeof s->unit, axis->suffix);
        break;
    case LS_DRAW_PERCENT:
        s->factor = 100;
        snprintf(s->unit, sizeof s->unit, "%%");
        break;
    case LS_DRAW_SECONDS:
    case LS_DRAW_BYTES:
        while (u->from > largest) u++;
        if (!(largest > 0)) u = axis->unit == LS_DRAW_SECONDS ? &second_units[3] : &byte_units[4];
        s->factor = u->factor;
        snprintf(s->unit, sizeof s->unit, "%s", u->name);
        break;
    }
}

/* --- labels --- */

/* `step`: what neighbours differ by; it decides the digits. All in the axis' unit. */
static void label(char *out, size_t size, double v, double step, double largest)
{
    static const struct {
        double from, factor;
        const char *name;
    } big[] = {{1e12, 1e-12, " T"}, {1e9, 1e-9, " G"}, {1e6, 1e-6, " M"}, {2e4, 1e-3, " k"}};
    double factor = 1;
    const char *name = "";
    if (fabs(v) < step * 1e-6) {
        snprintf(out, size, "0");
        return;
    }
    if (largest >= 1e15 || largest < 1e-4 || step < 1e-6) {
        snprintf(out, size, "%.6g", v);
        return;
    }
    for (int i = 0; i < 4; i++) {
        if (largest < big[i].from) continue;
        factor = big[i].factor;
        name = big[i].name;
        break;
    }
    double shown = step * factor * 1.001;
    int digits = shown >= 1 ? 0 : (int)ceil(-log10(shown));
    snprintf(out, size, "%.*f%s", digits < 9 ? digits : 9, v * factor, name);
}

void ls__scale_text(const struct ls_scale *s, double value, bool has_unit, char *out, size_t size)
{
    double v = value * s->factor;
    char number[40];
    if (!isfinite(v))
        snprintf(number, sizeof number, "not finite");
    else if (fabs(v) >= 1e4 && fabs(v) < 2e4)
        snprintf(number, sizeof number, "%.0f", v);
    else if (fabs(v) >= 2e4 && fabs(v) < 1e15)
        label(number, sizeof number, v, fabs(v) * 1e-3, fabs(v));
    else
        snprintf(number, sizeof number, "%.4g", v);
    snprintf(out, size, "%s%s%s", number, has_unit && s->unit[0] ? " " : "", has_unit ? s->unit : "");
}

/* --- ticks --- */

static void add_tick(struct ls_scale *s, double value)
{
    if (s->n_ticks < LS_MAX_TICKS) s->ticks[s->n_ticks++] = value;
}

static double step_of(const struct ls_scale *s, int n_wanted)
{
    /* rather some ticks too many than too few */
    return ls__round_step((s->high - s->low) * s->factor / (1.4 * n_wanted)) / s->factor;
}

static void linear_ticks(struct ls_scale *s, double step)
{
    double first = ceil(s->low / step - 1e-6), last = floor(s->high / step + 1e-6);
    for (double i = first; i <= last && s->n_ticks < LS_MAX_TICKS; i++) add_tick(s, i * step);
    for (int i = 0; i < s->n_ticks; i++)
        label(s->labels[i], LS_TICK_BYTES, s->ticks[i] * s->factor, step * s->factor,
              fmax(fabs(s->low), fabs(s->high)) * s->factor);
}

static void log_labels(struct ls_scale *s)
{
    for (int i = 0; i < s->n_ticks; i++) {
        double v = s->ticks[i] * s->factor;
        if (s->kind == LS_DRAW_LOG2 && v < 1 && v > 1e-6 && fabs(log2(v) - round(log2(v))) < 1e-9)
            snprintf(s->labels[i], LS_TICK_BYTES, "1/%.0f", 1 / v);
        else if (s->kind == LS_DRAW_LOG2 && v < 2e4)
            snprintf(s->labels[i], LS_TICK_BYTES, "%.10g", v);
        else
            label(s->labels[i], LS_TICK_BYTES, v, v, v);
    }
}

/* Ticks at `per` per power of `base` (1; 1 and 3; 1, 2 and 5), or every `every`-th power. */
static void log_ticks(struct ls_scale *s, int n_wanted)
{
    double base = s->kind == LS_DRAW_LOG2 ? 2 : 10;
    double first = floor(log(s->low * s->factor) / log(base) + 1e-9),
           last = ceil(log(s->high * s->factor) / log(base) - 1e-9);
    double every = ceil((last - first) / n_wanted);
    bool has_between = base == 10 && log10(s->high / s->low) * 3 <= 2 * n_wanted + 1;
    if (every < 1) every = 1;
    for (double e = first; e <= last; e += every) {
        static const double between[] = {1, 2, 5};
        for (int i = 0; i < (has_between ? 3 : 1); i++) {
            double v = between[i] * pow(base, e) / s->factor;
            if (v >= s->low * (1 - 1e-9) && v <= s->high * (1 + 1e-9)) add_tick(s, v);
        }
    }
    if (s->n_ticks >= 2)
        log_labels(s);
    else {
        s->n_ticks = 0;
        linear_ticks(s, step_of(s, n_wanted));
    }
}

/* --- ranges --- */

static struct ls_range range_of(const struct ls_draw_axis *axis, struct ls_range r)
{
    if (axis->is_given) return (struct ls_range){axis->from, axis->to};
    if (r.low > r.high) r = axis->scale == LS_DRAW_LINEAR ? (struct ls_range){0, 1} : (struct ls_range){1, 10};
    if (axis->scale == LS_DRAW_LINEAR && axis->has_zero) {
        if (r.low > 0) r.low = 0;
        if (r.high < 0) r.high = 0;
    }
    if (r.high - r.low > fabs(r.high) * 1e-9) return r;
    if (axis->scale != LS_DRAW_LINEAR) return (struct ls_range){r.low / 2, r.high * 2};
    double around = r.low == 0 ? 1 : fabs(r.low) * 0.1;
    return (struct ls_range){axis->has_zero && r.low >= 0 ? 0 : r.low - around, r.high + around};
}

static void widen(struct ls_scale *s, int n_wanted)
{
    double step = step_of(s, n_wanted);
    if (s->kind == LS_DRAW_LINEAR) {
        s->low = floor(s->low / step + 1e-6) * step;
        s->high = ceil(s->high / step - 1e-6) * step;
        return;
    }
    double base = s->kind == LS_DRAW_LOG2 ? 2 : 10;
    double low = s->low * s->factor, high = s->high * s->factor, decades = log(high / low) / log(base);
    double unit_low = pow(base, floor(log(low) / log(base) + 1e-9)),
           unit_high = pow(base, floor(log(high) / log(base) + 1e-9));
    if (base == 10 && decades < 4) { /* to 1, 2 or 5 */
        low = low >= 5 * unit_low ? 5 * unit_low : low >= 2 * unit_low ? 2 * unit_low : unit_low;
        high = high <= unit_high * 1.0001 ? unit_high
               : high <= 2 * unit_high    ? 2 * unit_high
               : high <= 5 * unit_high    ? 5 * unit_high
                                          : 10 * unit_high;
    } else {
        low = unit_low;
        high = high <= unit_high * 1.0001 ? unit_high : unit_high * base;
    }
    s->low = low / s->factor;
    s->high = high / s->factor;
}

void ls__scale_fit(struct ls_scale *s, const struct ls_draw_axis *axis, struct ls_range range, int n_wanted,
                   double from, double to)
{
    struct ls_range r = range_of(axis, range);
    memset(s, 0, sizeof *s);
    if (n_wanted < 2) n_wanted = 2;
    s->kind = axis->scale;
    s->low = r.low;
    s->high = r.high;
    s->from = from;
    s->to = to;
    choose_unit(s, axis, fmax(fabs(s->low), fabs(s->high)));
    if (!axis->is_exact && !axis->is_given) widen(s, n_wanted);
    if (!(s->high > s->low)) s->high = s->low + (s->low != 0 ? fabs(s->low) * 1e-3 : 1);
    if (axis->ticks) {
        for (int i = 0; i < axis->n_ticks; i++)
            if (axis->ticks[i] >= s->low && axis->ticks[i] <= s->high) add_tick(s, axis->ticks[i]);
        for (int i = 0; i < s->n_ticks; i++) snprintf(s->labels[i], LS_TICK_BYTES, "%.10g", s->ticks[i] * s->factor);
    } else if (s->kind == LS_DRAW_LINEAR)
        linear_ticks(s, step_of(s, n_wanted));
    else
        log_ticks(s, n_wanted);
}

double ls__scale_at(const struct ls_scale *s, double value)
{
    if (!isfinite(value)) return NAN;
    double part;
    if (s->kind == LS_DRAW_LINEAR) {
        if (fabs(value) > ANY_TICK) return NAN;
        part = (value - s->low) / (s->high - s->low);
    } else {
        if (value < SMALLEST * 1e-3) return NAN;
        part = log(value / s->low) / log(s->high / s->low);
    }
    part = part < -4 ? -4 : part > 5 ? 5 : part;
    return s->from + (s->to - s->from) * part;
}
