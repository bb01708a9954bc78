/* test_identity.c: what decides the bits of a run: made, sent, compared. */
#include "engine.h"
#include "session/identity.h"

#include <stdio.h>

static const char *const net = "model t\ninput any\nconv a 5 3 pad=1\nrelu\nflatten\nlinear fc classes\n";

/* The identity of a small run; the number of threads is the caller's. */
static void make(struct identity *id, int64_t threads, int64_t seed, int64_t epochs, bool with_test)
{
    struct session s;
    struct ls_train_options o;
    ls_train_options_default(&o);
    o.model = "t.net";
    o.data = "fake:2x8x8:4:44";
    o.device = "ref";
    o.batch_size = 10;
    o.seed = seed;
    o.epochs = epochs;
    const struct session_options so = {.model = o.model,
                                       .model_text = net,
                                       .data = o.data,
                                       .device = o.device,
                                       .batch_size = o.batch_size,
                                       .shards = 3,
                                       .threads = threads,
                                       .is_training = true,
                                       .with_test = with_test,
                                       .optim = {.momentum = 0.9}};
    check_ok(ls__session_open(&s, &so));
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
        cmocka_unit_test(test_on_the_wire),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
