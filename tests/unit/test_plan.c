/* test_plan.c: what must hold of every plan, over the whole zoo and some awkward nets, training and evaluation, on
 * every backend: phases, layouts, lifetimes, texts and hashes.
 *
 * Memory is checked by playing a shard through: writing a value destroys every other value in those bytes, and a value
 * that is read must have been written and not been destroyed. This knows nothing of how src/plan/memory.c decides.
 */
#include "engine.h"

#include <stdio.h>

static struct ls_layout layout_of(const struct ls_plan *p, int value)
{
    const struct ls_slot *s = &p->slots[value];
    return s->stored >= 0 ? p->store->entries[s->stored].layout : s->layout;
}

static bool in_arena(const struct ls_plan *p, int value)
{
    return value >= 0 && p->slots[value].stored < 0;
}

struct span {
    size_t begin, end;
};

static struct span span_of(const struct ls_plan *p, int value)
{
    return (struct span){p->slots[value].offset, p->slots[value].offset + layout_of(p, value).bytes};
}

static bool overlap(struct span a, struct span b)
{
    return a.begin < b.end && b.begin < a.end;
}

/* --- memory --- */

/* The only overlap allowed within an op: its first output over the input it may work in place on. */
static bool is_in_place(const struct ls_plan *p, const struct ls_plan_op *op, int in, int out)
{
    const struct span a = span_of(p, op->node.in[in]), b = span_of(p, op->node.out[out]);
    return out == 0 && op->kernel->may_alias && in == op->kernel->alias_in && a.begin == b.begin && a.end == b.end;
}

static void check_op_memory(const struct ls_plan *p, const struct ls_plan_op *op, const bool *is_valid)
{
    const struct ls_node *n = &op->node;
    const struct span scratch = {op->scratch_offset, op->scratch_offset + op->kernel->scratch_bytes};
    assert_int_equal(op->scratch_offset % 64, 0);
    assert_true(scratch.end <= p->arena_bytes);
    for (int i = 0; i < n->n_in; i++) {
        if (!in_arena(p, n->in[i])) continue;
        if (!is_valid[n->in[i]])
            print_error("%s (%s) reads %s, which was not written or has been overwritten\n", ls_op_name(n->op), n->name,
                        p->graph->values[n->in[i]].name);
        assert_true(is_valid[n->in[i]]);
        assert_false(overlap(scratch, span_of(p, n->in[i])));
    }
    for (int o = 0; o < n->n_out; o++) {
        if (!in_arena(p, n->out[o])) continue;
        const struct span s = span_of(p, n->out[o]);
        assert_int_equal(s.begin % 64, 0);
        assert_true(s.end <= p->arena_bytes);
        assert_false(overlap(scratch, s));
        for (int i = 0; i < n->n_in; i++)
            if (in_arena(p, n->in[i]) && overlap(s, span_of(p, n->in[i]))) assert_true(is_in_place(p, op, i, o));
        for (int k = 0; k < o; k++)
            if (in_arena(p, n->out[k])) assert_false(overlap(s, span_of(p, n->out[k])));
    }
}

static void destroy(const struct ls_plan *p, struct span bytes, bool *is_valid)
{
    for (int v = 0; v < p->n_slots; v++)
        if (in_arena(p, v) && overlap(bytes, span_of(p, v))) is_valid[v] = false;
}

static void play_shard(const struct ls_plan *p)
{
    const struct ls_graph *g = p->graph;
    bool *is_valid = calloc((size_t)p->n_slots, sizeof *is_valid);
    assert_non_null(is_valid);
    is_valid[g->input] = is_valid[g->labels] = true;
    assert_false(overlap(span_of(p, g->input), span_of(p, g->labels)));
    assert_int_equal(p->slots[g->input].offset % 64, 0);
    assert_int_equal(p->slots[g->labels].offset % 64, 0);
    for (int i = 0; i < p->n_ops; i++) {
        const struct ls_plan_op *op = &p->ops[i];
        if (op->phase != LS_SHARD) continue;
        if (op->kernel->is_view) {
            assert_true(is_valid[op->node.in[0]]);
            assert_int_equal(p->slots[op->node.in[0]].offset, p->slots[op->node.out[0]].offset);
            assert_int_equal(layout_of(p, op->node.in[0]).bytes, layout_of(p, op->node.out[0]).bytes);
            is_valid[op->node.out[0]] = true;
            continue;
        }
        check_op_memory(p, op, is_valid);
        destroy(p, (struct span){op->scratch_offset, op->scratch_offset + op->kernel->scratch_bytes}, is_valid);
        for (int o = 0; o < op->node.n_out; o++)
            if (in_arena(p, op->node.out[o])) destroy(p, span_of(p, op->node.out[o]), is_valid);
        for (int o = 0; o < op->node.n_out; o++)
            if (op->node.out[o] >= 0) is_valid[op->node.out[o]] = true;
    }
    if (!g->is_training) assert_true(is_valid[g->logits]); /* callers may look at it */
    free(is_valid);
}

