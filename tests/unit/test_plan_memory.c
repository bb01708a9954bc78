/* test_plan_memory.c: a shard computes the same bits in the packed arena as in one where no two values share a byte.
 *
 * The second is made by giving every value (views apart) and every scratch a place of its own in a finished plan. The
 * same bits come out when adds are folded into batch norms. What an op that others overtake reads is left alone.
 */
#include "engine.h"

#include "plan/plan_internal.h"

static size_t take(size_t *at, size_t bytes)
{
    size_t offset = *at;
    *at += (bytes + 127) / 64 * 64; /* and a gap */
    return offset;
}

static void spread(struct ls_plan *p)
{
    size_t at = 0;
    for (int v = 0; v < p->n_slots; v++)
        if (p->slots[v].stored < 0) p->slots[v].offset = take(&at, p->slots[v].layout.bytes);
    for (int i = 0; i < p->n_ops; i++) {
        const struct ls_plan_op *op = &p->ops[i];
        p->ops[i].scratch_offset = take(&at, op->kernel->scratch_bytes);
        if (op->phase == LS_SHARD && op->kernel->is_view)
            p->slots[op->node.out[0]].offset = p->slots[op->node.in[0]].offset;
    }
    p->arena_bytes = at;
}

static void add_plan(struct rig *r, int64_t mb, bool is_training, bool is_spread)
{
    struct ls_graph *g = rig_graph(r, mb, is_training);
    struct ls_plan *p;
    check_ok(ls_plan_create(&p, &g, r->backend, r->device, r->store));
    if (is_spread) spread(p);
    check_ok(ls_exec_add_plan(r->exec, &p));
}

/* Two steps and an evaluation; all stored values, then the loss and hits of the evaluation. */
static float *run(const char *backend, const char *text, const struct rig_options *o, bool is_spread, size_t *n)
{
    struct rig r;
    struct ls_exec_stats stats;
    rig_open(&r, backend, text, o);
    rig_batch(&r, 0, 7);
    add_plan(&r, 4, true, is_spread);
    add_plan(&r, 3, true, is_spread);
    add_plan(&r, 4, false, is_spread);
    check_ok(ls_exec_init_store(r.exec, 3));
    for (int i = 0; i < 2; i++) {
        const struct ls_exec_step step = rig_step(&r, 4, i, 0.01);
        check_ok(ls_exec_train(r.exec, &step, &stats));
    }
    const struct ls_exec_step step = rig_step(&r, 4, 0, 0);
    check_ok(ls_exec_evaluate(r.exec, &step, &stats));
    float *all = rig_weights(&r, n);
    all = realloc(all, (*n + 2) * sizeof *all);
    assert_non_null(all);
    all[(*n)++] = (float)stats.loss_sum;
    all[(*n)++] = (float)stats.n_correct;
    rig_close(&r);
    return all;
}

static void check_net(const char *text, const struct rig_options *o)
{
    const char *backend;
    for (RIG_EACH(backend)) {
        size_t n, n_spread;
        float *packed = run(backend, text, o, false, &n), *apart = run(backend, text, o, true, &n_spread);
        assert_int_equal(n, n_spread);
        for (size_t i = 0; i < n; i++) {
            if (memcmp(&packed[i], &apart[i], sizeof *packed) == 0) continue;
            print_error("%s\non %s: element %zu of %zu is %a packed and %a apart\n", text, backend, i, n,
                        (double)packed[i], (double)apart[i]);
            assert_memory_equal(&packed[i], &apart[i], sizeof *packed);
        }
        free(packed);
        free(apart);
    }
}

#define NET(lines) "model awkward\ninput any\n" lines "flatten\nlinear fc classes\n"

