/* test_comm_pack.c: sums in few bits (comm/pack.c): every number comes back, every malformed message is refused, and no
 * byte beyond a buffer is touched. */
#include "comm/comm_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GUARD = 64, GUARD_BYTE = 0xa5, MAX_N = 1000 };

static uint64_t state = 88172645463325252u;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* A buffer of exactly `bytes` between two guards. */
static uint8_t *guarded(size_t bytes)
{
    uint8_t *whole = malloc(bytes + 2 * GUARD);
    assert_non_null(whole);
    memset(whole, GUARD_BYTE, bytes + 2 * GUARD);
    return whole + GUARD;
}

static void end_guarded(uint8_t *data, size_t bytes)
{
    for (int i = 0; i < GUARD; i++) {
        assert_int_equal(data[i - GUARD], GUARD_BYTE);
        assert_int_equal(data[bytes + (size_t)i], GUARD_BYTE);
    }
    free(data - GUARD);
}

static void check_equal(const int64_t *got, const int64_t *expected, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (got[i] != expected[i])
            fail_msg("number %zu of %zu: got %lld, expected %lld", i, n, (long long)got[i], (long long)expected[i]);
}

/* There and back, as values and added to others; returns the packed size. */
static size_t round_trip(const int64_t *x, size_t n)
{
    size_t bound = ls__pack_bound(n);
    uint8_t *packed = guarded(bound);
    size_t bytes = ls__pack(x, n, packed);
    assert_true(bytes <= bound);
    uint8_t *message = guarded(bytes); /* no more than was sent */
    memcpy(message, packed, bytes);
    int64_t *back = (int64_t *)(void *)guarded(n * sizeof *back), expected[MAX_N];
    assert_true(ls__unpack(message, bytes, back, n, false));
    check_equal(back, x, n);
    for (size_t i = 0; i < n; i++) {
        back[i] = (int64_t)next_random();
        expected[i] = (int64_t)((uint64_t)back[i] + (uint64_t)x[i]); /* modulo 2^64, as sums are */
    }
    assert_true(ls__unpack(message, bytes, back, n, true));
    check_equal(back, expected, n);
    end_guarded((uint8_t *)back, n * sizeof *back);
    end_guarded(message, bytes);
    end_guarded(packed, bound);
    return bytes;
}

static void random_numbers_come_back(void **unused)
{
    int64_t x[MAX_N];
    (void)unused;
    for (int round = 0; round < 3000; round++) {
        size_t n = next_random() % (MAX_N + 1);
        int bits = (int)(next_random() % 65), shift = (int)(next_random() % 64);
        for (size_t i = 0; i < n; i++) {
            int64_t v = bits ? (int64_t)next_random() >> (64 - bits) : 0;
            x[i] = (int64_t)((uint64_t)v << shift);
            if (next_random() % 500 == 0) x[i] = (int64_t)next_random(); /* one that does not fit the others */
        }
        round_trip(x, n);
    }
}

static void extremes_come_back(void **unused)
{
    static const int64_t extremes[] = {
        0, 1, -1, INT64_MAX, INT64_MIN, INT64_MIN + 1, INT64_MAX - 1, INT64_MIN / 2, 1LL << 62};
    enum { N = sizeof extremes / sizeof extremes[0] };
    int64_t x[MAX_N];
    (void)unused;
    for (int i = 0; i < N; i++) {
        for (size_t n = 1; n <= 130; n++) { /* a block, one less, one more */
            for (size_t k = 0; k < n; k++) x[k] = extremes[i];
            round_trip(x, n);
        }
        for (int j = 0; j < N; j++) {
            for (size_t k = 0; k < 300; k++) x[k] = extremes[k % 2 ? i : j];
            round_trip(x, 300);
        }
    }
    assert_int_equal(round_trip(x, 0), 0);
}

/* Every width at every shift, alone in a block. */
static void every_width_and_shift(void **unused)
{
    int64_t x[3];
    (void)unused;
    for (int bits = 1; bits <= 64; bits++) {
        for (int shift = 0; bits + shift <= 64; shift++) {
            x[0] = (int64_t)((uint64_t)(INT64_MIN >> (64 - bits)) << shift);
            x[1] = (int64_t)((uint64_t) ~(INT64_MIN >> (64 - bits)) << shift);
            x[2] = (int64_t)((uint64_t)1 << (shift < 63 ? shift : 0));
            round_trip(x, 3);
        }
    }
}

static void small_numbers_are_small(void **unused)
{
    int64_t x[MAX_N] = {0};
    (void)unused;
    size_t zeros = round_trip(x, MAX_N);
    for (int i = 0; i < MAX_N; i++) x[i] = (int64_t)(next_random() % 1024) - 512;
    size_t tens = round_trip(x, MAX_N);
    for (int i = 0; i < MAX_N; i++) x[i] = (int64_t)((uint64_t)x[i] << 40);
    size_t shifted = round_trip(x, MAX_N);
    assert_true(zeros <= 8 * 2); /* headers alone */
    assert_true(tens <= MAX_N * 10 / 8 + 8 * 3);
    assert_int_equal(tens, shifted); /* zeros at the end cost nothing */
}

static void malformed_messages_are_refused(void **unused)
{
    int64_t x[MAX_N], back[MAX_N];
    uint8_t packed[MAX_N * 8 + 100];
    (void)unused;
    for (int i = 0; i < MAX_N; i++) x[i] = (int64_t)next_random() >> 30;
    size_t bytes = ls__pack(x, MAX_N, packed);
    for (size_t cut = 0; cut < bytes; cut++) { /* of exactly that size, so that a sanitizer sees a byte too many */
        uint8_t *message = guarded(cut);
        memcpy(message, packed, cut);
        if (ls__unpack(message, cut, back, MAX_N, false)) fail_msg("%zu of %zu bytes were accepted", cut, bytes);
        end_guarded(message, cut);
    }
    assert_false(ls__unpack(packed, bytes + 1, back, MAX_N, false)); /* a byte too many */
    assert_false(ls__unpack(packed, bytes, back, MAX_N - 128, false));
    packed[0] = 65; /* bits */
    assert_false(ls__unpack(packed, bytes, back, MAX_N, false));
    packed[0] = 255;
    assert_false(ls__unpack(packed, bytes, back, MAX_N, false));
    packed[0] = 0;
    packed[1] = 64; /* shift */
    assert_false(ls__unpack(packed, 2, back, 128, false));
    packed[1] = 63;
    assert_true(ls__unpack(packed, 2, back, 128, false));
}

/* Any bytes: refused or unpacked, never more than n numbers written. */
static void noise_stays_within_bounds(void **unused)
{
    (void)unused;
    for (int round = 0; round < 20000; round++) {
        size_t bytes = next_random() % 600, n = next_random() % 400;
        uint8_t *message = guarded(bytes), *back = guarded(n * sizeof(int64_t));
        for (size_t i = 0; i < bytes; i++) message[i] = (uint8_t)next_random();
        if (bytes > 1) message[0] %= 8, message[1] %= 64; /* get past the first header */
        memset(back, 0, n * sizeof(int64_t));
        (void)ls__unpack(message, bytes, (int64_t *)(void *)back, n, round % 2);
        end_guarded(back, n * sizeof(int64_t));
        end_guarded(message, bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_numbers_come_back),       cmocka_unit_test(extremes_come_back),
        cmocka_unit_test(every_width_and_shift),          cmocka_unit_test(small_numbers_are_small),
        cmocka_unit_test(malformed_messages_are_refused), cmocka_unit_test(noise_stays_within_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
