/* test_pool.c: every item runs exactly once, the lowest failing item speaks, and rounds may follow each other quickly.
 */
#include "base/pool.h"
#include "engine.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { MOST_ITEMS = 5000, MOST_THREADS = 9 };

struct round {
    int n_threads;
    atomic_int seen[MOST_ITEMS];
    atomic_int by_worker[MOST_THREADS];
    atomic_int active[MOST_THREADS]; /* no two items at once on one worker */
    bool (*fails)(int item);
};

static enum ls_status visit(void *arg, int item, int worker)
{
    struct round *r = arg;
    if (worker < 0 || worker >= r->n_threads) return ls_fail(LS_INTERNAL, "worker %d of %d", worker, r->n_threads);
    if (atomic_fetch_add(&r->active[worker], 1) != 0) return ls_fail(LS_INTERNAL, "worker %d is in use", worker);
    atomic_fetch_add(&r->seen[item], 1);
    atomic_fetch_add(&r->by_worker[worker], 1);
    atomic_fetch_sub(&r->active[worker], 1);
    if (r->fails && r->fails(item)) return ls_fail(item % 2 ? LS_IO : LS_DATA, "item %d", item);
    return LS_OK;
}

static void check_once(struct round *r, int n_items)
{
    for (int i = 0; i < MOST_ITEMS; i++) assert_int_equal(atomic_exchange(&r->seen[i], 0), i < n_items);
}

static void test_every_item_once(void **state)
{
    static struct round r;
    for (int n_threads = 1; n_threads <= MOST_THREADS; n_threads += 2) { /* more than there are CPUs, too */
        struct ls_pool *pool;
        r.n_threads = n_threads;
        check_ok(ls__pool_create(&pool, n_threads, n_threads == 3, NULL));
        assert_int_equal(ls__pool_n_threads(pool), n_threads);
        static const int counts[] = {0, 1, 2, 7, 100, MOST_ITEMS};
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            check_ok(ls__pool_run(pool, counts[i], visit, &r));
            check_once(&r, counts[i]);
        }
        ls__pool_destroy(&pool);
        assert_null(pool);
    }
}

/* Rounds of a handful of items, one after the other: where a lost wake-up or a late worker would show. */
static void test_quick_rounds(void **state)
{
    static struct round r;
    for (int n_threads = 2; n_threads <= 4; n_threads++) {
        struct ls_pool *pool;
        r.n_threads = n_threads;
        check_ok(ls__pool_create(&pool, n_threads, false, NULL));
        for (int i = 0; i < 3000; i++) {
            int n = i % 5;
            check_ok(ls__pool_run(pool, n, visit, &r));
            for (int k = 0; k < 5; k++) assert_int_equal(atomic_exchange(&r.seen[k], 0), k < n);
        }
        ls__pool_destroy(&pool);
    }
}

static bool from_37(int item)
{
    return item >= 37;
}

static bool only_99(int item)
{
    return item == 99;
}

static void test_lowest_failure(void **state)
{
    static struct round r;
    for (int n_threads = 1; n_threads <= 5; n_threads++) {
        struct ls_pool *pool;
        r.n_threads = n_threads;
        check_ok(ls__pool_create(&pool, n_threads, false, NULL));
        for (int i = 0; i < 50; i++) {
            r.fails = from_37;
            check_fails(ls__pool_run(pool, 100, visit, &r), LS_IO, "item 37");
            assert_string_equal(ls_error_message(), "item 37");
            check_once(&r, 100); /* the others still ran */
            r.fails = only_99;
            check_fails(ls__pool_run(pool, 100, visit, &r), LS_IO, "item 99");
            check_once(&r, 100);
            r.fails = NULL;
            check_ok(ls__pool_run(pool, 100, visit, &r)); /* a failure is forgotten */
            check_once(&r, 100);
        }
        ls__pool_destroy(&pool);
    }
}

static atomic_int n_started;
static _Thread_local int has_started;

static void start(void)
{
    has_started++;
    atomic_fetch_add(&n_started, 1);
}

static enum ls_status check_started(void *arg, int item, int worker)
{
    return has_started == 1 ? LS_OK : ls_fail(LS_INTERNAL, "worker %d has started %d times", worker, has_started);
}

static void test_at_start(void **state)
{
    struct ls_pool *pool;
    has_started = 0;
    check_ok(ls__pool_create(&pool, 4, false, start));
    for (int i = 0; i < 100; i++) check_ok(ls__pool_run(pool, 8, check_started, NULL));
    ls__pool_destroy(&pool); /* a round does not wait for workers it had no items for; the end waits for all */
    assert_int_equal(n_started, 4);
}

/* A pool that never ran anything, and one destroyed right after a round, both end: no wake-up is lost. */
static void test_ends(void **state)
{
    static struct round r = {.n_threads = 4};
    for (int i = 0; i < 100; i++) {
        struct ls_pool *pool;
        check_ok(ls__pool_create(&pool, 4, false, NULL));
        if (i % 2) check_ok(ls__pool_run(pool, 4, visit, &r));
        ls__pool_destroy(&pool);
        ls__pool_destroy(&pool);
    }
}

/* Pinning must leave the caller as it was: threads started later would inherit its mask. */
static void test_caller_is_not_pinned(void **state)
{
    cpu_set_t before, after;
    struct ls_pool *pool;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(ls__cpu_count(), CPU_COUNT(&before));
    check_ok(ls__pool_create(&pool, CPU_COUNT(&before), true, NULL));
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
    ls__pool_destroy(&pool);
}

#if defined(__x86_64__) || defined(__aarch64__)
static const volatile float small = 1e-30f, smaller = 1e-10f, tiny = 1e-40f, two = 2;

static bool has_tiny_numbers(void)
{
    return small * smaller != 0 || tiny * two != 0;
}

static enum ls_status check_tiny(void *arg, int item, int worker)
{
    return has_tiny_numbers() ? ls_fail(LS_INTERNAL, "worker %d computes with denormals", worker) : LS_OK;
}

/* Numbers of a round are normal or zero, results and operands, in every thread; the caller is left as it was. */
static void test_tiny_is_zero(void **state)
{
    struct ls_pool *pool;
    check_ok(ls__pool_create(&pool, 3, false, NULL));
    assert_true(has_tiny_numbers());
    for (int i = 0; i < 100; i++) check_ok(ls__pool_run(pool, 12, check_tiny, NULL));
    assert_true(has_tiny_numbers());
    ls__pool_destroy(&pool);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_item_once),
        cmocka_unit_test(test_quick_rounds),
        cmocka_unit_test(test_lowest_failure),
        cmocka_unit_test(test_at_start),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_caller_is_not_pinned),
#if defined(__x86_64__) || defined(__aarch64__)
        cmocka_unit_test(test_tiny_is_zero),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
