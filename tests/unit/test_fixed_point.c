/* test_fixed_point.c: the way into fixed point rounds as llrint does, sums are exact to half a unit per shard, and what
 * does not fit is refused. */
#include "backend/cpu/fixed.h"
#include "backend/ref/ref.h"
#include "engine.h"

#include <fenv.h>
#include <math.h>
#include <stdio.h>

/* --- the arithmetic --- */

static void check_round(double x)
{
    const int64_t have = (int64_t)ls__fixed_round(x), want = llrint(x);
    if (have != want) print_error("%a: %lld, llrint gives %lld\n", x, (long long)have, (long long)want);
    assert_int_equal(have, want);
}

static void test_rounding(void **state)
{
    static const double edges[] = {0,
                                   0.25,
                                   0.5,
                                   0.75,
                                   1,
                                   1.5,
                                   2.5,
                                   3.5,
                                   0x1p-1074,
                                   0x1p-52,
                                   0.49999999999999994,
                                   0x1p25,
                                   0x1p26,
                                   0x1p26 + 0.5,
                                   0x1p25 + 0.5,
                                   0x1p25 - 0.5,
                                   0x1.8p26 + 0.5,
                                   0x1p51 + 0.5,
                                   0x1p52 - 0.5,
                                   0x1p52 + 1,
                                   0x1p53 - 1,
                                   0x1p53 + 2,
                                   0x1.fffffffffffffp53,
                                   0x1p54,
                                   0x1.8p55 + 8,
                                   0x1.fffffffffffffp61};
    assert_int_equal(fegetround(), FE_TONEAREST);
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        check_round(edges[i]);
        check_round(-edges[i]);
        check_round(nextafter(edges[i], 1e300) <= 0x1p62 ? nextafter(edges[i], 1e300) : 0);
        check_round(nextafter(edges[i], -1e300));
    }
    for (uint32_t i = 0; i < 200000; i++) { /* every size from 2^-10 to 2^62, and ties at every size */
        const struct ls_rng4 r = ls__rng(1, LS_RNG_DATA, i, 0, 0);
        const double unit = ((double)r.v[0] * 0x1p32 + (double)r.v[1]) * 0x1p-64;
        const double x = ldexp(unit, (int)(r.v[2] % 73) - 10) * (r.v[3] & 1 ? 1 : -1);
        check_round(x);
        check_round(floor(fabs(x)) < 0x1p52 ? copysign(floor(fabs(x)) + 0.5, x) : x);
    }
}

static void test_back_to_double(void **state)
{
    static const int64_t edges[] = {0,
                                    1,
                                    -1,
                                    INT32_MAX,
                                    INT32_MIN,
                                    (int64_t)1 << 32,
                                    -((int64_t)1 << 32),
                                    ((int64_t)1 << 53) + 1,
                                    -((int64_t)1 << 53) - 1,
                                    INT64_MAX,
                                    INT64_MIN,
                                    INT64_MIN + 1};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        assert_true(ls__fixed_to_double(edges[i]) == (double)edges[i]);
    for (uint32_t i = 0; i < 200000; i++) {
        const struct ls_rng4 r = ls__rng(2, LS_RNG_DATA, i, 0, 0);
        const int64_t x = (int64_t)(((uint64_t)r.v[0] << 32) | r.v[1]) >> (r.v[2] % 64);
        if (ls__fixed_to_double(x) != (double)x) print_error("%lld\n", (long long)x);
        assert_true(ls__fixed_to_double(x) == (double)x);
    }
}

/* --- the op --- */

/* REDUCE alone: a graph of one node, prepared by ref and launched by hand. */
struct reducer {
    struct ls_graph *g;
    struct ls_kernel *kernel;
};

static struct reducer open_reducer(int64_t n, const struct ls_attrs *attrs)
{
    struct reducer r = {0};
    int src;
    check_ok(ls_graph_create(&r.g, 1, true));
    check_ok(ls_graph_add_value(r.g, "x", LS_VALUE_TEMP, LS_F32, &LS_SHAPE1(n), &src));
    check_ok(ls_graph_add_node(r.g, LS_OP_REDUCE, "x", attrs, &src, 1, NULL));
    struct ls_prep prep = {.graph = r.g, .node = &r.g->nodes[0], .out = {ls_layout_any()}};
    prep.in[0] = ls_layout_plain(&LS_SHAPE1(n), LS_F32);
    check_ok(ls__ref_reduce.prepare(&prep, &r.kernel));
    return r;
}

