/* help_man.c: lockstep(1) in roff, from the tables; `make install` puts it into place. */
#include "cli/help.h"

#include <string.h>

/* Text that cannot be taken for roff: '\' and '-' escaped, '.' and ''' never first on a line. */
static void add_escaped(struct ls_buf *b, const char *text)
{
    bool is_line_start = b->len == 0 || b->text[b->len - 1] == '\n';
    for (; *text; text++) {
        if (is_line_start && (*text == '.' || *text == '\'')) ls__buf_adds(b, "\\&");
        is_line_start = false;
        switch (*text) {
        case '\\':
            ls__buf_adds(b, "\\e");
            break;
        case '-':
            ls__buf_adds(b, "\\-");
            break;
        case '\n':
            ls__buf_adds(b, "\n.PP\n");
            is_line_start = true;
            break;
        default:
            ls__buf_add(b, text, 1);
        }
    }
}

static void add_man_option(struct ls_buf *b, const struct ls_option *option)
{
    const struct ls_setting *s = option->setting;
    char usage[64];
    ls__setting_usage(s, usage, sizeof usage);
    ls__buf_adds(b, ".TP\n");
    if (s->letter) ls__buf_addf(b, "\\fB\\-%c\\fR, ", s->letter);
    ls__buf_adds(b, "\\fB");
    add_escaped(b, usage);
    ls__buf_adds(b, "\\fR");
    for (int i = 0; i < 3 && s->aliases[i]; i++) {
        ls__buf_adds(b, ", \\fB\\-\\-");
        add_escaped(b, s->aliases[i]);
        ls__buf_adds(b, "\\fR");
    }
    ls__buf_adds(b, "\n");
    add_escaped(b, s->help);
    if (s->choices) {
        ls__buf_adds(b, " One of ");
        add_escaped(b, s->choices);
        ls__buf_adds(b, ".");
    }
    if (s->def) {
        ls__buf_adds(b, " Default: ");
        add_escaped(b, s->def);
        ls__buf_adds(b, ".");
    }
    const char *comma = " (";
    for (int i = 0; i < LS_N_CMDS && option->commands != (1u << LS_N_CMDS) - 1; i++) {
        if (!ls__option_is_of(option, (enum ls_cmd)i)) continue;
        ls__buf_addf(b, "%s%s", comma, ls__commands[i].name);
        comma = ", ";
    }
    ls__buf_adds(b, *comma == ',' ? ")\n" : "\n");
}

static void add_man_command(struct ls_buf *b, const struct ls_command *c)
{
    ls__buf_addf(b, ".SS lockstep %s ", c->name);
    add_escaped(b, c->args);
    ls__buf_adds(b, "\n");
    add_escaped(b, c->text);
    ls__buf_adds(b, "\n");
    for (const struct ls_example *e = c->examples; e->line; e++) {
        ls__buf_adds(b, ".TP\n\\fB");
        add_escaped(b, e->line);
        ls__buf_adds(b, "\\fR\n");
        add_escaped(b, e->what);
        ls__buf_adds(b, "\n");
    }
}

static void add_man_rest(struct ls_buf *b)
{
    ls__buf_adds(b, ".SH EXIT STATUS\n");
    for (const struct ls_exit_code *e = ls__exit_codes; e->code >= 0; e++) {
        ls__buf_addf(b, ".TP\n%d\n", e->code);
        add_escaped(b, e->text);
        ls__buf_adds(b, "\n");
    }
    ls__buf_adds(b, ".SH ENVIRONMENT\n"
                    ".TP\n\\fBLOCKSTEP_DATA\\fR\nFolder searched for data sets after \\fB\\-\\-data\\-dir\\fR.\n"
                    ".TP\n\\fBXDG_CACHE_HOME\\fR\nThe cache folder; data sets are in lockstep/datasets below it.\n"
                    ".TP\n\\fBTERM\\fR, \\fBLANG\\fR\n"
                    "With TERM=dumb progress is printed as plain lines; without UTF\\-8 the bar is ASCII.\n"
                    ".SH FILES\n"
                    ".TP\n\\fIruns/MODEL\\-DATA\\-TIME/\\fR\n"
                    "A run directory: manifest.json, metrics.jsonl, checkpoints/, result.json.\n");
}

void ls__help_man(struct ls_buf *b)
{
    ls__buf_addf(b, ".TH LOCKSTEP 1 \"\" \"lockstep %s\" \"User Commands\"\n", LOCKSTEP_VERSION);
    ls__buf_adds(b, ".SH NAME\nlockstep \\- train convolutional networks, the same bits whoever computes them\n"
                    ".SH SYNOPSIS\n");
    for (int i = 0; i < LS_N_CMDS; i++) {
        const struct ls_command *c = &ls__commands[i];
        ls__buf_addf(b, "%s\\fBlockstep %s\\fR%s", i ? ".br\n" : "", c->name, *c->args ? " " : "");
        add_escaped(b, c->args);
        ls__buf_adds(b, " [options]\n");
    }
    ls__buf_adds(b, ".SH COMMANDS\n");
    for (int i = 0; i < LS_N_CMDS; i++) add_man_command(b, &ls__commands[i]);
    ls__buf_adds(b, ".SH OPTIONS\nCommands that take an option are named behind it; no name means all.\n");
    const char *group = NULL;
    for (const struct ls_option *o = ls__options; o->setting; o++) {
        if (!group || strcmp(o->setting->group, group) != 0) ls__buf_addf(b, ".SS %s\n", o->setting->group);
        group = o->setting->group;
        add_man_option(b, o);
    }
    add_man_rest(b);
}
