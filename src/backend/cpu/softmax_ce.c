/* softmax_ce.c: softmax, cross entropy and the gradient of the mean loss, as backend/ref/softmax_ce.c defines them.
 *
 * In:  logits [mb,c], labels i32 [mb], mix_labels i32 [mb]?, mix_shares [mb]?
 * Out: diff_logits [mb,c]?, stats [2]: sum of the losses, number right (the first largest logit is the label's)
 *
 * Three passes, so that the exponentials of a whole shard are one long loop even with ten classes: the largest logit of
 * each row is subtracted, all are exponentiated (float), rows are summed (double) and turned into gradients. The
 * label's own gradient p - 1 is minus the sum of the others' p, which keeps its digits when p is nearly 1.
 */
#include "backend/cpu/exp.h"
#include "backend/cpu/impls.h"
#include "base/simd.h"

#include <math.h>
#include <string.h>

enum { LANES = 16 };

struct row {
    double total; /* sum of the logits */
    float max;
    int32_t argmax;
};

struct softmax {
    struct ls_kernel base;
    int64_t mb, n;
    double smoothing;
};

static size_t rows_offset(const struct softmax *k)
{
    return ((size_t)(k->mb * k->n) * sizeof(float) + 63) / 64 * 64;
}

static enum ls_status prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    struct softmax *k;
    TRY(ls_kernel_create(&k, sizeof *k, prep, &ls__cpu_softmax_ce));
    const struct ls_shape *logits = &prep->graph->values[prep->node->in[0]].shape;
    k->mb = logits->dims[0];
    k->n = ls_shape_count(logits) / k->mb;
    k->smoothing = (double)prep->node->attrs.label_smoothing;
    k->base.scratch_bytes = rows_offset(k) + (size_t)k->mb * sizeof(struct row);
    *out = &k->base;
    return LS_OK;
}

LS_VECTORIZE static float softmax_max(const float *x, int64_t n)
{
    float lanes[LANES], max = x[0];
    int64_t i = 0;
    if (n >= LANES) {
        memcpy(lanes, x, sizeof lanes);
        for (i = LANES; i + LANES <= n; i += LANES)
            for (int l = 0; l < LANES; l++) lanes[l] = x[i + l] > lanes[l] ? x[i + l] : lanes[l];
        max = lanes[0];
        for (int l = 1; l < LANES; l++) max = lanes[l] > max ? lanes[l] : max;
    }
    for (; i < n; i++) max = x[i] > max ? x[i] : max;
    return max;
}

/* In LANES partial sums, so that it vectorises in a fixed order. */
LS_VECTORIZE static double softmax_sum(const float *x, int64_t n)
{
    double lanes[LANES] = {0}, sum = 0.0;
    int64_t i = 0;
    if (n >= LANES) {
        for (; i + LANES <= n; i += LANES)
            for (int l = 0; l < LANES; l++) lanes[l] += (double)x[i + l];
        for (int l = 0; l < LANES; l++) sum += lanes[l];
    }
    for (; i < n; i++) sum += (double)x[i];
    return sum;
}

LS_VECTORIZE static void softmax_shift(const float *restrict x, float max, float *restrict e, int64_t n)
{
    for (int64_t i = 0; i < n; i++) e[i] = x[i] - max;
}

LS_VECTORIZE static void softmax_exp(float *e, int64_t n)
{
    for (int64_t i = 0; i < n; i++) e[i] = ls__cpu_exp(e[i]);
}

LS_VECTORIZE static void softmax_gradient(const float *restrict e, float inverse, float target, float scale,
                                          float *restrict diff, int64_t n)
{
    for (int64_t i = 0; i < n; i++) diff[i] = (e[i] * inverse - target) * scale;
}

static bool is_padding(const int32_t *labels, int64_t i, const struct ls_step_ctx *ctx)
{
    return i >= ctx->n_valid || labels[i] < 0;
}

static void measure(const struct softmax *k, const float *logits, struct row *r)
{
    r->max = softmax_max(logits, k->n);
    r->argmax = 0;
    while (r->argmax + 1 < k->n && logits[r->argmax] != r->max) r->argmax++;
    if (logits[r->argmax] != r->max) r->argmax = 0; /* NaN */
    r->total = k->smoothing != 0 ? softmax_sum(logits, k->n) : 0.0;
}

