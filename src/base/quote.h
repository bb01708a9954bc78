/* quote.h: words of commands that people paste into a shell, and lines that a terminal shows as they are. */
#ifndef LS_BASE_QUOTE_H
#define LS_BASE_QUOTE_H

#include <stddef.h>

/* One word of a POSIX shell: in quotes where it needs them. Returns out; what does not fit is cut. */
const char *ls__quote_word(const char *word, char *out, size_t size);
/* The path as one word of a POSIX shell that no program takes for an option: in quotes where it needs them, "./-x" for
 * "-x". Returns out; what does not fit is cut. */
const char *ls__quote_path(const char *path, char *out, size_t size);

/* One line, whatever bytes the user's words in it have: '?' for what moves a cursor. */
void ls__make_printable(char *text);

/* Room for any path that the program prints. */
enum { LS_QUOTED_BYTES = 4 * 4096 };

#endif
