/* test_linear_sum.c: the gradient of a large linear layer, summed once per step (LINEAR_SUM), against the one summed
 * shard by shard, on every backend; sizes that fill no tile, a last shard that is smaller, several threads. */
#include "engine.h"

#include <math.h>
#include <stdio.h>

/* 2*17*17 = 578 inputs, 307 x 578 weights: large enough to be kept, no multiple of a tile, block or vector either way.
 */
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
    rig_open(&r, backend, text, &(struct rig_options){.threads = threads, .c = 2, .hw = 17, .batch_size = batch_size});
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
        rig_open(&r, ls_backends[b]->name, text, &(struct rig_options){.c = 2, .hw = 17, .batch_size = N});
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

static struct ls_kernel *prepare(const struct rig *r, const struct ls_prep *prep)
{
    const struct ls_impl *const *const lists[2] = {r->backend->impls, ls_backend_ref.impls};
    for (int l = 0; l < 2; l++)
        for (int i = 0; lists[l][i]; i++) {
            struct ls_kernel *k;
            if (lists[l][i]->op == prep->node->op && lists[l][i]->prepare(prep, &k) == LS_OK) return k;
        }
    fail_msg("no implementation");
    return NULL;
}

static const struct ls_node *first_of(const struct ls_graph *g, enum ls_op op)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].op == op) return &g->nodes[i];
    fail_msg("no %s in the graph", ls_op_name(op));
    return NULL;
}

/* The layout the backend's forward kernel wishes for fc1's weights. */
static struct ls_layout wished_layout(const struct rig *r, const struct ls_graph *g)
{
    struct ls_prep prep = {.device = r->device, .graph = g, .node = first_of(g, LS_OP_LINEAR)};
    prep.in[0] = ls_layout_plain(&g->values[prep.node->in[0]].shape, LS_F32);
    prep.in[1] = ls_layout_any();
    prep.in[2] = ls_layout_any();
    prep.out[0] = ls_layout_any();
    struct ls_kernel *k = prepare(r, &prep);
    struct ls_layout wish = k->in[1];
    ls_kernel_destroy(&k);
    return wish;
}

/* The backend's kernel for fc1's LINEAR_SUM, with the sums plain or as the weights lie. */
static struct ls_kernel *prepare_sum(const struct rig *r, const struct ls_graph *g, bool is_plain)
{
    struct ls_prep prep = {.device = r->device, .graph = g, .node = first_of(g, LS_OP_LINEAR_SUM)};
    for (int i = 0; i < 2; i++) {
        prep.in[i] = ls_layout_plain(&g->values[prep.node->in[i]].shape, LS_F32);
        prep.out[i] = ls_layout_plain(&g->values[prep.node->out[i]].shape, LS_I64);
    }
    if (!is_plain) {
        prep.out[0] = wished_layout(r, g);
        prep.out[0].bytes *= 2;
    }
    return prepare(r, &prep);
}

