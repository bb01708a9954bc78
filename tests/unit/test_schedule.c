/* test_schedule.c: the learning rate at the ends, at the turning points, and at a few places by formula. */
#include "engine.h"

#include <math.h>
#include <stdio.h>

static void check_lr(const struct ls_schedule *s, int64_t step, double want)
{
    const double have = ls_schedule_lr(s, step);
    if (fabs(have - want) > 1e-12 * fabs(want))
        print_error("step %lld: %.17g, want %.17g\n", (long long)step, have, want);
    assert_true(fabs(have - want) <= 1e-12 * fabs(want));
}

static struct ls_schedule schedule(const char *kind, const char *milestones)
{
    struct ls_schedule s = {
        .lr = 0.4, .min_lr = 0.1, .gamma = 0.5, .step_epochs = 2, .steps_per_epoch = 10, .total_steps = 60};
    check_ok(ls_schedule_parse(&s, kind, milestones));
    return s;
}

static void test_constant(void **state)
{
    struct ls_schedule s = schedule("constant", NULL);
    check_lr(&s, 0, 0.4);
    check_lr(&s, 59, 0.4);
    check_lr(&s, 1000, 0.4);
    s.warmup_epochs = 0.5; /* 5 steps: 1/5, 2/5, ... of lr */
    for (int i = 0; i < 5; i++) check_lr(&s, i, 0.4 * (i + 1) / 5);
    check_lr(&s, 5, 0.4);
    s.steps_per_epoch = 100;
    for (int n = 1; n <= 100; n++) { /* n hundredths of 100 steps are n steps */
        s.warmup_epochs = n / 100.0;
        check_lr(&s, 0, 0.4 / n);
    }
}

static void test_step(void **state)
{
    const struct ls_schedule s = schedule("step", NULL);
    check_lr(&s, 19, 0.4);
    check_lr(&s, 20, 0.2);
    check_lr(&s, 39, 0.2);
    check_lr(&s, 40, 0.1);
}

static void test_multistep(void **state)
{
    const struct ls_schedule s = schedule("multistep", "1,2.5,5");
    check_lr(&s, 9, 0.4);
    check_lr(&s, 10, 0.2);
    check_lr(&s, 24, 0.2);
    check_lr(&s, 25, 0.1);
    check_lr(&s, 50, 0.05);
}

static void test_cosine(void **state)
{
    struct ls_schedule s = schedule("cosine", NULL);
    check_lr(&s, 0, 0.4);
    check_lr(&s, 30, 0.25); /* half way: the middle */
    check_lr(&s, 15, 0.1 + 0.3 * 0.5 * (1 + cos(M_PI / 4)));
    check_lr(&s, 59, 0.1 + 0.3 * 0.5 * (1 + cos(M_PI * 59 / 60)));
    check_lr(&s, 60, ls_schedule_lr(&s, 59)); /* stays at the end */
    s.warmup_epochs = 2;
    check_lr(&s, 19, 0.4);
    check_lr(&s, 20, 0.4); /* the cosine begins after the warm-up */
    check_lr(&s, 40, 0.25);
}

/* The numbers are torch.optim.lr_scheduler.OneCycleLR's for max_lr 0.4 and 60 steps. */
static void test_onecycle(void **state)
{
    const struct ls_schedule s = schedule("onecycle", NULL);
    check_lr(&s, 0, 0.4 / 25);
    check_lr(&s, 17, 0.4); /* 30 % of 60, less one */
    check_lr(&s, 59, 0.4 / 25 / 1e4);
    for (int i = 1; i <= 17; i++) assert_true(ls_schedule_lr(&s, i) > ls_schedule_lr(&s, i - 1));
    for (int i = 18; i < 60; i++) assert_true(ls_schedule_lr(&s, i) < ls_schedule_lr(&s, i - 1));
    check_lr(&s, 5, 0.09229414981518275);
    check_lr(&s, 38, 0.2000008);
}

/* No division by zero and nothing but finite, positive rates in runs of a step or two. */
static void test_short_runs(void **state)
{
    static const char *const kinds[] = {"constant", "step", "cosine", "onecycle"};
    for (int k = 0; k < 4; k++)
        for (int64_t total = 0; total <= 4; total++)
            for (double warmup = 0; warmup <= 2; warmup += 0.5) {
                struct ls_schedule s = schedule(kinds[k], NULL);
                s.total_steps = total;
                s.steps_per_epoch = 1;
                s.warmup_epochs = warmup;
                for (int64_t step = 0; step < 6; step++) {
                    const double lr = ls_schedule_lr(&s, step);
                    if (!(lr > 0 && lr <= 0.4))
                        print_error("%s, step %lld of %lld: %g\n", kinds[k], (long long)step, (long long)total, lr);
                    assert_true(lr > 0 && lr <= 0.4);
                }
            }
}

static void test_parse(void **state)
{
    struct ls_schedule s = {0};
    check_fails(ls_schedule_parse(&s, "linear", NULL), LS_USAGE, "unknown schedule 'linear'");
    check_fails(ls_schedule_parse(&s, "", NULL), LS_USAGE, "unknown schedule ''");
    check_fails(ls_schedule_parse(&s, "multistep", NULL), LS_USAGE, "needs --milestones");
    check_fails(ls_schedule_parse(&s, "multistep", ""), LS_USAGE, "needs --milestones");
    static const char *const bad[] = {
        "a", "1,", ",1", "1,,2", "2,1", "1,1", "-1", "1 2", "nan", "1,2x", "111111111111111111111111111111111111111"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_fails(ls_schedule_parse(&s, "multistep", bad[i]), LS_USAGE, "--milestones");
    char many[256] = "0";
    for (int i = 1; i <= LS_MAX_MILESTONES; i++) snprintf(many + strlen(many), sizeof many - strlen(many), ",%d", i);
    check_fails(ls_schedule_parse(&s, "multistep", many), LS_USAGE, "expected up to 32 epochs");
    check_ok(ls_schedule_parse(&s, "multistep", "30,60,80"));
    assert_int_equal(s.n_milestones, 3);
    assert_true(s.milestones[2] == 80);
    check_ok(ls_schedule_parse(&s, "multistep", "5")); /* starts again */
    assert_int_equal(s.n_milestones, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constant), cmocka_unit_test(test_step),     cmocka_unit_test(test_multistep),
        cmocka_unit_test(test_cosine),   cmocka_unit_test(test_onecycle), cmocka_unit_test(test_short_runs),
        cmocka_unit_test(test_parse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
