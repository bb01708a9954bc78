/* test_cuda_rates.c: a recorded update has the rate of a plain one in every step, also where --lr-of gives layers rates
 * of their own; one of a range of sums is that of the whole for these elements. Needs no card: the jobs are looked at
 * where they would be enqueued.
 */
#include "backend/cuda/cuda.h"
#include "backend/rates.h"

#include "engine.h"

static struct ls_cuda_job last;

enum ls_status ls__cuda_job(struct ls_device *d, const struct ls_cuda_job *job)
{
    last = *job;
    return LS_OK;
}
void ls__cuda_keep_failure(struct ls_device *d, enum ls_status status)
{
    check_ok(status);
}
enum ls_status ls__cuda_prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    return ls_fail(LS_INTERNAL, "not here");
}
struct ls_cuda_range ls__cuda_part(const struct ls_cuda_kernel *k, const struct ls_step_ctx *ctx)
{
    return (struct ls_cuda_range){0, 8};
}

/* What is enqueued for an update with these attributes. */
static struct ls_cuda_job launched(struct ls_device *d, const struct ls_impl *impl, const struct ls_attrs *attrs,
                                   const struct ls_step_ctx *ctx)
{
    static float param[8];
    static int64_t sum[8];
    struct ls_cuda_kernel k = {.base = {.impl = impl}, .device = d, .attrs = *attrs};
    const struct ls_bound b = {.kernel = &k.base, .in = {param, sum, param, param}};
    check_ok(impl->launch(&b, ctx));
    return last;
}

static const double factors[] = {0, 1e-300, 0.1, 1.0 / 3, 1.5, 1e3};
enum { N_FACTORS = 6, N_STEPS = 20 };

static void test_sgd(void **state)
{
    struct ls_device d = {.n_rates = 0};
    for (int f = 0; f < N_FACTORS; f++) {
        const struct ls_attrs attrs = {.momentum = 0.9f, .lr_factor = factors[f]};
        const struct ls_step_ctx recorded_in = {.lr = 0.7f, .clip_scale = 1, .n_parts = 1};
        const struct ls_cuda_job job = launched(&d, &ls__cuda_sgd, &attrs, &recorded_in);
        for (int i = 0; i < N_STEPS; i++) {
            const struct ls_step_ctx ctx = {.step = i, .lr = 0.3f / (float)(i + 1), .clip_scale = 1, .n_parts = 1};
            const struct ls_cuda_now now = {.step = i, .lr = ctx.lr};
            const struct ls_cuda_job plain = launched(&d, &ls__cuda_sgd, &attrs, &ctx);
            const float want = ls__update_lr(&attrs, &ctx), replayed = ls__cuda_sgd_lr(&job.of.sgd, &now),
                        as_launched = ls__cuda_sgd_lr(&plain.of.sgd, NULL);
            if (memcmp(&want, &replayed, sizeof want) != 0 || memcmp(&want, &as_launched, sizeof want) != 0)
                fail_msg("factor %g, step %d: %.9g, replayed %.9g, launched %.9g", factors[f], i, (double)want,
                         (double)replayed, (double)as_launched);
        }
    }
}

/* Layers that differ in the factor alone have rates of their own; equal ones share them; what is too many is said. */
static void test_adamw(void **state)
{
    struct ls_device d = {.n_rates = 0};
    const struct ls_step_ctx ctx = {.step = 7, .lr = 0.01f, .clip_scale = 1, .n_parts = 1};
    for (int round = 0; round < 2; round++)
        for (int f = 0; f < LS_CUDA_MAX_RATES; f++) {
            const struct ls_attrs attrs = {
                .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .weight_decay = 0.01f, .lr_factor = factors[f]};
            const struct ls_cuda_job job = launched(&d, &ls__cuda_adamw, &attrs, &ctx);
            assert_int_equal(job.rates, f);
            const struct ls_cuda_adamw told = ls__cuda_rates(&d.rates[job.rates], &ctx);
            if (memcmp(&told, &job.of.adamw, sizeof told) != 0)
                fail_msg("factor %g: step size %g, recorded %g", factors[f], (double)job.of.adamw.step_size,
                         (double)told.step_size);
        }
    assert_int_equal(d.n_rates, LS_CUDA_MAX_RATES);
    assert_false(d.is_unrecordable);
    const struct ls_attrs more = {.beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .weight_decay = 0.01f, .lr_factor = 7};
    assert_int_equal(launched(&d, &ls__cuda_adamw, &more, &ctx).rates, -1);
    assert_true(d.is_unrecordable);
}

/* A range: all that is read and written begins there, the copy in bf16 too; the rates are the same. */
static void test_range(void **state)
{
    enum { N = 64, BEGIN = 16, COUNT = 32 };
    static float param[N], first[N], second[N];
    static int64_t sum[N];
    static uint16_t copy[N];
    struct ls_device d = {.n_rates = 0};
    const struct ls_impl *const impls[] = {&ls__cuda_sgd, &ls__cuda_adamw};
    const struct ls_step_ctx ctx = {.step = 3, .lr = 0.1f, .clip_scale = 1, .n_parts = 1};
    bool is_followed;
    check_ok(ls__cuda_copy_bind(&d, param, copy, N, &is_followed));
    for (int i = 0; i < 2; i++) {
        struct ls_cuda_kernel k = {.base = {.impl = impls[i]}, .device = &d, .in = {{.n_dims = 1, .dims = {N}}}};
        const struct ls_bound b = {.kernel = &k.base, .in = {param, sum, first, second}};
        check_ok(impls[i]->launch(&b, &ctx));
        const struct ls_cuda_job whole = last;
        impls[i]->update(&b, &ctx, BEGIN, COUNT, sum + BEGIN);
        assert_int_equal(last.n, COUNT);
        assert_ptr_equal(last.a, param + BEGIN);
        assert_ptr_equal(last.sum, sum + BEGIN);
        assert_ptr_equal(last.b, first + BEGIN);
        assert_ptr_equal(last.c, second + BEGIN);
        assert_ptr_equal(whole.copy, copy);
        assert_ptr_equal(last.copy, copy + BEGIN);
        assert_memory_equal(&last.of, &whole.of, sizeof last.of);
    }
    ls__cuda_copy_unbind(&d, param, copy);
    free(d.copies);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sgd), cmocka_unit_test(test_adamw),
                                       cmocka_unit_test(test_range)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