static int by_begin(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Bytes that hold something during op i: values written before or by it and read by it or after, and its scratch. */
static size_t live_bytes(const struct ls_plan *p, const int *first, const int *last, int i)
{
    struct span *live = calloc((size_t)p->n_slots + 1, sizeof *live);
    size_t n = 0, total = 0, end = 0;
    assert_non_null(live);
    for (int v = 0; v < p->n_slots; v++)
        if (in_arena(p, v) && first[v] <= i && i <= last[v]) live[n++] = span_of(p, v);
    qsort(live, n, sizeof *live, by_begin);
    for (size_t k = 0; k < n; k++) {
        size_t begin = live[k].begin > end ? live[k].begin : end;
        if (live[k].end > begin) total += live[k].end - begin;
        if (live[k].end > end) end = live[k].end;
    }
    free(live);
    return total + p->ops[i].kernel->scratch_bytes;
}

/* The most that is alive at once: no arena can be smaller. */
static size_t lower_bound(const struct ls_plan *p)
{
    size_t most = 0;
    int *first = calloc((size_t)p->n_slots, sizeof *first), *last = calloc((size_t)p->n_slots, sizeof *last);
    assert_true(first && last);
    for (int v = 0; v < p->n_slots; v++) first[v] = p->n_ops, last[v] = -1;
    first[p->graph->input] = first[p->graph->labels] = 0;
    for (int i = 0; i < p->n_ops; i++) {
        const struct ls_node *n = &p->ops[i].node;
        if (p->ops[i].phase != LS_SHARD) continue;
        for (int k = 0; k < n->n_out; k++)
            if (n->out[k] >= 0) first[n->out[k]] = last[n->out[k]] = i;
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] >= 0) last[n->in[k]] = i;
    }
    for (int i = 0; i < p->n_ops; i++) {
        size_t live = p->ops[i].phase == LS_SHARD ? live_bytes(p, first, last, i) : p->ops[i].kernel->scratch_bytes;
        if (live > most) most = live;
    }
    free(first);
    free(last);
    return most;
}

/* --- phases and layouts --- */

static bool is_update(enum ls_op op)
{
    return op == LS_OP_SGD || op == LS_OP_ADAMW || op == LS_OP_RUNNING_STATS;
}

static void check_phases(const struct ls_plan *p)
{
    int n[LS_POST + 1] = {0};
    bool *is_made = calloc((size_t)p->store->n_entries, sizeof *is_made);
    assert_non_null(is_made);
    for (int i = 0; i < p->n_ops; i++) {
        const struct ls_plan_op *op = &p->ops[i];
        n[op->phase]++;
        assert_int_equal(op->phase == LS_POST, is_update(op->node.op));
        if (n[LS_POST]) assert_int_equal(op->phase, LS_POST); /* updates come last: exec counts on it */
        if (op->phase == LS_PRE) {                            /* from a stored value to the copy made of it */
            assert_int_equal(op->node.op, LS_OP_REORDER);
            int from = p->slots[op->node.in[0]].stored, to = p->slots[op->node.out[0]].stored;
            assert_true(from >= 0 && to >= 0);
            assert_int_equal(p->store->entries[to].source, from);
            is_made[to] = true;
        }
        for (int k = 0; k < op->node.n_in; k++) { /* a copy that is read is made by this very plan */
            int stored = op->node.in[k] >= 0 ? p->slots[op->node.in[k]].stored : -1;
            if (stored >= 0 && p->store->entries[stored].source >= 0) assert_true(is_made[stored]);
        }
        for (int k = 0; k < op->node.n_out; k++) /* only REDUCE and KEEP write to the store from a shard */
            if (op->phase == LS_SHARD && op->node.out[k] >= 0)
                assert_int_equal(!in_arena(p, op->node.out[k]),
                                 op->node.op == LS_OP_REDUCE || op->node.op == LS_OP_KEEP);
        if (op->phase == LS_JOIN) assert_int_equal(op->node.op, LS_OP_LINEAR_SUM);
    }
    assert_int_equal(n[LS_PRE], p->n_pre);
    assert_int_equal(n[LS_SHARD], p->n_shard);
    assert_int_equal(n[LS_JOIN], p->n_join);
    assert_int_equal(n[LS_POST], p->n_post);
    free(is_made);
}

