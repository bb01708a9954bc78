/* test_serve.c: who may look at the live page: Hosts and tokens as strangers write them, and numbers of runs. */
#include "serve/guard.h"
#include "serve/site.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void hosts_on_loopback(void **state)
{
    const struct ls_guard g = {.is_local = true, .host = "127.0.0.1"};
    static const char *const good[] = {"localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:8420",
                                       "[::1]",     "[::1]:1",      "localhost:"};
    static const char *const bad[] = {"",
                                      ":",
                                      "[",
                                      "[]",
                                      "[::1",
                                      "[::1]x",
                                      "localhost:x",
                                      "localhost.evil.example",
                                      "evil.example",
                                      "10.0.0.1",
                                      "127.0.0.1.",
                                      "localhost:80:80",
                                      "localhost ",
                                      "::1"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) assert_true(ls__guard_accepts_host(&g, good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_false(ls__guard_accepts_host(&g, bad[i]));
    assert_false(ls__guard_accepts_host(&g, NULL));
}

static void hosts_elsewhere(void **state)
{
    const struct ls_guard g = {.host = "0.0.0.0", .machine = "trainer"};
    char longest[2000];
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_true(ls__guard_accepts_host(&g, "trainer:8420"));
    assert_true(ls__guard_accepts_host(&g, "10.1.2.3"));
    assert_true(ls__guard_accepts_host(&g, "[fe80::1]:8420"));
    assert_false(ls__guard_accepts_host(&g, "trainer.evil.example"));
    assert_false(ls__guard_accepts_host(&g, "10.1.2.3.evil.example"));
    assert_false(ls__guard_accepts_host(&g, longest));
}

static void tokens(void **state)
{
    struct ls_guard g = {.is_local = true};
    char first[LS_TOKEN_BYTES];
    assert_true(ls__guard_accepts_token(&g, NULL)); /* none is needed */
    assert_int_equal(ls__guard_make_token(g.token, sizeof g.token), LS_OK);
    assert_int_equal(ls__guard_make_token(first, sizeof first), LS_OK);
    assert_string_not_equal(first, g.token);
    assert_int_equal(strlen(g.token), 32);
    assert_true(ls__guard_is_token(g.token));
    memcpy(first, g.token, sizeof first);
    assert_true(ls__guard_accepts_token(&g, first));
    assert_false(ls__guard_accepts_token(&g, NULL));
    assert_false(ls__guard_accepts_token(&g, ""));
    first[31] ^= 1;
    assert_false(ls__guard_accepts_token(&g, first));
    first[31] = '\0';
    assert_false(ls__guard_accepts_token(&g, first));
    assert_false(ls__guard_is_token("short"));
    assert_false(ls__guard_is_token("with blank"));
    assert_false(ls__guard_is_token("semi;colon"));
}

static void numbers_of_runs(void **state)
{
    struct ls_view view = {0};
    assert_true(ls__view_add_id(&view, "0123456789abcdef"));
    assert_true(ls__view_add_id(&view, "0123456789abcdef")); /* the same again */
    assert_int_equal(view.n_ids, 1);
    assert_true(view.ids[0] == UINT64_C(0x0123456789abcdef));
    assert_false(ls__view_add_id(&view, NULL));
    assert_false(ls__view_add_id(&view, "0123456789abcde"));
    assert_false(ls__view_add_id(&view, "0123456789abcdef0"));
    assert_false(ls__view_add_id(&view, "0123456789ABCDEF"));
    assert_false(ls__view_add_id(&view, "../../etc/passwd"));
    for (int i = 1; i < LS_MAX_COMPARED; i++) {
        char text[17];
        snprintf(text, sizeof text, "%016x", i);
        assert_true(ls__view_add_id(&view, text));
    }
    assert_false(ls__view_add_id(&view, "ffffffffffffffff"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(hosts_on_loopback), cmocka_unit_test(hosts_elsewhere),
                                       cmocka_unit_test(tokens), cmocka_unit_test(numbers_of_runs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
