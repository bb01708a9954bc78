/* test_model.c: the zoo is what its names promise, and texts become the graphs they describe. */
#include "model/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "expect.h"
#include "scratch.h"

static struct ls_graph *build(struct ls_model *m, int64_t mb, int c, int hw, int classes, bool is_training)
{
    const struct ls_model_options o = {
        .mb = mb, .c = c, .h = hw, .w = hw, .n_classes = classes, .is_training = is_training};
    struct ls_graph *g;
    check_ok(ls_model_build(m, &o, &g));
    return g;
}

static struct ls_graph *build_text(const char *text, int64_t mb, int c, int hw, int classes, bool is_training)
{
    struct ls_model *m;
    check_ok(ls_model_parse(&m, "t.net", text, strlen(text)));
    struct ls_graph *g = build(m, mb, c, hw, classes, is_training);
    ls_model_destroy(&m);
    return g;
}

static struct ls_graph *build_zoo(const char *name, int64_t mb, int c, int hw, int classes, bool is_training)
{
    struct ls_model *m;
    check_ok(ls_model_load(&m, name));
    assert_string_equal(ls_model_name(m), name);
    struct ls_graph *g = build(m, mb, c, hw, classes, is_training);
    ls_model_destroy(&m);
    return g;
}

/* The counts are torchvision's, or worked out by hand for ours. */
static void test_parameter_counts(void **state)
{
    static const struct {
        const char *name;
        int c, hw, classes;
        int64_t parameters;
    } want[] = {
        {"alexnet", 3, 224, 1000, 61100840},
        {"vgg11", 3, 224, 1000, 132863336},
        {"vgg16", 3, 224, 1000, 138357544},
        {"resnet18-224", 3, 224, 1000, 11689512},
        {"resnet18", 3, 32, 10, 11173962},
        {"lenet5", 1, 28, 10, 61706},
        {"svhn-cnn", 3, 32, 10, 456 + 2416 + 784 * 64 + 64 + 64 * 10 + 10},
        {"mlp", 1, 28, 10, 784 * 512 + 512 + 512 * 10 + 10},
        {"softmax", 1, 28, 10, 7850},
        {"resnet-small", 3, 32, 10, 308826},
        {"mobilenetv2", 3, 224, 1000, 3504872},
        {"densenet121", 3, 224, 1000, 7978856},
        {"googlenet", 3, 224, 1000, 6624904},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct ls_model *m;
        struct ls_model_summary s;
        check_ok(ls_model_load(&m, want[i].name));
        check_ok(ls_model_summarize(m, want[i].c, want[i].hw, want[i].hw, want[i].classes, &s));
        if (s.parameters != want[i].parameters) print_error("%s\n", want[i].name);
        assert_int_equal(s.parameters, want[i].parameters);
        ls_model_destroy(&m);
    }
    int n = 0;
    while (ls_zoo[n].name) n++;
    assert_int_equal(n, sizeof want / sizeof *want); /* a new model needs its line here */
}

/* Window sizes as PyTorch has them, and the shapes of parameters. */
static void test_windows_and_norms(void **state)
{
    static const struct {
        const char *layers, *shape;
    } want[] = {
        {"maxpool 3 stride=2", "2x3x3x3"},
        {"maxpool 3 stride=2 ceil=yes", "2x3x4x4"},
        {"maxpool 2 stride=2 dilation=3", "2x3x3x3"},
        {"avgpool 2 stride=3 ceil=yes countpad=no", "2x3x3x3"}, /* the third begins at row 6 of 8 */
        {"avgpool 2 stride=4 pad=1 ceil=yes", "2x3x3x3"},       /* row 7 */
        {"avgpool 2 stride=5 pad=1 ceil=yes", "2x3x2x2"},       /* would begin at row 9, in the padding */
        {"adaptiveavgpool 3x5", "2x3x3x5"},
        {"adaptiveavgpool 12x2", "2x3x12x2"},
        {"layernorm n\ngelu\ngelu tanh=yes\nsilu\ntanh\nsigmoid\nleakyrelu slope=0.2\nrelu6\nhardswish", "2x3x8x8"},
        {"groupnorm n 3", "2x3x8x8"},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        char text[512], shape[LS_SHAPE_TEXT];
        snprintf(text, sizeof text, "model t\ninput any\n%s\nflatten\nlinear f classes\n", want[i].layers);
        struct ls_graph *g = build_text(text, 2, 3, 8, 10, true);
        const int flat = g->nodes[g->n_nodes - 2].in[0];
        if (strcmp(ls_shape_text(&g->values[flat].shape, shape), want[i].shape) != 0)
            print_error("%s\n", want[i].layers);
        assert_string_equal(shape, want[i].shape);
        ls_graph_destroy(&g);
    }
    struct ls_graph *g = build_text("model t\ninput any\nlayernorm a\nlayernorm b image=yes\nflatten\nlayernorm c\n"
                                    "linear f classes\n",
                                    2, 3, 8, 10, true);
    static const struct {
        const char *name;
        int64_t count;
    } params[] = {{"a.weight", 3}, {"b.bias", 192}, {"c.weight", 192}};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(ls_shape_count(&g->values[ls_graph_find_value(g, params[i].name)].shape), params[i].count);
    ls_graph_destroy(&g);
}

