/* choose.c: picks a kernel for every node and makes layouts meet.
 *
 * For each node in order: offer it the layouts its inputs have, take the first implementation that accepts (the one a
 * tuning table lists, the backend's own list, then ref), remember why the others refused. Where the kernel wants an
 * input in another layout, a REORDER is put before it: per shard for activations, once per step (PRE) for parameters; a
 * reorder already made for the same value and layout is used again. A parameter nobody has asked for yet takes the
 * layout its first consumer wishes; its gradient sum and optimizer state follow it.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "plan/plan_internal.h"
#include "plan/tune.h"

#include <stdlib.h>
#include <string.h>

/* Elements of a part: at most, and at least where a tensor is cut for the sake of a few threads. */
enum { PART_ELEMENTS = 1 << 15, SMALL_PART_ELEMENTS = 1 << 11, FEW_PARTS = 4 };

/* A value brought into another layout. */
struct reordered {
    int value, layout_id, result;
};

struct chooser {
    struct ls_plan *p;
    const struct ls_kernel **kernel_of; /* graph node -> kernel, for backward nodes */
    int *param_of;                      /* value -> the parameter or buffer whose gradient or sum it is, or -1 */
    struct reordered *reordered;
    int n_reordered;
    int n_nodes;
};

static enum ls_status give_slot(struct ls_plan *p, int value)
{
    if (value < p->n_slots) return LS_OK;
    TRY(ls__grow(&p->slots, (size_t)p->n_slots, (size_t)value + 1, sizeof *p->slots));
    for (; p->n_slots <= value; p->n_slots++)
        p->slots[p->n_slots] = (struct ls_slot){.layout = ls_layout_any(), .stored = -1, .first = -1, .last = -1};
    return LS_OK;
}

static enum ls_status add_op(struct ls_plan *p, const struct ls_node *node, struct ls_kernel *kernel,
                             enum ls_phase phase, char *refused)
{
    TRY(ls__grow(&p->ops, (size_t)p->n_ops, (size_t)p->n_ops + 1, sizeof *p->ops));
    p->ops[p->n_ops++] = (struct ls_plan_op){.node = *node,
                                             .kernel = kernel,
                                             .phase = phase,
                                             .n_parts = 1,
                                             .refused = refused,
                                             .flops = ls_node_flops(p->graph, node)};
    if (phase == LS_PRE) p->n_pre++;
    if (phase == LS_SHARD) p->n_shard++;
    if (phase == LS_JOIN) p->n_join++;
    if (phase == LS_POST) p->n_post++;
    return LS_OK;
}

static enum ls_status try_list(const struct ls_impl *const *impls, const struct ls_prep *prep, struct ls_kernel **out,
                               struct ls_buf *refused)
{
    for (; *impls; impls++) {
        if ((*impls)->op != prep->node->op) continue;
        enum ls_status status = (*impls)->prepare(prep, out);
        if (status != LS_UNSUPPORTED) return status;
        ls__buf_addf(refused, "%s%s: %s", refused->len ? "; " : "", (*impls)->name, ls_error_message());
    }
    return LS_UNSUPPORTED;
}

static const struct ls_impl *find_impl(const struct ls_impl *const *impls, enum ls_op op, const char *name)
{
    for (; *impls; impls++)
        if ((*impls)->op == op && strcmp((*impls)->name, name) == 0) return *impls;
    return NULL;
}

/* What the table lists for the node; LS_UNSUPPORTED: nothing, or it cannot. */
static enum ls_status try_listed(const struct ls_plan *p, const struct ls_prep *prep, struct ls_kernel **out,
                                 struct ls_buf *refused)
{
    char key[LS_TUNE_KEY_BYTES];
    struct ls_prep asked = *prep;
    if (!p->tune) return LS_UNSUPPORTED;
    ls__tune_key(p->graph, prep->node, key);
    const char *name = ls__tune_find(p->tune, key);
    if (!name) return LS_UNSUPPORTED;
    const struct ls_impl *impl = find_impl(p->backend->impls, prep->node->op, name);
    if (!impl) impl = find_impl(ls_backend_ref.impls, prep->node->op, name);
    if (!impl) {
        ls__buf_addf(refused, "the table's %s: no such implementation", name);
        return LS_UNSUPPORTED;
    }
    asked.is_asked_for = true;
    enum ls_status status = impl->prepare(&asked, out);
    if (status == LS_UNSUPPORTED) ls__buf_addf(refused, "the table's %s: %s", name, ls_error_message());
    return status;
}

