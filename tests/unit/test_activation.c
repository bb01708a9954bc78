/* test_activation.c: the activations of the cpu backend against float64, and the same bits at every width of vectors.
 */
#include "backend/cpu/activation_math.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 200000 };

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double gelu_argument(double x)
{
    return 2 * sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x);
}

static double slope_of_gelu(double x)
{
    return 0.5 * erfc(-x / sqrt(2)) + x * exp(-x * x / 2) / sqrt(2 * acos(-1));
}

static double slope_of_gelu_tanh(double x)
{
    const double s = sigmoid(gelu_argument(x));
    return s + x * s * (1 - s) * 2 * sqrt(2 / acos(-1)) * (1 + 3 * 0.044715 * x * x);
}

static double slope_of_silu(double x)
{
    return sigmoid(x) + x * sigmoid(x) * sigmoid(-x);
}

static double true_gelu(double x)
{
    return x * 0.5 * erfc(-x / sqrt(2));
}

static double true_gelu_tanh(double x)
{
    return x * sigmoid(gelu_argument(x));
}

static double true_silu(double x)
{
    return x * sigmoid(x);
}

static float our_sigmoid(float x)
{
    float other;
    return ls__cpu_sigmoid(x, &other);
}

/* The inline functions under a name that has an address. */
#define NAMED(name)                                                                                                    \
    static float our_##name(float x)                                                                                   \
    {                                                                                                                  \
        return ls__cpu_##name(x);                                                                                      \
    }
NAMED(tanh)
NAMED(gelu)
NAMED(gelu_tanh)
NAMED(silu)
NAMED(gelu_slope)
NAMED(gelu_tanh_slope)
NAMED(silu_slope)

/* Errors in units of the result's last place, or, where it goes through 0, of that of numbers below 1. */
static const struct {
    const char *name;
    float (*ours)(float);
    double (*truth)(double);
    double from, to, units;
    bool is_absolute;
} cases[] = {
    {"sigmoid", our_sigmoid, sigmoid, -86, 30, 3, false},
    {"tanh", our_tanh, tanh, -12, 12, 2, false},
    {"silu", our_silu, true_silu, -80, 30, 4, false},
    {"gelu above", our_gelu, true_gelu, 0, 20, 3, false},
    {"gelu", our_gelu, true_gelu, -2, 0, 6, false},
    {"gelu below", our_gelu, true_gelu, -12.5, -2, 9, false},
    {"gelu tanh", our_gelu_tanh, true_gelu_tanh, -12, 1, 2, true},
    {"gelu tanh above", our_gelu_tanh, true_gelu_tanh, 0, 20, 4, false},
    {"gelu'", our_gelu_slope, slope_of_gelu, -13, 13, 4, true},
    {"gelu tanh'", our_gelu_tanh_slope, slope_of_gelu_tanh, -13, 13, 4, true},
    {"silu'", our_silu_slope, slope_of_silu, -30, 30, 4, true},
};

static double unit_of(double x)
{
    int exponent;
    if (x == 0) return 0x1p-149;
    frexp(x, &exponent);
    return ldexp(1, exponent - 24 < -149 ? -149 : exponent - 24);
}

static void test_errors(void **state)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double worst = 0, at = 0;
        for (int k = 0; k <= N; k++) {
            const float x = (float)(cases[i].from + (cases[i].to - cases[i].from) * k / N);
            const double want = cases[i].truth((double)x);
            const double units =
                fabs((double)cases[i].ours(x) - want) / (cases[i].is_absolute ? 0x1p-24 : unit_of(want));
            if (!(units <= worst)) worst = units, at = (double)x;
        }
        if (!(worst <= cases[i].units))
            print_error("%s: %.2f units off at %.9g, at most %g expected\n", cases[i].name, worst, at, cases[i].units);
        assert_true(worst <= cases[i].units);
    }
}

static void test_ends(void **state)
{
    assert_true(isnan(our_sigmoid(NAN)) && isnan(our_tanh(NAN)) && isnan(our_gelu(NAN)) && isnan(our_silu(NAN)));
    assert_true(our_sigmoid(1e30f) == 1 && our_sigmoid(-1e30f) == 0);
    assert_true(our_tanh(1e30f) == 1 && our_tanh(-1e30f) == -1 && our_tanh(-0.0f) == 0);
    assert_true(our_gelu(1e30f) == 1e30f && our_gelu(-1e30f) == 0);
    assert_true(our_silu(1e30f) == 1e30f && our_silu(-1e30f) == 0);
}

/* The same loop for three instruction sets; the library's clones are made the same way (base/simd.h). */
#define LOOP(name, target_attribute)                                                                                   \
    target_attribute static void name(const float *x, float *y)                                                        \
    {                                                                                                                  \
        for (int i = 0; i < N; i++)                                                                                    \
            y[i] = ls__cpu_gelu(x[i]) + ls__cpu_gelu_slope(x[i]) + ls__cpu_tanh(x[i]) + ls__cpu_silu_slope(x[i]) +     \
                   ls__cpu_gelu_tanh_slope(x[i]);                                                                      \
    }
LOOP(plain, )
#if defined(__x86_64__)
LOOP(avx2, __attribute__((target("avx2,fma"))))
LOOP(avx512, __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,fma"))))
#endif

static void test_same_bits(void **state)
{
    static float x[N], want[N], got[N];
    for (int i = 0; i < N; i++) x[i] = -15.0f + 30.0f * (float)i / N;
    plain(x, want);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        avx2(x, got);
        assert_memory_equal(got, want, sizeof want);
    }
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
        avx512(x, got);
        assert_memory_equal(got, want, sizeof want);
    }
#else
    (void)got;
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
