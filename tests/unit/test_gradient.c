/* test_gradient.c: which backward nodes the gradient pass appends, in which order, and which it leaves out; then the
 * update nodes that ls_optim_add_update puts behind them. */
#include "engine.h"

#include <stdio.h>

#define HEAD "model t\ninput any\n"

static struct ls_graph *graph_of(const char *text)
{
    struct ls_model *m;
    struct ls_graph *g;
    const struct ls_model_options o = {.mb = 2, .c = 2, .h = 8, .w = 8, .n_classes = 3, .is_training = true};
    check_ok(ls_model_parse(&m, "t.net", text, strlen(text)));
    check_ok(ls_model_build(m, &o, &g));
    ls_model_destroy(&m);
    check_ok(ls_graph_fuse(g));
    check_ok(ls_graph_add_loss(g, 0));
    return g;
}

/* Invariants of graph.h, and what must hold of every gradient. */
static void check_graph(const struct ls_graph *g, int n_forward)
{
    for (int i = 0; i < g->n_nodes; i++) {
        for (int k = 0; k < g->nodes[i].n_in; k++) {
            int v = g->nodes[i].in[k];
            if (v >= 0 && g->values[v].kind == LS_VALUE_TEMP)
                assert_true(g->values[v].producer >= 0 && g->values[v].producer < i);
        }
        for (int k = 0; k < g->nodes[i].n_out; k++)
            if (g->nodes[i].out[k] >= 0) assert_int_equal(g->values[g->nodes[i].out[k]].producer, i);
        assert_true(g->nodes[i].forward < n_forward);
        if (i < n_forward) assert_int_equal(g->nodes[i].forward, -1);
    }
    for (int v = 0; v < g->n_values; v++) {
        const struct ls_value *x = &g->values[v];
        if (x->kind != LS_VALUE_PARAM && x->kind != LS_VALUE_BUFFER) continue;
        assert_true(x->grad >= 0); /* every parameter is trained, every statistic followed */
        const struct ls_value *sum = &g->values[x->grad];
        assert_int_equal(sum->kind, LS_VALUE_SUM);
        assert_true(ls_shape_is_equal(&sum->shape, &x->shape));
        assert_int_equal(g->nodes[sum->producer].op, LS_OP_REDUCE);
        assert_int_equal(strncmp(sum->name, "sum.", 4), 0);
        assert_string_equal(sum->name + 4, x->name);
    }
}

/* The nodes from `first` on as "op(layer) ...", reduces left out. */
static void check_backward(const char *text, const char *want)
{
    char have[1024] = "";
    size_t at = 0;
    struct ls_graph *g = graph_of(text);
    int first = g->n_nodes;
    check_ok(ls_graph_add_gradient(g));
    check_graph(g, first);
    for (int i = first; i < g->n_nodes; i++)
        if (g->nodes[i].op != LS_OP_REDUCE)
            at += (size_t)snprintf(have + at, sizeof have - at, "%s%s(%s)", at ? " " : "", ls_op_name(g->nodes[i].op),
                                   g->nodes[i].name);
    assert_string_equal(have, want);
    ls_graph_destroy(&g);
}

/* No diff_src for the first layer; weights before data, so that sums are ready as early as can be. */
static void test_chain(void **state)
{
    check_backward(HEAD "flatten\nlinear fc classes\n", "linear_bwd_weights(fc)");
    check_backward(HEAD "flatten\nlinear a 5\nrelu\nlinear b classes\n",
                   "linear_bwd_weights(b) linear_bwd_data(b) relu_bwd(a) linear_bwd_weights(a)");
    check_backward(HEAD "conv a 4 3\nmaxpool 2\nconv b 4 3\nrelu\nflatten\nlinear c classes\n",
                   "linear_bwd_weights(c) linear_bwd_data(c) reshape(flatten1) relu_bwd(b) conv2d_bwd_weights(b) "
                   "conv2d_bwd_data(b) maxpool_bwd(maxpool1) conv2d_bwd_weights(a)");
}

/* A relu before a pooling is undone after it, on fewer elements; not where somebody else uses what lies between. */
static void test_relu_before_pool(void **state)
{
    check_backward(HEAD "conv a 4 3\nrelu\nmaxpool 2\nflatten\nlinear c classes\n",
                   "linear_bwd_weights(c) linear_bwd_data(c) reshape(flatten1) relu_bwd(maxpool1) "
                   "maxpool_bwd(maxpool1) conv2d_bwd_weights(a)");
    check_backward(HEAD "conv a 4 3\nrelu\nkeep x\nmaxpool 3 stride=1 pad=1\nadd x\nflatten\nlinear c classes\n",
                   "linear_bwd_weights(c) linear_bwd_data(c) reshape(flatten1) maxpool_bwd(maxpool1) add(join) "
                   "relu_bwd(a) conv2d_bwd_weights(a)");
    check_backward(HEAD "conv a 4 3 bias=no\nbn b\nrelu\nmaxpool 2\nflatten\nlinear c classes\n",
                   "linear_bwd_weights(c) linear_bwd_data(c) reshape(flatten1) maxpool_bwd(maxpool1) "
                   "batchnorm_bwd(b) conv2d_bwd_weights(a)");
}

