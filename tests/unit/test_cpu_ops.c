/* test_cpu_ops.c: the cpu backend's own kernels where test_ops cannot look: bits equal to ref's, accuracy of the
 * exponential, broken logits, and a network that needs them all, trained. */
#include "engine.h"

#include "backend/cpu/exp.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

/* --- exp --- */

/* How far `got` is from `want`, in units of the last place of a float of that size. */
static double ulps(float got, double want)
{
    int exponent;
    frexp(want, &exponent);
    return fabs((double)got - want) / ldexp(1, exponent - FLT_MANT_DIG);
}

static void exp_is_accurate(void **state)
{
    double worst = 0;
    float where = 0;
    /* every 97th float from -87 to -0 */
    for (uint32_t bits = 0x80000000u; bits <= 0xC2AE0000u; bits += 97) {
        float x;
        memcpy(&x, &bits, sizeof x);
        double error = ulps(ls__cpu_exp(x), exp((double)x));
        if (error > worst) {
            worst = error;
            where = x;
        }
    }
    print_message("exp: at most %.3f units in the last place, at %.9g\n", worst, (double)where);
    assert_true(worst < 1.5);
}

static void exp_at_the_ends(void **state)
{
    assert_true(ls__cpu_exp(0.0f) == 1.0f);
    assert_true(isnan(ls__cpu_exp(NAN)));
    const float smallest = ls__cpu_exp(-87.0f);
    assert_true(smallest > 0 && smallest < 2e-38f);
    assert_true(ls__cpu_exp(-1000.0f) == smallest);
    assert_true(ls__cpu_exp(-INFINITY) == smallest);
}

/* --- one op, run by hand --- */

struct op_run {
    struct ls_device *device;
    struct ls_graph *g;
    struct ls_kernel *kernel;
    struct ls_bound bound;
};

/* The backend's own implementation of the only node of r->g; the inputs are given, outputs are allocated. */
static void op_start(struct op_run *r, const struct ls_backend *backend, void *const in[])
{
    const struct ls_node *n = &r->g->nodes[0];
    const struct ls_prep all_plain = {.graph = r->g, .node = n};
    struct ls_prep prep = all_plain;
    check_ok(backend->device_open(&r->device));
    prep.device = r->device;
    const struct ls_impl *const *impl = backend->impls;
    while (*impl && (*impl)->op != n->op) impl++;
    assert_non_null(*impl);
    for (int i = 0; i < n->n_in; i++)
        prep.in[i] = ls_layout_plain(&r->g->values[n->in[i]].shape, r->g->values[n->in[i]].dtype);
    check_ok((*impl)->prepare(&prep, &r->kernel));
    r->bound.kernel = r->kernel;
    for (int i = 0; i < n->n_in; i++) r->bound.in[i] = in[i];
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] >= 0) r->bound.out[i] = calloc(1, r->kernel->out[i].bytes + 1);
    r->bound.scratch = r->kernel->scratch_bytes ? aligned_alloc(64, (r->kernel->scratch_bytes + 63) / 64 * 64) : NULL;
    assert_null(r->kernel->impl->bind);
}

static void op_end(struct op_run *r, const struct ls_backend *backend)
{
    for (int i = 0; i < LS_MAX_OUT; i++) free(r->bound.out[i]);
    free(r->bound.scratch);
    ls_kernel_destroy(&r->kernel);
    ls_graph_destroy(&r->g);
    backend->device_close(&r->device);
}

/* --- dropout: ref's bits --- */

/* dst [2,n] of a backend; src is the same for all. */
static float *dropout_on(const char *name, int64_t n, float p, const struct ls_step_ctx *ctx)
{
    static const uint32_t samples[2] = {0xffffffffu, 17};
    struct op_run r = {0};
    const struct ls_backend *backend = ls_backend_find(name);
    const struct ls_shape shape = LS_SHAPE2(2, n);
    const struct ls_attrs attrs = {.p = p, .layer = 5};
    float *src = calloc((size_t)(2 * n), sizeof *src), *dst;
    int in;
    for (int64_t i = 0; i < 2 * n; i++) src[i] = (float)(i % 1000) - 499.5f;
    check_ok(ls_graph_create(&r.g, 2, true));
    check_ok(ls_graph_add_value(r.g, NULL, LS_VALUE_TEMP, LS_F32, &shape, &in));
    check_ok(ls_graph_add_node(r.g, LS_OP_DROPOUT, "dropout", &attrs, &in, 1, NULL));
    op_start(&r, backend, (void *const[]){src});
    r.bound.samples = samples;
    check_ok(r.kernel->impl->launch(&r.bound, ctx));
    dst = r.bound.out[0];
    r.bound.out[0] = NULL;
    op_end(&r, backend);
    free(src);
    return dst;
}

