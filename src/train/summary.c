/* summary.c: a training that has ended as struct ls_result: what it was, how far it came, where its time went. */
#include "base/clock.h"
#include "session/usage.h"
#include "session/workers.h"
#include "train/judge.h"
#include "train/ranks.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>

struct ls_seconds ls__trainer_seconds(const struct trainer *t)
{
    /* Totals are as of the lane's last begin or end: this is one, so that no time is missing. */
    ls__span_end(t->s.lane, ls__span_begin(t->s.lane, LS_SPAN_OTHER, "so far", t->st.step));
    const struct ls_time_split s = ls__trace_split(t->trace, t->s.threads);
    return (struct ls_seconds){.setup = s.setup,
                               .load = s.load,
                               .compute = s.compute,
                               .update = s.update,
                               .communicate = s.communicate,
                               .wait = s.wait,
                               .checkpoint = s.checkpoint,
                               .evaluate = s.evaluate,
                               .other = s.other,
                               .hidden = s.hidden};
}

static struct ls_seconds sum(const struct ls_seconds *a, const struct ls_seconds *b)
{
    return (struct ls_seconds){.setup = a->setup + b->setup,
                               .load = a->load + b->load,
                               .compute = a->compute + b->compute,
                               .update = a->update + b->update,
                               .communicate = a->communicate + b->communicate,
                               .wait = a->wait + b->wait,
                               .checkpoint = a->checkpoint + b->checkpoint,
                               .evaluate = a->evaluate + b->evaluate,
                               .other = a->other + b->other,
                               .hidden = a->hidden + b->hidden};
}

void ls__trainer_count_seconds(struct trainer *t)
{
    const struct ls_seconds now = ls__trainer_seconds(t);
    t->st.total_seconds = t->earlier.total_seconds + ls__seconds_since(t->opened_ns);
    t->st.parts = sum(&t->earlier.parts, &now);
}

/* What validation data said, and what --target asked. */
static void fill_choice(const struct trainer *t, struct ls_result *r)
{
    const struct train_state *st = &t->st;
    bool has_best = st->best.step >= 0, is_reached = ls__judge_is_target_reached(t);
    const char *enough = ls__judge_enough(t);
    snprintf(r->stopped_by, sizeof r->stopped_by, "%s", enough ? enough : "");
    r->validation_images = t->s.validation ? t->s.validation->n : 0;
    r->validation_loss = st->validation_loss;
    r->validation_accuracy = st->validation_accuracy;
    r->best_epoch = has_best ? st->best.epoch : 0;
    r->best_step = has_best ? st->best.step : 0;
    r->best_validation_loss = has_best ? st->best.loss : NAN;
    r->best_validation_accuracy = has_best ? st->best.accuracy : NAN;
    r->best_test_loss = t->best_test_loss;
    r->best_test_accuracy = t->best_test_accuracy;
    r->target_epoch = is_reached ? st->target.epoch : 0;
    r->target_train_seconds = is_reached ? st->target.train_seconds : NAN;
    r->target_total_seconds = is_reached ? st->target.total_seconds : NAN;
}

enum ls_status ls__trainer_result(struct trainer *t, struct ls_result *r)
{
    const struct ls_train_options *o = t->o;
    const struct train_state *st = &t->st;
    snprintf(r->model, sizeof r->model, "%s", ls_model_name(t->s.model));
    snprintf(r->data, sizeof r->data, "%s", o->data);
    snprintf(r->device, sizeof r->device, "%s", o->device);
    snprintf(r->precision, sizeof r->precision, "%s", o->precision);
    snprintf(r->sync, sizeof r->sync, "%s", o->sync);
    if (t->is_chief) snprintf(r->run_dir, sizeof r->run_dir, "%s", ls__run_dir(t->run));
    r->rank = ls_comm_place(t->comm)->rank;
    r->batch_size = t->s.batch_size;
    r->shards = t->s.shards;
    r->threads = t->s.threads;
    r->epochs = st->epoch;
    r->steps = st->step;
    int64_t of_epoch = st->epoch_step * t->s.batch_size, n = t->s.train->n;
    r->images = (int64_t)st->epoch * n + (of_epoch < n ? of_epoch : n);
    r->train_seconds = st->train_seconds;
    ls__trainer_count_seconds(t);
    r->total_seconds = st->total_seconds;
    r->seconds = st->parts;
    r->images_per_second = st->train_seconds > 0 ? (double)r->images / st->train_seconds : 0;
    fill_choice(t, r);
    r->train_loss = st->train_loss;
    r->train_accuracy = st->train_accuracy;
    r->test_loss = t->s.validation ? t->last_test_loss : st->test_loss;
    r->test_accuracy = t->s.validation ? t->last_test_accuracy : st->test_accuracy;
    r->peak_rss_bytes = ls__peak_rss_bytes();
    const double sitting = ls__seconds_since(t->opened_ns);
    r->cpu_percent_mean = 100 * (ls__cpu_seconds() - t->cpu_seconds) / sitting;
    r->first_step_seconds = t->first_step_seconds;
    const struct forecast *f = &t->forecast;
    r->step.predicted = f->is_made ? f->step_seconds : NAN;
    r->step.predicted_alone = f->is_made ? f->alone_seconds : NAN;
    r->step.measured = f->n_measured > 0 ? f->measured_seconds / (double)f->n_measured : NAN;
    TRY(ls__ranks_result(t, r));
    TRY(ls__workers_total(t->comm, sitting, r));
    ls__sync_report(&t->sync, r);
    return LS_OK;
}
