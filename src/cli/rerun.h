/* rerun.h: the command that trains as a run did, from the options in its manifest. */
#ifndef LS_CLI_RERUN_H
#define LS_CLI_RERUN_H

#include "history/history.h"

/* "lockstep train lenet5 digits --epochs 3": complete, fit for a shell, without what only says where and how loudly.
 * NULL if the run has no manifest or one that is not ours. free() it. */
char *ls__rerun_command(const struct ls_history *h);

#endif
