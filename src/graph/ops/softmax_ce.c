/* softmax_ce: logits [mb,classes], labels [mb], mix_labels? [mb], mix_shares? [mb] -> diff_logits? [mb,classes], stats
 * [2]. The gradient pass starts here. */
#include "graph/op.h"

static enum ls_status infer(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    const struct ls_shape *logits = ls__in_shape(g, n, 0);
    char text[LS_SHAPE_TEXT];
    if (logits->n_dims != 2)
        return ls_fail(LS_DATA, "the loss needs [samples,classes], but gets %s", ls_shape_text(logits, text));
    n->n_out = 2;
    out[0] = (struct ls_out){.is_present = g->is_training, .shape = *logits};
    out[1] = (struct ls_out){.is_present = true, .shape = LS_SHAPE1(2)};
    return LS_OK;
}

static double flops(const struct ls_graph *g, const struct ls_node *n)
{
    return ls__count_flops(g, n->in[0], 6);
}

const struct ls_op_def ls__op_softmax_ce = {.min_in = 2, .max_in = 4, .infer = infer, .flops = flops};
