/* args.c: argv -> struct ls_options, by the tables of options.h.
 *
 * Accepted: --name value, --name=value, -b 64, -b64, -qv, --flag, --no-flag, and "--" before arguments that begin with
 * '-'. Names are written out in full (a prefix that is unique today is not tomorrow); '_' counts as '-'. The last of
 * several equal options wins. Messages say what was expected and, for a misspelt name, what was probably meant.
 */
#include "cli/options.h"

#include "backend/backend.h"
#include "base/parse.h"
#include "settings/sync_names.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- names --- */

static bool is_same_name(const char *a, const char *b, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (b[i] == '\0' || (a[i] == '_' ? '-' : a[i]) != b[i]) return false;
    }
    return b[len] == '\0';
}

static const struct ls_option *find_long(const char *name, size_t len)
{
    for (const struct ls_option *o = ls__options; o->name; o++) {
        if (is_same_name(name, o->name, len)) return o;
        for (int i = 0; i < 3 && o->aliases[i]; i++) {
            if (is_same_name(name, o->aliases[i], len)) return o;
        }
    }
    return NULL;
}

const struct ls_option *ls__option_find(const char *name)
{
    return find_long(name, strlen(name));
}

bool ls__option_is_of(const struct ls_option *option, enum ls_cmd cmd)
{
    return option->commands & (1u << cmd);
}

bool ls__option_is_given(const struct ls_options *o, const char *name)
{
    const struct ls_option *option = ls__option_find(name);
    size_t i = (size_t)(option - ls__options);
    return option && (o->given[i / 64] >> (i % 64) & 1);
}

enum ls_cmd ls__command_find(const char *name)
{
    int i = 0;
    while (i < LS_N_CMDS && strcmp(ls__commands[i].name, name) != 0) i++;
    return (enum ls_cmd)i;
}

/* --- suggestions --- */

/* Edits (insert, delete, replace, swap of neighbours) from a to b; both are cut at 39 bytes. */
static int distance(const char *a, const char *b)
{
    enum { MAX = 40 };
    int d[MAX][MAX], na = (int)strnlen(a, MAX - 1), nb = (int)strnlen(b, MAX - 1);
    for (int i = 0; i <= na; i++) d[i][0] = i;
    for (int j = 0; j <= nb; j++) d[0][j] = j;
    for (int i = 1; i <= na; i++) {
        for (int j = 1; j <= nb; j++) {
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best) best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best) best = d[i][j - 1] + 1;
            bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (is_swap && d[i - 2][j - 2] + 1 < best) best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[na][nb];
}

void ls__suggest(const char *word, const char *candidate, const char **best, int *best_distance)
{
    size_t len = strlen(word);
    int limit = len < 4 ? 1 : len < 8 ? 2 : 3;
    int d = distance(word, candidate);
    /* "--batch" for "--batch-size": the beginning of a name is near, whatever is left. */
    if (len >= 3 && strncmp(word, candidate, len) == 0 && d > limit) d = limit;
    if (d > limit || (*best_distance >= 0 && d >= *best_distance)) return;
    *best = candidate;
    *best_distance = d;
}

static enum ls_status unknown_option(enum ls_cmd cmd, const char *arg)
{
    const char *best = NULL, *command = ls__commands[cmd].name;
    char word[64];
    int best_distance = -1;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
    for (const struct ls_option *o = ls__options; o->name; o++) {
        if (!ls__option_is_of(o, cmd)) continue;
        ls__suggest(word, o->name, &best, &best_distance);
        for (int i = 0; i < 3 && o->aliases[i]; i++) ls__suggest(word, o->aliases[i], &best, &best_distance);
    }
    if (best)
        return ls_fail(LS_USAGE, "unknown option --%s; did you mean --%s? (lockstep %s --help lists all)", word, best,
                       command);
    return ls_fail(LS_USAGE, "unknown option --%s; lockstep %s --help lists all", word, command);
}

