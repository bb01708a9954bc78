/* oracle.c: one function per op, element by element (oracle.h); oracle_forward has the list. */
#include "oracle.h"

#include "base/rng.h"

#include <math.h>

static const struct ls_shape *in_shape(const struct problem *p, int i)
{
    return &p->g->values[p->g->nodes[0].in[i]].shape;
}

static const struct ls_shape *dst_shape(const struct problem *p)
{
    return &p->g->values[p->g->nodes[0].out[0]].shape;
}

static const struct ls_attrs *attrs(const struct problem *p)
{
    return &p->g->nodes[0].attrs;
}

static double relu_if(bool relu, double x)
{
    return relu && x < 0 ? 0 : x;
}

static int64_t pixels(const struct ls_shape *s)
{
    return s->n_dims == 4 ? s->dims[2] * s->dims[3] : 1;
}

/* src[mb,c,y,x], zero outside. */
static double at(const double *src, const struct ls_shape *s, int64_t mb, int64_t c, int64_t y, int64_t x)
{
    if (y < 0 || x < 0 || y >= s->dims[2] || x >= s->dims[3]) return 0;
    return src[((mb * s->dims[1] + c) * s->dims[2] + y) * s->dims[3] + x];
}

static double conv_at(const struct problem *p, double *const *in, int64_t mb, int64_t oc, int64_t oh, int64_t ow)
{
    const struct ls_attrs *a = attrs(p);
    const struct ls_shape *w = in_shape(p, 1);
    const int64_t icg = w->dims[1], first = oc / (w->dims[0] / a->groups) * icg;
    double sum = p->g->nodes[0].n_in > 2 ? in[2][oc] : 0;
    for (int64_t ic = 0; ic < icg; ic++)
        for (int64_t kh = 0; kh < a->kh; kh++)
            for (int64_t kw = 0; kw < a->kw; kw++)
                sum += at(in[0], in_shape(p, 0), mb, first + ic, oh * a->sh - a->ph + kh * a->dh,
                          ow * a->sw - a->pw + kw * a->dw) *
                       in[1][((oc * icg + ic) * a->kh + kh) * a->kw + kw];
    return relu_if(a->relu, sum);
}

static double maxpool_at(const struct problem *p, double *const *in, int64_t mb, int64_t c, int64_t oh, int64_t ow)
{
    const struct ls_attrs *a = attrs(p);
    const struct ls_shape *s = in_shape(p, 0);
    double max = -INFINITY;
    for (int64_t kh = 0; kh < a->kh; kh++)
        for (int64_t kw = 0; kw < a->kw; kw++) {
            const int64_t y = oh * a->sh - a->ph + kh * a->dh, x = ow * a->sw - a->pw + kw * a->dw;
            if (y >= 0 && x >= 0 && y < s->dims[2] && x < s->dims[3]) max = fmax(max, at(in[0], s, mb, c, y, x));
        }
    return max;
}

/* How many places count is counted. */
static double avgpool_at(const struct problem *p, double *const *in, int64_t mb, int64_t c, int64_t oh, int64_t ow)
{
    const struct ls_attrs *a = attrs(p);
    const struct ls_shape *s = in_shape(p, 0);
    const int64_t y0 = a->oh ? 0 : oh * a->sh - a->ph, y1 = a->oh ? s->dims[2] : y0 + a->kh;
    const int64_t x0 = a->oh ? 0 : ow * a->sw - a->pw, x1 = a->oh ? s->dims[3] : x0 + a->kw;
    double sum = 0, n = 0;
    for (int64_t y = y0; y < y1; y++)
        for (int64_t x = x0; x < x1; x++) {
            const bool is_inside = y >= 0 && x >= 0 && y < s->dims[2] && x < s->dims[3];
            const bool is_padded = y < s->dims[2] + a->ph && x < s->dims[3] + a->pw;
            /* pixel y is the part [y, y + 1) of the image, window oh of an adaptive one the part [oh, oh + 1) h/OH */
            if (a->oh && !((y + 1) * a->oh > oh * s->dims[2] && y * a->oh < (oh + 1) * s->dims[2] &&
                           (x + 1) * a->ow > ow * s->dims[3] && x * a->ow < (ow + 1) * s->dims[3]))
                continue;
            if (a->skip_pad ? !is_inside : !is_padded) continue;
            n++;
            sum += at(in[0], s, mb, c, y, x);
        }
    return sum / n;
}

static double lrn_at(const struct problem *p, double *const *in, int64_t mb, int64_t c, int64_t y, int64_t x)
{
    const struct ls_attrs *a = attrs(p);
    const struct ls_shape *s = in_shape(p, 0);
    double sum = 0;
    for (int64_t i = c - a->size / 2; i <= c + (a->size - 1) / 2; i++)
        if (i >= 0 && i < s->dims[1]) sum += pow(at(in[0], s, mb, i, y, x), 2);
    return at(in[0], s, mb, c, y, x) / pow((double)a->k + (double)a->alpha * sum / a->size, (double)a->beta);
}

