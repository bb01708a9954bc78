/* args.c: argv -> struct ls_options, by the tables of options.h.
 *
 * Accepted: --name value, --name=value, -b 64, -b64, -qv, --flag, --no-flag, and "--" before arguments that begin with
 * '-'. Names are written out in full (a prefix that is unique today is not tomorrow); '_' counts as '-'. The last of
 * several equal options wins. Messages say what was expected and, for a misspelt name, what was probably meant.
 */
#include "cli/options.h"
#include "cli/slow.h"
#include "settings/sync_names.h"

#include "base/mem.h"
#include "base/suggest.h"
#include "comm/comm.h"
#include "nodes/nodes.h"

#include <ctype.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- names --- */

static const struct ls_option *find_long(const char *name, size_t len)
{
    for (const struct ls_option *o = ls__options; o->setting; o++) {
        if (ls__setting_is_named(o->setting, name, len)) return o;
    }
    return NULL;
}

const struct ls_option *ls__option_find(const char *name)
{
    return find_long(name, strlen(name));
}

bool ls__option_is_of(const struct ls_option *option, enum ls_cmd cmd)
{
    if (cmd == LS_CMD_SWEEP && option->commands & (1u << LS_CMD_TRAIN)) return true; /* what it trains with */
    return option->commands & (1u << cmd);
}

bool ls__option_is_given(const struct ls_options *o, const char *name)
{
    const struct ls_option *option = ls__option_find(name);
    size_t i = (size_t)(option - ls__options);
    return option && (o->given[i / 64] >> (i % 64) & 1);
}

void ls__option_mark_given(struct ls_options *o, const struct ls_option *option)
{
    size_t i = (size_t)(option - ls__options);
    o->given[i / 64] |= (uint64_t)1 << (i % 64);
}

enum ls_cmd ls__command_find(const char *name)
{
    int i = 0;
    while (i < LS_N_CMDS && strcmp(ls__commands[i].name, name) != 0) i++;
    return (enum ls_cmd)i;
}

/* --- names that are none --- */

static enum ls_status unknown_option(enum ls_cmd cmd, const char *arg)
{
    const char *best = NULL, *command = ls__commands[cmd].name;
    char word[64];
    int best_distance = -1;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
    for (const struct ls_option *o = ls__options; o->setting; o++) {
        const struct ls_setting *s = o->setting;
        if (!ls__option_is_of(o, cmd)) continue;
        ls__suggest(word, s->name, &best, &best_distance);
        for (int i = 0; i < 3 && s->aliases[i]; i++) ls__suggest(word, s->aliases[i], &best, &best_distance);
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
                   ls__commands[cmd].name, option->setting->name, takers, ls__commands[cmd].name);
}

void ls__options_default(struct ls_options *o)
{
    memset(o, 0, sizeof *o);
    ls_train_options_default(&o->train);
    for (const struct ls_option *option = ls__options; option->setting; option++) ls__setting_reset(option->setting, o);
}

/* --- argv --- */

struct cursor {
    enum ls_cmd cmd;
    int argc, at; /* argv[at] is being read */
    char *const *argv;
};

static enum ls_status set(struct ls_options *o, const struct ls_option *option, const char *value)
{
    TRY(ls__setting_store(option->setting, o, value));
    ls__option_mark_given(o, option);
    if (option->setting->offset != offsetof(struct ls_options, vary)) return LS_OK;
    if (o->n_varies == LS_MAX_VARIES) return ls_fail(LS_USAGE, "--vary more than %d times", LS_MAX_VARIES);
    o->varies[o->n_varies++] = value;
    return LS_OK;
}

/* The value is the next argument. One that looks like an option is a forgotten value, unless it is a number. */
static enum ls_status take_value(struct cursor *c, const struct ls_option *option, const char **value)
{
    const char *next = c->at + 1 < c->argc ? c->argv[c->at + 1] : NULL;
    bool is_option = next && next[0] == '-' && next[1] != '\0' && !isdigit((unsigned char)next[1]) && next[1] != '.';
    if (!next || (is_option && !option->setting->takes_dash))
        return ls_fail(LS_USAGE, "--%s needs a value: --%s %s", option->setting->name, option->setting->name,
                       option->setting->arg);
    *value = next;
    c->at++;
    return LS_OK;
}

