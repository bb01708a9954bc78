/* runs.h: run directories that a command was given, opened. */
#ifndef LS_CLI_RUNS_H
#define LS_CLI_RUNS_H

#include "cli/options.h"
#include "history/history.h"

struct ls_runs {
    struct ls_history *all[LS_MAX_ARGS];
    const char *labels[LS_MAX_ARGS]; /* of "RUN=LABEL"; NULL: none */
    char *paths[LS_MAX_ARGS];
    int n;
};

/* Those of the arguments: a run, a run with a label (RUN=LABEL), or a folder of runs. Close it after a failure too. */
enum ls_status ls__runs_open(struct ls_runs *r, const struct ls_options *o) LS_MUST_CHECK;
void ls__runs_close(struct ls_runs *r);

#endif
