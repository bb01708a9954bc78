/* test_cuda_engines.c: the table of cuDNN's engines is well formed: every row is one that a convolution can have, its
 * knobs can be read, no two rows are for the same convolution, and each is found.
 */
#include "backend/cuda/engines.c"

#include "engine.h"

#include <stdlib.h>

static struct ls_cuda_conv conv_of(const struct ls_cuda_engine *e)
{
    const int out = (e->ih + 2 * e->pad - e->k) / e->s + 1;
    return (struct ls_cuda_conv){.mb = e->mb,
                                 .ic = e->ic,
                                 .ih = e->ih,
                                 .iw = e->ih,
                                 .oc = e->oc,
                                 .oh = out,
                                 .ow = out,
                                 .kh = e->k,
                                 .kw = e->k,
                                 .sh = e->s,
                                 .sw = e->s,
                                 .ph = e->pad,
                                 .pw = e->pad,
                                 .dh = 1,
                                 .dw = 1,
                                 .groups = 1};
}

static struct ls_cuda_conv_form form_of(const struct ls_cuda_engine *e)
{
    return (struct ls_cuda_conv_form){
        .type = LS_CUDA_BF16, .diff_weights = LS_CUDA_BF16, .is_last = true, .has_bias = e->has_ending};
}

/* "type=value,..." with types that rise. */
static bool are_knobs(const char *text)
{
    for (long before = -1; *text;) {
        char *end;
        const long type = strtol(text, &end, 10);
        if (end == text || *end != '=' || type <= before) return false;
        before = type;
        text = end + 1;
        const long value = strtol(text, &end, 10);
        if (end == text || *end != ',' || value < 0) return false;
        text = end + 1;
    }
    return true;
}

static bool is_row(const struct ls_cuda_engine *e)
{
    const bool is_shape = e->mb > 0 && e->ic > 0 && e->oc > 0 && e->k > 0 && e->s > 0 && e->pad >= 0 && e->pad < e->k &&
                          e->ih + 2 * e->pad >= e->k;
    const bool is_op = e->op >= LS_CUDA_CONV_FORWARD && e->op <= LS_CUDA_CONV_BWD_WEIGHTS &&
                       (e->has_ending == 0 || (e->has_ending == 1 && e->op == LS_CUDA_CONV_FORWARD));
    return is_shape && is_op && e->ic % 8 == 0 && e->oc % 8 == 0 && e->number >= 0 && are_knobs(e->knobs);
}

static void test_rows(void **state)
{
    int n = 0;
    for (const struct ls_cuda_engine *e = engines; e->mb > 0; e++, n++) {
        const struct ls_cuda_conv conv = conv_of(e);
        const struct ls_cuda_conv_form form = form_of(e);
        if (!is_row(e)) print_error("row %d is not well formed\n", n + 1);
        assert_true(is_row(e));
        const struct ls_cuda_engine *found = ls__cuda_engine_of((enum ls_cuda_conv_op)e->op, &conv, &form);
        if (found != e) print_error("row %d is for the convolution of row %d\n", n + 1, (int)(found - engines) + 1);
        assert_ptr_equal(found, e);
    }
    assert_int_equal(n, sizeof engines / sizeof *engines - 1); /* no row ends the table */
    assert_true(n > 50);
}

static void test_others_have_none(void **state)
{
    struct ls_cuda_conv conv = conv_of(&engines[0]);
    struct ls_cuda_conv_form form = form_of(&engines[0]);
    const enum ls_cuda_conv_op op = (enum ls_cuda_conv_op)engines[0].op;
    assert_non_null(ls__cuda_engine_of(op, &conv, &form));
    form.type = LS_CUDA_F32;
    assert_null(ls__cuda_engine_of(op, &conv, &form));
    form.type = LS_CUDA_BF16;
    conv.groups = 2;
    assert_null(ls__cuda_engine_of(op, &conv, &form));
    conv.groups = 1;
    conv.iw++;
    assert_null(ls__cuda_engine_of(op, &conv, &form));
    conv.iw--;
    conv.mb++;
    assert_null(ls__cuda_engine_of(op, &conv, &form));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_others_have_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