typedef double pixel_fn(const struct problem *, double *const *, int64_t, int64_t, int64_t, int64_t);

static void for_pixels(const struct problem *p, double *const *in, double *dst, pixel_fn *fn)
{
    const struct ls_shape *d = dst_shape(p);
    for (int64_t mb = 0; mb < d->dims[0]; mb++)
        for (int64_t c = 0; c < d->dims[1]; c++)
            for (int64_t y = 0; y < d->dims[2]; y++)
                for (int64_t x = 0; x < d->dims[3]; x++) *dst++ = fn(p, in, mb, c, y, x);
}

static void linear(const struct problem *p, double *const *in, double *dst)
{
    const int64_t mb = in_shape(p, 0)->dims[0], ic = in_shape(p, 0)->dims[1], oc = in_shape(p, 1)->dims[0];
    for (int64_t i = 0; i < mb * oc; i++) {
        double sum = p->g->nodes[0].n_in > 2 ? in[2][i % oc] : 0;
        for (int64_t k = 0; k < ic; k++) sum += in[0][i / oc * ic + k] * in[1][i % oc * ic + k];
        dst[i] = relu_if(attrs(p)->relu, sum);
    }
}

/* Elements of channel c one after the other: the j-th of mb * pixels. */
static int64_t nth(const struct ls_shape *s, int64_t c, int64_t j)
{
    const int64_t n = pixels(s);
    return (j / n * s->dims[1] + c) * n + j % n;
}

static void batchnorm(const struct problem *p, double *const *in, double *dst)
{
    const struct ls_shape *s = in_shape(p, 0);
    const int64_t n = s->dims[0] * pixels(s);
    const bool is_eval = p->g->nodes[0].op == LS_OP_BATCHNORM_EVAL, has_other = !is_eval && p->g->nodes[0].n_in > 3;
    for (int64_t c = 0; c < s->dims[1]; c++) {
        double mean = 0, var = 0;
        for (int64_t j = 0; j < n; j++) mean += in[0][nth(s, c, j)] / (double)n;
        for (int64_t j = 0; j < n; j++) var += pow(in[0][nth(s, c, j)] - mean, 2) / (double)n;
        if (is_eval) {
            mean = in[3][c];
            var = in[4][c];
        }
        for (int64_t j = 0; j < n; j++) {
            const double x = (in[0][nth(s, c, j)] - mean) / sqrt(var + (double)attrs(p)->eps);
            const double other = has_other ? in[3][nth(s, c, j)] : 0;
            dst[nth(s, c, j)] = relu_if(attrs(p)->relu, x * in[1][c] + in[2][c] + other);
        }
    }
}

/* Which of a sample's sets element i is normalised with. */
static int64_t set_of(const struct problem *p, int64_t i)
{
    const struct ls_shape *s = in_shape(p, 0);
    if (p->g->nodes[0].op == LS_OP_GROUPNORM) return i / pixels(s) / (s->dims[1] / attrs(p)->groups);
    return in_shape(p, 1)->n_dims == 3 ? 0 : i % pixels(s);
}

static void group_or_layer_norm(const struct problem *p, double *const *in, double *dst)
{
    enum { MOST_SETS = 4096 };
    const struct ls_shape *s = in_shape(p, 0);
    const int64_t per_sample = s->dims[1] * pixels(s);
    for (int64_t first = 0; first < s->dims[0] * per_sample; first += per_sample) {
        double n[MOST_SETS] = {0}, mean[MOST_SETS] = {0}, var[MOST_SETS] = {0};
        const double *x = in[0] + first;
        for (int64_t i = 0; i < per_sample; i++) n[set_of(p, i)]++;
        for (int64_t i = 0; i < per_sample; i++) mean[set_of(p, i)] += x[i] / n[set_of(p, i)];
        for (int64_t i = 0; i < per_sample; i++)
            var[set_of(p, i)] += pow(x[i] - mean[set_of(p, i)], 2) / n[set_of(p, i)];
        for (int64_t i = 0; i < per_sample; i++) {
            const int64_t set = set_of(p, i), param = in_shape(p, 1)->n_dims == 3 ? i : i / pixels(s);
            dst[first + i] = (x[i] - mean[set]) / sqrt(var[set] + (double)attrs(p)->eps) * in[1][param] + in[2][param];
        }
    }
}

static double activation(const struct ls_attrs *a, double x)
{
    switch (a->activation) {
    case LS_ACT_GELU:
        return x * 0.5 * erfc(-x / sqrt(2));
    case LS_ACT_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * pow(x, 3))));
    case LS_ACT_SILU:
        return x / (1 + exp(-x));
    case LS_ACT_HARDSWISH:
        return x * fmin(fmax(x + 3, 0), 6) / 6;
    case LS_ACT_TANH:
        return tanh(x);
    case LS_ACT_SIGMOID:
        return 1 / (1 + exp(-x));
    case LS_ACT_LEAKY_RELU:
        return x > 0 ? x : (double)a->alpha * x;
    case LS_ACT_RELU6:
        return fmin(fmax(x, 0), 6);
    default:
        return NAN;
    }
}

