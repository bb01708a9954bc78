/* test_nodes.c: how a network is written, and what a remote shell of nodes takes for its own. */
#include "nodes/nodes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void good_shapes(void **state)
{
    static const struct {
        const char *text;
        double bits, delay, loss;
        const char *words;
    } cases[] = {
        {"1gbit,0.1ms", 1e9, 1e-4, 0, "1 Gbit/s, 0.1 ms"},
        {"100mbit,20ms,1%", 1e8, 0.02, 0.01, "100 Mbit/s, 20 ms, 1 % lost"},
        {"50us,2.5Gbit", 2.5e9, 5e-5, 0, "2.5 Gbit/s, 0.05 ms"},
        {"64kbit", 64e3, 0, 0, "64 kbit/s, no delay"},
        {"1s", 0, 1, 0, "any rate, 1000 ms"},
        {"0.5%", 0, 0, 0.005, "any rate, no delay, 0.5 % lost"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ls_cable_shape s;
        char words[96];
        assert_true(ls__cable_shape_parse(cases[i].text, &s));
        ls__cable_shape_print(&s, words, sizeof words);
        assert_string_equal(words, cases[i].words);
        assert_true(s.bits_per_second == cases[i].bits);
        assert_true(s.delay > cases[i].delay * 0.999999 - 1e-12 && s.delay < cases[i].delay * 1.000001 + 1e-12);
        assert_true(s.loss > cases[i].loss * 0.999999 - 1e-12 && s.loss < cases[i].loss * 1.000001 + 1e-12);
    }
}

static void bad_shapes(void **state)
{
    static const char *const texts[] = {"",
                                        ",",
                                        "1gbit,",
                                        "1gbit,,1ms",
                                        "1",
                                        "gbit",
                                        "1gb",
                                        "-1gbit",
                                        "1gbit,2gbit",
                                        "1ms,2ms",
                                        "1%,2%",
                                        "60%",
                                        "11s",
                                        "1gbit 1ms",
                                        "1e999gbit",
                                        "9kbit",
                                        "2000gbit",
                                        "1.2.3ms",
                                        "11111111111111111111111111111111111111111ms"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct ls_cable_shape s;
        if (ls__cable_shape_parse(texts[i], &s)) fail_msg("'%s' was taken", texts[i]);
    }
}

static void calls_of_the_shell(void **state)
{
    char *call[] = {"lockstep", "-x", "10.77.0.2", "true", NULL}, *rank[] = {"lockstep", "train", "10.77.0.2", NULL};
    unsetenv("LOCKSTEP_NODE_FILES");
    assert_false(ls__nodes_is_shell(4, call));
    setenv("LOCKSTEP_NODE_FILES", "1:3,4", 1);
    assert_true(ls__nodes_is_shell(4, call));
    assert_false(ls__nodes_is_shell(3, rank));
    call[2] = "10.77.0.9";
    assert_int_equal(ls__nodes_shell(4, call), LS_ERROR); /* there are two */
    unsetenv("LOCKSTEP_NODE_FILES");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(good_shapes), cmocka_unit_test(bad_shapes),
                                       cmocka_unit_test(calls_of_the_shell)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