static void test_awkward_nets(void **state)
{
    static const char *const nets[] = {
        NET("relu\n"),
        "model t\ninput any\nflatten\nrelu\nrelu\nlinear a 9\nrelu\nlinear fc classes\n",
        NET("conv a 4 3\nkeep x\nadd x\nrelu\n"),
        NET("conv a 4 3 pad=1\nkeep x\nconv b 4 3 pad=1\nbn c\nadd x\nkeep y\nrelu\nadd x\nadd y\n"),
        NET("conv a 4 3 pad=1\nrelu\nkeep x\nmaxpool 3 stride=1 pad=1\nadd x\nrelu\nadd x\n"),
        NET("conv a 3 3\nkeep x\nconcat x x\nrelu\n"),
        NET("conv a 4 3\ndropout 0.5\ndropout 0.25\nrelu\ndropout 0.1\n"),
        "model t\ninput any\nconv a 4 3\nflatten\nkeep x\nrelu\nadd x\nlinear b 9\nkeep y\nrelu\nadd y\nlinear c "
        "classes\n",
        NET("conv a 6 3 bias=no\nbias z\nlrn 3\nrelu\navgpool 2\n"),
        NET("conv a 5 3\nbn b\nbn c\nrelu\nbn d\n"),
        NET("conv a 6 3\nrelu\nconv b 6 3 groups=2\nrelu\nconv c 6 1 groups=6\n"),
    };
    const struct rig_options o = {.optim = {.momentum = 0.9, .weight_decay = 1e-4}};
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) check_net(nets[i], &o);
}

static void test_zoo(void **state)
{
    static const struct {
        const char *name;
        int c, hw;
    } nets[] = {{"lenet5", 1, 28}, {"svhn-cnn", 3, 32}, {"resnet-small", 3, 32}, {"mlp", 1, 8}};
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
        const struct rig_options o = {.c = nets[i].c, .hw = nets[i].hw, .n_classes = 10, .optim = {.momentum = 0.9}};
        for (int k = 0; ls_zoo[k].name; k++)
            if (strcmp(ls_zoo[k].name, nets[i].name) == 0) check_net(ls_zoo[k].text, &o);
    }
}

/* Adds folded into batch norms: ref's bits stay, and packed memory is as good. */
static void test_norm_add(void **state)
{
    static const char *const nets[] = {
        NET("conv a 4 3 pad=1\nkeep x\nconv b 4 3 pad=1\nbn c\nadd x\nrelu\nkeep y\nconv d 4 3 pad=1\nbn e\nadd y\n"
            "relu\n"),
        NET("conv a 4 3 pad=1\nbn b\nrelu\nkeep x\nbn c\nkeep y\nfrom x\nconv d 4 1\nbn e\nadd y\nadd x\nrelu\n"),
        NET("conv a 4 3 pad=1\nkeep x\nbn c\nadd x\nkeep y\nbn d\nadd y\nrelu\nadd y\n"),
    };
    const struct rig_options plain = {.optim = {.momentum = 0.9}},
                             folded = {.optim = {.momentum = 0.9}, .has_norm_add = true};
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
        size_t n, n_folded, n_apart;
        float *want = run("ref", nets[i], &plain, false, &n), *have = run("ref", nets[i], &folded, false, &n_folded);
        float *apart = run("ref", nets[i], &folded, true, &n_apart);
        assert_int_equal(n, n_folded);
        assert_memory_equal(have, want, n * sizeof *want);
        assert_memory_equal(apart, want, n * sizeof *want);
        free(want);
        free(have);
        free(apart);
    }
}

/* Whether op k writes where one of op i's inputs, or its scratch, lies. */
static bool disturbs(const struct ls_plan *p, int k, int i)
{
    const struct ls_plan_op *by = &p->ops[k], *op = &p->ops[i];
    for (int o = 0; o <= by->node.n_out; o++) {
        const bool is_scratch = o == by->node.n_out;
        const int v = is_scratch ? -1 : by->node.out[o];
        if (!is_scratch && (v < 0 || p->slots[v].stored >= 0)) continue;
        const size_t begin = is_scratch ? by->scratch_offset : p->slots[v].offset;
        const size_t end = begin + (is_scratch ? by->kernel->scratch_bytes : p->slots[v].layout.bytes);
        for (int in = 0; in <= op->node.n_in; in++) {
            const int u = in == op->node.n_in ? -1 : op->node.in[in];
            if (in < op->node.n_in && (u < 0 || p->slots[u].stored >= 0)) continue;
            const size_t at = u < 0 ? op->scratch_offset : p->slots[u].offset;
            const size_t bytes = u < 0 ? op->kernel->scratch_bytes : p->slots[u].layout.bytes;
            if (begin < at + bytes && at < end) return true;
        }
    }
    return false;
}

