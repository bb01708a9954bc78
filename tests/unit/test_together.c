/* test_together.c: trainings at once in one process do not notice each other: the weights of each are those it has
 * alone, one may be quiet while another talks, and one that is stopped stops alone. And the loop of one's own, data and
 * networks from memory, and what a checkpoint says of a picture.
 */
#include "base/log.h"
#include "lockstep/classify.h"
#include "lockstep/data.h"
#include "lockstep/train.h"
#include "lockstep/trainer.h"

#include "scratch.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[SCRATCH_BYTES];

static void check_ok(enum ls_status status)
{
    if (status != LS_OK) fail_msg("%s: %s", ls_status_name(status), ls_error_message());
}

/* One training of a thread of its own. */
struct job {
    struct ls_train_options o;
    char run[SCRATCH_BYTES + 32];
    struct ls_result result;
    enum ls_status status;
    char message[1024];
    int n_steps, n_epochs, stop_after;
    double loss_sum;
    enum ls_log_level level;
};

static bool is_enough(void *context)
{
    const struct job *j = context;
    return j->stop_after > 0 && j->n_steps >= j->stop_after;
}

static void count_step(void *context, const struct ls_step *step)
{
    struct job *j = context;
    j->n_steps++;
    assert_int_equal(step->step, j->n_steps);
    j->loss_sum += step->loss;
    j->level = ls__log_level();
}

static void count_epoch(void *context, const struct ls_epoch *epoch)
{
    struct job *j = context;
    j->n_epochs++;
    assert_int_equal(epoch->epoch, j->n_epochs);
    assert_true(isfinite(epoch->test_accuracy));
}

static void set_job(struct job *j, const char *name, const char *model, const char *data)
{
    *j = (struct job){.stop_after = 0};
    snprintf(j->run, sizeof j->run, "%s/%s", dir, name);
    ls_train_options_default(&j->o);
    j->o.model = model;
    j->o.data = data;
    j->o.run_dir = j->run;
    j->o.batch_size = 32;
    j->o.epochs = 2;
    j->o.threads = 2;
}

static void *run(void *arg)
{
    struct job *j = arg;
    const struct ls_control control = {
        .context = j, .is_stop_wanted = is_enough, .on_step = count_step, .on_epoch = count_epoch};
    j->o.control = &control;
    j->status = ls_train(&j->o, &j->result);
    snprintf(j->message, sizeof j->message, "%s", ls_error_message());
    return NULL;
}

static void test_two_at_once(void **state)
{
    enum { N = 3 };
    static const char *const models[N] = {"softmax", "lenet5", "mlp"};
    static const char *const data[N] = {"fake:1x12x12:5:320", "fake:1x28x28:10:160", "fake:1x8x8:7:480"};
    struct job alone[N], at_once[N];
    pthread_t threads[N];
    for (int i = 0; i < N; i++) {
        char name[32];
        snprintf(name, sizeof name, "alone%d", i);
        set_job(&alone[i], name, models[i], data[i]);
        run(&alone[i]);
        if (alone[i].status != LS_OK) fail_msg("%s", alone[i].message);
        snprintf(name, sizeof name, "at_once%d", i);
        set_job(&at_once[i], name, models[i], data[i]);
        at_once[i].o.quiet = i != 1;
    }
    for (int i = 0; i < N; i++) assert_int_equal(pthread_create(&threads[i], NULL, run, &at_once[i]), 0);
    for (int i = 0; i < N; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < N; i++) {
        if (at_once[i].status != LS_OK) fail_msg("%s", at_once[i].message);
        assert_string_equal(at_once[i].result.weights_hash, alone[i].result.weights_hash);
        assert_memory_equal(&at_once[i].loss_sum, &alone[i].loss_sum, sizeof alone[i].loss_sum);
        assert_int_equal(at_once[i].n_epochs, 2);
        assert_int_equal(at_once[i].level, i == 1 ? LS_LOG_INFO : LS_LOG_WARN);
        assert_true(at_once[i].result.first_step_seconds <= at_once[i].result.total_seconds);
    }
    assert_int_equal(ls__log_level(), LS_LOG_INFO);
}

static void test_one_is_stopped(void **state)
{
    struct job stopped, other;
    pthread_t thread;
    set_job(&stopped, "stopped", "softmax", "fake:1x12x12:5:320");
    set_job(&other, "other", "softmax", "fake:1x12x12:5:320");
    stopped.stop_after = 4;
    assert_int_equal(pthread_create(&thread, NULL, run, &other), 0);
    run(&stopped);
    pthread_join(thread, NULL);
    assert_int_equal(stopped.status, LS_INTERRUPTED);
    assert_non_null(strstr(stopped.message, "stopped by the caller after step 4"));
    assert_int_equal(stopped.result.steps, 4);
    assert_int_equal(other.status, LS_OK);
    assert_int_equal(other.result.steps, 20);
}

