/* layers.c: see layers.h. In: CPU time by op, as the executor's lanes have it (trace/trace.h). Out: sums by layer.
 *
 * An op belongs to the layer whose name its node has; sums of gradients and updates are named after a parameter
 * ("conv1.weight") and belong to the layer before the last dot. Changes of layout belong to none: they are one row.
 */
#include "train/layers.h"

#include "base/json.h"
#include "base/mem.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_MEASURED = 4, NAME_BYTES = 64, N_PLANS = 2 };

struct layer {
    char name[NAME_BYTES];
    const char *op; /* the first that has its name: the forward one */
    double forward, backward, update;
};

static bool is_measured_step(const struct trainer *t)
{
    int64_t n = t->layers.n_steps + 1; /* of this sitting */
    return n >= FIRST_MEASURED && (n & (n - 1)) == 0;
}

enum ls_status ls__layers_open(struct trainer *t)
{
    struct ls_exec *exec = ls__sync_measured(&t->sync);
    if (!t->is_chief || !t->o->record || !exec) return LS_OK;
    TRY(ls_exec_profile(exec, true));
    ls_exec_hold_profile(exec, true);
    t->layers.exec = exec;
    return LS_OK;
}

void ls__layers_begin_step(struct trainer *t)
{
    struct layer_steps *l = &t->layers;
    if (!l->exec || !is_measured_step(t)) return;
    l->n_samples -= ls_exec_samples(l->exec);
    ls_exec_hold_profile(l->exec, false);
}

void ls__layers_end_step(struct trainer *t)
{
    struct layer_steps *l = &t->layers;
    if (l->exec && is_measured_step(t)) {
        l->n_samples += ls_exec_samples(l->exec);
        ls_exec_hold_profile(l->exec, true);
    }
    l->n_steps++;
}

/* --- sums by layer --- */

struct layers {
    struct layer *all;
    int n;
};

static struct layer *find(struct layers *l, const char *name, size_t len)
{
    for (int i = 0; i < l->n; i++)
        if (strlen(l->all[i].name) == len && memcmp(l->all[i].name, name, len) == 0) return &l->all[i];
    return NULL;
}

/* The row of an op: a new one if there is none yet. all has room for a row per op. */
static struct layer *row_of(struct layers *l, const struct ls_node *node)
{
    const char *name = node->op == LS_OP_REORDER ? "(layouts)" : node->name, *dot = strrchr(name, '.');
    size_t len = strlen(name) < NAME_BYTES ? strlen(name) : NAME_BYTES - 1;
    struct layer *row = find(l, name, len);
    if (!row && dot && dot - name < NAME_BYTES) row = find(l, name, (size_t)(dot - name));
    if (!row && node->op == LS_OP_REDUCE && strcmp(name, "stats") == 0) row = find(l, "loss", 4);
    if (row) return row;
    row = &l->all[l->n++];
    memcpy(row->name, name, len);
    row->op = ls_op_name(node->op);
    return row;
}

static void add_plan(struct layers *l, const struct ls_exec *exec, const struct ls_plan *plan)
{
    bool is_backward = false;
    for (int i = 0; i < plan->n_ops; i++) {
        const struct ls_plan_op *op = &plan->ops[i];
        if (op->kernel->is_view) continue;
        struct layer *row = row_of(l, &op->node);
        bool is_of_loss = strcmp(row->name, "loss") == 0; /* its gradient comes with it */
        double seconds = ls_exec_op_seconds(exec, plan, i);
        *(op->phase == LS_POST ? &row->update : is_backward && !is_of_loss ? &row->backward : &row->forward) += seconds;
        is_backward = is_backward || op->node.op == LS_OP_SOFTMAX_CE;
    }
}

static json_t *list_of(const struct layers *l, double per_step)
{
    json_t *list = json_array();
    double total = 0;
    for (int i = 0; i < l->n; i++) total += l->all[i].forward + l->all[i].backward + l->all[i].update;
    for (int i = 0; i < l->n; i++) {
        const struct layer *row = &l->all[i];
        double sum = row->forward + row->backward + row->update;
        json_array_append_new(list, json_pack("{s:o, s:s, s:o, s:o, s:o, s:o}", "layer", ls__json_text(row->name), "op",
                                              row->op, "forward_seconds", ls__json_number(row->forward * per_step),
                                              "backward_seconds", ls__json_number(row->backward * per_step),
                                              "update_seconds", ls__json_number(row->update * per_step), "share",
                                              ls__json_number(total > 0 ? sum / total : 0)));
    }
    return list;
}

json_t *ls__layers_json(const struct trainer *t)
{
    const struct ls_exec *exec = t->layers.exec;
    struct layers l = {0};
    if (!exec || t->layers.n_samples <= 0) return json_array();
    /* The last shard of a batch may be smaller, and has a plan of its own. */
    const int64_t sizes[N_PLANS] = {t->s.shard_size, t->s.batch_size % t->s.shard_size};
    const struct ls_plan *plans[N_PLANS];
    size_t most = 0;
    for (int i = 0; i < N_PLANS; i++) {
        plans[i] = sizes[i] > 0 ? ls_exec_plan(exec, sizes[i], true) : NULL;
        if (plans[i]) most += (size_t)plans[i]->n_ops;
    }
    if (ls__calloc(&l.all, most + 1, sizeof *l.all) != LS_OK) return NULL;
    for (int i = 0; i < N_PLANS; i++)
        if (plans[i]) add_plan(&l, exec, plans[i]);
    json_t *list = list_of(&l, (double)t->s.batch_size / (double)t->layers.n_samples);
    free(l.all);
    return list;
}
