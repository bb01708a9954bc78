/* test_exec.c: steps: the same bits whoever computes them, the right gradient, the right statistics, and nothing lost
 * when a value is not finite. */
#include "engine.h"

#include <math.h>
#include <stdio.h>

#define NET(lines) "model t\ninput any\n" lines "flatten\nlinear fc classes\n"

static const char *const net =
    NET("conv a 5 3 pad=1 bias=no\nbn b\nrelu\nkeep x\nconv c 5 3 pad=1\nadd x\nrelu\nmaxpool 2\ndropout 0.25\n");
static const struct rig_options plain_sgd = {.optim = {.momentum = 0.9, .weight_decay = 1e-3}};

static void check_same(const float *a, const float *b, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++) {
        if (memcmp(&a[i], &b[i], sizeof *a) == 0) continue;
        print_error("%s: element %zu of %zu is %a and %a\n", what, i, n, (double)a[i], (double)b[i]);
        assert_memory_equal(&a[i], &b[i], sizeof *a);
    }
}

/* --- the same bits --- */

/* A few steps over batches of 10 in shards of 4, 4 and 2; the last batch has 5 samples. */
static float *train(const char *backend, int threads, const struct ls_optim *optim, size_t *n)
{
    struct rig r;
    struct rig_options o = plain_sgd;
    o.threads = threads;
    o.optim = *optim;
    rig_open(&r, backend, net, &o);
    static const int64_t sizes[] = {4, 2, 1};
    for (int i = 0; i < 3; i++) rig_plan(&r, sizes[i], true);
    check_ok(ls_exec_init_store(r.exec, 5));
    for (int i = 0; i < 6; i++) {
        struct ls_exec_stats stats;
        rig_batch(&r, 10 * (uint32_t)i, i < 5 ? 10 : 5);
        const struct ls_exec_step step = rig_step(&r, 4, i, 0.05);
        check_ok(ls_exec_train(r.exec, &step, &stats));
        assert_int_equal(stats.n, r.batch.n);
        assert_true(stats.n_correct >= 0 && stats.n_correct <= stats.n);
        assert_true(stats.loss_sum > 0);
    }
    float *all = rig_weights(&r, n);
    rig_close(&r);
    return all;
}

static void test_threads_do_not_matter(void **state)
{
    static const struct ls_optim optims[] = {
        {.momentum = 0.9, .nesterov = true, .weight_decay = 1e-3},
        {.is_adamw = true, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.01},
    };
    const char *backend;
    for (RIG_EACH(backend))
        for (int k = 0; k < 2; k++) {
            size_t n, m;
            float *one = train(backend, 1, &optims[k], &n);
            for (int threads = 2; threads <= 5; threads++) {
                float *other = train(backend, threads, &optims[k], &m);
                assert_int_equal(n, m);
                check_same(one, other, n, backend);
                free(other);
            }
            free(one);
        }
}

/* The sums after backward, as bytes. */
static int64_t *sums_of(const struct rig *r, size_t *n)
{
    int64_t *all = NULL;
    *n = 0;
    for (int i = 0; i < r->store->n_entries; i++) {
        const struct ls_stored *e = &r->store->entries[i];
        if (e->kind != LS_VALUE_SUM) continue;
        size_t count = e->layout.bytes / sizeof *all;
        all = realloc(all, (*n + count) * sizeof *all);
        assert_non_null(all);
        memcpy(all + *n, e->data, count * sizeof *all);
        *n += count;
    }
    return all;
}

static void swap_shards(struct rig *r, int a, int b, int size)
{
    for (int i = 0; i < size; i++) {
        const uint8_t *pixels = r->pixels[a * size + i];
        uint32_t sample = r->samples[a * size + i];
        uint16_t label = r->labels[a * size + i];
        r->pixels[a * size + i] = r->pixels[b * size + i];
        r->samples[a * size + i] = r->samples[b * size + i];
        r->labels[a * size + i] = r->labels[b * size + i];
        r->pixels[b * size + i] = pixels;
        r->samples[b * size + i] = sample;
        r->labels[b * size + i] = label;
    }
}

