/* train.c: the training loop.
 *
 *     loader -> batch -> step over shards -> tallies -> metrics, progress
 *                                               \-> at the end of an epoch: evaluate, checkpoint
 *
 * Everything a resumed run needs is in struct train_state and the store; the loop reads no clock to decide anything
 * that reaches the weights or the metrics (timing fields apart).
 */
#include "lockstep/train.h"

#include "base/clock.h"
#include "base/control.h"
#include "base/log.h"
#include "session/usage.h"
#include "session/workers.h"
#include "settings/setting.h"
#include "train/judge.h"
#include "train/result.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ls__trainer_metric(struct trainer *t, const char *split, double loss, double accuracy, double lr, int64_t images,
                        double seconds)
{
    if (!t->is_chief) return;
    ls__run_metric(t->run,
                   &(struct ls_metric){.step = t->st.step,
                                       .epoch = t->st.epoch + 1,
                                       .split = split,
                                       .values = {{"loss", loss},
                                                  {"accuracy", accuracy},
                                                  {"lr", lr},
                                                  {"images_per_second", seconds > 0 ? (double)images / seconds : 0},
                                                  {"seconds", t->st.train_seconds}}});
}

static void log_step(struct trainer *t, double lr)
{
    struct tally *y = &t->st.log_tally;
    if (t->o->log_every <= 0 || t->st.step % t->o->log_every != 0 || y->n == 0) return;
    ls__trainer_metric(t, "train", y->loss_sum / (double)y->n, (double)y->n_correct / (double)y->n, lr, y->n,
                       ls__seconds_since(t->log_ns));
    *y = (struct tally){0};
    t->log_ns = ls__now_ns();
}

static void tell_epoch(struct trainer *t, enum judged by)
{
    const struct train_state *st = &t->st;
    char text[256];
    if (!t->is_chief) return;
    int at = snprintf(text, sizeof text, "epoch %lld/%lld: train loss %.4f, accuracy %.2f %%", (long long)st->epoch + 1,
                      (long long)t->o->epochs, st->train_loss, 100 * st->train_accuracy);
    if (by == JUDGED_TEST)
        at += snprintf(text + at, sizeof text - (size_t)at, "; test loss %.4f, accuracy %.2f %%", st->test_loss,
                       100 * st->test_accuracy);
    if (by == JUDGED_VALIDATION)
        at += snprintf(text + at, sizeof text - (size_t)at, "; validation loss %.4f, accuracy %.2f %%",
                       st->validation_loss, 100 * st->validation_accuracy);
    if (st->epoch_seconds > 0)
        snprintf(text + at, sizeof text - (size_t)at, "; %.0f images/s, %.1f s",
                 (double)st->epoch_tally.n / st->epoch_seconds, st->epoch_seconds);
    ls__progress_end(&t->progress, text);
}

static void notify_epoch(const struct trainer *t, enum judged by)
{
    const struct train_state *st = &t->st;
    const struct ls_control *control = t->o->control;
    bool with_test = by == JUDGED_TEST, chooses = by == JUDGED_VALIDATION;
    if (!control || !control->on_epoch) return;
    control->on_epoch(control->context,
                      &(struct ls_epoch){.epoch = st->epoch + 1,
                                         .step = st->step,
                                         .images = st->epoch_tally.n,
                                         .train_loss = st->train_loss,
                                         .train_accuracy = st->train_accuracy,
                                         .test_loss = with_test ? st->test_loss : NAN,
                                         .test_accuracy = with_test ? st->test_accuracy : NAN,
                                         .validation_loss = chooses ? st->validation_loss : NAN,
                                         .validation_accuracy = chooses ? st->validation_accuracy : NAN,
                                         .seconds = st->epoch_seconds});
}