static void test_summary_costs(void **state)
{
    static const char text[] =
        "model t\ninput 2x4x4\nconv c 3 3 pad=1 bias=no\nrelu\nflatten\nlinear f classes bias=no\n";
    struct ls_model *m;
    struct ls_model_summary s;
    check_ok(ls_model_parse(&m, "t.net", text, strlen(text)));
    check_ok(ls_model_summarize(m, 2, 4, 4, 5, &s));
    assert_int_equal(s.n_layers, 4);
    assert_int_equal(s.parameters, 3 * 2 * 9 + 48 * 5);
    assert_int_equal(s.activation_bytes_per_image, 4 * (48 + 48 + 5));
    double least = 2.0 * 48 * 18 + 2.0 * 48 * 5; /* the relu counts too, by the graph's rules */
    assert_true(s.flops_per_image >= least && s.flops_per_image <= least + 2 * 48);
    ls_model_destroy(&m);
}

/* PARAM and BUFFER names in order, a blank before each. */
static void check_names(const struct ls_graph *g, const char *want)
{
    static char got[65536];
    got[0] = '\0';
    for (int i = 0; i < g->n_values; i++)
        if (g->values[i].kind == LS_VALUE_PARAM || g->values[i].kind == LS_VALUE_BUFFER) {
            assert_true(strlen(got) + strlen(g->values[i].name) + 2 < sizeof got);
            strcat(got, " ");
            strcat(got, g->values[i].name);
        }
    assert_string_equal(got, want);
}

#define W(layer) " " layer ".weight"
#define WB(layer) W(layer) " " layer ".bias"
#define BN(layer) WB(layer) " " layer ".running_mean " layer ".running_var"
#define BASIC(block) W(block ".conv1") BN(block ".bn1") W(block ".conv2") BN(block ".bn2")
#define DOWN(block) BASIC(block) W(block ".downsample.0") BN(block ".downsample.1")

/* torchvision's lists, one piece per line */
/* clang-format off */
static const char alexnet_names[] =
    WB("features.0") WB("features.3") WB("features.6") WB("features.8") WB("features.10")
    WB("classifier.1") WB("classifier.4") WB("classifier.6");
static const char vgg11_names[] =
    WB("features.0") WB("features.3") WB("features.6") WB("features.8")
    WB("features.11") WB("features.13") WB("features.16") WB("features.18")
    WB("classifier.0") WB("classifier.3") WB("classifier.6");
static const char resnet18_names[] =
    W("conv1") BN("bn1")
    BASIC("layer1.0") BASIC("layer1.1")
    DOWN("layer2.0") BASIC("layer2.1")
    DOWN("layer3.0") BASIC("layer3.1")
    DOWN("layer4.0") BASIC("layer4.1")
    WB("fc");
/* clang-format on */

