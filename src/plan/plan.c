/* plan.c: the life of a plan, its text and its hash. */
#include "plan/plan.h"

#include "base/buf.h"
#include "base/mem.h"
#include "plan/plan_internal.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static enum ls_status build(struct ls_plan *p)
{
    TRY(ls__plan_choose(p));
    TRY(ls__plan_memory(p));
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].phase == LS_SHARD) p->shard_flops += p->ops[i].flops;
    return LS_OK;
}

enum ls_status ls_plan_create(struct ls_plan **out, struct ls_graph **graph, const struct ls_backend *backend,
                              struct ls_device *device, struct ls_store *store)
{
    return ls_plan_create_tuned(out, graph, backend, device, store, NULL);
}

enum ls_status ls_plan_create_tuned(struct ls_plan **out, struct ls_graph **graph, const struct ls_backend *backend,
                                    struct ls_device *device, struct ls_store *store, const struct ls_tune *tune)
{
    *out = NULL;
    enum ls_status status = ls__calloc(out, 1, sizeof **out);
    if (status != LS_OK) {
        ls_graph_destroy(graph);
        return status;
    }
    **out = (struct ls_plan){.graph = *graph, .backend = backend, .device = device, .store = store, .tune = tune};
    *graph = NULL;
    status = build(*out);
    if (status != LS_OK) ls_plan_destroy(out);
    if (status == LS_OK) (*out)->tune = NULL;
    return status;
}

void ls_plan_destroy(struct ls_plan **plan)
{
    struct ls_plan *p = *plan;
    if (!p) return;
    for (int i = 0; i < p->n_ops; i++) {
        ls_kernel_destroy(&p->ops[i].kernel);
        free(p->ops[i].refused);
    }
    free(p->ops);
    free(p->slots);
    ls_graph_destroy(&p->graph);
    free(p);
    *plan = NULL;
}

static void add_place(struct ls_buf *b, const struct ls_plan *p, int value)
{
    char shape[LS_SHAPE_TEXT];
    const struct ls_value *v = &p->graph->values[value];
    const struct ls_slot *s = &p->slots[value];
    const struct ls_layout *l = s->stored >= 0 ? &p->store->entries[s->stored].layout : &s->layout;
    ls__buf_addf(b, " %s[%s %s", v->name, ls_shape_text(&v->shape, shape), l->tag);
    if (s->stored < 0) ls__buf_addf(b, " @%zu+%zu", s->offset, s->bytes);
    ls__buf_adds(b, "]");
}

static void add_op_text(struct ls_buf *b, const struct ls_plan *p, int index)
{
    const struct ls_plan_op *op = &p->ops[index];
    const struct ls_node *n = &op->node;
    ls__buf_addf(b, "%4d  %-18s %-22s %-28s", index, ls_op_name(n->op), n->name, op->kernel->name);
    if (op->flops > 0) ls__buf_addf(b, " %9.3f Mflop", op->flops * 1e-6);
    if (n->attrs.relu && n->forward < 0) ls__buf_adds(b, "  +relu");
    if (op->kernel->is_view) ls__buf_adds(b, "  (view)");
    if (op->is_tuned) ls__buf_adds(b, "  (tuned)");
    if (op->kernel->scratch_bytes) ls__buf_addf(b, "  scratch @%zu+%zu", op->scratch_offset, op->kernel->scratch_bytes);
    ls__buf_adds(b, "\n        in ");
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] >= 0) add_place(b, p, n->in[i]);
    if (n->n_out > 0) ls__buf_adds(b, "\n        out");
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] >= 0) add_place(b, p, n->out[i]);
    ls__buf_adds(b, "\n");
    if (op->refused) ls__buf_addf(b, "        refused: %s\n", op->refused);
}

static size_t largest_scratch(const struct ls_plan *p)
{
    size_t most = 0;
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].kernel->scratch_bytes > most) most = p->ops[i].kernel->scratch_bytes;
    return most;
}

enum ls_status ls_plan_text(const struct ls_plan *p, char **text)
{
    static const char *const titles[] = {
        [LS_PRE] = "before the shards, once per step",
        [LS_SHARD] = "per shard",
        [LS_JOIN] = "after the shards, once per step",
        [LS_POST] = "after the reduction, once per step",
    };
    struct ls_buf b = LS_BUF_INIT;
    char hash[33], description[128] = "";
    size_t stored[LS_VALUE_KEPT + 1] = {0};
    p->backend->describe(p->device, description, sizeof description);
    TRY(ls_plan_hash(p, hash));
    ls__buf_addf(&b, "backend %s (%s), %lld samples per shard, %s\n", p->backend->name, description,
                 (long long)p->graph->mb, p->graph->is_training ? "training" : "evaluation");
    for (int phase = LS_PRE; phase <= LS_POST; phase++) {
        ls__buf_addf(&b, "\n%s:\n", titles[phase]);
        for (int i = 0; i < p->n_ops; i++)
            if (p->ops[i].phase == (enum ls_phase)phase) add_op_text(&b, p, i);
    }
    for (int i = 0; i < p->store->n_entries; i++)
        stored[p->store->entries[i].kind] += p->store->entries[i].layout.bytes;
    ls__buf_addf(&b, "\nper shard: %.3f Gflop, arena %zu bytes (scratch up to %zu, packed with the values)\n",
                 p->shard_flops * 1e-9, p->arena_bytes, largest_scratch(p));
    ls__buf_addf(&b, "store: %zu bytes parameters, %zu buffers, %zu state and copies, %zu sums, %zu kept\nplan %s\n",
                 stored[LS_VALUE_PARAM], stored[LS_VALUE_BUFFER], stored[LS_VALUE_STATE], stored[LS_VALUE_SUM],
                 stored[LS_VALUE_KEPT], hash);
    enum ls_status status = ls__buf_check(&b);
    *text = status == LS_OK ? ls__buf_take(&b) : NULL;
    ls__buf_release(&b);
    return status;
}

enum ls_status ls_plan_hash(const struct ls_plan *p, char hex[33])
{
    struct ls_buf b = LS_BUF_INIT;
    char shape[LS_SHAPE_TEXT];
    ls__buf_addf(&b, "%s %lld\n", p->backend->name, (long long)p->graph->mb);
    for (int i = 0; i < p->n_ops; i++) {
        const struct ls_plan_op *op = &p->ops[i];
        ls__buf_addf(&b, "%s %s %s", ls_op_name(op->node.op), op->node.name, op->kernel->name);
        for (int k = 0; k < op->node.n_out; k++)
            if (op->node.out[k] >= 0)
                ls__buf_addf(&b, " %s", ls_shape_text(&p->graph->values[op->node.out[k]].shape, shape));
        for (int k = 0; k < op->node.n_in; k++) ls__buf_addf(&b, " %s", op->kernel->in[k].tag);
        for (int k = 0; k < op->node.n_out; k++) ls__buf_addf(&b, " %s", op->kernel->out[k].tag);
        ls__buf_adds(&b, "\n");
    }
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(b.text ? b.text : "", b.text ? b.len : 0));
    for (size_t i = 0; i < 16; i++) {
        hex[2 * i] = "0123456789abcdef"[canonical.digest[i] >> 4];
        hex[2 * i + 1] = "0123456789abcdef"[canonical.digest[i] & 15];
    }
    hex[32] = '\0';
    enum ls_status status = ls__buf_check(&b);
    ls__buf_release(&b);
    return status;
}
