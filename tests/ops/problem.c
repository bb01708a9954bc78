/* problem.c: how the inputs of each op are made: the table `setups`, a row per op (problem.h). */
#include "problem.h"

#include "base/mem.h"
#include "base/rng.h"
#include "graph/op.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

float random_number(uint64_t seed, int which, int64_t index)
{
    return 2.0f * ls__rng_unit(ls__rng(seed, LS_RNG_DATA, (uint32_t)which, 0, (uint64_t)index).v[0]) - 1.0f;
}

/* --- one function per op: adds the input values, sets the attributes --- */

struct inputs {
    int id[LS_MAX_IN], n;
    struct ls_attrs attrs;
};

static enum ls_status add_input(struct problem *p, struct inputs *in, enum ls_value_kind kind, enum ls_dtype dtype,
                                struct ls_shape shape)
{
    TRY(ls_graph_add_value(p->g, NULL, kind, dtype, &shape, &in->id[in->n]));
    in->n++;
    return LS_OK;
}

static enum ls_status add_activation(struct problem *p, struct inputs *in, struct ls_shape shape)
{
    return add_input(p, in, LS_VALUE_TEMP, LS_F32, shape);
}

static enum ls_status add_param(struct problem *p, struct inputs *in, struct ls_shape shape)
{
    return add_input(p, in, LS_VALUE_PARAM, LS_F32, shape);
}

/* [mb,c,h,w], or [mb,c] with h=0. */
static struct ls_shape image_of(struct test_case *c)
{
    const int64_t mb = case_int(c, "mb", 2), ch = case_int(c, "c", 3), h = case_int(c, "h", 4), w = case_int(c, "w", h);
    return h == 0 ? LS_SHAPE2(mb, ch) : LS_SHAPE4(mb, ch, h, w);
}

static void read_window(struct test_case *c, struct ls_attrs *a)
{
    a->kh = (int)case_int(c, "kh", 1);
    a->kw = (int)case_int(c, "kw", a->kh);
    a->sh = (int)case_int(c, "sh", 1);
    a->sw = (int)case_int(c, "sw", a->sh);
    a->ph = (int)case_int(c, "ph", 0);
    a->pw = (int)case_int(c, "pw", a->ph);
}

static enum ls_status setup_conv2d(struct problem *p, struct inputs *in)
{
    struct test_case *c = p->c;
    const int64_t ih = case_int(c, "ih", 8), ic = case_int(c, "ic", 1), oc = case_int(c, "oc", 1);
    struct ls_attrs *a = &in->attrs;
    read_window(c, a);
    a->dh = (int)case_int(c, "dh", 1);
    a->dw = (int)case_int(c, "dw", a->dh);
    a->groups = (int)case_int(c, "g", 1);
    a->relu = case_int(c, "relu", 0) != 0;
    TRY(add_activation(p, in, LS_SHAPE4(case_int(c, "mb", 1), ic, ih, case_int(c, "iw", ih))));
    TRY(add_param(p, in, LS_SHAPE4(oc, ic / a->groups, a->kh, a->kw)));
    return case_int(c, "bias", 0) ? add_param(p, in, LS_SHAPE1(oc)) : LS_OK;
}

static enum ls_status setup_linear(struct problem *p, struct inputs *in)
{
    struct test_case *c = p->c;
    const int64_t ic = case_int(c, "ic", 1), oc = case_int(c, "oc", 1);
    in->attrs.relu = case_int(c, "relu", 0) != 0;
    TRY(add_activation(p, in, LS_SHAPE2(case_int(c, "mb", 1), ic)));
    TRY(add_param(p, in, LS_SHAPE2(oc, ic)));
    return case_int(c, "bias", 0) ? add_param(p, in, LS_SHAPE1(oc)) : LS_OK;
}

static enum ls_status setup_bias(struct problem *p, struct inputs *in)
{
    const struct ls_shape src = image_of(p->c);
    TRY(add_activation(p, in, src));
    return add_param(p, in, LS_SHAPE1(src.dims[1]));
}

static enum ls_status setup_one(struct problem *p, struct inputs *in)
{
    return add_activation(p, in, image_of(p->c));
}

/* f: the number of the function in LS_ACTIVATION_MAP; the content of src is `scale` times as large. */
static enum ls_status setup_activation(struct problem *p, struct inputs *in)
{
    in->attrs.activation = (enum ls_activation)case_int(p->c, "f", 0);
    in->attrs.alpha = (float)case_get(p->c, "slope", 0.01);
    case_get(p->c, "scale", 4);
    return setup_one(p, in);
}

