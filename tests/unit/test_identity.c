/* test_identity.c: what decides the bits of a run: made, sent, compared. */
#include "engine.h"
#include "other_value.h"
#include "session/identity.h"
#include "settings/setting.h"

#include <stdio.h>

static const char *const net = "model t\ninput any\nconv a 5 3 pad=1\nrelu\nflatten\nlinear fc classes\n";

static void small_options(struct ls_train_options *o)
{
    ls_train_options_default(o);
    o->model = "t.net";
    o->data = "fake:2x8x8:4:44";
    o->device = "ref";
    o->batch_size = 10;
    check_ok(ls_options_check(o));
}

static void open_session(struct session *s, const struct ls_train_options *o, int64_t threads, bool with_test)
{
    const struct session_options so = {.model = o->model,
                                       .model_text = net,
                                       .data = o->data,
                                       .device = o->device,
                                       .batch_size = o->batch_size,
                                       .shards = 3,
                                       .threads = threads,
                                       .is_training = true,
                                       .with_test = with_test,
                                       .optim = {.momentum = 0.9}};
    check_ok(ls__session_open(s, &so));
}

/* The identity of a small run; the number of threads is the caller's. */
static void make(struct identity *id, int64_t threads, int64_t seed, int64_t epochs, bool with_test)
{
    struct session s;
    struct ls_train_options o;
    small_options(&o);
    o.seed = seed;
    o.epochs = epochs;
    open_session(&s, &o, threads, with_test);
    check_ok(ls__identity_of(id, &o, &s));
    ls__session_close(&s);
}

static void change(struct identity *id, enum identity_key key, const char *value)
{
    free(id->values[key]);
    id->values[key] = value ? strdup(value) : NULL;
}

static void test_threads_and_epochs_do_not_matter(void **state)
{
    struct identity a, b;
    struct identity_difference d = {0};
    make(&a, 1, 1, 5, true);
    make(&b, 3, 1, 7, false);
    if (ls__identity_differs(&a, &b, IDENTITY_RESUME, &d)) fail_msg("%s: '%s' and '%s'", d.what, d.mine, d.theirs);
    assert_true(ls__identity_differs(&a, &b, IDENTITY_WORKERS, &d)); /* workers must agree on the epochs */
    assert_int_equal(d.key, IDENTITY_EPOCHS);
    ls__identity_release(&a);
    ls__identity_release(&b);
}

static void test_run_comes_first(void **state)
{
    struct identity a, b;
    struct identity_difference d;
    make(&a, 1, 1, 5, true);
    make(&b, 1, 2, 5, true);
    change(&b, IDENTITY_ISA, "avx2");
    assert_true(ls__identity_differs(&a, &b, IDENTITY_RUN, &d));
    assert_int_equal(d.key, IDENTITY_SEED);
    assert_false(d.is_bits);
    assert_string_equal(d.mine, "1");
    assert_string_equal(d.theirs, "2");
    change(&b, IDENTITY_SEED, "1");
    assert_false(ls__identity_differs(&a, &b, IDENTITY_RUN, &d));
    assert_true(ls__identity_differs(&a, &b, IDENTITY_RESUME, &d));
    assert_int_equal(d.key, IDENTITY_ISA);
    assert_true(d.is_bits);
    change(&b, IDENTITY_ISA, NULL);
    assert_true(ls__identity_differs(&a, &b, IDENTITY_RESUME, &d));
    assert_string_equal(d.theirs, "(not recorded)");
    ls__identity_release(&a);
    ls__identity_release(&b);
}

static void test_advice(void **state)
{
    struct identity a, b;
    struct identity_difference d;
    make(&a, 1, 1, 5, true);
    make(&b, 1, 1, 5, true);
    change(&a, IDENTITY_ISA, "avx512");
    change(&b, IDENTITY_ISA, "avx2");
    assert_true(ls__identity_differs(&a, &b, IDENTITY_RESUME, &d));
    assert_string_equal(d.advice, "give --isa avx2");
    assert_true(ls__identity_differs(&b, &a, IDENTITY_RESUME, &d));
    assert_non_null(strstr(d.advice, "from its beginning"));
    change(&b, IDENTITY_DATA_CHECKSUM, "0");
    assert_true(ls__identity_differs(&a, &b, IDENTITY_RESUME, &d));
    assert_string_equal(d.advice, "the data differ: use the same files");
    ls__identity_release(&a);
    ls__identity_release(&b);
}

/* A hash that differs is explained by the first layer that does. */
static void test_first_kernel(void **state)
{
    struct identity a, b;
    struct identity_difference d;
    make(&a, 1, 1, 5, true);
    make(&b, 1, 1, 5, true);
    change(&a, IDENTITY_KERNELS, "a conv2d ref\nrelu relu ref\nfc linear ref\n");
    change(&b, IDENTITY_KERNELS, "a conv2d ref\nrelu relu own\nfc linear dot\n");
    assert_false(ls__identity_differs(&a, &b, IDENTITY_WORKERS, &d)); /* the hash decides */
    change(&b, IDENTITY_PLAN_HASH, "0");
    assert_true(ls__identity_differs(&a, &b, IDENTITY_RESUME, &d));
    assert_string_equal(d.mine, "relu relu ref");
    assert_string_equal(d.theirs, "relu relu own");
    change(&b, IDENTITY_KERNELS, "a conv2d ref");
    assert_true(ls__identity_differs(&a, &b, IDENTITY_RESUME, &d));
    assert_string_equal(d.theirs, "(none)");
    ls__identity_release(&a);
    ls__identity_release(&b);
}

