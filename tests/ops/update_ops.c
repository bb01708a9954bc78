/* update_ops.c: reduce, sgd, adamw and running_stats against their formulas.
 *
 *     reduce n= scale= alpha= share= parts=          by_share when share is given
 *     sgd n= lr= momentum= nesterov= wd= clip= steps= parts=
 *     adamw n= lr= beta1= beta2= eps= wd= clip= steps= parts=
 *     running_stats n= momentum= scale= steps= parts=
 *
 * Reduce must agree with llrint to the bit, whatever the number of parts, and refuse what it cannot hold. The updates
 * are held against double arithmetic over several steps; the sums must be zero afterwards.
 */
#include "checks.h"

#include "base/clock.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double tolerance = 2e-6; /* a few roundings to float, of numbers of order 1 */

enum { MAX_VALUES = 4 };

struct update {
    struct test_case *c;
    const struct ls_backend *backend;
    struct ls_device *device;
    struct ls_graph *g;
    struct ls_kernel *kernel;
    struct ls_bound bound;
    bool is_bound;
    struct mirror mirror;
    struct buffer values[MAX_VALUES];
    double *want[MAX_VALUES]; /* param, -, state, state in double */
    int64_t n;
    int n_parts;
    struct ls_step_ctx ctx;
    uint64_t seed;
};

bool is_update_case(const struct test_case *c)
{
    return strcmp(c->op, "reduce") == 0 || strcmp(c->op, "sgd") == 0 || strcmp(c->op, "adamw") == 0 ||
           strcmp(c->op, "running_stats") == 0;
}

static enum ls_status prepare(struct update *u, enum ls_op op, const struct ls_attrs *attrs, int n_in)
{
    static const enum ls_value_kind kinds[MAX_VALUES] = {LS_VALUE_PARAM, LS_VALUE_SUM, LS_VALUE_STATE, LS_VALUE_STATE};
    const struct ls_shape shape = LS_SHAPE1(u->n);
    int in[MAX_VALUES];
    TRY(case_check_used(u->c));
    TRY(u->backend->device_open(&u->device));
    if (u->backend->thread_begin) u->backend->thread_begin();
    TRY(ls_graph_create(&u->g, 1, true));
    u->mirror = (struct mirror){.backend = u->backend, .device = u->device};
    for (int i = 0; i < n_in; i++) {
        const enum ls_value_kind kind = op == LS_OP_REDUCE ? LS_VALUE_TEMP : kinds[i];
        TRY(ls_graph_add_value(u->g, NULL, kind, i == 1 ? LS_I64 : LS_F32, &shape, &in[i]));
        TRY(buffer_create(&u->values[i], (size_t)u->n * (i == 1 ? 8 : 4), 0));
        TRY(ls__calloc(&u->want[i], (size_t)u->n, sizeof(double)));
        TRY(mirror_add(&u->mirror, &u->values[i], &u->bound.in[i]));
    }
    TRY(ls_graph_add_node(u->g, op, "fc1.weight", attrs, in, n_in, NULL));
    if (op == LS_OP_REDUCE) {
        TRY(buffer_create(&u->values[1], (size_t)u->n * 8, 0));
        TRY(mirror_add(&u->mirror, &u->values[1], &u->bound.out[0]));
    }
    const struct ls_prep prep = {.device = u->device, .graph = u->g, .node = &u->g->nodes[0]};
    TRY(pick_kernel(u->backend, &prep, &u->kernel));
    u->bound.kernel = u->kernel;
    if (u->kernel->impl->bind) TRY(u->kernel->impl->bind(&u->bound));
    u->is_bound = true;
    return LS_OK;
}

static void update_release(struct update *u)
{
    if (u->is_bound && u->kernel->impl->unbind) u->kernel->impl->unbind(&u->bound);
    ls_kernel_destroy(&u->kernel);
    mirror_release(&u->mirror);
    for (int i = 0; i < MAX_VALUES; i++) {
        buffer_release(&u->values[i]);
        free(u->want[i]);
    }
    ls_graph_destroy(&u->g);
    if (u->device) u->backend->device_close(&u->device);
}

/* All parts, the last one first: their order must not matter. */
static enum ls_status launch_parts(struct update *u)
{
    u->ctx.n_parts = u->n_parts;
    for (u->ctx.part = u->n_parts - 1; u->ctx.part >= 0; u->ctx.part--)
        TRY(u->kernel->impl->launch(&u->bound, &u->ctx));
    return LS_OK;
}

static enum ls_status launch(struct update *u)
{
    TRY(mirror_send(&u->mirror));
    TRY(launch_parts(u));
    TRY(mirror_fetch(&u->mirror));
    for (int i = 0; i < MAX_VALUES; i++)
        if (u->values[i].block) TRY(buffer_check(&u->values[i], "buffer"));
    return LS_OK;
}

