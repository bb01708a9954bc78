/* test_session.c: a session's sizes, its hash, checkpoints out and in, and what is left when memory runs out.
 *
 * The last is tested in children: which allocation fails is read from the environment once per process, so the parent
 * must not have allocated before; that test comes first.
 */
#include "base/file.h"
#include "base/log.h"
#include "engine.h"
#include "scratch.h"
#include "session/session.h"
#include "session/state.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define DATA "fake:2x8x8:4:44"

static const char *const net = "model t\ninput any\nconv a 5 3 pad=1 bias=no\nbn b\nrelu\nkeep x\nconv c 5 3 "
                               "pad=1\nadd x\nrelu\nmaxpool 2\nflatten\nlinear fc classes\n";

static struct session_options options(const char *device)
{
    return (struct session_options){.model = "t.net",
                                    .model_text = net,
                                    .data = DATA,
                                    .device = device,
                                    .batch_size = 10,
                                    .shards = 3,
                                    .threads = 2,
                                    .is_training = true,
                                    .with_test = true,
                                    .normalize = true,
                                    .optim = {.momentum = 0.9}};
}

/* One training step over the first samples of the set. */
static enum ls_status step(struct session *s, int64_t number)
{
    enum { MOST = 44, IMAGE = 2 * 8 * 8 };
    static uint8_t bytes[MOST][IMAGE];
    uint32_t samples[MOST];
    uint16_t labels[MOST];
    const uint8_t *pixels[MOST];
    struct ls_exec_stats stats;
    const struct ls_batch batch = {.n = (int)s->batch_size, .samples = samples, .labels = labels, .pixels = pixels};
    for (int i = 0; i < batch.n; i++) {
        samples[i] = (uint32_t)i;
        labels[i] = s->train->labels[i];
        pixels[i] = bytes[i];
        TRY(ls_dataset_read(s->train, i, bytes[i]));
    }
    const struct ls_exec_step es = {.batch = &batch,
                                    .transform = &s->transform,
                                    .shard_size = s->shard_size,
                                    .seed = 1,
                                    .step = number,
                                    .lr = 0.05,
                                    .clip_norm = 1};
    return ls_exec_train(s->exec, &es, &stats);
}

/* --- memory runs out --- */

static enum ls_status live(const char *device)
{
    struct session s;
    struct snapshot snap = {0};
    char hex[33];
    double loss, accuracy;
    bool is_stopped;
    const struct session_options o = options(device);
    enum ls_status status = ls__session_open(&s, &o);
    if (status == LS_OK) status = ls_exec_init_store(s.exec, 1);
    if (status == LS_OK) status = step(&s, 0);
    if (status == LS_OK) status = ls__session_hash(&s, hex);
    if (status == LS_OK) status = ls__session_snapshot(&s, 1, &snap);
    if (status == LS_OK) status = ls__session_evaluate(&s, false, &loss, &accuracy, &is_stopped);
    ls__snapshot_release(&snap);
    ls__session_close(&s);
    return status;
}