/* Nothing before the first parameter has a gradient, whatever stands there. */
static void test_no_gradient_before_parameters(void **state)
{
    check_backward(HEAD "maxpool 2\nrelu\navgpool 2\ndropout 0.5\nflatten\nlinear a classes\n",
                   "linear_bwd_weights(a)");
}

static void test_batchnorm(void **state)
{
    check_backward(HEAD "conv a 4 3 bias=no\nbn b\nrelu\nflatten\nlinear c classes\n",
                   "linear_bwd_weights(c) linear_bwd_data(c) reshape(flatten1) batchnorm_bwd(b) conv2d_bwd_weights(a)");
}

/* What is used twice gets two gradients, joined by one ADD. */
static void test_joins(void **state)
{
    check_backward(HEAD "conv a 4 3 pad=1\nkeep x\nconv b 4 3 pad=1\nadd x\nflatten\nlinear c classes\n",
                   "linear_bwd_weights(c) linear_bwd_data(c) reshape(flatten1) conv2d_bwd_weights(b) "
                   "conv2d_bwd_data(b) add(join) conv2d_bwd_weights(a)");
    /* the same value on both sides */
    check_backward(HEAD "conv a 4 3\nkeep x\nadd x\nflatten\nlinear c classes\n",
                   "linear_bwd_weights(c) linear_bwd_data(c) reshape(flatten1) add(join) conv2d_bwd_weights(a)");
    check_backward(
        HEAD "conv a 4 3\nkeep x\nmaxpool 3 stride=1 pad=1\nkeep y\nfrom x\nconcat y x\nflatten\nlinear c classes\n",
        "linear_bwd_weights(c) linear_bwd_data(c) reshape(flatten1) concat_bwd(concat1) concat_bwd(concat1) "
        "concat_bwd(concat1) add(join) maxpool_bwd(maxpool1) add(join) conv2d_bwd_weights(a)");
}

/* The backward of a concat takes the slices that belong to its inputs. */
static void test_concat_offsets(void **state)
{
    struct ls_graph *g = graph_of(
        HEAD "conv z 2 1\nkeep in\nconv a 4 1\nkeep x\nfrom in\nconv b 3 1\nconcat x in\nflatten\nlinear c classes\n");
    static const int want[][2] = {{0, 3}, {3, 4}, {7, 2}}; /* offset, channels */
    int n = 0;
    check_ok(ls_graph_add_gradient(g));
    for (int i = 0; i < g->n_nodes; i++) {
        if (g->nodes[i].op == LS_OP_CONCAT) assert_int_equal(g->nodes[i].attrs.offset, 0);
        if (g->nodes[i].op != LS_OP_CONCAT_BWD) continue;
        assert_true(n < 3);
        assert_int_equal(g->nodes[i].attrs.offset, want[n][0]);
        assert_int_equal(g->values[g->nodes[i].out[0]].shape.dims[1], want[n][1]);
        n++;
    }
    assert_int_equal(n, 3);
    ls_graph_destroy(&g);
}

/* Only a fused relu is undone from the result; without one the result of a batch norm need not be kept. */
static void test_batchnorm_keeps_only_what_it_reads(void **state)
{
    for (int relu = 0; relu < 2; relu++) {
        struct ls_graph *g = graph_of(relu ? HEAD "conv a 4 3\nbn b\nrelu\nflatten\nlinear c classes\n"
                                           : HEAD "conv a 4 3\nbn b\nflatten\nlinear c classes\n");
        bool seen = false;
        check_ok(ls_graph_add_gradient(g));
        for (int i = 0; i < g->n_nodes; i++) {
            if (g->nodes[i].op != LS_OP_BATCHNORM_BWD) continue;
            seen = true;
            assert_int_equal(g->nodes[i].in[4], relu ? g->nodes[g->nodes[i].forward].out[0] : -1);
        }
        assert_true(seen);
        ls_graph_destroy(&g);
    }
}

