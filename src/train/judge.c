/* judge.c: which data judges an epoch, whether it was the best, and whether to stop (judge.h). */
#include "train/judge.h"

#include "base/clock.h"
#include "base/log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is_choosing(const struct trainer *t)
{
    return t->s.validation;
}

enum judged ls__judge_of_epoch(const struct trainer *t)
{
    const struct ls_train_options *o = t->o;
    bool is_last = t->st.step >= t->last_step;
    bool is_due = is_last || (o->eval_every > 0 && (t->st.epoch + 1) % o->eval_every == 0);
    if (t->is_own_loop || !is_due) return JUDGED_NOTHING;
    if (is_choosing(t)) return JUDGED_VALIDATION;
    return o->no_eval ? JUDGED_NOTHING : JUDGED_TEST;
}

/* Unless a signal cuts it short: then is_cut_short, and nothing else has changed. */
static enum ls_status measure(struct trainer *t, enum judged by, double *loss, double *accuracy, double *seconds)
{
    struct evaluation e = {.data = by == JUDGED_VALIDATION ? t->s.validation : t->s.test};
    struct ls_begun begun = ls__span_begin(t->s.lane, LS_SPAN_EVALUATE,
                                           by == JUDGED_VALIDATION ? "validation data" : "test data", t->st.step);
    ls__record_mark(t->record, "evaluate");
    enum ls_status status = ls__session_evaluate_on(&t->s, &e);
    *seconds = 1e-9 * (double)ls__span_end(t->s.lane, begun);
    *loss = e.loss;
    *accuracy = e.accuracy;
    t->is_cut_short = e.is_stopped;
    return status;
}

static bool note_best(struct trainer *t)
{
    struct train_state *st = &t->st;
    double loss = st->validation_loss, accuracy = st->validation_accuracy;
    bool is_better = accuracy > st->best.accuracy || (accuracy == st->best.accuracy && loss < st->best.loss);
    if (!is_better) return false;
    st->best.loss = loss;
    st->best.accuracy = accuracy;
    st->best.step = st->step;
    st->best.epoch = st->epoch + 1;
    return true;
}

/* Of a resumed run the target may be another than the one that was reached before. */
bool ls__judge_is_target_reached(const struct trainer *t)
{
    return t->o->target > 0 && t->st.target.epoch > 0 && t->st.target.accuracy >= t->o->target;
}

static void note_target(struct trainer *t, double accuracy)
{
    struct train_state *st = &t->st;
    if (t->o->target <= 0 || ls__judge_is_target_reached(t) || accuracy < t->o->target) return;
    st->target.epoch = st->epoch + 1;
    st->target.step = st->step;
    st->target.accuracy = accuracy;
    st->target.train_seconds = st->train_seconds;
    st->target.total_seconds = t->earlier.total_seconds + ls__seconds_since(t->opened_ns);
}

enum ls_status ls__judge(struct trainer *t, enum judged by, double *seconds, bool *is_best)
{
    struct train_state *st = &t->st;
    double loss, accuracy;
    *is_best = false;
    *seconds = 0;
    if (by == JUDGED_NOTHING) return LS_OK;
    TRY(measure(t, by, &loss, &accuracy, seconds));
    if (t->is_cut_short) return LS_OK;
    *(by == JUDGED_TEST ? &st->test_loss : &st->validation_loss) = loss;
    *(by == JUDGED_TEST ? &st->test_accuracy : &st->validation_accuracy) = accuracy;
    t->saved_step = -1; /* what was saved of this step knows nothing of it */
    if (by == JUDGED_VALIDATION) *is_best = note_best(t);
    note_target(t, accuracy);
    return LS_OK;
}

void ls__judge_write(struct trainer *t, enum judged by, double lr, double seconds)
{
    const struct train_state *st = &t->st;
    if (by == JUDGED_VALIDATION)
        ls__trainer_metric(t, "validation", st->validation_loss, st->validation_accuracy, lr, t->s.validation->n,
                           seconds);
    if (by == JUDGED_TEST) ls__trainer_metric(t, "test", st->test_loss, st->test_accuracy, lr, t->s.test->n, seconds);
}