/* Exit code: 0 all went well, 10 out of memory was reported. A leak, with a sanitizer, has a code of its own. */
static void child(const char *device, int n)
{
    char text[16];
    static const int caught[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    for (int i = 0; i < 5; i++) signal(caught[i], SIG_DFL); /* not cmocka, which would go on */
    snprintf(text, sizeof text, "%d", n);
    setenv("LOCKSTEP_FAIL_ALLOC", text, 1);
    ls__log_set_level(LS_LOG_ERROR);
    enum ls_status status = live(device);
    if (status != LS_OK && (status != LS_NOMEM || !strstr(ls_error_message(), "memory"))) {
        print_error("%s: %s\n", ls_status_name(status), ls_error_message());
        exit(20);
    }
    exit(status == LS_OK ? 0 : 10);
}

static void test_memory_runs_out(void **state)
{
    const char *backend;
    for (RIG_EACH(backend)) {
        const int stride = strcmp(backend, "ref") == 0 ? 1 : 7; /* the others differ in their kernels only */
        int n = 1;
        for (;; n += stride) {
            int wstatus = -1;
            fflush(NULL);
            pid_t pid = fork();
            if (pid == 0) child(backend, n);
            assert_int_equal(waitpid(pid, &wstatus, 0), pid);
            if (wstatus == 0) break;
            if (!WIFEXITED(wstatus) || WEXITSTATUS(wstatus) != 10)
                print_error("%s: allocation %d: status %#x; LOCKSTEP_FAIL_ALLOC=%d\n", backend, n, (unsigned)wstatus,
                            n);
            assert_true(WIFEXITED(wstatus) && WEXITSTATUS(wstatus) == 10);
        }
        print_message("%s: about %d allocations\n", backend, n);
        assert_true(n > 100); /* or nothing was tested */
    }
}

/* --- sizes --- */

static void test_default_shards(void **state)
{
    int64_t before = 0;
    for (int64_t batch = 1; batch <= 5000; batch++) {
        const int64_t n = ls__session_default_shards(batch);
        assert_int_equal(n, ls__session_default_shards(batch)); /* of the batch alone */
        assert_true(n >= 1 && n <= batch);
        if (batch >= 4) assert_true(n >= 4);
        assert_true(n <= 32);
        assert_true(n >= before); /* a larger batch never has fewer */
        if (batch >= 512) assert_int_equal(n, 32);
        before = n;
    }
    assert_int_equal(ls__session_default_shards(128), 8);
    assert_int_equal(ls__session_default_shards(INT64_MAX / 2), 32);
}

static void test_sizes(void **state)
{
    static const int64_t cases[][2] = {{1, 0}, {3, 0}, {10, 3}, {10, 7}, {10, 100}, {44, 5}, {1000, 0}, {16, 16}};
    ls__log_set_level(LS_LOG_ERROR);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct session s;
        struct session_options o = options("ref");
        o.batch_size = cases[i][0];
        o.shards = cases[i][1];
        o.threads = 64;
        check_ok(ls__session_open(&s, &o));
        assert_true(s.batch_size == (cases[i][0] < 44 ? cases[i][0] : 44)); /* no more than there is */
        assert_true(s.shards * s.shard_size >= s.batch_size);
        assert_true((s.shards - 1) * s.shard_size < s.batch_size); /* no empty shard */
        assert_true(s.threads <= s.shards);
        /* plans for every size that can occur in an epoch */
        for (int64_t done = 0; done < 44; done += s.batch_size) {
            int64_t n = 44 - done < s.batch_size ? 44 - done : s.batch_size;
            for (int64_t first = 0; first < n; first += s.shard_size)
                assert_non_null(ls_exec_plan(s.exec, n - first < s.shard_size ? n - first : s.shard_size, true));
        }
        assert_non_null(ls_exec_plan(s.exec, s.eval_size, false));
        ls__session_close(&s);
    }
    ls__log_set_level(LS_LOG_INFO);
}

/* A shard of one sample gives batch norm one value per channel: where nobody asked for so many shards there are fewer,
 * else the session does not begin. */
static void test_no_shard_of_one_before_batchnorm(void **state)
{
    static const char *const vectors = "model t\ninput any\nflatten\nlinear a 5\nbn b\nlinear fc classes\n";
    static const struct {
        int64_t batch_size, shards, want; /* want: shards; 0: refused */
        const char *message;
    } cases[] = {
        {4, 0, 2, NULL},                                                                      /* four by default */
        {10, 4, 0, "batches of 10 with --shards 4 leave a shard of 1 (--shards 3 does not)"}, /* 3, 3, 3, 1 */
        {10, 3, 3, NULL},                                                                     /* 4, 4, 2 and 4 */
        {9, 2, 2, NULL},                                                                      /* 5 and 4; 5 and 3 */
        {44, 44, 0, "44 samples in batches of 44 with --shards 44 leave a shard of 1 (--shards 22 does not)"},
        {43, 0, 0, "44 samples in batches of 43 leave a batch of 1 (-b 44 does not): t.net:5: bn b: batch norm needs"},
        {1, 0, 0, "44 samples in batches of 1 leave a batch of 1 (-b 2 does not)"},
    };
    ls__log_set_level(LS_LOG_ERROR);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct session s;
        struct session_options o = options("ref");
        o.model_text = vectors;
        o.batch_size = cases[i].batch_size;
        o.shards = cases[i].shards;
        enum ls_status status = ls__session_open(&s, &o);
        assert_int_equal(status, cases[i].want ? LS_OK : LS_USAGE);
        if (status == LS_OK && s.shards != cases[i].want) print_error("case %zu: %d shards\n", i, (int)s.shards);
        if (status == LS_OK) assert_int_equal(s.shards, cases[i].want);
        if (status != LS_OK && !strstr(ls_error_message(), cases[i].message)) print_error("%s\n", ls_error_message());
        if (status != LS_OK) assert_non_null(strstr(ls_error_message(), cases[i].message));
        ls__session_close(&s);
    }
    ls__log_set_level(LS_LOG_INFO);
}