static enum ls_status print_time(struct update *u, double bytes_per_element)
{
    int n = 0;
    const int64_t start = ls__now_ns();
    do {
        TRY(launch_parts(u));
        n++;
    } while (ls__seconds_since(start) < 0.05);
    if (u->backend->memory) TRY(u->backend->memory->settle(u->device));
    const double seconds = ls__seconds_since(start) / n;
    printf("    %-5s %-20s %-32s %10.4f ms %9.2f GB/s\n", u->backend->name, u->c->op, u->kernel->name, seconds * 1e3,
           bytes_per_element * (double)u->n / seconds * 1e-9);
    return LS_OK;
}

/* --- reduce --- */

static enum ls_status check_refused(struct update *u, float bad)
{
    float *src = u->values[0].data;
    const int64_t at = u->n / 2;
    const float good = src[at];
    src[at] = bad;
    const enum ls_status status = launch(u);
    src[at] = good;
    if (status != LS_NONFINITE)
        return ls_fail(LS_ERROR, "reduce of %g gives %s, not NONFINITE", (double)bad, ls_status_name(status));
    if (!strstr(ls_error_message(), "fc1.weight"))
        return ls_fail(LS_ERROR, "the message '%s' does not name the parameter", ls_error_message());
    return LS_OK;
}

static enum ls_status check_sums(const struct update *u, double factor, int n_times)
{
    const float *src = u->values[0].data;
    const int64_t *sum = u->values[1].data;
    for (int64_t i = 0; i < u->n; i++) {
        const int64_t want = n_times * (int64_t)llrint((double)src[i] * factor);
        if (sum[i] != want)
            return ls_fail(LS_ERROR, "sum %lld of %.9g is %lld, not %lld", (long long)i, (double)src[i],
                           (long long)sum[i], (long long)want);
    }
    return LS_OK;
}

/* Numbers of every size that fits, ties of the rounding among them. */
static float reduce_content(const struct update *u, int64_t i, int scale, double factor)
{
    const float r = random_number(u->seed, 0, i);
    if (i % 7 == 0) return (float)(((double)(i % 101) - 50.5) / factor);
    return ldexpf(r, (int)(i % 60) - scale - 6);
}

static enum ls_status check_reduce(struct update *u, bool is_perf)
{
    const int scale = (int)case_int(u->c, "scale", LS_SCALE_GRAD);
    const double share = case_get(u->c, "share", -1), alpha = (double)(float)case_get(u->c, "alpha", 0);
    const struct ls_attrs attrs = {.scale_log2 = scale, .by_share = share >= 0, .alpha = (float)alpha};
    u->ctx.share = (float)share;
    TRY(prepare(u, LS_OP_REDUCE, &attrs, 1));
    const double factor = ldexp(alpha != 0 ? alpha : 1, scale) * (share >= 0 ? (double)u->ctx.share : 1);
    float *src = u->values[0].data;
    for (int64_t i = 0; i < u->n; i++) src[i] = reduce_content(u, i, scale, factor);
    for (int n = 1; n <= 3; n++) {
        TRY(launch(u));
        TRY(check_sums(u, factor, n));
    }
    TRY(check_refused(u, NAN));
    TRY(check_refused(u, INFINITY));
    TRY(check_refused(u, -INFINITY));
    /* A mean's range does not depend on the shard's share. */
    const double limit = share >= 0 ? ldexp((double)u->ctx.share, LS_FIXED_MEAN_BITS) : ldexp(1, LS_FIXED_BITS);
    TRY(check_refused(u, (float)(limit / factor * 1.001)));
    TRY(check_refused(u, (float)(-limit / factor * 1.001)));
    return is_perf ? print_time(u, 20) : LS_OK;
}

/* --- updates --- */

static enum ls_status compare(const struct update *u, int value, int step)
{
    const float *got = u->values[value].data;
    for (int64_t i = 0; i < u->n; i++)
        if (!(fabs((double)got[i] - u->want[value][i]) <= tolerance * fmax(1, fabs(u->want[value][i]))))
            return ls_fail(LS_ERROR, "step %d: element %lld of input %d is %.9g, the formula gives %.9g", step,
                           (long long)i, value, (double)got[i], u->want[value][i]);
    return LS_OK;
}

static enum ls_status check_zero(const struct update *u)
{
    const int64_t *sum = u->values[1].data;
    for (int64_t i = 0; i < u->n; i++)
        if (sum[i] != 0) return ls_fail(LS_ERROR, "sum %lld is %lld afterwards", (long long)i, (long long)sum[i]);
    return LS_OK;
}

typedef void formula(struct update *u, const struct ls_attrs *a, int64_t i, double g);

static void sgd_formula(struct update *u, const struct ls_attrs *a, int64_t i, double g)
{
    double d = g * (double)u->ctx.clip_scale + (double)a->weight_decay * u->want[0][i];
    if (u->want[2]) {
        const double m = (double)a->momentum;
        u->want[2][i] = u->ctx.step == 0 ? d : m * u->want[2][i] + d;
        d = a->nesterov ? d + m * u->want[2][i] : u->want[2][i];
    }
    u->want[0][i] -= (double)u->ctx.lr * d;
}

