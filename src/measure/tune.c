/* tune.c: `lockstep tune`: which implementation of each problem makes the whole training step fastest.
 *
 * A choice can cost reorders elsewhere, so choices are judged by what they change in the step, never alone. Starting
 * from what the rules choose, three kinds of moves are tried: one implementation everywhere it can be (a chain of
 * layers may have to change its layout together), in one layer forward and backward, and for one problem. A move is
 * kept if it beats the present choices in two separate measurements, each interleaved step by step. The first kind
 * tells what every kernel takes by itself; a later move that could not pay even if it saved all reorders of the step is
 * not tried. At the end, lines that change nothing are taken out again.
 */
#include "measure/tune.h"
#include "base/clock.h"
#include "base/mem.h"
#include "run/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_ROUNDS = 4, MAX_ROUNDS = 400, ROUNDS_BEFORE_GIVING_UP = 2, MAX_SECONDS = 86400 };
/* Less than this is noise, or not worth a line; problems that take less are left to the rules. */
static const double GAIN_OF_CHANGED = 0.03, GAIN_OF_STEP = 0.001, WORTH_TRYING = 0.002,
                    LONG_ENOUGH_SECONDS = 0.05; /* for the first step to be believed */

struct move {
    enum { EVERYWHERE, LAYER, PROBLEM } scope;
    int index; /* of the group or the problem */
    const char *impl;
};

struct tuner {
    const struct ls_tune_options *o;
    struct ls_tune_result *r;
    struct side now; /* the best choices so far */
    struct move *moves;
    int n_moves;
    uint64_t *tried; /* hashes of tables */
    int n_tried;
};

/* --- problems --- */

static int find_problem(const struct ls_tune_result *r, const char *key)
{
    for (int i = 0; i < r->n_problems; i++)
        if (strcmp(r->problems[i].key, key) == 0) return i;
    return -1;
}

static int find_choice(const struct ls_tune_problem *problem, const char *impl)
{
    for (int i = 0; i < problem->n_choices; i++)
        if (strcmp(problem->choices[i].impl, impl) == 0) return i;
    return -1;
}

/* The backend's implementations of the op. ref is the oracle, not a candidate, unless the rules chose it. */
static void list_choices(struct ls_tune_problem *problem, const struct ls_backend *backend, enum ls_op op,
                         const char *chosen)
{
    for (const struct ls_impl *const *i = backend->impls; *i && problem->n_choices < LS_TUNE_MAX_CHOICES - 1; i++)
        if ((*i)->op == op && find_choice(problem, (*i)->name) < 0)
            snprintf(problem->choices[problem->n_choices++].impl, sizeof problem->choices[0].impl, "%s", (*i)->name);
    if (find_choice(problem, chosen) < 0)
        snprintf(problem->choices[problem->n_choices++].impl, sizeof problem->choices[0].impl, "%s", chosen);
    problem->rule = problem->chosen = find_choice(problem, chosen);
}

static enum ls_status list_problems(struct tuner *t)
{
    const struct ls_plan *plan = t->now.plan;
    TRY(ls__calloc(&t->r->problems, (size_t)plan->n_ops, sizeof *t->r->problems));
    for (int i = 0; i < plan->n_ops; i++) {
        const struct ls_plan_op *op = &plan->ops[i];
        char key[LS_TUNE_KEY_BYTES];
        if (op->kernel->is_view || op->node.op == LS_OP_REORDER) continue;
        ls__tune_key(plan->graph, &op->node, key);
        int at = find_problem(t->r, key);
        if (at >= 0) {
            t->r->problems[at].n_uses++;
            continue;
        }
        struct ls_tune_problem *problem = &t->r->problems[t->r->n_problems];
        *problem = (struct ls_tune_problem){.n_uses = 1, .group = t->r->n_problems};
        snprintf(problem->key, sizeof problem->key, "%s", key);
        list_choices(problem, plan->backend, op->node.op, op->kernel->impl->name);
        if (problem->n_choices < 2) continue;
        if (op->node.forward >= 0) {
            ls__tune_key(plan->graph, &plan->graph->nodes[op->node.forward], key);
            int forward = find_problem(t->r, key);
            if (forward >= 0) problem->group = forward;
        }
        t->r->n_problems++;
    }
    return LS_OK;
}

/* --- moves --- */

static enum ls_status add_move(struct tuner *t, int scope, int index, const char *impl)
{
    for (int i = 0; i < t->n_moves; i++) {
        const struct move *m = &t->moves[i];
        if ((int)m->scope == scope && m->index == index && strcmp(m->impl, impl) == 0) return LS_OK;
    }
    TRY(ls__grow(&t->moves, (size_t)t->n_moves, (size_t)t->n_moves + 1, sizeof *t->moves));
    t->moves[t->n_moves].scope = scope;
    t->moves[t->n_moves].index = index;
    t->moves[t->n_moves++].impl = impl;
    return LS_OK;
}