/* The statistics of a shard leave it by its share of the batch, the variance unbiased. */
static void test_statistics(void **state)
{
    struct ls_graph *g = graph_of(HEAD "conv a 4 3\nbn b momentum=0.25\nflatten\nlinear c classes\n");
    check_ok(ls_graph_add_gradient(g));
    const char *names[] = {"b.running_mean", "b.running_var"};
    for (int i = 0; i < 2; i++) {
        const struct ls_value *v = &g->values[ls_graph_find_value(g, names[i])];
        const struct ls_node *reduce = &g->nodes[g->values[v->grad].producer];
        assert_true(reduce->attrs.by_share);
        assert_int_equal(reduce->attrs.scale_log2, LS_SCALE_RUNNING);
        const double n = 2 * 6 * 6;
        assert_true(reduce->attrs.alpha == (i ? (float)(n / (n - 1)) : 1.0f));
    }
    /* and the update knows the layer's momentum */
    const struct ls_optim sgd = {.momentum = 0.9};
    int n_seen = 0;
    check_ok(ls_optim_add_update(g, &sgd));
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].op == LS_OP_RUNNING_STATS) {
            assert_true(g->nodes[i].attrs.momentum == 0.25f);
            n_seen++;
        }
    assert_int_equal(n_seen, 2);
    ls_graph_destroy(&g);
}

static void test_a_parameter_used_twice_is_refused(void **state)
{
    struct ls_graph *g;
    const struct ls_attrs none = {0};
    int x, w;
    check_ok(ls_graph_create(&g, 2, true));
    check_ok(ls_graph_add_value(g, "input", LS_VALUE_INPUT, LS_F32, &LS_SHAPE2(2, 3), &x));
    check_ok(ls_graph_add_value(g, "w", LS_VALUE_PARAM, LS_F32, &LS_SHAPE2(3, 3), &w));
    for (int i = 0; i < 2; i++) check_ok(ls_graph_add_node(g, LS_OP_LINEAR, NULL, &none, (const int[]){x, w}, 2, &x));
    g->logits = x;
    check_ok(ls_graph_add_loss(g, 0));
    check_fails(ls_graph_add_gradient(g), LS_UNSUPPORTED, "parameter w is used twice");
    ls_graph_destroy(&g);
}

/* --- the update pass --- */

static int n_states(const struct ls_graph *g, const char *prefix)
{
    int n = 0;
    for (int i = 0; i < g->n_values; i++)
        n += g->values[i].kind == LS_VALUE_STATE && strncmp(g->values[i].name, prefix, strlen(prefix)) == 0;
    return n;
}

static void check_update(const struct ls_optim *o, enum ls_op op, int n_in, const char *state_prefix, int want_states)
{
    struct ls_graph *g = graph_of(HEAD "conv a 4 3\nflatten\nlinear c classes\n");
    check_ok(ls_graph_add_gradient(g));
    int first = g->n_nodes, n_params = 0;
    check_ok(ls_optim_add_update(g, o));
    for (int i = first; i < g->n_nodes; i++) {
        const struct ls_node *n = &g->nodes[i];
        assert_int_equal(n->op, op);
        assert_int_equal(n->n_in, n_in);
        assert_int_equal(g->values[n->in[0]].kind, LS_VALUE_PARAM);
        assert_int_equal(g->values[n->in[0]].grad, n->in[1]);
        assert_true(n->attrs.weight_decay == 0.125f);
        n_params++;
    }
    assert_int_equal(n_params, 4);
    assert_int_equal(n_states(g, state_prefix), want_states);
    ls_graph_destroy(&g);
}

static void test_updates(void **state)
{
    check_update(&(struct ls_optim){.weight_decay = 0.125}, LS_OP_SGD, 2, "optimizer.", 0);
    check_update(&(struct ls_optim){.weight_decay = 0.125, .momentum = 0.9, .nesterov = true}, LS_OP_SGD, 3,
                 "optimizer.momentum.", 4);
    check_update(&(struct ls_optim){.weight_decay = 0.125, .is_adamw = true, .beta1 = 0.9}, LS_OP_ADAMW, 4,
                 "optimizer.m.", 4);
    check_update(&(struct ls_optim){.weight_decay = 0.125, .is_adamw = true, .beta1 = 0.9}, LS_OP_ADAMW, 4,
                 "optimizer.v.", 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_relu_before_pool),
        cmocka_unit_test(test_no_gradient_before_parameters),
        cmocka_unit_test(test_batchnorm),
        cmocka_unit_test(test_joins),
        cmocka_unit_test(test_concat_offsets),
        cmocka_unit_test(test_batchnorm_keeps_only_what_it_reads),
        cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_a_parameter_used_twice_is_refused),
        cmocka_unit_test(test_updates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
