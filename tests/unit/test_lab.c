/* test_lab.c: lab files: what they come to, and what is said of mistakes. */
#include "lab/lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char good[] = "# a comment\n"
                           "title What does the batch size do?\n"
                           "source A report\n"
                           "text One line\n"
                           "text and another.\n"
                           "text\n"
                           "text Next.\n"
                           "base model=lenet5 data=digits epochs=2\n"
                           "repeat 3\n"
                           "question Q1: Time by batch size\n"
                           "  run batch lr=0.1    # of a run\n"
                           "  vary batch-size 64, 128\n"
                           "  vary network 1gbit,0.1ms 10gbit,1ms\n"
                           "  show accuracy time\n"
                           "  published accuracy batch-64-10gbit_1ms=91.5..92% batch-128-1gbit_0.1ms=0.5\n"
                           "  baseline batch-128-1gbit_0.1ms\n"
                           "  compare network\n"
                           "  published time batch-64-10gbit_1ms=7..9\n"
                           "question Q2: Again\n"
                           "  base epochs=4\n"
                           "  repeat 5\n"
                           "  use batch-64-1gbit_0.1ms\n"
                           "  run other mpi-args=\"a b\" epochs=3\n"
                           "  run third\n";

static struct ls_lab *parse(const char *text)
{
    struct ls_lab *lab = NULL;
    if (ls__lab_parse(&lab, "dir/x.lab", text, strlen(text), NULL) != LS_OK) fail_msg("%s", ls_error_message());
    return lab;
}

static void test_read(void **state)
{
    struct ls_lab *lab = parse(good);
    assert_string_equal(lab->name, "x");
    assert_string_equal(lab->title, "What does the batch size do?");
    assert_string_equal(lab->text, "One line and another.\nNext.");
    assert_int_equal(lab->n_questions, 2);
    assert_int_equal(lab->n_runs, 6);
    assert_int_equal(lab->file_len, strlen(good));
    assert_string_equal(lab->file, good);
    ls__lab_destroy(&lab);
    assert_null(lab);
}

static void test_expansion(void **state)
{
    static const char *const names[] = {"batch-64-1gbit_0.1ms",
                                        "batch-64-10gbit_1ms",
                                        "batch-128-1gbit_0.1ms",
                                        "batch-128-10gbit_1ms",
                                        "other",
                                        "third"};
    static const int repeats[] = {5, 3, 3, 3, 5, 5};
    struct ls_lab *lab = parse(good);
    for (int i = 0; i < lab->n_runs; i++) {
        assert_string_equal(lab->runs[i].name, names[i]);
        assert_int_equal(lab->runs[i].repeats, repeats[i]);
        assert_int_equal(ls__lab_find_run(lab, names[i]), i);
    }
    assert_string_equal(lab->runs[2].group, "batch");
    assert_string_equal(ls__lab_setting(&lab->runs[2], "batch-size"), "128");
    assert_string_equal(ls__lab_setting(&lab->runs[2], "network"), "1gbit,0.1ms");
    assert_string_equal(ls__lab_setting(&lab->runs[2], "epochs"), "2");
    assert_string_equal(ls__lab_setting(&lab->runs[4], "epochs"), "3"); /* the run's own line wins */
    assert_string_equal(ls__lab_setting(&lab->runs[5], "epochs"), "4"); /* then the question's base */
    assert_string_equal(ls__lab_setting(&lab->runs[4], "mpi-args"), "a b");
    assert_null(ls__lab_setting(&lab->runs[4], "lr"));
    ls__lab_destroy(&lab);
}

static void test_questions(void **state)
{
    struct ls_lab *lab = parse(good);
    const struct ls_lab_question *q1 = &lab->questions[0], *q2 = &lab->questions[1];
    assert_int_equal(q1->n_shows, 2);
    assert_true(q1->shows[0] == LS_SHOW_ACCURACY && q1->shows[1] == LS_SHOW_TIME); /* as the line has them */
    assert_true(q2->shows[0] == LS_SHOW_TIME && q2->shows[1] == LS_SHOW_ACCURACY && q2->n_shows == 2);
    assert_int_equal(q1->baseline, 2);
    assert_int_equal(q1->n_axes, 2);
    assert_string_equal(q1->axes[0].key, "batch-size");
    assert_int_equal(q1->axes[1].n_values, 2);
    assert_int_equal(q1->n_published, 3);
    assert_true(q1->published[0].low == 0.915 && q1->published[0].high == 0.92 && q1->published[1].high == 0.5);
    assert_int_equal(q1->published[2].run, 1);
    assert_true(q1->published[2].low == 7 && q1->published[2].high == 9);
    assert_int_equal(q1->n_compares, 1);
    assert_string_equal(q1->compares[0], "network");
    assert_true(ls__lab_is_beside(q1, &lab->runs[0], &lab->runs[1])); /* the same batch, another network */
    assert_false(ls__lab_is_beside(q1, &lab->runs[0], &lab->runs[2]));
    assert_int_equal(q2->n_compares, 0);
    assert_string_equal(q2->title, "Again");
    assert_int_equal(q2->n_runs, 3);
    assert_int_equal(q2->runs[0], 0);
    assert_false(q2->is_own[0]);
    assert_true(q2->is_own[1]);
    assert_int_equal(q2->baseline, 0);
    ls__lab_destroy(&lab);
}

