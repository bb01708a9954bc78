/* cmd_help.c: `lockstep help`: the texts of help.h. */
#include "cli/cmd.h"
#include "cli/help.h"

enum ls_status ls__cmd_help(const struct ls_options *o)
{
    struct ls_buf b = LS_BUF_INIT;
    if (o->man) {
        ls__help_man(&b);
    } else if (o->completion) {
        ls__help_completion(&b, o->completion);
    } else if (o->n_args == 0) {
        ls__help_overview(&b);
    } else {
        enum ls_cmd cmd = ls__command_find(o->args[0]);
        if (cmd == LS_N_CMDS) return ls_fail(LS_USAGE, "unknown command '%s'; `lockstep help` lists them", o->args[0]);
        ls__help_command(&b, cmd);
    }
    return ls__print_buf(&b);
}