static void adamw_formula(struct update *u, const struct ls_attrs *a, int64_t i, double g)
{
    const double lr = (double)u->ctx.lr, b1 = (double)a->beta1, b2 = (double)a->beta2, t = (double)u->ctx.step + 1;
    double *p = &u->want[0][i], *m = &u->want[2][i], *v = &u->want[3][i];
    g *= (double)u->ctx.clip_scale;
    *p -= lr * (double)a->weight_decay * *p;
    *m = b1 * *m + (1 - b1) * g;
    *v = b2 * *v + (1 - b2) * g * g;
    *p -= lr * (*m / (1 - pow(b1, t))) / (sqrt(*v / (1 - pow(b2, t))) + (double)a->eps);
}

static void running_formula(struct update *u, const struct ls_attrs *a, int64_t i, double g)
{
    u->want[0][i] += (double)a->momentum * (g - u->want[0][i]);
}

static enum ls_status run_steps(struct update *u, const struct ls_attrs *attrs, formula *fn, int n_states)
{
    const int n_steps = (int)case_int(u->c, "steps", 4);
    const int scale = attrs->scale_log2;
    float *param = u->values[0].data;
    int64_t *sum = u->values[1].data;
    for (int64_t i = 0; i < u->n; i++) u->want[0][i] = (double)(param[i] = random_number(u->seed, 0, i));
    for (int step = 0; step < n_steps; step++) {
        u->ctx.step = step;
        for (int64_t i = 0; i < u->n; i++) {
            sum[i] = llrint(ldexp((double)random_number(u->seed, 1 + step, i), scale));
            fn(u, attrs, i, ldexp((double)sum[i], -scale));
        }
        TRY(launch(u));
        TRY(check_zero(u));
        TRY(compare(u, 0, step));
        for (int s = 0; s < n_states; s++) TRY(compare(u, 2 + s, step));
    }
    return LS_OK;
}

static enum ls_status check_sgd(struct update *u, bool is_perf)
{
    struct test_case *c = u->c;
    const struct ls_attrs attrs = {.scale_log2 = LS_SCALE_GRAD,
                                   .momentum = (float)case_get(c, "momentum", 0),
                                   .nesterov = case_int(c, "nesterov", 0) != 0,
                                   .weight_decay = (float)case_get(c, "wd", 0)};
    const int n_states = attrs.momentum != 0 ? 1 : 0;
    TRY(prepare(u, LS_OP_SGD, &attrs, 2 + n_states));
    TRY(run_steps(u, &attrs, sgd_formula, n_states));
    return is_perf ? print_time(u, 24 + 8.0 * n_states) : LS_OK;
}

static enum ls_status check_adamw(struct update *u, bool is_perf)
{
    struct test_case *c = u->c;
    const struct ls_attrs attrs = {.scale_log2 = LS_SCALE_GRAD,
                                   .beta1 = (float)case_get(c, "beta1", 0.9),
                                   .beta2 = (float)case_get(c, "beta2", 0.999),
                                   .eps = (float)case_get(c, "eps", 1e-8),
                                   .weight_decay = (float)case_get(c, "wd", 0.01)};
    TRY(prepare(u, LS_OP_ADAMW, &attrs, 4));
    TRY(run_steps(u, &attrs, adamw_formula, 2));
    return is_perf ? print_time(u, 40) : LS_OK;
}

static enum ls_status check_running(struct update *u, bool is_perf)
{
    const struct ls_attrs attrs = {.scale_log2 = (int)case_int(u->c, "scale", LS_SCALE_RUNNING),
                                   .momentum = (float)case_get(u->c, "momentum", 0.1)};
    TRY(prepare(u, LS_OP_RUNNING_STATS, &attrs, 2));
    TRY(run_steps(u, &attrs, running_formula, 0));
    return is_perf ? print_time(u, 24) : LS_OK;
}

enum ls_status check_update(struct test_case *c, const struct ls_backend *backend, bool is_perf)
{
    struct update u = {.c = c,
                       .backend = backend,
                       .n = case_int(c, "n", 100),
                       .n_parts = (int)case_int(c, "parts", 1),
                       .seed = case_seed(c),
                       .ctx = {.lr = (float)case_get(c, "lr", 0.1), .clip_scale = (float)case_get(c, "clip", 1)}};
    enum ls_status status;
    case_int(c, "steps", 4);
    if (strcmp(c->op, "reduce") == 0)
        status = check_reduce(&u, is_perf);
    else if (strcmp(c->op, "sgd") == 0)
        status = check_sgd(&u, is_perf);
    else if (strcmp(c->op, "adamw") == 0)
        status = check_adamw(&u, is_perf);
    else
        status = check_running(&u, is_perf);
    update_release(&u);
    return status == LS_OK ? LS_OK : ls_fail_in(status, "%s", backend->name);
}