/* Checkpoints hold these texts and --resume compares them: they stay as they were in the first version. */
static void test_texts_never_change(void **state)
{
    struct session s;
    struct ls_train_options o;
    struct identity id;
    small_options(&o);
    o.nesterov = o.flip = true;
    o.milestones = "3,7";
    o.resize = "8";
    o.crop_pad = 4;
    open_session(&s, &o, 1, false);
    check_ok(ls__identity_of(&id, &o, &s));
    assert_string_equal(id.values[IDENTITY_OPTIMIZER],
                        "sgd lr=0.050000000000000003 momentum=0.90000000000000002 nesterov=1 weight_decay=0 "
                        "beta1=0.90000000000000002 beta2=0.999 eps=1e-08");
    assert_string_equal(id.values[IDENTITY_SCHEDULE],
                        "cosine gamma=0.10000000000000001 step_epochs=30 milestones=3,7 warmup_epochs=0 min_lr=0");
    assert_string_equal(id.values[IDENTITY_REGULARIZATION], "label_smoothing=0 clip_norm=0");
    assert_string_equal(id.values[IDENTITY_INPUT], "crop_pad=4 flip=1 cutout=0 normalize=1 resize=8");
    assert_string_equal(id.values[IDENTITY_SUM], "fixed");
    ls__identity_release(&id);
    ls__session_close(&s);
}

/* Told by the session. */
static bool is_told_otherwise(enum ls_setting_id id)
{
    return id == LS_SET_MODEL || id == LS_SET_BATCH_SIZE || id == LS_SET_SHARDS || id == LS_SET_VALIDATION ||
           id == LS_SET_INIT_SKIP;
}

/* Runs of before there was a choice say nothing about it, and go on. */
static void test_precision(void **state)
{
    struct session s;
    struct ls_train_options o;
    struct identity f32, bf16;
    struct identity_difference d;
    small_options(&o);
    open_session(&s, &o, 1, false);
    check_ok(ls__identity_of(&f32, &o, &s));
    assert_null(f32.values[IDENTITY_PRECISION]);
    o.precision = "bf16";
    check_ok(ls__identity_of(&bf16, &o, &s));
    assert_true(ls__identity_differs(&bf16, &f32, IDENTITY_RUN, &d));
    assert_string_equal(d.what, "precision");
    assert_string_equal(d.mine, "bf16");
    assert_string_equal(d.theirs, "f32");
    ls__identity_release(&f32);
    ls__identity_release(&bf16);
    ls__session_close(&s);
}

/* A setting shows in the identity exactly where its role says. */
static void test_roles(void **state)
{
    struct session s;
    struct ls_train_options base;
    struct identity before;
    small_options(&base);
    open_session(&s, &base, 1, true);
    check_ok(ls__identity_of(&before, &base, &s));
    for (int i = 0; i < LS_N_SETTINGS; i++) {
        const struct ls_setting *setting = &ls__settings[i];
        struct ls_train_options o = base;
        struct identity id;
        struct identity_difference d;
        check_ok(ls__setting_store(setting, &o, other_value(setting)));
        check_ok(ls__identity_of(&id, &o, &s));
        bool is_run = setting->role == LS_ROLE_RUN && !is_told_otherwise((enum ls_setting_id)i);
        if (ls__identity_differs(&before, &id, IDENTITY_RUN, &d) != is_run)
            fail_msg("--%s %s the run", setting->name, is_run ? "does not show in" : "shows in");
        bool is_together = is_run || setting->role == LS_ROLE_TOGETHER;
        if (ls__identity_differs(&before, &id, IDENTITY_WORKERS, &d) != is_together)
            fail_msg("--%s %s what workers compare", setting->name, is_together ? "does not show in" : "shows in");
        ls__identity_release(&id);
    }
    ls__identity_release(&before);
    ls__session_close(&s);
}

static void test_on_the_wire(void **state)
{
    struct identity a, b;
    struct identity_difference d;
    char *text;
    make(&a, 1, 1, 5, true);
    check_ok(ls__identity_to_text(&a, &text));
    check_ok(ls__identity_from_text(&b, text, strlen(text)));
    assert_false(ls__identity_differs(&a, &b, IDENTITY_WORKERS, &d));
    for (int i = 0; i < N_IDENTITY; i++) {
        if (!a.values[i]) assert_null(b.values[i]);
        if (a.values[i]) assert_string_equal(a.values[i], b.values[i]);
    }
    ls__identity_release(&b);
    static const char *const bad[] = {"", "[]", "{\"seed\": 1}", "{\"seed\": \"1\"", "{} {}"};
    for (int i = 0; i < 5; i++) {
        check_fails(ls__identity_from_text(&b, bad[i], strlen(bad[i])), LS_DATA, "identity of a run");
        ls__identity_release(&b);
    }
    free(text);
    ls__identity_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_and_epochs_do_not_matter),
        cmocka_unit_test(test_run_comes_first),
        cmocka_unit_test(test_advice),
        cmocka_unit_test(test_first_kernel),
        cmocka_unit_test(test_texts_never_change),
        cmocka_unit_test(test_precision),
        cmocka_unit_test(test_roles),
        cmocka_unit_test(test_on_the_wire),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