static void test_parameter_names(void **state)
{
    static const struct {
        const char *name;
        int c, hw;
        const char *names;
    } want[] = {
        {"lenet5", 1, 28, WB("conv1") WB("conv2") WB("fc1") WB("fc2") WB("fc3")},
        {"svhn-cnn", 3, 32, WB("conv1") WB("conv2") WB("fc1") WB("fc2")},
        {"alexnet", 3, 224, alexnet_names},
        {"vgg11", 3, 224, vgg11_names},
        {"resnet18", 3, 32, resnet18_names},
        {"resnet18-224", 3, 224, resnet18_names},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct ls_graph *g = build_zoo(want[i].name, 2, want[i].c, want[i].hw, 10, true);
        check_names(g, want[i].names);
        ls_graph_destroy(&g);
    }
}

static void check_shape(const struct ls_graph *g, int value, const char *want)
{
    char text[LS_SHAPE_TEXT];
    assert_string_equal(ls_shape_text(&g->values[value].shape, text), want);
}

static void test_zoo_builds_for_any_shard(void **state)
{
    for (const struct ls_zoo_entry *z = ls_zoo; z->name; z++)
        for (int is_training = 0; is_training < 2; is_training++) {
            struct ls_model *m;
            int c, h, w;
            check_ok(ls_model_load(&m, z->name));
            ls_model_input(m, &c, &h, &w);
            if (!h) c = 3, h = w = 32; /* adapts */
            struct ls_graph *g = build(m, 7, c, h, 10, is_training);
            check_shape(g, g->logits, "7x10");
            assert_int_equal(g->values[g->input].shape.dims[0], 7);
            for (int i = 0; i < g->n_nodes; i++) assert_true(g->nodes[i].line > 0);
            ls_graph_destroy(&g);
            ls_model_destroy(&m);
        }
}

static void test_other_image_sizes(void **state)
{
    struct ls_graph *g = build_zoo("alexnet", 1, 3, 448 - 17, 10, false); /* 12x12 features, pooled to 6x6 */
    ls_graph_destroy(&g);
    g = build_zoo("vgg11", 1, 3, 448, 10, false);
    ls_graph_destroy(&g);
    g = build_zoo("resnet18", 1, 3, 64, 10, false);
    ls_graph_destroy(&g);
}

static const struct ls_value *stored(const struct ls_graph *g, const char *name)
{
    int id = ls_graph_find_value(g, name);
    if (id < 0) print_error("no %s\n", name);
    assert_true(id >= 0);
    return &g->values[id];
}

static void test_initialisation(void **state)
{
    struct ls_graph *g = build_text(
        "model t\ninput any\nconv c 8 3x5 groups=2\nbn b\nbias o\nflatten\nlinear f classes\n", 1, 4, 9, 3, true);
    const float conv = (float)(1 / sqrt(2 * 3 * 5)), linear = (float)(1 / sqrt(8 * 7 * 5));
    check_shape(g, (int)(stored(g, "c.weight") - g->values), "8x2x3x5");
    assert_int_equal(stored(g, "c.weight")->init, LS_INIT_UNIFORM);
    assert_float_equal(stored(g, "c.weight")->init_bound, conv, 0);
    assert_float_equal(stored(g, "c.bias")->init_bound, conv, 0);
    assert_int_equal(stored(g, "c.bias")->init, LS_INIT_UNIFORM);
    assert_float_equal(stored(g, "f.weight")->init_bound, linear, 0);
    assert_float_equal(stored(g, "f.bias")->init_bound, linear, 0);
    assert_int_equal(stored(g, "b.weight")->init, LS_INIT_ONE);
    assert_int_equal(stored(g, "b.bias")->init, LS_INIT_ZERO);
    assert_int_equal(stored(g, "b.running_mean")->init, LS_INIT_ZERO);
    assert_int_equal(stored(g, "b.running_var")->init, LS_INIT_ONE);
    assert_int_equal(stored(g, "b.running_var")->kind, LS_VALUE_BUFFER);
    assert_int_equal(stored(g, "o.bias")->init, LS_INIT_ZERO);
    ls_graph_destroy(&g);
}

static void check_ops(const struct ls_graph *g, const char *want)
{
    char got[1024] = "";
    for (int i = 0; i < g->n_nodes; i++) {
        if (i) strcat(got, " ");
        strcat(got, ls_op_name(g->nodes[i].op));
    }
    assert_string_equal(got, want);
}

