/* test_data_sets.c: data sets as a caller opens them: search, folders, sizes, archives, reports, and real data where it
 * is.
 *
 * Files are made in a temporary folder. Real data: set LOCKSTEP_DATA; without it that part says plainly that it did not
 * run.
 */
#include "data/catalog.h"
#include "data/fetch.h"
#include "data/formats/parsers.h"
#include "data_makers.h"
#include "scratch.h"

#include <stdio.h>
#include <unistd.h>

static bool has_images(void)
{
    struct bytes b = png_file(8, 8, 2, 8, (uint8_t[3]){1, 2, 3}, 8);
    uint8_t out[3 * 8 * 8];
    enum ls_status status = ls__image_decode("picture.png", b.at, b.n, 8, 8, out);
    free(b.at);
    if (status == LS_UNSUPPORTED) print_message("no image libraries in this build: skipped\n");
    return status != LS_UNSUPPORTED;
}

static char dir[SCRATCH_BYTES];

static void write_file(const char *name, struct bytes b)
{
    char path[512], *slash;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    slash = strrchr(path, '/');
    *slash = '\0';
    assert_int_equal(ls__mkdirs(path), LS_OK);
    *slash = '/';
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b.at, 1, b.n, f), b.n);
    fclose(f);
    free(b.at);
}

static char *at(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "folder:%s/%s", dir, name);
    return path;
}

static void expect_open(const char *spec, enum ls_split split, const struct ls_data_options *options,
                        enum ls_status expected, const char *message)
{
    struct ls_dataset *ds;
    enum ls_status status = ls_data_open(&ds, spec, split, options);
    if (status != expected || !strstr(ls_error_message(), message))
        print_error("%s: expected %s with '%s', got %s: %s\n", spec, ls_status_name(expected), message,
                    ls_status_name(status), ls_error_message());
    assert_int_equal(status, expected);
    assert_non_null(strstr(ls_error_message(), message));
    assert_null(ds);
}

static void test_folder(void **state)
{
    struct ls_data_options small = {.resize_h = 6, .resize_w = 4};
    struct ls_dataset *ds;
    uint8_t sample[3 * 6 * 4];
    char name[64];
    if (!has_images()) skip();
    for (int i = 0; i < 24; i++) {
        snprintf(name, sizeof name, "flat/%s/%02d.PNG", i % 2 ? "dog" : "cat", i);
        write_file(name, png_file(10, 10, 0, 8, (uint8_t[1]){(uint8_t)(i + 1)}, 10));
    }
    write_file("flat/cat/notes.txt", copy_of((const uint8_t *)"x", 1));
    assert_int_equal(ls_data_open(&ds, at("flat"), LS_TRAIN, &small), LS_OK);
    assert_int_equal(ds->n, 22);
    assert_int_equal(ds->n_classes, 2);
    assert_int_equal(ds->h, 6);
    assert_int_equal(ds->labels[0], 0);
    assert_int_equal(ds->labels[21], 1);
    assert_int_equal(ls_dataset_read(ds, 1, sample), LS_OK);
    assert_int_equal(sample[0], 3); /* cat/02 */
    ls_dataset_close(&ds);
    assert_int_equal(ls_data_open(&ds, at("flat"), LS_TEST, &small), LS_OK);
    assert_int_equal(ds->n, 2);
    assert_int_equal(ls_dataset_read(ds, 0, sample), LS_OK);
    assert_int_equal(sample[0], 19); /* the tenth: cat/18 */
    ls_dataset_close(&ds);
}

static void test_folder_splits(void **state)
{
    struct ls_dataset *ds;
    uint8_t *sample;
    if (!has_images()) skip();
    write_file("two/train/a/1.png", png_file(10, 10, 0, 8, (uint8_t[1]){1}, 10));
    write_file("two/train/b/2.jpg", copy_of(jpeg_rgb, sizeof jpeg_rgb));
    expect_open(at("two"), LS_TEST, NULL, LS_DATA, "neither val/ nor test/");
    write_file("two/test/b/3.jpeg", copy_of(jpeg_rgb, sizeof jpeg_rgb / 2));
    assert_int_equal(ls_data_open(&ds, at("two"), LS_TEST, NULL), LS_OK);
    assert_int_equal(ds->labels[0], 1); /* numbered by the training split */
    assert_int_equal(ds->h, 224);
    sample = malloc(3 * 224 * 224);
    assert_int_equal(ls_dataset_read(ds, 0, sample), LS_DATA);
    assert_non_null(strstr(ls_error_message(), "3.jpeg"));
    free(sample);
    ls_dataset_close(&ds);
    write_file("two/test/c/4.jpeg", copy_of(jpeg_rgb, sizeof jpeg_rgb));
    expect_open(at("two"), LS_TEST, NULL, LS_DATA, "no folder in the training split");
    write_file("empty/a/readme", copy_of((const uint8_t *)"x", 1));
    expect_open(at("empty"), LS_TRAIN, NULL, LS_DATA, "no .png");
    expect_open(at("nowhere"), LS_TRAIN, NULL, LS_DATA, "no such folder");
    expect_open(at("two/train/a"), LS_TRAIN, NULL, LS_DATA, "0 sub-folders");
}

