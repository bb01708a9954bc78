/* plan_json.c: a plan for programs: what ls_plan_text prints, as one JSON object. */
#include "plan/plan.h"

#include "base/json.h"

#include <jansson.h>
#include <stdlib.h>

static json_t *place_json(const struct ls_plan *p, int value)
{
    char shape[LS_SHAPE_TEXT];
    const struct ls_value *v = &p->graph->values[value];
    const struct ls_slot *s = &p->slots[value];
    const struct ls_layout *l = s->stored >= 0 ? &p->store->entries[s->stored].layout : &s->layout;
    json_t *place = json_pack("{s:s, s:s, s:s, s:s}", "name", v->name, "shape", ls_shape_text(&v->shape, shape),
                              "layout", l->tag, "in", s->stored >= 0 ? "store" : "arena");
    if (!place || s->stored >= 0) return place;
    json_object_set_new(place, "offset", json_integer((json_int_t)s->offset));
    json_object_set_new(place, "bytes", json_integer((json_int_t)s->bytes));
    return place;
}

static json_t *places_json(const struct ls_plan *p, const int *values, int n)
{
    json_t *list = json_array();
    for (int i = 0; list && i < n; i++)
        if (values[i] >= 0) json_array_append_new(list, place_json(p, values[i]));
    return list;
}

static json_t *op_json(const struct ls_plan *p, const struct ls_plan_op *op)
{
    static const char *const phases[] = {
        [LS_PRE] = "pre", [LS_SHARD] = "shard", [LS_JOIN] = "join", [LS_POST] = "post"};
    const struct ls_node *n = &op->node;
    return json_pack("{s:s, s:s, s:s, s:s, s:f, s:b, s:b, s:I, s:o, s:o, s:o}", "phase", phases[op->phase], "op",
                     ls_op_name(n->op), "layer", n->name, "implementation", op->kernel->name, "flops", op->flops,
                     "is_view", op->kernel->is_view, "is_tuned", op->is_tuned, "scratch_bytes",
                     (json_int_t)op->kernel->scratch_bytes, "inputs", places_json(p, n->in, n->n_in), "outputs",
                     places_json(p, n->out, n->n_out), "refused", op->refused ? json_string(op->refused) : json_null());
}

enum ls_status ls_plan_json(const struct ls_plan *p, char **text)
{
    char hash[33], description[128] = "";
    *text = NULL;
    TRY(ls_plan_hash(p, hash));
    p->backend->describe(p->device, description, sizeof description);
    json_t *ops = json_array();
    for (int i = 0; ops && i < p->n_ops; i++) json_array_append_new(ops, op_json(p, &p->ops[i]));
    json_t *plan = json_pack("{s:s, s:s, s:I, s:b, s:f, s:I, s:I, s:s, s:o}", "backend", p->backend->name, "library",
                             description, "shard_size", (json_int_t)p->graph->mb, "is_training", p->graph->is_training,
                             "shard_flops", p->shard_flops, "arena_bytes", (json_int_t)p->arena_bytes, "store_bytes",
                             (json_int_t)p->store->bytes, "plan_hash", hash, "ops", ops);
    return ls__json_dump(plan, LS_JSON_FOR_PEOPLE, "the plan", text);
}
