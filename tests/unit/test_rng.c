/* test_rng.c: Philox gives the published numbers, and ls__rng spreads its keys as told. */
#include "engine.h"

#include <math.h>

static void test_known_answers(void **state)
{
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint32_t *c = cases[i].counter, *key = cases[i].key;
        const struct ls_rng4 r = ls__philox(c[0], c[1], c[2], c[3], key[0], key[1]);
        for (int k = 0; k < 4; k++) assert_int_equal(r.v[k], cases[i].want[k]);
    }
}

static bool is_same(struct ls_rng4 a, struct ls_rng4 b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

/* Every part of the key counts, both halves of the wide ones too. */
static void test_every_key_counts(void **state)
{
    const struct ls_rng4 base = ls__rng(1, LS_RNG_INIT, 2, 3, 4);
    assert_true(is_same(base, ls__rng(1, LS_RNG_INIT, 2, 3, 4)));
    assert_false(is_same(base, ls__rng(2, LS_RNG_INIT, 2, 3, 4)));
    assert_false(is_same(base, ls__rng(1 + ((uint64_t)1 << 32), LS_RNG_INIT, 2, 3, 4)));
    assert_false(is_same(base, ls__rng(1, LS_RNG_DATA, 2, 3, 4)));
    assert_false(is_same(base, ls__rng(1, LS_RNG_INIT, 3, 3, 4)));
    assert_false(is_same(base, ls__rng(1, LS_RNG_INIT, 2, 4, 4)));
    assert_false(is_same(base, ls__rng(1, LS_RNG_INIT, 2, 3, 5)));
    assert_false(is_same(base, ls__rng(1, LS_RNG_INIT, 2, 3, 4 + ((uint64_t)1 << 32))));
}

static void test_unit_and_below(void **state)
{
    double sum = 0;
    int hits[7] = {0};
    enum { N = 4096 };
    assert_true(ls__rng_unit(0) == 0.0f);
    assert_true(ls__rng_unit(UINT32_MAX) < 1.0f);
    assert_int_equal(ls__rng_below(0, 7), 0);
    assert_int_equal(ls__rng_below(UINT32_MAX, 7), 6);
    assert_int_equal(ls__rng_below(UINT32_MAX, (uint64_t)1 << 32), UINT32_MAX);
    for (uint32_t i = 0; i < N; i++) {
        const struct ls_rng4 r = ls__rng(5, LS_RNG_AUGMENT, i, 0, 0);
        for (int k = 0; k < 4; k++) {
            sum += (double)ls__rng_unit(r.v[k]);
            hits[ls__rng_below(r.v[k], 7)]++;
        }
    }
    /* five standard deviations: sqrt(1/12/n) and sqrt(n*1/7*6/7) */
    const double mean = sum / (4.0 * N), slack = 5 * sqrt(1.0 / 12 / (4.0 * N));
    if (fabs(mean - 0.5) > slack) print_error("mean %g\n", mean);
    assert_true(fabs(mean - 0.5) <= slack);
    for (int k = 0; k < 7; k++) assert_true(fabs(hits[k] - 4.0 * N / 7) < 5 * sqrt(4.0 * N * 6 / 49));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_every_key_counts),
        cmocka_unit_test(test_unit_and_below),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
