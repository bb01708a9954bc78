/* test_fuse.c: a relu is folded into the op before it where nobody else wants what lies between, and only there; an add
 * into the batch norm before it likewise. */
#include "engine.h"

#include <stdio.h>

/* A forward graph as the model builder leaves it. */
static struct ls_graph *forward(const char *text, bool is_training)
{
    struct ls_model *m;
    struct ls_graph *g;
    const struct ls_model_options o = {.mb = 2, .c = 2, .h = 8, .w = 8, .n_classes = 3, .is_training = is_training};
    check_ok(ls_model_parse(&m, "t.net", text, strlen(text)));
    check_ok(ls_model_build(m, &o, &g));
    ls_model_destroy(&m);
    return g;
}

/* "conv2d+ relu linear": ops in order, a plus where they end in a relu. */
static void check_nodes(const struct ls_graph *g, const char *want)
{
    char text[512] = "";
    size_t at = 0;
    for (int i = 0; i < g->n_nodes; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s%s", i ? " " : "", ls_op_name(g->nodes[i].op),
                               g->nodes[i].attrs.relu ? "+" : "");
    assert_string_equal(text, want);
}

/* Invariants 1 and 2 of graph.h. */
static void check_invariants(const struct ls_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        for (int k = 0; k < g->nodes[i].n_in; k++) {
            int v = g->nodes[i].in[k];
            if (v < 0) continue;
            bool is_source = g->values[v].kind != LS_VALUE_TEMP;
            assert_true(is_source || (g->values[v].producer >= 0 && g->values[v].producer < i));
        }
        for (int k = 0; k < g->nodes[i].n_out; k++)
            if (g->nodes[i].out[k] >= 0) assert_int_equal(g->values[g->nodes[i].out[k]].producer, i);
    }
}

static void check_fused(const char *text, bool is_training, const char *want)
{
    struct ls_graph *g = forward(text, is_training);
    check_ok(ls_graph_fuse(g));
    check_invariants(g);
    check_nodes(g, want);
    check_ok(ls_graph_fuse(g)); /* nothing is left to do */
    check_nodes(g, want);
    ls_graph_destroy(&g);
}

#define HEAD "model t\ninput any\n"
#define TAIL "flatten\nlinear fc classes\n"

static void test_folded(void **state)
{
    check_fused(HEAD "conv a 4 3\nrelu\n" TAIL, true, "conv2d+ reshape linear");
    check_fused(HEAD "conv a 4 3\nbn b\nrelu\n" TAIL, true, "conv2d batchnorm+ reshape linear");
    check_fused(HEAD "conv a 4 3\nbn b\nrelu\n" TAIL, false, "conv2d batchnorm_eval+ reshape linear");
    check_fused(HEAD "flatten\nlinear a 5\nrelu\nlinear fc classes\n", true, "reshape linear+ linear");
    check_fused(HEAD "conv a 4 3 pad=1\nkeep x\nconv b 4 3 pad=1\nadd x\nrelu\n" TAIL, true,
                "conv2d conv2d add+ reshape linear");
}

static void test_not_folded(void **state)
{
    /* the relu's input is wanted by the add, too */
    check_fused(HEAD "conv a 4 3 pad=1\nkeep x\nrelu\nadd x\n" TAIL, true, "conv2d relu add reshape linear");
    /* no op before it that could end in one */
    check_fused(HEAD "maxpool 2\nrelu\n" TAIL, true, "maxpool relu reshape linear");
    check_fused(HEAD "relu\n" TAIL, true, "relu reshape linear");
    /* of two in a row, one is folded and one stays */
    check_fused(HEAD "conv a 4 3\nrelu\nrelu\n" TAIL, true, "conv2d+ relu reshape linear");
}

/* A relu over the logits is not of the model's language, so by hand: what callers read must not change its meaning. */
static void test_logits_stay(void **state)
{
    struct ls_graph *g = forward(HEAD TAIL, true);
    const struct ls_attrs none = {0};
    int relu;
    check_ok(ls_graph_add_node(g, LS_OP_RELU, NULL, &none, &g->logits, 1, &relu));
    check_ok(ls_graph_fuse(g));
    check_nodes(g, "reshape linear relu");
    g->logits = relu; /* but when the relu's result is the logits, the fused op makes them */
    check_ok(ls_graph_fuse(g));
    check_nodes(g, "reshape linear+");
    assert_int_equal(g->values[g->logits].producer, 1);
    check_invariants(g);
    ls_graph_destroy(&g);
}

static void check_added(const char *text, bool is_training, const char *want)
{
    struct ls_graph *g = forward(text, is_training);
    check_ok(ls_graph_fuse(g));
    check_ok(ls_graph_fuse_adds(g));
    check_invariants(g);
    check_nodes(g, want);
    ls_graph_destroy(&g);
}

#define MAIN HEAD "conv a 4 3 pad=1\nkeep x\nconv b 4 3 pad=1\nbn c\n"

static void test_adds(void **state)
{
    check_added(MAIN "add x\nrelu\n" TAIL, true, "conv2d conv2d batchnorm+ reshape linear");
    check_added(MAIN "add x\n" TAIL, true, "conv2d conv2d batchnorm reshape linear");
    /* of two batch norms the later one, which finds the other's result */
    check_added(MAIN "keep y\nfrom x\nbn d\nadd y\nrelu\n" TAIL, true,
                "conv2d conv2d batchnorm batchnorm+ reshape linear");
    /* not: behind a relu, what somebody else wants too, not directly behind the batch norm, evaluation */
    check_added(MAIN "relu\nadd x\n" TAIL, true, "conv2d conv2d batchnorm+ add reshape linear");
    check_added(MAIN "keep y\nadd x\nadd y\n" TAIL, true, "conv2d conv2d batchnorm add add reshape linear");
    check_added(MAIN "keep y\nfrom x\nconv d 4 1\nadd y\n" TAIL, true,
                "conv2d conv2d batchnorm conv2d add reshape linear");
    check_added(MAIN "add x\nrelu\n" TAIL, false, "conv2d conv2d batchnorm_eval add+ reshape linear");
}

/* The batch norm's other input, and both parts of a gradient that comes from two places. */
static void test_adds_backward(void **state)
{
    struct ls_graph *g = forward(MAIN "add x\nrelu\nkeep y\nconv d 4 3 pad=1\nadd y\n" TAIL, true);
    int n_joins = 0;
    check_ok(ls_graph_fuse(g));
    check_ok(ls_graph_fuse_adds(g));
    assert_int_equal(g->nodes[2].n_in, 4);
    assert_int_equal(g->nodes[2].in[3], g->nodes[0].out[0]);
    const int n_forward = g->n_nodes;
    check_ok(ls_graph_add_loss(g, 0));
    check_ok(ls_graph_add_gradient(g));
    check_invariants(g);
    for (int i = n_forward; i < g->n_nodes; i++) {
        const struct ls_node *n = &g->nodes[i];
        n_joins += n->op == LS_OP_ADD;
        if (n->op != LS_OP_BATCHNORM_BWD) continue;
        assert_int_equal(n->n_in, 8);
        assert_int_equal(n->n_out, 4);
    }
    assert_int_equal(n_joins, 1); /* of what comes to x */
    ls_graph_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folded), cmocka_unit_test(test_not_folded),    cmocka_unit_test(test_logits_stay),
        cmocka_unit_test(test_adds),   cmocka_unit_test(test_adds_backward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
