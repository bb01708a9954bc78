/* test_graph.c: the shape rule of every op, what it says when shapes do not fit, and what an op costs. */
#include "engine.h"

#include <stdio.h>

static struct ls_graph *g;

static int new_graph(void **state)
{
    return ls_graph_create(&g, 4, true) == LS_OK ? 0 : -1;
}

static int end_graph(void **state)
{
    ls_graph_destroy(&g);
    ls_graph_destroy(&g); /* twice does no harm */
    return 0;
}

static int value(struct ls_shape shape)
{
    int id;
    check_ok(ls_graph_add_value(g, NULL, LS_VALUE_TEMP, LS_F32, &shape, &id));
    return id;
}

static int image(int64_t c, int64_t h, int64_t w)
{
    return value(LS_SHAPE4(4, c, h, w));
}

static enum ls_status add(enum ls_op op, const struct ls_attrs *attrs, int a, int b, int c)
{
    const int in[3] = {a, b, c};
    int n_in = c >= 0 ? 3 : b >= 0 ? 2 : 1;
    return ls_graph_add_node(g, op, NULL, attrs, in, n_in, NULL);
}

static const struct ls_node *last(void)
{
    return &g->nodes[g->n_nodes - 1];
}

/* The shape of output k of the last node, as text. */
static void check_out(int k, const char *want)
{
    char text[LS_SHAPE_TEXT];
    assert_true(k < last()->n_out && last()->out[k] >= 0);
    const struct ls_value *v = &g->values[last()->out[k]];
    assert_string_equal(ls_shape_text(&v->shape, text), want);
    assert_int_equal(v->producer, g->n_nodes - 1);
}

static const struct ls_attrs none;

static void test_conv2d(void **state)
{
    struct ls_attrs a = {.kh = 3, .kw = 5, .sh = 2, .sw = 1, .ph = 1, .pw = 2, .dh = 1, .dw = 1, .groups = 1};
    int src = image(6, 9, 10), weights = value(LS_SHAPE4(8, 6, 3, 5)), bias = value(LS_SHAPE1(8));
    check_ok(add(LS_OP_CONV2D, &a, src, weights, bias));
    check_out(0, "4x8x5x10");
    assert_true(ls_node_flops(g, last()) == 2.0 * 4 * 8 * 5 * 10 * 6 * 3 * 5);
    a.dw = 2; /* the window is 9 wide */
    check_ok(add(LS_OP_CONV2D, &a, src, weights, -1));
    check_out(0, "4x8x5x6");
    int n = g->n_nodes, n_values = g->n_values;
    check_fails(add(LS_OP_CONV2D, &a, src, weights, value(LS_SHAPE1(7))), LS_DATA,
                "bias of 7 values for 8 output channels");
    check_fails(add(LS_OP_CONV2D, &a, value(LS_SHAPE2(4, 6)), weights, -1), LS_DATA,
                "conv2d needs an image (channels x height x width), but gets the vector 4x6");
    check_fails(add(LS_OP_CONV2D, &a, image(5, 9, 10), weights, -1), LS_DATA,
                "weights 8x6x3x5 do not fit 5 input channels");
    check_fails(add(LS_OP_CONV2D, &a, image(6, 9, 4), weights, -1), LS_DATA,
                "kernel 3x9 does not fit the 9x4 input (with padding 1x2)");
    a.groups = 4;
    check_fails(add(LS_OP_CONV2D, &a, src, weights, -1), LS_DATA,
                "4 groups do not divide 6 input and 8 output channels");
    a.groups = 0;
    check_fails(add(LS_OP_CONV2D, &a, src, weights, -1), LS_DATA, "0 groups");
    a.groups = 2;
    check_fails(add(LS_OP_CONV2D, &a, src, weights, -1), LS_DATA, "weights 8x6x3x5 do not fit");
    check_ok(add(LS_OP_CONV2D, &a, src, value(LS_SHAPE4(8, 3, 3, 5)), -1));
    a.groups = 1;
    a.sh = 0;
    check_fails(add(LS_OP_CONV2D, &a, src, weights, -1), LS_DATA, "kernel and stride must be at least 1");
    assert_int_equal(g->n_nodes, n + 1);         /* a refused node leaves nothing */
    assert_int_equal(g->n_values, n_values + 6); /* only what the test added */
}

