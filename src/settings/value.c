/* value.c: values of settings from text, to text, from and to JSON; see setting.h. */
#include "base/json.h"
#include "base/parse.h"
#include "settings/setting.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- names --- */

static bool is_same_name(const char *a, const char *b, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (b[i] == '\0' || (a[i] == '_' ? '-' : a[i]) != b[i]) return false;
    }
    return b[len] == '\0';
}

bool ls__setting_is_named(const struct ls_setting *s, const char *name, size_t len)
{
    if (is_same_name(name, s->name, len)) return true;
    for (int i = 0; i < 3 && s->aliases[i]; i++) {
        if (is_same_name(name, s->aliases[i], len)) return true;
    }
    return false;
}

/* --- which values are good --- */

static enum ls_status bad_value(const struct ls_setting *s, const char *value, const char *expected)
{
    return ls_fail(LS_USAGE, "--%s %s: expected %s", s->name, *value ? value : "''", expected);
}

static enum ls_status bad_int(const struct ls_setting *s, const char *value)
{
    char expected[96];
    snprintf(expected, sizeof expected, "a whole number from %" PRId64 " to %" PRId64, (int64_t)s->min,
             (int64_t)s->max);
    return bad_value(s, value, expected);
}

static enum ls_status bad_real(const struct ls_setting *s, const char *value)
{
    char expected[96];
    snprintf(expected, sizeof expected, "a number from %.9g to %s%.9g", s->min, s->is_max_open ? "below " : "", s->max);
    return bad_value(s, value, expected);
}

static bool is_real_within(const struct ls_setting *s, double value) /* a NaN is not */
{
    return value >= s->min && (s->is_max_open ? value < s->max : value <= s->max);
}

static enum ls_status check_choice(const struct ls_setting *s, const char *value)
{
    char expected[160] = "one of ";
    size_t len = strlen(value), n = strlen(expected);
    for (const char *c = s->choices; *c;) {
        size_t part = strcspn(c, "|");
        if (len == part && strncmp(c, value, part) == 0) return LS_OK;
        n += (size_t)snprintf(expected + n, sizeof expected - n, "%s%.*s", c == s->choices ? "" : ", ", (int)part, c);
        c += part + (c[part] == '|');
    }
    return bad_value(s, value, expected);
}

static enum ls_status check_text(const struct ls_setting *s, const char *value)
{
    if (s->choices) return check_choice(s, value);
    return s->is_valid && !s->is_valid(value) ? bad_value(s, value, s->expected) : LS_OK;
}

enum ls_status ls__setting_check(const struct ls_setting *s, const void *base)
{
    const void *at = (const char *)base + s->offset;
    char text[64];
    if (!ls__setting_is_there(s, base)) return LS_OK;
    if (s->type == LS_SETTING_TEXT || s->type == LS_SETTING_CHOICE) return check_text(s, *(const char *const *)at);
    ls__setting_print(s, base, text, sizeof text);
    if (s->type == LS_SETTING_INT) {
        int64_t value = *(const int64_t *)at;
        return value >= (int64_t)s->min && value <= (int64_t)s->max ? LS_OK : bad_int(s, text);
    }
    if (s->type == LS_SETTING_REAL && !is_real_within(s, *(const double *)at)) return bad_real(s, text);
    return LS_OK;
}

/* --- from text --- */

static enum ls_status store_flag(const struct ls_setting *s, const char *value, bool *at)
{
    static const char *const words[] = {"off", "on", "false", "true", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(value, words[i]) != 0) continue;
        *at = i % 2;
        return LS_OK;
    }
    return bad_value(s, value, "on or off");
}

enum ls_status ls__setting_store(const struct ls_setting *s, void *base, const char *value)
{
    void *at = (char *)base + s->offset;
    double real;
    switch (s->type) {
    case LS_SETTING_FLAG:
        return store_flag(s, value, at);
    case LS_SETTING_INT:
        return ls__parse_i64(value, (int64_t)s->min, (int64_t)s->max, at) ? LS_OK : bad_int(s, value);
    case LS_SETTING_REAL:
        if (!ls__parse_f64(value, &real) || !is_real_within(s, real)) return bad_real(s, value);
        *(double *)at = real;
        return LS_OK;
    case LS_SETTING_TEXT:
    case LS_SETTING_CHOICE:
        TRY(check_text(s, value));
        *(const char **)at = value;
        return LS_OK;
    }
    return ls_fail(LS_INTERNAL, "setting --%s has no type", s->name);
}