static enum ls_status setup_groupnorm(struct problem *p, struct inputs *in)
{
    const struct ls_shape src = image_of(p->c);
    in->attrs.groups = (int)case_int(p->c, "g", 1);
    in->attrs.eps = (float)case_get(p->c, "eps", 1e-5);
    case_get(p->c, "mean", 0);
    TRY(add_activation(p, in, src));
    TRY(add_param(p, in, LS_SHAPE1(src.dims[1])));
    return add_param(p, in, LS_SHAPE1(src.dims[1]));
}

static enum ls_status setup_layernorm(struct problem *p, struct inputs *in)
{
    const struct ls_shape src = image_of(p->c);
    struct ls_shape shape = LS_SHAPE1(src.dims[1]);
    if (case_int(p->c, "whole", 0) && src.n_dims == 4)
        shape = (struct ls_shape){.n_dims = 3, .dims = {src.dims[1], src.dims[2], src.dims[3]}};
    in->attrs.eps = (float)case_get(p->c, "eps", 1e-5);
    case_get(p->c, "mean", 0);
    TRY(add_activation(p, in, src));
    TRY(add_param(p, in, shape));
    return add_param(p, in, shape);
}

static enum ls_status setup_pool(struct problem *p, struct inputs *in)
{
    struct ls_attrs *a = &in->attrs;
    read_window(p->c, a);
    a->dh = (int)case_int(p->c, "dh", 1);
    a->dw = (int)case_int(p->c, "dw", a->dh);
    a->ceil = case_int(p->c, "ceil", 0) != 0;
    a->skip_pad = case_int(p->c, "skippad", 0) != 0;
    a->oh = (int)case_int(p->c, "oh", 0); /* adaptive */
    a->ow = (int)case_int(p->c, "ow", a->oh);
    case_int(p->c, "ties", 0);
    return add_activation(p, in, image_of(p->c));
}

static enum ls_status setup_norm(struct problem *p, struct inputs *in)
{
    const struct ls_shape src = image_of(p->c);
    in->attrs.relu = case_int(p->c, "relu", 0) != 0;
    in->attrs.eps = (float)case_get(p->c, "eps", 1e-5);
    case_get(p->c, "mean", 0); /* of src */
    case_get(p->c, "diff", 1); /* the largest diff_dst: sums of many must not leave the range of fixed point */
    TRY(add_activation(p, in, src));
    TRY(add_param(p, in, LS_SHAPE1(src.dims[1])));
    return add_param(p, in, LS_SHAPE1(src.dims[1]));
}

/* other=1: something is added; more=1: and the gradient comes in two parts. */
static enum ls_status setup_batchnorm(struct problem *p, struct inputs *in)
{
    TRY(setup_norm(p, in));
    case_int(p->c, "more", 0);
    return case_int(p->c, "other", 0) ? setup_one(p, in) : LS_OK;
}

static enum ls_status setup_batchnorm_eval(struct problem *p, struct inputs *in)
{
    TRY(setup_norm(p, in));
    const struct ls_shape c = p->g->values[in->id[1]].shape;
    TRY(add_input(p, in, LS_VALUE_BUFFER, LS_F32, c));
    return add_input(p, in, LS_VALUE_BUFFER, LS_F32, c);
}

static enum ls_status setup_dropout(struct problem *p, struct inputs *in)
{
    in->attrs.p = (float)case_get(p->c, "p", 0.5);
    in->attrs.layer = (int)case_int(p->c, "layer", 0);
    return setup_one(p, in);
}

static enum ls_status setup_lrn(struct problem *p, struct inputs *in)
{
    in->attrs.size = (int)case_int(p->c, "size", 5);
    in->attrs.alpha = (float)case_get(p->c, "alpha", 1e-4);
    in->attrs.beta = (float)case_get(p->c, "beta", 0.75);
    in->attrs.k = (float)case_get(p->c, "k", 1);
    return setup_one(p, in);
}

static enum ls_status setup_add(struct problem *p, struct inputs *in)
{
    in->attrs.relu = case_int(p->c, "relu", 0) != 0;
    TRY(setup_one(p, in));
    return setup_one(p, in);
}

static enum ls_status setup_concat(struct problem *p, struct inputs *in)
{
    static const char *const keys[] = {"c0", "c1", "c2", "c3"};
    struct ls_shape s = image_of(p->c);
    for (int i = 0; i < 4; i++) {
        s.dims[1] = case_int(p->c, keys[i], 0);
        if (s.dims[1] > 0) TRY(add_activation(p, in, s));
    }
    return LS_OK;
}

