/* parse.h: strict numbers from text. The whole text must be the number; no leading blanks, no trailing junk. */
#ifndef LS_BASE_PARSE_H
#define LS_BASE_PARSE_H

#include <stdbool.h>
#include <stdint.h>

bool ls__parse_i64(const char *text, int64_t min, int64_t max, int64_t *out);
bool ls__parse_f64(const char *text, double *out); /* finite */

/* "3x224x224": 1 to 3 positive numbers up to 65536 each, missing leading ones are left out. Returns how many, 0 on
 * error. */
int ls__parse_dims(const char *text, int64_t dims[3]);

#endif
