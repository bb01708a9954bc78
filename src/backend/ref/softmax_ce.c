/* softmax_ce.c: softmax and cross entropy in one, with label smoothing, and the gradient of the mean loss.
 *
 * In:  logits [mb,c], labels i32 [mb], mix_labels i32 [mb]?, mix_shares [mb]?
 * Out: diff_logits [mb,c]?, stats [2]: sum of the losses, number right (the first largest logit is the label's)
 *
 * With t[c] = (1 - smoothing) * (share of label c) + smoothing / c, where the label has a share of 1 or, mixed,
 * mix_shares and the other label the rest: loss = -sum of t * log(p),   diff_logits = (p - t) * grad_scale Padding
 * samples (from ctx->n_valid on, or with a negative label) count nothing and get a zero gradient.
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

/* What a sample is: `share` of one class, the rest of another. */
struct target {
    int64_t label, other;
    double share;
};

static void gradient(const float *logits, int64_t n, struct target target, double smoothing, double log_sum,
                     double scale, float *diff_logits)
{
    for (int64_t c = 0; c < n; c++) {
        const double is = (c == target.label ? target.share : 0.0) + (c == target.other ? 1.0 - target.share : 0.0);
        const double t = smoothing / (double)n + (1.0 - smoothing) * is;
        diff_logits[c] = (float)((exp((double)logits[c] - log_sum) - t) * scale);
    }
}

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const int64_t mb = k->in[0].dims[0], n = ls_shape_count(&k->in[0]) / mb;
    const double smoothing = (double)k->attrs.label_smoothing;
    const float *logits = b->in[0];
    const int32_t *labels = b->in[1], *others = b->in[2];
    const float *shares = b->in[3];
    float *diff_logits = b->out[0], *stats = b->out[1];
    double loss = 0.0;
    int64_t n_right = 0;
    for (int64_t i = 0; i < mb; i++, logits += n) {
        float *diff = diff_logits ? diff_logits + i * n : NULL;
        if (i >= ctx->n_valid || labels[i] < 0) {
            if (diff) memset(diff, 0, (size_t)n * sizeof *diff);
            continue;
        }
        const struct target t = {labels[i], others ? others[i] : labels[i], others ? (double)shares[i] : 1.0};
        if (t.label >= n || t.other >= n)
            return ls_fail(LS_DATA, "label %lld, but the network has %lld outputs (classes 0 to %lld)",
                           (long long)(t.label >= n ? t.label : t.other), (long long)n, (long long)n - 1);
        const struct row r = measure(logits, n);
        const double own = t.share * (double)logits[t.label] + (1.0 - t.share) * (double)logits[t.other];
        loss += (1.0 - smoothing) * (r.log_sum - own) + smoothing * (r.log_sum - r.total / (double)n);
        n_right += r.argmax == (t.share >= 0.5 ? t.label : t.other);
        if (diff) gradient(logits, n, t, smoothing, r.log_sum, (double)ctx->grad_scale, diff);
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
