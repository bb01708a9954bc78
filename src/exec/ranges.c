/* ranges.c: the block of sums in pieces: where it may be cut, and what the updates by a piece change. For servers that
 * have a range each (exec.h: ls_exec_sums_cut, ls_exec_updated).
 *
 * An update reads one sum (in[1]) and changes values of the same layout (in[0], in[2], in[3]) element by element, so a
 * range of sums is a range of each of them. Kernels work by vectors: a cut at a multiple of UNIT elements leaves every
 * vector whole, as ls_part_range does.
 */
#include "base/mem.h"
#include "exec/exec_internal.h"

#include <stdlib.h>

enum { UNIT = 16 };

int64_t ls_exec_sums_cut(const struct ls_exec *e, int64_t at)
{
    const struct sum_block *s = &e->sums;
    if (at >= s->control) return s->control;
    for (int i = 0; i < s->n_places; i++) {
        const struct sum_place *p = &s->places[i];
        if (p->is_placed && p->begin <= at && at < p->end) return p->begin + (at - p->begin) / UNIT * UNIT;
    }
    return 0;
}

static const struct ls_plan *training_plan(const struct ls_exec *e)
{
    for (int i = 0; i < e->n_plans; i++)
        if (e->plans[i].plan->n_post > 0) return e->plans[i].plan;
    return NULL;
}

/* What one update changes within the range; returns how many. */
static int updated_by(const struct ls_exec *e, const struct ls_plan *p, const struct ls_plan_op *op,
                      struct ls_sum_range range, struct ls_stored_part *out)
{
    const int64_t at = e->sums.places[p->slots[op->node.in[1]].stored].begin;
    int64_t begin = range.begin - at, end = range.end - at, count = (int64_t)(op->kernel->in[0].bytes / sizeof(float));
    int n = 0;
    if (begin < 0) begin = 0;
    if (end > count) end = count;
    if (begin >= end) return 0;
    for (int i = 0; i < op->node.n_in; i++)
        if (i != 1 && op->node.in[i] >= 0)
            out[n++] = (struct ls_stored_part){p->slots[op->node.in[i]].stored, begin, end - begin};
    return n;
}

enum ls_status ls_exec_updated(const struct ls_exec *e, struct ls_sum_range range, struct ls_stored_part **parts,
                               int *n)
{
    const struct ls_plan *p = training_plan(e);
    *n = 0;
    *parts = NULL;
    if (!p) return ls_fail(LS_INTERNAL, "a range of sums before the plan of a training");
    TRY(ls__calloc(parts, (size_t)p->n_post * LS_MAX_IN + 1, sizeof **parts));
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].phase == LS_POST) *n += updated_by(e, p, &p->ops[i], range, *parts + *n);
    for (int i = 0; i < *n; i++) {
        const struct ls_stored *s = &e->store->entries[(*parts)[i].entry];
        if ((size_t)((*parts)[i].begin + (*parts)[i].n) * sizeof(float) <= s->layout.bytes) continue;
        free(*parts);
        *parts = NULL;
        return ls_fail(LS_INTERNAL, "%s is not laid out as its sum is", s->name);
    }
    return LS_OK;
}