static void test_search(void **state)
{
    char data[512];
    struct ls_data_options options = {.data_dir = data};
    struct ls_dataset *ds;
    snprintf(data, sizeof data, "%s/search", dir);
    char *real = getenv("LOCKSTEP_DATA") ? strdup(getenv("LOCKSTEP_DATA")) : NULL;
    unsetenv("LOCKSTEP_DATA");
    expect_open("mnist", LS_TRAIN, &options, LS_DATA, "lockstep data fetch mnist");
    expect_open("mnist", LS_TRAIN, &options, LS_DATA, data);
    write_file("search/MNIST/raw/train-images-idx3-ubyte", idx_images(0x803, N, 28, 28, N * 784));
    expect_open("mnist", LS_TRAIN, &options, LS_DATA, "is incomplete");
    write_file("search/MNIST/raw/train-labels-idx1-ubyte", idx_labels(0x801, N, N, 1));
    assert_int_equal(ls_data_open(&ds, "mnist", LS_TRAIN, &options), LS_OK);
    assert_int_equal(ds->n, N);
    assert_int_equal(ds->pixels[5], pixel_at(5));
    assert_int_equal(strlen(ds->checksum), 32);
    ls_dataset_close(&ds);
    write_file("search/fashion/train-images-idx3-ubyte", idx_images(0x803, N, 28, 28, N * 784));
    write_file("search/fashion/train-labels-idx1-ubyte", idx_labels(0x801, N, N, 7));
    snprintf(data, sizeof data, "%s/search/fashion", dir); /* the same names, flat: the folder's name decides */
    assert_int_equal(ls_data_open(&ds, "fashion-mnist", LS_TRAIN, &options), LS_OK);
    assert_int_equal(ds->labels[N - 1], 7);
    ls_dataset_close(&ds);
    expect_open("mnist", LS_TRAIN, &options, LS_DATA, "not found");
    expect_open("nope", LS_TRAIN, &options, LS_USAGE, "mnist, fashion-mnist, cifar10, svhn, svhn+extra");
    expect_open("mnist+extra", LS_TRAIN, &options, LS_USAGE, "unknown");
    expect_open("mnist:3", LS_TRAIN, &options, LS_USAGE, "unknown");
    expect_open("digits:3", LS_TRAIN, &options, LS_USAGE, "no argument");
    expect_open("fake", LS_TRAIN, &options, LS_USAGE, "needs an argument");
    if (real) setenv("LOCKSTEP_DATA", real, 1);
    free(real);
}

static void test_resized_set(void **state)
{
    struct ls_data_options options = {.resize_h = 14, .resize_w = 14};
    struct ls_dataset *ds, *plain;
    uint8_t small[14 * 14], big[28 * 28];
    assert_int_equal(ls_data_open(&ds, "digits", LS_TEST, &options), LS_OK);
    assert_int_equal(ls_data_open(&plain, "digits", LS_TEST, NULL), LS_OK);
    assert_int_equal(ds->h, 14);
    assert_int_equal(ds->n, plain->n);
    assert_int_equal(ds->labels[3], plain->labels[3]);
    assert_int_equal(ls_dataset_read(ds, 3, small), LS_OK);
    assert_int_equal(ls_dataset_read(plain, 3, big), LS_OK);
    double sum_small = 0, sum_big = 0;
    for (int i = 0; i < 196; i++) sum_small += small[i];
    for (int i = 0; i < 784; i++) sum_big += big[i];
    print_message("mean %.2f and %.2f\n", sum_small / 196, sum_big / 784);
    assert_true(__builtin_fabs(sum_small / 196 - sum_big / 784) < 4);
    ls_dataset_close(&ds);
    ls_dataset_close(&plain);
    options.resize_h = 100000;
    expect_open("digits", LS_TEST, &options, LS_USAGE, "100000x14");
}

/* ---- tar ---- */

