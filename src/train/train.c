/* train.c: the training loop.
 *
 *     loader -> batch -> step over shards -> tallies -> metrics, progress
 *                                               \-> at the end of an epoch: evaluate, checkpoint
 *
 * Everything a resumed run needs is in struct train_state and the store; the loop reads no clock to decide anything
 * that reaches the weights or the metrics (timing fields apart).
 */
#include "lockstep/train.h"

#include "base/control.h"
#include "base/json.h"
#include "base/log.h"
#include "session/workers.h"
#include "train/judge.h"
#include "train/layers.h"
#include "train/observe.h"
#include "train/ranks.h"
#include "train/result.h"
#include "train/trainer.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ls__trainer_metric(struct trainer *t, const char *split, double loss, double accuracy, double lr, int64_t images,
                        double seconds)
{
    if (!t->is_chief) return;
    const struct ls_metric metric = {.step = t->st.step,
                                     .epoch = t->st.epoch + 1,
                                     .split = split,
                                     .values = {{"loss", loss},
                                                {"accuracy", accuracy},
                                                {"lr", lr},
                                                {"images_per_second", seconds > 0 ? (double)images / seconds : 0},
                                                {"seconds", t->st.train_seconds}}};
    ls__run_metric(t->run, &metric);
    ls__record_metric(t->record, &metric);
}

/* "epoch 3/90: loss 0.4788, 83.57 %; test 0.0494, 98.57 %; 25133 images/s, 2.4 s": at most 80 columns, if need be
 * without the seconds. */
static void tell_epoch(struct trainer *t, enum judged by)
{
    enum { COLUMNS = 80 };
    const struct train_state *st = &t->st;
    char text[256], seconds[32];
    if (!t->is_chief) return;
    int at = snprintf(text, sizeof text, "epoch %lld/%lld: loss %.4f, %.2f %%", (long long)st->epoch + 1,
                      (long long)t->o->epochs, st->train_loss, 100 * st->train_accuracy);
    if (by == JUDGED_TEST)
        at += snprintf(text + at, sizeof text - (size_t)at, "; test %.4f, %.2f %%", st->test_loss,
                       100 * st->test_accuracy);
    if (by == JUDGED_VALIDATION)
        at += snprintf(text + at, sizeof text - (size_t)at, "; validation %.4f, %.2f %%", st->validation_loss,
                       100 * st->validation_accuracy);
    if (st->epoch_seconds > 0) {
        at += snprintf(text + at, sizeof text - (size_t)at, "; %.0f images/s",
                       (double)st->epoch_tally.n / st->epoch_seconds);
        int n = snprintf(seconds, sizeof seconds, ", %.1f s", st->epoch_seconds);
        if (at + n <= COLUMNS) snprintf(text + at, sizeof text - (size_t)at, "%s", seconds);
    }
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
    if (by != JUDGED_NOTHING) TRY(ls__trainer_view(t));
    double n = (double)st->epoch_tally.n, lr = ls_schedule_lr(&t->schedule, st->step - 1), seconds;
    TRY(ls__judge(t, by, &seconds, &is_best));
    if (t->is_cut_short) return LS_OK;
    st->train_loss = st->epoch_tally.loss_sum / n;
    st->train_accuracy = (double)st->epoch_tally.n_correct / n;
    ls__trainer_metric(t, "epoch", st->train_loss, st->train_accuracy, lr, st->epoch_tally.n, st->epoch_seconds);
    ls__judge_write(t, by, lr, seconds);
    ls__observe_epoch(t);
    TRY(ls__ranks_row(t));
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
    json_t *object = ls__result_json(r);
    if (object && json_object_set_new(object, "layers", ls__layers_json(t)) != 0) {
        json_decref(object);
        object = NULL; /* which is told as too little memory */
    }
    TRY(ls__json_dump(object, LS_JSON_FOR_PEOPLE, "the result", &text));
    enum ls_status status = ls__run_result(t->run, text);
    free(text);
    t->has_result = status == LS_OK;
    return status;
}

/* A device with memory of its own hands all weights over for it: seconds that are to be found in result.json. */
static enum ls_status hash_weights(struct trainer *t, struct ls_result *r)
{
    struct ls_begun begun = ls__span_begin(t->s.lane, LS_SPAN_OTHER, "hash", t->st.step);
    enum ls_status status = ls__session_hash(&t->s, r->weights_hash);
    ls__span_end(t->s.lane, begun);
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
    TRY(hash_weights(t, r));
    TRY(ls__judge_best(t));
    TRY(ls__trainer_result(t, r));
    if (t->is_chief) ls__progress_end(&t->progress, NULL);
    if (t->is_chief) TRY(write_result(t, r));
    return ls__observe_merge(t);
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
    TRY(hash_weights(t, r));
    if (!is_stopped) TRY(ls__judge_best(t));
    is_stopped = is_stopped || t->is_cut_short;
    TRY(ls__trainer_result(t, r));
    if (t->is_chief) ls__workers_name_slowest(t->comm, t->s.exec);
    if (t->is_chief) ls__forecast_compare(&t->forecast);
    if (t->is_chief && !is_stopped) TRY(write_result(t, r));
    TRY(ls__observe_merge(t));
    if (is_stopped) {
        if (t->is_chief) ls__progress_end(&t->progress, NULL);
        return ls_fail(LS_INTERRUPTED, "stopped by %s after step %lld; checkpoint written",
                       ls__control_stopped_by(t->o->control), (long long)t->st.step);
    }
    return LS_OK;
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
