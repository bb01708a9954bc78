/* test_data_flow.c: from a sample number to a batch: built-in data sets, transform, sampler, loader. */
#include "backend/backend.h"
#include "base/clock.h"
#include "base/rng.h"
#include "data/format.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include <cmocka.h>

static struct ls_dataset *open_set(const char *spec, enum ls_split split)
{
    struct ls_dataset *ds;
    enum ls_status status = ls_data_open(&ds, spec, split, NULL);
    if (status != LS_OK) fail_msg("open %s: %s", spec, ls_error_message());
    return ds;
}

static size_t image_bytes(const struct ls_dataset *ds)
{
    return (size_t)ds->c * (size_t)ds->h * (size_t)ds->w;
}

static uint8_t *read_images(const struct ls_dataset *ds, int64_t n)
{
    uint8_t *bytes = malloc((size_t)n * image_bytes(ds));
    assert_non_null(bytes);
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(ls_dataset_read(ds, i, bytes + (size_t)i * image_bytes(ds)), LS_OK);
    return bytes;
}

/* --- digits --- */

/* The first 100 pictures and labels. If this fails, the generator draws something else than before: if that was meant,
 * raise DIGITS_VERSION in digits.c and renew its mean and std, too. */
static void test_digits_known_answers(void **state)
{
    static const struct {
        const char *spec;
        enum ls_split split;
        uint64_t pixels, labels;
    } known[] = {
        {"digits", LS_TRAIN, 0xb140a6e2230a80e9, 0x6cee89c6f8479932},
        {"digits", LS_TEST, 0xe23b93b2015a7f5d, 0xbbf5f5cac90d8a40},
        {"digits-rgb", LS_TRAIN, 0x1cf4884ba833b739, 0xae6b6cf99d5e623e},
        {"digits-rgb", LS_TEST, 0x019935c42f2563bf, 0xceb839e481e841fc},
    };
    bool is_equal = true;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct ls_dataset *ds = open_set(known[i].spec, known[i].split);
        uint8_t *bytes = read_images(ds, 100);
        uint8_t narrow[100];
        for (int k = 0; k < 100; k++) narrow[k] = (uint8_t)ds->labels[k];
        uint64_t pixels = XXH3_64bits(bytes, 100 * image_bytes(ds)), labels = XXH3_64bits(narrow, sizeof narrow);
        printf("%s %d: pixels 0x%016llx, known 0x%016llx; labels 0x%016llx, known 0x%016llx\n", ds->name, ds->split,
               (unsigned long long)pixels, (unsigned long long)known[i].pixels, (unsigned long long)labels,
               (unsigned long long)known[i].labels);
        is_equal = is_equal && pixels == known[i].pixels && labels == known[i].labels;
        free(bytes);
        ls_dataset_close(&ds);
    }
    assert_true(is_equal);
}

static void test_digits_shape_and_balance(void **state)
{
    static const char *const specs[] = {"digits", "digits-rgb"};
    for (int i = 0; i < 2; i++)
        for (enum ls_split split = LS_TRAIN; split <= LS_TEST; split++) {
            struct ls_dataset *ds = open_set(specs[i], split);
            int counts[10] = {0};
            assert_int_equal(ds->c, i ? 3 : 1);
            assert_int_equal(ds->h, i ? 32 : 28);
            assert_int_equal(ds->w, i ? 32 : 28);
            assert_int_equal(ds->n_classes, 10);
            assert_int_equal(ds->n, split == LS_TRAIN ? 60000 : 10000);
            assert_int_equal(strlen(ds->checksum), 32);
            for (int64_t k = 0; k < ds->n; k++) counts[ds->labels[k]]++;
            for (int k = 0; k < 10; k++) assert_int_equal(counts[k], ds->n / 10);
            ls_dataset_close(&ds);
        }
}

