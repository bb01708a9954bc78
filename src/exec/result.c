/* result.c: the end of a step: all learn the same loss, count and wishes, and how the others fared. */
#include "base/status_kept.h"
#include "exec/exec_internal.h"

#include <math.h>
#include <string.h>

void ls_exec_want(struct ls_exec *e, bool stop, bool save)
{
    e->stop_wanted = stop;
    e->save_wanted = save;
}

void ls__result_wish(struct step *s)
{
    int64_t *control = ls__sums_control(s->e);
    if (s->e->stop_wanted) __atomic_fetch_add(&control[LS_CONTROL_STOP], 1, __ATOMIC_RELAXED);
    if (s->e->save_wanted) __atomic_fetch_add(&control[LS_CONTROL_SAVE], 1, __ATOMIC_RELAXED);
}

enum ls_status ls__result_take(struct step *s, struct step_result *r)
{
    const struct ls_plan *p = s->plan->plan;
    int64_t sums[2], *data = s->e->store->entries[p->slots[p->graph->stats_sum].stored].data;
    struct ls_lane *lane = s->e->workers[0].lane;
    struct ls_begun begun = ls__span_begin(lane, s->work, "result", s->ask->step); /* a device may still compute */
    TRY(ls__moments_end(s, begun, ls__memory_read(s->e, data, sizeof sums, sums)));
    r->loss = sums[0];
    r->n_correct = sums[1];
    return ls__memory_zero(s->e, data, sizeof sums);
}

enum ls_status ls__result_take_all(struct step *s, struct step_result *r)
{
    struct ls_exec *e = s->e;
    int64_t *control = ls__sums_control(e);
    enum ls_status status = ls__result_take(s, r);
    memcpy(r->control, control, sizeof r->control);
    memcpy(r->machine_ns, control + LS_CONTROL_MACHINES, (size_t)e->n_machines * sizeof *control);
    memset(control, 0, (size_t)(e->sums.n - e->sums.control) * sizeof *control);
    return status;
}

static enum ls_status read_result(struct step *s, struct ls_exec_stats *stats)
{
    struct step_result own = {0};
    const struct step_result *r;
    TRY(s->e->together->result(s, &own, &r));
    s->e->n_active = r->n_active;
    stats->n = s->ask->batch->n + s->e->ahead.n_samples;
    stats->loss_sum = ldexp((double)r->loss, -LS_SCALE_STATS);
    stats->n_correct = r->n_correct >> LS_SCALE_STATS;
    stats->stop_wanted = r->control[LS_CONTROL_STOP] > 0;
    stats->save_wanted = r->control[LS_CONTROL_SAVE] > 0;
    if (s->is_training) ls__share_note(s, r);
    if (r->control[LS_CONTROL_FAILED] == 0) return LS_OK;
    return ls_fail(LS_REMOTE, "%lld of %d machines failed in this step; see their messages",
                   (long long)r->control[LS_CONTROL_FAILED], s->e->n_machines);
}

/* The job is broken: no rank may wait for another any more. */
static bool is_job_lost(enum ls_status status)
{
    return status == LS_TIMEOUT || status == LS_REMOTE;
}

enum ls_status ls__exec_conclude(struct step *s, enum ls_status status, struct ls_exec_stats *stats)
{
    struct ls_exec *e = s->e;
    if (is_job_lost(status)) return status;
    if (status == LS_OK) ls__fetch_next(s);
    struct ls_kept work = ls__keep(status);
    ls__step_note(s, "sums");
    enum ls_status learned = read_result(s, stats);
    if (work.status == LS_OK) work = ls__keep(ls__step_diagnose(s, learned)); /* an enqueued launch may have failed */
    ls__ahead_forget(e);
    if (work.status == LS_OK || is_job_lost(learned)) return ls__fail_again(&work);
    TRY(e->together->barrier(e, e->local_rank == 0 ? ls_exec_zero_sums(e) : LS_OK));
    return ls__fail_again(&work);
}