static enum ls_status setup_softmax_ce(struct problem *p, struct inputs *in)
{
    const int64_t mb = case_int(p->c, "mb", 2), n = case_int(p->c, "c", 10);
    in->attrs.label_smoothing = (float)case_get(p->c, "smoothing", 0);
    p->ctx.n_valid = (int)case_int(p->c, "valid", mb);
    TRY(add_activation(p, in, LS_SHAPE2(mb, n)));
    TRY(add_input(p, in, LS_VALUE_LABELS, LS_I32, LS_SHAPE1(mb)));
    if (!case_int(p->c, "mix", 0)) return LS_OK;
    TRY(add_input(p, in, LS_VALUE_LABELS, LS_I32, LS_SHAPE1(mb)));
    return add_input(p, in, LS_VALUE_INPUT, LS_F32, LS_SHAPE1(mb));
}

static const struct {
    const char *name;
    enum ls_op op;
    enum ls_status (*setup)(struct problem *, struct inputs *);
} setups[] = {
    {"conv2d", LS_OP_CONV2D, setup_conv2d},
    {"linear", LS_OP_LINEAR, setup_linear},
    {"bias", LS_OP_BIAS, setup_bias},
    {"relu", LS_OP_RELU, setup_one},
    {"activation", LS_OP_ACTIVATION, setup_activation},
    {"groupnorm", LS_OP_GROUPNORM, setup_groupnorm},
    {"layernorm", LS_OP_LAYERNORM, setup_layernorm},
    {"maxpool", LS_OP_MAXPOOL, setup_pool},
    {"avgpool", LS_OP_AVGPOOL, setup_pool},
    {"batchnorm", LS_OP_BATCHNORM, setup_batchnorm},
    {"batchnorm_eval", LS_OP_BATCHNORM_EVAL, setup_batchnorm_eval},
    {"dropout", LS_OP_DROPOUT, setup_dropout},
    {"lrn", LS_OP_LRN, setup_lrn},
    {"add", LS_OP_ADD, setup_add},
    {"concat", LS_OP_CONCAT, setup_concat},
    {"reshape", LS_OP_RESHAPE, setup_one},
    {"reorder", LS_OP_REORDER, setup_one},
    {"softmax_ce", LS_OP_SOFTMAX_CE, setup_softmax_ce},
};

/* --- backward nodes, by the rules of the gradient pass --- */

static int gradient_of(const struct problem *p, const struct ls_gradient *gr, int value)
{
    const struct ls_value *v = &p->g->values[value];
    if (v->kind == LS_VALUE_PARAM && v->grad >= 0) return p->g->nodes[p->g->values[v->grad].producer].in[0];
    return v->kind == LS_VALUE_TEMP ? gr->grad[value] : -1;
}

static enum ls_status append_backward(struct problem *p, struct ls_gradient *gr)
{
    const struct ls_node forward = p->g->nodes[0];
    const struct ls_op_def *def = ls__op_def(forward.op);
    for (int i = 0; i < gr->n_values; i++) {
        gr->grad[i] = gr->more[i] = -1;
        gr->is_needed[i] = true;
    }
    if (forward.op == LS_OP_SOFTMAX_CE) {
        p->grads[0] = forward.out[0];
        return LS_OK;
    }
    if (!def->gradient || !p->g->is_training) return LS_OK;
    const struct ls_shape dst = p->g->values[forward.out[0]].shape;
    TRY(ls_graph_add_value(p->g, "diff_dst", LS_VALUE_TEMP, LS_F32, &dst, &p->diff_dst));
    if (forward.op == LS_OP_BATCHNORM && case_int(p->c, "more", 0)) {
        TRY(ls_graph_add_value(p->g, "diff_more", LS_VALUE_TEMP, LS_F32, &dst, &p->diff_more));
        gr->more[forward.out[0]] = p->diff_more;
    }
    TRY(def->gradient(gr, 0, p->diff_dst));
    for (int i = 0; i < forward.n_in; i++) p->grads[i] = gradient_of(p, gr, forward.in[i]);
    return LS_OK;
}

static enum ls_status add_backward(struct problem *p)
{
    struct ls_gradient gr = {.g = p->g, .n_forward = 1, .n_values = p->g->n_values};
    enum ls_status status = ls__calloc(&gr.grad, (size_t)gr.n_values, sizeof *gr.grad);
    if (status == LS_OK) status = ls__calloc(&gr.more, (size_t)gr.n_values, sizeof *gr.more);
    if (status == LS_OK) status = ls__calloc(&gr.is_needed, (size_t)gr.n_values, sizeof *gr.is_needed);
    if (status == LS_OK) status = ls__calloc(&gr.is_masked, (size_t)gr.n_values, sizeof *gr.is_masked);
    if (status == LS_OK) status = append_backward(p, &gr);
    free(gr.grad);
    free(gr.more);
    free(gr.is_needed);
    free(gr.is_masked);
    return status;
}

/* --- contents --- */