/* Evaluation comes first: when it is cut short nothing has happened yet, and the resumed run does all of this again. */
static enum ls_status end_epoch(struct trainer *t)
{
    struct train_state *st = &t->st;
    bool is_best, is_last = st->step >= t->last_step;
    const enum judged by = ls__judge_of_epoch(t);
    double n = (double)st->epoch_tally.n, lr = ls_schedule_lr(&t->schedule, st->step - 1), seconds;
    TRY(ls__judge(t, by, &seconds, &is_best));
    if (t->is_cut_short) return LS_OK;
    st->train_loss = st->epoch_tally.loss_sum / n;
    st->train_accuracy = (double)st->epoch_tally.n_correct / n;
    ls__trainer_metric(t, "epoch", st->train_loss, st->train_accuracy, lr, st->epoch_tally.n, st->epoch_seconds);
    ls__judge_write(t, by, lr, seconds);
    ls__record_mark(t->record, "epoch");
    tell_epoch(t, by);
    notify_epoch(t, by);
    st->epoch_seconds = 0;
    st->epoch_tally = (struct tally){0};
    st->epoch++;
    st->epoch_step = 0;
    TRY(ls__sync_end_epoch(&t->sync));
    if (t->is_own_loop) return LS_OK;
    is_last = is_last || ls__judge_enough(t);
    bool by_epoch = t->checkpoint_steps == 0 || (t->checkpoint_steps > 0 && (is_last || is_best));
    return by_epoch ? ls__trainer_save(t, is_best) : LS_OK;
}

static enum ls_status load_and_train(struct trainer *t, double lr, struct ls_exec_stats *stats)
{
    struct ls_batch batch;
    struct ls_begun begun = ls__span_begin(t->s.lane, LS_SPAN_LOAD, "batch", t->st.step);
    enum ls_status status = ls_loader_next(t->loader, &batch);
    ls__span_end(t->s.lane, begun);
    TRY(status);
    const struct ls_exec_step step = {.batch = &batch,
                                      .transform = &t->s.transform,
                                      .shard_size = t->s.shard_size,
                                      .seed = (uint64_t)t->o->seed,
                                      .step = t->st.step,
                                      .lr = lr,
                                      .clip_norm = t->o->clip_norm};
    t->images += batch.n;
    return ls__sync_step(&t->sync, &step, ls__control_stop_wanted(t->o->control),
                         ls__control_save_wanted(t->o->control), stats);
}

static enum ls_status one_step(struct trainer *t, struct ls_step *out)
{
    struct train_state *st = &t->st;
    struct ls_exec_stats stats;
    const int64_t images = t->images;
    const double lr = ls_schedule_lr(&t->schedule, st->step);
    struct ls_begun begun = ls__span_begin(t->s.lane, LS_SPAN_STEP, "step", st->step);
    enum ls_status status = load_and_train(t, lr, &stats);
    double seconds = 1e-9 * (double)ls__span_end(t->s.lane, begun);
    TRY(status);
    t->save_wanted = stats.save_wanted;
    t->stop_wanted = stats.stop_wanted;
    ls__forecast_note(&t->forecast, seconds);
    st->train_seconds += seconds;
    st->epoch_seconds += seconds;
    if (t->first_step_seconds == 0) t->first_step_seconds = ls__seconds_since(t->opened_ns);
    st->step++;
    st->epoch_step++;
    ls__record_step(t->record, st->step, st->epoch + 1);
    ls__tally_add(&st->epoch_tally, &stats);
    ls__tally_add(&st->log_tally, &stats);
    *out = (struct ls_step){.step = st->step,
                            .epoch = st->epoch + 1,
                            .images = t->images - images,
                            .loss = stats.n > 0 ? stats.loss_sum / (double)stats.n : NAN,
                            .accuracy = stats.n > 0 ? (double)stats.n_correct / (double)stats.n : NAN,
                            .lr = lr,
                            .seconds = seconds,
                            .is_epoch_over = st->epoch_step == t->schedule.steps_per_epoch};
    return LS_OK;
}

