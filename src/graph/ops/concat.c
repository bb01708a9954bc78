/* concat: inputs [mb,c_i,h,w] (or [mb,c_i]) joined along the channels. */
#include "graph/op.h"

static enum ls_status infer(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    char a[LS_SHAPE_TEXT], b[LS_SHAPE_TEXT];
    struct ls_shape dst = *ls__in_shape(g, n, 0);
    for (int i = 1; i < n->n_in; i++) {
        struct ls_shape other = *ls__in_shape(g, n, i);
        dst.dims[1] += other.dims[1];
        other.dims[1] = dst.dims[1];
        if (!ls_shape_is_equal(&other, &dst))
            return ls_fail(LS_DATA, "cannot join %s and %s along the channels", ls_shape_text(ls__in_shape(g, n, 0), a),
                           ls_shape_text(ls__in_shape(g, n, i), b));
    }
    n->n_out = 1;
    out[0] = (struct ls_out){.is_present = true, .shape = dst};
    return LS_OK;
}

static enum ls_status gradient(struct ls_gradient *gr, int index, int diff_dst)
{
    const struct ls_node n = gr->g->nodes[index];
    int offset = 0;
    for (int i = 0; i < n.n_in; i++) {
        int out[LS_MAX_OUT];
        if (ls__gradient_is_needed(gr, n.in[i])) {
            gr->g->nodes[index].attrs.offset = offset; /* copied into the backward node */
            TRY(ls__gradient_node(gr, LS_OP_CONCAT_BWD, index, &diff_dst, 1, out));
            TRY(ls__gradient_flow(gr, n.in[i], out[0]));
        }
        offset += (int)ls__in_shape(gr->g, &n, i)->dims[1];
    }
    gr->g->nodes[index].attrs.offset = 0;
    return LS_OK;
}

const struct ls_op_def ls__op_concat = {.min_in = 2, .max_in = LS_MAX_IN, .infer = infer, .gradient = gradient};

/* The slice of diff_dst that begins at channel attrs.offset: as long as the input that stood there. */
static enum ls_status infer_bwd(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    if (n->forward < 0) return ls_fail(LS_INTERNAL, "concat_bwd without its forward node");
    const struct ls_node *f = &g->nodes[n->forward];
    int64_t at = 0;
    n->n_out = 1;
    for (int i = 0; i < f->n_in; i++) {
        if (at == n->attrs.offset) return ls__like_forward(g, n, i, &out[0]);
        at += ls__in_shape(g, f, i)->dims[1];
    }
    return ls_fail(LS_INTERNAL, "concat_bwd: no input begins at channel %d", n->attrs.offset);
}

const struct ls_op_def ls__op_concat_bwd = {.min_in = 1, .max_in = 1, .infer = infer_bwd};