/* Evaluated and saved at odd moments, closed and resumed: the weights of ls_train. */
static void test_own_loop(void **state)
{
    struct job whole, loop;
    struct ls_trainer *trainer;
    struct ls_step step = {.step = 0};
    double loss, accuracy;
    set_job(&whole, "whole", "lenet5", "fake:1x28x28:10:160");
    run(&whole);
    set_job(&loop, "loop", "lenet5", "fake:1x28x28:10:160");
    check_ok(ls_trainer_open(&trainer, &loop.o));
    check_ok(ls_trainer_evaluate(trainer, &loss, &accuracy));
    for (int i = 0; i < 7; i++) check_ok(ls_trainer_step(trainer, &step));
    assert_int_equal(step.step, 7);
    assert_int_equal(step.epoch, 2);
    assert_int_equal(step.images, 32);
    check_ok(ls_trainer_save(trainer));
    check_ok(ls_trainer_step(trainer, NULL)); /* lost: it is not saved */
    ls_trainer_close(&trainer);
    assert_null(trainer);
    loop.o.resume = "auto";
    check_ok(ls_trainer_open(&trainer, &loop.o));
    while (!ls_trainer_is_done(trainer)) check_ok(ls_trainer_step(trainer, &step));
    assert_true(step.is_epoch_over);
    assert_int_equal(ls_trainer_step(trainer, &step), LS_USAGE);
    check_ok(ls_trainer_evaluate(trainer, &loss, &accuracy));
    check_ok(ls_trainer_finish(trainer, &loop.result));
    assert_int_equal(ls_trainer_save(trainer), LS_USAGE);
    ls_trainer_close(&trainer);
    assert_string_equal(loop.result.weights_hash, whole.result.weights_hash);
    assert_memory_equal(&loop.result.test_loss, &whole.result.test_loss, sizeof loss);
    assert_memory_equal(&loop.result.train_loss, &whole.result.train_loss, sizeof loss);
    assert_memory_equal(&loop.result.test_loss, &loss, sizeof loss);
}

enum { N_IMAGES = 64, SIDE = 6 };
static uint8_t pixels[N_IMAGES * SIDE * SIDE];
static uint16_t labels[N_IMAGES];

/* Class k has a bright column k. */
static struct ls_images stripes(void)
{
    static const char *const names[] = {"first", "second", "third"};
    for (int i = 0; i < N_IMAGES; i++) {
        labels[i] = (uint16_t)(i % 3);
        for (int p = 0; p < SIDE * SIDE; p++) {
            pixels[i * SIDE * SIDE + p] = p % SIDE == labels[i] ? 220 : (uint8_t)((i * 7 + p * 13) % 40);
        }
    }
    return (struct ls_images){.n = N_IMAGES,
                              .c = 1,
                              .h = SIDE,
                              .w = SIDE,
                              .n_classes = 3,
                              .pixels = pixels,
                              .labels = labels,
                              .class_names = names};
}

static const char network[] = "model own\ninput any\nflatten\nlinear fc classes\n";

static void test_own_data_and_model(void **state)
{
    struct job a, b;
    struct ls_images images = stripes(), copied = images;
    set_job(&a, "own", NULL, NULL);
    a.o.model_text = network;
    a.o.train_images = a.o.test_images = &images;
    b = a;
    snprintf(b.run, sizeof b.run, "%s/own_copied", dir);
    a.o.run_dir = a.run;
    b.o.run_dir = b.run;
    a.o.epochs = b.o.epochs = 10;
    check_ok(ls_train(&a.o, &a.result));
    assert_string_equal(a.result.model, "own");
    assert_string_equal(a.result.data, "memory");
    assert_true(a.result.test_accuracy == 1);

    struct ls_trainer *trainer;
    copied.is_copied = true;
    b.o.train_images = b.o.test_images = &copied;
    check_ok(ls_trainer_open(&trainer, &b.o));
    memset(pixels, 0, sizeof pixels); /* they are ours again */
    while (!ls_trainer_is_done(trainer)) check_ok(ls_trainer_step(trainer, NULL));
    check_ok(ls_trainer_finish(trainer, &b.result));
    ls_trainer_close(&trainer);
    assert_string_equal(b.result.weights_hash, a.result.weights_hash);

    /* Other images are another run. */
    a.o.resume = "auto";
    a.o.epochs = 12;
    assert_int_equal(ls_train(&a.o, &a.result), LS_CHECKPOINT);
    assert_non_null(strstr(ls_error_message(), "data_checksum"));
    images = stripes();
    check_ok(ls_train(&a.o, &a.result));

    struct ls_eval_options eval;
    struct ls_eval_result again;
    ls_eval_options_default(&eval);
    eval.what = a.run;
    eval.images = &images;
    check_ok(ls_eval(&eval, &again));
    assert_int_equal(again.images, N_IMAGES);
    assert_true(again.accuracy == 1);
}