/* Every mistake: the line, and what to write instead. */
static void test_mistakes(void **state)
{
#define HEAD "title T\nsource S\nbase model=m data=d\nquestion Q1: A\n"
    static const struct mistake {
        const char *text, *message;
    } mistakes[] = {
        {"", "x.lab:1: the lab has no title"},
        {"title\n", "x.lab:1: title is empty"},
        {"title T\n", "x.lab:1: the lab has no question"},
        {"title T\ntitle U\n", "x.lab:2: a second title"},
        {"title T\nrun a\n", "x.lab:2: run belongs to a question"},
        {"title T\ntitel U\n", "x.lab:2: unknown word \"titel\"; did you mean title?"},
        {"title T\nquestion Q1: A\n", "x.lab:2: question Q1 has no runs: write run NAME"},
        {"title T\nquestion\n", "x.lab:2: expected a short name and a title"},
        {"title T\nbase model\n", "x.lab:2: \"model\": expected key=value"},
        {"title T\nbase model=\n", "x.lab:2: model= has no value"},
        {"title T\nbase lr=1 lr=2\n", "x.lab:2: lr is set twice"},
        {"title \x01\n", "x.lab:1: byte 0x01"},
        {HEAD "title U\nrun a\n", "x.lab:5: title belongs before the first question"},
        {HEAD "run a\nquestion Q1: B\nrun b lr=1\n", "x.lab:6: a second question Q1 (the first is in line 4)"},
        {HEAD "run a\nrun a lr=1\n", "x.lab:6: a second run a (the first is in line 5)"},
        {HEAD "run a\nrun b\n", "x.lab:6: run b is the same training as a (line 5): write use a"},
        {HEAD "run lr=1\n", "x.lab:5: a run needs a name"},
        {HEAD "run a\nvary batch-size\n", "x.lab:6: vary batch-size has no values"},
        {HEAD "run a\nvary batch-size=1,2\n", "x.lab:6: \"vary batch-size=1,2\": write the values apart by blanks"},
        {HEAD "run a\nvary lr 1 1\n", "x.lab:6: vary lr: 1 stands there twice"},
        {HEAD "run a lr=1\nvary lr 2 3\n", "x.lab:6: vary lr, but the run's own line sets lr=1"},
        {HEAD "run a\nvary lr 2 3\nvary lr 4 5\n", "x.lab:7: lr is varied twice (line 6)"},
        {HEAD "vary lr 2 3\n", "x.lab:5: vary belongs to the run above it"},
        {HEAD "run a\nshow tine\n", "x.lab:6: \"tine\" cannot be shown; did you mean time?"},
        {HEAD "run a\nrepeat 0\n", "x.lab:6: repeat 0: expected a number from 1 to 1000"},
        {HEAD "use b\n", "x.lab:5: use b: no run of that name above"},
        {HEAD "run batch\nvary lr 1 2\nbaseline batch\n",
         "x.lab:7: baseline batch: its vary lines made 2 runs of batch: batch-1, batch-2; name one"},
        {HEAD "run batch\npublished time bath=3\n",
         "x.lab:6: published time bath: no run of that name above; did you mean batch?"},
        {HEAD "run a\npublished time a=x\n", "x.lab:6: published time a: expected RUN=NUMBER"},
        {HEAD "run a\npublished curves a=3\n",
         "x.lab:6: \"curves\" cannot be published; there are: time speed-up accuracy target"},
        {HEAD "run a\npublished acuracy a=3\n", "x.lab:6: \"acuracy\" cannot be published; did you mean accuracy?"},
        {HEAD "run a\npublished accuracy a=99.05\n",
         "x.lab:6: published accuracy a=99.05: accuracy is a part of 1: write 0.9905 or 99.05%"},
        {HEAD "run a\npublished accuracy a=990%\n",
         "x.lab:6: published accuracy a: expected RUN=NUMBER or RUN=LOW..HIGH (RUN=NUMBER? where it may be another "
         "run's); a number is as 0.9905 or 99.05%"},
        {HEAD "run a\npublished time a=81%\n", "x.lab:6: published time a: expected RUN=NUMBER"},
        {HEAD "run a\npublished time a=-1\n", "x.lab:6: published time a: expected RUN=NUMBER"},
        {"title T\nquestion What is it?\nrun a\n", "x.lab:2: a question begins with a short name and a colon: write "
                                                   "question Q1: What is it?"},
        {HEAD "run a\nshow time\nshow target\n",
         "x.lab:7: show target, but no run of question Q1 has one: write target=0.9"},
        {HEAD "run a\npublished speed-up a=3\n", "x.lab:6: published speed-up, but the question does not show"},
        {"title T\nquestion Q1: A\nrun a\npublished time a=3\n", "x.lab:4: published figures without their source"},
        {HEAD "run a lr=\"1\n", "x.lab:5: a \" without its partner"},
        {HEAD "run a\ncompare\n", "x.lab:6: compare what? Name a setting that the runs vary, as compare sync"},
        {HEAD "run a\nvary lr 1 2\ncompare seed\n",
         "x.lab:7: compare seed, but it is the same in all runs of question Q1: vary it, or take it away"},
        {HEAD "run a\nvary lr 1 2\ncompare lr\ncompare lr\n", "x.lab:8: a second compare; a question has one"},
        {HEAD "run a\nvary lr 1 2\ncompare lr\nshow curves\n",
         "x.lab:7: compare lr, but question Q1 shows neither time nor accuracy: add one of them to show"},
        {HEAD "run a lr=1 seed=2\nrun b lr=2 seed=3\ncompare lr\n",
         "x.lab:7: compare lr: no two runs of question Q1 differ in nothing else: name what differs with it"},
        {HEAD "run a\nquestion Q2: B\nrun b lr=2\nbaseline a\n",
         "x.lab:8: baseline a: that run is not of this question"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        struct ls_lab *lab = NULL;
        enum ls_status status = ls__lab_parse(&lab, "x.lab", mistakes[i].text, strlen(mistakes[i].text), NULL);
        if (status != LS_USAGE || strncmp(ls_error_message(), mistakes[i].message, strlen(mistakes[i].message)) != 0)
            fail_msg("%s\n%s: %s\nexpected: %s", mistakes[i].text, ls_status_name(status), ls_error_message(),
                     mistakes[i].message);
        assert_null(lab);
    }
}

static enum ls_status only_lr(const char *key, const char **name)
{
    *name = "lr";
    return strcmp(key, "lr") == 0 ? LS_OK : ls_fail(LS_USAGE, "no %s here", key);
}

static enum ls_status not_two(const struct ls_lab_rules *rules, const struct ls_lab_run *run, int *line)
{
    if (strcmp(ls__lab_setting(run, "lr"), "2") != 0) return LS_OK;
    *line = run->settings[0].line;
    return ls_fail(LS_USAGE, "two");
}

static void test_rules(void **state)
{
    static const struct ls_lab_rules rules = {.key = only_lr, .run = not_two};
    static const char keys[] = "title T\nquestion Q1: A\nrun a xy=3\n",
                      runs[] = "title T\nquestion Q1: A\nrun a\nvary lr 1 2\n";
    struct ls_lab *lab = NULL;
    assert_int_equal(ls__lab_parse(&lab, "x.lab", keys, strlen(keys), &rules), LS_USAGE);
    assert_string_equal(ls_error_message(), "x.lab:3: no xy here");
    assert_int_equal(ls__lab_parse(&lab, "x.lab", runs, strlen(runs), &rules), LS_USAGE);
    assert_string_equal(ls_error_message(), "x.lab:4: two");
}

static void test_limits(void **state)
{
    static char text[64 << 10];
    struct ls_lab *lab = NULL;
    size_t len = (size_t)snprintf(text, sizeof text, "%s", HEAD "run a\n");
    for (int k = 0; k < 3; k++) {
        len += (size_t)snprintf(text + len, sizeof text - len, "vary k%d", k);
        for (int i = 0; i < 20; i++) len += (size_t)snprintf(text + len, sizeof text - len, " %d", i);
        len += (size_t)snprintf(text + len, sizeof text - len, "\n");
    }
    assert_int_equal(ls__lab_parse(&lab, "x.lab", text, len, NULL), LS_USAGE);
    assert_string_equal(ls_error_message(), "x.lab:8: run a would be more than 1024 runs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),     cmocka_unit_test(test_expansion), cmocka_unit_test(test_questions),
        cmocka_unit_test(test_mistakes), cmocka_unit_test(test_rules),     cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
