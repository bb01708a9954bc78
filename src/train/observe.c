/* observe.c: the network, the options and a few images for the recording; nothing here can fail a training. */
#include "train/observe.h"

#include "base/buf.h"
#include "base/mem.h"
#include "record/tensorboard.h"
#include "settings/setting.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_EXAMPLES = 8 };

/* --- the options, as a table for people and as values to compare runs by --- */

static void add_cell(struct ls_buf *b, const json_t *value)
{
    char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    ls__buf_adds(b, json_is_string(value) ? json_string_value(value) : text ? text : "?");
    free(text);
}

static void tell_options(struct ls_tensorboard *tb, const struct trainer *t)
{
    struct ls_buf b = LS_BUF_INIT;
    const char *key;
    json_t *value, *all = ls__options_json(t->o, LS_ROLE_ALL), *compared = ls__options_json(t->o, LS_ROLE_RUN);
    ls__buf_adds(&b, "| option | value |\n|---|---|\n");
    json_object_foreach(all, key, value)
    {
        if (json_is_null(value)) continue;
        ls__buf_addf(&b, "| %s | ", key);
        add_cell(&b, value);
        ls__buf_adds(&b, " |\n");
    }
    if (ls__buf_check(&b) == LS_OK) ls__tensorboard_text(tb, 0, "options", b.text);
    if (compared) ls__tensorboard_options(tb, compared);
    ls__buf_release(&b);
    json_decref(all);
    json_decref(compared);
}

/* --- the network: the forward nodes up to the loss --- */

/* What TensorBoard calls a value: the node that makes it, or the parameter itself. Layers' dots group. */
static char *name_of(const struct ls_graph *g, int value)
{
    const struct ls_value *v = &g->values[value];
    const char *name = v->producer >= 0 ? g->nodes[v->producer].name : v->name;
    char *out = strdup(name);
    for (char *p = out; p && *p; p++)
        if (*p == '.') *p = '/';
    return out;
}

struct shown {
    struct ls_tensorboard_node *nodes;
    char *(*inputs)[LS_MAX_IN];
    int n;
};

static void show_stored(struct shown *s, const struct ls_graph *g, int value)
{
    const struct ls_value *v = &g->values[value];
    char *name = name_of(g, value);
    for (int i = 0; i < s->n && name; i++)
        if (strcmp(s->nodes[i].name, name) == 0) { /* two layers share it */
            free(name);
            return;
        }
    if (!name) return;
    s->nodes[s->n++] = (struct ls_tensorboard_node){.name = name,
                                                    .op = v->kind == LS_VALUE_PARAM ? "Parameter" : "Input",
                                                    .dims = v->shape.dims,
                                                    .n_dims = v->shape.n_dims};
}

static void show_node(struct shown *s, const struct ls_graph *g, const struct ls_node *node)
{
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0 && g->values[node->in[i]].producer < 0) show_stored(s, g, node->in[i]);
    char **inputs = s->inputs[s->n];
    int n_inputs = 0;
    for (int i = 0; i < node->n_in; i++) {
        if (node->in[i] < 0) continue;
        inputs[n_inputs] = name_of(g, node->in[i]);
        n_inputs += inputs[n_inputs] != NULL;
    }
    const struct ls_shape *shape = &g->values[node->out[0]].shape;
    s->nodes[s->n++] = (struct ls_tensorboard_node){.name = name_of(g, node->out[0]),
                                                    .op = ls_op_name(node->op),
                                                    .inputs = (const char *const *)inputs,
                                                    .n_inputs = n_inputs,
                                                    .dims = shape->dims,
                                                    .n_dims = shape->n_dims};
}

static void tell_network(struct ls_tensorboard *tb, const struct trainer *t)
{
    const struct ls_graph *g = ls_exec_plan(t->s.exec, t->s.shard_size, true)->graph;
    size_t most = (size_t)g->n_nodes * (LS_MAX_IN + 1);
    struct shown s = {.nodes = calloc(most, sizeof *s.nodes), .inputs = calloc(most, sizeof *s.inputs)};
    for (int i = 0; s.nodes && s.inputs && i < g->n_nodes; i++) {
        if (g->nodes[i].n_out > 0 && g->nodes[i].out[0] >= 0) show_node(&s, g, &g->nodes[i]);
        if (g->nodes[i].op == LS_OP_SOFTMAX_CE) break;
    }
    if (s.n > 0) ls__tensorboard_graph(tb, s.nodes, s.n);
    for (int i = 0; i < s.n; i++) {
        free((char *)s.nodes[i].name);
        for (int k = 0; k < s.nodes[i].n_inputs; k++) free(s.inputs[i][k]);
    }
    free(s.nodes);
    free((void *)s.inputs);
}

/* --- what the images are --- */

