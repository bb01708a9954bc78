/* pre.c: the phase before the shards: copies of parameters in the layouts that backward wants, made anew when the
 * parameters have changed, unless updates bring them along (ls_bound.is_followed).
 */
#include "exec/exec_internal.h"

struct pre_run {
    struct step *s;
    const struct bound_plan *bp;
    const int *ops;
    int n;
};

/* The copy a PRE op makes. */
static struct ls_stored *copy_of(struct ls_exec *e, const struct ls_plan *p, int op)
{
    return &e->store->entries[p->slots[p->ops[op].node.out[0]].stored];
}

static enum ls_status run_pre(void *arg, int item, int thread)
{
    const struct pre_run *run = arg;
    const struct ls_step_ctx ctx = {.n_parts = 1};
    struct ls_lane *lane = run->s->e->workers[thread].lane;
    int op = run->ops[item];
    struct ls_begun begun = ls__op_begin(lane, run->s->work, run->bp->plan->ops[op].node.name, run->bp->first_op + op);
    /* Bound per thread because the scratch is the thread's own. */
    const struct ls_bound *b = &run->bp->bound[thread][op];
    enum ls_status status = b->kernel->impl->launch(b, &ctx);
    ls__span_end(lane, begun);
    return status;
}

static enum ls_status launch_copies(void *arg)
{
    struct pre_run *run = arg;
    return run->s->e->together->run(run->s->e, run->n, run_pre, run);
}

/* One round of copies. Every rank notes what all of them have made. */
static enum ls_status make_copies(struct step *s, const struct bound_plan *bp, const int *ops, int n)
{
    struct ls_exec *e = s->e;
    struct pre_run run = {s, bp, ops, n};
    const struct record_key key = {.plan = bp->plan, .phase = LS_PRE};
    bool is_replayed;
    if (n == 0) return LS_OK;
    TRY(n == bp->plan->n_pre ? ls__exec_launch(e, &key, launch_copies, &run, &is_replayed) : launch_copies(&run));
    for (int i = 0; i < n; i++) copy_of(e, bp->plan, ops[i])->version = e->store->version;
    return LS_OK;
}

static bool is_followed(const struct bound_plan *bp, int op)
{
    return bp->bound[0][op].is_followed;
}

/* Makes what is stale; all, or only what updates bring along from then on. */
static enum ls_status make_stale(struct step *s, const struct bound_plan *bp, bool is_all)
{
    enum { ROUND = 1024 };
    struct ls_exec *e = s->e;
    const struct ls_plan *p = bp->plan;
    int stale[ROUND], n_stale = 0;
    for (int i = 0; i < p->n_ops; i++) {
        if (p->ops[i].phase != LS_PRE || copy_of(e, p, i)->version == e->store->version) continue;
        if (!is_all && !is_followed(bp, i)) continue;
        stale[n_stale++] = i;
        if (n_stale < ROUND) continue;
        TRY(make_copies(s, bp, stale, n_stale));
        n_stale = 0;
    }
    return make_copies(s, bp, stale, n_stale);
}

enum ls_status ls__exec_pre(struct step *s, const struct bound_plan *bp)
{
    return make_stale(s, bp, true);
}

enum ls_status ls__exec_pre_followed(struct step *s, const struct bound_plan *bp)
{
    return make_stale(s, bp, false);
}

void ls__exec_note_update(struct ls_exec *e, const struct bound_plan *bp)
{
    const struct ls_plan *p = bp->plan;
    const int64_t before = e->store->version++;
    for (int i = 0; i < p->n_ops; i++) {
        if (p->ops[i].phase != LS_PRE || !is_followed(bp, i)) continue;
        struct ls_stored *copy = copy_of(e, p, i);
        if (copy->version == before) copy->version = e->store->version;
    }
}
