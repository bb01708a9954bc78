/* test_queue.c: what goes in comes out once and in order; close wakes everybody. */
#include "base/queue.h"
#include "engine.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { N_ITEMS = 20000, N_SIDES = 3 };

static void test_order_and_close(void **state)
{
    struct ls_queue *q;
    int items[3];
    check_ok(ls__queue_create(&q, 3));
    for (int i = 0; i < 3; i++) assert_true(ls__queue_put(q, &items[i]));
    assert_ptr_equal(ls__queue_take(q), &items[0]);
    assert_true(ls__queue_put(q, &items[0])); /* round the ring */
    ls__queue_close(q);
    assert_false(ls__queue_put(q, &items[1]));
    assert_ptr_equal(ls__queue_take(q), &items[1]); /* what is left is drained */
    assert_ptr_equal(ls__queue_take(q), &items[2]);
    assert_ptr_equal(ls__queue_take(q), &items[0]);
    assert_null(ls__queue_take(q));
    assert_null(ls__queue_take(q));
    ls__queue_destroy(&q);
    assert_null(q);
    ls__queue_destroy(&q);
}

struct traffic {
    struct ls_queue *q;
    atomic_int n_put, n_taken, seen[N_ITEMS];
    int items[N_ITEMS];
};

static void *producer(void *arg)
{
    struct traffic *t = arg;
    for (int i; (i = atomic_fetch_add(&t->n_put, 1)) < N_ITEMS;)
        if (!ls__queue_put(t->q, &t->items[i])) return NULL;
    return NULL;
}

static void *consumer(void *arg)
{
    struct traffic *t = arg;
    for (int *item; (item = ls__queue_take(t->q));) {
        atomic_fetch_add(&t->seen[item - t->items], 1);
        atomic_fetch_add(&t->n_taken, 1);
    }
    return NULL;
}

static void test_many_threads(void **state)
{
    struct traffic *t = calloc(1, sizeof *t);
    pthread_t in[N_SIDES], out[N_SIDES];
    assert_non_null(t);
    check_ok(ls__queue_create(&t->q, 4));
    for (int i = 0; i < N_SIDES; i++) assert_int_equal(pthread_create(&in[i], NULL, producer, t), 0);
    for (int i = 0; i < N_SIDES; i++) assert_int_equal(pthread_create(&out[i], NULL, consumer, t), 0);
    for (int i = 0; i < N_SIDES; i++) pthread_join(in[i], NULL);
    ls__queue_close(t->q);
    for (int i = 0; i < N_SIDES; i++) pthread_join(out[i], NULL);
    assert_int_equal(t->n_taken, N_ITEMS);
    for (int i = 0; i < N_ITEMS; i++) assert_int_equal(t->seen[i], 1);
    ls__queue_destroy(&t->q);
    free(t);
}

static void *blocked_put(void *arg)
{
    struct ls_queue *q = arg;
    return ls__queue_put(q, q) ? q : NULL;
}

static void *blocked_take(void *arg)
{
    return ls__queue_take(arg);
}

/* One thread waits on a full queue, one on an empty queue; close lets both go. */
static void test_close_wakes(void **state)
{
    struct ls_queue *full, *empty;
    pthread_t a, b;
    void *put = &a, *taken = &b;
    check_ok(ls__queue_create(&full, 1));
    check_ok(ls__queue_create(&empty, 1));
    assert_true(ls__queue_put(full, &a));
    assert_int_equal(pthread_create(&a, NULL, blocked_put, full), 0);
    assert_int_equal(pthread_create(&b, NULL, blocked_take, empty), 0);
    usleep(20000); /* long enough that both are very likely waiting */
    ls__queue_close(full);
    ls__queue_close(empty);
    pthread_join(a, &put);
    pthread_join(b, &taken);
    assert_null(put);
    assert_null(taken);
    ls__queue_destroy(&full);
    ls__queue_destroy(&empty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_close),
        cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_close_wakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
