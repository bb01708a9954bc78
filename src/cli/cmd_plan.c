/* cmd_plan.c: `lockstep plan`: how a training step of a model will be computed. */
#include "cli/cmd.h"

#include <stdio.h>
#include <stdlib.h>

enum ls_status ls__cmd_plan(const struct ls_options *o)
{
    char spec[96], *text;
    struct ls_bench_options options = ls__bench_options_of(o);
    options.threads = 1; /* a plan does not depend on them */
    if (o->input || o->classes > 0) {
        snprintf(spec, sizeof spec, "fake:%s:%lld:%lld", o->input ? o->input : "3x32x32",
                 (long long)(o->classes > 0 ? o->classes : 10), (long long)options.batch_size);
        options.data = spec;
    }
    TRY(ls_plan_model(&options, true, &text));
    fputs(text, stdout);
    if (options.json) putchar('\n');
    free(text);
    return LS_OK;
}