static enum ls_status not_of_command(const struct ls_option *option, enum ls_cmd cmd)
{
    char takers[128] = "";
    size_t at = 0;
    for (int i = 0; i < LS_N_CMDS && at < sizeof takers; i++) {
        if (!ls__option_is_of(option, (enum ls_cmd)i)) continue;
        at += (size_t)snprintf(takers + at, sizeof takers - at, "%s%s", at ? ", " : "", ls__commands[i].name);
    }
    return ls_fail(LS_USAGE, "%s takes no --%s (it belongs to: %s); lockstep %s --help lists its options",
                   ls__commands[cmd].name, option->name, takers, ls__commands[cmd].name);
}

/* --- values --- */

static enum ls_status bad_value(const struct ls_option *option, const char *value, const char *expected)
{
    return ls_fail(LS_USAGE, "--%s %s: expected %s", option->name, *value ? value : "''", expected);
}

static enum ls_status store_int(const struct ls_option *option, const char *value, int64_t *at)
{
    char expected[96];
    if (ls__parse_i64(value, (int64_t)option->min, (int64_t)option->max, at)) return LS_OK;
    snprintf(expected, sizeof expected, "a whole number from %" PRId64 " to %" PRId64, (int64_t)option->min,
             (int64_t)option->max);
    return bad_value(option, value, expected);
}

static enum ls_status store_real(const struct ls_option *option, const char *value, double *at)
{
    char expected[96];
    double v;
    bool is_number = ls__parse_f64(value, &v);
    if (is_number && v >= option->min && (option->is_max_open ? v < option->max : v <= option->max)) {
        *at = v;
        return LS_OK;
    }
    snprintf(expected, sizeof expected, "a number from %.9g to %s%.9g", option->min,
             option->is_max_open ? "below " : "", option->max);
    return bad_value(option, value, expected);
}

static enum ls_status store_choice(const struct ls_option *option, const char *value, const char **at)
{
    char expected[160] = "one of ";
    size_t len = strlen(value), n = strlen(expected);
    for (const char *c = option->choices; *c;) {
        size_t part = strcspn(c, "|");
        if (len == part && strncmp(c, value, part) == 0) {
            *at = value;
            return LS_OK;
        }
        bool is_first = c == option->choices;
        n += (size_t)snprintf(expected + n, sizeof expected - n, "%s%.*s", is_first ? "" : ", ", (int)part, c);
        c += part + (c[part] == '|');
    }
    return bad_value(option, value, expected);
}

static enum ls_status store(struct ls_options *o, const struct ls_option *option, const char *value)
{
    void *at = (char *)o + option->offset;
    switch (option->type) {
    case LS_OPT_FLAG:
        *(bool *)at = strcmp(value, "on") == 0;
        return LS_OK;
    case LS_OPT_INT:
        return store_int(option, value, at);
    case LS_OPT_REAL:
        return store_real(option, value, at);
    case LS_OPT_CHOICE:
        return store_choice(option, value, at);
    case LS_OPT_TEXT:
        if (option->is_valid && !option->is_valid(value)) return bad_value(option, value, option->expected);
        *(const char **)at = value;
        return LS_OK;
    }
    return ls_fail(LS_INTERNAL, "option --%s has no type", option->name);
}

void ls__options_default(struct ls_options *o)
{
    memset(o, 0, sizeof *o);
    for (const struct ls_option *option = ls__options; option->name; option++) {
        /* A default the table itself refuses is caught by the unit test. */
        if (option->def && store(o, option, option->def) != LS_OK) continue;
    }
}

/* --- argv --- */

struct cursor {
    enum ls_cmd cmd;
    int argc, at; /* argv[at] is being read */
    char *const *argv;
};

static enum ls_status set(struct ls_options *o, const struct ls_option *option, const char *value)
{
    size_t i = (size_t)(option - ls__options);
    TRY(store(o, option, value));
    o->given[i / 64] |= (uint64_t)1 << (i % 64);
    return LS_OK;
}