/* Even numbers from -largest to largest. */
static float *random_floats(int64_t n, uint32_t which, float largest)
{
    float *x = calloc((size_t)n, sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(ls__rng(7, LS_RNG_DATA, which, (uint32_t)i, 0).v[0] % 2001) * 1e-3f * largest - largest;
    return x;
}

static void add_some(struct ls_bound *b, const unsigned char *mine, int64_t *sums)
{
    const size_t n_weights = b->kernel->out[0].bytes / 8;
    b->out[0] = sums;
    b->out[1] = sums + n_weights;
    for (int part = 0; part < 3; part++) {
        const struct ls_step_ctx ctx = {.shard_size = SHARD, .batch_n = N, .part = part, .n_parts = 3};
        const struct ls_join join = {.mine = mine};
        check_ok(b->kernel->impl->launch_join(b, &ctx, &join));
    }
}

/* A kernel with rows of its own, whose numbers reach `largest`. */
struct some {
    struct rig r;
    struct ls_graph *g;
    struct ls_kernel *k;
    struct ls_bound b;
    int64_t *sums; /* weights as the kernel lays them, then bias */
    size_t n_sums;
};

enum { IC = 578, OC = 307 };
static const int64_t width[2] = {IC, OC};

static void some_open(struct some *s, const char *backend, bool is_plain, float largest)
{
    rig_open(&s->r, backend, text, &(struct rig_options){.c = 2, .hw = 17, .batch_size = N});
    s->g = rig_graph(&s->r, SHARD, true);
    s->k = prepare_sum(&s->r, s->g, is_plain);
    s->n_sums = s->k->out[0].bytes / sizeof(int64_t) + OC;
    s->b = (struct ls_bound){.kernel = s->k};
    s->b.scratch = aligned_alloc(64, (s->k->scratch_bytes + 127) / 64 * 64);
    s->sums = calloc(s->n_sums, sizeof *s->sums);
    assert_true(s->b.scratch && s->sums);
    for (int m = 0; m < 2; m++) s->b.in[m] = random_floats(N * width[m], (uint32_t)m, largest);
}

static void some_close(struct some *s)
{
    for (int m = 0; m < 2; m++) free(s->b.in[m]);
    free(s->b.scratch);
    free(s->sums);
    ls_kernel_destroy(&s->k);
    ls_graph_destroy(&s->g);
    rig_close(&s->r);
}

/* The sum of weight [o,i], or with i == IC of bias [o]. */
static int64_t sum_at(const struct some *s, int o, int i)
{
    const int ic_pad = (IC + 15) / 16 * 16;
    if (i == IC) return s->sums[s->n_sums - OC + (size_t)o];
    return s->sums[s->k->out[0].id == LS_LAYOUT_PLAIN ? o * IC + i : (o / 16 * ic_pad + i) * 16 + o % 16];
}

static void check_some(const char *backend, bool is_plain)
{
    static const unsigned char mine[2][5] = {{1, 0, 1, 0, 1}, {0, 1, 0, 1, 0}};
    struct some all, some;
    some_open(&all, backend, is_plain, 0.1f);
    add_some(&all.b, NULL, all.sums);
    assert_int_not_equal(all.sums[0], 0);
    some_open(&some, backend, is_plain, 0.1f);
    for (int half = 0; half < 2; half++) {
        for (int m = 0; m < 2; m++)
            for (int64_t at = 0; at < N * width[m]; at++)
                ((float *)some.b.in[m])[at] =
                    mine[half][at / width[m] / SHARD] ? ((const float *)all.b.in[m])[at] : NAN;
        add_some(&some.b, mine[half], some.sums);
    }
    for (size_t at = 0; at < all.n_sums; at++)
        if (all.sums[at] != some.sums[at])
            fail_msg("%s: sum %zu is %lld over all, %lld over some and the others", backend, at,
                     (long long)all.sums[at], (long long)some.sums[at]);
    some_close(&some);
    some_close(&all);
}

/* The sums over {0,2,4} and over {1,3}, each with NaN in the rows of the others, make the sum over all. */
static void test_some_of_the_shards(void **state)
{
    for (int i = 0; ls_backends[i]; i++)
        for (int plain = 0; plain < 2; plain++) check_some(ls_backends[i]->name, plain);
}

static void check_range(const char *backend, bool is_plain, float largest)
{
    struct some own, ref;
    double worst = 0, most = 0;
    some_open(&own, backend, is_plain, largest);
    some_open(&ref, "ref", true, largest);
    add_some(&own.b, NULL, own.sums);
    add_some(&ref.b, NULL, ref.sums);
    for (int o = 0; o < OC; o++)
        for (int i = 0; i <= IC; i++) {
            worst = fmax(worst, fabs((double)(sum_at(&own, o, i) - sum_at(&ref, o, i))));
            most = fmax(most, fabs((double)sum_at(&ref, o, i)));
        }
    print_message("%s (%s), numbers up to %g: sums up to 2^%.1f, largest difference %.2g of that\n", backend,
                  own.k->out[0].tag, (double)largest, log2(most), worst / most);
    assert_true(worst / most < 1e-6);
    some_close(&ref);
    some_close(&own);
}

/* Shards that add little, shards that add nearly as much as the range holds, and a mixture, as ref adds them. */
static void test_range(void **state)
{
    static const float largest[3] = {0.01f, 0.4f, 3.0f};
    for (int i = 0; ls_backends[i]; i++)
        for (int l = 0; l < 6; l++) check_range(ls_backends[i]->name, l % 2, largest[l / 2]);
}

/* --- applied while they are summed --- */

static int64_t *seen;      /* sums by element of the weights */
static unsigned char *how; /* often each came */

static void note_update(const struct ls_bound *b, const struct ls_step_ctx *ctx, int64_t begin, int64_t n,
                        int64_t *sums)
{
    for (int64_t i = 0; i < n; i++) {
        seen[begin + i] += sums[i];
        how[begin + i]++;
        sums[i] = 0;
    }
}

static void check_update(const char *backend, bool is_plain, int n_parts)
{
    static const struct ls_impl noting = {.name = "noting", .op = LS_OP_SGD, .update = note_update};
    const struct ls_kernel kernel = {.impl = &noting};
    const struct ls_bound update = {.kernel = &kernel};
    const struct ls_step_ctx update_ctx = {.n_parts = 1};
    struct some s;
    some_open(&s, backend, is_plain, 0.1f);
    add_some(&s.b, NULL, s.sums);
    size_t n = s.n_sums - OC;
    seen = calloc(n, sizeof *seen);
    how = calloc(n, 1);
    assert_true(seen && how);
    int64_t *bias = calloc(OC, sizeof *bias);
    s.b.out[0] = NULL; /* must not be touched */
    s.b.out[1] = bias;
    for (int part = 0; part < n_parts; part++) {
        const struct ls_step_ctx ctx = {.shard_size = SHARD, .batch_n = N, .part = part, .n_parts = n_parts};
        const struct ls_join join = {.update = &update, .update_ctx = &update_ctx};
        check_ok(s.k->impl->launch_join(&s.b, &ctx, &join));
    }
    for (size_t at = 0; at < n; at++) {
        if (seen[at] != s.sums[at] || how[at] > 1 || (s.sums[at] && !how[at]))
            fail_msg("%s: weight %zu came %d times with %lld, expected %lld", backend, at, how[at], (long long)seen[at],
                     (long long)s.sums[at]);
    }
    assert_memory_equal(bias, s.sums + n, OC * sizeof *bias);
    free(bias);
    free(seen);
    free(how);
    some_close(&s);
}

/* Every weight gets its sum once, the same as without, in both layouts and however it is cut. */
static void test_every_weight_once(void **state)
{
    for (int i = 0; ls_backends[i]; i++)
        for (int plain = 0; plain < 2; plain++) {
            struct some s;
            some_open(&s, ls_backends[i]->name, plain, 0.1f);
            bool can = s.k->impl->fits;
            some_close(&s);
            for (int n_parts = 1; can && n_parts <= 7; n_parts += 2) check_update(ls_backends[i]->name, plain, n_parts);
        }
}

/* fits: true where the numbers are small, false where a product could leave the range, or is not finite. */
static void test_fits(void **state)
{
    for (int i = 0; ls_backends[i]; i++) {
        struct some s;
        some_open(&s, ls_backends[i]->name, false, 0.5f);
        const struct ls_step_ctx ctx = {.shard_size = SHARD, .batch_n = N, .part = 4, .n_parts = 5};
        float *last = (float *)s.b.in[1] + (int64_t)N * OC - 1, before = *last;
        if (s.k->impl->fits) {
            assert_true(s.k->impl->fits(&s.b, &ctx));
            static const float bad[] = {NAN, INFINITY, -INFINITY, 1e4f, -1e4f};
            for (int k = 0; k < 5; k++) {
                *last = bad[k];
                assert_false(s.k->impl->fits(&s.b, &ctx));
            }
            *last = before;
            ((float *)s.b.in[0])[(int64_t)4 * SHARD * IC] = NAN;
            assert_false(s.k->impl->fits(&s.b, &ctx));
        }
        some_close(&s);
    }
}

static void train_steps(struct rig *r, const char *backend, const struct ls_optim *optim, int threads, bool apart)
{
    struct ls_exec_stats stats;
    rig_open(r, backend, text,
             &(struct rig_options){.threads = threads, .c = 2, .hw = 17, .batch_size = N, .optim = *optim});
    rig_plan(r, SHARD, true);
    rig_plan(r, N % SHARD, true);
    ls_exec_update_apart(r->exec, apart);
    check_ok(ls_exec_init_store(r->exec, 3));
    check_ok(ls_exec_profile(r->exec, true));
    for (int step = 0; step < 3; step++) {
        rig_batch(r, (uint32_t)(100 * step), N);
        const struct ls_exec_step s = rig_step(r, SHARD, step, 0.05);
        check_ok(ls_exec_train(r->exec, &s, &stats));
    }
}

/* Seconds of the update of fc1.weight as an op of its own. */
static double update_seconds(const struct rig *r)
{
    const struct ls_plan *p = ls_exec_plan(r->exec, SHARD, true);
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].phase == LS_POST && strcmp(p->ops[i].node.name, "fc1.weight") == 0)
            return ls_exec_op_seconds(r->exec, p, i);
    fail_msg("no update of fc1.weight");
    return 0;
}

