/* text.h: texts made harmless, and how wide they are.
 *
 * Widths are those of a common sans serif (DejaVu Sans, a wide one), from a table: layout must not depend on what
 * fonts a machine has. A narrower font leaves some room.
 */
#ifndef LS_DRAW_TEXT_H
#define LS_DRAW_TEXT_H

#include "base/buf.h"

/* Bytes of a clean text: labels are short, notes are not. */
enum { LS_LABEL_BYTES = 256, LS_NOTE_BYTES = 4096 };

/* Valid UTF-8 without control characters, line separators and marks that turn the direction of text; what is not
 * becomes U+FFFD or a space. Cut at `size` - 1 bytes, between characters. NULL is "". Returns out. */
char *ls__text_clean(char *out, size_t size, const char *text);

double ls__text_width(const char *clean, double size, bool is_bold);

/* Shortened to `width`, with an ellipsis at its end. In place. */
void ls__text_fit(char *clean, double width, double size, bool is_bold);

/* The part of a clean text that fits into `width`, whole words if there are any: bytes taken, and in *skip the blanks
 * after them. */
size_t ls__text_break(const char *clean, double width, double size, size_t *skip);

/* As text or attribute of XML and HTML. Any bytes may come. */
void ls__text_escape(struct ls_buf *out, const char *text);

#endif
