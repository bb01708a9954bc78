/* test_data_files.c: the readers of data files, on good files and on every kind of bad file.
 *
 * The bad ones are made here: each good file is cut at every byte, each byte of it is changed in several ways, and the
 * classic lies (huge dimensions, wrong magic, labels out of range, bombs, junk behind the end) are told one by one. A
 * bad file must give LS_DATA with the file's name, and little memory. Real data: set LOCKSTEP_DATA.
 */
#include "base/mem.h"
#include "data/formats/parsers.h"
#include "data/resize.h"
#include "data_makers.h"
#include "sanitized.h"

#include <stdio.h>
#include <sys/resource.h>

static const struct ls_expect mnist_like = {.c = 1, .h = 28, .w = 28, .n_classes = 10, .max_n = 240000};
static const struct ls_expect svhn_like = {.c = 3, .h = 32, .w = 32, .n_classes = 10, .max_n = 2000000};

static struct bytes cifar_file(int n, uint8_t last_label)
{
    struct bytes b = {0};
    for (int i = 0; i < n; i++) {
        add(&b, (uint8_t[1]){i + 1 == n ? last_label : (uint8_t)i}, 1);
        for (size_t k = 0; k < 3072; k++) add(&b, (uint8_t[1]){pixel_at((size_t)i * 3072 + k)}, 1);
    }
    return b;
}

/* ---- MAT-5 files, with everything that can be wrong as a field ---- */

struct mat {
    int x_class, y_class, x_rank, n_x, n_y, y_type;
    uint32_t x_side, x_data_bytes; /* 0: right */
    const char *x_name, *y_name;
    uint8_t y_last;
    bool is_compressed, without_y, twice_x, y_first;
    uint8_t flags;
};
static const struct mat good_mat = {.x_class = 9,
                                    .y_class = 6,
                                    .x_rank = 4,
                                    .n_x = N,
                                    .n_y = N,
                                    .y_type = 2,
                                    .x_side = 32,
                                    .x_name = "X",
                                    .y_name = "y",
                                    .y_last = 10,
                                    .is_compressed = true};

static void pad8(struct bytes *b)
{
    add_zeros(b, (8 - b->n % 8) % 8);
}

static void add_matrix_head(struct bytes *m, int class, uint8_t flags, const uint32_t *dims, int rank, const char *name)
{
    add_le32(m, 6);
    add_le32(m, 8);
    add(m, (uint8_t[8]){(uint8_t) class, flags}, 8);
    add_le32(m, 5);
    add_le32(m, (uint32_t)(4 * rank));
    for (int i = 0; i < rank; i++) add_le32(m, dims[i]);
    pad8(m);
    size_t n = strlen(name);
    if (n <= 4) {
        add_le32(m, (uint32_t)(n << 16 | 1));
        char small[4] = {0};
        memcpy(small, name, n);
        add(m, small, 4);
    } else {
        add_le32(m, 1);
        add_le32(m, (uint32_t)n);
        add(m, name, n);
        pad8(m);
    }
}

static void add_element(struct bytes *file, struct bytes *body, bool is_compressed)
{
    struct bytes e = {0};
    add_le32(&e, 14);
    add_le32(&e, (uint32_t)body->n);
    add(&e, body->at, body->n);
    if (is_compressed) {
        struct bytes z = deflated(e, 15);
        add_le32(file, 15);
        add_le32(file, (uint32_t)z.n);
        add(file, z.at, z.n);
        free(z.at);
    } else {
        add(file, e.at, e.n);
    }
    free(e.at);
    free(body->at);
}

static void add_x(struct bytes *file, const struct mat *m)
{
    struct bytes b = {0};
    uint32_t dims[5] = {m->x_side, 32, 3, (uint32_t)m->n_x, 1};
    size_t n_bytes = (size_t)m->n_x < 100 ? (size_t)m->n_x * 3072 : 3072;
    add_matrix_head(&b, m->x_class, m->flags, dims, m->x_rank, m->x_name);
    add_le32(&b, 2);
    add_le32(&b, m->x_data_bytes ? m->x_data_bytes : (uint32_t)n_bytes);
    for (size_t i = 0; i < n_bytes; i++) add(&b, (uint8_t[1]){pixel_at(i)}, 1);
    add_element(file, &b, m->is_compressed);
}