static bool can_update(const struct rig *r)
{
    const struct ls_plan *p = ls_exec_plan(r->exec, SHARD, true);
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].node.op == LS_OP_LINEAR_SUM && p->ops[i].kernel->impl->fits) return true;
    return false;
}

/* Three steps end with the same bits whether sums are applied at once or afterwards, for every rule and number of
 * threads. */
static void test_at_once_or_apart(void **state)
{
    static const struct ls_optim optims[4] = {
        {.momentum = 0},
        {.momentum = 0.9, .weight_decay = 1e-3},
        {.momentum = 0.9, .nesterov = true},
        {.is_adamw = true, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 1e-2}};
    for (int i = 0; ls_backends[i]; i++)
        for (int o = 0; o < 4; o++)
            for (int threads = 1; threads <= 5; threads += 4) {
                struct rig once, apart;
                train_steps(&once, ls_backends[i]->name, &optims[o], threads, false);
                train_steps(&apart, ls_backends[i]->name, &optims[o], 2, true);
                for (int e = 0; e < once.store->n_entries; e++) {
                    const struct ls_stored *a = &once.store->entries[e], *b = &apart.store->entries[e];
                    if (a->kind == LS_VALUE_KEPT || !a->data) continue;
                    assert_memory_equal(a->data, b->data, a->layout.bytes);
                }
                assert_true(update_seconds(&apart) > 0);
                if (can_update(&once)) assert_true(update_seconds(&once) == 0);
                rig_close(&once);
                rig_close(&apart);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_the_sum_shard_by_shard),
        cmocka_unit_test(test_threads_do_not_matter),
        cmocka_unit_test(test_small_layers_are_not_kept),
        cmocka_unit_test(test_non_finite),
        cmocka_unit_test(test_some_of_the_shards),
        cmocka_unit_test(test_range),
        cmocka_unit_test(test_every_weight_once),
        cmocka_unit_test(test_fits),
        cmocka_unit_test(test_at_once_or_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