static enum ls_status list_moves(struct tuner *t)
{
    for (int scope = EVERYWHERE; scope <= PROBLEM; scope++)
        for (int i = 0; i < t->r->n_problems; i++)
            for (int k = 0; k < t->r->problems[i].n_choices; k++)
                TRY(add_move(t, scope,
                             scope == EVERYWHERE ? 0
                             : scope == LAYER    ? t->r->problems[i].group
                                                 : i,
                             t->r->problems[i].choices[k].impl));
    return LS_OK;
}

static bool is_in(const struct move *m, const struct ls_tune_result *r, int problem)
{
    return m->scope == EVERYWHERE || (m->scope == LAYER ? r->problems[problem].group : problem) == m->index;
}

/* The present table with the move made; *n_changed 0: nothing to try. */
static enum ls_status make_table(const struct tuner *t, const struct move *m, struct ls_tune **table, int *n_changed)
{
    const struct ls_tune *now = t->now.table;
    *n_changed = 0;
    TRY(ls__tune_create(table, now->origin, &now->id));
    for (int i = 0; i < now->n_lines; i++) TRY(ls__tune_set(*table, now->lines[i].key, now->lines[i].impl));
    for (int i = 0; m && i < t->r->n_problems; i++) {
        const struct ls_tune_problem *problem = &t->r->problems[i];
        int k = is_in(m, t->r, i) ? find_choice(problem, m->impl) : -1;
        if (k < 0 || k == problem->chosen || problem->choices[k].is_refused) continue;
        TRY(ls__tune_set(*table, problem->key, m->impl));
        ++*n_changed;
    }
    return LS_OK;
}

/* What a plan really took, problem by problem. With m: an implementation that was asked for and is not there refused.
 */
static void read_plan(const struct tuner *t, const struct side *side, const struct move *m, int chosen[])
{
    for (int i = 0; i < side->plan->n_ops; i++) {
        const struct ls_plan_op *op = &side->plan->ops[i];
        char key[LS_TUNE_KEY_BYTES];
        ls__tune_key(side->plan->graph, &op->node, key);
        int at = find_problem(t->r, key);
        if (at < 0) continue;
        struct ls_tune_problem *problem = &t->r->problems[at];
        int k = m && is_in(m, t->r, at) ? find_choice(problem, m->impl) : -1;
        chosen[at] = find_choice(problem, op->kernel->impl->name);
        if (k >= 0 && chosen[at] != k && m->scope == PROBLEM) problem->choices[k].is_refused = true;
    }
}

static void note_times(const struct tuner *t, const struct side *side, const int chosen[])
{
    for (int i = 0; i < t->r->n_problems; i++) {
        struct ls_tune_problem *problem = &t->r->problems[i];
        double ms = 1e3 * ls__side_key_seconds(side, problem->key);
        if (chosen[i] < 0) continue;
        struct ls_tune_choice *choice = &problem->choices[chosen[i]];
        if (choice->ms == 0 || ms < choice->ms) choice->ms = ms;
    }
}

static bool is_gain(struct side *now, struct side *other)
{
    double changed, gain = ls__side_gain(now, other, &changed);
    return gain > GAIN_OF_CHANGED * changed && gain > GAIN_OF_STEP * ls__side_seconds(now);
}

/* Steps of both in turn, after two of each that do not count. Ends early when the other one is clearly behind. */
static enum ls_status compare(struct tuner *t, struct side *other, bool *is_better)
{
    double changed;
    *is_better = false;
    for (int i = 0; i < 2; i++) {
        TRY(ls__side_step(&t->now));
        TRY(ls__side_step(other));
    }
    bool is_hopeless = ls__side_gain(&t->now, other, &changed) < -0.5 * changed;
    if (is_hopeless && changed > LONG_ENOUGH_SECONDS) return LS_OK;
    ls__side_reset(&t->now);
    ls__side_reset(other);
    int64_t start = ls__now_ns();
    for (int i = 0; i < MAX_ROUNDS && (i < MIN_ROUNDS || ls__seconds_since(start) < t->o->seconds); i++) {
        TRY(ls__side_step(&t->now));
        TRY(ls__side_step(other));
        bool may_give_up = i + 1 >= ROUNDS_BEFORE_GIVING_UP && ls__seconds_since(start) > 0.2 * t->o->seconds;
        if (may_give_up && ls__side_gain(&t->now, other, &changed) < -0.1 * changed) return LS_OK;
    }
    *is_better = is_gain(&t->now, other);
    return LS_OK;
}

static bool is_same_plan(const struct side *a, const struct side *b)
{
    char x[33], y[33];
    return ls_plan_hash(a->plan, x) == LS_OK && ls_plan_hash(b->plan, y) == LS_OK && strcmp(x, y) == 0;
}