static void show_progress(struct trainer *t)
{
    char note[64];
    const struct tally *y = &t->st.epoch_tally;
    if (!t->is_chief || y->n == 0) return;
    if (t->st.epoch_step == 1 || t->progress.total == 0) {
        char label[64];
        snprintf(label, sizeof label, "Epoch %lld/%lld", (long long)t->st.epoch + 1, (long long)t->o->epochs);
        int64_t after = t->last_step - t->st.step, of_epoch = t->schedule.steps_per_epoch - t->st.epoch_step;
        if (of_epoch > after) of_epoch = after; /* -i ends it within the epoch */
        ls__progress_begin(&t->progress, label, t->st.epoch_step + of_epoch);
        t->progress.unit = " images";
        t->progress.weight = t->s.batch_size;
        t->progress.after = after - of_epoch;
        ls__progress_start_at(&t->progress, t->st.epoch_step); /* the bar's clock starts now, after this step */
    }
    snprintf(note, sizeof note, "loss=%.3f acc=%.1f%%", y->loss_sum / (double)y->n,
             100 * (double)y->n_correct / (double)y->n);
    ls__progress_update(&t->progress, t->st.epoch_step, note);
}

/* A process alone stops at once; of several all stop after the same step, once the wish has gone round. */
bool ls__trainer_stop_wanted(const struct trainer *t)
{
    return t->stop_wanted || t->is_cut_short ||
           (ls_comm_place(t->comm)->n_ranks == 1 && ls__control_stop_wanted(t->o->control));
}

enum ls_status ls__trainer_step(struct trainer *t, struct ls_step *step)
{
    const struct ls_control *control = t->o->control;
    if (t->log_ns == 0) t->log_ns = ls__now_ns() - (int64_t)(1e9 * t->st.log_seconds);
    TRY(one_step(t, step));
    log_step(t, step->lr);
    show_progress(t);
    step->is_stop_wanted = ls__trainer_stop_wanted(t);
    if (control && control->on_step) control->on_step(control->context, step);
    return LS_OK;
}

enum ls_status ls__trainer_after_step(struct trainer *t)
{
    if (t->st.epoch_step == t->schedule.steps_per_epoch) TRY(end_epoch(t));
    if (t->is_cut_short || t->is_own_loop) return LS_OK;
    bool is_due = t->checkpoint_steps > 0 && t->st.step % t->checkpoint_steps == 0;
    if (is_due || t->save_wanted) TRY(ls__trainer_save(t, false));
    return ls__trainer_save_in_memory(t);
}

static enum ls_status loop(struct trainer *t)
{
    struct ls_step step;
    bool is_epoch_over = t->st.epoch_step == t->schedule.steps_per_epoch; /* resumed: stopped while it evaluated */
    if (is_epoch_over) TRY(ls__trainer_after_step(t));
    while (t->st.step < t->last_step && !ls__trainer_stop_wanted(t) && !ls__judge_enough(t)) {
        TRY(ls__trainer_step(t, &step));
        TRY(ls__trainer_after_step(t));
    }
    return LS_OK;
}

/* Where the caller's loop asks for it. An epoch that has just ended is the one before st->epoch. */
enum ls_status ls__trainer_evaluate(struct trainer *t)
{
    struct train_state *st = &t->st;
    const enum judged by = t->s.validation ? JUDGED_VALIDATION : JUDGED_TEST;
    int64_t epoch = st->epoch;
    double seconds;
    bool is_best;
    TRY(ls__judge(t, by, &seconds, &is_best));
    if (t->is_cut_short) return LS_OK;
    if (st->epoch_step == 0 && epoch > 0) st->epoch--;
    ls__judge_write(t, by, ls_schedule_lr(&t->schedule, st->step > 0 ? st->step - 1 : 0), seconds);
    st->epoch = epoch;
    return LS_OK;
}

/* What the steps since the last whole epoch say, if there are any. */
static void take_partial_epoch(struct train_state *st)
{
    const struct tally *y = &st->epoch_tally, *more = &st->pending;
    double n = (double)(y->n + more->n);
    if (n == 0) return;
    st->train_loss = (y->loss_sum + more->loss_sum) / n;
    st->train_accuracy = (double)(y->n_correct + more->n_correct) / n;
}