/* mean and std are constants in the source: they must be those of the pictures. */
static void test_digits_mean_and_std(void **state)
{
    enum { N = 2000 };
    static const char *const specs[] = {"digits", "digits-rgb"};
    for (int i = 0; i < 2; i++) {
        struct ls_dataset *ds = open_set(specs[i], LS_TRAIN);
        uint8_t *bytes = read_images(ds, N);
        double sum = 0, sum2 = 0, n = (double)N * (double)image_bytes(ds);
        for (size_t k = 0; k < (size_t)n; k++) {
            double v = bytes[k] / 255.0;
            sum += v;
            sum2 += v * v;
        }
        double mean = sum / n, variance = sum2 / n - mean * mean, claimed = (double)ds->std[0] * (double)ds->std[0];
        printf("%s: mean %.4f, claimed %.4f; variance %.4f, claimed %.4f\n", ds->name, mean, (double)ds->mean[0],
               variance, claimed);
        assert_true(mean - (double)ds->mean[0] < 0.01 && (double)ds->mean[0] - mean < 0.01);
        assert_true(variance - claimed < 0.005 && claimed - variance < 0.005);
        free(bytes);
        ls_dataset_close(&ds);
    }
}

static void test_digits_opens_fast(void **state)
{
    int64_t start = ls__thread_ns();
    struct ls_dataset *ds = open_set("digits", LS_TRAIN);
    uint8_t *bytes = read_images(ds, 128);
    double seconds = (double)(ls__thread_ns() - start) * 1e-9;
    printf("digits: open and 128 pictures in %.2f ms\n", seconds * 1e3);
    assert_true(seconds < 0.5); /* about 2 ms of CPU; slack for sanitizers */
    free(bytes);
    ls_dataset_close(&ds);
}

struct reader {
    const struct ls_dataset *ds;
    int64_t n;
    int stride; /* order in which this thread asks, so that threads meet */
    uint8_t *out;
};

static void *read_all(void *arg)
{
    struct reader *r = arg;
    for (int64_t i = 0; i < r->n; i++) {
        int64_t sample = i * r->stride % r->n;
        if (ls_dataset_read(r->ds, sample, r->out + (size_t)sample * image_bytes(r->ds)) != LS_OK) return r;
    }
    return NULL;
}