/* What the table lists, else the first implementation that takes the node. *refused (may stay NULL) is the caller's to
 * free. */
static enum ls_status pick(const struct ls_plan *p, const struct ls_prep *prep, struct ls_kernel **kernel,
                           char **refused, bool *is_tuned)
{
    struct ls_buf why = LS_BUF_INIT;
    *kernel = NULL;
    enum ls_status status = try_listed(p, prep, kernel, &why);
    *is_tuned = status == LS_OK;
    if (status == LS_UNSUPPORTED) status = try_list(p->backend->impls, prep, kernel, &why);
    bool is_refs_memory = !p->backend->memory;
    if (status == LS_UNSUPPORTED && p->backend != &ls_backend_ref && is_refs_memory)
        status = try_list(ls_backend_ref.impls, prep, kernel, &why);
    if (status == LS_UNSUPPORTED)
        status = ls_fail(LS_UNSUPPORTED, "no implementation of %s (%s)%s%s", ls_op_name(prep->node->op),
                         prep->node->name, why.len ? ": " : "", why.text);
    *refused = status == LS_OK && why.len ? ls__buf_take(&why) : NULL;
    ls__buf_release(&why);
    return status;
}

/* The layout of a stored value is the entry's; of others the slot's. */
static struct ls_layout layout_of(const struct ls_plan *p, int value)
{
    const struct ls_slot *slot = &p->slots[value];
    return slot->stored >= 0 ? p->store->entries[slot->stored].layout : slot->layout;
}

static void set_layout(struct ls_plan *p, int value, const struct ls_layout *layout)
{
    struct ls_slot *slot = &p->slots[value];
    slot->layout = *layout;
    if (slot->stored >= 0) p->store->entries[slot->stored].layout = *layout;
}

/* A REORDER of `value` into `layout`; *result is the new value. */
static enum ls_status add_reorder(struct chooser *c, int value, const struct ls_layout *layout, int *result)
{
    struct ls_plan *p = c->p;
    bool is_stored = p->slots[value].stored >= 0;
    for (int i = 0; i < c->n_reordered; i++)
        if (c->reordered[i].value == value && c->reordered[i].layout_id == layout->id) {
            *result = c->reordered[i].result;
            return LS_OK;
        }
    const struct ls_attrs none = {0};
    char *refused = NULL;
    TRY(ls_graph_add_node(p->graph, LS_OP_REORDER, p->graph->values[value].name, &none, &value, 1, result));
    const struct ls_node *node = &p->graph->nodes[p->graph->n_nodes - 1];
    TRY(give_slot(p, *result));
    if (is_stored) TRY(ls__store_derive(p->store, p->slots[value].stored, layout, &p->slots[*result].stored));
    struct ls_prep prep = {.device = p->device, .graph = p->graph, .node = node};
    prep.in[0] = layout_of(p, value);
    prep.out[0] = *layout;
    struct ls_kernel *kernel;
    bool is_tuned;
    TRY(pick(p, &prep, &kernel, &refused, &is_tuned));
    enum ls_status status = add_op(p, node, kernel, is_stored ? LS_PRE : LS_SHARD, refused);
    if (status != LS_OK) {
        ls_kernel_destroy(&kernel);
        free(refused);
        return status;
    }
    set_layout(p, *result, layout);
    TRY(ls__grow(&c->reordered, (size_t)c->n_reordered, (size_t)c->n_reordered + 1, sizeof *c->reordered));
    c->reordered[c->n_reordered++] = (struct reordered){value, layout->id, *result};
    return LS_OK;
}

