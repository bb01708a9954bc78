/* help.c: --help; see help.h. The man page is in help_man.c, completion in help_completion.c. */
#include "cli/help.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH = 80, OPTION_COLUMN = 30, HARD_SPACE = '\x1f' /* a line is not broken here */ };

const struct ls_exit_code ls__exit_codes[] = {
    {0, "done"},
    {1, "error (input or output failed, out of memory, not supported)"},
    {2, "the command line is wrong"},
    {3, "a data set or model file is bad or missing"},
    {4, "a checkpoint or run directory is unusable"},
    {5, "the loss or a gradient is not finite"},
    {6, "another worker was lost"},
    {75, "stopped by a signal after writing a checkpoint; --resume goes on"},
    {-1, NULL},
};

/* Words of text from `column` on, lines after the first begin at `indent`; ends with '\n'. A '\n' in the text begins a
 * new paragraph. */
static void add_wrapped(struct ls_buf *b, const char *text, int column, int indent)
{
    bool is_line_start = true;
    while (*text) {
        int len = (int)strcspn(text, " \n");
        if (!is_line_start && column + 1 + len > WIDTH) {
            ls__buf_addf(b, "\n%*s", indent, "");
            column = indent;
            is_line_start = true;
        }
        ls__buf_adds(b, is_line_start ? "" : " ");
        for (int i = 0; i < len; i++) ls__buf_add(b, text[i] == HARD_SPACE ? " " : text + i, 1);
        column += len + !is_line_start;
        is_line_start = false;
        text += len;
        if (*text == '\n') {
            ls__buf_addf(b, "\n\n%*s", indent, "");
            column = indent;
            is_line_start = true;
        }
        if (*text) text++;
    }
    ls__buf_adds(b, "\n");
}

void ls__setting_usage(const struct ls_setting *s, char *out, size_t size)
{
    const char *no = s->def && s->type == LS_SETTING_FLAG ? "[no-]" : "";
    snprintf(out, size, s->alone ? "--%s%s [%s%s]" : "--%s%s%s%s", no, s->name, s->arg && !s->alone ? " " : "",
             s->arg ? s->arg : "");
}

static void add_option(struct ls_buf *b, const struct ls_setting *s)
{
    char usage[64], head[80], text[400];
    ls__setting_usage(s, usage, sizeof usage);
    if (s->letter)
        snprintf(head, sizeof head, "  -%c, %s", s->letter, usage);
    else
        snprintf(head, sizeof head, "      %s", usage);
    size_t n = (size_t)snprintf(text, sizeof text, "%s", s->help);
    if (s->choices && n < sizeof text) n += (size_t)snprintf(text + n, sizeof text - n, " One of %s.", s->choices);
    for (int i = 0; i < 3 && s->aliases[i] && n < sizeof text; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, " Also --%s.", s->aliases[i]);
    if (s->def && n < sizeof text) snprintf(text + n, sizeof text - n, " (default:\x1f%s)", s->def);
    int column = (int)strlen(head);
    ls__buf_adds(b, head);
    if (column + 2 > OPTION_COLUMN) {
        ls__buf_adds(b, "\n");
        column = 0;
    }
    ls__buf_addf(b, "%*s", OPTION_COLUMN - column, "");
    add_wrapped(b, text, OPTION_COLUMN, OPTION_COLUMN);
}

static void add_options(struct ls_buf *b, enum ls_cmd cmd)
{
    const char *group = NULL;
    for (const struct ls_option *o = ls__options; o->setting; o++) {
        const struct ls_setting *s = o->setting;
        if (!ls__option_is_of(o, cmd)) continue;
        if (!group || strcmp(s->group, group) != 0) ls__buf_addf(b, "\n%s:\n", s->group);
        group = s->group;
        add_option(b, s);
    }
}

static void add_exit_codes(struct ls_buf *b)
{
    ls__buf_adds(b, "\nExit codes:\n");
    for (const struct ls_exit_code *e = ls__exit_codes; e->code >= 0; e++)
        ls__buf_addf(b, "  %2d  %s\n", e->code, e->text);
}

void ls__help_command(struct ls_buf *b, enum ls_cmd cmd)
{
    const struct ls_command *c = &ls__commands[cmd];
    ls__buf_addf(b, "lockstep %s: %s\n\n", c->name, c->summary);
    ls__buf_addf(b, "Usage: lockstep %s%s%s [options]\n\n", c->name, *c->args ? " " : "", c->args);
    add_wrapped(b, c->text, 0, 0);
    ls__buf_adds(b, "\nExamples:\n");
    for (const struct ls_example *e = c->examples; e->line; e++) ls__buf_addf(b, "  %s\n      %s\n", e->line, e->what);
    add_options(b, cmd);
    add_exit_codes(b);
}

void ls__help_overview(struct ls_buf *b)
{
    ls__buf_adds(b, "lockstep: trains convolutional networks; the same bits whoever computes them\n\n"
                    "Usage: lockstep COMMAND [arguments] [options]\n\nCommands:\n");
    for (int i = 0; i < LS_N_CMDS; i++) ls__buf_addf(b, "  %-9s %s\n", ls__commands[i].name, ls__commands[i].summary);
    ls__buf_adds(b, "\nFirst steps:\n"
                    "  lockstep doctor                    check this machine and this build\n"
                    "  lockstep train lenet5 digits       train; needs no download\n"
                    "  lockstep help train                everything about train\n\n"
                    "  lockstep --version                 versions of the program and its libraries\n");
    add_exit_codes(b);
}
