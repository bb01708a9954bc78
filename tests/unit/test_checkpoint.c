/* test_checkpoint.c: what is written comes back; what was written by others is read; what cannot be saved is refused.
 */
#include "checkpoint/checkpoint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "expect.h"
#include "scratch.h"

static char folder[SCRATCH_BYTES];
static char path[SCRATCH_BYTES + 32];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(scratch_name(folder, "checkpoint", ""))) return -1;
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder); /* fails when a temporary was left behind */
}

static const uint8_t bytes3[3] = {1, 2, 255};
static const float floats[6] = {0, -0.0f, 1.5f, -2, 1e-42f, 3e38f};
static const int64_t longs[1] = {INT64_MIN};
static const int32_t ints[2] = {-1, INT32_MAX};
static const struct ls_ckpt_tensor all_types[] = {
    {"bytes", LS_U8, LS_SHAPE1(3), bytes3},
    {"conv1.weight", LS_F32, {2, {2, 3}}, floats},
    {"scalar", LS_I64, {0, {0}}, longs},
    {"ints", LS_I32, LS_SHAPE1(2), ints},
    {"empty", LS_F32, LS_SHAPE4(4, 0, 3, 3), NULL},
};

static void check_tensor(const struct ls_ckpt *c, const struct ls_ckpt_tensor *want)
{
    const struct ls_ckpt_tensor *got = ls_ckpt_find(c, want->name);
    assert_non_null(got);
    assert_int_equal(got->dtype, want->dtype);
    assert_true(ls_shape_is_equal(&got->shape, &want->shape));
    assert_non_null(got->data);
    assert_int_equal((uintptr_t)got->data % ls_dtype_bytes(got->dtype), 0);
    size_t bytes = (size_t)ls_shape_count(&want->shape) * ls_dtype_bytes(want->dtype);
    if (bytes) assert_memory_equal(got->data, want->data, bytes);
}

static void round_trip(void **state)
{
    (void)state;
    struct ls_ckpt *c;
    check_ok(ls_ckpt_write(path, all_types, 5, NULL, 0));
    check_ok(ls_ckpt_open(&c, path));
    assert_true(ls_ckpt_has_checksum(c));
    assert_int_equal(ls_ckpt_n_tensors(c), 5);
    for (int i = 0; i < 5; i++) check_tensor(c, &all_types[i]);
    assert_null(ls_ckpt_find(c, "conv1.bias"));
    assert_string_equal(ls_ckpt_tensor_at(c, 0)->name, "scalar"); /* the 8-byte elements first */
    assert_string_equal(ls_ckpt_tensor_at(c, 4)->name, "bytes");
    assert_int_equal((uintptr_t)ls_ckpt_tensor_at(c, 0)->data % 64, 0);
    ls_ckpt_close(&c);
    assert_null(c);
    ls_ckpt_close(&c);
}

static void same_input_same_bytes(void **state)
{
    (void)state;
    char a[1024], b[1024];
    size_t n[2];
    for (int i = 0; i < 2; i++) {
        check_ok(ls_ckpt_write(path, all_types, 5, NULL, 0));
        FILE *f = fopen(path, "rb");
        assert_non_null(f);
        n[i] = fread(i ? b : a, 1, sizeof a, f);
        fclose(f);
    }
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(a, b, n[0]);
}

static void metadata(void **state)
{
    (void)state;
    static const struct ls_ckpt_meta meta[] = {
        {"step", "468"},
        {"model", "lenet5"},
        {"empty", ""},
        {"quoted \"key\"", "a\nb\\\"\t\x01"},
        {"Schlüssel", "värde 重み"},
        {"lockstep.checksum", "from another file"}, /* replaced */
    };
    struct ls_ckpt *c;
    check_ok(ls_ckpt_write(path, all_types, 5, meta, 6));
    check_ok(ls_ckpt_open(&c, path));
    assert_true(ls_ckpt_has_checksum(c));
    for (int i = 0; i < 5; i++) assert_string_equal(ls_ckpt_meta(c, meta[i].key), meta[i].value);
    assert_null(ls_ckpt_meta(c, "epoch"));
    assert_int_equal(ls_ckpt_n_meta(c), 7);
    assert_string_equal(ls_ckpt_meta_at(c, 1).key, "lockstep.format");
    assert_string_equal(ls_ckpt_meta_at(c, 2).key, "step");
    assert_int_equal(strlen(ls_ckpt_meta(c, "lockstep.checksum")), 32);
    ls_ckpt_close(&c);
}

static void no_tensors(void **state)
{
    (void)state;
    struct ls_ckpt *c;
    check_ok(ls_ckpt_write(path, NULL, 0, NULL, 0));
    check_ok(ls_ckpt_open(&c, path));
    assert_int_equal(ls_ckpt_n_tensors(c), 0);
    ls_ckpt_close(&c);
    check_ok(ls_ckpt_parse(&c, "memory", "\2\0\0\0\0\0\0\0{}", 10));
    assert_false(ls_ckpt_has_checksum(c));
    assert_int_equal(ls_ckpt_n_tensors(c), 0);
    ls_ckpt_close(&c);
}

static void unicode_names(void **state)
{
    (void)state;
    static const struct ls_ckpt_tensor t[] = {{"слой.вес", LS_U8, LS_SHAPE1(3), bytes3},
                                              {"层.权重 😀", LS_U8, LS_SHAPE1(2), bytes3},
                                              {"", LS_U8, LS_SHAPE1(1), bytes3}};
    struct ls_ckpt *c;
    check_ok(ls_ckpt_write(path, t, 3, NULL, 0));
    check_ok(ls_ckpt_open(&c, path));
    for (int i = 0; i < 3; i++) check_tensor(c, &t[i]);
    ls_ckpt_close(&c);
}

