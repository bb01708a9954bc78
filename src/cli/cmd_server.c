/* cmd_server.c: `lockstep server`: makes keys. */
#include "cli/cmd.h"
#include "wire/keys.h"

#include <stdio.h>

static enum ls_status make_keys(const char *dir)
{
    TRY(ls_wire_keygen(dir));
    printf("%s/server.key   for the server: --key\n"
           "%s/worker.key   for every worker: --key\n"
           "%s/node.key     for every node of a job by --nodes: --key\n"
           "Copy them over ssh only, with mode 0600; who has one can take part.\n",
           dir, dir, dir);
    return LS_OK;
}

enum ls_status ls__cmd_server(const struct ls_options *o)
{
    if (o->keygen) return make_keys(o->keygen);
    return ls_fail(LS_USAGE, "server: expected --keygen DIR; try `lockstep server --help`");
}