static void check_concurrent_reads(const char *spec)
{
    enum { N = 601, N_THREADS = 4 }; /* a prime, so that every stride visits all */
    static const int strides[N_THREADS] = {1, 1, 7, 600};
    struct ls_dataset *alone = open_set(spec, LS_TRAIN), *shared = open_set(spec, LS_TRAIN);
    uint8_t *expected = read_images(alone, N);
    struct reader readers[N_THREADS];
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        readers[i] = (struct reader){shared, N, strides[i], calloc(N, image_bytes(shared))};
        assert_int_equal(pthread_create(&threads[i], NULL, read_all, &readers[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        void *failure;
        pthread_join(threads[i], &failure);
        assert_null(failure);
        assert_memory_equal(readers[i].out, expected, N * image_bytes(shared));
        free(readers[i].out);
    }
    free(expected);
    ls_dataset_close(&alone);
    ls_dataset_close(&shared);
}

static void test_concurrent_reads(void **state)
{
    check_concurrent_reads("digits");
    check_concurrent_reads("digits-rgb");
    check_concurrent_reads("fake:1x9x7:10:1000");
}

/* --- fake --- */

static void test_fake_sizes(void **state)
{
    struct ls_dataset *ds = open_set("fake:3x8x6:7:5000", LS_TRAIN), *test = open_set("fake:3x8x6:7:5", LS_TEST);
    uint8_t a[3 * 8 * 6], b[3 * 8 * 6];
    assert_int_equal(ds->c, 3);
    assert_int_equal(ds->h, 8);
    assert_int_equal(ds->w, 6);
    assert_int_equal(ds->n_classes, 7);
    assert_int_equal(ds->n, 5000);
    assert_int_equal(test->n, 1);
    for (int64_t i = 0; i < ds->n; i++) assert_true(ds->labels[i] < 7);
    assert_int_equal(ls_dataset_read(ds, 4999, a), LS_OK);
    assert_int_equal(ls_dataset_read(ds, 4998, b), LS_OK);
    assert_true(memcmp(a, b, sizeof a) != 0);
    ls_dataset_close(&ds);
    ls_dataset_close(&test);
}

/* Many large images cost no more memory than the pool. */
static void test_fake_millions(void **state)
{
    struct ls_dataset *ds = open_set("fake:3x224x224:200:2000000", LS_TRAIN);
    const uint8_t *first = ds->impl->view(ds, 0);
    size_t n_images = 1;
    assert_int_equal(ds->n, 2000000);
    for (int64_t i = 1; ds->impl->view(ds, i) != first; i++) n_images++;
    printf("%zu distinct images, %zu MiB\n", n_images, n_images * image_bytes(ds) >> 20);
    assert_in_range(n_images * image_bytes(ds), 1, 64 << 20);
    ls_dataset_close(&ds);
}

static void test_fake_refuses(void **state)
{
    static const char *const bad[] = {"fake:3x32x32",          "fake:3x32x32:10",       "fake:32x32:10:100",
                                      "fake:4x32x32:10:100",   "fake:3x32x32:1:100",    "fake:3x32x32:65537:100",
                                      "fake:3x32x32:10:0",     "fake:3x32x32:10:-5",    "fake:3x32x2000:10:100",
                                      "fake:3x32x32:10:100:9", "fake:3x32x32:ten:100",  "fake:0x32x32:10:100",
                                      "fake:3x32x32::",        "fake:3x32x32:10:1e99",  "fake:3x32x32:10:999999999999",
                                      "fake:-1x32x32:10:100",  "fake:3x32x32: 10: 100", "fake:::"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct ls_dataset *ds;
        enum ls_status status = ls_data_open(&ds, bad[i], LS_TRAIN, NULL);
        if (status != LS_USAGE) fail_msg("%s: status %s, expected USAGE", bad[i], ls_status_name(status));
        assert_null(ds);
        assert_non_null(strstr(ls_error_message(), "fake"));
    }
}

/* --- transform --- */

/* The obvious version: pad, crop, mirror, normalise, cut out, pixel by pixel. */
static float slow_pixel(const struct ls_transform *t, const struct ls_rng4 r[2], const uint8_t *in, int c, int y, int x)
{
    int cut_y = (int)ls__rng_below(r[1].v[0], (uint64_t)t->h) - t->cutout / 2;
    int cut_x = (int)ls__rng_below(r[1].v[1], (uint64_t)t->w) - t->cutout / 2;
    if (y >= cut_y && y < cut_y + t->cutout && x >= cut_x && x < cut_x + t->cutout) return 0.0f;
    int from_x = t->flip && r[0].v[2] >> 31 ? t->w - 1 - x : x;
    int padded_y = y + (int)ls__rng_below(r[0].v[0], 2 * (uint64_t)t->crop_pad + 1);
    int padded_x = from_x + (int)ls__rng_below(r[0].v[1], 2 * (uint64_t)t->crop_pad + 1);
    int in_y = padded_y - t->crop_pad, in_x = padded_x - t->crop_pad;
    bool is_inside = in_y >= 0 && in_y < t->h && in_x >= 0 && in_x < t->w;
    float v = is_inside ? in[(c * t->h + in_y) * t->w + in_x] : 0;
    float scale = 1.0f / (255.0f * t->std[c]), offset = -t->mean[c] / t->std[c];
    return v * scale + offset;
}

static void check_transform(struct ls_transform t, bool is_training)
{
    size_t n = (size_t)t.c * (size_t)t.h * (size_t)t.w;
    uint8_t *in = malloc(n);
    float *out = malloc(n * sizeof *out);
    for (size_t i = 0; i < n; i++) in[i] = (uint8_t)(ls__rng(3, LS_RNG_DATA, 0, (uint32_t)i, 0).v[0] % 255 + 1);
    struct ls_transform used = t;
    if (!is_training) used.crop_pad = used.cutout = 0, used.flip = false;
    for (int sample = 0; sample < 40; sample++) {
        struct ls_rng4 r[2] = {ls__rng(11, LS_RNG_AUGMENT, 5, (uint32_t)sample, 0),
                               ls__rng(11, LS_RNG_AUGMENT, 5, (uint32_t)sample, 1)};
        ls_transform_apply(&t, is_training, 11, 5, sample, in, out);
        for (int c = 0; c < t.c; c++)
            for (int y = 0; y < t.h; y++)
                for (int x = 0; x < t.w; x++) {
                    float expected = slow_pixel(&used, r, in, c, y, x), got = out[(c * t.h + y) * t.w + x];
                    if (memcmp(&expected, &got, sizeof got) != 0 && !(expected == 0 && got == 0))
                        fail_msg("pad %d flip %d cutout %d sample %d at (%d,%d,%d): %.9g, expected %.9g", t.crop_pad,
                                 t.flip, t.cutout, sample, c, y, x, (double)got, (double)expected);
                }
    }
    free(in);
    free(out);
}

static void test_transform_against_slow(void **state)
{
    static const int sizes[][2] = {{28, 28}, {32, 32}, {5, 7}, {1, 1}, {3, 33}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int pad = 0; pad <= 4; pad += 2)
            for (int flip = 0; flip <= 1; flip++)
                for (int cutout = 0; cutout <= 9; cutout += 3) {
                    struct ls_transform t = {
                        .c = i % 2 ? 3 : 1,
                        .h = sizes[i][0],
                        .w = sizes[i][1],
                        .mean = {0.4f, 0.5f, 0.6f},
                        .std = {0.2f, 0.3f, 0.25f},
                        .crop_pad = pad,
                        .flip = flip,
                        .cutout = cutout,
                    };
                    check_transform(t, true);
                    check_transform(t, false);
                }
}

static void test_transform_values(void **state)
{
    const struct ls_transform plain = {.c = 1, .h = 1, .w = 3, .std = {1, 1, 1}};
    const uint8_t in[3] = {0, 51, 255};
    float out[3];
    ls_transform_apply(&plain, false, 0, 0, 0, in, out);
    assert_float_equal(out[0], 0.0f, 0);
    assert_float_equal(out[1], 0.2f, 1e-6f);
    assert_float_equal(out[2], 1.0f, 1e-6f);
}

/* Each draw reaches all its values about equally often, and depends on epoch and sample. */
static void test_transform_draws(void **state)
{
    enum { N = 4000, SIDE = 9, PAD = 2 };
    const struct ls_transform crop = {.c = 1, .h = SIDE, .w = SIDE, .std = {1, 1, 1}, .crop_pad = PAD};
    const struct ls_transform flip = {.c = 1, .h = SIDE, .w = SIDE, .std = {1, 1, 1}, .flip = true};
    uint8_t in[SIDE * SIDE] = {0};
    float out[SIDE * SIDE];
    int places[SIDE * SIDE] = {0}, n_mirrored = 0, n_epochs_differ = 0;
    in[4 * SIDE + 3] = 255;
    for (int sample = 0; sample < N; sample++) {
        ls_transform_apply(&crop, true, 1, 0, sample, in, out);
        for (int i = 0; i < SIDE * SIDE; i++) places[i] += out[i] > 0.5f;
        ls_transform_apply(&flip, true, 1, 0, sample, in, out);
        bool first = out[4 * SIDE + 5] > 0.5f;
        n_mirrored += first;
        ls_transform_apply(&flip, true, 1, 1, sample, in, out);
        n_epochs_differ += first != (out[4 * SIDE + 5] > 0.5f);
    }
    for (int y = 4 - PAD; y <= 4 + PAD; y++)
        for (int x = 3 - PAD; x <= 3 + PAD; x++)
            if (places[y * SIDE + x] < N / 25 / 2) fail_msg("place %d,%d: %d times", y, x, places[y * SIDE + x]);
    printf("mirrored %d of %d, changed by the epoch %d\n", n_mirrored, N, n_epochs_differ);
    assert_in_range(n_mirrored, N * 45 / 100, N * 55 / 100);
    assert_in_range(n_epochs_differ, N * 45 / 100, N * 55 / 100);
}

/* --- sampler --- */

static void test_sampler_is_permutation(void **state)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 1000, 1001, 60000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int64_t n = sizes[i];
        uint32_t *order = malloc((size_t)n * sizeof *order), *again = malloc((size_t)n * sizeof *order);
        uint8_t *seen = calloc((size_t)n, 1);
        ls_sampler_order(42, 3, n, order);
        ls_sampler_order(42, 3, n, again);
        assert_memory_equal(order, again, (size_t)n * sizeof *order);
        for (int64_t k = 0; k < n; k++) {
            assert_true(order[k] < n);
            assert_int_equal(seen[order[k]]++, 0);
        }
        if (n >= 1000) {
            ls_sampler_order(42, 4, n, again);
            assert_true(memcmp(order, again, (size_t)n * sizeof *order) != 0);
            ls_sampler_order(43, 3, n, again);
            assert_true(memcmp(order, again, (size_t)n * sizeof *order) != 0);
        }
        free(order);
        free(again);
        free(seen);
    }
}