/* Sums hold one i64 for every stored float of the parameter, padding included. */
static struct ls_layout sum_layout(const struct ls_layout *param)
{
    struct ls_layout l = *param;
    l.bytes *= 2;
    return l;
}

/* What the plan knows of the layouts before asking: in[] as they are, out[] where there is a wish. */
static enum ls_status fill_prep(struct chooser *c, struct ls_node *n, struct ls_prep *prep)
{
    struct ls_plan *p = c->p;
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] < 0) continue;
        prep->in[i] = layout_of(p, n->in[i]);
    }
    for (int i = 0; i < n->n_out; i++) {
        prep->out[i] = ls_layout_any();
        int param = n->out[i] >= 0 ? c->param_of[n->out[i]] : -1;
        if (param >= 0) prep->out[i] = layout_of(p, param);
        if (param >= 0 && (n->op == LS_OP_REDUCE || n->op == LS_OP_LINEAR_SUM))
            prep->out[i] = sum_layout(&prep->out[i]);
    }
    /* The gradient must arrive in the parameter's layout, or its narrow version, for sums and updates go element by
     * element. */
    int owner = n->op == LS_OP_REDUCE ? c->param_of[n->out[0]] : -1;
    bool is_narrow = owner >= 0 && prep->in[0].is_narrow && prep->in[0].wide_id == layout_of(p, owner).id;
    if (owner >= 0 && prep->in[0].id != layout_of(p, owner).id && !is_narrow) {
        struct ls_layout wanted = layout_of(p, owner);
        TRY(add_reorder(c, n->in[0], &wanted, &n->in[0]));
        prep->in[0] = wanted;
    }
    return LS_OK;
}

static bool is_update(enum ls_op op)
{
    return op == LS_OP_SGD || op == LS_OP_ADAMW || op == LS_OP_RUNNING_STATS;
}

/* Optimizer state and sums lie as their parameter does. */
static void follow_param(struct ls_plan *p, const struct ls_node *n)
{
    struct ls_layout param = layout_of(p, n->in[0]);
    if (param.id == LS_LAYOUT_ANY) param = ls_layout_plain(&p->graph->values[n->in[0]].shape, LS_F32);
    set_layout(p, n->in[0], &param);
    for (int i = 1; i < n->n_in; i++) {
        if (n->in[i] < 0) continue;
        struct ls_layout l = p->graph->values[n->in[i]].dtype == LS_I64 ? sum_layout(&param) : param;
        set_layout(p, n->in[i], &l);
    }
}

static enum ls_status meet_layouts(struct chooser *c, struct ls_node *n, const struct ls_kernel *k)
{
    struct ls_plan *p = c->p;
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] < 0) continue;
        struct ls_layout have = layout_of(p, n->in[i]);
        if (have.id == LS_LAYOUT_ANY) {
            have = k->in[i].is_narrow ? k->wide[i] : k->in[i];
            set_layout(p, n->in[i], &have);
        }
        if (have.id != k->in[i].id) TRY(add_reorder(c, n->in[i], &k->in[i], &n->in[i]));
    }
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] >= 0) set_layout(p, n->out[i], &k->out[i]);
    return LS_OK;
}

static enum ls_phase phase_of(enum ls_op op)
{
    return is_update(op) ? LS_POST : op == LS_OP_LINEAR_SUM ? LS_JOIN : LS_SHARD;
}

static int parts_of(const struct ls_plan_op *op)
{
    if (op->kernel->n_parts > 0) return op->kernel->n_parts;
    size_t n_elements =
        op->phase == LS_JOIN ? op->kernel->out[0].bytes / sizeof(int64_t) : op->kernel->in[0].bytes / sizeof(float);
    size_t n_parts = (n_elements + PART_ELEMENTS - 1) / PART_ELEMENTS;
    while (n_parts < FEW_PARTS && n_elements >= (n_parts + 1) * SMALL_PART_ELEMENTS) n_parts++;
    return (int)n_parts;
}