static void take_over(struct tuner *t, struct side *other, const int chosen[])
{
    struct side old = t->now;
    for (int i = 0; i < t->r->n_problems; i++) t->r->problems[i].chosen = chosen[i];
    t->now = *other;
    *other = old;
}

static enum ls_status judge(struct tuner *t, const struct move *m, struct side *other, int *chosen)
{
    bool is_better = false;
    read_plan(t, other, m, chosen);
    if (is_same_plan(&t->now, other)) return LS_OK;
    t->r->n_tried++;
    TRY(compare(t, other, &is_better));
    note_times(t, other, chosen);
    if (is_better) TRY(compare(t, other, &is_better));
    if (is_better) take_over(t, other, chosen);
    return LS_OK;
}

static double reorder_seconds(const struct side *side)
{
    double sum = 0;
    for (int i = 0; i < side->plan->n_ops; i++)
        if (side->plan->ops[i].node.op == LS_OP_REORDER) sum += side->best[i];
    return sum;
}

/* Whether a move could pay, by what its kernels took so far. */
static bool is_worth_trying(const struct tuner *t, const struct move *m)
{
    double share = 0, most = reorder_seconds(&t->now), step = ls__side_seconds(&t->now);
    for (int i = 0; i < t->r->n_problems; i++) {
        const struct ls_tune_problem *problem = &t->r->problems[i];
        int k = is_in(m, t->r, i) ? find_choice(problem, m->impl) : -1;
        if (k < 0 || k == problem->chosen || problem->choices[k].is_refused) continue;
        share += ls__side_key_seconds(&t->now, problem->key);
        if (problem->choices[k].ms > 0) most += 1e-3 * (problem->choices[problem->chosen].ms - problem->choices[k].ms);
        if (problem->choices[k].ms == 0) most += step; /* nothing is known */
    }
    return share > WORTH_TRYING * step && most > GAIN_OF_STEP * step;
}

/* Different moves can come to the same. */
static enum ls_status remember(struct tuner *t, const struct ls_tune *table, bool *is_new)
{
    uint64_t hash = strtoull(table->hash, NULL, 16);
    for (int i = 0; i < t->n_tried; i++)
        if (t->tried[i] == hash) {
            *is_new = false;
            return LS_OK;
        }
    *is_new = true;
    TRY(ls__grow(&t->tried, (size_t)t->n_tried, (size_t)t->n_tried + 1, sizeof *t->tried));
    t->tried[t->n_tried++] = hash;
    return LS_OK;
}

static enum ls_status try_move(struct tuner *t, const struct move *m, int *chosen)
{
    struct ls_tune *table = NULL;
    struct side other = {.table = NULL};
    int n_changed;
    bool is_new = false;
    if (!is_worth_trying(t, m)) return LS_OK;
    enum ls_status status = make_table(t, m, &table, &n_changed);
    if (status == LS_OK && n_changed > 0) status = remember(t, table, &is_new);
    if (status == LS_OK && is_new) {
        status = ls__side_open(&other, t->o, &table);
        if (status == LS_OK) status = judge(t, m, &other, chosen);
        ls__side_close(&other);
    }
    ls__tune_destroy(&table);
    return status;
}

/* --- the search --- */

/* Whether the present choices do without line i: the plan stays the same, or the step is no slower. Then *other takes
 * the place of the present ones. */
static enum ls_status try_without(struct tuner *t, int i, struct side *other, int *chosen)
{
    struct ls_tune *table = NULL;
    int ignored;
    bool is_better;
    enum ls_status status = make_table(t, NULL, &table, &ignored);
    if (status == LS_OK) status = ls__tune_set(table, t->now.table->lines[i].key, NULL);
    if (status == LS_OK) status = ls__side_open(other, t->o, &table);
    ls__tune_destroy(&table);
    TRY(status);
    bool is_needless = is_same_plan(&t->now, other);
    if (!is_needless) {
        TRY(compare(t, other, &is_better));
        is_needless = !is_gain(other, &t->now);
    }
    if (!is_needless) return LS_OK;
    read_plan(t, other, NULL, chosen);
    take_over(t, other, chosen);
    return LS_OK;
}

/* Takes out what is not needed: later choices can make earlier ones idle, and luck has a third chance to show. */
static enum ls_status prune(struct tuner *t)
{
    int *chosen;
    TRY(ls__calloc(&chosen, (size_t)t->r->n_problems + 1, sizeof *chosen));
    enum ls_status status = LS_OK;
    for (int i = t->now.table->n_lines - 1; status == LS_OK && i >= 0; i--) {
        struct side other = {.table = NULL};
        status = try_without(t, i, &other, chosen);
        ls__side_close(&other);
    }
    free(chosen);
    return status;
}

