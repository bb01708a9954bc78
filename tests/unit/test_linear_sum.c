/* test_linear_sum.c: the gradient of a large linear layer, summed once per step (LINEAR_SUM), against the one summed
 * shard by shard, on every backend; sizes that fill no tile, a last shard that is smaller, several threads. */
#include "engine.h"

#include <math.h>
#include <stdio.h>

/* 3*12*12 = 432 inputs, 307 x 432 = 132,624 weights: just large enough to be kept, no multiple of a tile either way. */
static const char text[] = "model wide\ninput any\nflatten\nlinear fc1 307\nrelu\nlinear fc2 classes\n";

enum { N = 45, SHARD = 10 };

struct result {
    float *gradient[4];
    int64_t count[4];
    bool has_sum_node;
};

static const char *const names[4] = {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"};

static struct result backward(const char *backend, int64_t batch_size, int threads)
{
    struct rig r;
    struct result out = {.has_sum_node = false};
    struct ls_exec_stats stats;
    rig_open(&r, backend, text, &(struct rig_options){.threads = threads, .c = 3, .hw = 12, .batch_size = batch_size});
    rig_plan(&r, SHARD, true);
    rig_plan(&r, N % SHARD, true);
    const struct ls_plan *plan = ls_exec_plan(r.exec, SHARD, true);
    for (int i = 0; i < plan->n_ops; i++) out.has_sum_node |= plan->ops[i].node.op == LS_OP_LINEAR_SUM;
    check_ok(ls_exec_init_store(r.exec, 3));
    rig_batch(&r, 100, N);
    const struct ls_exec_step step = rig_step(&r, SHARD, 0, 0.1);
    check_ok(ls_exec_backward(r.exec, &step, &stats));
    for (int i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "sum.%s", names[i]);
        int entry = ls_store_find(r.store, name);
        assert_true(entry >= 0);
        out.count[i] = ls_shape_count(&r.store->entries[entry].shape);
        out.gradient[i] = calloc((size_t)out.count[i], sizeof(float));
        assert_non_null(out.gradient[i]);
        check_ok(ls_exec_get_gradient(r.exec, entry, out.gradient[i]));
    }
    rig_close(&r);
    return out;
}

static void release(struct result *r)
{
    for (int i = 0; i < 4; i++) free(r->gradient[i]);
}

static double distance(const struct result *a, const struct result *b, int i)
{
    double worst = 0, largest = 0;
    assert_int_equal(a->count[i], b->count[i]);
    for (int64_t k = 0; k < a->count[i]; k++) {
        worst = fmax(worst, fabs((double)a->gradient[i][k] - (double)b->gradient[i][k]));
        largest = fmax(largest, fabs((double)b->gradient[i][k]));
    }
    assert_true(largest > 0);
    return worst / largest;
}

static void test_equals_the_sum_shard_by_shard(void **state)
{
    struct result truth = backward("ref", 0, 1);
    assert_false(truth.has_sum_node);
    for (int b = 0; ls_backends[b]; b++) {
        struct result kept = backward(ls_backends[b]->name, N, 2);
        assert_true(kept.has_sum_node);
        for (int i = 0; i < 4; i++) {
            double d = distance(&kept, &truth, i);
            print_message("%s %s: largest difference %.2g of the largest element\n", ls_backends[b]->name, names[i], d);
            assert_true(d < 2e-6);
        }
        release(&kept);
    }
    release(&truth);
}

static void test_threads_do_not_matter(void **state)
{
    for (int b = 0; ls_backends[b]; b++) {
        struct result one = backward(ls_backends[b]->name, N, 1), five = backward(ls_backends[b]->name, N, 5);
        for (int i = 0; i < 4; i++)
            assert_memory_equal(one.gradient[i], five.gradient[i], (size_t)one.count[i] * sizeof(float));
        release(&one);
        release(&five);
    }
}

static void test_small_layers_are_not_kept(void **state)
{
    struct rig r;
    rig_open(&r, "ref", text, &(struct rig_options){.c = 1, .hw = 8, .batch_size = N}); /* 307 x 64 weights */
    struct ls_graph *g = rig_graph(&r, SHARD, true);
    for (int i = 0; i < g->n_nodes; i++) assert_int_not_equal(g->nodes[i].op, LS_OP_LINEAR_SUM);
    ls_graph_destroy(&g);
    rig_close(&r);
}

/* A value that is not finite in one shard is found, nothing is updated, and the sums are clean for the next step. */
static void test_non_finite(void **state)
{
    for (int b = 0; ls_backends[b]; b++) {
        struct rig r;
        struct ls_exec_stats stats;
        rig_open(&r, ls_backends[b]->name, text, &(struct rig_options){.c = 3, .hw = 12, .batch_size = N});
        rig_plan(&r, SHARD, true);
        rig_plan(&r, N % SHARD, true);
        check_ok(ls_exec_init_store(r.exec, 3));
        rig_batch(&r, 100, N);
        r.transform.std[1] = 1e-36f; /* inputs of 1e35: products beyond the range */
        const struct ls_exec_step step = rig_step(&r, SHARD, 0, 0.1);
        assert_int_equal(ls_exec_train(r.exec, &step, &stats), LS_NONFINITE);
        for (int i = 0; i < r.store->n_entries; i++) {
            const struct ls_stored *e = &r.store->entries[i];
            for (size_t k = 0; e->kind == LS_VALUE_SUM && k < e->layout.bytes / 8; k++)
                assert_int_equal(((const int64_t *)e->data)[k], 0);
        }
        rig_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_the_sum_shard_by_shard),
        cmocka_unit_test(test_threads_do_not_matter),
        cmocka_unit_test(test_small_layers_are_not_kept),
        cmocka_unit_test(test_non_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