/* All 24 orders of four samples come up equally often: 1000 times each, standard deviation 31. */
static void test_sampler_is_uniform(void **state)
{
    int counts[256] = {0}, n_orders = 0;
    for (int epoch = 0; epoch < 24000; epoch++) {
        uint32_t order[4];
        ls_sampler_order(7, epoch, 4, order);
        counts[order[0] << 6 | order[1] << 4 | order[2] << 2 | order[3]]++;
    }
    for (int i = 0; i < 256; i++)
        if (counts[i]) {
            n_orders++;
            if (counts[i] < 850 || counts[i] > 1150) fail_msg("order %x: %d times, expected about 1000", i, counts[i]);
        }
    assert_int_equal(n_orders, 24);
}

/* --- loader --- */

static struct ls_loader *create_loader(const struct ls_dataset *ds, struct ls_loader_options options)
{
    struct ls_loader *loader;
    enum ls_status status = ls_loader_create(&loader, ds, &options);
    if (status != LS_OK) fail_msg("create: %s", ls_error_message());
    return loader;
}

static struct ls_batch next(struct ls_loader *loader)
{
    struct ls_batch batch;
    enum ls_status status = ls_loader_next(loader, &batch);
    if (status != LS_OK) fail_msg("next: %s", ls_error_message());
    return batch;
}

