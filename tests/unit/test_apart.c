/* test_apart.c: a step whose shards are computed by executors that share nothing, and whose sums are added and applied
 * by another, has the bits of ls_exec_train: loss, parameters, running statistics, optimizer state; on every backend,
 * with a smaller last shard, a layer whose gradient is summed once per step, and a limited norm. So has one whose sums
 * are applied by three servers, a range each. */
#include "engine.h"

#include <stdatomic.h>

/* fc1 has 578 x 307 weights: its rows are kept and joined. */
static const char text[] = "model wide\ninput any\nconv conv1 6 3 pad=1\nbn bn1\nrelu\nflatten\nlinear fc1 307\nrelu\n"
                           "linear fc2 classes\n";

enum { N = 45, SHARD = 10, N_SHARDS = 5, STEPS = 4, N_WORKERS = 3 };

static void open_with(struct rig *r, const char *backend, int threads, const struct ls_optim *optim)
{
    rig_open(r, backend, text, &(struct rig_options){.threads = threads, .hw = 17, .batch_size = N, .optim = *optim});
    rig_plan(r, SHARD, true);
    rig_plan(r, N % SHARD, true);
    check_ok(ls_exec_init_store(r->exec, 3));
    rig_batch(r, 100, N);
}

static void open_one(struct rig *r, const char *backend, int threads)
{
    open_with(r, backend, threads, &(const struct ls_optim){.momentum = 0.9, .weight_decay = 1e-3});
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

/* Three servers: each adds and applies its range of the sums; together they have the store of one process. */
static void confront_servers(const char *backend, const struct ls_optim *optim)
{
    enum { K = 3 };
    struct rig alone, servers[K], worker;
    struct ls_sum_range ranges[K];
    int64_t n, at = 0;
    open_with(&alone, backend, 2, optim);
    open_with(&worker, backend, 2, optim);
    for (int k = 0; k < K; k++) open_with(&servers[k], backend, 1 + k, optim);
    ls_exec_sums(alone.exec, &n);
    for (int k = 0; k < K; k++) {
        ranges[k] = (struct ls_sum_range){at, ls_exec_sums_cut(alone.exec, k + 1 == K ? n : n * (k + 1) / K)};
        assert_true(ranges[k].end > at); /* cuts lie within fc1, whose sums are most of the block */
        at = ranges[k].end;
    }
    assert_int_equal(at, n);
    for (int64_t step = 0; step < STEPS; step++) {
        struct ls_exec_stats want, have;
        struct ls_exec_step ask = rig_step(&alone, SHARD, step, 0.05);
        const int all[N_SHARDS] = {0, 1, 2, 3, 4};
        struct list list = {all, N_SHARDS, 0};
        send_parameters(&alone, &worker);
        check_ok(ls_exec_train(alone.exec, &ask, &want));
        check_ok(ls_exec_compute(worker.exec, &ask, &(const struct ls_shard_source){.next = take, .arg = &list}));
        for (int k = 0; k < K; k++) {
            const int64_t *out = ls_exec_sums(worker.exec, &n);
            int64_t *in = ls_exec_sums(servers[k].exec, &n);
            struct ls_stored_part *parts;
            int n_parts;
            for (int64_t i = ranges[k].begin; i < ranges[k].end; i++) in[i] += out[i];
            ask.sums = ranges[k];
            check_ok(ls_exec_apply(servers[k].exec, &ask, &have));
            if (k == 0) assert_true(want.loss_sum == have.loss_sum);
            for (int64_t i = 0; i < n; i++) assert_int_equal(in[i], 0);
            check_ok(ls_exec_updated(servers[k].exec, ranges[k], &parts, &n_parts));
            for (int i = 0; i < n_parts; i++) {
                const struct ls_stored *x = &alone.store->entries[parts[i].entry],
                                       *y = &servers[k].store->entries[parts[i].entry];
                const size_t from = (size_t)parts[i].begin * sizeof(float);
                if (memcmp((char *)x->data + from, (char *)y->data + from, (size_t)parts[i].n * sizeof(float)) != 0)
                    fail_msg("server %d: %s differs", k, x->name);
            }
            free(parts);
        }
        check_ok(ls_exec_zero_sums(worker.exec));
    }
    for (int k = 0; k < K; k++) rig_close(&servers[k]);
    rig_close(&worker);
    rig_close(&alone);
}

/* Every element of what is saved and trained belongs to exactly one range, wherever the cuts are. */
static void test_ranges_cover(void **state)
{
    struct rig r;
    int64_t n;
    open_one(&r, "ref", 1);
    ls_exec_sums(r.exec, &n);
    for (int k = 1; k <= 7; k++) {
        int64_t at = 0, n_covered = 0, n_all = 0;
        for (int i = 0; i < k; i++) {
            struct ls_stored_part *parts;
            int n_parts;
            const int64_t end = ls_exec_sums_cut(r.exec, i + 1 == k ? n : n * (i + 1) / k);
            check_ok(ls_exec_updated(r.exec, (struct ls_sum_range){at, end}, &parts, &n_parts));
            for (int j = 0; j < n_parts; j++) {
                float *data = (float *)r.store->entries[parts[j].entry].data + parts[j].begin;
                for (int64_t x = 0; x < parts[j].n; x++) {
                    if (data[x] == 1e30f + (float)k * 1e29f) fail_msg("an element has two servers");
                    data[x] = 1e30f + (float)k * 1e29f;
                }
                n_covered += parts[j].n;
            }
            free(parts);
            at = end;
        }
        for (int i = 0; i < r.store->n_entries; i++)
            if (ls_stored_is_saved(&r.store->entries[i]))
                n_all += (int64_t)(r.store->entries[i].layout.bytes / sizeof(float));
        assert_int_equal(n_covered, n_all);
    }
    rig_close(&r);
}

static void test_servers(void **state)
{
    const struct ls_optim sgd = {.momentum = 0.9, .weight_decay = 1e-3},
                          adamw = {.is_adamw = true, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 1e-2};
    for (int b = 0; ls_backends[b]; b++) {
        if (ls_backends[b]->memory) continue;
        confront_servers(ls_backends[b]->name, &sgd);
        confront_servers(ls_backends[b]->name, &adamw);
    }
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
        cmocka_unit_test(test_servers),
        cmocka_unit_test(test_ranges_cover),
        cmocka_unit_test(test_non_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