static void add_y(struct bytes *file, const struct mat *m)
{
    struct bytes b = {0};
    add_matrix_head(&b, m->y_class, 0, (uint32_t[2]){(uint32_t)m->n_y, 1}, 2, m->y_name);
    bool is_double = m->y_type == 9, is_small = !is_double && m->n_y <= 4;
    if (is_small)
        add_le32(&b, (uint32_t)(m->n_y << 16 | m->y_type));
    else {
        add_le32(&b, (uint32_t)m->y_type);
        add_le32(&b, (uint32_t)(m->n_y * (is_double ? 8 : 1)));
    }
    for (int i = 0; i < m->n_y; i++) {
        uint8_t label = i + 1 == m->n_y ? m->y_last : (uint8_t)(i + 1);
        double value = label;
        if (is_double)
            add(&b, &value, 8);
        else
            add(&b, &label, 1);
    }
    pad8(&b);
    add_element(file, &b, m->is_compressed);
}

static struct bytes mat_file(const struct mat *m)
{
    struct bytes b = {0};
    char head[128];
    memset(head, ' ', sizeof head);
    memcpy(head, "MATLAB 5.0 MAT-file", 19);
    memcpy(head + 124, "\0\1IM", 4);
    add(&b, head, sizeof head);
    if (m->y_first) add_y(&b, m);
    add_x(&b, m);
    if (m->twice_x) add_x(&b, m);
    if (!m->without_y && !m->y_first) add_y(&b, m);
    return b;
}

/* ---- reading them ---- */

static struct ls_dataset *new_set(const struct ls_expect *e, int64_t n)
{
    struct ls_dataset *ds;
    assert_int_equal(ls__calloc(&ds, 1, sizeof *ds), LS_OK);
    assert_int_equal(ls__calloc(&ds->impl, 1, sizeof *ds->impl), LS_OK);
    snprintf(ds->name, sizeof ds->name, "test");
    ds->c = e->c;
    ds->h = e->h;
    ds->w = e->w;
    ds->n_classes = e->n_classes;
    ds->n = n;
    return ds;
}

typedef enum ls_status parse_fn(struct bytes b, struct ls_dataset **out);

static enum ls_status parse_labels(struct bytes b, struct ls_dataset **out)
{
    struct ls_stream s;
    *out = new_set(&mnist_like, 0);
    enum ls_status status = ls__stream_open_memory(&s, "labels.idx", b.at, b.n);
    if (status == LS_OK) status = ls__idx_read_labels(*out, &s, &mnist_like);
    ls__stream_close(&s);
    return status;
}

static enum ls_status parse_images(struct bytes b, struct ls_dataset **out)
{
    struct ls_stream s;
    *out = new_set(&mnist_like, N);
    enum ls_status status = ls__stream_open_memory(&s, "images.idx", b.at, b.n);
    if (status == LS_OK) status = ls__idx_read_images(*out, &s, &mnist_like);
    ls__stream_close(&s);
    return status;
}

static enum ls_status parse_cifar(struct bytes b, struct ls_dataset **out)
{
    struct ls_stream s;
    *out = new_set(&svhn_like, 0);
    enum ls_status status = ls__stream_open_memory(&s, "batch.bin", b.at, b.n);
    if (status == LS_OK) status = ls__cifar_count(&s, &svhn_like, &(*out)->n);
    if (status == LS_OK) status = ls__dataset_alloc(*out);
    if (status == LS_OK) status = ls__cifar_read(*out, 0, (*out)->n, &s, &svhn_like);
    ls__stream_close(&s);
    return status;
}

static enum ls_status parse_mat(struct bytes b, struct ls_dataset **out)
{
    struct ls_stream s;
    *out = new_set(&svhn_like, 0);
    enum ls_status status = ls__stream_open_memory(&s, "set.mat", b.at, b.n);
    if (status == LS_OK) status = ls__mat5_count(&s, &svhn_like, &(*out)->n);
    ls__stream_close(&s);
    if (status == LS_OK) status = ls__dataset_alloc(*out);
    if (status == LS_OK) status = ls__stream_open_memory(&s, "set.mat", b.at, b.n);
    if (status == LS_OK) status = ls__mat5_read(*out, 0, (*out)->n, &s, &svhn_like);
    ls__stream_close(&s);
    return status;
}

static uint8_t decoded[3 * 8 * 8];

