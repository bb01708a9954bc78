/* launch_report.h: what a worker tells the launcher that started it: that it is there, and how it ended.
 *
 * mpirun gives one exit code for the whole job, and the same numbers come from mpirun itself, from the remote shell and
 * from signals. So every worker says its own word, as a line on stderr, the one way that leads from any host through
 * any mpirun to the launcher. A worker on the launcher's machine opens the launcher's end of that pipe itself: what it
 * has to say arrives although mpirun hangs or is gone.
 *
 *     RS lockstep TOKEN here RANK PID HOST LF        its signal handlers are in place
 *     RS lockstep TOKEN cause RANK TEXT LF           which worker was lost. Two machines that were cut apart may both
 *                                                    find out; the launcher prints the first
 *     RS lockstep TOKEN end RANK CODE told LF        the last thing it does; CODE as its exit code. "silent" instead of
 *                                                    "told": another rank is the one to say why
 *
 * RS is the byte 0x1e. The launcher takes these lines out and hands on everything else as it comes. TOKEN is the job's
 * own, so that nothing a worker prints by chance is taken for a report.
 *
 * Environment: LOCKSTEP_LAUNCH=TOKEN:PID:HOST:FD, of the launcher; FD is the pipe's, -1: not to be opened.
 */
#ifndef LS_CLI_LAUNCH_REPORT_H
#define LS_CLI_LAUNCH_REPORT_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* --- the worker's side; nothing happens where no launcher listens --- */

bool ls__report_is_wanted(void);
void ls__report_here(void);
void ls__report_cause(const char *text); /* may be called again with the same */
void ls__report_end(int exit_code);

/* --- the launcher's side --- */

enum { LS_NO_CODE = -1, LS_TOKEN_BYTES = 20, LS_REPORT_BYTES = 1280 };

struct ls_worker {
    bool is_here;
    long pid;
    char host[64];
    int code; /* LS_NO_CODE until it has said so */
};

struct ls_reports {
    char token[LS_TOKEN_BYTES];
    struct ls_worker *workers; /* [n] */
    int n, n_here, n_ended;
    bool is_told;               /* some worker has ended that was to say why */
    bool has_cause;             /* it is printed */
    char held[LS_REPORT_BYTES]; /* the beginning of what may be a report */
    size_t n_held;
    bool is_in_line; /* what was handed on last did not end a line */
};

/* Sets LOCKSTEP_LAUNCH for the n workers to come. */
enum ls_status ls__reports_open(struct ls_reports *r, int n, int fd) LS_MUST_CHECK;
void ls__reports_close(struct ls_reports *r);
/* Takes bytes of the job's stderr and hands on to ours what is not a report. */
void ls__reports_take(struct ls_reports *r, const char *bytes, size_t n);
/* The job's exit code by its workers' words, or LS_NO_CODE: nobody has said how it ended. */
int ls__reports_outcome(const struct ls_reports *r);

#endif