static enum ls_status search(struct tuner *t)
{
    struct ls_progress progress;
    int *chosen;
    TRY(ls__calloc(&chosen, (size_t)t->r->n_problems + 1, sizeof *chosen));
    ls__progress_begin(&progress, "Tune", t->n_moves);
    enum ls_status status = LS_OK;
    for (int i = 0; status == LS_OK && i < t->n_moves; i++) {
        status = try_move(t, &t->moves[i], chosen);
        ls__progress_update(&progress, i + 1, t->moves[i].impl);
    }
    ls__progress_end(&progress, NULL);
    free(chosen);
    return status;
}

static enum ls_status note_rules(struct tuner *t)
{
    int *chosen;
    TRY(ls__calloc(&chosen, (size_t)t->r->n_problems + 1, sizeof *chosen));
    for (int i = 0; i < t->r->n_problems; i++) chosen[i] = t->r->problems[i].rule;
    note_times(t, &t->now, chosen);
    free(chosen);
    return LS_OK;
}

/* The step by the rules, and the times of what they choose. */
static enum ls_status begin(struct tuner *t)
{
    struct ls_backend_id id;
    struct ls_tune *table;
    const struct ls_backend *backend;
    TRY(ls_backend_get(t->o->device, &backend));
    TRY(ls__tune_create(&table, "tune", &(struct ls_backend_id){.isa = ""}));
    TRY(ls__side_open(&t->now, t->o, &table));
    t->now.s.backend->identify(t->now.s.device, &id);
    TRY(ls__tune_check_output(t->o, &id));
    snprintf(t->r->library, sizeof t->r->library, "%s", id.software);
    snprintf(t->r->isa, sizeof t->r->isa, "%s", id.isa);
    snprintf(t->r->model, sizeof t->r->model, "%s", ls_model_name(t->now.s.model));
    ls__tune_destroy(&t->now.table);
    TRY(ls__tune_create(&t->now.table, "tune", &id));
    TRY(list_problems(t));
    for (int i = 0; i < MIN_ROUNDS; i++) TRY(ls__side_step(&t->now));
    TRY(note_rules(t));
    return list_moves(t);
}

/* Both sets of choices once more, in turn. */
static enum ls_status measure_result(struct tuner *t)
{
    struct ls_tune *table;
    struct side rules = {.table = NULL};
    bool ignored;
    int *chosen;
    TRY(ls__tune_create(&table, "tune", &t->now.table->id));
    enum ls_status status = ls__side_open(&rules, t->o, &table);
    if (status == LS_OK) status = compare(t, &rules, &ignored);
    if (status == LS_OK) status = ls__calloc(&chosen, (size_t)t->r->n_problems + 1, sizeof *chosen);
    if (status == LS_OK) {
        t->r->ms_before = 1e3 * ls__side_seconds(&rules);
        t->r->ms_after = 1e3 * ls__side_seconds(&t->now);
        if (is_same_plan(&t->now, &rules)) t->r->ms_before = t->r->ms_after; /* the rest would be noise */
        read_plan(t, &rules, NULL, chosen);
        note_times(t, &rules, chosen);
        read_plan(t, &t->now, NULL, chosen);
        note_times(t, &t->now, chosen);
        free(chosen);
    }
    ls__side_close(&rules);
    return status;
}

static enum ls_status run(struct tuner *t)
{
    struct ls_tune_result *r = t->r;
    TRY(begin(t));
    TRY(search(t));
    TRY(prune(t));
    TRY(measure_result(t));
    r->batch_size = t->now.s.batch_size;
    r->shards = t->now.s.shards;
    r->shard_size = t->now.s.shard_size;
    r->threads = t->now.s.threads;
    for (int i = 0; i < r->n_problems; i++) r->n_changed += r->problems[i].chosen != r->problems[i].rule;
    TRY(ls__tune_text(t->o, r, t->now.table, &r->table));
    return t->o->output ? ls__tune_write(t->o, r, t->now.table) : LS_OK;
}

enum ls_status ls_tune(const struct ls_tune_options *o, struct ls_tune_result *r)
{
    struct tuner t = {.o = o, .r = r};
    if (!o || !r) return ls_fail(LS_USAGE, "ls_tune without options or without room for the result");
    if (!(o->seconds >= 0 && o->seconds <= MAX_SECONDS))
        return ls_fail(LS_USAGE, "comparisons of %g s: expected 0 up to a day", o->seconds);
    *r = (struct ls_tune_result){.n_problems = 0};
    enum ls_status status = run(&t);
    ls__side_close(&t.now);
    free(t.moves);
    free(t.tried);
    return status;
}

void ls_tune_result_release(struct ls_tune_result *r)
{
    free(r->problems);
    free(r->table);
    r->problems = NULL;
    r->table = NULL;
}
