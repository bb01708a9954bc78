/* test_batchnorm_passes.c: the passes of batch norm give the same bits at every width of vectors. */
#include "backend/backend.h"
#include "backend/cpu/batchnorm_passes.h"
#include "base/rng.h"
#include "engine.h"

#include <stdlib.h>
#include <string.h>

/* Weak: a build without the cpu backend has none, and the test skips itself. */
extern const struct bn_passes *const ls__bn_passes_avx512 __attribute__((weak));
extern const struct bn_passes *const ls__bn_passes_avx2 __attribute__((weak));
extern const struct bn_passes *const ls__bn_passes_any __attribute__((weak));

enum { N_FLOATS = 6000 };

/* Everything the passes make. */
struct results {
    double values[BN_LANES], squares[BN_LANES], gradients[BN_LANES], gradients_x[BN_LANES];
    float dst[N_FLOATS], diff_src[N_FLOATS];
};

static const struct bn_group groups[] = {
    {.n_runs = 3, .run_step = 1900, .rows = 100, .row_step = 16, .tail = 0},
    {.n_runs = 2, .run_step = 2500, .rows = 131, .row_step = 16, .tail = 7},
    {.n_runs = 1, .run_step = 0, .rows = 67, .row_step = 35, .tail = 0},
    {.n_runs = 40, .run_step = 35, .rows = 0, .row_step = 0, .tail = 3},
    {.n_runs = 9, .run_step = 64, .rows = 1, .row_step = 16, .tail = 15},
};

static float number(int i)
{
    return (float)(int32_t)ls__rng(1, LS_RNG_DATA, 7, (uint32_t)i, 0).v[0] * 0x1p-31f;
}

static void run(const struct bn_passes *p, const struct bn_group *g, bool relu, struct results *r)
{
    static float src[N_FLOATS], diff_dst[N_FLOATS];
    struct bn_affine f;
    struct bn_slope s;
    memset(r, 0, sizeof *r);
    for (int i = 0; i < N_FLOATS; i++) {
        src[i] = 0.3f + number(i);
        diff_dst[i] = number(N_FLOATS + i);
    }
    for (int l = 0; l < BN_LANES; l++) {
        f.mean[l] = 0.3f + 0.01f * number(-1 - l);
        f.scale[l] = number(-20 - l);
        f.shift[l] = 0.2f * number(-40 - l);
        s.per_x[l] = number(-60 - l);
        s.constant[l] = number(-80 - l);
    }
    p->add_values(src, g, r->values);
    p->add_squares(src, g, f.mean, r->squares);
    p->normalise(src, r->dst, g, &f, relu);
    p->add_gradients(src, diff_dst, g, &f, relu, r->gradients, r->gradients_x);
    p->make_gradients(src, diff_dst, r->diff_src, g, &f, relu, &s);
}

static void check_same(const struct bn_passes *p)
{
    static struct results want, got;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        for (int relu = 0; relu < 2; relu++) {
            run(ls__bn_passes_any, &groups[i], relu, &want);
            run(p, &groups[i], relu, &got);
            assert_memory_equal(&got, &want, sizeof want);
            assert_true(want.values[0] != 0 && want.squares[0] > 0 && want.diff_src[0] != 0);
        }
}

static void test_widths(void **state)
{
    if (!ls_backend_find("cpu")) skip();
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) check_same(ls__bn_passes_avx2);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        check_same(ls__bn_passes_avx512);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_widths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