static void dropout_has_refs_bits(void **state)
{
    static const int64_t sizes[] = {1, 3, 16, 31, 32, 127, 128, 129, 160, 1003, 100000};
    static const float ps[] = {0.0f, 1e-8f, 0.1f, 0.5f, 0.9f, 0.99999f};
    const struct ls_step_ctx ctx = {.seed = 0x123456789abcdef0u, .step = 70000, .n_valid = 2};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t k = 0; k < sizeof ps / sizeof *ps; k++) {
            float *got = dropout_on("cpu", sizes[i], ps[k], &ctx), *want = dropout_on("ref", sizes[i], ps[k], &ctx);
            for (int64_t e = 0; e < 2 * sizes[i]; e++)
                if (memcmp(&got[e], &want[e], sizeof *got) != 0)
                    fail_msg("p=%g n=%lld: element %lld is %a, on ref %a", (double)ps[k], (long long)sizes[i],
                             (long long)e, (double)got[e], (double)want[e]);
            free(got);
            free(want);
        }
}

/* --- softmax: logits that are not numbers --- */

/* diff [n] may be NULL. */
static float loss_on(const char *name, const float *logits, int64_t n, float *diff)
{
    struct op_run r = {0};
    const struct ls_backend *backend = ls_backend_find(name);
    const struct ls_shape shape = LS_SHAPE2(1, n), one = LS_SHAPE1(1);
    const struct ls_attrs attrs = {0};
    const struct ls_step_ctx ctx = {.n_valid = 1, .grad_scale = 1};
    int32_t label = 0;
    int in[2];
    check_ok(ls_graph_create(&r.g, 1, true));
    check_ok(ls_graph_add_value(r.g, NULL, LS_VALUE_TEMP, LS_F32, &shape, &in[0]));
    check_ok(ls_graph_add_value(r.g, NULL, LS_VALUE_LABELS, LS_I32, &one, &in[1]));
    check_ok(ls_graph_add_node(r.g, LS_OP_SOFTMAX_CE, "loss", &attrs, in, 2, NULL));
    op_start(&r, backend, (void *const[]){(void *)(uintptr_t)logits, &label});
    check_ok(r.kernel->impl->launch(&r.bound, &ctx));
    const float loss = ((const float *)r.bound.out[1])[0];
    if (diff) memcpy(diff, r.bound.out[0], (size_t)n * sizeof *diff);
    label = (int32_t)n;
    check_fails(r.kernel->impl->launch(&r.bound, &ctx), LS_DATA, "label");
    op_end(&r, backend);
    return loss;
}

static void broken_logits_break_the_loss(void **state)
{
    static const float bad[] = {NAN, INFINITY};
    for (int64_t n = 3; n <= 40; n += 37)
        for (size_t b = 0; b < 2; b++)
            for (int64_t at = 0; at < n; at++) {
                float logits[40];
                for (int64_t i = 0; i < n; i++) logits[i] = (float)i;
                logits[at] = bad[b];
                const float cpu = loss_on("cpu", logits, n, NULL), ref = loss_on("ref", logits, n, NULL);
                if (isfinite(cpu) || isfinite(ref))
                    fail_msg("%g at %lld of %lld: loss %g, on ref %g", (double)bad[b], (long long)at, (long long)n,
                             (double)cpu, (double)ref);
            }
}

/* The gradient of a label that is nearly certain keeps its digits: p - 1 is not 0. */
static void certain_labels_keep_a_gradient(void **state)
{
    const float logits[2] = {20.0f, 0.0f};
    float diff[2];
    const float loss = loss_on("cpu", logits, 2, diff);
    const double want = log1p(exp(-20.0)), p1 = 1 / (1 + exp(20.0));
    if (!(fabs((double)loss - want) < 1e-6 * want)) fail_msg("loss %.9g, not %.9g", (double)loss, want);
    if (!(fabs((double)diff[0] + p1) < 1e-6 * p1)) fail_msg("gradient %.9g, not %.9g", (double)diff[0], -p1);
    if (!(fabs((double)diff[1] - p1) < 1e-6 * p1)) fail_msg("gradient %.9g, not %.9g", (double)diff[1], p1);
}

/* --- a network of all of them --- */

static const char text[] = "model mix\n"
                           "input any\n"
                           "conv conv1 32 3 pad=1 bias=no\n"
                           "bias shift1\n"
                           "relu\n"
                           "keep a\n"
                           "conv conv2 16 3 pad=1 bias=no\n"
                           "bias shift2\n"
                           "keep b\n"
                           "concat a\n"
                           "lrn 5 alpha=1e-2 beta=0.75 k=2\n"
                           "keep c\n"
                           "conv conv3 17 3 pad=1\n"
                           "relu\n"
                           "keep d\n"
                           "from c\n"
                           "concat d\n" /* 48 + 17: the last part ends inside a block */
                           "lrn 3 alpha=1e-2 beta=0.5 k=1\n"
                           "keep e\n"
                           "from d\n"
                           "concat e\n" /* 17 + 65: no blocks fit */
                           "maxpool 2\n"
                           "conv conv4 16 3\n"
                           "bias shift4\n"
                           "relu\n"
                           "dropout 0.25\n"
                           "flatten\n"
                           "dropout 0.5\n"
                           "linear fc classes\n";