void ls__setting_reset(const struct ls_setting *s, void *base)
{
    void *at = (char *)base + s->offset;
    switch (s->type) {
    case LS_SETTING_FLAG:
        *(bool *)at = false;
        break;
    case LS_SETTING_INT:
        *(int64_t *)at = 0;
        break;
    case LS_SETTING_REAL:
        *(double *)at = s->follows_others ? LS_NOT_GIVEN : 0;
        break;
    case LS_SETTING_TEXT:
    case LS_SETTING_CHOICE:
        *(const char **)at = NULL;
        break;
    }
    /* A default that its own setting refuses is caught by the unit test. */
    if (s->def && !s->follows_others && ls__setting_store(s, base, s->def) != LS_OK) return;
}

/* --- to text --- */

bool ls__setting_is_there(const struct ls_setting *s, const void *base)
{
    const void *at = (const char *)base + s->offset;
    if (s->type == LS_SETTING_TEXT || s->type == LS_SETTING_CHOICE) return *(const char *const *)at;
    return !(s->follows_others && *(const double *)at == LS_NOT_GIVEN);
}

/* The fewest digits that give the same number again. */
static size_t print_real(double value, char *text, size_t size)
{
    char digits[40];
    for (int n = 15; n <= 17; n++) {
        snprintf(digits, sizeof digits, "%.*g", n, value);
        if (strtod(digits, NULL) == value) break;
    }
    return (size_t)snprintf(text, size, "%s", digits);
}

size_t ls__setting_print(const struct ls_setting *s, const void *base, char *text, size_t size)
{
    const void *at = (const char *)base + s->offset;
    if (!ls__setting_is_there(s, base)) return (size_t)snprintf(text, size, "%s", "");
    switch (s->type) {
    case LS_SETTING_FLAG:
        return (size_t)snprintf(text, size, "%s", *(const bool *)at ? "on" : "off");
    case LS_SETTING_INT:
        return (size_t)snprintf(text, size, "%" PRId64, *(const int64_t *)at);
    case LS_SETTING_REAL:
        return print_real(*(const double *)at, text, size);
    case LS_SETTING_TEXT:
    case LS_SETTING_CHOICE:
        break;
    }
    return (size_t)snprintf(text, size, "%s", *(const char *const *)at);
}

/* --- JSON --- */

/* A path may be any bytes; JSON takes UTF-8 only. */
json_t *ls__setting_json(const struct ls_setting *s, const void *base)
{
    const void *at = (const char *)base + s->offset;
    if (!ls__setting_is_there(s, base)) return json_null();
    switch (s->type) {
    case LS_SETTING_FLAG:
        return json_boolean(*(const bool *)at);
    case LS_SETTING_INT:
        return json_integer(*(const int64_t *)at);
    case LS_SETTING_REAL:
        return json_real(*(const double *)at);
    case LS_SETTING_TEXT:
    case LS_SETTING_CHOICE:
        break;
    }
    return ls__json_text(*(const char *const *)at);
}

enum ls_status ls__setting_from_json(const struct ls_setting *s, void *base, const json_t *object)
{
    const json_t *value = json_object_get(object, s->key);
    char text[64] = "";
    bool is_text = s->type == LS_SETTING_TEXT || s->type == LS_SETTING_CHOICE;
    if (!value || json_is_null(value)) return LS_OK;
    if (is_text && json_is_string(value)) return ls__setting_store(s, base, json_string_value(value));
    if (s->type == LS_SETTING_FLAG && json_is_boolean(value))
        snprintf(text, sizeof text, "%s", json_is_true(value) ? "on" : "off");
    else if (s->type == LS_SETTING_INT && json_is_integer(value))
        snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (s->type == LS_SETTING_REAL && json_is_number(value))
        snprintf(text, sizeof text, "%.17g", json_number_value(value));
    if (!*text) return ls_fail(LS_DATA, "'%s' among recorded options is not of its kind", s->key);
    return ls__setting_store(s, base, text);
}