/* A run cut short by --iterations ends within an epoch: judge what there is. */
static enum ls_status finish_partial_epoch(struct trainer *t)
{
    struct train_state *st = &t->st;
    const enum judged by = t->s.validation ? JUDGED_VALIDATION : t->o->no_eval ? JUDGED_NOTHING : JUDGED_TEST;
    double seconds;
    bool is_best;
    TRY(ls__judge(t, by, &seconds, &is_best));
    if (t->is_cut_short) return LS_OK;
    take_partial_epoch(st);
    ls__judge_write(t, by, ls_schedule_lr(&t->schedule, st->step - 1), seconds);
    if (t->checkpoint_steps >= 0) TRY(ls__trainer_save(t, is_best));
    if (t->is_chief) ls__progress_end(&t->progress, NULL);
    return LS_OK;
}

static enum ls_status finish(struct trainer *t)
{
    const struct train_state *st = &t->st;
    TRY(ls__trainer_view(t));
    if (st->epoch_tally.n + st->pending.n > 0) TRY(finish_partial_epoch(t));
    return t->is_cut_short ? LS_OK : ls__judge_last(t);
}

static void tell_why_enough(const struct trainer *t)
{
    const struct train_state *st = &t->st;
    const char *why = ls__judge_enough(t);
    if (!t->is_chief || !why) return;
    if (strcmp(why, "target") == 0)
        ls__log(LS_LOG_INFO, "accuracy %.2f %% on %s data, the target, reached in epoch %lld after %.1f s of training",
                100 * st->target.accuracy, t->s.validation ? "validation" : "test", (long long)st->target.epoch,
                st->target.train_seconds);
    else
        ls__log(LS_LOG_INFO, "stopped after %lld epochs without a better validation accuracy; the best was epoch %lld",
                (long long)(st->epoch - st->best.epoch), (long long)st->best.epoch);
}

static enum ls_status write_result(struct trainer *t, struct ls_result *r)
{
    char *text;
    TRY(ls__result_text(r, &text));
    enum ls_status status = ls__run_result(t->run, text);
    free(text);
    return status;
}

static enum ls_status await_checkpoints(struct trainer *t)
{
    struct ls_begun begun = ls__span_begin(t->s.lane, LS_SPAN_CHECKPOINT, "last", t->st.step);
    if (t->is_chief) TRY(ls_ckpt_writer_finish(t->writer));
    ls__span_end(t->s.lane, begun);
    return LS_OK;
}

enum ls_status ls__trainer_finish(struct trainer *t, struct ls_result *r)
{
    TRY(ls__trainer_view(t));
    take_partial_epoch(&t->st);
    TRY(ls__judge_last(t));
    TRY(await_checkpoints(t));
    TRY(ls__session_hash(&t->s, r->weights_hash));
    TRY(ls__judge_best(t));
    TRY(ls__trainer_result(t, r));
    if (t->is_chief) ls__progress_end(&t->progress, NULL);
    return t->is_chief ? write_result(t, r) : LS_OK;
}

static enum ls_status run_all(struct trainer *t, struct ls_result *r)
{
    TRY(loop(t));
    bool is_over = t->st.step >= t->last_step || ls__judge_enough(t);
    tell_why_enough(t);
    if (is_over && !t->is_cut_short) TRY(finish(t));
    bool is_stopped = !is_over || t->is_cut_short;
    if (is_stopped) TRY(ls__trainer_save(t, false));
    TRY(await_checkpoints(t));
    TRY(ls__session_hash(&t->s, r->weights_hash));
    if (!is_stopped) TRY(ls__judge_best(t));
    is_stopped = is_stopped || t->is_cut_short;
    TRY(ls__trainer_result(t, r));
    if (t->is_chief) ls__workers_name_slowest(t->comm, t->s.exec);
    if (t->is_chief) ls__forecast_compare(&t->forecast);
    if (is_stopped) {
        if (t->is_chief) ls__progress_end(&t->progress, NULL);
        return ls_fail(LS_INTERRUPTED, "stopped by %s after step %lld; checkpoint written, go on with --resume %s",
                       ls__control_stopped_by(t->o->control), (long long)t->st.step, r->run_dir);
    }
    return t->is_chief ? write_result(t, r) : LS_OK;
}

