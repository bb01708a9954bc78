/* summary.c: a training that has ended as struct ls_result: what it was, how far it came, where its time went. */
#include "base/clock.h"
#include "session/usage.h"
#include "session/workers.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>

/* Where the time of this sitting went, up to now. */
static void fill_seconds(const struct trainer *t, struct ls_result *r)
{
    struct ls_totals totals;
    ls__lane_totals(t->s.lane, &totals);
    double in_steps = 1e-9 * (double)totals.whole_ns[LS_SPAN_STEP];
    const struct ls_time_split s = ls__trace_split(t->trace, t->s.threads);
    r->total_seconds = ls__seconds_since(t->opened_ns);
    r->images_per_second = in_steps > 0 ? (double)t->images / in_steps : 0;
    r->seconds = (struct ls_seconds){.setup = s.setup,
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
    fill_seconds(t, r);
    r->train_loss = st->train_loss;
    r->train_accuracy = st->train_accuracy;
    r->test_loss = st->test_loss;
    r->test_accuracy = st->test_accuracy;
    r->peak_rss_bytes = ls__peak_rss_bytes();
    r->cpu_percent_mean = 100 * (ls__cpu_seconds() - t->cpu_seconds) / r->total_seconds;
    r->first_step_seconds = t->first_step_seconds;
    const struct forecast *f = &t->forecast;
    r->step.predicted = f->is_made ? f->step_seconds : NAN;
    r->step.predicted_alone = f->is_made ? f->alone_seconds : NAN;
    r->step.measured = f->n_measured > 0 ? f->measured_seconds / (double)f->n_measured : NAN;
    TRY(ls__session_hash(&t->s, r->weights_hash));
    return ls__workers_total(t->comm, r);
}