static void add_tar(struct bytes *b, const char *name, char type, const char *link, const char *content)
{
    uint8_t block[512] = {0};
    unsigned sum = 0;
    size_t n = strlen(content);
    strncpy((char *)block, name, 100);
    memcpy(block + 100, "0000644", 7);
    snprintf((char *)block + 124, 12, "%011o", (unsigned)(n & 0xffff));
    memset(block + 148, ' ', 8);
    block[156] = (uint8_t)type;
    strncpy((char *)block + 157, link, 99);
    memcpy(block + 257, "ustar\00000", 8);
    for (int i = 0; i < 512; i++) sum += block[i];
    snprintf((char *)block + 148, 8, "%06o", sum);
    add(b, block, 512);
    add(b, content, n);
    add_zeros(b, (512 - n % 512) % 512);
}

static enum ls_status untar(struct bytes tar)
{
    char archive[512], into[512];
    add_zeros(&tar, 1024);
    write_file("a.tar.gz", deflated(tar, 31));
    free(tar.at);
    snprintf(archive, sizeof archive, "%s/a.tar.gz", dir);
    snprintf(into, sizeof into, "%s/untarred", dir);
    return ls__untar_gz(archive, "top", into);
}

static bool exists(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

static void test_untar(void **state)
{
    struct bytes good = {0};
    add_tar(&good, "top/", '5', "", "");
    add_tar(&good, "top/one", '0', "", "hello");
    add_tar(&good, "./top/two", '0', "", "");
    add_tar(&good, "other/three", '0', "", "hi");
    assert_int_equal(untar(good), LS_OK);
    assert_true(exists("untarred/one") && exists("untarred/two"));
    assert_false(exists("untarred/three") || exists("untarred/one.part"));
    static const struct {
        const char *name, *link, *why;
        char type;
    } bad[] = {
        {"top/../../evil", "", "outside", '0'},   {"/tmp/evil", "", "outside", '0'},    {"..", "", "outside", '0'},
        {"top/evil", "/etc/passwd", "link", '2'}, {"top/evil", "top/one", "link", '1'}, {"top/evil", "", "link", '3'}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct bytes tar = {0};
        add_tar(&tar, bad[i].name, bad[i].type, bad[i].link, "x");
        assert_int_equal(untar(tar), LS_DATA);
        if (!strstr(ls_error_message(), bad[i].why)) fail_msg("%s", ls_error_message());
        assert_false(exists("untarred/evil") || exists("evil"));
    }
    struct bytes tar = {0};
    add_tar(&tar, "top/evil", '0', "", "x");
    tar.at[0] = 'T'; /* the header's checksum is wrong now */
    assert_int_equal(untar(tar), LS_DATA);
}

static void test_fetch_refusals(void **state)
{
    static const char *const urls[] = {"http://example.com/", "ftp://127.0.0.1/", "http://127.0.0.1@example.com/",
                                       "http://127.0.0.1.example.com/", "file:///etc/"};
    if (ls_data_fetch("mnist", dir, "http://127.0.0.1:1/", NULL, NULL) == LS_UNSUPPORTED) skip();
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++)
        assert_int_equal(ls_data_fetch("mnist", dir, urls[i], NULL, NULL), LS_USAGE);
    assert_int_equal(ls_data_fetch("digits", dir, NULL, NULL, NULL), LS_USAGE);
    assert_int_equal(ls_data_fetch("mnist", dir, "http://127.0.0.1:1/", NULL, NULL), LS_IO);
}

/* ---- reports ---- */

static void expect_text(const struct ls_buf *report, const char *expected)
{
    if (!strstr(report->text, expected)) fail_msg("no '%s' in: %s", expected, report->text);
}