static void check_layouts(const struct ls_plan *p)
{
    for (int i = 0; i < p->n_ops; i++) {
        const struct ls_plan_op *op = &p->ops[i];
        for (int k = 0; k < op->node.n_in; k++) {
            if (op->node.in[k] < 0) continue;
            const struct ls_layout have = layout_of(p, op->node.in[k]);
            if (have.id != op->kernel->in[k].id)
                print_error("%s (%s) input %d: %s, wants %s\n", ls_op_name(op->node.op), op->node.name, k, have.tag,
                            op->kernel->in[k].tag);
            assert_int_equal(have.id, op->kernel->in[k].id);
            assert_int_equal(have.bytes, op->kernel->in[k].bytes);
            assert_int_not_equal(have.id, LS_LAYOUT_ANY);
        }
        for (int k = 0; k < op->node.n_out; k++)
            if (op->node.out[k] >= 0) assert_int_equal(layout_of(p, op->node.out[k]).id, op->kernel->out[k].id);
        if (op->node.op == LS_OP_REDUCE) assert_true(op->n_parts >= 1);
    }
    for (int v = 0; v < p->graph->n_values; v++) { /* sums and state lie as their parameter does */
        if (p->graph->values[v].grad < 0) continue;
        const struct ls_layout param = layout_of(p, v), sum = layout_of(p, p->graph->values[v].grad);
        assert_int_equal(param.id, sum.id);
        assert_int_equal(2 * param.bytes, sum.bytes);
    }
}

static void check_text(const struct ls_plan *p)
{
    char *text, hash[33];
    check_ok(ls_plan_text(p, &text));
    assert_int_equal(ls_plan_hash(p, hash), LS_OK);
    assert_non_null(strstr(text, hash));
    const char *at = text;
    for (int phase = LS_PRE; phase <= LS_POST; phase++) /* every op in its place, with its layer and kernel */
        for (int i = 0; i < p->n_ops; i++) {
            const struct ls_plan_op *op = &p->ops[i];
            if (op->phase != (enum ls_phase)phase) continue;
            char want[32];
            snprintf(want, sizeof want, "\n%4d  %s ", i, ls_op_name(op->node.op));
            at = strstr(at, want);
            assert_non_null(at);
            const char *end = strchr(at + 1, '\n'), *name = strstr(at, op->node.name),
                       *kernel = strstr(at, op->kernel->name);
            assert_true(end && name && name < end && kernel && kernel < end);
        }
    free(text);
}

/* --- the nets --- */

#define AWKWARD(lines) "model awkward\ninput any\n" lines "flatten\nlinear fc classes\n"

static const struct ls_zoo_entry awkward[] = {
    {"relu of the input", AWKWARD("relu\n")},
    {"relu of a view of the input", "model t\ninput any\nflatten\nrelu\nrelu\nlinear fc classes\n"},
    {"a value added to itself", AWKWARD("conv a 4 3\nkeep x\nadd x\nrelu\n")},
    {"skips of skips",
     AWKWARD("conv a 4 3 pad=1\nkeep x\nconv b 4 3 pad=1\nbn c\nadd x\nkeep y\nrelu\nadd x\nadd y\n")},
    {"two readers of a relu",
     AWKWARD("conv a 4 3 pad=1\nrelu\nkeep x\nmaxpool 3 stride=1 pad=1\nadd x\nrelu\nadd x\n")},
    {"concat of one thing thrice", AWKWARD("conv a 3 3\nkeep x\nconcat x x\nrelu\n")},
    {"dropouts in a row", AWKWARD("conv a 4 3\ndropout 0.5\ndropout 0.25\nrelu\ndropout 0.1\n")},
    {"views in a row", "model t\ninput any\nconv a 4 3\nflatten\nkeep x\nrelu\nadd x\nlinear b 9\nkeep y\nrelu\nadd "
                       "y\nlinear c classes\n"},
    {"lrn, avgpool, bias", AWKWARD("conv a 6 3 bias=no\nbias z\nlrn 3\nrelu\navgpool 2\n")},
    {"batch norms in a row", AWKWARD("conv a 5 3\nbn b\nbn c\nrelu\nbn d\n")},
    {"groups", AWKWARD("conv a 6 3\nrelu\nconv b 6 3 groups=2\nrelu\nconv c 6 1 groups=6\n")},
    {NULL, NULL},
};