static void many_tensors(void **state)
{
    (void)state;
    enum { N = 8192 };
    static struct ls_ckpt_tensor t[N + 1];
    static char names[N + 1][24];
    for (int i = 0; i <= N; i++) {
        snprintf(names[i], sizeof names[i], "layer%d.weight", i);
        t[i] = (struct ls_ckpt_tensor){names[i], LS_F32, LS_SHAPE4(1, 1, 1, 1), floats};
    }
    struct ls_ckpt *c;
    check_ok(ls_ckpt_write(path, t, N, NULL, 0));
    check_ok(ls_ckpt_open(&c, path));
    assert_int_equal(ls_ckpt_n_tensors(c), N);
    ls_ckpt_close(&c);
    check_refused(ls_ckpt_write(path, t, N + 1, NULL, 0), "at most 8192");
}

static void write_refuses(void **state)
{
    (void)state;
    struct ls_ckpt_tensor twice[] = {all_types[1], all_types[1]};
    struct ls_ckpt_meta key_twice[] = {{"k", "a"}, {"k", "b"}};
    struct ls_ckpt_tensor bad = all_types[1];
    unlink(path);
    check_refused(ls_ckpt_write(path, twice, 2, NULL, 0), "given twice");
    check_refused(ls_ckpt_write(path, all_types, 1, key_twice, 2), "given twice");
    bad.name = "__metadata__";
    check_refused(ls_ckpt_write(path, &bad, 1, NULL, 0), "given twice");
    bad.name = "\xff\xfe";
    check_refused(ls_ckpt_write(path, &bad, 1, NULL, 0), "not valid UTF-8");
    bad.name = NULL;
    check_refused(ls_ckpt_write(path, &bad, 1, NULL, 0), "without a name");
    bad = all_types[1];
    bad.data = NULL;
    check_refused(ls_ckpt_write(path, &bad, 1, NULL, 0), "no data");
    bad.shape = (struct ls_shape){2, {INT64_MAX, 3}};
    check_refused(ls_ckpt_write(path, &bad, 1, NULL, 0), "impossible dimension");
    bad.shape = (struct ls_shape){1, {-1}};
    check_refused(ls_ckpt_write(path, &bad, 1, NULL, 0), "impossible dimension");
    bad.shape.n_dims = 5;
    check_refused(ls_ckpt_write(path, &bad, 1, NULL, 0), "5 dimensions");
    bad.shape.n_dims = 1;
    bad.dtype = (enum ls_dtype)77;
    check_refused(ls_ckpt_write(path, &bad, 1, NULL, 0), "unknown element type 77");
    check_refused(ls_ckpt_write("/nonexistent/folder/x", all_types, 1, NULL, 0), "/nonexistent/folder/x");
    assert_int_not_equal(access(path, F_OK), 0);
}

/* Other programs' files: no checksum, data wherever the header ends. */
static void foreign_misaligned(void **state)
{
    (void)state;
    static const char header[] = "{\"u\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
                                 "\"f\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[3,27]},"
                                 "\"z\":{\"dtype\":\"I64\",\"shape\":[0],\"data_offsets\":[27,27]},"
                                 "\"i\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[27,35]}}  ";
    char file[512] = {0};
    uint64_t n = sizeof header - 1;
    memcpy(file, &n, 8);
    memcpy(file + 8, header, n);
    memcpy(file + 8 + n, bytes3, 3);
    memcpy(file + 8 + n + 3, floats, 24);
    memcpy(file + 8 + n + 27, ints, 8);
    struct ls_ckpt *c;
    check_ok(ls_ckpt_parse(&c, "memory", file, 8 + n + 35));
    assert_false(ls_ckpt_has_checksum(c));
    check_tensor(c, &(struct ls_ckpt_tensor){"u", LS_U8, LS_SHAPE1(3), bytes3});
    check_tensor(c, &(struct ls_ckpt_tensor){"f", LS_F32, LS_SHAPE2(2, 3), floats});
    check_tensor(c, &(struct ls_ckpt_tensor){"i", LS_I32, LS_SHAPE1(2), ints});
    check_tensor(c, &(struct ls_ckpt_tensor){"z", LS_I64, LS_SHAPE1(0), NULL});
    ls_ckpt_close(&c);
}

static void not_a_file(void **state)
{
    (void)state;
    struct ls_ckpt *c = (void *)1;
    check_refused(ls_ckpt_open(&c, "/nonexistent"), "/nonexistent");
    assert_null(c);
    check_refused(ls_ckpt_open(&c, folder), "not a regular file");
    check_refused(ls_ckpt_open(&c, "/proc/self/exe"), "over the format's limit");
    check_refused(ls_ckpt_open(&c, "/dev/null"), "not a regular file");
    check_refused(ls_ckpt_parse(&c, "nothing", NULL, 0), "too few");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),    cmocka_unit_test(same_input_same_bytes), cmocka_unit_test(metadata),
        cmocka_unit_test(no_tensors),    cmocka_unit_test(unicode_names),         cmocka_unit_test(many_tensors),
        cmocka_unit_test(write_refuses), cmocka_unit_test(foreign_misaligned),    cmocka_unit_test(not_a_file),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
