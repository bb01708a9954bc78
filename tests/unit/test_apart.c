/* test_apart.c: a step whose shards are computed by executors that share nothing, and whose sums are added and applied
 * by another, has the bits of ls_exec_train: loss, parameters, running statistics, optimizer state; on every backend,
 * with a smaller last shard, a layer whose gradient is summed once per step, and a limited norm. */
#include "engine.h"

#include <stdatomic.h>

/* fc1 has 578 x 307 weights: its rows are kept and joined. */
static const char text[] = "model wide\ninput any\nconv conv1 6 3 pad=1\nbn bn1\nrelu\nflatten\nlinear fc1 307\nrelu\n"
                           "linear fc2 classes\n";

enum { N = 45, SHARD = 10, N_SHARDS = 5, STEPS = 4, N_WORKERS = 3 };

static void open_one(struct rig *r, const char *backend, int threads)
{
    const struct ls_optim optim = {.momentum = 0.9, .weight_decay = 1e-3};
    rig_open(r, backend, text, &(struct rig_options){.threads = threads, .hw = 17, .batch_size = N, .optim = optim});
    rig_plan(r, SHARD, true);
    rig_plan(r, N % SHARD, true);
    check_ok(ls_exec_init_store(r->exec, 3));
    rig_batch(r, 100, N);
}

/* Shards [next, end) by one thread or several. */
struct list {
    const int *shards;
    int n;
    atomic_int next;
};

static int take(void *arg)
{
    struct list *l = arg;
    int i = atomic_fetch_add(&l->next, 1);
    return i < l->n ? l->shards[i] : -1;
}

static void assert_same_store(const struct rig *a, const struct rig *b)
{
    assert_int_equal(a->store->n_entries, b->store->n_entries);
    for (int i = 0; i < a->store->n_entries; i++) {
        const struct ls_stored *x = &a->store->entries[i], *y = &b->store->entries[i];
        if (!ls_stored_is_saved(x)) continue;
        if (memcmp(x->data, y->data, x->layout.bytes) != 0) fail_msg("%s differs", x->name);
    }
}

static void send_parameters(const struct rig *from, const struct rig *to)
{
    for (int i = 0; i < from->store->n_entries; i++)
        if (from->store->entries[i].kind == LS_VALUE_PARAM)
            memcpy(to->store->entries[i].data, from->store->entries[i].data, from->store->entries[i].layout.bytes);
    ls_exec_note_change(to->exec);
}

static void send_sums(const struct rig *from, const struct rig *to)
{
    int64_t n, m, *out = ls_exec_sums(from->exec, &n), *in = ls_exec_sums(to->exec, &m);
    assert_int_equal(n, m);
    for (int64_t i = 0; i < n; i++) in[i] += out[i];
    check_ok(ls_exec_zero_sums(from->exec));
}

/* Who computes which shard, another way at every step; worker 2 pushes twice in step 1. */
static void run_apart(const struct rig *server, const struct rig *workers, const struct ls_exec_step *ask)
{
    const int order[N_SHARDS] = {3, 0, 4, 1, 2};
    int at = 0;
    for (int w = 0; w < N_WORKERS; w++) send_parameters(server, &workers[w]);
    for (int push = 0; at < N_SHARDS; push++) {
        const struct rig *w = &workers[(push + (int)ask->step) % N_WORKERS];
        struct ls_exec_step own = *ask;
        struct list list = {order + at, (push + (int)ask->step) % 3, 0};
        if (list.n > N_SHARDS - at) list.n = N_SHARDS - at;
        at += list.n;
        check_ok(ls_exec_compute(w->exec, &own, &(const struct ls_shard_source){.next = take, .arg = &list}));
        send_sums(w, server);
    }
}

static void confront(const char *backend, double clip_norm)
{
    struct rig alone, server, workers[N_WORKERS];
    open_one(&alone, backend, 2);
    open_one(&server, backend, 2);
    for (int w = 0; w < N_WORKERS; w++) open_one(&workers[w], backend, 1 + w);
    for (int64_t step = 0; step < STEPS; step++) {
        struct ls_exec_stats want, have;
        struct ls_exec_step ask = rig_step(&alone, SHARD, step, 0.05);
        ask.clip_norm = clip_norm;
        check_ok(ls_exec_train(alone.exec, &ask, &want));
        run_apart(&server, workers, &ask);
        const struct ls_batch size = {.n = N, .epoch = ask.batch->epoch};
        ask.batch = &size;
        check_ok(ls_exec_apply(server.exec, &ask, &have));
        assert_true(want.loss_sum == have.loss_sum);
        assert_int_equal(want.n_correct, have.n_correct);
        assert_int_equal(want.n, have.n);
        assert_true(want.grad_norm == have.grad_norm);
        assert_same_store(&alone, &server);
    }
    for (int w = 0; w < N_WORKERS; w++) rig_close(&workers[w]);
    rig_close(&server);
    rig_close(&alone);
}

static void test_same_bits(void **state)
{
    for (int b = 0; ls_backends[b]; b++) {
        if (ls_backends[b]->memory) continue;
        confront(ls_backends[b]->name, 0);
        confront(ls_backends[b]->name, 0.5);
    }
}

/* The sums are zero afterwards, and what was not handed out is not looked at. */
static void test_non_finite(void **state)
{
    struct rig r;
    const int shards[2] = {1, 4};
    struct list list = {shards, 2, 0};
    const struct ls_shard_source source = {.next = take, .arg = &list};
    int64_t n;
    open_one(&r, "ref", 1);
    r.transform.std[1] = 1e-36f;
    const struct ls_exec_step ask = rig_step(&r, SHARD, 6, 0.05);
    check_fails(ls_exec_compute(r.exec, &ask, &source), LS_NONFINITE, "step 7");
    const int64_t *sums = ls_exec_sums(r.exec, &n);
    for (int64_t i = 0; i < n; i++) assert_int_equal(sums[i], 0);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_non_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
