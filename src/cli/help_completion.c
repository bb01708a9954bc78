/* help_completion.c: completion scripts for shells, from the tables.
 *
 * The script knows the options of each command, the values of choices, the models and the data sets of this build. It
 * runs nothing while the user types.
 */
#include "cli/help.h"

#include "data/catalog.h"
#include "model/model.h"

#include <string.h>

static void add_models(struct ls_buf *b)
{
    for (const struct ls_zoo_entry *m = ls_zoo; m->name; m++) ls__buf_addf(b, "%s ", m->name);
}

static void add_data_sets(struct ls_buf *b)
{
    for (int i = 0; ls__catalog_at(i); i++) ls__buf_addf(b, "%s ", ls__catalog_at(i)->name);
    ls__buf_adds(b, "digits digits-rgb fake: folder:");
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

static void add_bash_values(struct ls_buf *b)
{
    ls__buf_adds(b, "    case $prev in\n");
    for (const struct ls_option *o = ls__options; o->setting; o++) {
        const struct ls_setting *s = o->setting;
        if (!s->choices) continue;
        ls__buf_addf(b, "    --%s", s->name);
        for (int i = 0; i < 3 && s->aliases[i]; i++) ls__buf_addf(b, "|--%s", s->aliases[i]);
        ls__buf_adds(b, ") COMPREPLY=($(compgen -W '");
        add_choices(b, s);
        ls__buf_adds(b, "' -- \"$cur\")); return ;;\n");
    }
    ls__buf_adds(b, "    --device) COMPREPLY=($(compgen -W 'auto cpu ref' -- \"$cur\")); return ;;\n"
                    "    --data-dir|--run) COMPREPLY=($(compgen -d -- \"$cur\")); return ;;\n"
                    "    --resume) COMPREPLY=($(compgen -W 'auto' -f -- \"$cur\")); return ;;\n"
                    "    esac\n");
}

static void add_bash(struct ls_buf *b)
{
    ls__buf_adds(b, "# bash completion for lockstep; made by `lockstep help --completion bash`\n"
                    "_lockstep() {\n"
                    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words='' models data\n"
                    "    models='");
    add_models(b);
    ls__buf_adds(b, "'\n    data='");
    add_data_sets(b);
    ls__buf_adds(b, "'\n    COMPREPLY=()\n    if ((COMP_CWORD == 1)); then\n        words='--help --version");
    for (int i = 0; i < LS_N_CMDS; i++) ls__buf_addf(b, " %s", ls__commands[i].name);
    ls__buf_adds(b, "'\n        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n        return\n    fi\n");
    add_bash_values(b);
    ls__buf_adds(b, "    case ${COMP_WORDS[1]} in\n");
    for (int i = 0; i < LS_N_CMDS; i++) {
        ls__buf_addf(b, "    %s) words='", ls__commands[i].name);
        add_option_words(b, (enum ls_cmd)i);
        ls__buf_adds(b, "' ;;\n");
    }
    ls__buf_adds(b, "    esac\n"
                    "    if [[ $cur != -* ]]; then\n"
                    "        case ${COMP_WORDS[1]} in\n"
                    "        train|bench|plan|models) words=\"$models $data\" ;;\n"
                    "        data) words=\"list fetch info check $data\" ;;\n"
                    "        eval) words=$data ;;\n"
                    "        help) words='");
    for (int i = 0; i < LS_N_CMDS; i++) ls__buf_addf(b, "%s ", ls__commands[i].name);
    ls__buf_adds(b, "' ;;\n"
                    "        *) words='' ;;\n"
                    "        esac\n"
                    "    fi\n"
                    "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
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