static enum ls_status parse_image(struct bytes b, struct ls_dataset **out)
{
    *out = NULL;
    return ls__image_decode("picture.img", b.at, b.n, 8, 8, decoded);
}

static int n_bad;

/* The file must be refused as bad data, with a message that has its name and `expected`. Frees b. */
static void expect_bad(parse_fn *parse, struct bytes b, const char *expected)
{
    struct ls_dataset *ds;
    enum ls_status status = parse(b, &ds);
    ls_dataset_close(&ds);
    free(b.at);
    n_bad++;
    if (status == LS_DATA && strstr(ls_error_message(), expected)) return;
    print_error("expected DATA with '%s', got %s: %s\n", expected, ls_status_name(status), ls_error_message());
    fail();
}

/* A good file: accepted as it is, refused when cut anywhere or with a byte more, and never a crash with a byte changed.
 */
static void torture(parse_fn *parse, struct bytes b, size_t step)
{
    struct ls_dataset *ds;
    enum ls_status status = parse(b, &ds);
    if (status != LS_OK) print_error("the good file: %s\n", ls_error_message());
    assert_int_equal(status, LS_OK);
    ls_dataset_close(&ds);
    for (size_t n = 0; n < b.n; n += n < 300 || n + 300 > b.n ? 1 : step) {
        struct bytes cut = {malloc(n ? n : 1), n}; /* its own block, so that reading past the end is seen */
        memcpy(cut.at, b.at, n);
        if (parse != parse_image || n < b.n - 24) /* the last bytes of an image are not needed to see it whole */
            expect_bad(parse, cut, "");
        else
            free(cut.at);
    }
    for (size_t i = 0; i < b.n; i += i < 300 || i + 300 > b.n ? 1 : step)
        for (int k = 0; k < 4; k++) {
            static const uint8_t with[4] = {0x01, 0x80, 0xff, 0x40};
            b.at[i] ^= with[k];
            status = parse(b, &ds);
            ls_dataset_close(&ds);
            if (status != LS_OK) assert_true(ls_error_message()[0] != '\0');
            b.at[i] ^= with[k];
        }
    free(b.at);
}

static void torture_with_tail(parse_fn *parse, struct bytes b, size_t step)
{
    struct bytes longer = {0};
    add(&longer, b.at, b.n);
    add(&longer, "J", 1);
    expect_bad(parse, longer, "");
    torture(parse, b, step);
}

/* ---- IDX ---- */

static void test_idx_content(void **state)
{
    struct ls_dataset *ds;
    struct bytes b = idx_images(0x803, N, 28, 28, N * 784), z = deflated(b, 31);
    assert_int_equal(parse_images(z, &ds), LS_OK);
    assert_memory_equal(ds->pixels, b.at + 16, N * 784);
    ls_dataset_close(&ds);
    free(b.at);
    free(z.at);
    b = idx_labels(0x801, 5, 5, 9);
    assert_int_equal(parse_labels(b, &ds), LS_OK);
    assert_int_equal(ds->n, 5);
    assert_int_equal(ds->labels[1], 1);
    assert_int_equal(ds->labels[4], 9);
    ls_dataset_close(&ds);
    free(b.at);
}

/* Pieces of n bytes, each a gzip file of its own, one after the other. */
static struct bytes in_members(struct bytes b, size_t piece)
{
    struct bytes out = {0};
    for (size_t i = 0; i < b.n; i += piece) {
        struct bytes z = deflated((struct bytes){b.at + i, b.n - i < piece ? b.n - i : piece}, 31);
        add(&out, z.at, z.n);
        free(z.at);
    }
    return out;
}

/* As `cat a.gz b.gz` and bgzip make them; header and content cut anywhere, with an empty member at the end. */
static void test_gzip_members(void **state)
{
    struct ls_dataset *ds;
    struct bytes b = idx_images(0x803, N, 28, 28, N * 784), labels = idx_labels(0x801, 40, 40, 9);
    static const size_t pieces[] = {1, 7, 16, 100, 784, 2367, 2368};
    struct bytes end = deflated((struct bytes){(uint8_t *)"", 0}, 31);
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        struct bytes z = in_members(b, pieces[i]);
        for (int k = 0; k < 1000; k++) add(&z, end.at, end.n);
        enum ls_status status = parse_images(z, &ds);
        if (status != LS_OK) print_error("pieces of %zu: %s\n", pieces[i], ls_error_message());
        assert_int_equal(status, LS_OK);
        assert_memory_equal(ds->pixels, b.at + 16, N * 784);
        ls_dataset_close(&ds);
        free(z.at);
    }
    torture_with_tail(parse_labels, in_members(labels, 20), 1);
    struct bytes more = in_members(b, 1000);
    struct bytes extra = deflated(labels, 31);
    add(&more, extra.at, extra.n);
    expect_bad(parse_images, more, "more than the 2368 decompressed bytes");
    struct bytes junk = in_members(b, 1000);
    add(&junk, "\x1f\x8bxx", 4); /* begins like a member */
    expect_bad(parse_images, junk, "damaged");
    free(extra.at);
    free(end.at);
    free(labels.at);
    free(b.at);
}

