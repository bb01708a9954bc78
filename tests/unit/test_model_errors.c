/* test_model_errors.c: every mistake in a model text gets one line that names file, line and mistake, in bounded time.
 */
#include "base/clock.h"
#include "model/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Parses and, if that works, builds for 2 images of 3x8x8 and 10 classes. */
static enum ls_status try_text(const char *text, size_t len)
{
    const struct ls_model_options o = {.mb = 2, .c = 3, .h = 8, .w = 8, .n_classes = 10, .is_training = true};
    struct ls_model *m;
    struct ls_graph *g = NULL;
    enum ls_status status = ls_model_parse(&m, "x.net", text, len);
    if (status != LS_OK) {
        assert_null(m);
        return status;
    }
    status = ls_model_build(m, &o, &g);
    if (status != LS_OK) assert_null(g);
    ls_graph_destroy(&g);
    ls_model_destroy(&m);
    return status;
}

static void check_message(const char *want)
{
    if (strncmp(ls_error_message(), want, strlen(want)) != 0)
        print_error("wanted: %s\ngot:    %s\n", want, ls_error_message());
    assert_int_equal(strncmp(ls_error_message(), want, strlen(want)), 0);
    assert_null(strchr(ls_error_message(), '\n'));
}

#define TOP "model t\ninput 3x8x8\n" /* lines 1 and 2 */
#define END "flatten\nlinear f classes\n"

