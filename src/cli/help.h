/* help.h: the texts that explain the program, all made from the tables in options.h. */
#ifndef LS_CLI_HELP_H
#define LS_CLI_HELP_H

#include "base/buf.h"
#include "cli/options.h"

void ls__help_overview(struct ls_buf *b);
void ls__help_command(struct ls_buf *b, enum ls_cmd cmd);
void ls__help_man(struct ls_buf *b);                           /* roff, lockstep(1) */
void ls__help_completion(struct ls_buf *b, const char *shell); /* "bash" or "fish" */

/* What each exit code means; code -1 ends. */
struct ls_exit_code {
    int code;
    const char *text;
};
extern const struct ls_exit_code ls__exit_codes[];

/* "--batch-size N", "--[no-]normalize" */
void ls__setting_usage(const struct ls_setting *s, char *out, size_t size);

#endif
