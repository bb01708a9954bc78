/* checks.c: see checks.h.
 *
 * Tolerances are relative to the largest element of the tensor (max norm):
 *     ref forward against the oracle    1e-6   rounding to float, once
 *     ref gradients against differences 1e-4   step 1e-6 in double
 *     another backend against ref       1e-4   float32 sums of thousands of terms in another order, Winograd
 *     ... in batch norm                 1e-6   whose sums have a million terms, and whose statistics outlive the step
 */
#include "checks.h"

#include "base/mem.h"
#include "oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double forward_tolerance = 1e-6, gradient_tolerance = 1e-4, backend_tolerance = 1e-4;
static const double batchnorm_tolerance = 1e-6;
static const double step = 1e-6;
static const double smallest_norm = 1e-2; /* inputs are of order 1: below this it is noise that is compared */

/* Work the differences of one input may cost, in operations of the oracle. */
static const double difference_budget = 2e7;
enum { MAX_PROBES = 24 };

static double norm_of(const float *x, int64_t n)
{
    double max = smallest_norm;
    for (int64_t i = 0; i < n; i++) max = fmax(max, fabs((double)x[i]));
    return max;
}

static bool is_close(double a, double b, double tolerance)
{
    return fabs(a - b) <= tolerance; /* false for NaN */
}

/* --- ref against the oracle --- */

struct point {
    double *in[LS_MAX_IN], *dst;
};

static void point_release(struct point *x)
{
    for (int i = 0; i < LS_MAX_IN; i++) free(x->in[i]);
    free(x->dst);
}

/* Where inputs tie on purpose, the first of equals is made the largest, which is what the rule for ties says. */
static enum ls_status point_build(const struct problem *p, struct point *x)
{
    const struct ls_node *f = &p->g->nodes[0];
    const bool has_ties = f->op == LS_OP_MAXPOOL && case_int(p->c, "ties", 0) != 0;
    for (int i = 0; i < f->n_in; i++) {
        const int64_t n = problem_count(p, f->in[i]);
        const float *data = p->data[f->in[i]];
        TRY(ls__calloc(&x->in[i], (size_t)n, sizeof(double)));
        for (int64_t k = 0; k < n; k++)
            x->in[i][k] = p->g->values[f->in[i]].dtype == LS_I32 ? ((const int32_t *)data)[k] : (double)data[k];
        for (int64_t k = 0; has_ties && k < n; k++) x->in[i][k] -= 0.1 * (double)k / (double)n;
    }
    return ls__calloc(&x->dst, (size_t)oracle_count(p), sizeof(double));
}

static double loss_at(const struct problem *p, struct point *x)
{
    double sum = 0;
    oracle_forward(p, x->in, x->dst);
    if (p->diff_dst < 0) return x->dst[0] * (double)p->ctx.grad_scale;
    for (int64_t i = 0; i < oracle_count(p); i++) {
        const float more = p->diff_more >= 0 ? p->data[p->diff_more][i] : 0.0f;
        sum += x->dst[i] * ((double)p->data[p->diff_dst][i] + (double)more);
    }
    return sum;
}

static enum ls_status check_forward(const struct problem *p, const struct runner *ref, struct point *x)
{
    const struct ls_node *f = &p->g->nodes[0];
    const bool is_loss = f->op == LS_OP_SOFTMAX_CE;
    const float *dst = ref->values[is_loss ? f->out[1] : f->out[0]].data;
    const bool has_ties = f->op == LS_OP_MAXPOOL && case_int(p->c, "ties", 0) != 0;
    const double tolerance = (has_ties ? 0.1 : forward_tolerance) * norm_of(dst, oracle_count(p));
    if (!oracle_forward(p, x->in, x->dst)) return ls_fail(LS_ERROR, "the oracle does not know %s", ls_op_name(f->op));
    for (int64_t i = 0; i < oracle_count(p); i++)
        if (!is_close((double)dst[i], x->dst[i], tolerance))
            return ls_fail(LS_ERROR, "ref: element %lld is %.9g, the formula gives %.9g", (long long)i, (double)dst[i],
                           x->dst[i]);
    return LS_OK;
}

static enum ls_status check_gradient(const struct problem *p, const struct runner *ref, struct point *x, int i)
{
    const int64_t n = problem_count(p, p->g->nodes[0].in[i]);
    const float *grad = ref->values[p->grads[i]].data;
    const double tolerance = gradient_tolerance * norm_of(grad, n);
    const double cost = ls_node_flops(p->g, &p->g->nodes[0]) + (double)n;
    const int64_t n_probes = (int64_t)fmin(fmin(MAX_PROBES, (double)n), difference_budget / (2 * cost));
    for (int64_t k = 0; k < n_probes; k++) {
        /* all of a small tensor, else corners and random places */
        const float r = 0.5f * random_number(case_seed(p->c), 2000 + i, k) + 0.5f;
        const int64_t at = n <= MAX_PROBES ? k : k == 0 ? 0 : k == 1 ? n - 1 : (int64_t)(r * (float)(n - 1));
        const double here = x->in[i][at];
        x->in[i][at] = here + step;
        const double above = loss_at(p, x);
        x->in[i][at] = here - step;
        const double slope = (above - loss_at(p, x)) / (2 * step);
        x->in[i][at] = here;
        if (!is_close((double)grad[at], slope, tolerance))
            return ls_fail(LS_ERROR, "ref: gradient of input %d at %lld is %.9g, differences give %.9g", i,
                           (long long)at, (double)grad[at], slope);
    }
    return LS_OK;
}