/* Each shard adds less than 2^54 to a sum: 512 of them fit 63 bits, and no more are made. */
static void test_most_shards(void **state)
{
    struct session s;
    struct session_options o = options("ref");
    o.data = "fake:2x8x8:4:2000";
    o.batch_size = 2000;
    o.shards = 2000;
    check_ok(ls__session_open(&s, &o));
    assert_true(s.shards <= 512 && s.shards * s.shard_size >= 2000);
    ls__session_close(&s);
}

static void test_bad_options(void **state)
{
    struct session s;
    struct session_options o = options("gpu9");
    check_fails(ls__session_open(&s, &o), LS_USAGE, "--device gpu9: this build has");
    ls__session_close(&s);
    o = options("ref");
    o.resize = "8x8x8";
    check_fails(ls__session_open(&s, &o), LS_USAGE, "--resize 8x8x8");
    ls__session_close(&s);
    o = options("ref");
    o.model_text = "model t\ninput 1x8x8\nflatten\nlinear fc classes\n";
    check_fails(ls__session_open(&s, &o), LS_DATA, "t.net");
    ls__session_close(&s);
}

/* --- checkpoints --- */

static char path[SCRATCH_BYTES];

static int make_path(void **state)
{
    int fd = mkstemp(scratch_name(path, "session", ""));
    if (fd >= 0) close(fd);
    return fd >= 0 ? 0 : -1;
}

static int remove_path(void **state)
{
    return unlink(path);
}

static void save(struct session *s, int64_t at_step)
{
    struct snapshot snap;
    const struct ls_ckpt_meta meta = {"made by", "a test"};
    char of_store[33], of_copy[33];
    check_ok(ls__session_snapshot(s, at_step, &snap));
    check_ok(ls__session_hash(s, of_store));
    check_ok(ls__snapshot_hash(&snap, of_copy));
    assert_string_equal(of_copy, of_store);
    check_ok(ls_ckpt_write(path, snap.tensors, snap.n, &meta, 1));
    ls__snapshot_release(&snap);
}

static void hash(struct session *s, char hex[33])
{
    check_ok(ls__session_hash(s, hex));
    assert_int_equal(strlen(hex), 32);
}

static void open_trained(struct session *s, const struct session_options *o, int n_steps)
{
    check_ok(ls__session_open(s, o));
    check_ok(ls_exec_init_store(s->exec, 9));
    for (int i = 0; i < n_steps; i++) check_ok(step(s, i));
}

/* Out and in again: the hash is the same, and so is every step after, optimizer state included; whatever the threads.
 */
static void test_round_trip(void **state)
{
    const char *backend;
    for (RIG_EACH(backend)) {
        struct session a, b;
        struct ls_ckpt *ckpt;
        char first[33], then[33];
        struct session_options o = options(backend);
        open_trained(&a, &o, 3);
        save(&a, 3);
        hash(&a, first);
        o.threads = 1;
        open_trained(&b, &o, 1);
        hash(&b, then);
        assert_string_not_equal(first, then);
        check_ok(ls_ckpt_open(&ckpt, path));
        check_ok(ls__session_load(&b, ckpt, path, true));
        hash(&b, then);
        assert_string_equal(first, then);
        const struct ls_ckpt_tensor *counter = ls_ckpt_find(ckpt, "b.num_batches_tracked");
        assert_non_null(counter);
        assert_int_equal(counter->dtype, LS_I64);
        assert_int_equal(*(const int64_t *)counter->data, 3);
        ls_ckpt_close(&ckpt);
        for (int i = 3; i < 5; i++) {
            check_ok(step(&a, i));
            check_ok(step(&b, i));
        }
        hash(&a, first);
        hash(&b, then);
        assert_string_equal(first, then);
        ls__session_close(&a);
        ls__session_close(&b);
    }
}

