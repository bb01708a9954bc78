/* status.h: every outcome Lockstep can report, and the message that goes with it.
 *
 * One list makes the enum, the names, the exit codes and the short texts. A function that can fail returns
 * `enum ls_status`; the cause is described once, where it is known:
 *
 *     return ls_fail(LS_IO, "open %s: %s", path, strerror(errno));
 *
 * and passed up unchanged by every caller. The message belongs to the calling thread and lives until the next ls_fail
 * in that thread. The library never prints it and never exits; `main` does both.
 */
#ifndef LOCKSTEP_STATUS_H
#define LOCKSTEP_STATUS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* name, exit code of the program, what it means */
#define LS_STATUS_MAP(X)                                                                                               \
    X(OK, 0, "success")                                                                                                \
    X(ERROR, 1, "something went wrong")                                                                                \
    X(NOMEM, 1, "out of memory")                                                                                       \
    X(IO, 1, "a file or device could not be read or written")                                                          \
    X(UNSUPPORTED, 1, "not supported by this build or machine")                                                        \
    X(INTERNAL, 1, "an invariant of the program is broken")                                                            \
    X(USAGE, 2, "the command line is wrong")                                                                           \
    X(DATA, 3, "a data set or model file is bad")                                                                      \
    X(CHECKPOINT, 4, "a checkpoint or run directory is unusable")                                                      \
    X(NONFINITE, 5, "the loss or a gradient is not finite")                                                            \
    X(REMOTE, 6, "another rank failed")                                                                                \
    X(TIMEOUT, 6, "a peer did not answer in time")                                                                     \
    X(INTERRUPTED, 75, "stopped by a signal after a checkpoint")

enum ls_status {
#define LS_STATUS_ENUM(name, code, text) LS_##name,
    LS_STATUS_MAP(LS_STATUS_ENUM)
#undef LS_STATUS_ENUM
};

#define LS_MUST_CHECK __attribute__((warn_unused_result))
#define LS_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* Records the message for this thread (cut at 1023 bytes) and returns `status`, which must not be LS_OK. */
enum ls_status ls_fail(enum ls_status status, const char *fmt, ...) LS_PRINTF(2, 3) LS_MUST_CHECK;

/* Puts "context: " in front of this thread's message and returns `status`. For callers that know which file or
 * line a lower layer was working on. */
enum ls_status ls_fail_in(enum ls_status status, const char *fmt, ...) LS_PRINTF(2, 3) LS_MUST_CHECK;

/* This thread's message; "" if nothing failed yet. */
const char *ls_error_message(void);

const char *ls_status_name(enum ls_status status); /* "IO" */
const char *ls_status_text(enum ls_status status); /* "a file or device ..." */
int ls_status_exit_code(enum ls_status status);

#ifdef __cplusplus
}
#endif

#endif
