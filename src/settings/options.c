/* options.c: all settings of a training: by name, as JSON, as texts of the identity. */
#include "base/buf.h"
#include "base/suggest.h"
#include "settings/setting.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

void ls_train_options_default(struct ls_train_options *o)
{
    if (!o) return;
    memset(o, 0, sizeof *o);
    for (int i = 0; i < LS_N_SETTINGS; i++) ls__setting_reset(&ls__settings[i], o);
}

const struct ls_setting *ls__setting_find(const char *name)
{
    for (int i = 0; i < LS_N_SETTINGS; i++) {
        if (ls__setting_is_named(&ls__settings[i], name, strlen(name))) return &ls__settings[i];
    }
    return NULL;
}

static enum ls_status find(const char *name, const struct ls_setting **setting)
{
    const char *best = NULL;
    int best_distance = -1;
    *setting = ls__setting_find(name);
    if (*setting) return LS_OK;
    for (int i = 0; i < LS_N_SETTINGS; i++) {
        const struct ls_setting *s = &ls__settings[i];
        ls__suggest(name, s->name, &best, &best_distance);
        for (int k = 0; k < 3 && s->aliases[k]; k++) ls__suggest(name, s->aliases[k], &best, &best_distance);
    }
    if (best) return ls_fail(LS_USAGE, "unknown option --%s; did you mean --%s?", name, best);
    return ls_fail(LS_USAGE, "unknown option --%s; lockstep train --help lists all", name);
}

enum ls_status ls_options_set(struct ls_train_options *o, const char *name, const char *value)
{
    const struct ls_setting *s;
    if (!o || !name || !value) return ls_fail(LS_USAGE, "ls_options_set without options, a name or a value");
    TRY(find(name, &s));
    return ls__setting_store(s, o, value);
}

enum ls_status ls_options_get(const struct ls_train_options *o, const char *name, char *text, size_t size)
{
    const struct ls_setting *s;
    if (!o || !name || !text) return ls_fail(LS_USAGE, "ls_options_get without options, a name or room for the value");
    TRY(find(name, &s));
    if (ls__setting_print(s, o, text, size) < size) return LS_OK;
    return ls_fail(LS_USAGE, "the value of --%s is longer than the %zu bytes that are there for it", s->name, size);
}

bool ls_options_describe(int i, struct ls_option_info *info)
{
    if (i < 0 || i >= LS_N_SETTINGS || !info) return false;
    const struct ls_setting *s = &ls__settings[i];
    *info = (struct ls_option_info){
        .name = s->name,
        .value = s->type == LS_SETTING_FLAG ? "on|off"
                 : s->choices               ? s->choices
                 : s->arg                   ? s->arg
                                            : "TEXT",
        .default_value = s->def                       ? s->def
                         : s->type == LS_SETTING_FLAG ? "off"
                                                      : "",
        .help = s->help,
        .group = s->group ? s->group : "",
        .decides_result = s->role == LS_ROLE_RUN,
    };
    return true;
}

json_t *ls__options_json(const struct ls_train_options *o, unsigned roles)
{
    json_t *object = json_object();
    for (int i = 0; object && i < LS_N_SETTINGS; i++) {
        const struct ls_setting *s = &ls__settings[i];
        if (!(s->role & roles) || json_object_set_new(object, s->key, ls__setting_json(s, o)) == 0) continue;
        json_decref(object);
        object = NULL;
    }
    return object;
}

static void add_value(struct ls_buf *b, const struct ls_setting *s, const void *base)
{
    const void *at = (const char *)base + s->offset;
    switch (s->type) {
    case LS_SETTING_FLAG:
        ls__buf_addf(b, "%d", *(const bool *)at);
        return;
    case LS_SETTING_INT:
        ls__buf_addf(b, "%" PRId64, *(const int64_t *)at);
        return;
    case LS_SETTING_REAL:
        ls__buf_addf(b, "%.17g", *(const double *)at);
        return;
    case LS_SETTING_TEXT:
    case LS_SETTING_CHOICE:
        break;
    }
    if (ls__setting_is_there(s, base)) ls__buf_adds(b, *(const char *const *)at);
}

void ls__options_add_part(struct ls_buf *b, const struct ls_train_options *o, const char *part)
{
    size_t start = b->len;
    for (int i = 0; i < LS_N_SETTINGS; i++) {
        const struct ls_setting *s = &ls__settings[i];
        if (!s->part || strcmp(s->part, part) != 0) continue;
        if (b->len > start) ls__buf_adds(b, " ");
        if (strcmp(s->name, part) != 0) ls__buf_addf(b, "%s=", s->key);
        add_value(b, s, o);
    }
}