static void test_idx_torture(void **state)
{
    struct bytes images = idx_images(0x803, N, 28, 28, N * 784), labels = idx_labels(0x801, 40, 40, 9);
    torture_with_tail(parse_images, deflated(images, 31), 7);
    torture_with_tail(parse_labels, deflated(labels, 31), 1);
    torture_with_tail(parse_images, images, 31);
    torture_with_tail(parse_labels, labels, 1);
}

static void test_idx_lies(void **state)
{
    expect_bad(parse_labels, idx_labels(0x803, 5, 5, 1), "magic");
    expect_bad(parse_labels, idx_labels(0x801, 5, 5, 10), "label 4 (at byte 12) is 10");
    expect_bad(parse_labels, idx_labels(0x801, 5, 5, 255), "is 255, expected 0 to 9");
    expect_bad(parse_labels, idx_labels(0x801, 0, 0, 0), "0 labels");
    expect_bad(parse_labels, idx_labels(0x801, 0x80000000u, 100, 0), "declares 2147483648 bytes");
    expect_bad(parse_images, idx_images(0x801, N, 28, 28, N * 784), "magic");
    expect_bad(parse_images, idx_images(0x803, 0x80000000u, 0x80000000u, 0x80000000u, 100), "declares");
    expect_bad(parse_images, idx_images(0x803, 0xffffffffu, 28, 28, 100), "declares");
    expect_bad(parse_images, idx_images(0x803, N, 0x80000000u, 0, 0), "images are");
    expect_bad(parse_images, idx_images(0x803, N, 28, 27, N * 28 * 27), "images are 28x27, expected 28x28");
    expect_bad(parse_images, idx_images(0x803, N + 1, 28, 28, (N + 1) * 784), "the file of labels holds 3");
    struct bytes lie = idx_images(0x803, 240000, 28, 28, 100);
    expect_bad(parse_images, deflated(lie, 31), "declares 188160000 bytes of data, the file has at most");
    free(lie.at);
    lie = idx_images(0x803, N, 28, 28, N * 784 - 1);
    expect_bad(parse_images, deflated(lie, 31), "cut short");
    free(lie.at);
    lie = idx_images(0x803, N, 28, 28, N * 784 + 1);
    expect_bad(parse_images, deflated(lie, 31), "more than the 2368 decompressed bytes");
    free(lie.at);
}

/* 10 MB that inflate to 10 GB: a flushed block of zeros, over and over. */
static struct bytes bomb(struct bytes head)
{
    struct bytes out = {0}, zeros = {0};
    uint8_t buffer[65536];
    z_stream z = {0};
    add_zeros(&zeros, 1 << 20);
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = head.at;
    z.avail_in = (uInt)head.n;
    z.next_out = buffer;
    z.avail_out = sizeof buffer;
    assert_int_equal(deflate(&z, Z_FULL_FLUSH), Z_OK);
    add(&out, buffer, sizeof buffer - z.avail_out);
    z.next_in = zeros.at;
    z.avail_in = (uInt)zeros.n;
    z.next_out = buffer;
    z.avail_out = sizeof buffer;
    assert_int_equal(deflate(&z, Z_FULL_FLUSH), Z_OK);
    size_t n = sizeof buffer - z.avail_out;
    out.at = realloc(out.at, out.n + 10240 * n);
    for (int i = 0; i < 10240; i++, out.n += n) memcpy(out.at + out.n, buffer, n);
    deflateEnd(&z);
    free(zeros.at);
    free(head.at);
    return out;
}

