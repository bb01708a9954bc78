/* help_completion.c: completion scripts for shells, from the tables.
 *
 * The script knows the options of each command, the values of choices, the models and the data sets of this build. It
 * runs nothing while the user types.
 */
#include "cli/help.h"

#include "data/catalog.h"
#include "lab/lab.h"
#include "model/model.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static void add_labs(struct ls_buf *b)
{
    for (const struct ls_lab_entry *e = ls__labs; e->name; e++)
        ls__buf_addf(b, "%s%s", e == ls__labs ? "" : " ", e->name);
}

static void add_models(struct ls_buf *b)
{
    for (const struct ls_zoo_entry *m = ls_zoo; m->name; m++) ls__buf_addf(b, "%s ", m->name);
}

static void add_data_sets(struct ls_buf *b)
{
    for (int i = 0; ls__catalog_at(i); i++) ls__buf_addf(b, "%s ", ls__catalog_at(i)->name);
    ls__buf_adds(b, "svhn+extra digits digits-rgb fake: folder:");
}

static void add_choices(struct ls_buf *b, const struct ls_setting *s)
{
    for (const char *c = s->choices; *c; c++) ls__buf_add(b, *c == '|' ? " " : c, 1);
}

static void add_option_words(struct ls_buf *b, enum ls_cmd cmd)
{
    for (const struct ls_option *o = ls__options; o->setting; o++) {
        const struct ls_setting *s = o->setting;
        if (!ls__option_is_of(o, cmd)) continue;
        ls__buf_addf(b, " --%s", s->name);
        if (s->letter) ls__buf_addf(b, " -%c", s->letter);
        for (int i = 0; i < 3 && s->aliases[i]; i++) ls__buf_addf(b, " --%s", s->aliases[i]);
        if (s->type == LS_SETTING_FLAG && s->def) ls__buf_addf(b, " --no-%s", s->name);
    }
}

/* What is offered for values that are no fixed choices. Words first, then files or folders. */
static const struct {
    const char *option, *words, *files; /* files: compgen's letter, or "" */
} values[] = {
    {"device", "auto cpu ref cuda", ""},
    {"sync", "allreduce ps async ssp: local:", ""},
    {"network", "1GbE 10GbE 25GbE 100GbE loopback 1gbit,0.1ms", ""},
    {"resume", "auto", "f"},
    {"run", "", "d"},
    {"data-dir", "", "d"},
    {"output", "", "f"},
    {"confusion", "", "f"},
    {"csv", "", "f"},
    {"onnx", "", "f"},
    {"safetensors", "", "f"},
    {"tune", "", "f"},
    {"init", "", "f"},
    {"isa", "native sse41 avx2 avx512", ""},
};

static void add_value_rule(struct ls_buf *b, const struct ls_setting *s)
{
    const char *files = "";
    size_t n = sizeof values / sizeof values[0], at = 0;
    while (at < n && strcmp(values[at].option, s->name) != 0) at++;
    if (!s->choices && at == n) return;
    ls__buf_addf(b, "    --%s", s->name);
    for (int i = 0; i < 3 && s->aliases[i]; i++) ls__buf_addf(b, "|--%s", s->aliases[i]);
    if (s->letter) ls__buf_addf(b, "|-%c", s->letter);
    ls__buf_adds(b, ") COMPREPLY=($(compgen -W '");
    if (s->choices)
        add_choices(b, s);
    else {
        ls__buf_adds(b, values[at].words);
        files = values[at].files;
    }
    ls__buf_adds(b, "' -- \"$cur\")");
    if (*files) ls__buf_addf(b, " $(compgen -%s -- \"$cur\")", files);
    ls__buf_adds(b, "); return ;;\n");
}

