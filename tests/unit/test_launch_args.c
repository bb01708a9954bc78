/* test_launch_args.c: which of mpirun's options --mpi-args sets, and where a program of the user's begins.
 *
 * The command line is no part of the library, so its source is compiled in here.
 */
#include "cli/launch_args.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

/* The only program there is. */
bool ls__find_program(const char *name, char out[LS_PATH_BYTES])
{
    return strcmp(name, "nice") == 0;
}

static void test_options_are_found(void **state)
{
    static const struct {
        const char *text, *names;
    } cases[] = {
        {"-n 4", " n np c "},
        {"  \t--np 4", " n np c "},
        {"-v --some-option value -n 4", " n np c "},
        {"-n=4", " n np c "},
        {"--mca btl self,tcp", " btl "},
        {"-mca pml ob1 --gmca btl self", " btl "},
        {"-x PATH -genv A B -iface lo", " iface "},
        {"--iface=lo", " iface "},
        {"--host a,b --bind-to core", " bind-to binding "},
        {"--mca btl_tcp_if_exclude eth0", " btl_tcp_if_include btl_tcp_if_exclude "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!ls__mpi_args_have(cases[i].text, cases[i].names))
            fail_msg("'%s' sets one of '%s'", cases[i].text, cases[i].names);
}

static void test_what_is_none(void **state)
{
    static const struct {
        const char *text, *names;
    } cases[] = {
        {NULL, " n "},
        {"", " n "},
        {"-", " n "},
        {"nice -n 5", " n "},
        {"./as machines 1 -- -n 5", " n "},
        {"-v nice -n 5", " n "},
        {"--mca btl self nice -n 5", " n "},
        {"-v /usr/bin/env -n 5", " n "},
        {"--mca btl_tcp_if_include lo", " btl lo mca "},
        {"-x n", " n "},
        {"--mca", " btl n "},
        {"--mca btl_base_verbose", " btl n "},
        {"--np-like 3", " n np "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (ls__mpi_args_have(cases[i].text, cases[i].names))
            fail_msg("'%s' sets none of '%s'", cases[i].text, cases[i].names);
}

static void test_long_words(void **state)
{
    char text[4 * WORD_BYTES];
    memset(text, 'x', sizeof text);
    memcpy(text, "-v --", 5);
    memcpy(text + sizeof text - 6, " -n 4", 6);
    assert_true(ls__mpi_args_have(text, " n "));
    assert_false(ls__mpi_args_have(text, " np "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_are_found),
        cmocka_unit_test(test_what_is_none),
        cmocka_unit_test(test_long_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