static const struct {
    const char *text, *message; /* how the message begins */
} cases[] = {
    /* the text */
    {"", "x.net:1: empty; a model text begins with `model NAME`"},
    {"# nothing\n\n", "x.net:1: empty"},
    {"input any\n", "x.net:1: a model text begins with `model NAME`, not with `input`"},
    {"model\n", "x.net:1: usage: model NAME"},
    {"model a b\n", "x.net:1: usage: model NAME"},
    {"model t\nmodel u\n", "x.net:2: a second `model`"},
    {"model t\nrelu\n", "x.net:2: relu before `input`"},
    {"model t\ninput 3x8\n", "x.net:2: input \"3x8\"; expected `any` or CxHxW"},
    {"model t\ninput 3x8x8x8\n", "x.net:2: input \"3x8x8x8\""},
    {"model t\ninput 0x8x8\n", "x.net:2: input \"0x8x8\""},
    {"model t\ninput 3x8x8 fixed=maybe\n", "x.net:2: input: fixed is \"maybe\"; expected yes or no"},
    {TOP "input any\n", "x.net:3: a second `input` (first at line 2)"},
    {TOP, "x.net:2: the model has no layers"},
    {TOP "cnov c 3 3\n", "x.net:3: unknown statement \"cnov\"; did you mean \"conv\"?"},
    {TOP "maxpol 2\n", "x.net:3: unknown statement \"maxpol\"; did you mean \"maxpool\"?"},
    {TOP "transformer\n", "x.net:3: unknown statement \"transformer\""},
    {TOP "relu \x01\n", "x.net:3: byte 0x01 is not allowed outside comments"},
    {TOP "conv c\xc3\xa9 3 3\n", "x.net:3: byte 0xc3 is not allowed"},
    {TOP "concat a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a\n", "x.net:3: more than 32 words"},
    /* arguments */
    {TOP "conv c 8\n", "x.net:3: conv with 2 arguments; usage: conv NAME OUT KERNEL"},
    {TOP "relu 3\n", "x.net:3: relu with 1 argument; usage: relu"},
    {TOP "conv c/d 8 3\n", "x.net:3: conv: \"c/d\" is not a name"},
    {TOP "conv c. 8 3\n", "x.net:3: conv: \"c.\" is not a name"},
    {TOP "conv optimizer.momentum.c 8 3\n", "x.net:3: conv optimizer.momentum.c: names that begin with optimizer."},
    {TOP "conv sum.c 8 3\n", "x.net:3: conv sum.c: names that begin with"},
    {TOP "block b\nconv c 8 3\nend\nuse b kept\n", "x.net:4: conv kept.c: names that begin with"},
    {TOP "conv c many 3\n", "x.net:3: conv: OUT is \"many\"; expected a whole number, 1 to 1048576"},
    {TOP "conv c 0 3\n", "x.net:3: conv: OUT is \"0\""},
    {TOP "conv c 8 3x\n", "x.net:3: conv: the size is \"3x\"; expected a number or AxB, each 1 to 1024"},
    {TOP "conv c 8 -3\n", "x.net:3: conv: the size is \"-3\""},
    {TOP "conv c 8 3 strid=2\n", "x.net:3: conv has no attribute \"strid\"; usage: conv NAME"},
    {TOP "relu stride=2\n", "x.net:3: relu has no attribute \"stride\""},
    {TOP "conv c 8 3 pad=1 pad=1\n", "x.net:3: conv: attribute pad is given twice"},
    {TOP "conv c 8 pad=1 3\n", "x.net:3: conv: \"3\" after an attribute"},
    {TOP "conv c 8 3 bias=true\n", "x.net:3: conv: bias is \"true\"; expected yes or no"},
    {TOP "conv c 8 3 stride=0\n", "x.net:3: conv: stride is \"0\""},
    {TOP "bn b eps=nan\n", "x.net:3: bn: eps is \"nan\"; expected a number"},
    {TOP "bn b momentum=2\n", "x.net:3: bn: momentum is \"2\"; expected a number, 0 to 1"},
    {TOP "dropout 1\n", "x.net:3: dropout: the probability is \"1\"; expected a number, 0 to 0.999"},
    {TOP "lrn 0\n", "x.net:3: lrn: SIZE is \"0\""},
    /* names */
    {TOP "conv c 8 3\nrelu\nbn c\n", "x.net:5: bn c: the name is taken (conv c, line 3)"},
    /* blocks */
    {TOP "block b\nrelu\n", "x.net:3: block b has no `end`"},
    {TOP "block\nend\n", "x.net:3: block without a name"},
    {TOP "end\n", "x.net:3: end without a block"},
    {TOP "block b\nblock c\nend\nend\n", "x.net:4: block inside block b (line 3)"},
    {TOP "block b\ninput any\nend\n", "x.net:4: input inside block b"},
    {TOP "block b\nend\nblock b\nend\n", "x.net:5: block b is defined twice (first at line 3)"},
    {TOP "block b x x\nend\n", "x.net:3: block b: parameter x is given twice"},
    {TOP "block b 1x\nend\n", "x.net:3: block b: \"1x\" is not a parameter"},
    {TOP "use b p\n", "x.net:3: use b: there is no such block"},
    {TOP "block b\nend\nuse b\n", "x.net:5: use with 1 argument; usage: use BLOCK PREFIX"},
    {TOP "block b x\nend\nuse b p\n", "x.net:5: use b: parameter x is missing (x=...)"},
    {TOP "block b x\nend\nuse b p x=1 y=2\n", "x.net:5: use b: it has no parameter \"y\" (see line 3)"},
    {TOP "block b x\nend\nuse b p x=1 x=2\n", "x.net:5: use b: parameter x is given twice"},
    {TOP "block b\nuse b p\nend\nuse b p\n", "x.net:4: block b uses itself"},
    {TOP "block b\nuse c p\nend\nblock c\nuse b p\nend\nuse b p\n", "x.net:7: block b uses itself"},
    {TOP "block b x\nconv c $y 3\nend\nuse b p x=1\n", "x.net:4: block b has no parameter \"y\""},
    {TOP "conv c $x 3\n", "x.net:3: $x outside a block"},
    {TOP "conv c $ 3\n", "x.net:3: $ outside a block"},
    /* labels */
    {TOP "add x\n", "x.net:3: add x: nothing is kept as \"x\"; write `keep x` first"},
    {TOP "from x\n", "x.net:3: from x: nothing is kept as \"x\""},
    {TOP "keep x\nblock b\nconv c 8 3\nadd x\nend\nuse b p\n",
     "x.net:6: add x: nothing is kept as \"x\" in block b (labels are the block's own)"},
    {TOP "block b\nkeep x\nend\nuse b p\nfrom x\n", "x.net:7: from x: nothing is kept as \"x\""},
    /* shapes */
    {TOP "conv c 8 11\n" END, "x.net:3: conv c: kernel 11x11 does not fit the 8x8 input (with padding 0)"},
    {TOP "conv c 8 5 dilation=3 pad=1\n" END, "x.net:3: conv c: kernel 5x5 (dilation 3) does not fit the 8x8 input"},
    {TOP "maxpool 9x2\n" END, "x.net:3: maxpool 9x2: kernel 9x2 does not fit the 8x8 input (with padding 0)"},
    {TOP "maxpool 2 pad=2\n" END, "x.net:3: maxpool 2: padding 2x2 is more than half of the kernel, 2x2"},
    {TOP "conv c 8 3 pad=3\n" END, "x.net:3: conv c: padding 3x3 must be smaller than the kernel, 3x3"},
    {TOP "conv c 8 3 groups=2\n" END, "x.net:3: conv c: 3 input and 8 output channels do not divide into 2 groups"},
    {TOP "linear f classes\n",
     "x.net:3: linear f: needs a vector, but the input is 3x8x8 here; put `flatten` before it"},
    {TOP "flatten\nconv c 8 3\n", "x.net:4: conv c: needs an image, but the input is a vector of 192 here"},
    {TOP "keep x\nconv c 8 3\nadd x\n" END, "x.net:5: add x: 8x6x6 here, but x is 3x8x8 (line 3)"},
    {TOP "block b\nkeep x\nconv c 8 3\nadd x\nend\nuse b p\n" END,
     "x.net:6: add x (in p): 8x6x6 here, but x is 3x8x8 (line 4)"},
    {TOP "keep x\nconv c 8 3\nconcat x\n" END,
     "x.net:5: concat x: 8x6x6 here, but x is 3x8x8 (line 3); only the channels"},
    {TOP "keep x\nflatten\nconcat x\n" END, "x.net:5: concat x: 192 here, but x is 3x8x8 (line 3)"},
    {TOP "groupnorm g 2\n" END, "x.net:3: groupnorm g: 3 channels do not divide into 2 groups"},
    {TOP "groupnorm g\n" END, "x.net:3: groupnorm with 1 argument; usage: groupnorm NAME GROUPS [eps=]"},
    {TOP "maxpool 8\ngroupnorm g 3\n" END, "x.net:4: groupnorm g: 3x1x1 here, so each mean is of one value, and "
                                           "nothing before it could be trained; take fewer "
                                           "groups, or a larger image"},
    {TOP "flatten\ngroupnorm g 192\n" END, "x.net:4: groupnorm g: 192 here, so each mean is of one value"},
    {TOP "flatten\nlinear a 1\ngroupnorm g 1\n" END,
     "x.net:5: groupnorm g: 1 here, so each mean is of one value, and nothing before it could be trained; take more "
     "channels, or leave it out"},
    {TOP "conv c 1 3\nlayernorm g\n" END, "x.net:4: layernorm g: 1x6x6 here, so each mean is of one value, and nothing "
                                          "before it could be trained; take more "
                                          "channels, or image=yes"},
    {TOP "conv c 1 8\nlayernorm g image=yes\n" END, "x.net:4: layernorm g: 1x1x1 here, so each mean is of one value, "
                                                    "and nothing before it could be trained; take more "
                                                    "channels, or leave it out"},
    {TOP "flatten\nlinear a 1\nlayernorm g\n" END, "x.net:5: layernorm g: 1 here, so each mean is of one value"},
    {TOP "gelu tanh=1\n" END, "x.net:3: gelu: tanh is \"1\"; expected yes or no"},
    {TOP "leakyrelu slope=-1\n" END, "x.net:3: leakyrelu: slope is \"-1\"; expected a number, 0 to 1"},
    {TOP "avgpool 2 dilation=2\n" END, "x.net:3: avgpool has no attribute \"dilation\""},
    {TOP "relu\n", "x.net:3: the model ends in 3x8x8, but must end in one number per class (10), as a vector"},
    {TOP "conv c classes 8\n",
     "x.net:3: the model ends in 10x1x1, but must end in one number per class (10), as a vector"},
    {TOP "flatten\nlinear f 7\n", "x.net:4: the model ends in 7, but must end in one number per class (10)"},
    {"model t\ninput any\nglobalavgpool\nflatten\nkeep x\nconcat x x\nkeep y\nconcat x\nkeep z\nfrom x\nlinear f "
     "classes\n",
     "x.net:8: concat x: the result is never used"},
    {"model t\ninput 1x28x28\n" END, "x.net:2: input: the model takes images of 1x28x28, but the data have 3x8x8"},
    {"model t\ninput 1x*x*\n" END, "x.net:2: input: the model takes images of 1x*x*, but the data have 3x8x8"},
    /* sizes */
    {TOP "conv a 1000000 1\nconv c 1000000 1\n" END, "x.net:4: conv c: the model would have more than 2^33 parameters"},
    {TOP "flatten\nlinear a 1000000\nlinear c 1000000\nlinear f classes\n",
     "x.net:5: linear c: the model would have more than 2^33 parameters"},
    {TOP "conv c 1048576 1024 pad=1023\n" END, "x.net:3: conv c: the result "},
};

