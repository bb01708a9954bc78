/* test_feed.c: a batch by its number is the loader's: the same samples, labels and pixels, in whatever order batches
 * and parts of them are asked for; what there is not is refused. */
#include "data/feed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "expect.h"

enum { N = 103, BATCH = 20, STEPS = 6, EPOCHS = 3 };

/* Batch `step` of `epoch` of the feed against the loader's, whose turn it is. */
static void compare(struct ls_feed *feed, const struct ls_dataset *ds, const struct ls_batch *want)
{
    struct ls_batch got;
    const size_t bytes = (size_t)ds->c * (size_t)ds->h * (size_t)ds->w;
    check_ok(ls_feed_batch(feed, want->epoch, want->step, &got));
    assert_int_equal(got.n, want->n);
    assert_int_equal(got.epoch, want->epoch);
    assert_int_equal(got.step, want->step);
    assert_memory_equal(got.samples, want->samples, (size_t)want->n * sizeof *want->samples);
    assert_memory_equal(got.labels, want->labels, (size_t)want->n * sizeof *want->labels);
    for (int part = 1; part >= 0; part--) { /* the second half first */
        const int first = part * (want->n / 2), n = part ? want->n - first : want->n / 2;
        check_ok(ls_feed_read(feed, first, n));
        for (int i = first; i < first + n; i++) assert_memory_equal(got.pixels[i], want->pixels[i], bytes);
    }
}

static void check_set(const char *spec)
{
    struct ls_dataset *ds;
    struct ls_loader *loader;
    struct ls_feed *feed, *other;
    struct ls_batch batch;
    check_ok(ls_data_open(&ds, spec, LS_TRAIN, NULL));
    const struct ls_loader_options lo = {.batch_size = BATCH, .seed = 9, .shuffle = true, .n_threads = 1};
    check_ok(ls_loader_create(&loader, ds, &lo));
    check_ok(ls_feed_create(&feed, ds, BATCH, 9));
    check_ok(ls_feed_create(&other, ds, BATCH, 9));
    for (int i = 0; i < EPOCHS * STEPS; i++) {
        struct ls_batch elsewhere;
        check_ok(ls_loader_next(loader, &batch));
        compare(feed, ds, &batch);
        /* one that jumps about between the epochs */
        check_ok(ls_feed_batch(other, (i * 7) % EPOCHS, (i * 5) % STEPS, &elsewhere));
        compare(other, ds, &batch);
    }
    assert_int_equal(batch.n, N % BATCH);
    assert_int_equal(ls_feed_batch(feed, 0, STEPS, &batch), LS_DATA);
    assert_int_equal(ls_feed_batch(feed, -1, 0, &batch), LS_DATA);
    check_ok(ls_feed_batch(feed, 0, STEPS - 1, &batch));
    assert_int_equal(ls_feed_read(feed, 0, N % BATCH + 1), LS_INTERNAL);
    ls_feed_destroy(&feed);
    ls_feed_destroy(&feed);
    ls_feed_destroy(&other);
    ls_loader_destroy(&loader);
    ls_dataset_close(&ds);
}

static void test_fake(void **state)
{
    check_set("fake:3x9x7:10:103");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fake)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
