/* lab_go.h: running a lab from the command line, for `lab run` and `sweep`. */
#ifndef LS_CLI_LAB_GO_H
#define LS_CLI_LAB_GO_H

#include "cli/options.h"
#include "lab/run.h"

/* Plans, checks data, runs, reports, and prints what came of it. o: --run, --scale, --only, --device, -w, --hosts,
 * --data-dir, --stand-in. LS_ERROR if runs failed, LS_INTERRUPTED if it was stopped. */
enum ls_status ls__lab_go(const struct ls_options *o, const struct ls_lab *lab, const char *dir) LS_MUST_CHECK;
/* The same for a folder that is there, as it was begun. */
enum ls_status ls__lab_go_on(const struct ls_options *o, const char *dir) LS_MUST_CHECK;

/* Says so where a scale made batches smaller. */
void ls__lab_warn_of_scale(const struct ls_lab *lab, const struct ls_lab_state *state);
/* And where a question shows forecasts that none of its runs has. */
void ls__lab_warn_of_forecasts(const struct ls_lab *lab, const struct ls_lab_state *state);

/* Jobs with predictions; what `o` asks. */
enum ls_status ls__lab_plan_of(struct ls_lab_state **state, const struct ls_options *o,
                               const struct ls_lab *lab) LS_MUST_CHECK;

#endif