static void check_epochs(const struct ls_dataset *ds, int batch_size, bool shuffle)
{
    struct ls_loader *loader = create_loader(
        ds, (struct ls_loader_options){.batch_size = batch_size, .seed = 5, .shuffle = shuffle, .n_threads = 2});
    uint8_t *expected = malloc(image_bytes(ds)), *seen = malloc((size_t)ds->n);
    for (int epoch = 0; epoch < 3; epoch++) {
        int64_t n_seen = 0;
        memset(seen, 0, (size_t)ds->n);
        for (int step = 0; n_seen < ds->n; step++) {
            struct ls_batch b = next(loader);
            assert_int_equal(b.epoch, epoch);
            assert_int_equal(b.step, step);
            assert_int_equal(b.n, ds->n - n_seen < batch_size ? ds->n - n_seen : batch_size);
            for (int i = 0; i < b.n; i++) {
                assert_int_equal(seen[b.samples[i]]++, 0);
                if (!shuffle) assert_int_equal(b.samples[i], n_seen + i);
                assert_int_equal(b.labels[i], ds->labels[b.samples[i]]);
                assert_int_equal(ls_dataset_read(ds, b.samples[i], expected), LS_OK);
                assert_memory_equal(b.pixels[i], expected, image_bytes(ds));
            }
            n_seen += b.n;
        }
        assert_int_equal(n_seen, ds->n);
    }
    free(expected);
    free(seen);
    ls_loader_destroy(&loader);
    assert_null(loader);
}

/* A data set of the decoding kind: pixels are a function of the sample; reading sample `bad` fails. */
struct decoded {
    struct ls_dataset ds;
    struct ls_dataset_impl impl;
    uint16_t labels[1000];
    int64_t bad;
    useconds_t read_us;
    atomic_int n_reads;
};

static enum ls_status read_decoded(const struct ls_dataset *ds, int64_t sample, uint8_t *out)
{
    struct decoded *set = ds->impl->state;
    atomic_fetch_add(&set->n_reads, 1);
    if (set->read_us) usleep(set->read_us);
    if (sample == set->bad) return ls_fail(LS_DATA, "picture %lld is torn", (long long)sample);
    for (size_t i = 0; i < image_bytes(ds); i++) out[i] = (uint8_t)(sample * 7 + (int64_t)i);
    return LS_OK;
}

static void init_decoded(struct decoded *set, int64_t n, int64_t bad)
{
    memset(set, 0, sizeof *set);
    set->ds = (struct ls_dataset){.name = "decoded", .c = 1, .h = 3, .w = 5, .n_classes = 10, .n = n};
    set->bad = bad;
    set->impl.read = read_decoded;
    set->impl.state = set;
    set->ds.impl = &set->impl;
    set->ds.labels = set->labels;
    for (int64_t i = 0; i < n; i++) set->labels[i] = (uint16_t)(i % 10);
}