/* The rig's size for a model that says none. */
static struct rig_options size_for(const char *text)
{
    struct rig_options o = {.c = 3, .hw = 32, .n_classes = 10, .optim = {.momentum = 0.9}};
    struct ls_model *m;
    int c, h, w;
    check_ok(ls_model_parse(&m, "t.net", text, strlen(text)));
    ls_model_input(m, &c, &h, &w);
    if (c) o.c = c;
    if (h) o.hw = h;
    ls_model_destroy(&m);
    return o;
}

static double worst; /* arena over bound */

static struct ls_plan *plan_of(struct rig *r, int64_t mb, bool is_training)
{
    struct ls_graph *g = rig_graph(r, mb, is_training);
    struct ls_plan *p;
    check_ok(ls_plan_create(&p, &g, r->backend, r->device, r->store));
    assert_null(g);
    return p;
}

static void check_plan(const struct ls_plan *p, const char *name)
{
    check_phases(p);
    check_layouts(p);
    check_text(p);
    play_shard(p);
    const size_t bound = lower_bound(p);
    assert_true(p->arena_bytes >= bound);
    const double ratio = (double)p->arena_bytes / (double)bound;
    if (ratio > worst) worst = ratio;
    if (getenv("LOCKSTEP_TEST_VERBOSE"))
        printf("%-28s %-4s %-10s mb %lld: arena %zu, bound %zu, ratio %.3f\n", name, p->backend->name,
               p->graph->is_training ? "training" : "evaluation", (long long)p->graph->mb, p->arena_bytes, bound,
               ratio);
}

/* Several sizes and an evaluation share one store, as in a run. */
static void check_net(const struct ls_zoo_entry *net, const char *backend)
{
    struct rig r;
    const struct rig_options o = size_for(net->text);
    rig_open(&r, backend, net->text, &o);
    static const int64_t sizes[] = {4, 3, 1, 4};
    for (int i = 0; i < 4; i++) {
        struct ls_plan *p = plan_of(&r, sizes[i], i < 3);
        check_plan(p, net->name);
        ls_plan_destroy(&p);
    }
    check_ok(ls_store_allocate(r.store));
    rig_close(&r);
}

static void test_zoo(void **state)
{
    const char *backend;
    for (RIG_EACH(backend))
        for (int i = 0; ls_zoo[i].name; i++) check_net(&ls_zoo[i], backend);
    print_message("arena over the lower bound, at worst: %.3f\n", worst);
    assert_true(worst < 1.25);
}

static void test_awkward_nets(void **state)
{
    const char *backend;
    for (RIG_EACH(backend))
        for (int i = 0; awkward[i].name; i++) check_net(&awkward[i], backend);
}

/* --- hashes --- */

static void hash_of(const char *backend, const char *text, int64_t mb, bool is_training, char hex[33])
{
    struct rig r;
    const struct rig_options o = {.optim = {.momentum = 0.9}};
    rig_open(&r, backend, text, &o);
    struct ls_plan *p = plan_of(&r, mb, is_training);
    assert_int_equal(ls_plan_hash(p, hex), LS_OK);
    assert_int_equal(strlen(hex), 32);
    ls_plan_destroy(&p);
    rig_close(&r);
}

static void test_hash(void **state)
{
    char a[33], b[33];
    const char *text = awkward[3].text, *backend;
    for (RIG_EACH(backend)) {
        hash_of(backend, text, 4, true, a);
        hash_of(backend, text, 4, true, b);
        assert_string_equal(a, b);
        hash_of(backend, text, 3, true, b);
        assert_string_not_equal(a, b);
        hash_of(backend, text, 4, false, b);
        assert_string_not_equal(a, b);
        hash_of(backend, awkward[2].text, 4, true, b);
        assert_string_not_equal(a, b);
        if (strcmp(backend, "ref") == 0) continue;
        hash_of("ref", text, 4, true, b);
        assert_string_not_equal(a, b);
    }
}

/* --- the store --- */

/* A name that comes back with another shape is a bug of the caller, and said so. */
static void test_store_refuses_another_shape(void **state)
{
    struct rig r, other;
    const struct rig_options o = {.optim = {.momentum = 0.9}};
    rig_open(&r, "ref", AWKWARD("conv a 4 3\n"), &o);
    rig_open(&other, "ref", AWKWARD("conv a 5 3\n"), &o);
    rig_plan(&r, 2, true);
    struct ls_graph *g = rig_graph(&other, 2, true);
    struct ls_plan *p;
    check_fails(ls_plan_create(&p, &g, r.backend, r.device, r.store), LS_INTERNAL, "a.weight has two shapes");
    assert_null(p);
    assert_null(g);
    rig_close(&r);
    rig_close(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zoo),
        cmocka_unit_test(test_awkward_nets),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_store_refuses_another_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