/* Whichever shard comes first, the sums and the loss are the same to the last bit. */
static void test_order_of_shards_does_not_matter(void **state)
{
    static const int swaps[][2] = {{0, 3}, {1, 2}, {0, 1}, {2, 3}};
    const char *backend;
    for (RIG_EACH(backend)) {
        struct rig r;
        struct ls_exec_stats first, stats;
        size_t n, m;
        rig_open(&r, backend, net, &plain_sgd);
        rig_plan(&r, 4, true);
        check_ok(ls_exec_init_store(r.exec, 5));
        const struct ls_exec_step step = rig_step(&r, 4, 0, 0.1);
        check_ok(ls_exec_backward(r.exec, &step, &first));
        int64_t *want = sums_of(&r, &n);
        for (int i = 0; i < 4; i++) {
            swap_shards(&r, swaps[i][0], swaps[i][1], 4);
            check_ok(ls_exec_zero_sums(r.exec));
            check_ok(ls_exec_backward(r.exec, &step, &stats));
            int64_t *have = sums_of(&r, &m);
            assert_int_equal(n, m);
            assert_memory_equal(want, have, n * sizeof *want);
            assert_true(stats.loss_sum == first.loss_sum);
            assert_int_equal(stats.n_correct, first.n_correct);
            free(have);
        }
        free(want);
        rig_close(&r);
    }
}

#define LAYERS                                                                                                         \
    "flatten\nlinear a 160\nrelu\nlinear b 160\nrelu\nlinear c 160\nrelu\nlinear d 160\nrelu\nlinear fc classes\n"

/* ThreadSanitizer sees a missing lock the first time; without it only luck does. */
#ifdef __SANITIZE_THREAD__
enum { MANY_TIMES = 10 };
#else
enum { MANY_TIMES = 300 };
#endif

/* Shards of two sizes add to the same sums at the same time, from plans in which the ops have different numbers. */
static void test_two_plans_at_once(void **state)
{
    static const char *const texts[2] = {"model t\ninput any\n" LAYERS, "model t\ninput any\nrelu\nrelu\n" LAYERS};
    size_t n[2];
    int64_t *sums[2];
    for (int threads = 1; threads <= 2; threads++) {
        struct rig r;
        struct ls_exec_stats stats;
        const struct rig_options o = {.threads = threads};
        rig_open(&r, "ref", texts[0], &o);
        rig_plan(&r, 5, true);
        ls_model_destroy(&r.model);
        check_ok(ls_model_parse(&r.model, "rig.net", texts[1], strlen(texts[1])));
        rig_plan(&r, 4, true);
        rig_batch(&r, 0, 9);
        check_ok(ls_exec_init_store(r.exec, 5));
        const struct ls_exec_step step = rig_step(&r, 5, 0, 0.1);
        for (int i = 0; i < MANY_TIMES; i++) check_ok(ls_exec_backward(r.exec, &step, &stats)); /* adding up */
        sums[threads - 1] = sums_of(&r, &n[threads - 1]);
        rig_close(&r);
    }
    assert_int_equal(n[0], n[1]);
    size_t n_lost = 0;
    for (size_t i = 0; i < n[0]; i++) n_lost += sums[0][i] != sums[1][i];
    assert_int_equal(n_lost, 0);
    free(sums[0]);
    free(sums[1]);
}

/* --- the gradient --- */

static double loss_at(struct rig *r, const float *const *w, const float *const *g, double step)
{
    struct ls_exec_stats stats;
    int at = 0;
    for (int i = 0; i < r->store->n_entries; i++) {
        if (r->store->entries[i].kind != LS_VALUE_PARAM) continue;
        size_t n = (size_t)rig_count(r, i);
        float *moved = calloc(n, sizeof *moved);
        assert_non_null(moved);
        for (size_t k = 0; k < n; k++) moved[k] = (float)((double)w[at][k] + step * (double)g[at][k]);
        check_ok(ls_exec_set(r->exec, i, moved));
        free(moved);
        at++;
    }
    const struct ls_exec_step s = rig_step(r, 4, 0, 0);
    check_ok(ls_exec_backward(r->exec, &s, &stats));
    check_ok(ls_exec_zero_sums(r->exec));
    return stats.loss_sum / (double)stats.n;
}

