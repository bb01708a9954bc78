/* slow.h: `train --slow 2:3`: the second node (or worker) computes at a third of its speed, to see what mixed machines
 * do. */
#ifndef LS_CLI_SLOW_H
#define LS_CLI_SLOW_H

#include "cli/options.h"

/* "NODE:FACTOR", the node from 1, the factor from 1 to 100. */
bool ls__slow_parse(const char *text, int64_t *node, double *factor);
/* In a process that trains: from here on it is stopped again and again, if it is the slow one. own: its
 * node, from 1; 0: to be found out. */
enum ls_status ls__slow_begin(const struct ls_options *o, int64_t own) LS_MUST_CHECK;

#endif
