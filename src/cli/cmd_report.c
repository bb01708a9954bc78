/* cmd_report.c: `lockstep report RUN... -o FILE`: one page about a run, or a comparison of several. */
#include "report/report.h"

#include "base/log.h"
#include "cli/cmd.h"
#include "cli/rerun.h"
#include "cli/runs.h"

enum ls_status ls__cmd_report(const struct ls_options *o)
{
    struct ls_runs runs;
    const char *path = o->output ? o->output : "report.html";
    TRY(ls_report_check(path));
    enum ls_status status = ls__runs_open(&runs, o);
    const struct ls_report_options options = {.command_of = ls__rerun_command, .labels = runs.labels};
    if (status == LS_OK) status = ls_report_write(runs.all, runs.n, &options, path);
    if (status == LS_OK) ls__log(LS_LOG_INFO, "%s: %d run%s", path, runs.n, runs.n == 1 ? "" : "s");
    ls__runs_close(&runs);
    return status;
}