static enum ls_status choose_node(struct chooser *c, int index)
{
    struct ls_plan *p = c->p;
    struct ls_node n = p->graph->nodes[index];
    struct ls_prep prep = {.device = p->device};
    char *refused = NULL;
    struct ls_kernel *kernel;
    bool is_tuned;
    if (is_update(n.op)) follow_param(p, &n);
    TRY(fill_prep(c, &n, &prep));
    prep.graph = p->graph;
    prep.node = &n;
    prep.forward = n.forward >= 0 ? c->kernel_of[n.forward] : NULL;
    TRY(pick(p, &prep, &kernel, &refused, &is_tuned));
    c->kernel_of[index] = kernel;
    enum ls_status status = meet_layouts(c, &n, kernel);
    if (status == LS_OK) status = add_op(p, &n, kernel, phase_of(n.op), refused);
    if (status != LS_OK) {
        ls_kernel_destroy(&kernel);
        free(refused);
        return status;
    }
    struct ls_plan_op *op = &p->ops[p->n_ops - 1];
    op->is_tuned = is_tuned;
    if (op->phase != LS_SHARD || n.op == LS_OP_REDUCE) op->n_parts = parts_of(op);
    return LS_OK;
}

static enum ls_status run(struct chooser *c)
{
    struct ls_plan *p = c->p;
    struct ls_graph *g = p->graph;
    TRY(ls__calloc(&c->kernel_of, (size_t)g->n_nodes, sizeof *c->kernel_of));
    /* Reorders add values later; those are nobody's gradient, so only today's need an entry. */
    TRY(ls__calloc(&c->param_of, (size_t)g->n_values, sizeof *c->param_of));
    TRY(give_slot(p, g->n_values - 1));
    for (int i = 0; i < g->n_values; i++) c->param_of[i] = -1;
    for (int i = 0; i < g->n_values; i++) {
        int sum = g->values[i].grad;
        if (sum < 0) continue;
        c->param_of[sum] = i;
        const struct ls_node *producer = &g->nodes[g->values[sum].producer];
        if (producer->op == LS_OP_REDUCE) c->param_of[producer->in[0]] = i;
    }
    for (int i = 0; i < g->n_values; i++) {
        if (ls_value_is_stored(&g->values[i])) TRY(ls__store_intern(p->store, &g->values[i], &p->slots[i].stored));
        if (g->values[i].kind == LS_VALUE_BUFFER) { /* nobody computes with it while training, so nobody chooses */
            const struct ls_layout plain = ls_layout_plain(&g->values[i].shape, g->values[i].dtype);
            set_layout(p, i, &plain);
        }
        if (g->values[i].kind == LS_VALUE_INPUT || g->values[i].kind == LS_VALUE_LABELS)
            p->slots[i].layout = ls_layout_plain(&g->values[i].shape, g->values[i].dtype);
    }
    for (int i = 0; i < c->n_nodes; i++) TRY(choose_node(c, i));
    return LS_OK;
}

static bool is_late(const struct ls_plan_op *op)
{
    return op->phase == LS_SHARD && op->node.op == LS_OP_REDUCE;
}

/* REDUCE after all other ops. What it reads lives until then: memory.c goes by the order made here. */
static enum ls_status reduce_last(struct ls_plan *p)
{
    struct ls_plan_op *sorted;
    int n = 0;
    TRY(ls__calloc(&sorted, (size_t)p->n_ops, sizeof *sorted));
    for (int late = 0; late < 2; late++)
        for (int i = 0; i < p->n_ops; i++)
            if (is_late(&p->ops[i]) == (late == 1)) sorted[n++] = p->ops[i];
    memcpy(p->ops, sorted, (size_t)n * sizeof *sorted);
    free(sorted);
    return LS_OK;
}

enum ls_status ls__plan_choose(struct ls_plan *p)
{
    struct chooser c = {.p = p, .n_nodes = p->graph->n_nodes};
    enum ls_status status = run(&c);
    if (status == LS_OK && p->backend->is_reduce_last) status = reduce_last(p);
    free(c.kernel_of);
    free(c.param_of);
    free(c.reordered);
    return status;
}