static void test_training_and_evaluating_differ(void **state)
{
    static const char text[] = "model t\ninput any\nconv c 8 3\nbn b eps=0.001 momentum=0.2\nrelu\ndropout 0\n"
                               "dropout 0.25\nadaptiveavgpool 6x6\nadaptiveavgpool 3x2\nglobalavgpool\nglobalavgpool\n"
                               "flatten\nflatten\nlinear f classes\n";
    struct ls_graph *g = build_text(text, 4, 3, 8, 5, true);
    check_ops(g, "conv2d batchnorm relu dropout avgpool avgpool reshape linear");
    assert_float_equal(g->nodes[1].attrs.eps, 0.001f, 0);
    assert_float_equal(g->nodes[1].attrs.momentum, 0.2f, 0);
    assert_string_equal(g->nodes[1].name, "b");
    assert_string_equal(g->nodes[2].name, "relu1");
    assert_int_equal(g->nodes[1].n_in, 3);
    assert_float_equal(g->nodes[3].attrs.p, 0.25f, 0);
    assert_int_equal(g->nodes[3].attrs.layer, 1);
    assert_int_equal(g->n_dropouts, 2);
    check_shape(g, g->nodes[4].out[0], "4x8x3x2");
    check_shape(g, g->nodes[5].out[0], "4x8x1x1");
    ls_graph_destroy(&g);
    g = build_text(text, 4, 3, 8, 5, false);
    check_ops(g, "conv2d batchnorm_eval relu avgpool avgpool reshape linear");
    assert_int_equal(g->nodes[1].n_in, 5);
    assert_string_equal(g->values[g->nodes[1].in[4]].name, "b.running_var");
    ls_graph_destroy(&g);
}

static void test_attributes(void **state)
{
    struct ls_graph *g = build_text("model t\ninput any\n"
                                    "conv c 8 3x5 stride=2x1 pad=1x2 dilation=2 groups=2 bias=no\n"
                                    "lrn 5 alpha=0.5 k=2\nmaxpool 3 stride=2 pad=1\navgpool 2\nglobalavgpool\nflatten\n"
                                    "linear f classes\n",
                                    1, 4, 20, 3, false);
    const struct ls_attrs *a = &g->nodes[0].attrs;
    const int got[] = {a->kh, a->kw, a->sh, a->sw, a->ph, a->pw, a->dh, a->dw, a->groups};
    const int want[] = {3, 5, 2, 1, 1, 2, 2, 2, 2};
    assert_memory_equal(got, want, sizeof want);
    assert_int_equal(ls_graph_find_value(g, "c.bias"), -1);
    assert_int_equal(g->nodes[1].attrs.size, 5);
    assert_float_equal(g->nodes[1].attrs.alpha, 0.5f, 0);
    assert_float_equal(g->nodes[1].attrs.beta, 0.75f, 0);
    assert_float_equal(g->nodes[1].attrs.k, 2, 0);
    assert_int_equal(g->nodes[2].attrs.sh, 2);
    assert_int_equal(g->nodes[3].attrs.sw, 2); /* a pool moves by its own size */
    ls_graph_destroy(&g);
}

static void test_blocks_and_labels(void **state)
{
    /* Nested blocks, defaults, values passed on, "$" inside a word, a label used again, names of unnamed layers. */
    static const char text[] =
        "model t\ninput any\n"
        "use outer o width=4\nkeep x\nuse inner i out=6 # a comment\nconcat x\nflatten\n"
        "linear f classes\r\n"
        "block inner out k=3\n\tkeep x\n  conv c$k $out $k pad=1\n  relu\n  keep x\n  add x\nend\n"
        "block outer width\n  use inner a out=$width\n  use inner b out=$width k=2\nend";
    struct ls_graph *g = build_text(text, 1, 3, 8, 2, true);
    check_names(g, WB("o.a.c3") WB("o.b.c2") WB("i.c3") WB("f"));
    check_ops(g, "conv2d relu add conv2d relu add conv2d relu add concat reshape linear");
    assert_string_equal(g->nodes[1].name, "o.a.relu1");
    check_shape(g, g->nodes[9].out[0], "1x10x9x9");
    assert_int_equal(g->nodes[9].in[0], g->nodes[8].out[0]); /* the current tensor comes first */
    assert_int_equal(g->nodes[0].line, 11);
    ls_graph_destroy(&g);
}

