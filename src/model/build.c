/* build.c: a model's layers into the forward graph for one shape of input.
 *
 * Everything that depends on shapes is checked while building, in the words of the model text; the graph's own rules
 * stand behind. Here: the model as a whole, its options, its result; the layers are build_layers.c's.
 */
#include "model/build.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_PIXELS = 65536, MOST_CLASSES = 1 << 20 };
#define MOST_SAMPLES ((int64_t)1 << 24)

/* What does not fit is told at the line of `input`, the only one that speaks of images. */
static enum ls_status check_options(const struct ls_model *m, const struct ls_model_options *o)
{
    const int got[3] = {o->c, o->h, o->w};
    bool fits = true;
    char want[3][16];
    if (o->mb < 1 || o->mb > MOST_SAMPLES)
        return ls_fail(LS_USAGE, "%s:%d: shards of %lld samples; at least 1 and at most 2^24 are possible", m->origin,
                       m->input_line, (long long)o->mb);
    if (o->n_classes < 1 || o->n_classes > MOST_CLASSES)
        return ls__text_fail(m->origin, m->input_line, "%d classes; at least 1 and at most 2^20 are possible",
                             o->n_classes);
    for (int i = 0; i < 3; i++) {
        if (got[i] < 1 || got[i] > MOST_PIXELS)
            return ls__text_fail(m->origin, m->input_line, "input: images of %dx%dx%d; each size must be 1 to %d", o->c,
                                 o->h, o->w, MOST_PIXELS);
        fits = fits && (!m->is_input_fixed || m->input[i] == 0 || m->input[i] == got[i]);
        if (m->input[i])
            snprintf(want[i], sizeof want[i], "%d", m->input[i]);
        else
            snprintf(want[i], sizeof want[i], "*");
    }
    if (ls__dims_product((int64_t[3]){o->c, o->h, o->w}, 3, LS_MOST_ELEMENTS) < 0)
        return ls__text_fail(m->origin, m->input_line, "input: images of %dx%dx%d have more than 2^31 elements", o->c,
                             o->h, o->w);
    if (fits) return LS_OK;
    return ls__text_fail(m->origin, m->input_line,
                         "input: the model takes images of %sx%sx%s, but the data have %dx%dx%d", want[0], want[1],
                         want[2], o->c, o->h, o->w);
}

/* A result that nobody reads is a mistake in the text, and its parameters would never be trained. */
static enum ls_status check_all_read(const struct ls_builder *b)
{
    const struct ls_graph *g = b->g;
    bool *is_read;
    enum ls_status status = LS_OK;
    TRY(ls__calloc(&is_read, (size_t)g->n_values, sizeof *is_read));
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i].n_in; k++)
            if (g->nodes[i].in[k] >= 0) is_read[g->nodes[i].in[k]] = true;
    is_read[b->values[b->model->result]] = true;
    for (int i = 0; i < b->model->n_layers && status == LS_OK; i++)
        if (!is_read[b->values[i + 1]]) status = FAIL(b, &b->model->layers[i], "the result is never used");
    free(is_read);
    return status;
}

static enum ls_status check_result(struct ls_builder *b)
{
    char text[LS_SHAPE_TEXT];
    const struct ls_model *m = b->model;
    const struct ls_layer *last = &m->layers[m->n_layers - 1];
    const struct ls_shape *s = ls__build_shape(b, m->result);
    if (s->n_dims != 2 || s->dims[1] != b->options->n_classes)
        return ls__text_fail(
            m->origin, last->line,
            "the model ends in %s, but must end in one number per class (%d)%s; end it with `linear NAME "
            "classes`",
            ls__image_text(s, text), b->options->n_classes, s->n_dims == 4 ? ", as a vector" : "");
    if (b->n_parameters == 0) return ls__text_fail(m->origin, last->line, "the model has nothing to train");
    b->g->logits = b->values[m->result];
    return check_all_read(b);
}

/* Before layer `layer`, or at the end; its predecessor's tensor is known by now. */
static void mark(struct ls_builder *b, int layer)
{
    if (!b->marks) return;
    if (layer > 0) b->marks[layer - 1].out = b->values[layer];
    b->marks[layer].node = b->g->n_nodes;
    b->marks[layer].value = b->g->n_values;
}

static enum ls_status build(struct ls_builder *b)
{
    const struct ls_model_options *o = b->options;
    TRY(ls_graph_add_value(b->g, "input", LS_VALUE_INPUT, LS_F32, &LS_SHAPE4(o->mb, o->c, o->h, o->w), &b->g->input));
    b->values[0] = b->g->input;
    for (int i = 0; i < b->model->n_layers; i++) {
        mark(b, i);
        TRY(ls__build_layer(b, &b->model->layers[i], &b->values[i + 1]));
    }
    mark(b, b->model->n_layers);
    return check_result(b);
}

enum ls_status ls_model_build(const struct ls_model *model, const struct ls_model_options *options,
                              struct ls_graph **out)
{
    return ls__build(model, options, NULL, out);
}

enum ls_status ls__build(const struct ls_model *model, const struct ls_model_options *options, struct ls_mark *marks,
                         struct ls_graph **out)
{
    struct ls_builder b = {.model = model, .options = options, .marks = marks};
    *out = NULL;
    if (!options) return ls_fail(LS_USAGE, "%s: built without options", model->origin);
    TRY(check_options(model, options));
    TRY(ls__calloc(&b.values, (size_t)model->n_layers + 1, sizeof *b.values));
    enum ls_status status = ls_graph_create(&b.g, options->mb, options->is_training);
    if (status == LS_OK) status = build(&b);
    free(b.values);
    if (status != LS_OK) ls_graph_destroy(&b.g);
    *out = b.g;
    return status;
}