/* Along the gradient g the loss rises by |g|^2: the whole backward pass, its joins and its sums, in one number. */
static void check_gradient(const char *backend, const char *text)
{
    struct rig r;
    struct ls_exec_stats stats;
    float *w[32], *g[32];
    int n_params = 0;
    double square = 0;
    rig_open(&r, backend, text, &plain_sgd);
    rig_plan(&r, 4, true);
    check_ok(ls_exec_init_store(r.exec, 5));
    const struct ls_exec_step s = rig_step(&r, 4, 0, 0);
    check_ok(ls_exec_backward(r.exec, &s, &stats));
    for (int i = 0; i < r.store->n_entries; i++) {
        if (r.store->entries[i].kind != LS_VALUE_PARAM) continue;
        char name[128];
        size_t n = (size_t)rig_count(&r, i);
        assert_true(n_params < 32);
        w[n_params] = calloc(n, sizeof(float));
        g[n_params] = calloc(n, sizeof(float));
        snprintf(name, sizeof name, "sum.%s", r.store->entries[i].name);
        check_ok(ls_exec_get(r.exec, i, w[n_params]));
        check_ok(ls_exec_get_gradient(r.exec, rig_find(&r, name), g[n_params]));
        for (size_t k = 0; k < n; k++) square += (double)g[n_params][k] * (double)g[n_params][k];
        n_params++;
    }
    check_ok(ls_exec_zero_sums(r.exec));
    const double h = 1e-3 / sqrt(square);
    const double up = loss_at(&r, (const float *const *)w, (const float *const *)g, h),
                 down = loss_at(&r, (const float *const *)w, (const float *const *)g, -h);
    const double rise = (up - down) / (2 * h);
    if (fabs(rise - square) > 0.02 * square) print_error("%s\non %s: rise %g, |g|^2 %g\n", text, backend, rise, square);
    assert_true(fabs(rise - square) <= 0.02 * square);
    for (int i = 0; i < n_params; i++) {
        free(w[i]);
        free(g[i]);
    }
    rig_close(&r);
}

static void test_gradient(void **state)
{
    static const char *const nets[] = {
        NET("conv a 5 3\nbn b\nrelu\navgpool 2\n"),
        NET("conv a 4 3\nkeep x\nadd x\n"),
        NET("conv a 4 3 pad=1\nkeep x\nconv b 4 3 pad=1\nbn c\nadd x\nkeep y\nconv d 4 1\nadd x\nadd y\n"),
        NET("conv a 3 3\nkeep x\nconv b 2 3 pad=1\nconcat x x\nlrn 3\n"),
        NET("conv a 6 3\ndropout 0.5\nbias z\nconv b 4 3 groups=2\n"),
    };
    const char *backend;
    for (RIG_EACH(backend))
        for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) check_gradient(backend, nets[i]);
}

static void test_clipping(void **state)
{
    const char *backend;
    for (RIG_EACH(backend)) {
        struct rig r;
        struct ls_exec_stats stats;
        const struct rig_options o = {.threads = 2};
        const float clip = 0.125f, lr = 0.5f;
        rig_open(&r, backend, "model t\ninput any\nflatten\nlinear fc classes bias=no\n", &o);
        rig_plan(&r, 4, true);
        check_ok(ls_exec_init_store(r.exec, 5));
        float *before = rig_get(&r, "fc.weight");
        int sum = rig_find(&r, "sum.fc.weight");
        int64_t n = rig_count(&r, sum);
        float *g = calloc((size_t)n, sizeof *g);
        assert_non_null(g);
        struct ls_exec_step step = rig_step(&r, 4, 0, (double)lr);
        check_ok(ls_exec_backward(r.exec, &step, &stats));
        assert_true(stats.grad_norm == 0);
        check_ok(ls_exec_get_gradient(r.exec, sum, g));
        check_ok(ls_exec_zero_sums(r.exec));
        double norm = 0;
        for (int64_t i = 0; i < n; i++) norm += (double)g[i] * (double)g[i];
        norm = sqrt(norm);
        assert_true(norm > (double)clip); /* or nothing is tested */
        step.clip_norm = (double)clip;
        check_ok(ls_exec_train(r.exec, &step, &stats));
        assert_true(fabs(stats.grad_norm - norm) < 1e-6 * norm);
        float *after = rig_get(&r, "fc.weight");
        double moved = 0;
        for (int64_t i = 0; i < n; i++) moved += pow((double)after[i] - (double)before[i], 2);
        assert_true(fabs(sqrt(moved) - (double)(lr * clip)) < 1e-4 * (double)(lr * clip));
        step.clip_norm = 1e6; /* larger than the norm: no effect */
        check_ok(ls_exec_train(r.exec, &step, &stats));
        float *third = rig_get(&r, "fc.weight");
        moved = 0;
        for (int64_t i = 0; i < n; i++) moved += pow((double)third[i] - (double)after[i], 2);
        assert_true(fabs(sqrt(moved) - (double)lr * stats.grad_norm) < 1e-4 * (double)lr * stats.grad_norm);
        free(before);
        free(after);
        free(third);
        free(g);
        rig_close(&r);
    }
}