static void test_linear(void **state)
{
    int src = value(LS_SHAPE2(4, 6)), weights = value(LS_SHAPE2(3, 6));
    check_ok(add(LS_OP_LINEAR, &none, src, weights, value(LS_SHAPE1(3))));
    check_out(0, "4x3");
    assert_true(ls_node_flops(g, last()) == 2.0 * 4 * 3 * 6);
    check_fails(add(LS_OP_LINEAR, &none, image(6, 1, 1), weights, -1), LS_DATA,
                "linear needs a vector, but gets the image 4x6x1x1; put `flatten` before it");
    check_fails(add(LS_OP_LINEAR, &none, value(LS_SHAPE2(4, 7)), weights, -1), LS_DATA,
                "weights 3x6 do not fit 7 inputs");
    check_fails(add(LS_OP_LINEAR, &none, src, weights, value(LS_SHAPE1(4))), LS_DATA, "bias of 4 values for 3 outputs");
}

static void test_bias(void **state)
{
    check_ok(add(LS_OP_BIAS, &none, image(6, 2, 2), value(LS_SHAPE1(6)), -1));
    check_out(0, "4x6x2x2");
    check_fails(add(LS_OP_BIAS, &none, image(6, 2, 2), value(LS_SHAPE1(5)), -1), LS_DATA,
                "bias of 5 values for 6 channels");
}

static void test_pools(void **state)
{
    struct ls_attrs a = {.kh = 3, .kw = 2, .sh = 2, .sw = 2, .ph = 1, .pw = 1};
    for (int max = 0; max < 2; max++) {
        enum ls_op op = max ? LS_OP_MAXPOOL : LS_OP_AVGPOOL;
        check_ok(add(op, &a, image(6, 9, 8), -1, -1));
        check_out(0, "4x6x5x5");
        assert_int_equal(last()->n_out, max ? 2 : 1);
        if (max) assert_true(g->values[last()->out[1]].is_workspace);
        check_fails(add(op, &a, value(LS_SHAPE2(4, 6)), -1, -1), LS_DATA, "pool needs an image");
        check_fails(add(op, &a, image(6, 0, 8), -1, -1), LS_DATA, "kernel 3x2 does not fit the 0x8 input");
        a.pw = 2;
        check_fails(add(op, &a, image(6, 9, 8), -1, -1), LS_DATA, "padding 1x2 is more than half of the 3x2 window");
        a.pw = 1;
    }
    g->is_training = false;
    check_ok(add(LS_OP_MAXPOOL, &a, image(6, 9, 8), -1, -1));
    assert_int_equal(last()->out[1], -1); /* nobody will ask who won */
}

static void test_batchnorm(void **state)
{
    int src = image(6, 3, 3), c = value(LS_SHAPE1(6)), wrong = value(LS_SHAPE1(5));
    check_ok(add(LS_OP_BATCHNORM, &none, src, c, c));
    check_out(0, "4x6x3x3");
    check_out(1, "6");
    check_out(2, "6");
    assert_true(g->values[last()->out[3]].is_workspace);
    check_fails(add(LS_OP_BATCHNORM, &none, src, c, wrong), LS_DATA, "batch norm of 5 channels gets 6");
    check_ok(add(LS_OP_BATCHNORM, &none, value(LS_SHAPE2(4, 6)), c, c)); /* vectors too */
    check_out(0, "4x6");
    check_out(1, "6");
    check_ok(add(LS_OP_BATCHNORM, &none, value(LS_SHAPE4(1, 6, 1, 2)), c, c));
    check_fails(add(LS_OP_BATCHNORM, &none, value(LS_SHAPE4(1, 6, 1, 1)), c, c), LS_USAGE, "two values per channel");
    check_fails(add(LS_OP_BATCHNORM, &none, value(LS_SHAPE2(1, 6)), c, c), LS_USAGE, "two values per channel");
    const int in[5] = {src, c, c, c, c}, bad[5] = {src, c, c, c, wrong};
    check_ok(ls_graph_add_node(g, LS_OP_BATCHNORM_EVAL, NULL, &none, in, 5, NULL));
    check_out(0, "4x6x3x3");
    assert_int_equal(last()->n_out, 1);
    const int one[5] = {value(LS_SHAPE2(1, 6)), c, c, c, c}; /* given statistics: one value will do */
    check_ok(ls_graph_add_node(g, LS_OP_BATCHNORM_EVAL, NULL, &none, one, 5, NULL));
    check_fails(ls_graph_add_node(g, LS_OP_BATCHNORM_EVAL, NULL, &none, bad, 5, NULL), LS_DATA, "5 channels");
}