/* The options of a command that take a value: what follows them is no argument. */
static void add_valued_words(struct ls_buf *b, enum ls_cmd cmd)
{
    for (const struct ls_option *o = ls__options; o->setting; o++) {
        const struct ls_setting *s = o->setting;
        if (!ls__option_is_of(o, cmd) || s->type == LS_SETTING_FLAG) continue;
        ls__buf_addf(b, " --%s", s->name);
        if (s->letter) ls__buf_addf(b, " -%c", s->letter);
        for (int i = 0; i < 3 && s->aliases[i]; i++) ls__buf_addf(b, " --%s", s->aliases[i]);
    }
}

/* What kind of thing a word of a command's usage stands for: "[DATA]" -> data. NULL: nothing that can be offered. */
static const char *kind_of(const char *word)
{
    static const char *const kinds[][2] = {{"MODEL", "model"}, {"DATA", "data"},   {"SPEC", "data"},  {"NAME", "data"},
                                           {"RUN", "run"},     {"COMMAND", "cmd"}, {"DIR", "folder"}, {"LAB", "lab"},
                                           {"IMAGE", "file"},  {"FILE", "file"}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strstr(word, kinds[i][0])) return kinds[i][1];
    return NULL;
}

/* "MODEL [DATA]" -> model data; "list | fetch NAME" -> do:list,fetch data: one word for each place. */
static void add_kinds(struct ls_buf *b, enum ls_cmd cmd)
{
    char text[256], actions[128] = "", *rest = text;
    const char *last = "";
    struct ls_buf kinds = LS_BUF_INIT;
    snprintf(text, sizeof text, "%s", ls__commands[cmd].args);
    for (char *word; (word = strtok_r(rest, " ", &rest));) {
        const char *kind = kind_of(word);
        if (islower((unsigned char)*word)) {
            size_t at = strlen(actions);
            snprintf(actions + at, sizeof actions - at, "%s%s", at ? "," : "", word);
        } else if (kind && strcmp(kind, last) != 0) {
            ls__buf_addf(&kinds, " %s", kind);
            last = kind;
        }
    }
    if (*actions) ls__buf_addf(b, "do:%s", actions);
    if (kinds.text) ls__buf_adds(b, kinds.text);
    ls__buf_release(&kinds);
}

static void add_commands(struct ls_buf *b)
{
    for (int i = 0; i < LS_N_CMDS; i++) ls__buf_addf(b, " %s", ls__commands[i].name);
}

static void add_bash(struct ls_buf *b)
{
    ls__buf_adds(b, "# bash completion for lockstep; made by `lockstep help --completion bash`\n"
                    "_lockstep() {\n"
                    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words='' valued='' "
                    "kinds=() kind i n=0\n"
                    "    COMPREPLY=()\n"
                    "    if ((COMP_CWORD == 1)); then\n        words='--help --version");
    add_commands(b);
    ls__buf_adds(
        b, "'\n        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n        return\n    fi\n    case $prev in\n");
    for (const struct ls_option *o = ls__options; o->setting; o++) add_value_rule(b, o->setting);
    ls__buf_adds(b, "    esac\n    case ${COMP_WORDS[1]} in\n");
    for (int i = 0; i < LS_N_CMDS; i++) {
        ls__buf_addf(b, "    %s) kinds=(", ls__commands[i].name);
        add_kinds(b, (enum ls_cmd)i);
        ls__buf_adds(b, "); valued='");
        add_valued_words(b, (enum ls_cmd)i);
        ls__buf_adds(b, " '; words='");
        add_option_words(b, (enum ls_cmd)i);
        ls__buf_adds(b, "' ;;\n");
    }
    ls__buf_adds(b, "    esac\n"
                    "    if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")); return; fi\n"
                    "    for ((i = 2; i < COMP_CWORD; i++)); do # the arguments before this one\n"
                    "        case ${COMP_WORDS[i]} in\n"
                    "        -*) [[ $valued == *\" ${COMP_WORDS[i]} \"* ]] && ((i++)) ;;\n"
                    "        *) ((n++)) ;;\n"
                    "        esac\n"
                    "    done\n"
                    "    ((n < ${#kinds[@]})) || n=$((${#kinds[@]} - 1))\n"
                    "    ((n >= 0)) || return\n"
                    "    kind=${kinds[n]}\n"
                    "    case $kind in\n"
                    "    do:*) kind=${kind#do:}; COMPREPLY=($(compgen -W \"${kind//,/ }\" -- \"$cur\")) ;;\n"
                    "    model) COMPREPLY=($(compgen -W '");
    add_models(b);
    ls__buf_adds(b, "' -- \"$cur\") $(compgen -f -X '!*.net' -- \"$cur\")) ;;\n"
                    "    data) COMPREPLY=($(compgen -W '");
    add_data_sets(b);
    ls__buf_adds(b, "' -- \"$cur\")) ;;\n"
                    "    lab) COMPREPLY=($(compgen -W '");
    add_labs(b);
    ls__buf_adds(b, "' -- \"$cur\") $(compgen -f -X '!*.lab' -- \"$cur\")) ;;\n"
                    "    run) COMPREPLY=($(compgen -d -- \"$cur\") $(compgen -d -- \"runs/$cur\")) ;;\n"
                    "    folder) COMPREPLY=($(compgen -d -- \"$cur\")) ;;\n"
                    "    file) COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n"
                    "    cmd) COMPREPLY=($(compgen -W '");
    add_commands(b);
    ls__buf_adds(b, "' -- \"$cur\")) ;;\n"
                    "    esac\n"
                    "}\n"
                    "complete -o bashdefault -o default -F _lockstep lockstep\n");
}