static void test_each_mistake(void **state)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum ls_status status = try_text(cases[i].text, strlen(cases[i].text));
        if (status != LS_DATA) print_error("%s for:\n%s", ls_status_name(status), cases[i].text);
        assert_int_equal(status, LS_DATA);
        check_message(cases[i].message);
    }
}

static void test_nothing_to_train(void **state)
{
    const struct ls_model_options o = {.mb = 1, .c = 10, .h = 1, .w = 1, .n_classes = 10};
    const char *text = "model t\ninput any\nflatten\n";
    struct ls_model *m;
    struct ls_graph *g;
    assert_int_equal(ls_model_parse(&m, "x.net", text, strlen(text)), LS_OK);
    assert_int_equal(ls_model_build(m, &o, &g), LS_DATA);
    check_message("x.net:3: the model has nothing to train");
    ls_model_destroy(&m);
}

static void test_bad_options(void **state)
{
    const char *text = "model t\ninput any\nflatten\nlinear f classes\n";
    static const struct ls_model_options bad[] = {
        {.mb = 0, .c = 1, .h = 1, .w = 1, .n_classes = 2},
        {.mb = (int64_t)1 << 40, .c = 1, .h = 1, .w = 1, .n_classes = 2},
        {.mb = 1, .c = 0, .h = 1, .w = 1, .n_classes = 2},
        {.mb = 1, .c = 1, .h = -1, .w = 1, .n_classes = 2},
        {.mb = 1, .c = 65536, .h = 65536, .w = 65536, .n_classes = 2},
        {.mb = 1, .c = 1, .h = 1, .w = 1, .n_classes = 0},
        {.mb = 1, .c = 1, .h = 1, .w = 1, .n_classes = 1 << 30},
    };
    struct ls_model *m;
    assert_int_equal(ls_model_parse(&m, "x.net", text, strlen(text)), LS_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct ls_graph *g;
        assert_int_not_equal(ls_model_build(m, &bad[i], &g), LS_OK);
        assert_null(g);
        if (strncmp(ls_error_message(), "x.net:2: ", 9) != 0) print_error("no file and line: %s\n", ls_error_message());
        assert_memory_equal(ls_error_message(), "x.net:2: ", 9); /* the line of `input` */
    }
    ls_model_destroy(&m);
}

