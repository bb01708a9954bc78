/* own_loop.c: a training whose loop is the caller's (lockstep/trainer.h): the pieces of step.c and train.c, one call
 * each.
 *
 * Invariant: after a failure nothing is called but close, which hands the failure to the other ranks of the job.
 */
#include "lockstep/trainer.h"

#include "base/control.h"
#include "base/mem.h"
#include "train/trainer.h"

#include <math.h>
#include <stdlib.h>

struct ls_trainer {
    struct trainer t;
    enum ls_status status; /* the first failure */
    bool is_finished;
};

/* Between two calls the thread tells what it told before, whatever the trainer's limit is. */
static void begin_call(struct ls_trainer *trainer)
{
    trainer->t.told_before = ls__log_limit(trainer->t.told);
}

static enum ls_status end_call(struct ls_trainer *trainer, enum ls_status status)
{
    ls__log_limit(trainer->t.told_before);
    if (status != LS_OK && trainer->status == LS_OK) trainer->status = status;
    return status;
}

static enum ls_status check_alive(const struct ls_trainer *trainer, const char *what)
{
    if (!trainer) return ls_fail(LS_USAGE, "%s without a trainer", what);
    if (trainer->status != LS_OK)
        return ls_fail(LS_USAGE, "%s: this training has failed (%s); close it", what, ls_status_text(trainer->status));
    if (trainer->is_finished) return ls_fail(LS_USAGE, "%s: this training is finished; close it", what);
    return LS_OK;
}

enum ls_status ls_trainer_open(struct ls_trainer **out, const struct ls_train_options *o)
{
    if (!out || !o) return ls_fail(LS_USAGE, "ls_trainer_open without options or without room for the trainer");
    TRY(ls__calloc(out, 1, sizeof **out));
    struct trainer *t = &(*out)->t;
    enum ls_status status = ls__trainer_open(t, o);
    t->is_own_loop = true;
    bool is_epoch_over = status == LS_OK && t->st.epoch_step == t->schedule.steps_per_epoch;
    if (is_epoch_over) status = ls__trainer_after_step(t); /* resumed: stopped while it evaluated */
    end_call(*out, status);
    if (status != LS_OK) ls_trainer_close(out);
    return status;
}

void ls_trainer_close(struct ls_trainer **trainer)
{
    bool is_told_elsewhere;
    if (!trainer || !*trainer) return;
    begin_call(*trainer);
    enum ls_status ignored = ls__trainer_close(&(*trainer)->t, (*trainer)->status, &is_told_elsewhere);
    (void)ignored; /* the caller knows it, or another rank tells it */
    free(*trainer);
    *trainer = NULL;
}

bool ls_trainer_is_done(const struct ls_trainer *trainer)
{
    return !trainer || trainer->t.st.step >= trainer->t.last_step;
}

static enum ls_status step(struct trainer *t, struct ls_step *out)
{
    TRY(ls__trainer_step(t, out));
    return ls__trainer_after_step(t);
}

enum ls_status ls_trainer_step(struct ls_trainer *trainer, struct ls_step *out)
{
    struct ls_step own;
    TRY(check_alive(trainer, "ls_trainer_step"));
    if (ls_trainer_is_done(trainer))
        return ls_fail(LS_USAGE, "ls_trainer_step: all %lld steps are done; ask ls_trainer_is_done",
                       (long long)trainer->t.last_step);
    begin_call(trainer);
    return end_call(trainer, step(&trainer->t, out ? out : &own));
}

static enum ls_status evaluate(struct trainer *t, double *loss, double *accuracy)
{
    TRY(ls__trainer_view(t));
    TRY(ls__trainer_evaluate(t));
    bool chooses = t->s.validation;
    *loss = t->is_cut_short ? NAN : chooses ? t->st.validation_loss : t->st.test_loss;
    *accuracy = t->is_cut_short ? NAN : chooses ? t->st.validation_accuracy : t->st.test_accuracy;
    return LS_OK;
}

enum ls_status ls_trainer_evaluate(struct ls_trainer *trainer, double *loss, double *accuracy)
{
    TRY(check_alive(trainer, "ls_trainer_evaluate"));
    if (!loss || !accuracy) return ls_fail(LS_USAGE, "ls_trainer_evaluate without room for loss and accuracy");
    if (trainer->t.o->no_eval && !trainer->t.s.validation)
        return ls_fail(LS_USAGE, "ls_trainer_evaluate: opened with no_eval, so there is no test data");
    begin_call(trainer);
    TRY(end_call(trainer, evaluate(&trainer->t, loss, accuracy)));
    if (!trainer->t.is_cut_short) return LS_OK;
    trainer->t.is_cut_short = false;
    return ls_fail(LS_INTERRUPTED, "stopped by %s while evaluating", ls__control_stopped_by(trainer->t.o->control));
}

enum ls_status ls_trainer_save(struct ls_trainer *trainer)
{
    TRY(check_alive(trainer, "ls_trainer_save"));
    struct trainer *t = &trainer->t;
    bool is_best = t->st.best.step == t->st.step;
    begin_call(trainer);
    return end_call(trainer, ls__trainer_save(t, is_best));
}

enum ls_status ls_trainer_finish(struct ls_trainer *trainer, struct ls_result *result)
{
    TRY(check_alive(trainer, "ls_trainer_finish"));
    if (!result) return ls_fail(LS_USAGE, "ls_trainer_finish without room for the result");
    *result = (struct ls_result){.train_loss = NAN, .train_accuracy = NAN, .test_loss = NAN, .test_accuracy = NAN};
    begin_call(trainer);
    enum ls_status status = end_call(trainer, ls__trainer_finish(&trainer->t, result));
    trainer->is_finished = status == LS_OK;
    return status;
}
