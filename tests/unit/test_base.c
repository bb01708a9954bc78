/* test_base.c: status messages, growing texts, strict numbers, checked memory, tensors' shapes. */
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/quote.h"
#include "engine.h"

#include <pthread.h>
#include <stdio.h>

/* --- status --- */

static enum ls_status two_deep(void)
{
    TRY(ls_fail(LS_IO, "open %s", "x"));
    return LS_OK;
}

static void test_messages(void **state)
{
    assert_int_equal(two_deep(), LS_IO);
    assert_string_equal(ls_error_message(), "open x");
    assert_int_equal(ls_fail_in(LS_DATA, "line %d", 3), LS_DATA);
    assert_string_equal(ls_error_message(), "line 3: open x");
    /* an argument may be the old message itself */
    assert_int_equal(ls_fail(LS_ERROR, "again: %s", ls_error_message()), LS_ERROR);
    assert_string_equal(ls_error_message(), "again: line 3: open x");
}

static void test_long_messages_are_cut(void **state)
{
    char text[3000];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(ls_fail(LS_ERROR, "%s", text), LS_ERROR);
    assert_int_equal(strlen(ls_error_message()), 1023);
    assert_int_equal(ls_fail_in(LS_ERROR, "%s", text), LS_ERROR);
    assert_int_equal(strlen(ls_error_message()), 1023);
}

static void *fail_elsewhere(void *arg)
{
    *(enum ls_status *)arg = ls_fail(LS_IO, "another thread's");
    return NULL;
}

static void test_messages_belong_to_threads(void **state)
{
    pthread_t t;
    enum ls_status there = LS_OK;
    assert_int_equal(ls_fail(LS_ERROR, "mine"), LS_ERROR);
    assert_int_equal(pthread_create(&t, NULL, fail_elsewhere, &there), 0);
    pthread_join(t, NULL);
    assert_int_equal(there, LS_IO);
    assert_string_equal(ls_error_message(), "mine");
}

static void test_status_table(void **state)
{
    assert_string_equal(ls_status_name(LS_NONFINITE), "NONFINITE");
    assert_int_equal(ls_status_exit_code(LS_OK), 0);
    assert_int_equal(ls_status_exit_code(LS_USAGE), 2);
    assert_int_equal(ls_status_exit_code(LS_DATA), 3);
    assert_int_equal(ls_status_exit_code(LS_CHECKPOINT), 4);
    assert_int_equal(ls_status_exit_code(LS_NONFINITE), 5);
    assert_int_equal(ls_status_exit_code(LS_TIMEOUT), 6);
    assert_int_equal(ls_status_exit_code(LS_INTERRUPTED), 75);
}

/* --- buf --- */

static void test_buf(void **state)
{
    struct ls_buf b = LS_BUF_INIT;
    assert_string_equal(b.text, "");
    for (int i = 0; i < 1000; i++) ls__buf_addf(&b, "%d,", i);
    ls__buf_add(&b, "a\0b", 3);
    check_ok(ls__buf_check(&b));
    assert_int_equal(b.len, 10 * 2 + 90 * 3 + 900 * 4 + 3);
    assert_int_equal(strncmp(b.text, "0,1,2,", 6), 0);
    assert_int_equal(b.text[b.len], '\0');
    assert_memory_equal(b.text + b.len - 3, "a\0b", 3);
    ls__buf_truncate(&b, 100000); /* no effect */
    ls__buf_truncate(&b, 3);
    assert_string_equal(b.text, "0,1");
    char *text = ls__buf_take(&b);
    assert_string_equal(text, "0,1");
    free(text);
    assert_int_equal(b.len, 0); /* as new */
    text = ls__buf_take(&b);
    assert_string_equal(text, "");
    free(text);
    ls__buf_release(&b);
    ls__buf_release(&b);
}

/* --- parse --- */

static void test_integers(void **state)
{
    static const char *const bad[] = {"",   "-", "+1", " 1", "1 ", "1x", "0x10", "1.0", "--1", "9223372036854775808",
                                      "11", "-6"};
    int64_t v = 42;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (ls__parse_i64(bad[i], -5, 10, &v)) print_error("'%s' was taken\n", bad[i]);
        assert_false(ls__parse_i64(bad[i], -5, 10, &v));
        assert_int_equal(v, 42); /* untouched */
    }
    assert_true(ls__parse_i64("-5", -5, 10, &v) && v == -5);
    assert_true(ls__parse_i64("10", -5, 10, &v) && v == 10);
    assert_true(ls__parse_i64("9223372036854775807", 0, INT64_MAX, &v) && v == INT64_MAX);
}

static void test_reals(void **state)
{
    static const char *const bad[] = {"",     "-",     ".",  "e5", "nan", "inf", "-inf",
                                      "-nan", "1e999", " 1", "1 ", "1,5", "+1"};
    double v = 42;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (ls__parse_f64(bad[i], &v)) print_error("'%s' was taken\n", bad[i]);
        assert_false(ls__parse_f64(bad[i], &v));
        assert_true(v == 42);
    }
    assert_true(ls__parse_f64("-.5", &v) && v == -0.5);
    assert_true(ls__parse_f64("1e-3", &v) && v == 1e-3);
}