/* Text made of `line` n times after a beginning. */
static char *repeat(const char *begin, const char *line, size_t n)
{
    size_t a = strlen(begin), b = strlen(line);
    char *text = malloc(a + n * b + 1);
    memcpy(text, begin, a);
    for (size_t i = 0; i < n; i++) memcpy(text + a + i * b, line, b);
    text[a + n * b] = '\0';
    return text;
}

static void check_fast(const char *begin, const char *line, size_t n, const char *message)
{
    char *text = repeat(begin, line, n);
    int64_t start = ls__thread_ns();
    assert_int_equal(try_text(text, strlen(text)), LS_DATA);
    check_message(message);
    assert_true(ls__thread_ns() - start < 5000000000);
    free(text);
}

static void test_huge_texts_fail_fast(void **state)
{
    check_fast(TOP, "relu\n", 1000000, "x.net:1: the text has 5000020 bytes; a model may have at most 1048576");
    check_fast("", "\n", 1000000, "x.net:1: empty");
    check_fast(TOP, "relu\n", 200000, "x.net:10001: more than 10000 statements");
    check_fast(TOP, "a", 1000000, "x.net:3: word of 1000000 characters (aaaaaaaaaaaaaaaaaaaa...)");
    check_fast(TOP, "keep x\n", 5000, "x.net:5002: the model has no layers");
}

