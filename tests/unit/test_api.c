/* test_api.c: the public entry points with nothing, zeros and garbage in their options: an error that says what is
 * wrong, never a crash; and what a call may leave behind in the process.
 *
 * The contract: strings and structs of options may be anything; objects (a model, a data set) must be real ones.
 */
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "comm/comm.h"
#include "data/data.h"
#include "lockstep/measure.h"
#include "lockstep/train.h"
#include "measure/forecast.h"
#include "model/model.h"
#include "optim/optim.h"
#include "predict/predict.h"
#include "scratch.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[SCRATCH_BYTES];

static void expect_usage(const char *what, enum ls_status status)
{
    if (status == LS_USAGE && ls_error_message()[0]) return;
    fail_msg("%s: expected USAGE, got %s: %s", what, ls_status_name(status), ls_error_message());
}

static void small_options(struct ls_train_options *o, const char *run)
{
    static char path[SCRATCH_BYTES + 32];
    snprintf(path, sizeof path, "%s/%s", dir, run);
    ls_train_options_default(o);
    o->model = "softmax";
    o->data = "fake:1x8x8:4:64";
    o->batch_size = 16;
    o->epochs = 1;
    o->threads = 1;
    o->run_dir = path;
}

static void test_train_refuses(void **state)
{
    struct ls_train_options o, good;
    struct ls_result r;
    expect_usage("no options", ls_train(NULL, &r));
    ls_train_options_default(&o);
    expect_usage("no result", ls_train(&o, NULL));
    memset(&o, 0, sizeof o);
    expect_usage("zeros", ls_train(&o, &r));
    small_options(&good, "refused");
#define REFUSED(member, value)                                                                                         \
    do {                                                                                                               \
        o = good;                                                                                                      \
        o.member = value;                                                                                              \
        expect_usage(#member " = " #value, ls_train(&o, &r));                                                          \
    } while (0)
    REFUSED(model, NULL);
    REFUSED(model, "");
    REFUSED(data, NULL);
    REFUSED(data, "");
    REFUSED(precision, "f8");
    REFUSED(optimizer, "adam");
    REFUSED(schedule, "linear");
    REFUSED(memory, "none");
    REFUSED(sum, "fixd");
    REFUSED(sync, "local:0");
    REFUSED(sync, "gossip");
    REFUSED(resize, "-1");
    REFUSED(checkpoint_every, "never");
    REFUSED(batch_size, 0);
    REFUSED(batch_size, -5);
    REFUSED(batch_size, INT64_MAX);
    REFUSED(shards, -1);
    REFUSED(threads, -1);
    REFUSED(threads, INT64_MAX);
    REFUSED(epochs, 0);
    REFUSED(epochs, INT64_MIN);
    REFUSED(iterations, -1);
    REFUSED(seed, -1);
    REFUSED(loader_threads, -1);
    REFUSED(lr, NAN);
    REFUSED(lr, -INFINITY);
    REFUSED(momentum, 1);
    REFUSED(beta2, NAN);
    REFUSED(eps, 0);
    REFUSED(label_smoothing, 1);
    REFUSED(crop_pad, -1);
    REFUSED(cutout, INT64_MAX);
    REFUSED(keep, 0);
    REFUSED(timeout, NAN);
    REFUSED(compress, 5);
    REFUSED(device, "abacus");
    REFUSED(beta1, 0.99999999); /* 1 in float32 */
    REFUSED(schedule, "multistep");
    REFUSED(milestones, "30,20");
    REFUSED(shards, 17);
    REFUSED(precision, "bf16");
    REFUSED(isa, "sse");
#undef REFUSED
    o = good;
    o.sync = "local:4";
    o.compress = 8; /* as on the command line */
    expect_usage("local SGD and compressed gradients", ls_train(&o, &r));
    assert_int_not_equal(access(good.run_dir, F_OK), 0); /* nothing was begun */
}

/* Only what must be said: the rest is 0 or NULL. */
static void test_texts_may_be_null(void **state)
{
    struct ls_train_options o;
    struct ls_result r, by_default;
    small_options(&o, "by-default");
    assert_int_equal(ls_train(&o, &by_default), LS_OK);
    small_options(&o, "nulls");
    o.device = o.precision = o.isa = o.optimizer = o.schedule = o.checkpoint_every = o.memory = o.sync = o.sum = NULL;
    enum ls_status status = ls_train(&o, &r);
    if (status != LS_OK) print_error("%s\n", ls_error_message());
    assert_int_equal(status, LS_OK);
    assert_string_equal(r.weights_hash, by_default.weights_hash);
    assert_string_equal(r.sync, "allreduce");
}

/* What a call writes to stderr. */
static size_t told_by(enum ls_status (*call)(bool is_quiet), bool is_quiet)
{
    char path[SCRATCH_BYTES + 32];
    snprintf(path, sizeof path, "%s/stderr", dir);
    int kept = dup(STDERR_FILENO), fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(kept >= 0 && fd >= 0);
    dup2(fd, STDERR_FILENO);
    enum ls_status status = call(is_quiet);
    dup2(kept, STDERR_FILENO);
    size_t n = (size_t)lseek(fd, 0, SEEK_END);
    close(kept);
    close(fd);
    assert_int_equal(status, LS_OK);
    return n;
}

static enum ls_status train_once(bool is_quiet)
{
    struct ls_train_options o;
    struct ls_result r;
    small_options(&o, is_quiet ? "quiet" : "loud");
    o.quiet = is_quiet;
    return ls_train(&o, &r);
}

static void test_quiet(void **state)
{
    enum ls_log_level before = ls__log_level();
    assert_true(told_by(train_once, false) > 0);
    assert_int_equal(told_by(train_once, true), 0);
    assert_int_equal(ls__log_level(), before); /* and is over with the call */
}

static void test_eval(void **state)
{
    struct ls_train_options t;
    struct ls_result trained;
    struct ls_eval_options o = {0}, by_default;
    struct ls_eval_result r;
    expect_usage("no options", ls_eval(NULL, &r));
    expect_usage("no result", ls_eval(&o, NULL));
    expect_usage("zeros", ls_eval(&o, &r));
    small_options(&t, "for-eval");
    assert_int_equal(ls_train(&t, &trained), LS_OK);
    o.what = t.run_dir;
    assert_int_equal(ls_eval(&o, &r), LS_OK); /* device NULL, batch size 0 */
    assert_string_equal(r.weights_hash, trained.weights_hash);
    ls_eval_options_default(&by_default);
    by_default.what = t.run_dir;
    assert_int_equal(ls_eval(&by_default, &r), LS_OK);
    assert_true(r.accuracy == trained.test_accuracy);
    assert_non_null(by_default.device);
    o.batch_size = -1;
    expect_usage("batch size -1", ls_eval(&o, &r));
    o.batch_size = INT64_MAX;
    expect_usage("batch size", ls_eval(&o, &r));
    o.batch_size = 0;
    o.threads = -3;
    expect_usage("threads", ls_eval(&o, &r));
    o.threads = 0;
    o.device = "abacus";
    assert_int_equal(ls_eval(&o, &r), LS_USAGE);
    o.device = NULL;
    o.resize = "x";
    expect_usage("resize", ls_eval(&o, &r));
    o.resize = NULL;
    o.what = "";
    assert_int_equal(ls_eval(&o, &r), LS_CHECKPOINT);
}

static void test_bench_and_plan(void **state)
{
    struct ls_bench_options o = {0}, good = {.model = "softmax", .batch_size = 16, .threads = 1, .steps = 1};
    struct ls_bench_result r;
    struct ls_predict_profile profile;
    char *text;
    int threads;
    expect_usage("bench: nothing", ls_bench(NULL, &r));
    expect_usage("bench: no result", ls_bench(&good, NULL));
    expect_usage("bench: zeros", ls_bench(&o, &r));
    expect_usage("plan: nothing", ls_plan_model(NULL, true, &text));
    expect_usage("plan: zeros", ls_plan_model(&o, true, &text));
    assert_null(text);
    expect_usage("predict: nothing", ls_predict_measure(NULL, &profile, &threads));
    expect_usage("predict: zeros", ls_predict_measure(&o, &profile, &threads));
    o.model = "softmax";
    assert_int_equal(ls_plan_model(&o, true, &text), LS_OK); /* batch size 0: the default */
    free(text);
    o = good, o.batch_size = INT64_MAX;
    expect_usage("batch size", ls_bench(&o, &r));
    o = good, o.batch_size = -1;
    expect_usage("batch size", ls_plan_model(&o, false, &text));
    o = good, o.seconds = NAN;
    expect_usage("seconds", ls_bench(&o, &r));
    o = good, o.steps = -1;
    expect_usage("steps", ls_bench(&o, &r));
    o = good, o.warmup = -1;
    expect_usage("warmup", ls_bench(&o, &r));
    o = good, o.compress = 3;
    expect_usage("compress", ls_bench(&o, &r));
    o = good, o.data = "fake:";
    expect_usage("data", ls_bench(&o, &r));
    assert_int_equal(ls_bench(&good, &r), LS_OK);
}

static void test_tune(void **state)
{
    struct ls_tune_options o = {0};
    struct ls_tune_result r;
    expect_usage("nothing", ls_tune(NULL, &r));
    expect_usage("no result", ls_tune(&o, NULL));
    expect_usage("zeros", ls_tune(&o, &r));
    ls_tune_result_release(&r);
    o.model = "softmax";
    o.seconds = -1;
    expect_usage("seconds", ls_tune(&o, &r));
    o.seconds = 0;
    o.batch_size = -1;
    expect_usage("batch size", ls_tune(&o, &r));
    ls_tune_result_release(&r);
}

static void test_model(void **state)
{
    struct ls_model *m;
    struct ls_graph *g;
    expect_usage("load", ls_model_load(&m, NULL));
    expect_usage("load", ls_model_load(&m, ""));
    expect_usage("parse", ls_model_parse(&m, NULL, "", 0));
    expect_usage("parse", ls_model_parse(&m, "x", NULL, 5));
    assert_int_equal(ls_model_parse(&m, "x", "", 0), LS_DATA);
    ls_model_destroy(&m); /* NULL */
    assert_int_equal(ls_model_load(&m, "lenet5"), LS_OK);
    expect_usage("build", ls_model_build(m, NULL, &g));
    assert_null(g);
    expect_usage("build", ls_model_build(m, &(struct ls_model_options){.mb = 0}, &g));
    ls_model_destroy(&m);
}

static void test_data(void **state)
{
    struct ls_dataset *ds = NULL;
    struct ls_loader *loader;
    struct ls_data_options garbage = {.data_dir = "", .resize_h = -1, .resize_w = INT32_MAX};
    expect_usage("open", ls_data_open(&ds, NULL, LS_TRAIN, NULL));
    expect_usage("open", ls_data_open(&ds, "", LS_TRAIN, NULL));
    expect_usage("open", ls_data_open(&ds, "fake", LS_TRAIN, NULL));
    expect_usage("open", ls_data_open(&ds, "digits", (enum ls_split)7, NULL));
    expect_usage("open", ls_data_open(&ds, "digits", LS_TRAIN, &garbage));
    assert_null(ds);
    ls_dataset_close(&ds);
    assert_int_equal(ls_data_open(&ds, "fake:1x8x8:4:64", LS_TRAIN, NULL), LS_OK);
    expect_usage("loader", ls_loader_create(&loader, ds, NULL));
    expect_usage("loader", ls_loader_create(&loader, NULL, &(struct ls_loader_options){.batch_size = 1}));
    expect_usage("loader", ls_loader_create(&loader, ds, &(struct ls_loader_options){0}));
    expect_usage("loader",
                 ls_loader_create(&loader, ds, &(struct ls_loader_options){.batch_size = 1, .n_threads = -1}));
    expect_usage("loader",
                 ls_loader_create(&loader, ds, &(struct ls_loader_options){.batch_size = 1, .first_step = -1}));
    ls_loader_destroy(&loader);
    assert_int_not_equal(ls_dataset_read(ds, -1, NULL), LS_OK);
    assert_int_not_equal(ls_dataset_read(ds, 64, NULL), LS_OK);
    ls_dataset_close(&ds);
}

static void test_the_rest(void **state)
{
    struct ls_ckpt *ckpt;
    struct ls_comm *comm;
    struct ls_schedule schedule = {.kind = LS_CONSTANT};
    double x;
    assert_int_equal(ls_ckpt_open(&ckpt, ""), LS_CHECKPOINT);
    assert_int_equal(ls_ckpt_parse(&ckpt, "x", "", 0), LS_CHECKPOINT);
    ls_ckpt_close(&ckpt);
    assert_int_equal(ls_comm_open(&comm, NULL), LS_OK);
    ls_comm_close(&comm);
    ls_comm_close(&comm);
    expect_usage("schedule", ls_schedule_parse(&schedule, NULL, NULL));
    expect_usage("schedule", ls_schedule_parse(&schedule, "multistep", NULL));
    assert_false(ls_predict_parse_latency("", &x));
    assert_false(ls_predict_parse_bandwidth("", &x));
    assert_null(ls_predict_preset(""));
}

static int make_dir(void **state)
{
    return mkdtemp(scratch_name(dir, "api", "")) && setenv("XDG_CACHE_HOME", dir, 1) == 0 ? 0 : -1;
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
        cmocka_unit_test(test_train_refuses),  cmocka_unit_test(test_texts_may_be_null),
        cmocka_unit_test(test_quiet),          cmocka_unit_test(test_eval),
        cmocka_unit_test(test_bench_and_plan), cmocka_unit_test(test_tune),
        cmocka_unit_test(test_model),          cmocka_unit_test(test_data),
        cmocka_unit_test(test_the_rest),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
