/* patterns.h: names of parameters by patterns, as in --freeze 'layer1.*,bn1.*' and --lr-of 'fc.*=0.1,*=x0.1'.
 *
 * A pattern is a shell's: * any characters, ? one, [abc] one of these. Several are set apart by commas.
 */
#ifndef LS_SETTINGS_PATTERNS_H
#define LS_SETTINGS_PATTERNS_H

#include <stdbool.h>
#include <stddef.h>

#define LS_PATTERNS_EXPECTED "patterns of parameter names such as 'layer1.*,bn1.*'"
#define LS_RATES_EXPECTED "patterns with rates, as 'features.*=0.001', or with factors, as 'features.*=x0.1'"
enum { LS_PATTERN_BYTES = 256 };

bool ls__patterns_is_valid(const char *list);
bool ls__rates_is_valid(const char *list);

/* The i-th pattern of either list, without its rate; false: there are fewer. */
bool ls__pattern_at(const char *list, int i, char pattern[LS_PATTERN_BYTES]);
bool ls__pattern_matches(const char *pattern, const char *name);
/* Whether any of them matches; a list that is NULL has none. */
bool ls__patterns_match(const char *list, const char *name);
/* By which the learning rate `lr` is multiplied for this parameter: of the last pattern that matches, else 1. */
double ls__rate_factor(const char *list, const char *name, double lr);

#endif