enum { STEPS = 12, BATCH = 16, SHARD = 4 };

/* Trains and returns the weights; losses[STEPS] are means over the batch. */
static float *trained(const char *backend, int threads, double losses[STEPS], size_t *n)
{
    struct rig r;
    rig_open(&r, backend, text,
             &(struct rig_options){.threads = threads,
                                   .c = 3,
                                   .hw = 12,
                                   .n_classes = 10,
                                   .optim = {.momentum = 0.9},
                                   .label_smoothing = 0.1f});
    rig_plan(&r, SHARD, true);
    check_ok(ls_exec_init_store(r.exec, 3));
    for (int i = 0; i < STEPS; i++) {
        struct ls_exec_stats stats;
        rig_batch(&r, (uint32_t)(i % 3 * BATCH), BATCH);
        const struct ls_exec_step step = rig_step(&r, SHARD, i, 0.01);
        check_ok(ls_exec_train(r.exec, &step, &stats));
        losses[i] = stats.loss_sum / (double)stats.n;
    }
    float *weights = rig_weights(&r, n);
    rig_close(&r);
    return weights;
}

static void a_network_agrees_with_ref(void **state)
{
    double cpu[STEPS], ref[STEPS];
    size_t n_cpu, n_ref;
    float *a = trained("cpu", 1, cpu, &n_cpu), *b = trained("ref", 1, ref, &n_ref);
    assert_int_equal(n_cpu, n_ref);
    for (int i = 0; i < STEPS; i++)
        if (!(fabs(cpu[i] - ref[i]) <= 1e-4 * fabs(ref[i])))
            fail_msg("step %d: loss %.9g, on ref %.9g", i, cpu[i], ref[i]);
    if (!(cpu[STEPS - 1] < cpu[0])) fail_msg("the loss went from %.9g to %.9g", cpu[0], cpu[STEPS - 1]);
    free(a);
    free(b);
}

static void threads_do_not_change_a_bit(void **state)
{
    double one[STEPS], three[STEPS];
    size_t n_one, n_three;
    float *a = trained("cpu", 1, one, &n_one), *b = trained("cpu", 3, three, &n_three);
    assert_int_equal(n_one, n_three);
    for (size_t i = 0; i < n_one; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0)
            fail_msg("weight %zu is %a with one thread, %a with three", i, (double)a[i], (double)b[i]);
    assert_memory_equal(one, three, sizeof one);
    free(a);
    free(b);
}

/* Every op has an implementation of the backend; the joined tensors stay in blocks where they can. */
static void nothing_is_left_to_ref(void **state)
{
    struct rig r;
    int n_concats = 0, n_blocked = 0;
    rig_open(&r, "cpu", text, &(struct rig_options){.c = 3, .hw = 12, .n_classes = 10});
    rig_plan(&r, SHARD, true);
    const struct ls_plan *p = ls_exec_plan(r.exec, SHARD, true);
    for (int i = 0; i < p->n_ops; i++) {
        const struct ls_plan_op *op = &p->ops[i];
        switch (op->node.op) {
        case LS_OP_CONCAT:
            n_concats++;
            n_blocked += op->kernel->out[0].id != LS_LAYOUT_PLAIN;
            /* fall through */
        case LS_OP_BIAS:
        case LS_OP_BIAS_BWD:
        case LS_OP_CONCAT_BWD:
        case LS_OP_DROPOUT:
        case LS_OP_DROPOUT_BWD:
        case LS_OP_SOFTMAX_CE:
            if (strncmp(op->kernel->name, "own", 3) != 0)
                fail_msg("%s is done by %s: %s", ls_op_name(op->node.op), op->kernel->name,
                         op->refused ? op->refused : "");
            break;
        default:
            break;
        }
    }
    print_message("%d of %d concats in blocks\n", n_blocked, n_concats);
    assert_int_equal(n_concats, 3);
    assert_true(n_blocked >= 1);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_accurate),
        cmocka_unit_test(exp_at_the_ends),
        cmocka_unit_test(dropout_has_refs_bits),
        cmocka_unit_test(broken_logits_break_the_loss),
        cmocka_unit_test(certain_labels_keep_a_gradient),
        cmocka_unit_test(a_network_agrees_with_ref),
        cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(nothing_is_left_to_ref),
    };
    if (!ls_backend_find("cpu")) {
        printf("this build has no backend cpu\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
