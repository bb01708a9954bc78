/* test_wire_frame.c: heads of messages (wire/frame.c): what is written is read; anything else is refused, whatever it
 * is cut to or filled with. */
#include "wire/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t state = 88172645463325252u;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static const struct ls_frame sample = {.kind = 7,
                                       .flags = 3,
                                       .sender = 0xfffffffeu,
                                       .session = 0x0123456789abcdefu,
                                       .step = -5,
                                       .sequence = 99,
                                       .payload_bytes = 1000};

static size_t write_sample(uint8_t *out, size_t size)
{
    const uint32_t list[] = {1, 0x80000000u, 3};
    struct ls_frame_writer w = ls_frame_begin(out, size);
    size_t bytes;
    ls_frame_put_u8(&w, 200);
    ls_frame_put_u32(&w, 0xdeadbeefu);
    ls_frame_put_u64(&w, UINT64_MAX);
    ls_frame_put_i64(&w, INT64_MIN);
    ls_frame_put_f64(&w, -0.1);
    ls_frame_put_text(&w, "grüße");
    ls_frame_put_u32s(&w, list, 3);
    ls_frame_put_bytes(&w, NULL, 0);
    return ls_frame_end(&w, &sample, &bytes) == LS_OK ? bytes : 0;
}

static bool read_sample(const uint8_t *in, size_t bytes, size_t payload_bytes)
{
    struct ls_frame f;
    struct ls_frame_reader r;
    uint32_t list[3] = {0};
    char text[16];
    size_t none;
    if (!ls_frame_read(in, bytes, payload_bytes, &f, &r)) return false;
    bool is_same = ls_frame_get_u8(&r) == 200 && ls_frame_get_u32(&r) == 0xdeadbeefu &&
                   ls_frame_get_u64(&r) == UINT64_MAX && ls_frame_get_i64(&r) == INT64_MIN &&
                   ls_frame_get_f64(&r) == -0.1;
    ls_frame_get_text(&r, text, sizeof text);
    is_same = is_same && strcmp(text, "grüße") == 0 && ls_frame_get_u32s(&r, list, 3) == 3 && list[0] == 1 &&
              list[1] == 0x80000000u && list[2] == 3;
    ls_frame_get_bytes(&r, &none);
    return is_same && ls_frame_done(&r) && memcmp(&f, &sample, sizeof f) == 0;
}

static void round_trip(void **unused)
{
    uint8_t head[256];
    size_t bytes = write_sample(head, sizeof head);
    assert_true(bytes > LS_FRAME_HEAD_BYTES);
    assert_true(read_sample(head, bytes, 1000));
    /* The bytes are the format: they may not change by accident. */
    const uint8_t first[] = {'L', 'S', 'W', 1, 7, 0, 3, 0, 0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01};
    assert_memory_equal(head, first, sizeof first);
}

static void cut_and_wrong_lengths(void **unused)
{
    uint8_t head[256];
    size_t bytes = write_sample(head, sizeof head);
    for (size_t n = 0; n < bytes; n++) {
        uint8_t *exact = malloc(n + 1); /* a read beyond it is seen by the sanitizer */
        memcpy(exact, head, n);
        assert_false(read_sample(exact, n, 1000));
        free(exact);
    }
    assert_false(read_sample(head, bytes + 1, 1000));
    assert_false(read_sample(head, bytes, 999));
    assert_false(read_sample(head, bytes, 0));
    for (size_t i = 0; i < bytes; i++) { /* no byte is without meaning */
        head[i] ^= 0x40;
        assert_false(read_sample(head, bytes, 1000));
        head[i] ^= 0x40;
    }
    assert_true(read_sample(head, bytes, 1000));
}

static void too_small_a_buffer(void **unused)
{
    uint8_t head[256];
    size_t bytes = write_sample(head, sizeof head);
    for (size_t n = 0; n < bytes; n++) {
        uint8_t *exact = malloc(n + 1);
        assert_int_equal(write_sample(exact, n), 0);
        free(exact);
    }
    struct ls_frame_writer w = ls_frame_begin(head, sizeof head);
    assert_int_equal(ls_frame_end(&w, &(struct ls_frame){.kind = 0}, &bytes), LS_INTERNAL);
}

static void hostile_lengths(void **unused)
{
    uint8_t head[LS_FRAME_HEAD_BYTES + 8];
    struct ls_frame f;
    struct ls_frame_reader r;
    uint32_t list[4];
    char text[4];
    size_t bytes, n;
    const uint32_t lengths[] = {UINT32_MAX, UINT32_MAX - 3, 5, 0x40000000u};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct ls_frame_writer w = ls_frame_begin(head, sizeof head);
        ls_frame_put_u32(&w, lengths[i]);
        ls_frame_put_u32(&w, 0);
        assert_int_equal(ls_frame_end(&w, &(struct ls_frame){.kind = 1}, &bytes), LS_OK);
        assert_true(ls_frame_read(head, bytes, 0, &f, &r));
        assert_null(ls_frame_get_bytes(&r, &n));
        assert_int_equal(n, 0);
        assert_false(ls_frame_done(&r));
        assert_true(ls_frame_read(head, bytes, 0, &f, &r));
        assert_int_equal(ls_frame_get_u32s(&r, list, 4), 0);
        assert_false(ls_frame_done(&r));
        assert_true(ls_frame_read(head, bytes, 0, &f, &r));
        ls_frame_get_text(&r, text, sizeof text);
        assert_string_equal(text, "");
        assert_false(ls_frame_done(&r));
    }
}

static void text_with_zero(void **unused)
{
    uint8_t head[128];
    struct ls_frame f;
    struct ls_frame_reader r;
    char text[8];
    size_t bytes;
    struct ls_frame_writer w = ls_frame_begin(head, sizeof head);
    ls_frame_put_bytes(&w, "a\0b", 3);
    assert_int_equal(ls_frame_end(&w, &(struct ls_frame){.kind = 1}, &bytes), LS_OK);
    assert_true(ls_frame_read(head, bytes, 0, &f, &r));
    ls_frame_get_text(&r, text, sizeof text);
    assert_false(ls_frame_done(&r));
}

static void random_bytes(void **unused)
{
    uint8_t bytes[300];
    for (int i = 0; i < 20000; i++) {
        size_t n = next_random() % sizeof bytes;
        for (size_t k = 0; k < n; k++) bytes[k] = (uint8_t)next_random();
        if (i % 2 && n >= 4) memcpy(bytes, "LSW\1", 4);
        assert_false(read_sample(bytes, n, 1000));
    }
}

static void repeats(void **unused)
{
    uint64_t last = 0;
    assert_false(ls_frame_is_fresh(&last, 0));
    assert_true(ls_frame_is_fresh(&last, 1));
    assert_false(ls_frame_is_fresh(&last, 1));
    assert_true(ls_frame_is_fresh(&last, 5));
    assert_false(ls_frame_is_fresh(&last, 4));
    assert_int_equal(last, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(cut_and_wrong_lengths),
        cmocka_unit_test(too_small_a_buffer),
        cmocka_unit_test(hostile_lengths),
        cmocka_unit_test(text_with_zero),
        cmocka_unit_test(random_bytes),
        cmocka_unit_test(repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
