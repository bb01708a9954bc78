/* test_tune.c: tuning tables: read, refused with the line's number, and obeyed by a plan. */
#include "base/file.h"
#include "engine.h"
#include "plan/tune.h"

#include <stdio.h>
#include <unistd.h>

#define TOP "tune 1\nisa avx512\nlibrary onednn-2.6\n"
#define CONV "conv2d 4x2x8x8 5x2x3x3 > 4x5x8x8 k3x3 s1x1 p1x1 d1x1 g1"

static enum ls_status parse(struct ls_tune **t, const char *text)
{
    return ls__tune_parse(t, "x.tune", text, strlen(text));
}

static void test_reads(void **state)
{
    struct ls_tune *t, *same;
    check_ok(parse(&t, "# a table\n\n" TOP CONV " = wino  # why\r\n\tlinear  16x784\t10x784 > 16x10 = dot"));
    assert_string_equal(t->id.isa, "avx512");
    assert_string_equal(t->id.software, "onednn-2.6");
    assert_int_equal(t->n_lines, 2);
    assert_string_equal(ls__tune_find(t, CONV), "wino");
    assert_string_equal(ls__tune_find(t, "linear 16x784 10x784 > 16x10"), "dot");
    assert_null(ls__tune_find(t, "linear 16x784 10x784 > 16x1"));
    /* comments and blanks do not count, choices do */
    check_ok(parse(&same, TOP CONV " = wino\nlinear 16x784 10x784 > 16x10 = dot\n"));
    assert_string_equal(t->hash, same->hash);
    check_ok(ls__tune_set(same, CONV, "dnnl"));
    assert_string_equal(ls__tune_find(same, CONV), "dnnl");
    assert_string_not_equal(t->hash, same->hash);
    check_ok(ls__tune_set(same, CONV, NULL));
    assert_null(ls__tune_find(same, CONV));
    assert_int_equal(same->n_lines, 1);
    check_ok(ls__tune_set(same, CONV, NULL));
    ls__tune_destroy(&t);
    ls__tune_destroy(&same);
}

