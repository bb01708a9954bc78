/* test_average.c: the mean of copies in integers: any order, relative precision, nothing becomes zero. */
#include "base/rng.h"
#include "comm/average.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { N = 300, COPIES = 7 }; /* the last block is not full */

static void average(float copies[][N], int n_copies, bool backwards, float out[N])
{
    uint8_t exponents[3] = {0}, others[3] = {0};
    int64_t sum[N] = {0};
    assert_int_equal(ls__average_n_blocks(N), 3);
    for (int c = 0; c < n_copies; c++) ls__average_exponents(copies[c], N, c % 2 ? exponents : others);
    ls__average_join(exponents, others, 3);
    for (int c = 0; c < n_copies; c++) ls__average_add(copies[backwards ? n_copies - 1 - c : c], N, exponents, sum);
    ls__average_take(sum, N, exponents, n_copies, out);
}

static float draw(int copy, int i)
{
    return (float)(ls__rng(5, LS_RNG_DATA, (uint32_t)copy, (uint32_t)i, 0).v[0] >> 8) / 16777216.0f;
}

/* Over the whole range of float32: the mean is right to the last bit or two, in either order the same. */
static void test_every_exponent(void **state)
{
    static float copies[COPIES][N];
    float a[N], b[N];
    for (int exponent = -149; exponent <= 126; exponent++) {
        for (int c = 0; c < COPIES; c++)
            for (int i = 0; i < N; i++) copies[c][i] = ldexpf(draw(c, i) + 0.01f, exponent) * (i % 2 ? -1 : 1);
        average(copies, COPIES, false, a);
        average(copies, COPIES, true, b);
        assert_memory_equal(a, b, sizeof a);
        for (int i = 0; i < N; i++) {
            double mean = 0;
            for (int c = 0; c < COPIES; c++) mean += (double)copies[c][i] / COPIES;
            if (fabs((double)a[i] - mean) > fmax(fabs(mean) * 0x1p-23, 0x1p-149))
                print_error("2^%d, element %d: %a, should be %a\n", exponent, i, (double)a[i], mean);
            assert_true(fabs((double)a[i] - mean) <= fmax(fabs(mean) * 0x1p-23, 0x1p-149));
        }
    }
}

/* Equal copies are their own mean. */
static void test_equal_copies(void **state)
{
    static float copies[COPIES][N];
    float out[N];
    for (int c = 0; c < COPIES; c++)
        for (int i = 0; i < N; i++) copies[c][i] = draw(0, i) * (i % 3 ? 1.0f : 0x1p-19f);
    average(copies, COPIES, false, out);
    assert_memory_equal(out, copies[0], sizeof out);
}

/* The second moment of a weight with tiny gradients: far below 2^-40, and beside far larger ones. */
static void test_tiny_second_moments(void **state)
{
    static float copies[2][N];
    float out[N];
    for (int i = 0; i < N; i++) copies[0][i] = copies[1][i] = i < 128 ? 1e-20f : i % 2 ? 1e-2f : 1e-24f;
    average(copies, 2, false, out);
    for (int i = 0; i < 128; i++) assert_true(out[i] == 1e-20f);
    for (int i = 128; i < N; i++) {
        assert_true(out[i] > 0);
        if (i % 2) assert_true(out[i] == 1e-2f);
    }
}

static void test_zeros(void **state)
{
    static float copies[3][N];
    float out[N];
    memset(copies, 0, sizeof copies);
    average(copies, 3, false, out);
    for (int i = 0; i < N; i++) assert_true(out[i] == 0);
}

static void test_not_finite(void **state)
{
    float x[N] = {0};
    uint8_t exponents[3] = {0};
    x[7] = -INFINITY;
    x[299] = NAN;
    ls__average_exponents(x, N, exponents);
    assert_int_equal(exponents[0], LS_AVERAGE_NOT_FINITE);
    assert_int_equal(exponents[1], 0);
    assert_int_equal(exponents[2], LS_AVERAGE_NOT_FINITE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_exponent),      cmocka_unit_test(test_equal_copies),
        cmocka_unit_test(test_tiny_second_moments), cmocka_unit_test(test_zeros),
        cmocka_unit_test(test_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