/* Ten uses in each of six blocks: a million layers, or a million statements that make none. */
static void check_explosion(const char *inner, const char *message)
{
    char text[4096] = TOP;
    for (int i = 0; i < 6; i++) {
        sprintf(text + strlen(text), "block b%d\n", i);
        for (int k = 0; k < 10; k++)
            if (i == 0)
                strcat(text, inner);
            else
                sprintf(text + strlen(text), "use b%d p%d\n", i - 1, k);
        strcat(text, "end\n");
    }
    strcat(text, "use b5 p\n");
    assert_int_equal(try_text(text, strlen(text)), LS_DATA);
    check_message(message);
}

static void test_explosions_are_stopped(void **state)
{
    check_explosion("relu\n", "x.net:4: more than 10000 layers");
    check_explosion("keep x\n", "x.net:13: the blocks unroll to more than 100000 statements");
}

static void test_depth_is_limited(void **state)
{
    char text[4096] = TOP "block b0\nrelu\nend\n";
    for (int i = 1; i < 20; i++) sprintf(text + strlen(text), "block b%d\nuse b%d p\nend\n", i, i - 1);
    size_t len = strlen(text);
    strcat(text, "use b15 p\nflatten\nlinear f classes\n");
    assert_int_equal(try_text(text, strlen(text)), LS_OK);
    strcpy(text + len, "use b16 p\nflatten\nlinear f classes\n");
    assert_int_equal(try_text(text, strlen(text)), LS_DATA);
    check_message("x.net:7: blocks are used more than 16 deep");
}

static void test_names_are_limited(void **state)
{
    char text[1024], name[101];
    memset(name, 'n', 100);
    name[100] = '\0';
    sprintf(text, TOP "conv %s 8 3\n" END, name);
    assert_int_equal(try_text(text, strlen(text)), LS_OK);
    sprintf(text, TOP "conv %sn 8 3\n" END, name);
    assert_int_equal(try_text(text, strlen(text)), LS_DATA);
    check_message("x.net:3: word of 101 characters");
    sprintf(text, TOP "block b\nconv %.99s 8 3\nend\nuse b p\n" END, name);
    assert_int_equal(try_text(text, strlen(text)), LS_DATA);
    check_message("x.net:4: conv: the full name p.nnn");
    sprintf(text, TOP "block b\nuse c %.60s\nend\nblock c\nrelu\nend\nuse b %.60s\n" END, name, name);
    assert_int_equal(try_text(text, strlen(text)), LS_DATA);
    check_message("x.net:4: use c: the full name nnn");
    sprintf(text, TOP "block b x\nconv $x$x 8 3\nend\nuse b p x=%.60s\n" END, name);
    assert_int_equal(try_text(text, strlen(text)), LS_DATA);
    check_message("x.net:4: $x$x becomes longer than 100 characters");
}

/* A text cut anywhere, and a zero byte anywhere, is an error or a model, never a crash. */
static void test_every_cut(void **state)
{
    for (const struct ls_zoo_entry *z = ls_zoo; z->name; z++) {
        size_t len = strlen(z->text);
        char *copy = malloc(len);
        for (size_t i = 0; i < len; i += 1 + len / 300) {
            memcpy(copy, z->text, i);
            enum ls_status cut = try_text(copy, i);
            assert_true(cut == LS_OK || cut == LS_DATA);
            memcpy(copy, z->text, len);
            copy[i] = '\0';
            enum ls_status zero = try_text(copy, len);
            assert_true(zero == LS_OK || zero == LS_DATA);
        }
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_mistake),
        cmocka_unit_test(test_nothing_to_train),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_huge_texts_fail_fast),
        cmocka_unit_test(test_explosions_are_stopped),
        cmocka_unit_test(test_depth_is_limited),
        cmocka_unit_test(test_names_are_limited),
        cmocka_unit_test(test_every_cut),
    };
    return cmocka_run_group_tests_name("model errors", tests, NULL, NULL);
}
