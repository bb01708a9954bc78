/* test_subset.c: samples held out of a data set: each in one part, the same ones for the same seed, bytes and labels
 * kept, for sets of every kind.
 */
#include "data/data.h"
#include "lockstep/data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 97, BYTES = 12 };

/* Every sample's first bytes are its number. */
static struct ls_dataset *numbered(void)
{
    static uint8_t pixels[N * BYTES];
    static uint16_t labels[N];
    struct ls_dataset *ds;
    const struct ls_images images = {
        .n = N, .c = 3, .h = 2, .w = 2, .n_classes = 10, .pixels = pixels, .labels = labels};
    for (int i = 0; i < N; i++) {
        pixels[i * BYTES] = (uint8_t)i;
        labels[i] = (uint16_t)(i % 10);
    }
    assert_int_equal(ls__data_from_images(&ds, "numbered", LS_TRAIN, &images, &(struct ls_data_options){0}), LS_OK);
    return ds;
}

static void mark(const struct ls_dataset *ds, int *seen)
{
    for (int64_t i = 0; i < ds->n; i++) {
        uint8_t out[BYTES];
        assert_int_equal(ls_dataset_read(ds, i, out), LS_OK);
        seen[out[0]]++;
        assert_int_equal(ds->labels[i], out[0] % 10);
    }
}

static void each_sample_is_in_one_part(void **state)
{
    for (int64_t n = 1; n < N; n += 19) {
        struct ls_dataset *whole = numbered(), *rest, *held;
        int seen[256] = {0};
        assert_int_equal(ls__dataset_hold_out(whole, n, 7, &rest, &held), LS_OK);
        assert_int_equal(held->n, n);
        assert_int_equal(rest->n, N - n);
        mark(rest, seen);
        mark(held, seen);
        for (int i = 0; i < N; i++) assert_int_equal(seen[i], 1);
        assert_string_not_equal(rest->checksum, held->checksum);
        assert_string_not_equal(rest->checksum, whole->checksum);
        ls_dataset_close(&rest);
        ls_dataset_close(&held);
        ls_dataset_close(&whole);
    }
}

static void checksum_of(uint64_t seed, int64_t n, char out[33])
{
    struct ls_dataset *whole = numbered(), *rest, *held;
    assert_int_equal(ls__dataset_hold_out(whole, n, seed, &rest, &held), LS_OK);
    memcpy(out, held->checksum, 33);
    ls_dataset_close(&rest);
    ls_dataset_close(&held);
    ls_dataset_close(&whole);
}

static void the_seed_decides(void **state)
{
    char a[33], b[33], c[33];
    checksum_of(1, 20, a);
    checksum_of(1, 20, b);
    checksum_of(2, 20, c);
    assert_string_equal(a, b);
    assert_string_not_equal(a, c);
}

/* All must be equally likely: the mean number of a held-out sample lies near the middle. */
static void no_sample_is_preferred(void **state)
{
    int seen[256] = {0};
    for (uint64_t seed = 0; seed < 400; seed++) {
        struct ls_dataset *whole = numbered(), *rest, *held;
        assert_int_equal(ls__dataset_hold_out(whole, 10, seed, &rest, &held), LS_OK);
        mark(held, seen);
        ls_dataset_close(&rest);
        ls_dataset_close(&held);
        ls_dataset_close(&whole);
    }
    for (int i = 0; i < N; i++) { /* 400 * 10 / 97 = 41 expected, deviation 6.1 */
        if (seen[i] < 10 || seen[i] > 80) print_error("sample %d was held out %d times\n", i, seen[i]);
        assert_in_range(seen[i], 10, 80);
    }
}

static void all_or_none_is_refused(void **state)
{
    struct ls_dataset *whole = numbered(), *rest, *held;
    assert_int_equal(ls__dataset_hold_out(whole, N, 1, &rest, &held), LS_USAGE);
    assert_int_equal(ls__dataset_hold_out(whole, 0, 1, &rest, &held), LS_USAGE);
    assert_null(rest);
    ls_dataset_close(&whole);
}

/* Made when first asked for, and shown in another size: no pixels are at hand. */
static void lazy_and_resized_sets(void **state)
{
    const struct ls_data_options resized = {.resize_h = 9, .resize_w = 9};
    for (int k = 0; k < 2; k++) {
        struct ls_dataset *whole, *rest, *held;
        struct ls_loader *loader;
        struct ls_batch batch;
        const struct ls_loader_options lo = {.batch_size = 16, .seed = 3, .shuffle = true};
        assert_int_equal(ls_data_open(&whole, "fake:1x8x8:4:50", LS_TRAIN, k ? &resized : &(struct ls_data_options){0}),
                         LS_OK);
        assert_int_equal(ls__dataset_hold_out(whole, 11, 5, &rest, &held), LS_OK);
        assert_int_equal(ls_loader_create(&loader, rest, &lo), LS_OK);
        for (int step = 0; step < 3; step++) {
            assert_int_equal(ls_loader_next(loader, &batch), LS_OK);
            assert_int_equal(batch.n, step < 2 ? 16 : 7);
            for (int i = 0; i < batch.n; i++) {
                uint8_t out[81];
                assert_int_equal(ls_dataset_read(rest, batch.samples[i], out), LS_OK);
                assert_memory_equal(out, batch.pixels[i], (size_t)rest->h * (size_t)rest->w);
            }
        }
        ls_loader_destroy(&loader);
        ls_dataset_close(&rest);
        ls_dataset_close(&held);
        ls_dataset_close(&whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sample_is_in_one_part), cmocka_unit_test(the_seed_decides),
        cmocka_unit_test(no_sample_is_preferred),     cmocka_unit_test(all_or_none_is_refused),
        cmocka_unit_test(lazy_and_resized_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
