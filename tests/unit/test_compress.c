/* test_compress.c: gradients rounded to few bits: nothing is lost and nothing overflows, whatever their size. */
#include "engine.h"
#include "exec/exec_internal.h"

#include <math.h>

enum { N = 256 };

static uint32_t draw(int i)
{
    return ls__rng(3, LS_RNG_DATA, (uint32_t)i, 0, 0).v[0];
}

/* One part whose largest element is near 2^exponent: rounded and remainder add up to what went in, and what leaves is
 * a number of the sums in `bits` bits. */
static void check_part(int exponent, int bits)
{
    float g[N], remainder[N];
    double before[N], largest = 0;
    for (int i = 0; i < N; i++) {
        float x = ldexpf((float)(draw(i) >> 8) / 8388608.0f - 1.0f, exponent);
        g[i] = i % 3 == 2 ? x * 0x1p-20f : x;
        remainder[i] = 0;
        before[i] = (double)g[i];
        largest = fmax(largest, fabs(before[i]));
    }
    ls__compress_part(g, remainder, N, bits);
    for (int i = 0; i < N; i++) {
        double units = ldexp((double)g[i], LS_SCALE_GRAD), most = ldexp(largest, 1 - bits);
        if (!isfinite(g[i]) || (double)g[i] + (double)remainder[i] != before[i] || units != nearbyint(units) ||
            fabs((double)remainder[i]) > fmax(most, ldexp(0.5, -LS_SCALE_GRAD)))
            print_error("2^%d, %d bits: %a became %a, remainder %a\n", exponent, bits, before[i], (double)g[i],
                        (double)remainder[i]);
        assert_true(isfinite(g[i]));
        assert_true((double)g[i] + (double)remainder[i] == before[i]);
        assert_true(units == nearbyint(units));
        assert_true(fabs((double)remainder[i]) <= fmax(most, ldexp(0.5, -LS_SCALE_GRAD)));
    }
}

static void test_all_exponents(void **state)
{
    for (int bits = 8; bits <= 16; bits += 8)
        for (int exponent = -149; exponent <= 127; exponent++) check_part(exponent, bits);
}

static void test_zeros(void **state)
{
    float g[N] = {0}, remainder[N] = {0};
    ls__compress_part(g, remainder, N, 8);
    for (int i = 0; i < N; i++) assert_true(g[i] == 0 && remainder[i] == 0);
}

/* A remainder that the gradient takes back is used up. */
static void test_remainder_taken_back(void **state)
{
    float g[N], remainder[N];
    for (int i = 0; i < N; i++) {
        remainder[i] = (float)i * 0x1p-60f;
        g[i] = -remainder[i];
    }
    ls__compress_part(g, remainder, N, 8);
    for (int i = 0; i < N; i++) assert_true(g[i] == 0 && remainder[i] == 0);
}

/* Gradients too small for the sums are not lost: they add up until they are large enough. */
static void test_small_ones_add_up(void **state)
{
    float g[1], remainder[1] = {0};
    double sum = 0;
    for (int i = 0; i < 1 << 10; i++) {
        g[0] = 0x1p-53f;
        ls__compress_part(g, remainder, 1, 8);
        sum += (double)g[0];
    }
    assert_true(sum == 0x1p-43);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_exponents),
        cmocka_unit_test(test_zeros),
        cmocka_unit_test(test_remainder_taken_back),
        cmocka_unit_test(test_small_ones_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