static void test_dims(void **state)
{
    static const char *const bad[] = {
        "", "x", "0", "1x", "1x0", "65537", "1x2x3x4", "-1", "3x 4", "3X4", "99999999999999999999"};
    int64_t d[3];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_int_equal(ls__parse_dims(bad[i], d), 0);
    assert_int_equal(ls__parse_dims("224", d), 1);
    assert_int_equal(d[0], 224);
    assert_int_equal(ls__parse_dims("3x65536x1", d), 3);
    assert_true(d[0] == 3 && d[1] == 65536 && d[2] == 1);
}

/* --- memory --- */

/* AddressSanitizer ends the program at a request that cannot be met, unless told to answer NULL as others do. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static void test_sizes_that_overflow(void **state)
{
    char *p = NULL;
    check_fails(ls__calloc(&p, SIZE_MAX / 2, 4), LS_NOMEM, "out of memory");
    assert_null(p);
    check_ok(ls__calloc(&p, 3, 2));
    memcpy(p, "abcdef", 6);
    check_fails(ls__grow(&p, 3, SIZE_MAX / 2, 4), LS_NOMEM, "out of memory");
    assert_memory_equal(p, "abcdef", 6); /* the old array is kept */
    check_ok(ls__grow(&p, 3, 5, 2));
    assert_memory_equal(p, "abcdef\0\0\0\0", 10);
    free(p);
    check_fails(ls__alloc_aligned(&p, SIZE_MAX - 5), LS_NOMEM, "out of memory");
    assert_null(p);
}

/* Small, at both sides of the border to mmap, and large enough for huge pages; all zero, all aligned. */
static void test_aligned(void **state)
{
    static const size_t sizes[] = {0, 1, 63, 64, 65, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 9 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *p;
        check_ok(ls__alloc_aligned(&p, sizes[i]));
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        for (size_t k = 0; k < sizes[i]; k++) {
            if (p[k]) assert_int_equal(p[k], 0);
            p[k] = 1;
        }
        ls__free_aligned(p, sizes[i]);
    }
    ls__free_aligned(NULL, 5);
}

/* --- paths and shapes --- */

static void test_path_join(void **state)
{
    char out[8];
    check_ok(ls__path_join(out, sizeof out, "a", "b"));
    assert_string_equal(out, "a/b");
    check_ok(ls__path_join(out, sizeof out, "a/", "b"));
    assert_string_equal(out, "a/b");
    check_ok(ls__path_join(out, sizeof out, "", "b"));
    assert_string_equal(out, "b");
    check_ok(ls__path_join(out, sizeof out, "abc", "def"));
    check_fails(ls__path_join(out, sizeof out, "abcd", "def"), LS_ERROR, "path too long: abcd/def");
}

static void test_shapes(void **state)
{
    char text[LS_SHAPE_TEXT];
    const struct ls_shape a = LS_SHAPE4(16, 6, 28, 28), b = LS_SHAPE2(16, 6), none = {0};
    assert_string_equal(ls_shape_text(&a, text), "16x6x28x28");
    assert_string_equal(ls_shape_text(&none, text), "");
    assert_int_equal(ls_shape_count(&a), 16 * 6 * 28 * 28);
    assert_int_equal(ls_shape_count(&none), 1);
    assert_false(ls_shape_is_equal(&a, &b));
    assert_true(ls_shape_is_equal(&b, &LS_SHAPE2(16, 6)));
    assert_false(ls_shape_is_equal(&b, &LS_SHAPE2(16, 7)));
    const struct ls_shape wide = LS_SHAPE4(INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN);
    assert_int_equal(strlen(ls_shape_text(&wide, text)), 4 * 20 + 3); /* the longest there is fits */
    const struct ls_layout l = ls_layout_plain(&b, LS_I64);
    assert_int_equal(l.bytes, 16 * 6 * 8);
    assert_int_equal(l.id, LS_LAYOUT_PLAIN);
    assert_int_equal(ls_layout_any().id, LS_LAYOUT_ANY);
    assert_string_equal(ls_dtype_name(LS_U8), "u8");
}

static void test_quote(void **state)
{
    static const char *const words[][3] = {/* as it is, as a word, as a path */
                                           {"runs/a", "runs/a", "runs/a"},
                                           {"-x", "-x", "./-x"},
                                           {"", "''", "''"},
                                           {"--mpi-args=-a b", "'--mpi-args=-a b'", "./'--mpi-args=-a b'"},
                                           {"it's", "'it'\\''s'", "'it'\\''s'"},
                                           {"$(rm x)", "'$(rm x)'", "'$(rm x)'"}};
    char out[64];
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        assert_string_equal(ls__quote_word(words[i][0], out, sizeof out), words[i][1]);
        assert_string_equal(ls__quote_path(words[i][0], out, sizeof out), words[i][2]);
    }
    assert_string_equal(ls__quote_word("a b c d e f", out, 10), "'a b'"); /* cut, and still one word */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_long_messages_are_cut),
        cmocka_unit_test(test_messages_belong_to_threads),
        cmocka_unit_test(test_status_table),
        cmocka_unit_test(test_buf),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_reals),
        cmocka_unit_test(test_dims),
        cmocka_unit_test(test_sizes_that_overflow),
        cmocka_unit_test(test_aligned),
        cmocka_unit_test(test_path_join),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_quote),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