/* A setting that may stand alone takes the next word only if that is one of its values. */
static enum ls_status take_value_or_none(struct cursor *c, const struct ls_option *option, const char **value)
{
    const char *next = c->at + 1 < c->argc ? c->argv[c->at + 1] : NULL;
    if (!option->setting->alone || (next && option->setting->is_valid(next))) return take_value(c, option, value);
    *value = option->setting->alone;
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
        is_negated =
            option && option->setting->type == LS_SETTING_FLAG && strncmp(option->setting->name, "no-", 3) != 0;
        if (!is_negated) option = NULL;
    }
    if (!option) return unknown_option(c->cmd, arg);
    if (!ls__option_is_of(option, c->cmd)) return not_of_command(option, c->cmd);
    if (name[len] == '=') value = name + len + 1;
    if (option->setting->type == LS_SETTING_FLAG) {
        if (value) return ls_fail(LS_USAGE, "--%s takes no value, but got '%s'", option->setting->name, value);
        return set(o, option, is_negated ? "off" : "on");
    }
    if (!value) TRY(take_value_or_none(c, option, &value));
    return set(o, option, value);
}

static const struct ls_option *find_letter(char letter, enum ls_cmd cmd)
{
    for (const struct ls_option *o = ls__options; o->setting; o++) {
        if (o->setting->letter == letter && ls__option_is_of(o, cmd)) return o;
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
        if (option->setting->type == LS_SETTING_FLAG) {
            TRY(set(o, option, "on"));
            continue;
        }
        const char *value = p[1] == '=' ? p + 2 : p + 1;
        if (p[1] == '\0') TRY(take_value(c, option, &value));
        return set(o, option, value);
    }
    return LS_OK;
}

/* More than o->args has room for; the room doubles. */
static enum ls_status add_to_many(struct ls_options *o, const char *arg)
{
    size_t n = (size_t)o->n_args;
    if (n == LS_MAX_ARGS) {
        TRY(ls__calloc(&o->all_args, 2 * n, sizeof *o->all_args));
        memcpy(o->all_args, o->args, sizeof o->args);
    } else if ((n & (n - 1)) == 0) {
        TRY(ls__grow(&o->all_args, n, 2 * n, sizeof *o->all_args));
    }
    o->all_args[n] = arg;
    return LS_OK;
}

static enum ls_status add_argument(struct ls_options *o, enum ls_cmd cmd, const char *arg)
{
    const struct ls_command *command = &ls__commands[cmd];
    if (o->n_args == command->max_args)
        return ls_fail(LS_USAGE, "unexpected argument '%s'; usage: lockstep %s %s%s[options]", arg, command->name,
                       command->args, *command->args ? " " : "");
    if (o->n_args < LS_MAX_ARGS) o->args[o->n_args] = arg;
    if (o->n_args >= LS_MAX_ARGS) TRY(add_to_many(o, arg));
    o->n_args++;
    return LS_OK;
}

void ls__options_release(struct ls_options *o)
{
    free(o->all_args);
    o->all_args = NULL;
    json_decref(o->recorded);
    json_decref(o->recorded_launch);
    o->recorded = o->recorded_launch = NULL;
}

const char *const *ls__options_args(const struct ls_options *o, int i, int *n)
{
    *n = o->n_args > i ? o->n_args - i : 0;
    return (o->all_args ? o->all_args : o->args) + (*n > 0 ? i : 0);
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
        else if (strcmp(arg, "--") == 0 && ls__commands[cmd].takes_rest) {
            o->rest = argv + c.at + 1;
            o->n_rest = argc - c.at - 1;
            return LS_OK;
        } else if (strcmp(arg, "--") == 0)
            only_arguments = true;
        else if (arg[1] == '-')
            TRY(parse_long(o, &c));
        else
            TRY(parse_letters(o, &c));
    }
    return LS_OK;
}

/* --- what follows from several options --- */

