/* status.c: the per-thread error message and the tables made from LS_STATUS_MAP. */
#include "base/status_kept.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_BYTES = 1024 };

static _Thread_local char message[MESSAGE_BYTES];

enum ls_status(ls_fail)(enum ls_status status, const char *fmt, ...)
{
    /* Arguments may point into `message` itself, so build beside it. */
    char made[MESSAGE_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(made, sizeof made, fmt, args);
    va_end(args);
    memcpy(message, made, sizeof message);
    return status;
}

enum ls_status(ls_fail_in)(enum ls_status status, const char *fmt, ...)
{
    char context[MESSAGE_BYTES], made[2 * MESSAGE_BYTES + 4];
    va_list args;
    va_start(args, fmt);
    vsnprintf(context, sizeof context, fmt, args);
    va_end(args);
    snprintf(made, sizeof made, "%s: %s", context, message);
    made[MESSAGE_BYTES - 1] = '\0';
    memcpy(message, made, sizeof message);
    return status;
}

const char *ls_error_message(void)
{
    return message;
}

static const struct {
    const char *name, *text;
    int exit_code;
} statuses[] = {
#define LS_STATUS_ROW(name, code, text) [LS_##name] = {#name, text, code},
    LS_STATUS_MAP(LS_STATUS_ROW)
#undef LS_STATUS_ROW
};

const char *ls_status_name(enum ls_status status)
{
    return statuses[status].name;
}

const char *ls_status_text(enum ls_status status)
{
    return statuses[status].text;
}

int ls_status_exit_code(enum ls_status status)
{
    return statuses[status].exit_code;
}

/* --- kept failures --- */

struct ls_kept ls__keep(enum ls_status status)
{
    struct ls_kept kept = {.status = status};
    if (status != LS_OK) memcpy(kept.message, message, sizeof kept.message);
    return kept;
}

enum ls_status ls__fail_again(const struct ls_kept *kept)
{
    return kept->status == LS_OK ? LS_OK : ls_fail(kept->status, "%s", kept->message);
}
