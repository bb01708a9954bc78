/* step.c: one step of a training: a batch from the loader, the step itself, what it adds to the tallies, a line of
 * metrics and the progress bar. In: the trainer's state before it; out: the state after it, and struct ls_step for the
 * caller.
 */
#include "base/clock.h"
#include "base/control.h"
#include "train/layers.h"
#include "train/observe.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>

static void log_step(struct trainer *t, double lr)
{
    struct tally *y = &t->st.log_tally;
    if (!ls__run_is_line_due(t->st.step, t->o->log_every) || y->n == 0) return;
    ls__trainer_metric(t, "train", y->loss_sum / (double)y->n, (double)y->n_correct / (double)y->n, lr, y->n,
                       t->st.log_seconds);
    *y = (struct tally){0};
    t->st.log_seconds = 0;
}

/* Who trains by others' hands knows only how large the batch is. */
static struct ls_batch batch_of_others(const struct trainer *t)
{
    const int64_t left = t->s.train->n - t->st.epoch_step * t->s.batch_size;
    return (struct ls_batch){
        .epoch = t->st.epoch, .step = t->st.epoch_step, .n = (int)(left < t->s.batch_size ? left : t->s.batch_size)};
}

static enum ls_status take_batch(struct trainer *t, struct ls_batch *batch, int64_t step)
{
    struct ls_begun begun = ls__span_begin(t->s.lane, LS_SPAN_LOAD, "batch", step);
    enum ls_status status = ls_loader_next(t->loader, batch);
    ls__span_end(t->s.lane, begun);
    return status;
}

static enum ls_status load(struct trainer *t, struct ls_batch *batch)
{
    *batch = t->has_next ? t->next : batch_of_others(t);
    if (t->has_next || !t->loader) {
        t->has_next = false;
        return LS_OK;
    }
    return take_batch(t, batch, t->st.step);
}

/* The batch after the one that a device computes just now. */
static enum ls_status load_next(void *arg, struct ls_batch *batch)
{
    struct trainer *t = arg;
    TRY(take_batch(t, &t->next, t->st.step + 1));
    t->has_next = true;
    *batch = t->next;
    return LS_OK;
}

/* Whether nobody looks at this step's loss by itself: a device may go on without us. The first step is timed. */
static bool may_run_ahead(const struct trainer *t)
{
    const struct train_state *st = &t->st;
    const int64_t next = st->step + 1;
    return !t->is_own_loop && !(t->o->control && t->o->control->on_step) && t->first_step_seconds > 0 &&
           next < t->last_step && st->epoch_step + 1 < t->schedule.steps_per_epoch &&
           !ls__run_is_line_due(next, t->o->log_every);
}

static enum ls_status load_and_train(struct trainer *t, double lr, struct ls_exec_stats *stats)
{
    struct ls_batch batch;
    TRY(load(t, &batch));
    struct ls_exec_step step = {.batch = &batch,
                                .transform = &t->s.transform,
                                .shard_size = t->s.shard_size,
                                .seed = (uint64_t)t->o->seed,
                                .step = t->st.step,
                                .lr = lr,
                                .clip_norm = t->o->clip_norm,
                                .may_run_ahead = may_run_ahead(t)};
    if (t->loader && t->st.step + 1 < t->last_step) {
        step.next = load_next;
        step.next_arg = t;
    }
    if (ls__observe_wants_gradients(t)) {
        step.look = ls__observe_gradients;
        step.look_arg = t;
    }
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
    ls__layers_begin_step(t);
    struct ls_begun begun = ls__span_begin(t->s.lane, LS_SPAN_STEP, "step", st->step);
    enum ls_status status = load_and_train(t, lr, &stats);
    double seconds = 1e-9 * (double)ls__span_end(t->s.lane, begun);
    ls__layers_end_step(t);
    TRY(status);
    t->save_wanted = stats.save_wanted;
    t->stop_wanted = stats.stop_wanted;
    if (stats.is_undone) {
        *out = (struct ls_step){.step = st->step, .epoch = st->epoch + 1, .loss = NAN, .accuracy = NAN, .lr = lr};
        return LS_OK;
    }
    ls__forecast_note(&t->forecast, seconds);
    st->train_seconds += seconds;
    st->epoch_seconds += seconds;
    st->log_seconds += seconds;
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

static void begin_progress(struct trainer *t)
{
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

/* A step whose loss comes later begins the bar, too. */
static void show_progress(struct trainer *t)
{
    char note[64];
    const struct tally *y = &t->st.epoch_tally;
    if (!t->is_chief) return;
    if (t->st.epoch_step == 1 || t->progress.total == 0) begin_progress(t);
    if (y->n == 0) return;
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
    TRY(one_step(t, step));
    log_step(t, step->lr);
    show_progress(t);
    step->is_stop_wanted = ls__trainer_stop_wanted(t);
    if (control && control->on_step) control->on_step(control->context, step);
    return LS_OK;
}
