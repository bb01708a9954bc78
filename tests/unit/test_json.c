/* test_json.c: JSON text and the median (src/base). */
#include "base/json.h"
#include "base/median.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void check_text(json_t *value, enum ls_json_style style, const char *want)
{
    char *text;
    assert_int_equal(ls__json_dump(value, style, "a test", &text), LS_OK);
    assert_string_equal(text, want);
    free(text);
}

static json_t *pair(json_t *value)
{
    return json_pack("[o, i]", value, 7);
}

static void test_values_that_json_lacks(void **state)
{
    check_text(pair(ls__json_number((double)NAN)), LS_JSON_LINE, "[null, 7]");
    check_text(pair(ls__json_number(-(double)INFINITY)), LS_JSON_LINE, "[null, 7]");
    check_text(pair(ls__json_text(NULL)), LS_JSON_LINE, "[null, 7]");
    check_text(pair(ls__json_text("\xff\xfe")), LS_JSON_LINE, "[\"(not UTF-8)\", 7]");
    check_text(pair(ls__json_text("a\"b\n")), LS_JSON_LINE, "[\"a\\\"b\\n\", 7]");
}

static void test_styles(void **state)
{
    const double third = 1.0 / 3;
    check_text(pair(ls__json_number(third)), LS_JSON_LINE, "[0.333333333, 7]");
    check_text(pair(ls__json_number(third)), LS_JSON_EXACT, "[0.33333333333333331,7]");
    check_text(pair(ls__json_number(0.1)), LS_JSON_SETTINGS, "[\n  0.1,\n  7\n]");
    check_text(pair(ls__json_number(third)), LS_JSON_FOR_PEOPLE, "[\n  0.333333333,\n  7\n]");
}

static void test_what_could_not_be_made(void **state)
{
    char *text;
    assert_int_equal(ls__json_dump(NULL, LS_JSON_LINE, "the parcel", &text), LS_NOMEM);
    assert_null(text);
    assert_string_equal(ls_error_message(), "out of memory while writing the parcel");
}

static void test_median(void **state)
{
    double odd[] = {5, 1, 3}, even[] = {4, 1, 3, 2};
    assert_true(ls__median(odd, 3) == 3);
    assert_true(odd[0] == 1 && odd[2] == 5); /* sorted: the first is the best */
    assert_true(ls__median(even, 4) == 3);
    assert_true(ls__median(odd, 0) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_that_json_lacks),
        cmocka_unit_test(test_styles),
        cmocka_unit_test(test_what_could_not_be_made),
        cmocka_unit_test(test_median),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
