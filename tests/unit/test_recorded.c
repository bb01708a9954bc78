/* test_recorded.c: how a run saw its images, from the metadata of its checkpoint: ours, older ones, others' and bad
 * ones. */
#include "engine.h"
#include "scratch.h"
#include "session/recorded.h"

#include <stdio.h>
#include <unistd.h>

/* What eval would find in a checkpoint with this one key. */
static enum ls_status open_recorded(struct recorded *r, const char *key, const char *value)
{
    static const float one[1] = {1};
    const struct ls_ckpt_tensor tensor = {"a", LS_F32, LS_SHAPE1(1), one};
    const struct ls_ckpt_meta meta = {key, value};
    char path[SCRATCH_BYTES];
    struct ls_ckpt *ckpt = NULL;
    scratch_name(path, "recorded", ".safetensors");
    int fd = mkstemps(path, (int)strlen(".safetensors"));
    assert_true(fd >= 0);
    close(fd);
    check_ok(ls_ckpt_write(path, &tensor, 1, &meta, 1));
    check_ok(ls_ckpt_open(&ckpt, path));
    enum ls_status status = ls__recorded_open(r, ckpt, "F");
    ls_ckpt_close(&ckpt); /* what was read does not lie in it */
    unlink(path);
    return status;
}

static void test_what_is_written_is_read(void **state)
{
    static const char *const sizes[] = {NULL, "28", "224x160"};
    for (int i = 0; i < 6; i++) {
        struct ls_train_options o;
        struct recorded r;
        char *text;
        ls_train_options_default(&o);
        o.model = "any=0 normalize=0 resize=7"; /* names are no settings */
        o.normalize = i % 2;
        o.resize = sizes[i / 2];
        check_ok(ls__recorded_text(&o, &text));
        check_ok(open_recorded(&r, LS_RECORDED_KEY, text));
        assert_int_equal(r.o.normalize, o.normalize);
        if (o.resize)
            assert_string_equal(r.o.resize, o.resize);
        else
            assert_null(r.o.resize);
        ls__recorded_close(&r);
        free(text);
    }
}

/* Files of before the key, with their one text for all of the input. */
static void test_older_checkpoints(void **state)
{
    struct recorded r;
    check_ok(open_recorded(&r, "input", "crop_pad=0 flip=0 cutout=0 normalize=0 resize=224x160"));
    assert_false(r.o.normalize);
    assert_string_equal(r.o.resize, "224x160");
    ls__recorded_close(&r);
    check_ok(open_recorded(&r, "input", "crop_pad=4 flip=1 cutout=8 normalize=1 resize="));
    assert_true(r.o.normalize && r.o.flip && r.o.crop_pad == 4 && r.o.cutout == 8);
    assert_null(r.o.resize);
    ls__recorded_close(&r);
}

static void test_others_have_defaults(void **state)
{
    struct recorded r;
    check_ok(open_recorded(&r, "format", "pt"));
    assert_true(r.o.normalize);
    assert_null(r.o.resize);
    ls__recorded_close(&r);
    check_ok(open_recorded(&r, LS_RECORDED_KEY, "{\"sync\": \"of tomorrow\", \"seed\": -1, \"new\": 1}"));
    assert_true(r.o.normalize);
    ls__recorded_close(&r);
}

static void test_bad_ones_are_refused(void **state)
{
    static const struct {
        const char *key, *value;
    } bad[] = {
        {LS_RECORDED_KEY, "none"},
        {LS_RECORDED_KEY, ""},
        {LS_RECORDED_KEY, "[1]"},
        {LS_RECORDED_KEY, "{\"normalize\": 1}"},
        {LS_RECORDED_KEY, "{\"resize\": \"0x7\"}"},
        {LS_RECORDED_KEY, "{\"resize\": 28}"},
        {"input", "crop_pad=0 normalize=2"},
        {"input", "resize=28x"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct recorded r;
        check_fails(open_recorded(&r, bad[i].key, bad[i].value), LS_CHECKPOINT, "F: the options it was made with");
        ls__recorded_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_is_read),
        cmocka_unit_test(test_older_checkpoints),
        cmocka_unit_test(test_others_have_defaults),
        cmocka_unit_test(test_bad_ones_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