/* The value is the next argument. One that looks like an option is a forgotten value, unless it is a number. */
static enum ls_status take_value(struct cursor *c, const struct ls_option *option, const char **value)
{
    const char *next = c->at + 1 < c->argc ? c->argv[c->at + 1] : NULL;
    bool is_option = next && next[0] == '-' && next[1] != '\0' && !isdigit((unsigned char)next[1]) && next[1] != '.';
    if (!next || (is_option && !option->takes_dash))
        return ls_fail(LS_USAGE, "--%s needs a value: --%s %s", option->name, option->name, option->arg);
    *value = next;
    c->at++;
    return LS_OK;
}

static enum ls_status parse_long(struct ls_options *o, struct cursor *c)
{
    const char *arg = c->argv[c->at], *name = arg + 2, *value = NULL;
    size_t len = strcspn(name, "=");
    const struct ls_option *option = find_long(name, len);
    bool is_negated = false;
    if (!option && len > 3 && strncmp(name, "no-", 3) == 0) {
        option = find_long(name + 3, len - 3);
        is_negated = option && option->type == LS_OPT_FLAG && strncmp(option->name, "no-", 3) != 0;
        if (!is_negated) option = NULL;
    }
    if (!option) return unknown_option(c->cmd, arg);
    if (!ls__option_is_of(option, c->cmd)) return not_of_command(option, c->cmd);
    if (name[len] == '=') value = name + len + 1;
    if (option->type == LS_OPT_FLAG) {
        if (value) return ls_fail(LS_USAGE, "--%s takes no value, but got '%s'", option->name, value);
        return set(o, option, is_negated ? "off" : "on");
    }
    if (!value) TRY(take_value(c, option, &value));
    return set(o, option, value);
}

static const struct ls_option *find_letter(char letter, enum ls_cmd cmd)
{
    for (const struct ls_option *o = ls__options; o->name; o++) {
        if (o->letter == letter && ls__option_is_of(o, cmd)) return o;
    }
    return NULL;
}

/* "-b64", "-b 64", "-qv", "-qb64" */
static enum ls_status parse_letters(struct ls_options *o, struct cursor *c)
{
    const char *arg = c->argv[c->at];
    for (const char *p = arg + 1; *p; p++) {
        const struct ls_option *option = find_letter(*p, c->cmd);
        if (!option)
            return ls_fail(LS_USAGE, "unknown option -%c in '%s'; lockstep %s --help lists all", *p, arg,
                           ls__commands[c->cmd].name);
        if (option->type == LS_OPT_FLAG) {
            TRY(set(o, option, "on"));
            continue;
        }
        const char *value = p[1] == '=' ? p + 2 : p + 1;
        if (p[1] == '\0') TRY(take_value(c, option, &value));
        return set(o, option, value);
    }
    return LS_OK;
}

static enum ls_status add_argument(struct ls_options *o, enum ls_cmd cmd, const char *arg)
{
    const struct ls_command *command = &ls__commands[cmd];
    if (o->n_args == command->max_args)
        return ls_fail(LS_USAGE, "unexpected argument '%s'; usage: lockstep %s %s%s[options]", arg, command->name,
                       command->args, *command->args ? " " : "");
    o->args[o->n_args++] = arg;
    return LS_OK;
}

enum ls_status ls__options_parse(struct ls_options *o, enum ls_cmd cmd, int argc, char *const *argv)
{
    struct cursor c = {.cmd = cmd, .argc = argc, .argv = argv};
    bool only_arguments = false;
    ls__options_default(o);
    for (; c.at < argc; c.at++) {
        const char *arg = argv[c.at];
        if (only_arguments || arg[0] != '-' || arg[1] == '\0')
            TRY(add_argument(o, cmd, arg));
        else if (strcmp(arg, "--") == 0)
            only_arguments = true;
        else if (arg[1] == '-')
            TRY(parse_long(o, &c));
        else
            TRY(parse_letters(o, &c));
    }
    return LS_OK;
}