static enum ls_status check_point(const struct problem *p, const struct runner *ref, struct point *x)
{
    TRY(point_build(p, x));
    TRY(check_forward(p, ref, x));
    for (int i = 0; i < p->g->nodes[0].n_in; i++)
        if (p->grads[i] >= 0) TRY(check_gradient(p, ref, x, i));
    return LS_OK;
}

/* The number of right answers, counted anew. */
static enum ls_status check_right(const struct problem *p, const struct runner *ref)
{
    const struct ls_node *f = &p->g->nodes[0];
    const int64_t n = p->g->values[f->in[0]].shape.dims[1];
    const float *logits = p->data[f->in[0]], *stats = ref->values[f->out[1]].data;
    const int32_t *labels = (const int32_t *)p->data[f->in[1]];
    const int32_t *others = f->n_in > 2 ? (const int32_t *)p->data[f->in[2]] : labels;
    int n_right = 0;
    for (int i = 0; i < p->ctx.n_valid; i++) {
        const int32_t label =
            f->n_in > 2 && p->data[f->in[3]][i] < 0.5f ? others[i] : labels[i]; /* the larger share's */
        bool is_right = labels[i] >= 0;
        for (int64_t c = 0; is_right && c < n; c++)
            if (logits[i * n + c] > logits[i * n + label]) is_right = false;
        n_right += is_right;
    }
    return (float)n_right == stats[1] ? LS_OK : ls_fail(LS_ERROR, "%g right, not %d", (double)stats[1], n_right);
}

enum ls_status check_ref(const struct problem *p, const struct runner *ref)
{
    struct point x = {0};
    enum ls_status status = check_point(p, ref, &x);
    point_release(&x);
    if (status == LS_OK && p->g->nodes[0].op == LS_OP_SOFTMAX_CE) status = check_right(p, ref);
    return status;
}

/* --- a backend against ref --- */

static double tolerance_of(const struct runner *r, enum ls_op op)
{
    if (r->tolerance > backend_tolerance) return r->tolerance; /* fewer bits than float32 */
    if (op == LS_OP_BATCHNORM || op == LS_OP_BATCHNORM_BWD || op == LS_OP_BATCHNORM_EVAL) return batchnorm_tolerance;
    return r->tolerance > 0 ? r->tolerance : backend_tolerance;
}

/* The largest element, or of what it is the sum of: the gradient through batch norm is a difference of terms
 * gamma / std * diff_dst, which cancel where a channel has few values. */
static double scale_of(const struct problem *p, const struct runner *ref, const struct ls_node *n, int out)
{
    double norm = norm_of(ref->values[n->out[out]].data, problem_count(p, n->out[out])), most = 0;
    if (n->op != LS_OP_BATCHNORM_BWD || out != 0) return norm;
    const float *gamma = ref->values[n->in[1]].data, *var = ref->values[n->in[3]].data;
    for (int64_t c = 0; c < problem_count(p, n->in[3]); c++)
        most = fmax(most, fabs((double)gamma[c]) / sqrt((double)var[c] + (double)n->attrs.eps));
    return fmax(norm, most * norm_of(ref->values[n->in[5]].data, problem_count(p, n->in[5])));
}

static enum ls_status compare(enum ls_op op, const char *backend, int out, const float *got, const float *want,
                              int64_t n, double tolerance)
{
    double worst = 0;
    int64_t where = -1;
    for (int64_t i = 0; i < n; i++) {
        if (is_close((double)got[i], (double)want[i], tolerance)) continue;
        const double error = fabs((double)got[i] - (double)want[i]);
        if (where >= 0 && !(error > worst)) continue;
        worst = error;
        where = i;
    }
    if (where < 0) return LS_OK;
    return ls_fail(LS_ERROR, "%s output %d: element %lld is %.9g on %s, %.9g on ref; allowed difference %.2g",
                   ls_op_name(op), out, (long long)where, (double)got[where], backend, (double)want[where], tolerance);
}

enum ls_status check_against_ref(const struct problem *p, const struct runner *r, const struct runner *ref)
{
    for (int i = 0; i < p->n_nodes; i++) {
        const struct ls_node *n = &p->g->nodes[i];
        for (int o = 0; o < n->n_out; o++) {
            const int v = n->out[o];
            if (v < 0 || p->g->values[v].is_workspace) continue;
            const struct buffer *got = &r->values[v], *want = &ref->values[v];
            if (p->g->values[v].dtype != LS_F32) { /* sums: to the bit */
                if (memcmp(got->data, want->data, want->bytes) != 0)
                    return ls_fail(LS_ERROR, "%s: other sums on %s than on ref", ls_op_name(n->op), r->backend->name);
                continue;
            }
            TRY(compare(n->op, r->backend->name, o, got->data, want->data, problem_count(p, v),
                        tolerance_of(r, n->op) * scale_of(p, ref, n, o)));
        }
    }
    return LS_OK;
}