static enum ls_status check_options(struct ls_train_options *o, const struct ls_comm *comm)
{
    TRY(ls_options_check(o));
    if (o->workers > 0 && ls_comm_is_launched() && o->workers != ls_comm_place(comm)->n_ranks)
        return ls_fail(LS_USAGE, "the job has %d processes, but %lld workers were asked for",
                       ls_comm_place(comm)->n_ranks, (long long)o->workers);
    if (strcmp(o->sum, "float") == 0 && ls_comm_place(comm)->n_ranks > 1)
        return ls_fail(LS_USAGE, "--sum float depends on the order of addition, so it takes one worker only");
    return LS_OK;
}

/* A job's other ranks tell errors only: the chief tells the rest. */
static void limit_log(struct trainer *t)
{
    enum ls_log_level limit = t->told_before;
    if (t->o->quiet && limit > LS_LOG_WARN) limit = LS_LOG_WARN;
    if (!t->is_chief && limit > LS_LOG_ERROR) limit = LS_LOG_ERROR;
    t->told = limit;
    ls__log_limit(limit);
}

enum ls_status ls__trainer_open(struct trainer *t, const struct ls_train_options *options)
{
    const struct ls_backend *backend;
    *t = (struct trainer){.own = *options, .opened_ns = ls__now_ns(), .cpu_seconds = ls__cpu_seconds()};
    t->o = &t->own;
    t->told_before = t->told = ls__log_present_limit();
    t->last_test_loss = t->last_test_accuracy = t->best_test_loss = t->best_test_accuracy = NAN;
    ls__options_complete(&t->own);
    TRY(ls__trace_create(&t->trace, t->opened_ns));
    struct ls_begun begun = ls__span_begin(ls__trace_main(t->trace), LS_SPAN_SETUP, "set-up", 0);
    bool is_apart =
        ls_backend_get(t->o->device, &backend) == LS_OK && backend->memory; /* a failure is told by the session */
    const struct ls_control *control = t->o->control;
    const struct ls_comm_options co = {.timeout = t->o->timeout,
                                       .is_ended = control ? control->is_end_wanted : NULL,
                                       .context = control ? control->context : NULL,
                                       .is_apart = is_apart};
    TRY(ls_comm_open(&t->comm, &co));
    TRY(ls_comm_measure(t->comm, t->trace));
    t->is_chief = ls_comm_place(t->comm)->rank == 0;
    limit_log(t);
    TRY(ls_comm_agree(t->comm, check_options(&t->own, t->comm), ""));
    TRY(ls__trainer_set_up(t));
    ls__span_end(t->s.lane, begun);
    t->is_set_up = true;
    return LS_OK;
}

enum ls_status ls__trainer_close(struct trainer *t, enum ls_status status, bool *is_told_elsewhere)
{
    if (t->comm) status = ls_comm_end(t->comm, status);
    *is_told_elsewhere = t->comm && status != LS_OK && !ls_comm_may_tell(t->comm);
    ls_loader_destroy(&t->loader);
    ls__carry_close(&t->carry);
    ls_ckpt_close(&t->resumed);
    ls__sync_close(&t->sync);
    ls_ckpt_writer_destroy(&t->writer);
    ls__record_close(&t->record);
    ls__rescue_close(&t->rescue);
    if (status != LS_OK && !t->is_set_up) ls__run_abandon(&t->run);
    ls__run_close(&t->run);
    ls__session_close(&t->s);
    ls_comm_close(&t->comm);
    ls__trace_destroy(&t->trace);
    ls__log_limit(t->told_before);
    return status;
}

enum ls_status ls_train(const struct ls_train_options *options, struct ls_result *result)
{
    struct trainer t;
    if (!options || !result) return ls_fail(LS_USAGE, "ls_train without options or without room for the result");
    *result = (struct ls_result){.train_loss = NAN, .train_accuracy = NAN, .test_loss = NAN, .test_accuracy = NAN};
    enum ls_status status = ls__trainer_open(&t, options);
    if (status == LS_OK) status = run_all(&t, result);
    return ls__trainer_close(&t, status, &result->is_told_elsewhere);
}
