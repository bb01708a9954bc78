/* launch_output.c: the pipe that stands for stdout during an attempt, and where its text goes in the end
 * (launch_output.h). */
#include "cli/launch_output.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BYTES = 16 << 20 }; /* more than any result; nobody else is to fill our memory */

enum ls_status ls__output_open(struct ls_output *o)
{
    *o = (struct ls_output){.text = LS_BUF_INIT};
    if (pipe2(o->ends, O_CLOEXEC) == 0) return LS_OK;
    o->ends[0] = o->ends[1] = -1;
    return ls_fail(LS_ERROR, "make a pipe: %s", strerror(errno));
}

void ls__output_take(struct ls_output *o)
{
    char bytes[4096];
    ssize_t n;
    struct pollfd come = {.fd = o->ends[0], .events = POLLIN};
    while (poll(&come, 1, 0) > 0 && (n = read(o->ends[0], bytes, sizeof bytes)) > 0)
        if (o->text.len < MOST_BYTES) ls__buf_add(&o->text, bytes, (size_t)n);
}

void ls__output_close(struct ls_output *o, enum ls_output_use use)
{
    if (o->ends[0] < 0) return;
    ls__output_take(o);
    if (use == LS_OUTPUT_RESULT) fwrite(o->text.text, 1, o->text.len, stdout); /* main checks it */
    if (use == LS_OUTPUT_CAUSE || (use == LS_OUTPUT_NOISE && ls__log_level() >= LS_LOG_DEBUG))
        fwrite(o->text.text, 1, o->text.len, stderr);
    ls__buf_release(&o->text);
    close(o->ends[0]);
    close(o->ends[1]);
    o->ends[0] = o->ends[1] = -1;
}
