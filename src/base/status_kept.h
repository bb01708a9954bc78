/* status_kept.h: a failure put aside while the work that must follow it is done, which may fail too.
 *
 *     struct ls_kept kept = ls__keep(status);
 *     ... clean up, wait for the other ranks ...
 *     return ls__fail_again(&kept);
 */
#ifndef LS_BASE_STATUS_KEPT_H
#define LS_BASE_STATUS_KEPT_H

#include "base/status.h"

struct ls_kept {
    enum ls_status status;
    char message[1024]; /* "" when status is LS_OK */
};

/* The status and, if it is a failure, this thread's message. */
struct ls_kept ls__keep(enum ls_status status);
/* LS_OK, or the kept failure with its message. */
enum ls_status ls__fail_again(const struct ls_kept *kept) LS_MUST_CHECK;

#endif