/* Workers are those of this machine, in all: shared out among its nodes. */
static enum ls_status resolve_nodes(struct ls_options *o)
{
    long long nodes = (long long)o->nodes, each = (long long)o->procs_per_node, workers = (long long)o->train.workers;
    if (o->network && nodes == 0)
        return ls_fail(LS_USAGE, "--network joins the machines of --nodes: say how many, as --nodes 3 --network %s",
                       o->network);
    if (nodes == 0) return LS_OK;
    if (o->hosts) return ls_fail(LS_USAGE, "--nodes makes machines on this one, --hosts names real ones: give one");
    if (nodes > LS_NODES_MAX)
        return ls_fail(LS_USAGE, "--nodes %lld: at most %d are made on one machine", nodes, LS_NODES_MAX);
    if (workers == 0) o->train.workers = nodes * each;
    if (workers % nodes != 0)
        return ls_fail(LS_USAGE,
                       "--workers %lld cannot be shared out among --nodes %lld: expected a multiple of it (workers are "
                       "counted over all nodes), or --procs-per-node",
                       workers, nodes);
    if (workers > 0 && ls__option_is_given(o, "procs-per-node") && workers != nodes * each)
        return ls_fail(LS_USAGE, "--workers %lld is not --nodes %lld times --procs-per-node %lld: leave one out",
                       workers, nodes, each);
    o->procs_per_node = o->train.workers / nodes;
    return LS_OK;
}

int64_t ls__count_hosts(const char *hosts)
{
    int64_t n = hosts ? 1 : 0;
    for (; hosts && *hosts; hosts++) n += *hosts == ',';
    return n;
}

/* What the processes of the job are told is the batch in all: how many of them there are is known here. */
static enum ls_status resolve_batch(struct ls_options *o)
{
    int64_t workers = o->train.workers;
    const struct ls_option *in_all = ls__option_find("batch-size"), *each = ls__option_find("batch-per-worker");
    if (o->batch_per_worker == 0) return LS_OK;
    if (ls__option_is_given(o, "batch-size"))
        return ls_fail(LS_USAGE,
                       "--batch-size is the batch of all workers together, --batch-per-worker that of each: give one");
    if (o->hosts) workers = o->procs_per_node * ls__count_hosts(o->hosts);
    o->train.batch_size = o->batch_per_worker * (workers > 0 ? workers : 1);
    o->batch_per_worker = 0;
    ls__option_mark_given(o, in_all);
    o->given[(each - ls__options) / 64] &= ~((uint64_t)1 << ((each - ls__options) % 64));
    return LS_OK;
}

/* The node that is held back has to be one of this job; of processes that others started it is not known here. */
static enum ls_status check_slow(const struct ls_options *o)
{
    const int64_t n = o->hosts               ? ls__count_hosts(o->hosts)
                      : o->nodes > 0         ? o->nodes
                      : o->train.workers > 0 ? o->train.workers
                                             : 1;
    int64_t node;
    double factor;
    if (!o->slow || ls_comm_is_launched() || ls_comm_is_node() || o->served_at[0]) return LS_OK;
    if (!ls__slow_parse(o->slow, &node, &factor) || node <= n) return LS_OK;
    if (n == 1)
        return ls_fail(LS_USAGE,
                       "--slow %s holds back node %lld, but there is one alone: give --nodes %lld, too, or 1:%g",
                       o->slow, (long long)node, (long long)node, factor);
    return ls_fail(LS_USAGE, "--slow %s holds back node %lld, but there are %lld: give 1:%g to %lld:%g", o->slow,
                   (long long)node, (long long)n, factor, (long long)n, factor);
}

/* A process for every card. The launcher has told its ranks both numbers. */
static enum ls_status resolve_gpus(struct ls_options *o)
{
    const int64_t n = o->train.gpus;
    if (n == 0 || ls_comm_is_launched()) return LS_OK;
    int64_t *const processes = o->hosts ? &o->procs_per_node : &o->train.workers;
    if (ls__option_is_given(o, o->hosts ? "procs-per-node" : "workers") && *processes != n)
        return ls_fail(LS_USAGE,
                       "--gpus %lld starts a process for each of %lld cards, but %s is %lld: give one of them",
                       (long long)n, (long long)n, o->hosts ? "--procs-per-node" : "--workers", (long long)*processes);
    *processes = n;
    return LS_OK;
}