/* --- evaluation --- */

/* Padding counts nothing: 7 samples in shards of 4, of 5 and one by one are the same 7 samples. */
static void test_padding(void **state)
{
    const char *backend;
    for (RIG_EACH(backend)) {
        struct rig r;
        struct ls_exec_stats whole, one;
        const struct rig_options o = {.threads = 2};
        rig_open(&r, backend, net, &o);
        static const int64_t sizes[] = {1, 4, 5};
        for (int i = 0; i < 3; i++) rig_plan(&r, sizes[i], false);
        check_ok(ls_exec_init_store(r.exec, 5));
        double loss = 0;
        int64_t n_correct = 0;
        for (uint32_t i = 0; i < 7; i++) {
            rig_batch(&r, i, 1);
            const struct ls_exec_step step = rig_step(&r, 1, 0, 0);
            check_ok(ls_exec_evaluate(r.exec, &step, &one));
            assert_int_equal(one.n, 1);
            loss += one.loss_sum;
            n_correct += one.n_correct;
        }
        rig_batch(&r, 0, 7);
        for (int i = 1; i < 3; i++) {
            const struct ls_exec_step step = rig_step(&r, sizes[i], 0, 0);
            check_ok(ls_exec_evaluate(r.exec, &step, &whole));
            assert_int_equal(whole.n, 7);
            assert_int_equal(whole.n_correct, n_correct);
            if (fabs(whole.loss_sum - loss) > 1e-4) print_error("loss %g, one by one %g\n", whole.loss_sum, loss);
            assert_true(fabs(whole.loss_sum - loss) <= 1e-4);
        }
        rig_close(&r);
    }
}

/* Evaluation between steps sees the weights of now, in whatever copies it keeps; and it changes nothing. */
static void test_evaluation_is_fresh(void **state)
{
    const char *backend;
    for (RIG_EACH(backend)) {
        struct rig r, fresh;
        struct ls_exec_stats stats, want;
        rig_open(&r, backend, net, &plain_sgd);
        rig_plan(&r, 4, true);
        rig_plan(&r, 4, false);
        check_ok(ls_exec_init_store(r.exec, 5));
        const struct ls_exec_step step = rig_step(&r, 4, 0, 0.1);
        for (int i = 0; i < 3; i++) {
            check_ok(ls_exec_train(r.exec, &step, &stats));
            check_ok(ls_exec_evaluate(r.exec, &step, &stats));
            rig_open(&fresh, backend, net, &plain_sgd);
            rig_plan(&fresh, 4, true); /* decides the layouts, as there */
            rig_plan(&fresh, 4, false);
            for (int k = 0; k < r.store->n_entries; k++) {
                const struct ls_stored *e = &r.store->entries[k];
                if (e->source >= 0 || e->kind == LS_VALUE_SUM) continue;
                float *x = rig_get(&r, e->name);
                check_ok(ls_exec_set(fresh.exec, rig_find(&fresh, e->name), x));
                free(x);
            }
            check_ok(ls_exec_evaluate(fresh.exec, &step, &want));
            assert_true(stats.loss_sum == want.loss_sum);
            assert_int_equal(stats.n_correct, want.n_correct);
            rig_close(&fresh);
        }
        rig_close(&r);
    }
}

