/* cmd_plan.c: `lockstep plan`: how a training step of a model would be computed. */
#include "cli/cmd.h"

enum ls_status ls__cmd_plan(const struct ls_options *o)
{
    return ls_fail(LS_UNSUPPORTED, "plan %s: this build cannot print plans yet", o->args[0]);
}