static void test_loader_each_sample_once(void **state)
{
    static const int batch_sizes[] = {1, 7, 64, 333, 1000};
    struct ls_dataset *lazy = open_set("fake:1x4x4:10:333", LS_TRAIN);
    struct decoded decoded;
    init_decoded(&decoded, 101, -1);
    for (size_t i = 0; i < sizeof batch_sizes / sizeof batch_sizes[0]; i++)
        for (int shuffle = 0; shuffle <= 1; shuffle++) {
            check_epochs(lazy, batch_sizes[i], shuffle);
            check_epochs(&decoded.ds, batch_sizes[i], shuffle);
        }
    uint8_t *bytes = read_images(lazy, lazy->n);
    struct ls_dataset held = *lazy;
    held.pixels = bytes;
    check_epochs(&held, 64, true);
    free(bytes);
    ls_dataset_close(&lazy);
}

static void test_loader_order_is_the_samplers(void **state)
{
    enum { N = 50 };
    struct ls_dataset *ds = open_set("fake:1x2x2:10:50", LS_TRAIN);
    struct ls_loader *loader =
        create_loader(ds, (struct ls_loader_options){.batch_size = N, .seed = 9, .shuffle = true});
    for (int epoch = 0; epoch < 6; epoch++) {
        uint32_t order[N];
        ls_sampler_order(9, epoch, N, order);
        assert_memory_equal(next(loader).samples, order, sizeof order);
    }
    ls_loader_destroy(&loader);
    ls_dataset_close(&ds);
}

static void check_resume(const struct ls_dataset *ds, int64_t epoch, int64_t step, int n_skipped)
{
    struct ls_loader_options options = {.batch_size = 10, .seed = 1234567890123, .shuffle = true};
    struct ls_loader *unbroken = create_loader(ds, options);
    options.first_epoch = epoch;
    options.first_step = step;
    struct ls_loader *resumed = create_loader(ds, options);
    for (int i = 0; i < n_skipped; i++) next(unbroken);
    for (int i = 0; i < 25; i++) {
        struct ls_batch a = next(unbroken), b = next(resumed);
        assert_int_equal(a.epoch, b.epoch);
        assert_int_equal(a.step, b.step);
        assert_int_equal(a.n, b.n);
        assert_memory_equal(a.samples, b.samples, (size_t)a.n * sizeof *a.samples);
        assert_memory_equal(a.labels, b.labels, (size_t)a.n * sizeof *a.labels);
        for (int k = 0; k < a.n; k++) assert_memory_equal(a.pixels[k], b.pixels[k], image_bytes(ds));
    }
    ls_loader_destroy(&unbroken);
    ls_loader_destroy(&resumed);
}

static void test_loader_resumes(void **state)
{
    struct ls_dataset *ds = open_set("fake:1x4x4:10:95", LS_TRAIN); /* ten steps an epoch, the last one short */
    check_resume(ds, 0, 0, 0);
    check_resume(ds, 0, 9, 9);
    check_resume(ds, 1, 3, 13);
    check_resume(ds, 1, 10, 20); /* the end of an epoch is the beginning of the next */
    ls_dataset_close(&ds);
}

static void test_loader_destroyed_midway(void **state)
{
    struct ls_dataset *ds = open_set("digits", LS_TRAIN);
    struct decoded slow;
    struct ls_loader_options options = {.batch_size = 100, .seed = 1, .shuffle = true, .n_threads = 3};
    struct ls_loader *none = NULL;
    ls_loader_destroy(&none);
    for (int n_taken = 0; n_taken < 12; n_taken++) {
        struct ls_loader *loader = create_loader(ds, options);
        for (int i = 0; i < n_taken; i++) next(loader);
        ls_loader_destroy(&loader);
    }
    init_decoded(&slow, 1000, -1);
    slow.read_us = 20000;
    options.batch_size = 30;
    struct ls_loader *loader = create_loader(&slow.ds, options);
    next(loader);
    int n_before = atomic_load(&slow.n_reads);
    ls_loader_destroy(&loader);
    int n_after = atomic_load(&slow.n_reads) - n_before;
    printf("destroyed after %d reads and %d more\n", n_before, n_after);
    assert_in_range(n_after, 0, 29); /* what was under way is not finished first */
    ls_dataset_close(&ds);
}

