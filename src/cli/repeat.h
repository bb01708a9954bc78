/* repeat.h: `train --repeat N`: the same training with N seeds, one after another. */
#ifndef LS_CLI_REPEAT_H
#define LS_CLI_REPEAT_H

#include "cli/options.h"

/* *exit_code: 0, or that of the first repetition that did not finish. */
enum ls_status ls__repeat(const struct ls_options *o, int *exit_code) LS_MUST_CHECK;

#endif