/* Text in single quotes for fish. */
static void add_fish_text(struct ls_buf *b, const char *text)
{
    ls__buf_adds(b, "'");
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\') ls__buf_adds(b, "\\");
        ls__buf_add(b, text, 1);
    }
    ls__buf_adds(b, "'");
}

static void add_fish_option(struct ls_buf *b, const struct ls_option *o)
{
    const struct ls_setting *s = o->setting;
    ls__buf_adds(b, "complete -c lockstep -n '__fish_seen_subcommand_from");
    for (int i = 0; i < LS_N_CMDS; i++) {
        if (ls__option_is_of(o, (enum ls_cmd)i)) ls__buf_addf(b, " %s", ls__commands[i].name);
    }
    ls__buf_addf(b, "' -l %s", s->name);
    for (int i = 0; i < 3 && s->aliases[i]; i++) ls__buf_addf(b, " -l %s", s->aliases[i]);
    if (s->letter) ls__buf_addf(b, " -s %c", s->letter);
    if (s->type != LS_SETTING_FLAG) ls__buf_adds(b, " -r");
    if (s->choices) {
        ls__buf_adds(b, " -f -a '");
        add_choices(b, s);
        ls__buf_adds(b, "'");
    }
    ls__buf_adds(b, " -d ");
    add_fish_text(b, s->help);
    ls__buf_adds(b, "\n");
}

static void add_fish(struct ls_buf *b)
{
    ls__buf_adds(b, "# fish completion for lockstep; made by `lockstep help --completion fish`\n");
    for (int i = 0; i < LS_N_CMDS; i++) {
        ls__buf_addf(b, "complete -c lockstep -n __fish_use_subcommand -f -a %s -d ", ls__commands[i].name);
        add_fish_text(b, ls__commands[i].summary);
        ls__buf_adds(b, "\n");
    }
    ls__buf_adds(b, "complete -c lockstep -n '__fish_seen_subcommand_from train bench plan models' -a '");
    add_models(b);
    ls__buf_adds(b, "'\ncomplete -c lockstep -n '__fish_seen_subcommand_from train eval data' -a '");
    add_data_sets(b);
    ls__buf_adds(b, "'\ncomplete -c lockstep -n '__fish_seen_subcommand_from data' -a 'list fetch info check'\n");
    for (const struct ls_option *o = ls__options; o->setting; o++) add_fish_option(b, o);
}

void ls__help_completion(struct ls_buf *b, const char *shell)
{
    if (strcmp(shell, "fish") == 0)
        add_fish(b);
    else
        add_bash(b);
}