static void test_refuses(void **state)
{
    static const struct {
        const char *text, *piece;
    } cases[] = {
        {"", "x.tune:0: ends without 'tune 1'"},
        {"tune 1\nisa avx2\n", "x.tune:2: ends without 'library NAME'"},
        {"tune 2\n", "x.tune:1: format 2; this program reads format 1"},
        {"tune 1 2\n", "x.tune:1: expected 'tune' and one digit"},
        {"tune 1\nisa\n", "x.tune:2: expected 'isa' and one name"},
        {"tune 1\nisa AVX\n", "x.tune:2: expected 'isa' and one name"},
        {"tune 1\nisa a-name-that-is-much-too-long-for-one\n", "x.tune:2: expected 'isa'"},
        {TOP "isa avx2\n", "x.tune:4: 'isa' stands once, at the top"},
        {CONV " = wino\n", "x.tune:1: expected 'tune 1', 'isa NAME' and 'library NAME' before 'conv2d'"},
        {TOP "conv3d 1 > 1 = ref\n", "x.tune:4: no op 'conv3d'"},
        {TOP CONV "\n", "x.tune:4: expected '= NAME'"},
        {TOP CONV " =\n", "x.tune:4: expected '= NAME'"},
        {TOP CONV " = Wino\n", "x.tune:4: expected '= NAME'"},
        {TOP CONV " = wino dnnl\n", "x.tune:4: expected '= NAME'"},
        {TOP "relu > 1x2 = own\n", "x.tune:4: expected shapes"},
        {TOP "relu 1x2 = own\n", "x.tune:4: expected shapes"},
        {TOP "relu 1x2 > = own\n", "x.tune:4: expected shapes"},
        {TOP "relu 1x2 1 1 > 1x2 = own\n", "x.tune:4: expected shapes"},
        {TOP "relu 1x2x > 1x2 = own\n", "x.tune:4: expected shapes"},
        {TOP "relu 1x2x3x4x5 > 1x2 = own\n", "x.tune:4: expected shapes"},
        {TOP "relu -1x2 > 1x2 = own\n", "x.tune:4: expected shapes"},
        {TOP "relu 1234567890123 > 1x2 = own\n", "x.tune:4: expected shapes"},
        {TOP "maxpool 1x2 > 1x2 k2x2 s2x2 p0x0 d1x1 = own\n", "x.tune:4: expected shapes"},
        {TOP "maxpool 1x2 > 1x2 s2x2 k2x2 p0x0 d1x1 g1 = own\n", "x.tune:4: expected shapes"},
        {TOP "maxpool 1x2 > 1x2 k2 s2x2 p0x0 d1x1 g1 = own\n", "x.tune:4: expected shapes"},
        {TOP CONV " = wino\n\n" CONV "  = dnnl\n", "x.tune:6: '" CONV "' is listed twice"},
        {TOP "relu \x01\n", "x.tune:4: byte 0x01 is not text"},
        {TOP "relu 1x2 > 1x2 = \xff\n", "x.tune:4: byte 0xff is not text"},
        {TOP "relu 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n", "x.tune:4: more than 16 words"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ls_tune *t = (struct ls_tune *)1;
        check_fails(parse(&t, cases[i].text), LS_DATA, cases[i].piece);
        assert_null(t);
    }
}

static void test_size_is_bounded(void **state)
{
    enum { BYTES = LS_TUNE_FILE_BYTES + 1 };
    struct ls_tune *t;
    char *text = malloc(BYTES);
    memset(text, ' ', BYTES);
    check_fails(ls__tune_parse(&t, "x.tune", text, BYTES), LS_DATA, "a tuning table has 1048576 at most");
    check_fails(ls__tune_parse(&t, "x.tune", text, 500), LS_DATA, "x.tune:1: a line of 500 bytes");
    size_t at = (size_t)sprintf(text, TOP);
    for (int i = 0; i <= LS_TUNE_LINES; i++) at += (size_t)sprintf(text + at, "relu %d > 1 = own\n", i);
    check_fails(ls__tune_parse(&t, "x.tune", text, at), LS_DATA, "x.tune:4100: more than 4096 choices");
    free(text);
}

static void test_fits(void **state)
{
    struct ls_tune *t;
    check_ok(parse(&t, TOP));
    assert_true(ls__tune_fits(t, &(struct ls_backend_id){"onednn-2.6.3", "avx512"}));
    assert_true(ls__tune_fits(t, &(struct ls_backend_id){"onednn-2.6", "avx512"}));
    assert_false(ls__tune_fits(t, &(struct ls_backend_id){"onednn-2.60.3", "avx512"}));
    assert_false(ls__tune_fits(t, &(struct ls_backend_id){"onednn-2.7.0", "avx512"}));
    assert_false(ls__tune_fits(t, &(struct ls_backend_id){"onednn-2.6.3", "avx2"}));
    ls__tune_destroy(&t);
}

/* Every table of the source is well formed, and there is one for each key at most. */
static void test_built_in(void **state)
{
    struct ls_tune *t, *other;
    for (int i = 0; ls__tune_texts[i].name; i++) {
        const struct ls_tune_text *text = &ls__tune_texts[i];
        check_ok(ls__tune_parse(&t, text->name, text->text, strlen(text->text)));
        for (int k = 0; k < i; k++) {
            check_ok(ls__tune_parse(&other, "", ls__tune_texts[k].text, strlen(ls__tune_texts[k].text)));
            assert_false(ls__tune_fits(t, &other->id));
            ls__tune_destroy(&other);
        }
        check_ok(ls__tune_built_in(&other, &t->id));
        assert_non_null(other);
        assert_string_equal(other->hash, t->hash);
        ls__tune_destroy(&other);
        ls__tune_destroy(&t);
    }
    check_ok(ls__tune_built_in(&t, &(struct ls_backend_id){"abacus-1.0", "any"}));
    assert_null(t);
}

/* --- a plan obeys --- */

/* A backend whose first implementation of relu takes nothing it is not asked for. */
static const struct ls_impl *ref_relu(void)
{
    for (int i = 0; ls_backend_ref.impls[i]; i++)
        if (ls_backend_ref.impls[i]->op == LS_OP_RELU) return ls_backend_ref.impls[i];
    return NULL;
}

static enum ls_status prepare_shy(const struct ls_prep *prep, struct ls_kernel **out)
{
    struct ls_kernel *k;
    if (!prep->is_asked_for) return ls_fail(LS_UNSUPPORTED, "not asked for");
    TRY(ref_relu()->prepare(prep, &k));
    snprintf(k->name, sizeof k->name, "shy");
    *out = k;
    return LS_OK;
}

static enum ls_status prepare_never(const struct ls_prep *prep, struct ls_kernel **out)
{
    return ls_fail(LS_UNSUPPORTED, "never");
}

static const struct ls_impl shy = {.name = "shy", .op = LS_OP_RELU, .prepare = prepare_shy};
static const struct ls_impl never = {.name = "never", .op = LS_OP_RELU, .prepare = prepare_never};
static const struct ls_impl *const impls[] = {&never, &shy, NULL};

/* The relu of a small graph on the backend above, with the choice as listed ("" nothing). */
static void check_relu(const char *choice, const char *kernel, bool is_tuned, const char *refused)
{
    struct ls_backend backend = ls_backend_ref;
    struct ls_device *device;
    struct ls_store *store;
    struct ls_graph *g;
    struct ls_plan *p;
    struct ls_tune *t;
    const struct ls_shape shape = {.n_dims = 2, .dims = {4, 3}};
    const struct ls_attrs none = {0};
    char text[128], hash[33];
    int in;
    backend.impls = impls;
    snprintf(text, sizeof text, TOP "%s%s", *choice ? "relu 4x3 > 4x3 = " : "", choice);
    check_ok(parse(&t, text));
    check_ok(backend.device_open(&device));
    check_ok(ls_store_create(&store));
    check_ok(ls_graph_create(&g, 4, false));
    check_ok(ls_graph_add_value(g, "input", LS_VALUE_INPUT, LS_F32, &shape, &in));
    check_ok(ls_graph_add_node(g, LS_OP_RELU, "r", &none, &in, 1, NULL));
    check_ok(ls_plan_create_tuned(&p, &g, &backend, device, store, t));
    assert_int_equal(p->n_ops, 1);
    assert_string_equal(p->ops[0].kernel->name, kernel);
    assert_int_equal(p->ops[0].is_tuned, is_tuned);
    if (!refused) assert_null(p->ops[0].refused);
    if (refused) assert_string_equal(p->ops[0].refused, refused);
    assert_int_equal(ls_plan_hash(p, hash), LS_OK);
    assert_null(p->tune);
    ls_plan_destroy(&p);
    ls_store_destroy(&store);
    backend.device_close(&device);
    ls__tune_destroy(&t);
}

static void test_plan_obeys(void **state)
{
    check_relu("", "ref", false, "never: never; shy: not asked for");
    check_relu("shy", "shy", true, NULL);
    check_relu("ref", "ref", true, NULL);
    check_relu("never", "ref", false, "the table's never: never; never: never; shy: not asked for");
    check_relu("what", "ref", false, "the table's what: no such implementation; never: never; shy: not asked for");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads), cmocka_unit_test(test_refuses),  cmocka_unit_test(test_size_is_bounded),
        cmocka_unit_test(test_fits),  cmocka_unit_test(test_built_in), cmocka_unit_test(test_plan_obeys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