static void test_check(void **state)
{
    struct ls_buf report = LS_BUF_INIT;
    char data[512];
    snprintf(data, sizeof data, "%s/check", dir);
    char *real = getenv("LOCKSTEP_DATA") ? strdup(getenv("LOCKSTEP_DATA")) : NULL;
    unsetenv("LOCKSTEP_DATA");
    write_file("check/MNIST/raw/train-images-idx3-ubyte", idx_images(0x803, N, 28, 28, N * 784));
    write_file("check/MNIST/raw/train-labels-idx1-ubyte", idx_labels(0x801, N, N, 9));
    struct bytes labels = idx_labels(0x801, N, N, 99);
    write_file("check/MNIST/raw/t10k-labels-idx1-ubyte.gz", deflated(labels, 31));
    free(labels.at);
    write_file("check/MNIST/raw/t10k-images-idx3-ubyte", idx_images(0x803, N, 28, 28, N * 784));
    assert_int_equal(ls_data_check("mnist", &(struct ls_data_options){.data_dir = data}, &report), LS_DATA);
    expect_text(&report, "train-images-idx3-ubyte: 2368 bytes, no checksum");
    expect_text(&report, "3 samples of 1x28x28, 10 classes");
    expect_text(&report, "labels: 0:1 1:1 2:0 3:0 4:0 5:0 6:0 7:0 8:0 9:1");
    expect_text(&report, "not the published set, but well formed");
    expect_text(&report, "bad: ");
    expect_text(&report, "is 99, expected 0 to 9");
    ls__buf_truncate(&report, 0);
    struct ls_data_row *rows;
    int n_rows;
    assert_int_equal(ls_data_list(data, &rows, &n_rows), LS_OK);
    for (int i = 0; i < n_rows; i++) ls__buf_addf(&report, "%s %d %s\n", rows[i].name, rows[i].is_here, rows[i].where);
    free(rows);
    expect_text(&report, "check/MNIST/raw");
    expect_text(&report, "svhn 0 not here: lockstep data fetch svhn\n");
    expect_text(&report, "svhn+extra 0 not here: lockstep data fetch svhn+extra\n");
    ls__buf_truncate(&report, 0);
    assert_int_equal(ls_data_check("nope", &(struct ls_data_options){.data_dir = data}, &report), LS_USAGE);
    ls__buf_release(&report);
    if (real) setenv("LOCKSTEP_DATA", real, 1);
    free(real);
}

/* ---- real data ---- */

static void test_real(void **state)
{
    static const struct {
        const char *spec;
        enum ls_split split;
        int64_t min_n;
        int first_labels[5];
    } sets[] = {{"mnist", LS_TRAIN, 60000, {5, 0, 4, 1, 9}},
                {"mnist", LS_TEST, 10000, {7, 2, 1, 0, 4}},
                {"fashion-mnist", LS_TRAIN, 60000, {9, 0, 0, 3, 0}},
                {"cifar10", LS_TRAIN, 50000, {6, 9, 9, 4, 1}},
                {"cifar10", LS_TEST, 10000, {3, 8, 8, 0, 6}},
                {"svhn", LS_TRAIN, 20000, {1, 9, 2, 3, 2}},
                {"svhn", LS_TEST, 10000, {5, 2, 1, 0, 6}}};
    if (!getenv("LOCKSTEP_DATA")) {
        print_message("LOCKSTEP_DATA is not set: real data is NOT tested\n");
        skip();
    }
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        struct ls_dataset *ds;
        enum ls_status status = ls_data_open(&ds, sets[i].spec, sets[i].split, NULL);
        if (status != LS_OK) {
            print_message("NOT tested: %s\n", ls_error_message());
            continue;
        }
        print_message("%s: %lld samples, %s\n", sets[i].spec, (long long)ds->n, ds->checksum);
        assert_true(ds->n >= sets[i].min_n);
        for (int k = 0; k < 5; k++) assert_int_equal(ds->labels[k], sets[i].first_labels[k]);
        bool with_extra;
        const char *known = ls__catalog_from_spec(sets[i].spec, &with_extra)->content[sets[i].split];
        if (known) assert_string_equal(ds->checksum, known);
        ls_dataset_close(&ds);
    }
}

static int make_dir(void **state)
{
    return mkdtemp(scratch_name(dir, "data", "")) && setenv("XDG_CACHE_HOME", dir, 1) == 0 ? 0 : -1; /* checksums */
}

static int remove_dir(void **state)
{
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

/* Labels that lie in a file of their own are no images. */
static void test_published(void **state)
{
    static const struct {
        const char *spec;
        int64_t train, test;
    } sets[] = {{"mnist", 60000, 10000},
                {"fashion-mnist", 60000, 10000},
                {"cifar10", 50000, 10000},
                {"svhn", 73257, 26032},
                {"svhn+extra", 604388, 26032}};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        bool with_extra;
        const struct ls_set *set = ls__catalog_from_spec(sets[i].spec, &with_extra);
        assert_non_null(set);
        assert_int_equal(ls__set_images(set, LS_TRAIN, with_extra), sets[i].train);
        assert_int_equal(ls__set_images(set, LS_TEST, with_extra), sets[i].test);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folder),      cmocka_unit_test(test_folder_splits), cmocka_unit_test(test_search),
        cmocka_unit_test(test_resized_set), cmocka_unit_test(test_untar),         cmocka_unit_test(test_fetch_refusals),
        cmocka_unit_test(test_check),       cmocka_unit_test(test_published),     cmocka_unit_test(test_real),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