/* Copies of the weights in other layouts are made again after every update: two steps in a row give what they give when
 * all weights are read and set between them, which marks every copy as old. */
static void test_copies_are_fresh(void **state)
{
    static const char *const strided =
        NET("conv a 16 3 pad=1\nrelu\nconv c 32 3 stride=2 pad=1\nbn b\nconv d 64 1 stride=2\n");
    const char *backend;
    for (RIG_EACH(backend)) {
        float *all[2];
        size_t n[2];
        for (int set = 0; set < 2; set++) {
            struct rig r;
            struct ls_exec_stats stats;
            rig_open(&r, backend, strided, &plain_sgd);
            rig_plan(&r, 4, true);
            if (strcmp(backend, "cpu") == 0) assert_true(ls_exec_plan(r.exec, 4, true)->n_pre > 0); /* or no copies */
            check_ok(ls_exec_init_store(r.exec, 5));
            for (int i = 0; i < 3; i++) {
                const struct ls_exec_step step = rig_step(&r, 4, i, 0.1);
                check_ok(ls_exec_train(r.exec, &step, &stats));
                for (int k = 0; set && k < r.store->n_entries; k++) {
                    if (r.store->entries[k].kind != LS_VALUE_PARAM) continue;
                    float *x = rig_get(&r, r.store->entries[k].name);
                    check_ok(ls_exec_set(r.exec, k, x));
                    free(x);
                }
            }
            all[set] = rig_weights(&r, &n[set]);
            rig_close(&r);
        }
        assert_int_equal(n[0], n[1]);
        check_same(all[0], all[1], n[0], backend);
        free(all[0]);
        free(all[1]);
    }
}

static void test_no_plan(void **state)
{
    struct rig r;
    struct ls_exec_stats stats;
    rig_open(&r, "ref", net, &plain_sgd);
    rig_plan(&r, 4, true);
    check_ok(ls_exec_init_store(r.exec, 5));
    struct ls_exec_step step = rig_step(&r, 3, 0, 0.1);
    check_fails(ls_exec_train(r.exec, &step, &stats), LS_INTERNAL, "no plan for shards of 3 samples");
    check_fails(ls_exec_evaluate(r.exec, &step, &stats), LS_INTERNAL, "no plan for shards of 3 samples");
    rig_batch(&r, 0, 6);
    step.shard_size = 4;
    check_fails(ls_exec_train(r.exec, &step, &stats), LS_INTERNAL, "no plan for shards of 2 samples");
    assert_non_null(ls_exec_plan(r.exec, 4, true));
    assert_null(ls_exec_plan(r.exec, 4, false));
    rig_close(&r);
}

/* Times of ops, also of a plan that came after the measuring began. */
static void test_profile(void **state)
{
    struct rig r;
    struct ls_exec_stats stats;
    double seconds = 0;
    rig_open(&r, "ref", net, &plain_sgd);
    rig_plan(&r, 4, true);
    check_ok(ls_exec_profile(r.exec, true));
    rig_plan(&r, 3, true);
    check_ok(ls_exec_init_store(r.exec, 5));
    rig_batch(&r, 0, 7);
    const struct ls_exec_step step = rig_step(&r, 4, 0, 0.1);
    check_ok(ls_exec_train(r.exec, &step, &stats));
    const struct ls_plan *late = ls_exec_plan(r.exec, 3, true);
    for (int i = 0; i < late->n_ops; i++) seconds += ls_exec_op_seconds(r.exec, late, i);
    assert_true(seconds > 0);
    check_ok(ls_exec_profile(r.exec, false));
    assert_true(ls_exec_op_seconds(r.exec, late, 0) == 0);
    rig_close(&r);
}

/* --- values that are not finite --- */

static void poison(struct rig *r, const char *name, float value)
{
    int entry = rig_find(r, name);
    float *x = rig_get(r, name);
    x[rig_count(r, entry) / 2] = value;
    check_ok(ls_exec_set(r->exec, entry, x));
    free(x);
}