static enum ls_status reduce(const struct reducer *r, float *src, int64_t *sum, float share, int part, int n_parts)
{
    const struct ls_bound b = {.kernel = r->kernel, .in = {src}, .out = {sum}};
    const struct ls_step_ctx ctx = {.share = share, .part = part, .n_parts = n_parts};
    return ls__ref_reduce.launch(&b, &ctx);
}

static void close_reducer(struct reducer *r)
{
    ls_kernel_destroy(&r->kernel);
    ls_graph_destroy(&r->g);
}

/* Gradients of all sizes over many shards: the sum is within half a unit per shard of the exact one, in any order. */
static void test_error_bound(void **state)
{
    enum { N = 1003, SHARDS = 64 };
    static float src[SHARDS][N];
    static int64_t sum[N], backwards[N];
    const struct ls_attrs attrs = {.scale_log2 = LS_SCALE_GRAD};
    struct reducer r = open_reducer(N, &attrs);
    for (int s = 0; s < SHARDS; s++)
        for (int i = 0; i < N; i++) {
            const struct ls_rng4 w = ls__rng(3, LS_RNG_DATA, (uint32_t)i, (uint32_t)s, 0);
            src[s][i] = ldexpf(ls__rng_unit(w.v[0]) - 0.5f, (int)(w.v[1] % 68) - 60); /* to 2^7 */
        }
    for (int s = 0; s < SHARDS; s++) check_ok(reduce(&r, src[s], sum, 1, 0, 1));
    for (int s = SHARDS - 1; s >= 0; s--)
        for (int part = 0; part < 5; part++) check_ok(reduce(&r, src[s], backwards, 1, part, 5));
    for (int i = 0; i < N; i++) {
        long double exact = 0; /* 64 bits hold every term: the error of this sum is far below a unit */
        for (int s = 0; s < SHARDS; s++) exact += (long double)src[s][i];
        const long double error = fabsl(exact - ldexpl((long double)sum[i], -LS_SCALE_GRAD));
        if (error > SHARDS * 0x1p-47L) print_error("element %d: error %Lg units\n", i, error * 0x1p46L);
        assert_true(error <= SHARDS * 0x1p-47L);
        assert_int_equal(sum[i], backwards[i]);
    }
    close_reducer(&r);
}

static void test_ties(void **state)
{
    float src[8] = {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 0.75f, -0.75f};
    static const int64_t want[8] = {0, 2, 2, 0, -2, -2, 1, -1};
    int64_t sum[8] = {0};
    const struct ls_attrs attrs = {.scale_log2 = 0};
    struct reducer r = open_reducer(8, &attrs);
    check_ok(reduce(&r, src, sum, 1, 0, 1));
    for (int i = 0; i < 8; i++) assert_int_equal(sum[i], want[i]);
    close_reducer(&r);
}

/* The limit is 2^54 units: 2^8 for a gradient. Whatever is outside is refused wherever it stands. */
static void test_range(void **state)
{
    enum { N = 37 };
    static const float bad[] = {256.0f, -256.0f, 1e30f, INFINITY, -INFINITY, NAN, -NAN};
    float src[N] = {0};
    int64_t sum[N] = {0};
    const struct ls_attrs attrs = {.scale_log2 = LS_SCALE_GRAD};
    struct reducer r = open_reducer(N, &attrs);
    for (size_t b = 0; b < sizeof bad / sizeof *bad; b++)
        for (int i = 0; i < N; i++) {
            src[i] = bad[b];
            const enum ls_status status = reduce(&r, src, sum, 1, 0, 1);
            if (status != LS_NONFINITE) print_error("%g at %d was taken\n", (double)bad[b], i);
            check_fails(status, LS_NONFINITE, "not finite or beyond 256, the range");
            src[i] = 0;
        }
    memset(sum, 0, sizeof sum);
    src[0] = nextafterf(256, 0);
    src[N - 1] = -nextafterf(256, 0);
    check_ok(reduce(&r, src, sum, 1, 0, 1));
    assert_int_equal(sum[0], llrint(ldexp((double)src[0], LS_SCALE_GRAD)));
    assert_int_equal(sum[N - 1], -sum[0]);
    for (int i = 1; i < N - 1; i++) assert_int_equal(sum[i], 0);
    close_reducer(&r);
}