/* A session that only evaluates lays its weights out in its own way; hash and results are those of the training. */
static void test_evaluation_of_a_checkpoint(void **state)
{
    const char *backend;
    for (RIG_EACH(backend)) {
        struct session a, b;
        struct ls_ckpt *ckpt;
        char first[33], then[33];
        double loss[2], accuracy[2];
        bool is_stopped;
        struct session_options o = options(backend);
        open_trained(&a, &o, 3);
        save(&a, 3);
        hash(&a, first);
        check_ok(ls__session_evaluate(&a, false, &loss[0], &accuracy[0], &is_stopped));
        o.is_training = false;
        o.batch_size = 5;
        check_ok(ls__session_open(&b, &o));
        check_ok(ls_ckpt_open(&ckpt, path));
        check_ok(ls__session_load(&b, ckpt, path, false));
        check_ok(ls__session_evaluate(&b, false, &loss[1], &accuracy[1], &is_stopped));
        hash(&b, then);
        assert_string_equal(first, then);
        if (fabs(loss[0] - loss[1]) > 1e-5 || accuracy[0] != accuracy[1])
            print_error("%s: loss %g and %g, accuracy %g and %g\n", backend, loss[0], loss[1], accuracy[0],
                        accuracy[1]);
        assert_true(fabs(loss[0] - loss[1]) <= 1e-5);
        assert_true(accuracy[0] == accuracy[1]);
        ls_ckpt_close(&ckpt);
        ls__session_close(&a);
        ls__session_close(&b);
    }
}

static void check_not_taken(const char *text, bool with_state, const struct ls_optim *optim, const char *piece)
{
    struct session s;
    struct ls_ckpt *ckpt;
    struct session_options o = options("ref");
    o.model_text = text;
    o.optim = *optim;
    check_ok(ls__session_open(&s, &o));
    check_ok(ls_ckpt_open(&ckpt, path));
    check_fails(ls__session_load(&s, ckpt, path, with_state), LS_CHECKPOINT, piece);
    assert_non_null(strstr(ls_error_message(), path));
    ls_ckpt_close(&ckpt);
    ls__session_close(&s);
}

static void test_another_models_checkpoint(void **state)
{
    struct session s;
    const struct session_options o = options("ref");
    const struct ls_optim sgd = {.momentum = 0.9}, adam = {.is_adamw = true, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8};
    open_trained(&s, &o, 1);
    save(&s, 1);
    check_not_taken("model u\ninput any\nconv a 5 3 pad=1 bias=no\nbn b\nflatten\nlinear other classes\n", false, &sgd,
                    "holds no tensor 'other.weight', which model u needs");
    check_not_taken("model u\ninput any\nconv a 6 3 pad=1 bias=no\nflatten\nlinear fc classes\n", false, &sgd,
                    "tensor 'a.weight' is f32 5x2x3x3, but model u needs f32 6x2x3x3");
    check_not_taken(net, true, &adam, "holds no tensor 'optimizer.m.a.weight'");
    float *bias = (float[4]){0, NAN, 0, 0};
    check_ok(ls_exec_set(s.exec, ls_store_find(s.store, "fc.bias"), bias));
    save(&s, 1);
    check_not_taken(net, false, &sgd, "tensor 'fc.bias' holds a value that is not finite");
    ls__session_close(&s);
}

/* The hash is of the weights: not of the optimizer's state, the threads or the backend's layouts. */
static void test_hash(void **state)
{
    char first[33] = "", other[33];
    const char *backend;
    for (RIG_EACH(backend))
        for (int64_t threads = 1; threads <= 3; threads += 2) {
            struct session s;
            struct session_options o = options(backend);
            o.threads = threads;
            open_trained(&s, &o, 0);
            if (!*first) hash(&s, first);
            hash(&s, other);
            assert_string_equal(first, other);
            const float ones[4] = {1, 1, 1, 1};
            check_ok(ls_exec_set(s.exec, ls_store_find(s.store, "optimizer.momentum.fc.bias"), ones));
            hash(&s, other);
            assert_string_equal(first, other);
            check_ok(ls_exec_set(s.exec, ls_store_find(s.store, "fc.bias"), ones));
            hash(&s, other);
            assert_string_not_equal(first, other);
            ls__session_close(&s);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_runs_out),
        cmocka_unit_test(test_default_shards),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_no_shard_of_one_before_batchnorm),
        cmocka_unit_test(test_most_shards),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test_setup_teardown(test_round_trip, make_path, remove_path),
        cmocka_unit_test_setup_teardown(test_evaluation_of_a_checkpoint, make_path, remove_path),
        cmocka_unit_test_setup_teardown(test_another_models_checkpoint, make_path, remove_path),
        cmocka_unit_test(test_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