static void test_elementwise(void **state)
{
    struct ls_attrs a = {.p = 0.5f, .size = 5};
    int src = image(6, 3, 2);
    check_ok(add(LS_OP_RELU, &none, src, -1, -1));
    check_out(0, "4x6x3x2");
    check_ok(add(LS_OP_DROPOUT, &a, src, -1, -1));
    check_out(0, "4x6x3x2");
    check_ok(add(LS_OP_LRN, &a, src, -1, -1));
    check_out(0, "4x6x3x2");
    check_ok(add(LS_OP_ADD, &none, src, image(6, 3, 2), -1));
    check_out(0, "4x6x3x2");
    check_fails(add(LS_OP_ADD, &none, src, image(6, 2, 3), -1), LS_DATA, "cannot add 4x6x3x2 and 4x6x2x3");
    check_fails(add(LS_OP_LRN, &a, value(LS_SHAPE2(4, 6)), -1, -1), LS_DATA, "lrn needs an image");
    a.size = 4;
    check_fails(add(LS_OP_LRN, &a, src, -1, -1), LS_DATA, "lrn size 4 is not odd and positive");
    static const float bad[] = {1.0f, -0.1f, __builtin_nanf("")};
    for (int i = 0; i < 3; i++) {
        a.p = bad[i];
        check_fails(add(LS_OP_DROPOUT, &a, src, -1, -1), LS_DATA, "is not in [0,1)");
    }
}

static void test_concat_and_reshape(void **state)
{
    check_ok(add(LS_OP_CONCAT, &none, image(6, 3, 2), image(1, 3, 2), image(5, 3, 2)));
    check_out(0, "4x12x3x2");
    check_ok(add(LS_OP_CONCAT, &none, value(LS_SHAPE2(4, 2)), value(LS_SHAPE2(4, 3)), -1));
    check_out(0, "4x5");
    check_fails(add(LS_OP_CONCAT, &none, image(6, 3, 2), image(6, 3, 3), -1), LS_DATA,
                "cannot join 4x6x3x2 and 4x6x3x3 along the channels");
    check_fails(add(LS_OP_CONCAT, &none, image(6, 3, 2), value(LS_SHAPE2(4, 6)), -1), LS_DATA, "cannot join");
    check_ok(add(LS_OP_RESHAPE, &none, image(6, 3, 2), -1, -1));
    check_out(0, "4x36");
    assert_true(ls_node_flops(g, last()) == 0);
    check_ok(add(LS_OP_REORDER, &none, image(6, 3, 2), -1, -1));
    check_out(0, "4x6x3x2");
}

static void test_loss(void **state)
{
    int logits = value(LS_SHAPE2(4, 10)), labels = value(LS_SHAPE1(4));
    check_ok(add(LS_OP_SOFTMAX_CE, &none, logits, labels, -1));
    check_out(0, "4x10");
    check_out(1, "2");
    check_fails(add(LS_OP_SOFTMAX_CE, &none, image(10, 1, 1), labels, -1), LS_DATA,
                "the loss needs [samples,classes], but gets 4x10x1x1");
    g->is_training = false;
    check_ok(add(LS_OP_SOFTMAX_CE, &none, logits, labels, -1));
    assert_int_equal(last()->out[0], -1);
    check_fails(ls_graph_add_loss(g, 0), LS_INTERNAL, "without logits");
    check_fails(ls_graph_add_gradient(g), LS_INTERNAL, "without a training loss");
}

static void test_stored(void **state)
{
    int param = value(LS_SHAPE2(3, 5)), other = value(LS_SHAPE2(5, 3));
    check_ok(add(LS_OP_REDUCE, &none, param, -1, -1));
    check_out(0, "3x5");
    assert_int_equal(g->values[last()->out[0]].kind, LS_VALUE_SUM);
    assert_int_equal(g->values[last()->out[0]].dtype, LS_I64);
    int sum = last()->out[0];
    check_ok(add(LS_OP_SGD, &none, param, sum, -1));
    assert_int_equal(last()->n_out, 0);
    check_ok(add(LS_OP_RUNNING_STATS, &none, param, sum, -1));
    check_fails(add(LS_OP_SGD, &none, other, sum, -1), LS_INTERNAL, "update of 5x3 with 3x5");
    check_fails(add(LS_OP_SGD, &none, param, sum, other), LS_INTERNAL, "update of 3x5 with 5x3");
    const int in[4] = {param, sum, param, other};
    check_fails(ls_graph_add_node(g, LS_OP_ADAMW, NULL, &none, in, 4, NULL), LS_INTERNAL, "update of 3x5 with 5x3");
}

