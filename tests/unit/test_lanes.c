/* test_lanes.c: both widths of the kernels with samples in the lanes against loops that need no explanation, on sizes
 * that fill vectors and sizes that do not. */
#include "backend/backend.h"
#include "backend/cpu/lanes_ops.h"
#include "base/rng.h"
#include "engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Weak: a build without the cpu backend has neither, and the test skips itself. */
extern const struct lanes_ops ls__lanes_avx512 __attribute__((weak));
extern const struct lanes_ops ls__lanes_avx2 __attribute__((weak));

enum { N_WIDTHS = 2 };

/* NULL where this machine lacks the instructions. */
static const struct lanes_ops *width(int i)
{
#if defined(__x86_64__)
    if (i == 0 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return &ls__lanes_avx512;
    if (i == 1 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &ls__lanes_avx2;
#endif
    return NULL;
}

static float *random_floats(size_t n, uint32_t key)
{
    float *x = calloc(n + 1, sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++) x[i] = (float)(int32_t)ls__rng(1, LS_RNG_DATA, key, (uint32_t)i, 0).v[0] * 0x1p-31f;
    return x;
}

/* --- pooling --- */

static const struct lanes_pool pools[] = {
    {.n = 4, .c = 6, .ih = 28, .iw = 28, .oh = 14, .ow = 14, .k = 2},
    {.n = 4, .c = 3, .ih = 7, .iw = 7, .oh = 3, .ow = 3, .k = 2}, /* a row and a column in no window */
    {.n = 1, .c = 2, .ih = 9, .iw = 21, .oh = 4, .ow = 10, .k = 2},
    {.n = 2, .c = 2, .ih = 6, .iw = 10, .oh = 3, .ow = 5, .k = 2},
    {.n = 8, .c = 2, .ih = 6, .iw = 7, .oh = 3, .ow = 3, .k = 2},
    {.n = 3, .c = 2, .ih = 6, .iw = 6, .oh = 3, .ow = 3, .k = 2},
    {.n = 16, .c = 2, .ih = 6, .iw = 6, .oh = 3, .ow = 3, .k = 2},
    {.n = 21, .c = 2, .ih = 7, .iw = 6, .oh = 2, .ow = 2, .k = 3},
};

/* Where the winner of window (y,x) of channel c and sample s lies in src [c,ih,iw,n]. */
static size_t winner_of(const struct lanes_pool *p, const float *src, int c, int y, int x, int s, int *number)
{
    size_t best = 0;
    for (int t = 0; t < p->k * p->k; t++) {
        const int row = y * p->k + t / p->k, column = x * p->k + t % p->k;
        const size_t at =
            (((size_t)c * (size_t)p->ih + (size_t)row) * (size_t)p->iw + (size_t)column) * (size_t)p->n + (size_t)s;
        if (t > 0 && !(src[at] > src[best]) && !(isnan(src[at]) && !isnan(src[best]))) continue;
        best = at;
        *number = t;
    }
    return best;
}

static void check_pool(const struct lanes_ops *ops, const struct lanes_pool *p)
{
    const size_t n_src = (size_t)p->c * (size_t)(p->ih * p->iw) * (size_t)p->n;
    const size_t n_dst = (size_t)p->c * (size_t)(p->oh * p->ow) * (size_t)p->n;
    float *src = random_floats(n_src, 1), *diff_dst = random_floats(n_dst, 2);
    float *dst = calloc(n_dst, sizeof *dst), *diff_src = malloc(n_src * sizeof *diff_src);
    float *want = calloc(n_src, sizeof *want);
    uint8_t *index = calloc(n_dst, 1);
    assert_true(dst && diff_src && want && index);
    for (size_t i = 0; i < n_src; i += 3) src[i] = 0.5f; /* ties: the first wins */
    src[n_src / 2] = NAN;
    memset(diff_src, 0xff, n_src * sizeof *diff_src);
    ops->maxpool(p, src, dst, index);
    ops->maxpool_backward(p, diff_dst, index, diff_src);
    size_t i = 0;
    for (int c = 0; c < p->c; c++)
        for (int y = 0; y < p->oh; y++)
            for (int x = 0; x < p->ow; x++)
                for (int s = 0; s < p->n; s++, i++) {
                    int number = 0;
                    const size_t at = winner_of(p, src, c, y, x, s, &number);
                    assert_memory_equal(&dst[i], &src[at], sizeof *dst);
                    assert_int_equal(index[i], number);
                    want[at] = diff_dst[i];
                }
    for (i = 0; i < n_src; i++)
        if (want[i] != diff_src[i])
            fail_msg("n %d k %d: diff_src[%zu] is %g, not %g", p->n, p->k, i, (double)diff_src[i], (double)want[i]);
    ops->maxpool(p, src, dst, NULL);
    free(src), free(diff_dst), free(dst), free(diff_src), free(want), free(index);
}

static void test_pool(void **state)
{
    for (int w = 0; w < N_WIDTHS; w++)
        for (size_t i = 0; width(w) && i < sizeof pools / sizeof *pools; i++) check_pool(width(w), &pools[i]);
}

/* --- convolution --- */

static const struct lanes_conv convs[] = {
    {.n = 4, .ic = 6, .ih = 14, .iw = 14, .oc = 16, .oh = 14, .ow = 14, .kh = 5, .kw = 5, .ph = 2, .pw = 2},
    {.n = 4, .ic = 3, .ih = 12, .iw = 32, .oc = 6, .oh = 8, .ow = 28, .kh = 5, .kw = 5},
    {.n = 3, .ic = 2, .ih = 41, .iw = 9, .oc = 7, .oh = 41, .ow = 9, .kh = 3, .kw = 3, .ph = 1, .pw = 1},
    {.n = 16, .ic = 2, .ih = 5, .iw = 5, .oc = 5, .oh = 9, .ow = 9, .kh = 5, .kw = 5, .ph = 4, .pw = 4},
    {.n = 1, .ic = 3, .ih = 3, .iw = 3, .oc = 9, .oh = 3, .ow = 3, .kh = 5, .kw = 5, .ph = 2, .pw = 2},
    {.n = 5, .ic = 1, .ih = 7, .iw = 6, .oc = 1, .oh = 5, .ow = 6, .kh = 5, .kw = 3, .ph = 1, .pw = 1},
};

static float at_src(const struct lanes_conv *c, const float *src, int ic, int y, int x, int s)
{
    if (y < 0 || y >= c->ih || x < 0 || x >= c->iw) return 0;
    return src[((ic * c->ih + y) * c->iw + x) * c->n + s];
}

static void check_near(const char *what, const struct lanes_conv *c, size_t i, float got, double want)
{
    if (!(fabs((double)got - want) <= 2e-5 * (1 + fabs(want))))
        fail_msg("n %d ic %d oc %d: %s[%zu] is %.9g, not %.9g", c->n, c->ic, c->oc, what, i, (double)got, want);
}

static void check_forward(const struct lanes_conv *c, const float *src, const float *w, const float *bias,
                          const float *dst)
{
    size_t i = 0;
    for (int o = 0; o < c->oc; o++)
        for (int y = 0; y < c->oh; y++)
            for (int x = 0; x < c->ow; x++)
                for (int s = 0; s < c->n; s++, i++) {
                    double sum = (double)bias[o];
                    for (int t = 0; t < c->ic * c->kh * c->kw; t++) {
                        const int kx = t % c->kw, ky = t / c->kw % c->kh, ic = t / c->kw / c->kh;
                        sum += (double)w[o * c->ic * c->kh * c->kw + t] *
                               (double)at_src(c, src, ic, y + ky - c->ph, x + kx - c->pw, s);
                    }
                    check_near("dst", c, i, dst[i], sum > 0 ? sum : 0);
                }
}

static void check_weights(const struct lanes_conv *c, const float *src, const float *diff_dst, const float *dw,
                          const float *db)
{
    const int plane = c->oh * c->ow * c->n, taps = c->ic * c->kh * c->kw;
    for (int o = 0; o < c->oc; o++) {
        double sum = 0;
        for (int i = 0; i < plane; i++) sum += (double)diff_dst[o * plane + i];
        check_near("diff_bias", c, (size_t)o, db[o], sum);
        for (int t = 0; t < taps; t++) {
            const int kx = t % c->kw, ky = t / c->kw % c->kh, ic = t / c->kw / c->kh;
            sum = 0;
            for (int i = 0; i < plane; i++) {
                const int s = i % c->n, x = i / c->n % c->ow, y = i / c->n / c->ow;
                sum += (double)diff_dst[o * plane + i] * (double)at_src(c, src, ic, y + ky - c->ph, x + kx - c->pw, s);
            }
            check_near("diff_weights", c, (size_t)(o * taps + t), dw[o * taps + t], sum);
        }
    }
}

static void check_conv(const struct lanes_ops *ops, const struct lanes_conv *c)
{
    const size_t n_src = (size_t)(c->ic * c->ih * c->iw * c->n), n_dst = (size_t)(c->oc * c->oh * c->ow * c->n);
    const size_t n_w = (size_t)(c->oc * c->ic * c->kh * c->kw);
    float *src = random_floats(n_src, 3), *w = random_floats(n_w, 4), *bias = random_floats((size_t)c->oc, 5);
    float *diff_dst = random_floats(n_dst, 6), *dst = calloc(n_dst, sizeof *dst), *dw = calloc(n_w, sizeof *dw);
    float *db = calloc((size_t)c->oc, sizeof *db);
    size_t scratch_bytes = ops->forward_scratch(c), for_weights = ops->backward_weights_scratch(c);
    if (for_weights > scratch_bytes) scratch_bytes = for_weights;
    void *tables = calloc(1, ops->tables_bytes(c)), *scratch = aligned_alloc(64, scratch_bytes);
    assert_true(dst && dw && db && tables && scratch);
    memset(scratch, 0xff, scratch_bytes); /* NaN: what is used must have been written */
    ops->make_tables(c, tables);
    ops->forward(c, tables, src, w, false, bias, true, dst, scratch);
    check_forward(c, src, w, bias, dst);
    memset(scratch, 0xff, scratch_bytes);
    ops->backward_weights(c, tables, src, diff_dst, dw, db, scratch);
    check_weights(c, src, diff_dst, dw, db);
    free(src), free(w), free(bias), free(diff_dst), free(dst), free(dw), free(db), free(tables), free(scratch);
}

static void test_conv(void **state)
{
    for (int w = 0; w < N_WIDTHS; w++)
        for (size_t i = 0; width(w) && i < sizeof convs / sizeof *convs; i++) check_conv(width(w), &convs[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pool), cmocka_unit_test(test_conv)};
    if (!ls_backend_find("cpu") || !width(1)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
