/* lab_say.c: what is said to somebody who writes a lab: messages of `train` in the words of a lab file, and values to
 * try where none are given.
 *
 * Messages are made once, where the cause is known, in the words of the command line: "--nodes 3 --network 1gbit,1ms".
 * In a lab file that is "nodes=3 network=1gbit,1ms". A word behind an option is its value if the option takes it,
 * or if a colon says that it did not.
 */
#include "base/buf.h"
#include "cli/lab_rules.h"
#include "cli/options.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- values --- */

/* Those that labs are mostly about, and those of which the default tells nothing. */
static const char *const usual[][2] = {
    {"model", "lenet5 mlp"},
    {"data", "mnist fashion-mnist"},
    {"batch-size", "64 128 256"},
    {"batch-per-worker", "32 64 128"},
    {"iterations", "100 200 400"},
    {"workers", "1 2 4"},
    {"nodes", "1 2 3"},
    {"procs-per-node", "1 2"},
    {"hosts", "a,b a,b,c"},
    {"threads", "1 2"},
    {"shards", "4 8"},
    {"gpus", "1 2"},
    {"network", "100mbit,1ms 1gbit,0.1ms"},
    {"slow", "1:2 1:4"},
    {"sync", "allreduce ps async"},
    {"device", "cpu cuda"},
    {"compress", "0 16 8"},
    {"checkpoint-every", "none epoch"},
    {"lr", "0.01 0.02 0.05"},
    {"momentum", "0 0.9"},
    {"weight-decay", "0 0.0005"},
    {"label-smoothing", "0 0.1"},
    {"clip-norm", "0 1"},
    {"target", "0.9 0.95"},
    {"validation", "0.1 0.2"},
    {"milestones", "30,60 40,80"},
    {"resize", "32 64"},
    {"resized-crop", "0.5 0.8"},
    {"beta1", "0.9 0.95"},
    {"beta2", "0.99 0.999"},
};

static const char *usual_values(const char *key)
{
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (strcmp(key, usual[i][0]) == 0) return usual[i][1];
    return "";
}

static bool is_usual(const char *key, const char *value)
{
    const size_t len = strlen(value);
    for (const char *p = usual_values(key); *p;) {
        const size_t n = strcspn(p, " ");
        if (n == len && strncmp(p, value, n) == 0) return true;
        p += n + (p[n] != '\0');
    }
    return false;
}

/* --- messages --- */

enum { NAME_BYTES = 64, VALUE_BYTES = 256 };

/* The option that "--name..." begins with, and how long its name is. */
static const struct ls_option *option_at(const char *at, size_t *len)
{
    char name[NAME_BYTES];
    *len = strspn(at + 2, "abcdefghijklmnopqrstuvwxyz0123456789-");
    while (*len > 0 && at[1 + *len] == '-') (*len)--;
    if (*len == 0 || *len >= sizeof name) return NULL;
    snprintf(name, sizeof name, "%.*s", (int)*len, at + 2);
    const struct ls_option *option = ls__option_find(name);
    return option && ls__option_is_of(option, LS_CMD_TRAIN) ? option : NULL;
}

/* Behind which sign an option may stand: not within a word. */
static bool begins(const char *text, const char *at)
{
    return strncmp(at, "--", 2) == 0 && (at == text || strchr(" (`", at[-1]));
}

/* Whether any word would do for it: then a value is known by its digits or commas. */
static bool takes_any(const struct ls_setting *s)
{
    return s->type == LS_SETTING_TEXT && (!s->is_valid || s->is_valid("?"));
}

/* Length of the value behind the name; 0: what follows is a word of the sentence. */
static size_t value_len(const struct ls_setting *s, const char *at)
{
    struct ls_options scratch;
    char value[VALUE_BYTES];
    size_t len = strcspn(at, " ;`)");
    const bool is_refused = len > 1 && at[len - 1] == ':'; /* "--lr fast: expected ..." */
    while (len > 0 && strchr(":,.", at[len - 1])) len--;   /* of the sentence */
    if (s->type == LS_SETTING_FLAG || len == 0 || len >= sizeof value) return 0;
    snprintf(value, sizeof value, "%.*s", (int)len, at);
    bool is_name = true; /* "LIST", of a usage line */
    for (size_t i = 0; i < len; i++) is_name = is_name && (isupper((unsigned char)value[i]) || value[i] == ':');
    if (is_name || is_refused || is_usual(s->name, value)) return len;
    if (takes_any(s) && !strpbrk(value, "0123456789,")) return 0;
    ls__options_default(&scratch);
    return ls__setting_store(s, &scratch, value) == LS_OK ? len : 0;
}

void ls__lab_retell(const char *message, char *out, size_t size)
{
    struct ls_buf b = LS_BUF_INIT;
    for (const char *at = message; *at;) {
        size_t len = 0;
        const struct ls_option *option = begins(message, at) ? option_at(at, &len) : NULL;
        if (!option) {
            ls__buf_add(&b, at++, 1);
            continue;
        }
        ls__buf_add(&b, at + 2, len);
        at += 2 + len;
        const size_t value = *at == ' ' ? value_len(option->setting, at + 1) : 0;
        if (value == 0) continue;
        ls__buf_addf(&b, "=%.*s", (int)value, at + 1);
        at += 1 + value;
    }
    snprintf(out, size, "%s", b.failed || !b.text ? message : b.text);
    ls__buf_release(&b);
}

int ls__lab_line_told(const struct ls_lab_run *run, const char *message)
{
    int line = 0;
    for (const char *at = message; *at; at++) {
        size_t len = 0;
        const struct ls_option *option = begins(message, at) ? option_at(at, &len) : NULL;
        for (int i = 0; option && i < run->n_settings; i++)
            if (strcmp(run->settings[i].key, option->setting->name) == 0 && run->settings[i].line > line)
                line = run->settings[i].line;
    }
    return line ? line : run->line;
}

/* --- values to try --- */

/* A flag's two, all choices, or the default and more of it. */
static void derive(const struct ls_setting *s, struct ls_buf *b)
{
    const double from = s->def ? strtod(s->def, NULL) : 0;
    if (s->type == LS_SETTING_FLAG) {
        ls__buf_adds(b, "on off");
    } else if (s->type == LS_SETTING_CHOICE) {
        for (const char *p = s->choices; *p; p++) ls__buf_add(b, *p == '|' ? " " : p, 1);
    } else if (s->type == LS_SETTING_INT || s->type == LS_SETTING_REAL) {
        const double least = s->type == LS_SETTING_INT ? 1 : 0.1, one = from > 0 ? from : least;
        const bool is_room = 2 * one < s->max;
        ls__buf_addf(b, "%.10g %.10g", is_room ? one : one / 2, is_room ? 2 * one : one);
    } else {
        ls__buf_addf(b, "%s OTHER", s->def ? s->def : "ONE");
    }
}

const char *ls__lab_values(const char *key, char *out, size_t size)
{
    struct ls_buf b = LS_BUF_INIT;
    const struct ls_option *option = ls__option_find(key);
    ls__buf_adds(&b, usual_values(key));
    if (b.len == 0 && option) derive(option->setting, &b);
    snprintf(out, size, "%s", b.failed || b.len == 0 ? "ONE OTHER" : b.text);
    ls__buf_release(&b);
    return out;
}
