/* expect.h: a status as expected, or the message that came with it. After cmocka.h. */
#ifndef LS_TESTS_EXPECT_H
#define LS_TESTS_EXPECT_H

#include "base/status.h"

#include <string.h>

static inline void check_ok(enum ls_status status)
{
    if (status != LS_OK) print_error("%s: %s\n", ls_status_name(status), ls_error_message());
    assert_int_equal(status, LS_OK);
}

/* LS_CHECKPOINT, and the message says `part`. */
static inline void check_refused(enum ls_status status, const char *part)
{
    if (status != LS_CHECKPOINT || !strstr(ls_error_message(), part))
        print_error("expected CHECKPOINT with '%s', got %s: %s\n", part, ls_status_name(status), ls_error_message());
    assert_int_equal(status, LS_CHECKPOINT);
    assert_non_null(strstr(ls_error_message(), part));
}

#endif