static void check_sums_are_zero(const struct rig *r)
{
    size_t n;
    int64_t *sums = sums_of(r, &n);
    for (size_t i = 0; i < n; i++) assert_int_equal(sums[i], 0);
    free(sums);
}

/* A step that meets one fails, names where, and leaves weights and sums as they were; the next good step is unharmed.
 * Minus infinity in a bias is left out: a relu rightly makes it 0. */
static void check_poison(const char *backend, const char *text, const char *const *names, int n_names)
{
    static const float values[] = {NAN, INFINITY, -INFINITY};
    struct rig r;
    struct ls_exec_stats stats;
    struct rig_options o = plain_sgd;
    o.threads = 2;
    rig_open(&r, backend, text, &o);
    rig_plan(&r, 4, true);
    check_ok(ls_exec_init_store(r.exec, 5));
    const struct ls_exec_step step = rig_step(&r, 4, 7, 0.1);
    for (int i = 0; i < 3 * n_names; i++) {
        const char *name = names[i / 3];
        size_t n, m;
        if (i % 3 == 2 && strstr(name, "bias")) continue;
        float *good = rig_get(&r, name);
        poison(&r, name, values[i % 3]);
        float *before = rig_weights(&r, &n);
        enum ls_status status = ls_exec_train(r.exec, &step, &stats);
        if (status != LS_NONFINITE)
            print_error("%s on %s set to %g: %s\n", name, backend, (double)values[i % 3], ls_status_name(status));
        assert_int_equal(status, LS_NONFINITE);
        assert_non_null(strstr(ls_error_message(), name));
        float *after = rig_weights(&r, &m);
        check_same(before, after, n, "weights after a refused step");
        check_sums_are_zero(&r);
        check_ok(ls_exec_set(r.exec, rig_find(&r, name), good));
        free(before);
        free(after);
        free(good);
    }
    check_ok(ls_exec_train(r.exec, &step, &stats));
    rig_close(&r);
}

static void test_poisoned_weights(void **state)
{
    static const char *const names[] = {"a.weight", "c.weight", "c.bias", "b.weight", "fc.weight", "fc.bias"};
    const char *backend;
    for (RIG_EACH(backend)) check_poison(backend, net, names, 6);
}

/* A fused relu must not make 0 of NaN. Only ref can promise it: oneDNN's relu does, so that a bad weight of the first
 * layer goes unseen there. Such weights do not come about: sums refuse bad gradients, loading refuses bad tensors. */
static void test_poison_before_a_relu(void **state)
{
    static const char *const convs[] = {"a.weight", "a.bias", "c.weight", "c.bias"};
    static const char *const linears[] = {"a.weight", "a.bias"};
    check_poison("ref", NET("conv a 5 3\nrelu\nmaxpool 2\nconv c 4 1\nrelu\n"), convs, 4);
    check_poison("ref", "model t\ninput any\nflatten\nlinear a 9\nrelu\nlinear fc classes\n", linears, 2);
}

/* A learning rate far too high: the steps end in LS_NONFINITE within a few, and the message helps. */
static void test_divergence(void **state)
{
    const char *backend;
    for (RIG_EACH(backend)) {
        struct rig r;
        struct ls_exec_stats stats;
        enum ls_status status = LS_OK;
        rig_open(&r, backend, net, &plain_sgd);
        rig_plan(&r, 4, true);
        check_ok(ls_exec_init_store(r.exec, 5));
        for (int i = 0; i < 30 && status == LS_OK; i++) {
            const struct ls_exec_step step = rig_step(&r, 4, i, 1e12);
            status = ls_exec_train(r.exec, &step, &stats);
        }
        check_fails(status, LS_NONFINITE, "");
        check_sums_are_zero(&r);
        rig_close(&r);
    }
}

/* --- stored values --- */

