/* model.c: models as objects: loaded from the zoo or a file, parsed, asked, summarized. See model/model.h. */
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "model/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ls_model_destroy(struct ls_model **model)
{
    struct ls_model *m = *model;
    if (!m) return;
    for (int i = 0; i < m->n_layers; i++) ls__layer_release(&m->layers[i]);
    free(m->layers);
    free(m->origin);
    free(m->name);
    free(m->text);
    free(m);
    *model = NULL;
}

static enum ls_status parse(struct ls_model *m, const char *origin, const char *text, size_t len)
{
    struct ls_text cut = {0};
    TRY(ls__strdup(&m->origin, origin));
    enum ls_status status = ls__text_cut(origin, text, len, &cut); /* checks len before anything is copied */
    if (status == LS_OK) status = ls__expand(m, &cut);
    ls__text_release(&cut);
    TRY(status);
    TRY(ls__calloc(&m->text, len + 1, 1));
    memcpy(m->text, text, len);
    m->text_len = len;
    return LS_OK;
}

enum ls_status ls_model_parse(struct ls_model **out, const char *origin, const char *text, size_t len)
{
    *out = NULL;
    if (!origin || !text) return ls_fail(LS_USAGE, "a model without %s", origin ? "a text" : "an origin");
    TRY(ls__calloc(out, 1, sizeof **out));
    enum ls_status status = parse(*out, origin, text, len);
    if (status != LS_OK) ls_model_destroy(out);
    return status;
}

static bool is_path(const char *text)
{
    size_t len = strlen(text);
    return strchr(text, '/') || (len > 4 && strcmp(text + len - 4, ".net") == 0);
}

static enum ls_status load_file(struct ls_model **out, const char *path)
{
    char *text;
    size_t len;
    enum ls_status status = ls__file_read(path, LS_MODEL_TEXT_BYTES, &text, &len);
    if (status != LS_OK) return ls_fail_in(status == LS_NOMEM ? LS_NOMEM : LS_DATA, "model");
    status = ls_model_parse(out, path, text, len);
    free(text);
    return status;
}

/* The names of the zoo, and the one that was meant if any is near. */
static enum ls_status fail_unknown(const char *name)
{
    struct ls_buf all = LS_BUF_INIT;
    const char *near = NULL;
    int nearest = ls__edit_tolerance(name) + 1;
    for (const struct ls_zoo_entry *z = ls_zoo; z->name; z++) {
        ls__buf_addf(&all, "%s%s", z == ls_zoo ? "" : ", ", z->name);
        int d = ls__edit_distance(name, z->name, nearest);
        if (d >= nearest) continue;
        nearest = d;
        near = z->name;
    }
    enum ls_status status =
        ls_fail(LS_USAGE, "no model \"%.64s\"%s%s%s (there are %s; a file of your own needs a '/' or the ending .net)",
                name, near ? "; did you mean " : "", near ? near : "", near ? "?" : "", all.text);
    ls__buf_release(&all);
    return status;
}

enum ls_status ls_model_load(struct ls_model **out, const char *name_or_path)
{
    char origin[LS_PATH_BYTES];
    *out = NULL;
    if (!name_or_path) return ls_fail(LS_USAGE, "no model was named");
    if (is_path(name_or_path)) return load_file(out, name_or_path);
    for (const struct ls_zoo_entry *z = ls_zoo; z->name; z++) {
        if (strcmp(z->name, name_or_path) != 0) continue;
        snprintf(origin, sizeof origin, "models/%s.net", z->name);
        return ls_model_parse(out, origin, z->text, strlen(z->text));
    }
    return fail_unknown(name_or_path);
}

const char *ls_model_name(const struct ls_model *model)
{
    return model->name;
}

const char *ls_model_text(const struct ls_model *model, size_t *len)
{
    *len = model->text_len;
    return model->text;
}

void ls_model_input(const struct ls_model *model, int *c, int *h, int *w)
{
    *c = model->input[0];
    *h = model->input[1];
    *w = model->input[2];
}

bool ls_model_input_is_fixed(const struct ls_model *model)
{
    return model->is_input_fixed;
}

enum ls_status ls_model_summarize(const struct ls_model *model, int c, int h, int w, int n_classes,
                                  struct ls_model_summary *out)
{
    const struct ls_model_options options = {.mb = 1, .c = c, .h = h, .w = w, .n_classes = n_classes};
    struct ls_graph *g;
    TRY(ls_model_build(model, &options, &g));
    *out = (struct ls_model_summary){.n_layers = model->n_layers};
    for (int i = 0; i < g->n_values; i++)
        if (g->values[i].kind == LS_VALUE_PARAM) out->parameters += ls_shape_count(&g->values[i].shape);
    for (int i = 0; i < g->n_nodes; i++) {
        const struct ls_node *n = &g->nodes[i];
        out->flops_per_image += ls_node_flops(g, n);
        if (n->op != LS_OP_RESHAPE) /* the same elements under another shape */
            out->activation_bytes_per_image += ls_shape_count(&g->values[n->out[0]].shape) * (int64_t)sizeof(float);
    }
    ls_graph_destroy(&g);
    return LS_OK;
}
