/* test_half.c: numbers of 16 bits: all of them, against the formula; and patterns of parameter names. */
#include "settings/patterns.h"
#include "tensor/half.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static float value_of(unsigned bits)
{
    const int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
    double value = exponent == 31 ? (fraction ? NAN : INFINITY)
                   : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                  : ldexp(fraction, -24);
    return (float)(bits & 0x8000 ? -value : value);
}

static void every_half(void **state)
{
    for (unsigned bits = 0; bits < 65536; bits++) {
        const float got = ls__f16_to_f32((uint16_t)bits), expected = value_of(bits);
        if (isnan(expected) && isnan(got)) continue;
        if (memcmp(&got, &expected, sizeof got) != 0)
            fail_msg("%04x is %a, not %a", bits, (double)expected, (double)got);
    }
}

static void every_bfloat(void **state)
{
    for (unsigned bits = 0; bits < 65536; bits++) {
        const float got = ls__bf16_to_f32((uint16_t)bits);
        const uint32_t expected = bits << 16;
        assert_memory_equal(&got, &expected, sizeof got);
    }
}

static void patterns(void **state)
{
    assert_true(ls__patterns_match("conv1.*,fc.*", "fc.weight"));
    assert_true(ls__patterns_match("layer[12].*", "layer2.0.conv1.weight"));
    assert_false(ls__patterns_match("fc.*", "fc1.weight"));
    assert_false(ls__patterns_match(NULL, "fc.weight"));
    assert_true(ls__patterns_is_valid("a*"));
    for (const char *const *bad = (const char *const[]){"", ",", "a,", ",a", "a,,b", "a=1", NULL}; *bad; bad++)
        assert_false(ls__patterns_is_valid(*bad));
    assert_true(ls__rates_is_valid("a*=0.1,b=x2"));
    for (const char *const *bad = (const char *const[]){"", "a", "a=", "a=x", "=1", "a=1,", "a=-1", "a=nan", NULL};
         *bad; bad++)
        assert_false(ls__rates_is_valid(*bad));
    char is_long[600];
    memset(is_long, 'a', sizeof is_long - 1);
    is_long[sizeof is_long - 1] = '\0';
    assert_false(ls__patterns_is_valid(is_long));
}

static void rates(void **state)
{
    const char *list = "*=x0.1,fc.*=0.2,fc.bias=0";
    assert_true(ls__rate_factor(list, "conv.weight", 0.05) == 0.1);
    assert_true(fabs(ls__rate_factor(list, "fc.weight", 0.05) - 4) < 1e-12);
    assert_true(ls__rate_factor(list, "fc.bias", 0.05) == 0);
    assert_true(ls__rate_factor("fc.*=0.2", "conv.weight", 0.05) == 1);
    assert_true(ls__rate_factor(NULL, "conv.weight", 0.05) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half),
        cmocka_unit_test(every_bfloat),
        cmocka_unit_test(patterns),
        cmocka_unit_test(rates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