/* The batches before the bad sample come, then its error, again and again. */
static void test_loader_carries_errors(void **state)
{
    struct decoded set;
    struct ls_batch batch;
    init_decoded(&set, 1000, 257);
    struct ls_loader *loader = create_loader(&set.ds, (struct ls_loader_options){.batch_size = 50, .n_threads = 2});
    for (int i = 0; i < 5; i++) assert_int_equal(next(loader).step, i);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ls_loader_next(loader, &batch), LS_DATA);
        assert_string_equal(ls_error_message(), "picture 257 is torn");
    }
    ls_loader_destroy(&loader);
    loader = create_loader(&set.ds, (struct ls_loader_options){.batch_size = 50});
    usleep(20000); /* the queue fills; nobody takes the batches */
    ls_loader_destroy(&loader);
}

/* The queue is bounded: nobody takes, so the producer stops reading. */
static void test_loader_is_bounded(void **state)
{
    struct decoded set;
    init_decoded(&set, 1000, -1);
    struct ls_loader *loader = create_loader(&set.ds, (struct ls_loader_options){.batch_size = 10});
    while (atomic_load(&set.n_reads) < 10) usleep(1000);
    usleep(50000); /* time to go on, if it did */
    int n_reads = atomic_load(&set.n_reads);
    printf("%d reads ahead\n", n_reads);
    assert_in_range(n_reads, 10, 100);
    ls_loader_destroy(&loader);
}

/* A batch stays until the next but one is asked for: the producer fills what is free, and stops before these two. */
static void test_loader_lends_two(void **state)
{
    enum { BATCH = 10, ALL = 40 }; /* of so many samples four slots have room */
    struct decoded set;
    uint8_t expected[15];
    init_decoded(&set, 1000, -1);
    struct ls_loader *loader = create_loader(&set.ds, (struct ls_loader_options){.batch_size = BATCH, .n_threads = 1});
    const struct ls_batch first = next(loader), second = next(loader);
    while (atomic_load(&set.n_reads) < ALL) usleep(1000);
    usleep(50000); /* time to go on, if it did */
    assert_int_equal(atomic_load(&set.n_reads), ALL);
    for (int i = 0; i < BATCH; i++) {
        assert_int_equal(first.samples[i], i);
        assert_int_equal(second.samples[i], BATCH + i);
        for (size_t k = 0; k < sizeof expected; k++) expected[k] = (uint8_t)(i * 7 + (int)k);
        assert_memory_equal(first.pixels[i], expected, sizeof expected);
    }
    (void)next(loader);
    while (atomic_load(&set.n_reads) < ALL + BATCH) usleep(1000); /* the first was given back */
    ls_loader_destroy(&loader);
}

static void test_loader_refuses(void **state)
{
    struct ls_dataset *ds = open_set("fake:1x2x2:10:50", LS_TRAIN);
    struct ls_loader *loader;
    struct ls_dataset empty = *ds;
    empty.n = 0;
    assert_int_equal(ls_loader_create(&loader, ds, &(struct ls_loader_options){.batch_size = 0}), LS_USAGE);
    assert_null(loader);
    assert_int_equal(ls_loader_create(&loader, ds, &(struct ls_loader_options){.batch_size = 4, .first_step = -1}),
                     LS_USAGE);
    assert_int_equal(ls_loader_create(&loader, &empty, &(struct ls_loader_options){.batch_size = 4}), LS_DATA);
    assert_null(loader);
    ls_dataset_close(&ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digits_known_answers),
        cmocka_unit_test(test_digits_shape_and_balance),
        cmocka_unit_test(test_digits_mean_and_std),
        cmocka_unit_test(test_digits_opens_fast),
        cmocka_unit_test(test_concurrent_reads),
        cmocka_unit_test(test_fake_sizes),
        cmocka_unit_test(test_fake_millions),
        cmocka_unit_test(test_fake_refuses),
        cmocka_unit_test(test_transform_against_slow),
        cmocka_unit_test(test_transform_values),
        cmocka_unit_test(test_transform_draws),
        cmocka_unit_test(test_sampler_is_permutation),
        cmocka_unit_test(test_sampler_is_uniform),
        cmocka_unit_test(test_loader_each_sample_once),
        cmocka_unit_test(test_loader_order_is_the_samplers),
        cmocka_unit_test(test_loader_resumes),
        cmocka_unit_test(test_loader_destroyed_midway),
        cmocka_unit_test(test_loader_carries_errors),
        cmocka_unit_test(test_loader_is_bounded),
        cmocka_unit_test(test_loader_lends_two),
        cmocka_unit_test(test_loader_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
