/* cmd_server.c: `lockstep server`: makes keys, or trains by the hands of workers that come from anywhere. */
#include "cli/cmd.h"
#include "wire/keys.h"

#include <stdio.h>
#include <string.h>

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

bool ls__address_has_port(const char *address)
{
    const char *end = strrchr(address, ']'), *colon = strrchr(address, ':');
    return colon && (!end || colon > end);
}

enum ls_status ls__cmd_server(const struct ls_options *o)
{
    char address[256];
    if (o->keygen) return make_keys(o->keygen);
    snprintf(address, sizeof address, "%s%s", o->listen, ls__address_has_port(o->listen) ? "" : ":4711");
    return ls__train_as_server(o, address);
}