static void dropout(const struct problem *p, double *const *in, double *dst)
{
    const int64_t n = problem_count(p, p->g->nodes[0].in[0]), per_sample = n / in_shape(p, 0)->dims[0];
    const struct ls_attrs *a = attrs(p);
    for (int64_t i = 0; i < n; i++) {
        const uint64_t sample = p->samples[i / per_sample], e = (uint64_t)(i % per_sample);
        const struct ls_rng4 r =
            ls__rng(p->ctx.seed, LS_RNG_DROPOUT, (uint32_t)p->ctx.step, (uint32_t)a->layer, (sample << 32) | (e / 4));
        dst[i] = ls__rng_unit(r.v[e % 4]) < a->p ? 0 : in[0][i] / (1 - (double)a->p);
    }
}

static void concat(const struct problem *p, double *const *in, double *dst)
{
    const struct ls_shape *d = dst_shape(p);
    const int64_t n = pixels(d);
    for (int64_t mb = 0; mb < d->dims[0]; mb++)
        for (int i = 0; i < p->g->nodes[0].n_in; i++) {
            const int64_t len = in_shape(p, i)->dims[1] * n;
            for (int64_t k = 0; k < len; k++) *dst++ = in[i][mb * len + k];
        }
}

static double softmax_ce(const struct problem *p, double *const *in)
{
    const int64_t n = in_shape(p, 0)->dims[1];
    const double eps = (double)attrs(p)->label_smoothing;
    double loss = 0;
    for (int64_t mb = 0; mb < p->ctx.n_valid; mb++) {
        double sum = 0;
        if (in[1][mb] < 0) continue;
        for (int64_t c = 0; c < n; c++) sum += exp(in[0][mb * n + c]);
        for (int64_t c = 0; c < n; c++) {
            const double share = p->g->nodes[0].n_in > 2 ? in[3][mb] : 1;
            double is = (double)c == in[1][mb] ? share : 0;
            if (share < 1 && (double)c == in[2][mb]) is += 1 - share;
            const double target = is * (1 - eps) + eps / (double)n;
            loss -= target * (in[0][mb * n + c] - log(sum));
        }
    }
    return loss;
}

int64_t oracle_count(const struct problem *p)
{
    return p->g->nodes[0].op == LS_OP_SOFTMAX_CE ? 1 : ls_shape_count(dst_shape(p));
}

bool oracle_forward(const struct problem *p, double *const *in, double *dst)
{
    const struct ls_shape *s = in_shape(p, 0);
    const int64_t n = oracle_count(p);
    switch (p->g->nodes[0].op) {
    case LS_OP_CONV2D:
        for_pixels(p, in, dst, conv_at);
        return true;
    case LS_OP_MAXPOOL:
        for_pixels(p, in, dst, maxpool_at);
        return true;
    case LS_OP_AVGPOOL:
        for_pixels(p, in, dst, avgpool_at);
        return true;
    case LS_OP_LRN:
        for_pixels(p, in, dst, lrn_at);
        return true;
    case LS_OP_LINEAR:
        linear(p, in, dst);
        return true;
    case LS_OP_BATCHNORM:
    case LS_OP_BATCHNORM_EVAL:
        batchnorm(p, in, dst);
        return true;
    case LS_OP_GROUPNORM:
    case LS_OP_LAYERNORM:
        group_or_layer_norm(p, in, dst);
        return true;
    case LS_OP_ACTIVATION:
        for (int64_t i = 0; i < n; i++) dst[i] = activation(attrs(p), in[0][i]);
        return true;
    case LS_OP_DROPOUT:
        dropout(p, in, dst);
        return true;
    case LS_OP_CONCAT:
        concat(p, in, dst);
        return true;
    case LS_OP_SOFTMAX_CE:
        *dst = softmax_ce(p, in);
        return true;
    case LS_OP_BIAS:
        for (int64_t i = 0; i < n; i++) dst[i] = in[0][i] + in[1][i / pixels(s) % s->dims[1]];
        return true;
    case LS_OP_RELU:
        for (int64_t i = 0; i < n; i++) dst[i] = relu_if(true, in[0][i]);
        return true;
    case LS_OP_ADD:
        for (int64_t i = 0; i < n; i++) dst[i] = relu_if(attrs(p)->relu, in[0][i] + in[1][i]);
        return true;
    case LS_OP_RESHAPE:
    case LS_OP_REORDER:
        for (int64_t i = 0; i < n; i++) dst[i] = in[0][i];
        return true;
    default:
        return false;
    }
}