/* Between two epochs only: within one nothing has been measured. */
const char *ls__judge_enough(const struct trainer *t)
{
    const struct train_state *st = &t->st;
    if (st->epoch_step > 0 || t->is_own_loop) return NULL;
    if (ls__judge_is_target_reached(t)) return "target";
    bool is_stale = t->o->patience > 0 && st->best.step >= 0 && st->epoch - st->best.epoch >= t->o->patience;
    return is_stale ? "patience" : NULL;
}

enum ls_status ls__judge_last(struct trainer *t)
{
    double seconds, lr = ls_schedule_lr(&t->schedule, t->st.step > 0 ? t->st.step - 1 : 0);
    int64_t epoch = t->st.epoch;
    if (!is_choosing(t) || t->o->no_eval) return LS_OK;
    TRY(measure(t, JUDGED_TEST, &t->last_test_loss, &t->last_test_accuracy, &seconds));
    if (t->is_cut_short) {
        t->last_test_loss = t->last_test_accuracy = NAN;
        return LS_OK;
    }
    if (t->st.epoch_step == 0 && epoch > 0) t->st.epoch--; /* the line belongs to the epoch that has ended */
    ls__trainer_metric(t, "test", t->last_test_loss, t->last_test_accuracy, lr, t->s.test->n, seconds);
    t->st.epoch = epoch;
    return LS_OK;
}

/* --- the best weights --- */

/* Those of checkpoints/best.safetensors, if they are what the state says. */
static enum ls_status load_best(struct trainer *t)
{
    char path[LS_PATH_BYTES], step[32];
    struct ls_ckpt *ckpt = NULL;
    TRY(ls__run_path(t->run, "checkpoints/best.safetensors", path));
    TRY(ls_ckpt_open(&ckpt, path));
    snprintf(step, sizeof step, "%lld", (long long)t->st.best.step);
    const char *has = ls_ckpt_meta(ckpt, "step");
    enum ls_status status = has && strcmp(has, step) == 0
                                ? ls__session_load(&t->s, ckpt, path, false)
                                : ls_fail(LS_CHECKPOINT, "%s is of step %s, not %s", path, has ? has : "?", step);
    ls_ckpt_close(&ckpt);
    return status;
}

/* The chief reads, the others get it. *is_there: on all ranks alike. */
static enum ls_status spread_best(struct trainer *t, bool *is_there)
{
    bool is_job = ls_comm_place(t->comm)->n_ranks > 1;
    int32_t has = 0;
    if (t->is_chief) {
        enum ls_status status = load_best(t);
        if (status != LS_OK && status != LS_CHECKPOINT && status != LS_IO) return status;
        if (status != LS_OK)
            ls__log(LS_LOG_WARN, "the best weights, of step %lld, are not there to be tested: %s",
                    (long long)t->st.best.step, ls_error_message());
        has = status == LS_OK;
    }
    if (is_job) TRY(ls_comm_broadcast(t->comm, 0, &has, sizeof has));
    *is_there = has;
    return is_job && has ? ls_exec_sync_store(t->s.exec, ls_comm_machine_of(t->comm, 0)) : LS_OK;
}

enum ls_status ls__judge_best(struct trainer *t)
{
    const struct train_state *st = &t->st;
    double seconds;
    bool is_there;
    if (!is_choosing(t) || t->o->no_eval || st->best.step < 0) return LS_OK;
    if (st->best.step == st->step) {
        t->best_test_loss = t->last_test_loss;
        t->best_test_accuracy = t->last_test_accuracy;
        return LS_OK;
    }
    if (t->checkpoint_steps < 0) {
        if (t->is_chief)
            ls__log(LS_LOG_WARN,
                    "--checkpoint-every none keeps no weights: the best ones, of epoch %lld, are not tested",
                    (long long)st->best.epoch);
        return LS_OK;
    }
    TRY(spread_best(t, &is_there));
    if (!is_there) return LS_OK;
    TRY(measure(t, JUDGED_TEST, &t->best_test_loss, &t->best_test_accuracy, &seconds));
    if (t->is_cut_short) t->best_test_loss = t->best_test_accuracy = NAN;
    return LS_OK;
}