/* Odd channel counts and groups, so that blocked layouts have padding. */
static void test_get_set(void **state)
{
    const char *backend;
    for (RIG_EACH(backend)) {
        struct rig r;
        const struct rig_options o = {.c = 3, .hw = 16, .n_classes = 7, .optim = {.momentum = 0.9}};
        int n_blocked = 0;
        rig_open(&r, backend, NET("conv a 19 3\nrelu\nconv b 32 3\nrelu\nconv c 8 3 groups=4\n"), &o);
        rig_plan(&r, 4, true);
        for (int i = 0; i < r.store->n_entries; i++) {
            const struct ls_stored *e = &r.store->entries[i];
            if (e->kind == LS_VALUE_SUM || e->source >= 0) continue;
            size_t n = (size_t)rig_count(&r, i);
            float *in = calloc(n, sizeof *in), *out = calloc(n, sizeof *out);
            assert_true(in && out);
            for (size_t k = 0; k < n; k++) in[k] = (float)(k + 1);
            int64_t version = r.store->version;
            check_ok(ls_exec_set(r.exec, i, in));
            assert_true(r.store->version > version); /* copies are stale now */
            check_ok(ls_exec_get(r.exec, i, out));
            check_same(in, out, n, e->name);
            double sum = 0; /* padding is zero, whatever lay there before */
            for (size_t k = 0; k < e->layout.bytes / sizeof(float); k++) sum += (double)((float *)e->data)[k];
            assert_true(sum == (double)n * ((double)n + 1) / 2);
            n_blocked += e->layout.id != LS_LAYOUT_PLAIN;
            free(in);
            free(out);
        }
        if (strcmp(backend, "cpu") == 0) assert_true(n_blocked > 0); /* or nothing is tested */
        rig_close(&r);
    }
}

static void check_uniform(const float *x, int64_t n, double bound)
{
    double sum = 0, square = 0, largest = 0;
    for (int64_t i = 0; i < n; i++) {
        assert_true((double)x[i] >= -bound && (double)x[i] < bound);
        sum += (double)x[i];
        square += (double)x[i] * (double)x[i];
        if (fabs((double)x[i]) > largest) largest = fabs((double)x[i]);
    }
    /* five standard deviations of the mean, and of the variance of uniform numbers */
    assert_true(fabs(sum / (double)n) < 5 * bound / sqrt(3 * (double)n));
    assert_true(fabs(square / (double)n - bound * bound / 3) < 5 * bound * bound * sqrt(4.0 / 45 / (double)n));
    assert_true(largest > 0.95 * bound);
}

static void test_init(void **state)
{
    const char *backend;
    float *first = NULL;
    size_t n_first = 0;
    for (RIG_EACH(backend)) {
        struct rig r;
        size_t n, m;
        rig_open(&r, backend, NET("conv a 16 3\nbn b\nconv c 16 3\n"), &plain_sgd);
        rig_plan(&r, 4, true);
        check_ok(ls_exec_init_store(r.exec, 42));
        float *a = rig_get(&r, "a.weight"), *c = rig_get(&r, "c.weight"), *fc = rig_get(&r, "fc.weight");
        check_uniform(a, 16 * 2 * 9, 1 / sqrt(2 * 9));
        check_uniform(c, 16 * 16 * 9, 1 / sqrt(16 * 9));
        check_uniform(fc, 4 * 16 * 16, 1 / sqrt(16 * 16));
        /* parameters of one size differ beyond their bounds */
        int n_equal = 0;
        for (int i = 0; i < 16 * 2 * 9; i++) n_equal += a[i] * sqrtf(18) == c[i] * 12;
        assert_true(n_equal < 5);
        static const struct {
            const char *name;
            float value;
        } constant[] = {{"b.weight", 1},
                        {"b.bias", 0},
                        {"b.running_mean", 0},
                        {"b.running_var", 1},
                        {"optimizer.momentum.a.weight", 0}};
        for (int k = 0; k < 5; k++) {
            float *x = rig_get(&r, constant[k].name);
            for (int64_t i = 0; i < rig_count(&r, rig_find(&r, constant[k].name)); i++)
                assert_true(x[i] == constant[k].value);
            free(x);
        }
        float *all = rig_weights(&r, &n);
        check_ok(ls_exec_init_store(r.exec, 42));
        float *again = rig_weights(&r, &m);
        check_same(all, again, n, "the same seed");
        check_ok(ls_exec_init_store(r.exec, 43));
        float *other = rig_get(&r, "a.weight");
        assert_true(memcmp(a, other, 16 * 2 * 9 * sizeof *a) != 0);
        if (first) check_same(first, all, n_first, "another backend");
        if (!first) {
            first = all;
            n_first = n;
        } else {
            free(all);
        }
        free(a);
        free(c);
        free(fc);
        free(again);
        free(other);
        rig_close(&r);
    }
    free(first);
}

