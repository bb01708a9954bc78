/* softmax_ce.c: softmax and cross entropy in one, with label smoothing, and the gradient of the mean loss.
 *
 * In:  logits [mb,c], labels i32 [mb]
 * Out: diff_logits [mb,c]?, stats [2]: sum of the losses, number right (the first largest logit is the label's)
 *
 * With t[c] = (1 - smoothing) * (c is the label) + smoothing / c:
 *     loss = -sum of t * log(p),   diff_logits = (p - t) * grad_scale
 * Padding samples (from ctx->n_valid on, or with a negative label) count nothing and get a zero gradient.
 */
#include "backend/ref/ref.h"

#include <math.h>
#include <string.h>

struct row {
    double log_sum; /* log of the sum of exp(logits) */
    double total;   /* sum of the logits */
    int64_t argmax;
};

static struct row measure(const float *logits, int64_t n)
{
    struct row r = {0};
    double sum = 0.0;
    for (int64_t c = 1; c < n; c++)
        if (logits[c] > logits[r.argmax]) r.argmax = c;
    const double max = (double)logits[r.argmax];
    for (int64_t c = 0; c < n; c++) {
        sum += exp((double)logits[c] - max);
        r.total += (double)logits[c];
    }
    r.log_sum = max + log(sum);
    return r;
}

static void gradient(const float *logits, int64_t n, int64_t label, double smoothing, double log_sum, double scale,
                     float *diff_logits)
{
    for (int64_t c = 0; c < n; c++) {
        const double t = smoothing / (double)n + (c == label ? 1.0 - smoothing : 0.0);
        diff_logits[c] = (float)((exp((double)logits[c] - log_sum) - t) * scale);
    }
}

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const int64_t mb = k->in[0].dims[0], n = ls_shape_count(&k->in[0]) / mb;
    const double smoothing = (double)k->attrs.label_smoothing;
    const float *logits = b->in[0];
    const int32_t *labels = b->in[1];
    float *diff_logits = b->out[0], *stats = b->out[1];
    double loss = 0.0;
    int64_t n_right = 0;
    for (int64_t i = 0; i < mb; i++, logits += n) {
        float *diff = diff_logits ? diff_logits + i * n : NULL;
        if (i >= ctx->n_valid || labels[i] < 0) {
            if (diff) memset(diff, 0, (size_t)n * sizeof *diff);
            continue;
        }
        if (labels[i] >= n)
            return ls_fail(LS_DATA, "label %d, but the network has %lld outputs (classes 0 to %lld)", labels[i],
                           (long long)n, (long long)n - 1);
        const struct row r = measure(logits, n);
        loss +=
            (1.0 - smoothing) * (r.log_sum - (double)logits[labels[i]]) + smoothing * (r.log_sum - r.total / (double)n);
        n_right += r.argmax == labels[i];
        if (diff) gradient(logits, n, labels[i], smoothing, r.log_sum, (double)ctx->grad_scale, diff);
    }
    stats[0] = (float)loss;
    stats[1] = (float)n_right;
    return LS_OK;
}

const struct ls_impl ls__ref_softmax_ce = {
    .name = "ref",
    .op = LS_OP_SOFTMAX_CE,
    .prepare = ls__ref_prepare,
    .launch = launch,
};