static void test_idx_bomb(void **state)
{
    expect_bad(parse_images, bomb(idx_images(0x803, N, 28, 28, 0)), "more than the 2368");
    expect_bad(parse_images, bomb(idx_images(0x803, 13000000, 28, 28, 0)), "the file of labels holds 3");
    expect_bad(parse_labels, bomb(idx_labels(0x801, 5, 0, 0)), "more than the 13");
    expect_bad(parse_labels, bomb(idx_labels(0x801, 4000000000u, 0, 0)), "4000000000 labels");
}

/* ---- CIFAR ---- */

static void test_cifar(void **state)
{
    struct ls_dataset *ds;
    struct bytes b = cifar_file(N, 9);
    assert_int_equal(parse_cifar(b, &ds), LS_OK);
    assert_int_equal(ds->n, N);
    assert_int_equal(ds->labels[N - 1], 9);
    for (int i = 0; i < N; i++) assert_memory_equal(ds->pixels + i * 3072, b.at + i * 3073 + 1, 3072);
    ls_dataset_close(&ds);
    torture_with_tail(parse_cifar, b, 97);
    expect_bad(parse_cifar, cifar_file(N, 10), "label 2 (at byte 6146) is 10");
    expect_bad(parse_cifar, cifar_file(N, 255), "is 255");
    expect_bad(parse_cifar, (struct bytes){calloc(1, 1), 0}, "empty");
}

/* ---- MAT-5 ---- */

static void check_mat(struct mat m)
{
    struct ls_dataset *ds;
    struct bytes b = mat_file(&m);
    enum ls_status status = parse_mat(b, &ds);
    if (status != LS_OK) print_error("%s\n", ls_error_message());
    assert_int_equal(status, LS_OK);
    assert_int_equal(ds->n, m.n_x);
    for (int i = 0; i < m.n_x * 3072; i++) {
        int plane = i / 1024, y = i % 1024 / 32, x = i % 32; /* stored down the columns */
        assert_int_equal(ds->pixels[i], pixel_at((size_t)(plane * 1024 + x * 32 + y)));
    }
    assert_int_equal(ds->labels[0], 1);
    assert_int_equal(ds->labels[m.n_x - 1], 0); /* 10 is the digit 0 */
    ls_dataset_close(&ds);
    free(b.at);
}

static void test_mat_content(void **state)
{
    struct mat m = good_mat;
    check_mat(m);
    m.is_compressed = false;
    check_mat(m);
    m.y_type = 9;
    check_mat(m);
    m.y_first = true;
    check_mat(m);
    m = good_mat;
    m.n_x = m.n_y = 9; /* not small, padded */
    check_mat(m);
}

static void test_mat_torture(void **state)
{
    struct mat m = good_mat;
    torture_with_tail(parse_mat, mat_file(&m), 17);
    m.is_compressed = false;
    m.n_x = m.n_y = 5;
    torture_with_tail(parse_mat, mat_file(&m), 201);
}

static void bad_mat(struct mat m, const char *expected)
{
    expect_bad(parse_mat, mat_file(&m), expected);
    m.is_compressed = false;
    expect_bad(parse_mat, mat_file(&m), expected);
}

#define WITH(...)                                                                                                      \
    ({                                                                                                                 \
        struct mat m_ = good_mat;                                                                                      \
        __VA_ARGS__;                                                                                                   \
        m_;                                                                                                            \
    })

static void test_mat_lies(void **state)
{
    bad_mat(WITH(m_.x_class = 6), "X is not uint8");
    bad_mat(WITH(m_.x_class = 1), "another class");
    bad_mat(WITH(m_.flags = 0x08), "complex");
    bad_mat(WITH(m_.x_rank = 3), "X has other dimensions");
    bad_mat(WITH(m_.x_rank = 5), "too many dimensions");
    bad_mat(WITH(m_.x_side = 31), "X has other dimensions");
    bad_mat(WITH(m_.x_side = 0x80000000u), "not positive");
    bad_mat(WITH(m_.n_x = 0x7fffffff), "declares 2147483647 samples");
    bad_mat(WITH(m_.n_x = 1000000), "more samples declared than the file can hold");
    bad_mat(WITH(m_.n_x = 2), "but the other variable");
    bad_mat(WITH(m_.x_data_bytes = 100), "another type or size");
    bad_mat(WITH(m_.x_data_bytes = 0xfffffff0u), "larger than its matrix");
    bad_mat(WITH(m_.x_name = "Z"), "neither X nor y");
    bad_mat(WITH(m_.x_name = "much_too_long_a_name"), "neither X nor y");
    bad_mat(WITH(m_.y_type = 3), "another type or size");
    bad_mat(WITH(m_.y_last = 0), "label 2 in y");
    bad_mat(WITH(m_.y_last = 11), "label 2 in y");
    bad_mat(WITH(m_.y_last = 11, m_.y_type = 9), "label 2 in y");
    bad_mat(WITH(m_.without_y = true), "no variable y");
    bad_mat(WITH(m_.twice_x = true), "second variable");
}

