/* test_moments.c: what a device did while the host waited for it: the two end together, and what was added while the
 * host still launched is hidden.
 */
#include "engine.h"
#include "exec/exec_internal.h"

static void check(const char *what, int64_t wait_ns, const int64_t *moments, struct waited expected)
{
    const struct waited w = ls__moments_split(wait_ns, moments);
    if (w.compute_ns != expected.compute_ns || w.communicate_ns != expected.communicate_ns ||
        w.update_ns != expected.update_ns)
        print_error("%s: %lld, %lld, %lld instead of %lld, %lld, %lld\n", what, (long long)w.compute_ns,
                    (long long)w.communicate_ns, (long long)w.update_ns, (long long)expected.compute_ns,
                    (long long)expected.communicate_ns, (long long)expected.update_ns);
    assert_int_equal(w.compute_ns, expected.compute_ns);
    assert_int_equal(w.communicate_ns, expected.communicate_ns);
    assert_int_equal(w.update_ns, expected.update_ns);
    assert_int_equal(w.compute_ns + w.communicate_ns + w.update_ns, wait_ns);
}

static void test_split(void **state)
{
    const int64_t step[] = {0, 600, 900, 1000}; /* shards, sums, updates */
    check("all of the step", 1000, step, (struct waited){600, 300, 100});
    check("longer than the step", 1100, step, (struct waited){700, 300, 100});
    check("launched while it computed", 500, step, (struct waited){100, 300, 100});
    check("launched while it added", 250, step, (struct waited){0, 150, 100});
    check("launched while it updated", 40, step, (struct waited){0, 0, 40});
    check("nobody waited", 0, step, (struct waited){0, 0, 0});
}

static void test_odd_clocks(void **state)
{
    check("sums at once", 100, (const int64_t[]){0, 50, 50, 60}, (struct waited){90, 0, 10});
    check("no shards", 100, (const int64_t[]){0, 0, 90, 100}, (struct waited){0, 90, 10});
    check("rounded backwards", 100, (const int64_t[]){0, 51, 50, 49}, (struct waited){100, 0, 0});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_split), cmocka_unit_test(test_odd_clocks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