/* A parameter server starts its workers itself. */
static enum ls_status check_served(const struct ls_options *o)
{
    if (!ls__sync_is_served(o->train.sync) || !o->mpi_args) return LS_OK;
    return ls_fail(LS_USAGE, "--mpi-args does not go with --sync %s: no mpirun starts its workers", o->train.sync);
}

static enum ls_status resolve_train(struct ls_options *o)
{
    o->train.model = o->args[0];
    o->train.data = o->args[1];
    TRY(resolve_gpus(o));
    if (o->hosts && o->train.workers > 0)
        return ls_fail(LS_USAGE, "--workers is for this machine, --hosts with --procs-per-node for several: give one");
    TRY(resolve_nodes(o));
    if (!o->hosts && o->nodes == 0 && o->procs_per_node > 1)
        return ls_fail(LS_USAGE, "--procs-per-node needs --hosts or --nodes; on this machine alone it is --workers");
    TRY(check_slow(o));
    TRY(resolve_batch(o));
    TRY(check_served(o));
    return ls_options_check(&o->train);
}

static enum ls_status resolve_server(struct ls_options *o)
{
    struct ls_sync_choice sync;
    if (o->n_args < 2)
        return ls_fail(LS_USAGE, "server: expected MODEL DATA, --resume RUN, --chief ADDRESS or --keygen DIR; lockstep "
                                 "server --help explains");
    if (!ls__option_is_given(o, "sync") && !ls__sync_is_served(o->train.sync)) o->train.sync = "ps";
    if (ls__sync_parse(o->train.sync, &sync) && !sync.name->is_served)
        return ls_fail(LS_USAGE, "server: --sync %s has no server: expected ps, async or ssp:K", o->train.sync);
    return resolve_train(o);
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

enum ls_status ls__options_only(const struct ls_options *o, const char *const *names, const char *who,
                                const char *where)
{
    for (const struct ls_option *option = ls__options; option->setting; option++) {
        const char *name = option->setting->name;
        int i = 0;
        while (names[i] && strcmp(names[i], name) != 0) i++;
        if (!names[i] && ls__option_is_given(o, name))
            return ls_fail(LS_USAGE, "%s %s says how it is trained: leave --%s out", who, where, name);
    }
    return LS_OK;
}

static enum ls_status resolve_export(const struct ls_options *o)
{
    if (!o->onnx && !o->safetensors)
        return ls_fail(LS_USAGE, "export writes nothing without --onnx FILE or --safetensors FILE");
    if (o->onnx && o->safetensors && strcmp(o->onnx, o->safetensors) == 0)
        return ls_fail(LS_USAGE, "--onnx and --safetensors name the same file: %s", o->onnx);
    if (!o->onnx && (o->fold || ls__option_is_given(o, "pixels")))
        return ls_fail(LS_USAGE, "%s is for --onnx; safetensors holds the tensors as they are",
                       o->fold ? "--fold" : "--pixels");
    return LS_OK;
}

enum ls_status ls__options_resolve(struct ls_options *o, enum ls_cmd cmd)
{
    const struct ls_command *command = &ls__commands[cmd];
    if (o->n_args < command->min_args)
        return ls_fail(LS_USAGE, "%s; usage: lockstep %s %s [options]; lockstep %s --help explains",
                       o->n_args ? "an argument is missing" : "arguments are missing", command->name, command->args,
                       command->name);
    TRY(ls__options_check_device(&o->train));
    if (cmd == LS_CMD_PREDICT) TRY(resolve_predict(o));
    if (cmd == LS_CMD_EXPORT) TRY(resolve_export(o));
    if (cmd == LS_CMD_SERVER && !o->keygen && !o->chief) return resolve_server(o);
    return cmd == LS_CMD_TRAIN ? resolve_train(o) : LS_OK;
}