/* --- running statistics --- */

/* A batch norm right behind a 1x1 convolution that copies the input: its statistics can be computed from the pixels.
 * Shards of 4, 4 and 2 samples weigh 0.4, 0.4 and 0.2; each variance is unbiased over its own shard. */
static void test_running_statistics(void **state)
{
    const char *backend;
    for (RIG_EACH(backend)) {
        struct rig r;
        struct ls_exec_stats stats;
        enum { C = 2, PIXELS = 64 };
        const struct rig_options o = {.threads = 2};
        static const float identity[C * C] = {1, 0, 0, 1};
        double mean[C] = {0, 0}, var[C] = {1, 1};
        rig_open(&r, backend, NET("conv a 2 1 bias=no\nbn b momentum=0.1\n"), &o);
        rig_plan(&r, 4, true);
        rig_plan(&r, 2, true);
        check_ok(ls_exec_init_store(r.exec, 5));
        for (int step = 0; step < 3; step++) {
            check_ok(ls_exec_set(r.exec, rig_find(&r, "a.weight"), identity));
            rig_batch(&r, 10 * (uint32_t)step, 10);
            const struct ls_exec_step s = rig_step(&r, 4, step, 0.01);
            check_ok(ls_exec_train(r.exec, &s, &stats));
            for (int c = 0; c < C; c++) {
                double batch_mean = 0, batch_var = 0;
                for (int first = 0; first < 10; first += 4) {
                    int n = first + 4 <= 10 ? 4 : 10 - first;
                    double sum = 0, square = 0;
                    for (int i = first; i < first + n; i++)
                        for (int k = 0; k < PIXELS; k++) {
                            double x = ((double)r.pixels[i][c * PIXELS + k] / 255 - 0.5) / 0.25;
                            sum += x;
                            square += x * x;
                        }
                    double count = n * PIXELS, m = sum / count;
                    batch_mean += m * n / 10;
                    batch_var += (square / count - m * m) * count / (count - 1) * n / 10;
                }
                mean[c] = 0.9 * mean[c] + 0.1 * batch_mean;
                var[c] = 0.9 * var[c] + 0.1 * batch_var;
            }
            float *have_mean = rig_get(&r, "b.running_mean"), *have_var = rig_get(&r, "b.running_var");
            for (int c = 0; c < C; c++) {
                if (fabs((double)have_mean[c] - mean[c]) > 1e-6 || fabs((double)have_var[c] - var[c]) > 1e-6)
                    print_error("%s: mean %.9g, want %.9g; var %.9g, want %.9g\n", backend, (double)have_mean[c],
                                mean[c], (double)have_var[c], var[c]);
                assert_true(fabs((double)have_mean[c] - mean[c]) <= 1e-6);
                assert_true(fabs((double)have_var[c] - var[c]) <= 1e-6);
            }
            free(have_mean);
            free(have_var);
        }
        rig_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_do_not_matter),
        cmocka_unit_test(test_order_of_shards_does_not_matter),
        cmocka_unit_test(test_two_plans_at_once),
        cmocka_unit_test(test_gradient),
        cmocka_unit_test(test_clipping),
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_evaluation_is_fresh),
        cmocka_unit_test(test_copies_are_fresh),
        cmocka_unit_test(test_no_plan),
        cmocka_unit_test(test_profile),
        cmocka_unit_test(test_poisoned_weights),
        cmocka_unit_test(test_poison_before_a_relu),
        cmocka_unit_test(test_divergence),
        cmocka_unit_test(test_get_set),
        cmocka_unit_test(test_init),
        cmocka_unit_test(test_running_statistics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