static void test_mat_headers(void **state)
{
    struct bytes b = mat_file(&good_mat);
    memcpy(b.at, "MATLAB 7.3", 10);
    expect_bad(parse_mat, b, "HDF5");
    b = mat_file(&good_mat);
    memcpy(b.at + 126, "MI", 2);
    expect_bad(parse_mat, b, "big-endian");
    b = mat_file(&good_mat);
    memset(b.at + 136, 0xee, b.n - 136); /* compressed garbage */
    expect_bad(parse_mat, b, "damaged");
    b = mat_file(&good_mat);
    memset(b.at + 132, 0xff, 4);
    expect_bad(parse_mat, b, "claims 4294967295 bytes");
}

/* ---- images ---- */

static bool has_images(void)
{
    struct bytes b = png_file(8, 8, 2, 8, (uint8_t[3]){1, 2, 3}, 8);
    enum ls_status status = parse_image(b, &(struct ls_dataset *){NULL});
    free(b.at);
    if (status == LS_UNSUPPORTED) print_message("no image libraries in this build: skipped\n");
    return status != LS_UNSUPPORTED;
}

static void expect_colour(struct bytes b, int red, int green, int blue, int slack)
{
    const int expected[3] = {red, green, blue};
    memset(decoded, 0, sizeof decoded);
    enum ls_status status = parse_image(b, &(struct ls_dataset *){NULL});
    if (status != LS_OK) print_error("%s\n", ls_error_message());
    assert_int_equal(status, LS_OK);
    for (int i = 0; i < 192; i++)
        if (abs(decoded[i] - expected[i / 64]) > slack) {
            print_error("byte %d is %d, expected %d\n", i, decoded[i], expected[i / 64]);
            fail();
        }
}

static void test_image_content(void **state)
{
    if (!has_images()) skip();
    struct bytes b = png_file(20, 9, 2, 8, (uint8_t[3]){10, 20, 30}, 9);
    expect_colour(b, 10, 20, 30, 0);
    free(b.at);
    b = png_file(3, 50, 6, 8, (uint8_t[4]){10, 20, 30, 99}, 50);
    expect_colour(b, 10, 20, 30, 0);
    free(b.at);
    b = png_file(8, 8, 0, 16, (uint8_t[2]){77, 3}, 8);
    expect_colour(b, 77, 77, 77, 0);
    free(b.at);
    b = copy_of(jpeg_rgb, sizeof jpeg_rgb);
    expect_colour(b, 200, 100, 50, 3);
    free(b.at);
    b = copy_of(jpeg_cmyk, sizeof jpeg_cmyk);
    expect_colour(b, 255, 128, 64, 3);
    free(b.at);
}

/* b with `n` bytes put in at `at`. */
static struct bytes inserted(struct bytes b, size_t at, const void *bytes, size_t n)
{
    struct bytes out = {0};
    add(&out, b.at, at);
    add(&out, bytes, n);
    add(&out, b.at + at, b.n - at);
    free(b.at);
    return out;
}

static size_t marker_at(struct bytes b, uint8_t marker)
{
    for (size_t i = 0; i + 1 < b.n; i++)
        if (b.at[i] == 0xff && b.at[i + 1] == marker) return i;
    fail();
    return 0;
}

