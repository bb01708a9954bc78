/* test_report.c: means and spreads, when two groups differ, and numbers for people. */
#include "report/groups.h"
#include "report/words.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_stats(void **state)
{
    const double values[] = {2, NAN, 4, 6};
    struct ls_stats s = ls__stats(values, 4);
    assert_true(s.n == 3 && s.mean == 4 && s.sd == 2 && s.low == 2 && s.high == 6);
    s = ls__stats(values, 1);
    assert_true(s.n == 1 && s.sd == 0);
    assert_true(isnan(ls__stats(values + 1, 1).mean));
}

static bool differ(const double *a, int n, const double *b, int m, enum ls_measure measure, double n_test)
{
    struct ls_stats sa = ls__stats(a, n), sb = ls__stats(b, m);
    return ls__differ(&sa, &sb, measure, n_test);
}

static void test_noise(void **state)
{
    const double slow[] = {100, 102, 98}, alike[] = {101, 103, 97}, fast[] = {120, 122, 118}, one[] = {104},
                 two[] = {94};
    assert_false(differ(slow, 3, alike, 3, LS_MEASURE_RATE, 0));
    assert_true(differ(fast, 3, slow, 3, LS_MEASURE_RATE, 0));
    assert_true(differ(fast, 1, slow, 3, LS_MEASURE_RATE, 0)); /* a single run against repeats */
    assert_false(differ(one, 1, slow, 1, LS_MEASURE_RATE, 0)); /* 4 % of single runs */
    assert_true(differ(two, 1, slow, 1, LS_MEASURE_RATE, 0));  /* 6 % */
    assert_false(differ(one, 1, one, 1, LS_MEASURE_RATE, 0));
    const double a[] = {0.9900}, b[] = {0.9920}, c[] = {0.9800};
    assert_false(differ(a, 1, b, 1, LS_MEASURE_ACCURACY, 10000)); /* 20 of 10,000 pictures are chance */
    assert_true(differ(a, 1, c, 1, LS_MEASURE_ACCURACY, 10000));
    assert_false(differ(a, 1, c, 1, LS_MEASURE_ACCURACY, 100));
}

static void test_words(void **state)
{
    struct ls_page *p = calloc(1, sizeof *p);
    assert_non_null(p);
    assert_string_equal(ls__say_count(p, 1234567), "1,234,567");
    assert_string_equal(ls__say_count(p, 999), "999");
    assert_string_equal(ls__say_count(p, -1000), "-1,000");
    assert_string_equal(ls__say_count(p, 0), "0");
    assert_string_equal(ls__say_count(p, NAN), "");
    assert_string_equal(ls__say_count(p, 1e300), "");
    assert_string_equal(ls__say_seconds(p, 0.0123), "12.3 ms");
    assert_string_equal(ls__say_seconds(p, 6.346), "6.35 s");
    assert_string_equal(ls__say_seconds(p, 725), "12 min 5 s");
    assert_string_equal(ls__say_seconds(p, 12000), "3 h 20 min");
    assert_string_equal(ls__say_seconds(p, 200000), "2 days 7 h");
    assert_string_equal(ls__say_bytes(p, 77185024), "73.6 MiB");
    assert_string_equal(ls__say_percent(p, 0.9925, 2), "99.25 %");
    ls__arena_release(&p->memory);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stats),
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