/* alpha and the shard's share scale first, in double, and are rounded once with the rest. */
static void test_factors(void **state)
{
    float src[3] = {1.0f / 3, -7.25f, 1e-9f};
    int64_t sum[3] = {0};
    const struct ls_attrs attrs = {.scale_log2 = LS_SCALE_RUNNING, .by_share = true, .alpha = 1.0625f};
    struct reducer r = open_reducer(3, &attrs);
    check_ok(reduce(&r, src, sum, 0.3f, 0, 1));
    for (int i = 0; i < 3; i++)
        assert_int_equal(sum[i], llrint((double)src[i] * (ldexp(1.0625, LS_SCALE_RUNNING) * (double)0.3f)));
    close_reducer(&r);
}

/* A variance of a million is no accident of training: batch norm takes it, in a batch of one shard or of many. */
static void test_range_of_means(void **state)
{
    const struct ls_attrs attrs = {.scale_log2 = LS_SCALE_RUNNING, .by_share = true, .alpha = 1.0f};
    static const float shares[] = {1.0f, 0.5f, 1.0f / 512};
    struct reducer r = open_reducer(2, &attrs);
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        float good[2] = {0x1.fffffep21f, -16384.0f}, bad[2] = {0x1p22f, 1.0f};
        int64_t sum[2] = {0};
        for (float all = 0; all < 1; all += shares[i]) check_ok(reduce(&r, good, sum, shares[i], 0, 1));
        assert_true(ldexp((double)sum[0], -LS_SCALE_RUNNING) == (double)good[0]);
        assert_true(ldexp((double)sum[1], -LS_SCALE_RUNNING) == (double)good[1]);
        check_fails(reduce(&r, bad, sum, shares[i], 0, 1), LS_NONFINITE, "beyond 4.1943e+06, the range");
    }
    close_reducer(&r);
}

/* Every element belongs to exactly one part, and parts begin at whole cache lines. */
static void test_parts(void **state)
{
    static const int64_t counts[] = {0, 1, 15, 16, 17, 100, 32768, 100001, ((int64_t)1 << 40) + 3};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (int n_parts = 1; n_parts <= 33; n_parts++) {
            int64_t at = 0;
            for (int part = 0; part < n_parts; part++) {
                int64_t begin, end;
                ls_part_range(counts[c], part, n_parts, &begin, &end);
                assert_int_equal(begin, at);
                assert_true(end >= begin);
                assert_true(begin % 16 == 0 || begin == counts[c]);
                at = end;
            }
            assert_int_equal(at, counts[c]);
        }
}

/* --- within a step --- */

/* An update leaves every sum at zero for the next step, padding of blocked layouts included. */
static void test_update_zeroes_sums(void **state)
{
    static const struct ls_optim optims[] = {{.momentum = 0},
                                             {.momentum = 0.9},
                                             {.momentum = 0.9, .nesterov = true},
                                             {.is_adamw = true, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8}};
    const char *backend;
    for (RIG_EACH(backend))
        for (int k = 0; k < 4; k++) {
            struct rig r;
            struct ls_exec_stats stats;
            const struct rig_options o = {.optim = optims[k], .threads = 2};
            rig_open(&r, backend, "model t\ninput any\nconv a 19 3\nbn b\nrelu\nflatten\nlinear fc classes\n", &o);
            rig_plan(&r, 4, true);
            check_ok(ls_exec_init_store(r.exec, 5));
            const struct ls_exec_step step = rig_step(&r, 4, 0, 0.1);
            check_ok(ls_exec_train(r.exec, &step, &stats));
            for (int i = 0; i < r.store->n_entries; i++) {
                const struct ls_stored *e = &r.store->entries[i];
                if (e->kind != LS_VALUE_SUM) continue;
                for (size_t x = 0; x < e->layout.bytes / 8; x++)
                    if (((int64_t *)e->data)[x]) fail_msg("%s: element %zu is not 0", e->name, x);
            }
            rig_close(&r);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_back_to_double),
        cmocka_unit_test(test_error_bound),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_range),
        cmocka_unit_test(test_factors),
        cmocka_unit_test(test_range_of_means),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_update_zeroes_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