/* On the recorder's thread: decoding and packing large pictures takes a while, and step 1 need not wait for it. */
static void tell_examples(void *trainer)
{
    const struct trainer *t = trainer;
    struct ls_tensorboard *tb = ls__record_tensorboard(t->record);
    const struct ls_dataset *d = t->s.train;
    uint8_t *pixels;
    if (d->c != 1 && d->c != 3) return;
    if (ls__calloc(&pixels, (size_t)d->c * (size_t)d->h, (size_t)d->w) != LS_OK) return;
    for (int64_t i = 0; i < N_EXAMPLES && i < d->n; i++) {
        char tag[64];
        snprintf(tag, sizeof tag, "Examples/%lld (class %d)", (long long)i, (int)d->labels[i]);
        if (ls_dataset_read(d, i, pixels) == LS_OK) ls__tensorboard_image(tb, 0, tag, d->c, d->h, d->w, pixels);
    }
    free(pixels);
}

/* --- weights and gradients --- */

static bool has_histograms(const struct trainer *t, int64_t epoch)
{
    return t->o->histograms > 0 && (epoch + 1) % t->o->histograms == 0;
}

bool ls__observe_wants_gradients(const struct trainer *t)
{
    return has_histograms(t, t->st.epoch) && t->st.epoch_step + 1 == t->schedule.steps_per_epoch;
}

/* One per parameter. step: that the values are of. */
static void tell_values(struct trainer *t, const char *group, int64_t step, bool is_gradient)
{
    struct ls_tensorboard *tb = ls__record_tensorboard(t->record);
    const struct ls_plan *plan = ls_exec_plan(t->s.exec, t->s.shard_size, true);
    const struct ls_graph *g = plan->graph;
    for (int v = 0; tb && v < g->n_values; v++) {
        const struct ls_value *value = &g->values[v];
        char tag[256];
        float *data;
        if (value->kind != LS_VALUE_PARAM || value->grad < 0) continue;
        const int64_t n = ls_shape_count(&value->shape);
        int entry = plan->slots[is_gradient ? value->grad : v].stored;
        if (ls__calloc(&data, (size_t)n, sizeof *data) != LS_OK) return;
        enum ls_status status =
            is_gradient ? ls_exec_get_gradient(t->s.exec, entry, data) : ls_exec_get(t->s.exec, entry, data);
        snprintf(tag, sizeof tag, "%s/%s", group, value->name);
        if (status == LS_OK) ls__tensorboard_histogram(tb, step, tag, data, n);
        free(data);
    }
}

void ls__observe_gradients(void *trainer)
{
    struct trainer *t = trainer;
    tell_values(t, "Gradients", t->st.step + 1, true);
}

enum ls_status ls__observe_open(struct trainer *t)
{
    char dir[LS_PATH_BYTES] = "";
    if (t->is_chief && !realpath(ls__run_dir(t->run), dir)) dir[0] = '\0';
    TRY(ls_comm_broadcast(t->comm, 0, dir, sizeof dir));
    TRY(ls_comm_broadcast(t->comm, 0, &t->own.trace, sizeof t->own.trace)); /* tracing is collective: all or nobody */
    bool is_seen = *dir && (t->is_chief || ls__dir_exists(dir)); /* a machine without a shared file system does not */
    const struct ls_comm_place *place = ls_comm_place(t->comm);
    struct ls_record_options ro = {.run_dir = is_seen ? dir : NULL,
                                   .rank = place->rank,
                                   .first_step = t->st.step,
                                   .trace = t->trace,
                                   .n_threads = t->s.threads,
                                   .with_resources = t->o->record,
                                   .traced_steps = t->o->trace ? t->o->trace_steps : -1,
                                   .batch_size = t->s.batch_size,
                                   .host = place->host};
    if (t->s.backend->place) t->s.backend->place(t->s.device, ro.gpu, sizeof ro.gpu);
    if (t->o->trace) TRY(ls__observe_clock(t, &ro));
    if ((t->o->record && is_seen) || t->o->trace) t->record = ls__record_open(&ro);
    struct ls_tensorboard *tb = ls__record_tensorboard(t->record);
    if (!tb) t->own.histograms = 0;
    TRY(ls_comm_broadcast(t->comm, 0, &t->own.histograms, sizeof t->own.histograms)); /* a step is the same for all */
    if (!tb || t->st.step > 0) return LS_OK;                                          /* the first file has it */
    tell_options(tb, t);
    tell_network(tb, t);
    ls__record_later(t->record, tell_examples, t);
    return LS_OK;
}

void ls__observe_epoch(struct trainer *t)
{
    ls__record_time(t->record, t->st.step);
    if (has_histograms(t, t->st.epoch)) tell_values(t, "Weights", t->st.step, false);
    ls__record_mark(t->record, "epoch");
}

void ls__observe_close(struct trainer *t, enum ls_status status)
{
    ls__tensorboard_options_end(ls__record_tensorboard(t->record), status == LS_OK);
    ls__record_close(&t->record);
}