static void test_bad_images(void **state)
{
    struct job j;
    const struct ls_images good = stripes();
    struct ls_images bad;
    set_job(&j, "bad", NULL, NULL);
    j.o.model_text = network;
    j.o.train_images = &bad;
#define REFUSED(expected, change)                                                                                      \
    do {                                                                                                               \
        bad = good;                                                                                                    \
        j.o.test_images = &good;                                                                                       \
        change;                                                                                                        \
        if (ls_train(&j.o, &j.result) != (expected)) fail_msg("%s: %s", #change, ls_error_message());                  \
    } while (0)
    REFUSED(LS_DATA, bad.n = 0);
    REFUSED(LS_DATA, bad.n = INT64_MAX);
    REFUSED(LS_DATA, bad.c = 4);
    REFUSED(LS_DATA, bad.h = -1);
    REFUSED(LS_DATA, bad.w = 1 << 30);
    REFUSED(LS_DATA, bad.n_classes = 2);                           /* some labels are beyond */
    REFUSED(LS_DATA, (bad.class_names = NULL, bad.n_classes = 4)); /* not those of the test images */
    REFUSED(LS_DATA, bad.pixels = NULL);
    REFUSED(LS_DATA, bad.labels = NULL);
    REFUSED(LS_DATA, bad.std[0] = NAN);
    REFUSED(LS_USAGE, j.o.test_images = NULL);
    j.o.model_text = "model broken\nnonsense\n";
    REFUSED(LS_DATA, bad.n = N_IMAGES);
    assert_non_null(strstr(ls_error_message(), ":2:"));
}

static void test_classify(void **state)
{
    struct ls_classifier *c;
    struct ls_guess top[2];
    char run_dir[SCRATCH_BYTES + 32];
    float many[N_IMAGES * 3], one[3];
    const struct ls_images images = stripes();
    snprintf(run_dir, sizeof run_dir, "%s/own", dir);
    const struct ls_classifier_options o = {.what = run_dir};
    check_ok(ls_classifier_open(&c, &o));
    const struct ls_classifier_info info = ls_classifier_describe(c);
    assert_int_equal(info.c * 10000 + info.h * 100 + info.w, 10606);
    assert_int_equal(info.n_classes, 3);
    assert_string_equal(info.model, "own");
    assert_string_equal(ls_classifier_class_name(c, 2), "third");
    assert_null(ls_classifier_class_name(c, 3));
    assert_null(ls_classifier_class_name(c, -1));
    check_ok(ls_classify(c, N_IMAGES, images.pixels, many));
    for (int i = 0; i < N_IMAGES; i++) {
        const uint8_t *picture = images.pixels + i * SIDE * SIDE;
        check_ok(ls_classify(c, 1, picture, one));
        assert_memory_equal(one, many + 3 * i, sizeof one); /* whatever else was asked at the same time */
        assert_true(fabs((double)one[0] + one[1] + one[2] - 1) < 1e-6);
        check_ok(ls_classify_top(c, 1, picture, 2, top));
        assert_int_equal(top[0].label, labels[i]);
        assert_true(top[0].probability >= top[1].probability && top[0].probability == one[labels[i]]);
    }
    check_ok(ls_classify(c, 0, NULL, NULL));
    assert_int_equal(ls_classify(c, -1, images.pixels, many), LS_USAGE);
    assert_int_equal(ls_classify(NULL, 1, images.pixels, many), LS_USAGE);
    assert_int_equal(ls_classify_top(c, 1, images.pixels, 4, top), LS_USAGE);
    ls_classifier_close(&c);
    ls_classifier_close(&c);
    const struct ls_classifier_options nowhere = {.what = "/nowhere"}, nothing = {.what = NULL};
    assert_int_equal(ls_classifier_open(&c, &nowhere), LS_CHECKPOINT);
    assert_null(c);
    assert_int_equal(ls_classifier_open(&c, &nothing), LS_USAGE);
}

static int make_dir(void **state)
{
    return mkdtemp(scratch_name(dir, "together", "")) ? 0 : -1;
}

static int remove_dir(void **state)
{
    char command[SCRATCH_BYTES + 16];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_at_once), cmocka_unit_test(test_one_is_stopped),
        cmocka_unit_test(test_own_loop),    cmocka_unit_test(test_own_data_and_model),
        cmocka_unit_test(test_bad_images),  cmocka_unit_test(test_classify),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