/* Wrong numbers of inputs, ids that name no value, backward ops without their forward: all LS_INTERNAL, no crash. */
static void test_bad_inputs(void **state)
{
    int src = image(6, 3, 3);
    const int many[LS_MAX_IN + 1] = {src, src, src, src, src, src, src, src, src}, absent[2] = {-1, -1};
    const int beyond[2] = {src, 99}, below[2] = {-2, src};
    check_fails(ls_graph_add_node(g, LS_OP_CONCAT, NULL, &none, many, LS_MAX_IN + 1, NULL), LS_INTERNAL, "9 inputs");
    check_fails(ls_graph_add_node(g, LS_OP_ADD, NULL, &none, many, 3, NULL), LS_INTERNAL,
                "add takes 2 to 2 inputs, not 3");
    check_fails(ls_graph_add_node(g, LS_OP_ADD, NULL, &none, many, 1, NULL), LS_INTERNAL, "not 1");
    check_fails(ls_graph_add_node(g, LS_OP_ADD, NULL, &none, absent, 2, NULL), LS_INTERNAL, "input 0 is no value");
    check_fails(ls_graph_add_node(g, LS_OP_ADD, NULL, &none, beyond, 2, NULL), LS_INTERNAL, "input 1 is no value");
    check_fails(ls_graph_add_node(g, LS_OP_ADD, NULL, &none, below, 2, NULL), LS_INTERNAL, "input 0 is no value");
    static const enum ls_op orphans[] = {LS_OP_CONV2D_BWD_DATA,    LS_OP_CONV2D_BWD_WEIGHTS, LS_OP_LINEAR_BWD_DATA,
                                         LS_OP_LINEAR_BWD_WEIGHTS, LS_OP_MAXPOOL_BWD,        LS_OP_AVGPOOL_BWD,
                                         LS_OP_BIAS_BWD,           LS_OP_CONCAT_BWD};
    for (size_t i = 0; i < sizeof orphans / sizeof *orphans; i++) {
        int n_in =
            orphans[i] == LS_OP_AVGPOOL_BWD || orphans[i] == LS_OP_BIAS_BWD || orphans[i] == LS_OP_CONCAT_BWD ? 1 : 2;
        check_fails(ls_graph_add_node(g, orphans[i], NULL, &none, many, n_in, NULL), LS_INTERNAL,
                    "without its forward node");
    }
}

/* Arrays double behind the caller's back; ids and names stay what they were. */
static void test_growth(void **state)
{
    char name[32];
    const struct ls_shape shape = LS_SHAPE1(3);
    for (int i = 0; i < 300; i++) {
        int id;
        snprintf(name, sizeof name, "p%d", i);
        check_ok(ls_graph_add_value(g, name, i % 2 ? LS_VALUE_PARAM : LS_VALUE_TEMP, LS_F32, &shape, &id));
        assert_int_equal(id, i);
        check_ok(add(LS_OP_RELU, &none, value(LS_SHAPE2(4, 3)), -1, -1));
        assert_int_equal(g->n_nodes, i + 1);
        g->n_values -= 2; /* keep the ids of this test dense */
        free(g->values[g->n_values].name);
        free(g->values[g->n_values + 1].name);
    }
    assert_int_equal(ls_graph_find_value(g, "p299"), 299);
    assert_int_equal(ls_graph_find_value(g, "p298"), -1); /* stored values only */
    assert_int_equal(ls_graph_find_value(g, "nobody"), -1);
    assert_string_equal(g->nodes[5].name, "relu"); /* the op's name where none is given */
}

static void test_every_op_has_a_name(void **state)
{
    for (int i = 0; i < LS_N_OPS; i++) {
        assert_non_null(ls_op_name((enum ls_op)i));
        for (int k = 0; k < i; k++) assert_string_not_equal(ls_op_name((enum ls_op)i), ls_op_name((enum ls_op)k));
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, new_graph, end_graph)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_conv2d),
        TEST(test_linear),
        TEST(test_bias),
        TEST(test_pools),
        TEST(test_batchnorm),
        TEST(test_elementwise),
        TEST(test_concat_and_reshape),
        TEST(test_loss),
        TEST(test_stored),
        TEST(test_bad_inputs),
        TEST(test_growth),
        TEST(test_every_op_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