static void test_text_and_input_are_kept(void **state)
{
    static const char text[] = "model t\ninput 3x*x17\nflatten\nlinear f classes";
    struct ls_model *m;
    size_t len;
    int c, h, w;
    check_ok(ls_model_parse(&m, "t.net", text, strlen(text)));
    ls_model_input(m, &c, &h, &w);
    assert_int_equal(c, 3);
    assert_int_equal(h, 0);
    assert_int_equal(w, 17);
    const char *kept = ls_model_text(m, &len);
    assert_int_equal(len, strlen(text));
    assert_memory_equal(kept, text, len);
    ls_model_destroy(&m);
    ls_model_destroy(&m); /* forgiving */
}

static void test_load_from_a_file(void **state)
{
    char path[SCRATCH_BYTES];
    struct ls_model *m;
    int fd = mkstemps(scratch_name(path, "model", ".net"), 4);
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "w");
    fputs("model mine\ninput any\nflatten\nlinear f classes\n", f);
    fclose(f);
    check_ok(ls_model_load(&m, path));
    assert_string_equal(ls_model_name(m), "mine");
    ls_model_destroy(&m);
    remove(path);
    assert_int_equal(ls_model_load(&m, path), LS_DATA);
    assert_non_null(strstr(ls_error_message(), path));
    assert_null(m);
}

static void test_unknown_names_are_corrected(void **state)
{
    static const struct {
        const char *name, *part;
    } want[] = {
        {"resnt18", "did you mean resnet18?"},
        {"lenet", "did you mean lenet5?"},
        {"VGG16", "vgg11, vgg16"},
        {"transformer", "there are alexnet, "},
        {"", "no model \"\""},
    };
    struct ls_model *m;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_int_equal(ls_model_load(&m, want[i].name), LS_USAGE);
        if (!strstr(ls_error_message(), want[i].part)) print_error("%s\n", ls_error_message());
        assert_non_null(strstr(ls_error_message(), want[i].part));
    }
    assert_int_equal(ls_model_load(&m, "transformer"), LS_USAGE);
    assert_null(strstr(ls_error_message(), "did you mean"));
}

/* The builder and the gradient pass agree, down to the batch norms' buffers. */
static void test_gradient_finds_every_parameter(void **state)
{
    for (const struct ls_zoo_entry *z = ls_zoo; z->name; z++) {
        struct ls_model *m;
        int c, h, w;
        check_ok(ls_model_load(&m, z->name));
        ls_model_input(m, &c, &h, &w);
        if (!h) c = 3, h = w = 32;
        struct ls_graph *g = build(m, 2, c, h, 10, true);
        check_ok(ls_graph_fuse(g));
        check_ok(ls_graph_add_loss(g, 0));
        check_ok(ls_graph_add_gradient(g));
        for (int i = 0; i < g->n_values; i++)
            if (g->values[i].kind == LS_VALUE_PARAM || g->values[i].kind == LS_VALUE_BUFFER) {
                if (g->values[i].grad < 0) print_error("%s: %s\n", z->name, g->values[i].name);
                assert_true(g->values[i].grad >= 0);
            }
        ls_graph_destroy(&g);
        ls_model_destroy(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameter_counts),
        cmocka_unit_test(test_windows_and_norms),
        cmocka_unit_test(test_summary_costs),
        cmocka_unit_test(test_parameter_names),
        cmocka_unit_test(test_zoo_builds_for_any_shard),
        cmocka_unit_test(test_other_image_sizes),
        cmocka_unit_test(test_initialisation),
        cmocka_unit_test(test_training_and_evaluating_differ),
        cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_blocks_and_labels),
        cmocka_unit_test(test_text_and_input_are_kept),
        cmocka_unit_test(test_load_from_a_file),
        cmocka_unit_test(test_unknown_names_are_corrected),
        cmocka_unit_test(test_gradient_finds_every_parameter),
    };
    return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
