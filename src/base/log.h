/* log.h: what the program tells a person while it works, on stderr.
 *
 * The log root is the only mutable global of the library; its level is the program's to set. A line is written with one
 * write(2), so lines of several threads never mix. Results never go here; they go to stdout.
 */
#ifndef LS_BASE_LOG_H
#define LS_BASE_LOG_H

#include "base/status.h"

#include <stdbool.h>

enum ls_log_level { LS_LOG_NOTHING = -1, LS_LOG_ERROR, LS_LOG_WARN, LS_LOG_INFO, LS_LOG_DEBUG };

void ls__log_set_level(enum ls_log_level level); /* the program's; default LS_LOG_INFO */
/* What this thread tells at most from now on, and the threads it starts with ls__thread_start; returns what it was
 * before. A training is quiet by this, so that another one in the same process is not. */
enum ls_log_level ls__log_limit(enum ls_log_level limit);
enum ls_log_level ls__log_present_limit(void);
enum ls_log_level ls__log_level(void); /* the lower of the two */

/* "lockstep: warning: ..." for ERROR and WARN, the bare text for the others. If a progress line stands on the
 * terminal it is cleared first. */
void ls__log(enum ls_log_level level, const char *fmt, ...) LS_PRINTF(2, 3);

/* The progress line: replaces the one before on a terminal. Text without '\n'; "" clears it. No-op when stderr is
 * not a terminal (callers print plain lines then). */
void ls__log_progress(const char *text);
bool ls__log_is_terminal(void);

#endif