static enum ls_status check_label(const struct softmax *k, int32_t label)
{
    if (label < k->n) return LS_OK;
    return ls_fail(LS_DATA, "label %d, but the network has %lld outputs (classes 0 to %lld)", label, (long long)k->n,
                   (long long)k->n - 1);
}

static enum ls_status exponentials(const struct softmax *k, const float *logits, const int32_t *labels,
                                   const int32_t *others, const struct ls_step_ctx *ctx, float *e, struct row *rows)
{
    for (int64_t i = 0; i < k->mb; i++) {
        if (is_padding(labels, i, ctx)) {
            memset(e + i * k->n, 0, (size_t)k->n * sizeof *e);
            continue;
        }
        TRY(check_label(k, labels[i]));
        if (others) TRY(check_label(k, others[i]));
        measure(k, logits + i * k->n, &rows[i]);
        softmax_shift(logits + i * k->n, rows[i].max, e + i * k->n, k->n);
    }
    softmax_exp(e, k->mb * k->n);
    return LS_OK;
}

static void gradient(const struct softmax *k, const float *e, double sum, int32_t label, double scale, float *diff)
{
    const double target = k->smoothing / (double)k->n, others = sum - (double)e[label];
    softmax_gradient(e, (float)(1.0 / sum), (float)target, (float)scale, diff, k->n);
    diff[label] = (float)((k->smoothing - target - others / sum) * scale);
}

/* A sample of two classes; what was computed for the first alone is amended. Where the first has all, it stands. */
static void mix(const struct softmax *k, const float *logits, const float *e, double sum, int32_t label, int32_t other,
                double share, double scale, float *diff, double *loss)
{
    const double rest = (1.0 - share) * (1.0 - k->smoothing), target = k->smoothing / (double)k->n;
    if (other == label || share >= 1.0) return;
    *loss += rest * ((double)logits[label] - (double)logits[other]);
    if (!diff) return;
    diff[label] = (float)(((double)e[label] / sum - (share * (1.0 - k->smoothing) + target)) * scale);
    diff[other] = (float)(((double)e[other] / sum - (rest + target)) * scale);
}

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct softmax *k = (const struct softmax *)b->kernel;
    const float *logits = b->in[0];   /* [mb,n] */
    const int32_t *labels = b->in[1]; /* [mb] */
    const int32_t *others = b->in[2]; /* [mb], or NULL: nothing is mixed */
    const float *shares = b->in[3];   /* [mb] */
    float *diff_logits = b->out[0], *stats = b->out[1], *e = b->scratch;
    struct row *rows = (struct row *)((char *)b->scratch + rows_offset(k));
    double loss = 0.0;
    int64_t n_right = 0;
    TRY(exponentials(k, logits, labels, others, ctx, e, rows));
    for (int64_t i = 0; i < k->mb; i++, logits += k->n, e += k->n) {
        float *diff = diff_logits ? diff_logits + i * k->n : NULL;
        if (is_padding(labels, i, ctx)) {
            if (diff) memset(diff, 0, (size_t)k->n * sizeof *diff);
            continue;
        }
        const double sum = softmax_sum(e, k->n), log_sum = (double)rows[i].max + log(sum);
        loss += (1.0 - k->smoothing) * (log_sum - (double)logits[labels[i]]);
        if (k->smoothing != 0) loss += k->smoothing * (log_sum - rows[i].total / (double)k->n);
        n_right += rows[i].argmax == (others && shares[i] < 0.5f ? others[i] : labels[i]);
        if (diff) gradient(k, e, sum, labels[i], (double)ctx->grad_scale, diff);
        if (others)
            mix(k, logits, e, sum, labels[i], others[i], (double)shares[i], (double)ctx->grad_scale, diff, &loss);
    }
    stats[0] = (float)loss;
    stats[1] = (float)n_right;
    return LS_OK;
}

const struct ls_impl ls__cpu_softmax_ce = {.name = "own", .op = LS_OP_SOFTMAX_CE, .prepare = prepare, .launch = launch};
