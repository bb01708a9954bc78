/* cases.h: one line of a .cases file: an op and its numbers.
 *
 *     conv2d mb=2 ic=3 ih=9 iw=7 oc=4 kh=3 kw=3 ph=1 pw=1 bias=1
 *
 * Blank lines and lines that begin with '#' are skipped. A key that nobody asks for is an error, so that a typing
 * mistake cannot turn a case into another one.
 */
#ifndef OPS_CASES_H
#define OPS_CASES_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { CASE_MAX_KEYS = 24, CASE_WORD = 32, CASE_LINE = 512 };

struct test_case {
    char line[CASE_LINE];
    char op[CASE_WORD];
    struct {
        char key[CASE_WORD];
        double value;
        bool is_used;
    } keys[CASE_MAX_KEYS];
    int n_keys;
};

enum ls_status case_parse(struct test_case *c, const char *line) LS_MUST_CHECK;
double case_get(struct test_case *c, const char *key, double otherwise);
int64_t case_int(struct test_case *c, const char *key, int64_t otherwise);
enum ls_status case_check_used(const struct test_case *c) LS_MUST_CHECK; /* after the last case_get */
uint64_t case_seed(const struct test_case *c);                           /* from the text of the line */

#endif
