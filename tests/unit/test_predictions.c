/* Guesses, tallies and confusions; names of classes. */
#include "train/guess.h"
#include "train/predictions.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_guesses(void **state)
{
    const float logits[6] = {1, 3, -2, 3, 1, 0};
    struct ls_guess all[6], two[2];
    const int expected[6] = {1, 3, 0, 4, 5, 2}; /* equal ones: the lower label first */
    double sum = 0;
    ls__guess(logits, 6, 6, all);
    ls__guess(logits, 6, 2, two);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(all[i].label, expected[i]);
        sum += all[i].probability;
    }
    assert_true(fabs(sum - 1) < 1e-6);
    assert_memory_equal(all, two, sizeof two);
    float p[6];
    ls__softmax(logits, 6, p);
    for (int i = 0; i < 6; i++) assert_true(all[i].probability == p[all[i].label]);
}

/* As large as floats can be: no overflow on the way. */
static void test_large_logits(void **state)
{
    const float logits[3] = {3e38f, -3e38f, 3e38f};
    struct ls_guess top[3];
    ls__guess(logits, 3, 3, top);
    assert_int_equal(top[0].label, 0);
    assert_true(top[0].probability == 0.5f && top[2].probability == 0);
}

/* truth -> answer: 0 -> 0 1 1 2; 1 -> 1 1 0 0; 2 -> 1; nobody is 3 */
static const uint16_t truth[9] = {0, 0, 0, 0, 1, 1, 1, 1, 2};
static const int answer[9] = {0, 1, 1, 2, 1, 1, 0, 0, 1};

static struct predictions example(struct ls_guess guesses[18])
{
    for (int i = 0; i < 9; i++) {
        guesses[2 * i] = (struct ls_guess){answer[i], 0.75f};
        guesses[2 * i + 1] = (struct ls_guess){3, 0.25f};
    }
    guesses[3].label = 0; /* the second sample's second guess is right */
    return (struct predictions){
        .n = 9, .room = 9, .n_classes = 4, .k = 2, .labels = (uint16_t *)truth, .guesses = guesses};
}

static void test_tallies(void **state)
{
    struct ls_guess guesses[18];
    struct predictions p = example(guesses);
    struct class_tally *t;
    assert_true(ls__predictions_top(&p, 1) == 3.0 / 9);
    assert_true(ls__predictions_top(&p, 2) == 4.0 / 9);
    assert_int_equal(ls__predictions_tally(&p, &t), LS_OK);
    assert_int_equal(t[0].support, 4);
    assert_int_equal(t[0].predicted, 3);
    assert_int_equal(t[0].right, 1);
    assert_true(ls__tally_recall(&t[1]) == 0.5 && ls__tally_precision(&t[1]) == 2.0 / 5);
    assert_true(ls__tally_f1(&t[1]) == 4.0 / 9);
    assert_true(ls__tally_recall(&t[2]) == 0 && ls__tally_precision(&t[2]) == 0 && ls__tally_f1(&t[2]) == 0);
    assert_true(isnan(ls__tally_recall(&t[3])) && isnan(ls__tally_precision(&t[3])) && isnan(ls__tally_f1(&t[3])));
    free(t);
}

static void test_confusions(void **state)
{
    static const int64_t expected[16] = {1, 2, 1, 0, 2, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0};
    static const struct confused order[4] = {{0, 1, 2}, {1, 0, 2}, {0, 2, 1}, {2, 1, 1}};
    struct ls_guess guesses[18];
    struct predictions p = example(guesses);
    int64_t *matrix;
    struct confused *pairs;
    size_t n;
    assert_int_equal(ls__predictions_matrix(&p, &matrix), LS_OK);
    assert_memory_equal(matrix, expected, sizeof expected);
    assert_int_equal(ls__predictions_confused(&p, &pairs, &n), LS_OK);
    assert_int_equal(n, 4);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(pairs[i].truth, order[i].truth);
        assert_int_equal(pairs[i].predicted, order[i].predicted);
        assert_int_equal(pairs[i].n, order[i].n);
    }
    free(matrix);
    free(pairs);
}

static void test_class_names(void **state)
{
    struct ls_classes c;
    char number[LS_CLASS_TEXT];
    assert_int_equal(ls__classes_init(&c, "cat\n\ndog\nmore\n", 3), LS_OK); /* one has no name, one is too many */
    assert_string_equal(ls__classes_show(&c, 0, number), "cat");
    assert_string_equal(ls__classes_show(&c, 1, number), "1");
    assert_string_equal(ls__classes_name(&c, 2), "dog");
    assert_null(ls__classes_name(&c, 3));
    assert_null(ls__classes_name(&c, -1));
    ls__classes_release(&c);
    assert_int_equal(ls__classes_init(&c, "cat", 3), LS_OK); /* fewer names than classes */
    assert_string_equal(ls__classes_name(&c, 0), "cat");
    assert_null(ls__classes_name(&c, 1));
    ls__classes_release(&c);
    assert_int_equal(ls__classes_init(&c, NULL, 3), LS_OK);
    assert_null(ls__classes_name(&c, 0));
    ls__classes_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guesses),    cmocka_unit_test(test_large_logits), cmocka_unit_test(test_tallies),
        cmocka_unit_test(test_confusions), cmocka_unit_test(test_class_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
