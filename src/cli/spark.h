/* spark.h: curves in a line of text. */
#ifndef LS_CLI_SPARK_H
#define LS_CLI_SPARK_H

#include "base/buf.h"
#include "history/history.h"

/* n values as `width` blocks of eight heights, from the lowest to the highest value; on a terminal without UTF-8 of
 * plain characters. Means of those that share a column; nothing where there is none. */
void ls__spark(struct ls_buf *b, const double *values, size_t n, int width, bool is_log);
/* A bar of `width` blocks, `fraction` of it full. */
void ls__spark_bar(struct ls_buf *b, double fraction, int width);
/* Text of a file for the terminal: valid UTF-8, no control characters. */
void ls__spark_text(struct ls_buf *b, const char *text);

#endif
