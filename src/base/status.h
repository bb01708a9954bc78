/* status.h: lockstep/status.h for our own files: the same, and TRY, a name too common for a header that strangers
 * include. */
#ifndef LS_BASE_STATUS_H
#define LS_BASE_STATUS_H

#include "lockstep/status.h"

/* The one control-flow macro of the tree: hand a failure up unchanged. */
#define TRY(expr)                                                                                                      \
    do {                                                                                                               \
        enum ls_status try_status_ = (expr);                                                                           \
        if (try_status_ != LS_OK) return try_status_;                                                                  \
    } while (0)

/* What ls_fail promises, for readers that are programs: its result is the status it was given. */
#ifdef __clang_analyzer__
#define ls_fail(status, ...) ((void)ls_fail(status, __VA_ARGS__), (status))
#define ls_fail_in(status, ...) ((void)ls_fail_in(status, __VA_ARGS__), (status))
#endif

#endif