static float content(struct problem *p, int value, int64_t i)
{
    const struct ls_node *f = &p->g->nodes[0];
    const float r = random_number(case_seed(p->c), value, i);
    if (f->op == LS_OP_BATCHNORM_EVAL && value == f->in[4]) return 0.6f + 0.5f * r; /* a variance */
    if (f->op == LS_OP_ACTIVATION && value == f->in[0]) return (float)case_get(p->c, "scale", 4) * r;
    if ((f->op == LS_OP_GROUPNORM || f->op == LS_OP_LAYERNORM) && value == f->in[0])
        return (float)case_get(p->c, "mean", 0) + r;
    if (f->op == LS_OP_BATCHNORM && value == f->in[0]) return (float)case_get(p->c, "mean", 0) + r;
    if (f->op == LS_OP_BATCHNORM && (value == p->diff_dst || value == p->diff_more))
        return (float)case_get(p->c, "diff", 1) * r;
    if (f->op == LS_OP_MAXPOOL && value == f->in[0] && case_int(p->c, "ties", 0)) return floorf(2.0f * r);
    if (f->op == LS_OP_SOFTMAX_CE && value == f->in[3] && f->n_in > 3) return i % 7 == 3 ? 1.0f : 0.5f + 0.5f * r;
    if (f->op == LS_OP_SOFTMAX_CE) return 3.0f * r;
    return r;
}

/* Every fifth label says "padding". */
static void fill_labels(struct problem *p, int value, int32_t *labels, int64_t mb, int64_t n_classes)
{
    for (int64_t i = 0; i < mb; i++) {
        const float r = 0.5f * random_number(case_seed(p->c), 999 + value, i) + 0.5f;
        labels[i] = i % 5 == 4 ? -1 : (int32_t)(r * (float)n_classes);
    }
}

static enum ls_status fill(struct problem *p)
{
    TRY(ls__calloc(&p->data, (size_t)p->n_values, sizeof *p->data));
    for (int v = 0; v < p->n_values; v++) {
        const struct ls_value *value = &p->g->values[v];
        const int64_t n = problem_count(p, v);
        if (value->producer >= 0) continue;
        TRY(ls__calloc(&p->data[v], (size_t)n, 4));
        if (value->kind == LS_VALUE_LABELS)
            fill_labels(p, v, (int32_t *)p->data[v], n, p->g->values[p->g->nodes[0].in[0]].shape.dims[1]);
        else
            for (int64_t i = 0; i < n; i++) p->data[v][i] = content(p, v, i);
    }
    return LS_OK;
}

enum ls_status problem_build(struct problem *p, struct test_case *c)
{
    struct inputs in = {.n = 0};
    const int64_t mb = case_int(c, "mb", 1);
    *p = (struct problem){.c = c, .diff_dst = -1, .diff_more = -1};
    for (int i = 0; i < LS_MAX_IN; i++) p->grads[i] = -1;
    if (mb < 1 || mb > PROBLEM_MAX_MB) return ls_fail(LS_USAGE, "mb must be 1 to %d", PROBLEM_MAX_MB);
    for (int i = 0; i < PROBLEM_MAX_MB; i++) p->samples[i] = (uint32_t)(i * 7919 + 13);
    p->ctx = (struct ls_step_ctx){.seed = case_seed(c),
                                  .step = 3,
                                  .n_valid = (int)mb,
                                  .grad_scale = 1.0f / (float)mb,
                                  .share = 1.0f,
                                  .clip_scale = 1.0f,
                                  .n_parts = 1};
    TRY(ls_graph_create(&p->g, mb, case_int(c, "train", 1) != 0));
    for (size_t i = 0; i < sizeof setups / sizeof *setups; i++) {
        if (strcmp(setups[i].name, c->op) != 0) continue;
        TRY(setups[i].setup(p, &in));
        TRY(case_check_used(c));
        TRY(ls_graph_add_node(p->g, setups[i].op, c->op, &in.attrs, in.id, in.n, NULL));
        TRY(add_backward(p));
        p->n_nodes = p->g->n_nodes;
        p->n_values = p->g->n_values;
        return fill(p);
    }
    return ls_fail(LS_USAGE, "no op named '%s'", c->op);
}

void problem_release(struct problem *p)
{
    for (int v = 0; p->data && v < p->n_values; v++) free(p->data[v]);
    free(p->data);
    ls_graph_destroy(&p->g);
}

void problem_round(struct problem *p)
{
    for (int v = 0; v < p->n_values; v++) {
        if (!p->data[v] || p->g->values[v].dtype != LS_F32) continue;
        for (int64_t i = 0; i < problem_count(p, v); i++) {
            uint32_t bits;
            memcpy(&bits, &p->data[v][i], sizeof bits);
            bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000; /* to nearest, ties to even */
            memcpy(&p->data[v][i], &bits, sizeof bits);
        }
    }
}
