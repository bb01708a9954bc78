/* launch_output.h: what mpirun and the workers write to stdout, held until it is known how the attempt ended.
 *
 * stdout is for the result, which rank 0 prints at the end of an attempt that has one. MPICH's mpirun writes there,
 * too, when it loses a worker, ten lines that say less than the launcher does; but then there is no result. So the text
 * of an attempt goes to stdout if the attempt has a result. Otherwise it goes to stderr if it may be the cause, because
 * no worker came, or with
 * --verbose.
 */
#ifndef LS_CLI_LAUNCH_OUTPUT_H
#define LS_CLI_LAUNCH_OUTPUT_H

#include "base/buf.h"

struct ls_output {
    int ends[2]; /* a pipe: the job's stdout; -1: none */
    struct ls_buf text;
};

/* A zeroed object with ends -1 may be closed. */
enum ls_status ls__output_open(struct ls_output *o) LS_MUST_CHECK;
/* Takes what has come, without waiting. */
void ls__output_take(struct ls_output *o);
enum ls_output_use { LS_OUTPUT_RESULT, LS_OUTPUT_CAUSE, LS_OUTPUT_NOISE };
void ls__output_close(struct ls_output *o, enum ls_output_use use);

#endif
