/* step.c: a step from begin to end; the phases are in files of their own (exec_internal.h has the list). */
#include "exec/exec_internal.h"

struct step ls__step_of(struct ls_exec *e, const struct ls_exec_step *ask, bool is_training)
{
    int n_shards = (int)((ask->batch->n + ask->shard_size - 1) / ask->shard_size);
    struct step s = {.e = e, .ask = ask, .is_training = is_training, .n_shards = n_shards};
    s.work = is_training ? LS_SPAN_COMPUTE : LS_SPAN_EVALUATE;
    ls__share_shards(&s);
    return s;
}

void ls__step_note(const struct step *s, const char *what)
{
    if (s->e->comm) ls_comm_note(s->e->comm, s->is_training ? s->ask->step + 1 : -1, what);
}

/* The plan of the full shards, and that of a smaller last one. Missing ones are missing on every rank. */
enum ls_status ls__step_find_plans(struct step *s)
{
    int64_t rest = s->ask->batch->n - (s->n_shards - 1) * s->ask->shard_size;
    int64_t full = s->is_training && s->n_shards == 1 ? rest : s->ask->shard_size;
    s->plan = ls__exec_find(s->e, full, s->is_training);
    if (!s->plan) return ls_fail(LS_INTERNAL, "no plan for shards of %lld samples", (long long)full);
    if (!s->is_training || rest == full) return LS_OK;
    s->last_plan = ls__exec_find(s->e, rest, true);
    return s->last_plan ? LS_OK : ls_fail(LS_INTERNAL, "no plan for shards of %lld samples", (long long)rest);
}

/* Parameters in the layouts that the shards of this batch want. */
enum ls_status ls__step_prepare(struct step *s)
{
    ls__step_note(s, "layouts");
    TRY(ls__exec_pre(s, s->plan));
    if (s->last_plan) TRY(ls__exec_pre(s, s->last_plan));
    return s->is_training ? ls__compress_begin(s->e, s->plan->plan) : LS_OK;
}

enum ls_status ls__step_diagnose(struct step *s, enum ls_status status)
{
    if (status != LS_NONFINITE || !s->is_training) return status;
    const struct step failed = ls__ahead_failed(s);
    return s->e->together->barrier(s->e, s->e->local_rank == 0 ? ls__exec_diagnose(&failed) : status);
}

/* All shards of this machine, and what is summed over them once. What fails here fails with the sums under way, so that
 * the other machines learn of it. */
static enum ls_status run_shards(struct step *s)
{
    struct ls_exec *e = s->e;
    enum ls_status status = ls__step_prepare(s);
    TRY(e->together->sum_begin(s));
    ls__step_note(s, s->is_training ? "shards" : "evaluation");
    struct ls_begun begun = ls__span_begin(e->workers[0].lane, LS_SPAN_ROUND, "shards", s->ask->step);
    if (status == LS_OK) status = e->together->run(e, s->n_own, ls__exec_run_shard, s);
    s->shards_ns = ls__span_end(e->workers[0].lane, begun);
    if (status == LS_OK && s->is_training) status = ls__exec_join(s);
    if (status == LS_OK) status = e->together->sum_copy(s);
    status = ls__step_diagnose(s, status);
    e->together->sum_close(s, status != LS_OK);
    return status;
}

static enum ls_status run_whole(struct step *s, struct ls_exec_stats *stats)
{
    bool is_replayed;
    const enum ls_status status = ls__exec_run_whole(s, &is_replayed);
    if (status == LS_OK && is_replayed && ls__ahead_may(s)) return ls__ahead_note(s);
    return ls__exec_conclude(s, status, stats);
}

enum ls_status ls_exec_train(struct ls_exec *e, const struct ls_exec_step *ask, struct ls_exec_stats *stats)
{
    const struct ls_step_ctx update = {
        .seed = ask->seed, .step = ask->step, .lr = (float)ask->lr, .clip_scale = 1, .n_parts = 1};
    struct step s = ls__step_of(e, ask, true);
    *stats = (struct ls_exec_stats){0};
    if (!(ask->clip_norm > 0) && !ask->look) s.update = &update;
    TRY(ls__step_find_plans(&s));
    TRY(ls__exec_now(e, &update));
    if (ls__exec_is_whole(&s)) return run_whole(&s, stats);
    enum ls_status status = run_shards(&s);
    if (status == LS_OK) status = e->together->publish(&s);
    ls__step_note(&s, "update");
    if (status == LS_OK) status = ls__exec_post(&s, update, stats);
    return ls__exec_conclude(&s, status, stats);
}

enum ls_status ls_exec_backward(struct ls_exec *e, const struct ls_exec_step *ask, struct ls_exec_stats *stats)
{
    struct step s = ls__step_of(e, ask, true);
    *stats = (struct ls_exec_stats){0};
    TRY(ls__step_find_plans(&s));
    return ls__exec_conclude(&s, run_shards(&s), stats);
}

enum ls_status ls_exec_evaluate(struct ls_exec *e, const struct ls_exec_step *ask, struct ls_exec_stats *stats)
{
    struct step s = ls__step_of(e, ask, false);
    *stats = (struct ls_exec_stats){0};
    TRY(ls__step_find_plans(&s));
    return ls__exec_conclude(&s, run_shards(&s), stats);
}