/* The size and kind of the file itself, also where a JPEG is decoded at a fraction of it. */
static void test_image_tells_the_file(void **state)
{
    if (!has_images()) skip();
    struct ls_image image = {0};
    struct bytes b = copy_of(jpeg_rgb, sizeof jpeg_rgb);
    assert_int_equal(ls__image_load("a.jpg", b.at, b.n, 2, 2, &image), LS_OK);
    assert_true(image.h < 16);
    assert_int_equal(image.file_h, 16);
    assert_int_equal(image.file_w, 16);
    assert_false(image.is_grey);
    free(image.rgb);
    free(b.at);
    image = (struct ls_image){0};
    b = png_file(20, 9, 0, 8, (uint8_t[1]){7}, 9);
    assert_int_equal(ls__image_load("a.png", b.at, b.n, 2, 2, &image), LS_OK);
    assert_int_equal(image.file_h * 100 + image.file_w, image.h * 100 + image.w);
    assert_true(image.is_grey);
    free(image.rgb);
    free(b.at);
}

/* As torchvision's ImageFolder: the rows as they are stored; 16 wide, 8 high stays so whatever EXIF says. */
static void test_exif_is_not_applied(void **state)
{
    static const uint8_t turned[] = {0xff, 0xe1, 0, 34,   'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8,
                                     0,    1,    1, 0x12, 0,   3,   0,   0,   0, 1, 0,   6,   0, 0,  0, 0, 0, 0};
    struct ls_image image = {0};
    if (!has_images()) skip();
    struct bytes b = copy_of(jpeg_rgb, sizeof jpeg_rgb);
    b.at[marker_at(b, 0xc0) + 6] = 8; /* its height: the upper half of the one block row */
    b = inserted(b, 2, turned, sizeof turned);
    assert_int_equal(ls__image_load("turned.jpg", b.at, b.n, 1000, 1000, &image), LS_OK);
    assert_int_equal(image.h, 8);
    assert_int_equal(image.w, 16);
    free(image.rgb);
    free(b.at);
}

/* Deep and see-through: what convert("RGB") gives. */
static void test_alpha_and_depth(void **state)
{
    if (!has_images()) skip();
    struct bytes b = png_file(9, 9, 6, 16, (uint8_t[8]){10, 255, 20, 255, 30, 255, 0, 0}, 9);
    expect_colour(b, 10, 20, 30, 0); /* upper bytes; alpha 0 shows what lies below */
    free(b.at);
    b = png_file(9, 9, 2, 8, (uint8_t[3]){10, 20, 30}, 9);
    struct bytes chunk = {0};
    add_chunk(&chunk, "tRNS", (uint8_t[6]){0, 10, 0, 20, 0, 30}, 6); /* this colour is transparent */
    b = inserted(b, 33, chunk.at, chunk.n);                          /* behind IHDR */
    expect_colour(b, 10, 20, 30, 0);
    free(chunk.at);
    free(b.at);
}

static void test_jpeg_without_picture(void **state)
{
    if (!has_images()) skip();
    struct bytes b = copy_of(jpeg_rgb, sizeof jpeg_rgb);
    size_t frame = marker_at(b, 0xc0);
    memcpy(b.at + frame, "\xff\xd9", 2); /* tables, then the end */
    b.n = frame + 2;
    expect_bad(parse_image, b, "no picture");
    b = copy_of(jpeg_rgb, sizeof jpeg_rgb);
    b.n = marker_at(b, 0xc0);
    expect_bad(parse_image, b, "no picture");
    expect_bad(parse_image, copy_of((const uint8_t *)"\xff\xd8\xff\xd9", 4), "JPEG");
    expect_bad(parse_image, copy_of((const uint8_t *)"\xff\xd8\xff", 3), "JPEG");
}

/* Stray bytes before a marker are common and harmless; they must not hide what comes after them. */
static void test_jpeg_damaged_twice(void **state)
{
    struct ls_image image = {0};
    if (!has_images()) skip();
    struct bytes b = inserted(copy_of(jpeg_rgb, sizeof jpeg_rgb),
                              marker_at((struct bytes){(uint8_t *)jpeg_rgb, sizeof jpeg_rgb}, 0xda), "stray", 5);
    assert_int_equal(ls__image_load("stray.jpg", b.at, b.n, 1000, 1000, &image), LS_OK);
    free(image.rgb);
    size_t scan = marker_at(b, 0xda);
    size_t data = scan + 2 + b.at[scan + 3]; /* behind the scan's header */
    assert_true(data + 2 < b.n);
    b = inserted(b, data, "\xff\xd9", 2); /* the picture ends before its first block */
    expect_bad(parse_image, b, "bad JPEG");
}

