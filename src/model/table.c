/* table.c: what each layer of a model makes and costs: the table people know from Keras. */
#include "base/mem.h"
#include "model/internal.h"

#include <stdio.h>
#include <stdlib.h>

static const char *size_text(int a, int b, char out[16])
{
    if (a == b)
        snprintf(out, 16, "%d", a);
    else
        snprintf(out, 16, "%dx%d", a, b);
    return out;
}

/* The statement's word and what one would ask next: a window's size, how far it moves, the groups. */
static void set_type(const struct ls_layer *l, const struct ls_shape *src, char type[24])
{
    const struct ls_attrs *a = &l->attrs;
    const char *word = ls__word_defs[l->kind].word;
    char stride[16], moves[20] = "", groups[16] = "";
    switch (l->kind) {
    case LS_WORD_CONV:
    case LS_WORD_MAXPOOL:
    case LS_WORD_AVGPOOL:
        if (a->sh > 1 || a->sw > 1) snprintf(moves, sizeof moves, " /%s", size_text(a->sh, a->sw, stride));
        if (a->groups > 1 && a->groups != src->dims[1]) snprintf(groups, sizeof groups, " g%d", a->groups);
        snprintf(type, 24, "%s %dx%d%s%s", a->groups > 1 && a->groups == src->dims[1] ? "dwconv" : word, a->kh, a->kw,
                 moves, groups);
        break;
    case LS_WORD_DROPOUT:
        snprintf(type, 24, "%s %g", word, (double)a->p);
        break;
    case LS_WORD_GROUPNORM:
        snprintf(type, 24, "%s %d", word, a->groups);
        break;
    default:
        snprintf(type, 24, "%s", word);
    }
}

static void fill(const struct ls_graph *g, const struct ls_layer *l, const struct ls_mark *mark, int src,
                 struct ls_model_row *row)
{
    row->name = l->name;
    row->out = g->values[mark->out].shape;
    set_type(l, &g->values[src].shape, row->type);
    for (int v = mark->value; v < mark[1].value; v++) {
        const int64_t n = ls_shape_count(&g->values[v].shape);
        if (g->values[v].kind == LS_VALUE_PARAM) row->parameters += n;
        if (g->values[v].kind == LS_VALUE_BUFFER) row->buffers += n;
    }
    for (int i = mark->node; i < mark[1].node; i++) {
        const struct ls_node *n = &g->nodes[i];
        row->flops += ls_node_flops(g, n);
        if (n->op != LS_OP_RESHAPE)
            row->activation_bytes += ls_shape_count(&g->values[n->out[0]].shape) * (int64_t)sizeof(float);
    }
}

static enum ls_status make(const struct ls_model *m, const struct ls_model_options *options, struct ls_mark *marks,
                           struct ls_model_row *rows)
{
    struct ls_graph *g;
    TRY(ls__build(m, options, marks, &g));
    for (int i = 0; i < m->n_layers; i++) {
        const int src = m->layers[i].src > 0 ? marks[m->layers[i].src - 1].out : g->input;
        fill(g, &m->layers[i], &marks[i], src, &rows[i]);
    }
    ls_graph_destroy(&g);
    return LS_OK;
}

enum ls_status ls_model_table(const struct ls_model *model, const struct ls_model_options *options,
                              struct ls_model_row **rows, int *n_rows)
{
    struct ls_mark *marks;
    *rows = NULL;
    *n_rows = model->n_layers;
    TRY(ls__calloc(&marks, (size_t)model->n_layers + 1, sizeof *marks));
    enum ls_status status = ls__calloc(rows, (size_t)model->n_layers + 1, sizeof **rows);
    if (status == LS_OK) status = make(model, options, marks, *rows);
    free(marks);
    if (status == LS_OK) return LS_OK;
    free(*rows);
    *rows = NULL;
    return status;
}