/* How many ops write what an op before them, of those that are overtaken, may still read. */
static int count_disturbed(const struct ls_plan *p)
{
    int n = 0;
    for (int i = 0; i < p->n_ops; i++) {
        int n_later = 0;
        if (p->ops[i].node.op != LS_OP_CONV2D_BWD_WEIGHTS) continue;
        for (int k = i + 1; k < p->n_ops && n_later < LS_ASIDE; k++) {
            if (p->ops[k].phase != LS_SHARD) continue;
            n += disturbs(p, k, i);
            n_later += p->ops[k].node.op == LS_OP_CONV2D_BWD_WEIGHTS;
        }
    }
    return n;
}

static void test_overtaken(void **state)
{
    struct rig r;
    struct ls_plan *p;
    rig_open(&r, "ref",
             NET("conv a 4 3 pad=1\nbn k\nrelu\nconv b 4 3 pad=1\nbn l\nrelu\nconv c 4 3 pad=1\nbn m\nrelu\n"
                 "conv d 4 3 pad=1\nbn n\nrelu\n"),
             &(struct rig_options){.threads = 1});
    struct ls_graph *g = rig_graph(&r, 4, true);
    check_ok(ls_plan_create(&p, &g, r.backend, r.device, r.store));
    assert_true(count_disturbed(p) > 0); /* as long as nobody says that it is overtaken */
    const size_t bytes = p->arena_bytes;
    for (int i = 0; i < p->n_ops; i++) p->ops[i].kernel->is_aside = p->ops[i].node.op == LS_OP_CONV2D_BWD_WEIGHTS;
    check_ok(ls__plan_memory(p));
    assert_int_equal(count_disturbed(p), 0);
    assert_true(p->arena_bytes >= bytes);
    ls_plan_destroy(&p);
    rig_close(&r);
}

/* --- values that keep apart --- */

static bool always(const struct ls_device *device, const struct ls_graph *graph)
{
    return true;
}

static bool is_shared(size_t a, size_t a_bytes, size_t b, size_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

/* No two values share memory but a view and what it views, and scratch is nobody else's, whatever is alive when. */
static void check_apart(const struct ls_plan *p)
{
    for (int v = 0; v < p->n_slots; v++)
        for (int w = 0; w < v; w++) {
            const struct ls_slot *a = &p->slots[v], *b = &p->slots[w];
            if (!a->is_used || !b->is_used || !is_shared(a->offset, a->bytes, b->offset, b->bytes)) continue;
            const int producer = p->graph->values[v].producer;
            assert_true(producer >= 0 && p->graph->nodes[producer].op == LS_OP_RESHAPE);
        }
    for (int i = 0; i < p->n_ops; i++)
        for (int v = 0; v < p->n_slots && p->ops[i].phase == LS_SHARD; v++)
            if (p->slots[v].is_used)
                assert_false(is_shared(p->ops[i].scratch_offset, p->ops[i].kernel->scratch_bytes, p->slots[v].offset,
                                       p->slots[v].bytes));
}

static void test_apart(void **state)
{
    struct rig r;
    struct ls_plan *p;
    const struct rig_options o = {.c = 1, .hw = 28, .n_classes = 10, .optim = {.momentum = 0.9}};
    const struct ls_zoo_entry *net = ls_zoo;
    while (strcmp(net->name, "lenet5") != 0) net++;
    rig_open(&r, "ref", net->text, &o);
    struct ls_backend apart = *r.backend;
    apart.keeps_apart = always;
    struct ls_graph *g = rig_graph(&r, 4, true);
    check_ok(ls_plan_create(&p, &g, &apart, r.device, r.store));
    check_apart(p);
    ls_plan_destroy(&p);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_awkward_nets), cmocka_unit_test(test_zoo),   cmocka_unit_test(test_norm_add),
        cmocka_unit_test(test_overtaken),    cmocka_unit_test(test_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