/* --- what follows from several options --- */

static enum ls_status resolve_device(struct ls_options *o)
{
    char have[96] = "";
    size_t at = 0;
    if (strcmp(o->train.device, "auto") == 0) {
        o->train.device = ls_backends[0] ? ls_backends[0]->name : "ref";
        return LS_OK;
    }
    if (ls_backend_exists(o->train.device)) return LS_OK;
    for (int i = 0; ls_backends[i] && at < sizeof have; i++)
        at += (size_t)snprintf(have + at, sizeof have - at, "%s%s", i ? ", " : "", ls_backends[i]->name);
    return ls_fail(LS_USAGE, "--device %s: this build has %s", o->train.device, have);
}

static enum ls_status resolve_workers(const struct ls_options *o)
{
    TRY(ls__sync_check(o->train.sync, o->train.compress));
    if (o->hosts && o->train.workers > 0)
        return ls_fail(LS_USAGE, "--workers is for this machine, --hosts with --procs-per-node for several: give one");
    if (!o->hosts && o->procs_per_node > 1)
        return ls_fail(LS_USAGE, "--procs-per-node needs --hosts; on this machine alone it is --workers");
    if (o->train.compress != 0 && o->train.compress != 8 && o->train.compress != 16)
        return ls_fail(LS_USAGE, "--compress %lld: expected 8, 16 or 0", (long long)o->train.compress);
    if (o->train.compress && strcmp(o->train.sum, "fixed") != 0)
        return ls_fail(LS_USAGE, "--compress needs --sum fixed");
    return LS_OK;
}

static enum ls_status resolve_train(struct ls_options *o)
{
    struct ls_train_options *t = &o->train;
    t->model = o->args[0];
    t->data = o->args[1];
    if (strcmp(t->precision, "f32") != 0)
        return ls_fail(LS_USAGE, "--precision %s is not in this build; it has f32", t->precision);
    TRY(resolve_workers(o));
    if (strcmp(t->optimizer, "adamw") == 0) {
        if (!ls__option_is_given(o, "lr")) t->lr = 0.001;
        if (!ls__option_is_given(o, "weight-decay")) t->weight_decay = 0.01;
    }
    if (strcmp(t->schedule, "multistep") == 0 && !t->milestones)
        return ls_fail(LS_USAGE,
                       "--schedule multistep needs --milestones, the epochs at which the rate changes: 30,60,80");
    if (t->nesterov && t->momentum == 0) return ls_fail(LS_USAGE, "--nesterov needs a --momentum above 0");
    if (t->shards > t->batch_size)
        return ls_fail(LS_USAGE, "--shards %" PRId64 ": more than the %" PRId64 " samples of a batch", t->shards,
                       t->batch_size);
    return LS_OK;
}

static enum ls_status resolve_predict(const struct ls_options *o)
{
    if ((o->hosts || o->probe) && (o->network || o->latency || o->bandwidth))
        return ls_fail(LS_USAGE, "%s measures the network: give it or the network, not both",
                       o->hosts ? "--hosts" : "--probe");
    if (o->hosts && !strchr(o->hosts, ','))
        return ls_fail(LS_USAGE, "--hosts %s: a network is between two machines: expected a,b", o->hosts);
    return LS_OK;
}

enum ls_status ls__options_resolve(struct ls_options *o, enum ls_cmd cmd)
{
    const struct ls_command *command = &ls__commands[cmd];
    if (o->n_args < command->min_args)
        return ls_fail(LS_USAGE, "%s; usage: lockstep %s %s [options]; lockstep %s --help explains",
                       o->n_args ? "an argument is missing" : "arguments are missing", command->name, command->args,
                       command->name);
    TRY(resolve_device(o));
    if (cmd == LS_CMD_PREDICT) TRY(resolve_predict(o));
    return cmd == LS_CMD_TRAIN ? resolve_train(o) : LS_OK;
}