static void test_image_bad(void **state)
{
    static const uint8_t grey[1] = {5};
    if (!has_images()) skip();
    torture(parse_image, png_file(16, 16, 2, 8, (uint8_t[3]){1, 2, 3}, 16), 1);
    torture(parse_image, copy_of(jpeg_rgb, sizeof jpeg_rgb), 5);
    expect_bad(parse_image, png_file(65500, 65500, 0, 8, grey, 1), "65500x65500 pixels, expected 1 to 89478485");
    expect_bad(parse_image, png_file(9000, 9000, 0, 8, grey, 1), "more than its");
    expect_bad(parse_image, png_file(0, 5, 0, 8, grey, 1), "PNG");
    expect_bad(parse_image, png_file(16, 16, 0, 8, grey, 15), "PNG");
    expect_bad(parse_image, copy_of((const uint8_t *)"GIF89a..", 8), "neither PNG nor JPEG");
    for (int side = 9000; side <= 65500; side += 56500) {
        struct bytes b = copy_of(jpeg_rgb, sizeof jpeg_rgb);
        for (size_t i = 0; i + 9 < b.n; i++)
            if (b.at[i] == 0xff && b.at[i + 1] == 0xc0) /* the frame header: length, precision, height, width */
                for (size_t k = 5; k < 9; k++) b.at[i + k] = (uint8_t)(k % 2 ? side >> 8 : side);
        expect_bad(parse_image, b, side == 65500 ? "65500x65500 pixels, expected 1 to" : "more than its");
    }
}

/* The filter against its definition, in double, on a random image. */
static void test_resample(void **state)
{
    enum { IH = 13, IW = 29, H = 7, W = 5 };
    uint8_t src[IH * IW], out[H * W];
    struct ls_image_layout in = {.c = 1, .h = IH, .w = IW, .channel = 1, .row = IW, .pixel = 1};
    double scale = (double)H / IH, support = 1 / scale, x0 = (IW * scale - W) / 2;
    for (int i = 0; i < IH * IW; i++) src[i] = (uint8_t)(i * i * 31 % 251);
    assert_int_equal(ls__resample(src, &in, H, W, out), LS_OK);
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            double sum = 0, total = 0;
            for (int i = 0; i < IH; i++)
                for (int j = 0; j < IW; j++) {
                    double dy = 1 - __builtin_fabs(i + 0.5 - (y + 0.5) / scale) / support;
                    double dx = 1 - __builtin_fabs(j + 0.5 - (x + x0 + 0.5) / scale) / support;
                    if (dy <= 0 || dx <= 0) continue;
                    sum += dy * dx * src[i * IW + j];
                    total += dy * dx;
                }
            if (__builtin_fabs(out[y * W + x] - sum / total) > 1.1) {
                print_error("(%d,%d) is %d, expected %.2f\n", y, x, out[y * W + x], sum / total);
                fail();
            }
        }
    struct ls_image_layout same = {.c = 1, .h = H, .w = W, .channel = 1, .row = W, .pixel = 1};
    uint8_t again[H * W];
    assert_int_equal(ls__resample(out, &same, H, W, again), LS_OK);
    assert_memory_equal(out, again, sizeof out);
}

/* All the bad files above, and none took much memory. */
static void test_memory_stayed_small(void **state)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    print_message("%d bad files refused; peak memory %ld MiB\n", n_bad, usage.ru_maxrss / 1024);
    assert_true(n_bad >= 200);
    if (!IS_SANITIZED) assert_true(usage.ru_maxrss / 1024 < 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idx_content),
        cmocka_unit_test(test_gzip_members),
        cmocka_unit_test(test_idx_torture),
        cmocka_unit_test(test_idx_lies),
        cmocka_unit_test(test_idx_bomb),
        cmocka_unit_test(test_cifar),
        cmocka_unit_test(test_mat_content),
        cmocka_unit_test(test_mat_torture),
        cmocka_unit_test(test_mat_lies),
        cmocka_unit_test(test_mat_headers),
        cmocka_unit_test(test_image_content),
        cmocka_unit_test(test_exif_is_not_applied),
        cmocka_unit_test(test_alpha_and_depth),
        cmocka_unit_test(test_jpeg_without_picture),
        cmocka_unit_test(test_jpeg_damaged_twice),
        cmocka_unit_test(test_image_bad),
        cmocka_unit_test(test_image_tells_the_file),
        cmocka_unit_test(test_resample),
        cmocka_unit_test(test_memory_stayed_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
