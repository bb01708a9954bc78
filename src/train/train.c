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
#include "base/file.h"
#include "base/log.h"
#include "base/parse.h"
#include "run/progress.h"
#include "run/run.h"
#include "train/defaults.h"
#include "train/local.h"
#include "train/manifest.h"
#include "train/predict.h"
#include "train/rescue.h"
#include "train/result.h"
#include "train/session.h"
#include "train/signals.h"
#include "train/state.h"
#include "train/usage.h"
#include "train/workers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct trainer {
    const struct ls_train_options *o;
    struct ls_comm *comm;
    bool is_chief;                 /* rank 0: it alone has a run directory, a writer and a progress bar */
    bool stop_wanted, save_wanted; /* by some rank, since a step or two */
    bool is_together;              /* local: the replicas have just been averaged */
    struct session_options so;
    struct session s;
    struct local *local; /* --sync local:H, else NULL */
    struct ls_run *run;
    struct ls_ckpt_writer *writer;
    struct ls_loader *loader;
    struct rescue rescue;
    struct ls_schedule schedule;
    struct train_state st;
    struct ls_progress progress;
    int64_t last_step;         /* stop after this many */
    int64_t checkpoint_steps;  /* every so many steps; 0: per epoch; -1: never */
    int64_t saved_step;        /* of the last checkpoint, -1 none */
    int64_t log_ns, log_step;  /* since the last metric line */
    int64_t images;            /* in this sitting */
    struct ls_seconds seconds; /* of this sitting */
    double step_seconds;       /* in steps, this sitting */
    double first_step_seconds;
    struct forecast forecast; /* of a job over several machines */
};

/* --- setting up --- */

static enum ls_status parse_checkpoint_every(const char *text, int64_t *steps)
{
    *steps = strcmp(text, "epoch") == 0 ? 0 : -1;
    if (*steps == 0 || strcmp(text, "none") == 0) return LS_OK;
    if (!ls__parse_i64(text, 1, INT64_MAX, steps))
        return ls_fail(LS_USAGE, "--checkpoint-every %s: expected epoch, none or a number of steps", text);
    return LS_OK;
}

static enum ls_status open_session(struct trainer *t)
{
    const struct ls_train_options *o = t->o;
    t->so = (struct session_options){
        .model = o->model,
        .data = o->data,
        .data_dir = o->data_dir,
        .device = o->device,
        .isa = o->isa,
        .tune = o->tune,
        .resize = o->resize,
        .batch_size = o->batch_size,
        .shards = o->shards,
        .threads = o->threads,
        .is_training = true,
        .with_test = !o->no_eval,
        .normalize = o->normalize,
        .flip = o->flip,
        .crop_pad = o->crop_pad,
        .cutout = o->cutout,
        .label_smoothing = o->label_smoothing,
        .float_sums = strcmp(o->sum, "float") == 0,
        .optim = {.is_adamw = strcmp(o->optimizer, "adamw") == 0,
                  .nesterov = o->nesterov,
                  .momentum = o->momentum,
                  .weight_decay = o->weight_decay,
                  .beta1 = o->beta1,
                  .beta2 = o->beta2,
                  .eps = o->eps},
        .comm = t->comm,
        .balance = o->balance,
        .compress = o->compress,
        .low_memory = strcmp(o->memory, "low") == 0,
        .by_shard = local_period(o->sync) > 0,
    };
    if (strcmp(o->optimizer, "sgd") != 0 && strcmp(o->optimizer, "adamw") != 0)
        return ls_fail(LS_USAGE, "--optimizer %s: expected sgd or adamw", o->optimizer);
    return session_open(&t->s, &t->so);
}

static enum ls_status plan_steps(struct trainer *t)
{
    const struct ls_train_options *o = t->o;
    int64_t per_epoch = (t->s.train->n + t->s.batch_size - 1) / t->s.batch_size;
    t->schedule = (struct ls_schedule){.lr = o->lr,
                                       .min_lr = o->min_lr,
                                       .gamma = o->gamma,
                                       .step_epochs = o->step_epochs,
                                       .warmup_epochs = o->warmup_epochs,
                                       .steps_per_epoch = per_epoch,
                                       .total_steps = per_epoch * o->epochs};
    t->last_step = t->schedule.total_steps;
    if (o->iterations > 0 && o->iterations < t->last_step) t->last_step = o->iterations;
    TRY(parse_checkpoint_every(o->checkpoint_every, &t->checkpoint_steps));
    return ls_schedule_parse(&t->schedule, o->schedule, o->milestones);
}

static bool is_resumed_from_file(const struct ls_train_options *o)
{
    return o->resume && strcmp(o->resume, "auto") != 0 && ls__file_exists(o->resume);
}

/* The directory the run lives in: --run, or the one --resume names. */
static const char *run_dir_of(const struct ls_train_options *o)
{
    if (o->run_dir || !o->resume || strcmp(o->resume, "auto") == 0) return o->run_dir;
    return ls__dir_exists(o->resume) ? o->resume : NULL;
}

static bool is_same_dir(const char *a, const char *b)
{
    struct stat at_a, at_b;
    return stat(a, &at_a) == 0 && stat(b, &at_b) == 0 && at_a.st_dev == at_b.st_dev && at_a.st_ino == at_b.st_ino;
}

static enum ls_status open_run(struct trainer *t)
{
    const struct ls_train_options *o = t->o;
    const char *dir = run_dir_of(o);
    bool is_file = is_resumed_from_file(o);
    if (o->resume && strcmp(o->resume, "auto") == 0 && !dir)
        return ls_fail(LS_USAGE, "--resume auto needs --run DIR: which run is to go on?");
    if (o->resume && strcmp(o->resume, "auto") != 0 && !is_file && !ls__dir_exists(o->resume))
        return ls_fail(LS_CHECKPOINT, "--resume %s: no such run directory or checkpoint", o->resume);
    if (o->resume && strcmp(o->resume, "auto") != 0 && !is_file && !is_same_dir(dir, o->resume))
        return ls_fail(LS_USAGE,
                       "--resume %s goes on in that run directory; to go on in %s, resume from a checkpoint "
                       "file of it",
                       o->resume, dir);
    return ls__run_open(&t->run, dir, ls_model_name(t->s.model), o->data, o->resume && !is_file);
}

static enum ls_status take_over(struct trainer *t, struct ls_ckpt *ckpt, const char *path)
{
    const struct train_state *st = &t->st;
    int64_t per_epoch = t->schedule.steps_per_epoch;
    TRY(state_check(t->o, &t->s, ckpt, path));
    TRY(state_from_meta(&t->st, ckpt, path));
    if (st->epoch_step >= per_epoch || st->epoch != st->step / per_epoch || st->epoch_step != st->step % per_epoch)
        return ls_fail(LS_CHECKPOINT, "%s: step %lld cannot be step %lld of epoch %lld with %lld steps in each", path,
                       (long long)st->step, (long long)st->epoch_step, (long long)st->epoch + 1, (long long)per_epoch);
    TRY(session_load(&t->s, ckpt, path, true));
    t->saved_step = t->st.step;
    ls__log(LS_LOG_INFO, "resumed from %s: %lld steps done", path, (long long)t->st.step);
    return LS_OK;
}

/* The weights of the file that --resume names, if it names one: before the run directory is made, since the file may be
 * bad. */
static enum ls_status resume_file(struct trainer *t)
{
    struct ls_ckpt *ckpt = NULL;
    if (!is_resumed_from_file(t->o)) return LS_OK;
    TRY(ls_ckpt_open(&ckpt, t->o->resume));
    enum ls_status status = take_over(t, ckpt, t->o->resume);
    ls_ckpt_close(&ckpt);
    t->saved_step = -1; /* not in this run's directory */
    return status;
}

/* The newest checkpoint of the run directory that --resume names, if it has any. */
static enum ls_status resume_run(struct trainer *t, const char *folder)
{
    char path[LS_PATH_BYTES];
    struct ls_ckpt *ckpt = NULL;
    int n_seen = 0;
    enum ls_status status = LS_CHECKPOINT;
    if (!t->o->resume || is_resumed_from_file(t->o)) return LS_OK;
    if (ls__dir_exists(folder)) status = ls_ckpt_open_newest(&ckpt, folder, path, &n_seen);
    if (status == LS_CHECKPOINT && n_seen > 0)
        return status; /* there were some, and none is whole: say so, lose nothing */
    if (status == LS_CHECKPOINT) {
        ls__log(LS_LOG_INFO, "no checkpoint in %s yet: starting from the beginning", ls__run_dir(t->run));
        return ls__run_metrics_rewind(t->run, -1, false);
    }
    TRY(status);
    status = take_over(t, ckpt, path);
    ls_ckpt_close(&ckpt);
    TRY(status);
    return ls__run_metrics_rewind(t->run, t->st.step, t->st.epoch_step > 0);
}

/* After a restart: a copy in memory that is newer than the checkpoint on disk, on whichever machine still has it. */
static enum ls_status resume_from_memory(struct trainer *t)
{
    struct ls_ckpt *ckpt = NULL;
    char path[LS_PATH_BYTES];
    int from;
    TRY(rescue_open(&t->rescue, t->comm, t->o->rescue_every));
    TRY(rescue_find(&t->rescue, t->comm, t->o->resume ? t->st.step : INT64_MAX, &ckpt, path, &from));
    if (from < 0) return LS_OK;
    enum ls_status status = ckpt ? take_over(t, ckpt, path) : LS_OK;
    ls_ckpt_close(&ckpt);
    t->saved_step = -1;
    TRY(workers_take_state(t->comm, from, status, &t->s, &t->st, &t->saved_step));
    if (!t->is_chief) return LS_OK;
    ls__log(LS_LOG_INFO, "going on from step %lld, out of the memory of %s", (long long)t->st.step,
            ls_comm_host(t->comm, ls_comm_node_of(t->comm, from)));
    return ls__run_metrics_rewind(t->run, t->st.step, t->st.epoch_step > 0);
}

static void say_hello(const struct trainer *t)
{
    char shape[64];
    const struct session *s = &t->s;
    snprintf(shape, sizeof shape, "%dx%dx%d", s->train->c, s->train->h, s->train->w);
    ls__log(LS_LOG_INFO, "%s on %s: %lld images of %s, %d classes", ls_model_name(s->model), t->o->data,
            (long long)s->train->n, shape, s->train->n_classes);
    ls__log(LS_LOG_INFO, "global batch %lld = %lld shards of %lld, %d thread%s; run directory %s",
            (long long)s->batch_size, (long long)s->shards, (long long)s->shard_size, s->threads,
            s->threads == 1 ? "" : "s", ls__run_dir(t->run));
    if (t->local)
        ls__log(LS_LOG_INFO,
                "local SGD: each of %lld shards trains its own copy, averaged every %lld steps. Not the weights of "
                "synchronous training, but the same for any number of workers",
                (long long)s->shards, (long long)local_period(t->o->sync));
}

/* What the chief alone does. */
static enum ls_status set_up_run(struct trainer *t)
{
    char folder[LS_PATH_BYTES];
    TRY(resume_file(t));
    TRY(open_run(t));
    TRY(ls__run_path(t->run, "checkpoints", folder));
    TRY(resume_run(t, folder));
    TRY(ls_ckpt_writer_create(&t->writer, folder, (int)t->o->keep));
    return manifest_write(t->run, t->o, &t->s);
}

static enum ls_status set_up(struct trainer *t)
{
    TRY(open_session(t));
    TRY(plan_steps(t));
    TRY(workers_agree_run(t->comm, t->o, &t->s));
    state_init(&t->st);
    t->saved_step = -1;
    TRY(ls_exec_init_store(t->s.exec, (uint64_t)t->o->seed));
    TRY(workers_take_state(t->comm, 0, t->is_chief ? set_up_run(t) : LS_OK, &t->s, &t->st, &t->saved_step));
    TRY(resume_from_memory(t));
    if (local_period(t->o->sync) > 0) {
        TRY(local_open(&t->local, &t->s, &t->so, local_period(t->o->sync)));
        TRY(local_start(t->local));
    }
    const struct ls_loader_options lo = {.batch_size = (int)t->s.batch_size,
                                         .seed = (uint64_t)t->o->seed,
                                         .first_epoch = t->st.epoch,
                                         .first_step = t->st.epoch_step,
                                         .shuffle = true,
                                         .n_threads = (int)t->o->loader_threads};
    TRY(ls_loader_create(&t->loader, t->s.train, &lo));
    if (t->is_chief) say_hello(t);
    if (!t->local) TRY(forecast_make(&t->forecast, &t->s, (uint64_t)t->o->seed, t->o->balance));
    if (t->is_chief) forecast_tell(&t->forecast);
    return LS_OK;
}

/* --- the loop --- */

/* The state of now, to be written in the background. */
static enum ls_status submit(struct trainer *t, struct ls_ckpt_writer *writer, bool is_best)
{
    struct snapshot snap;
    struct state_meta *m;
    int64_t start = ls__now_ns();
    m = calloc(1, sizeof *m);
    if (!m) return ls_fail(LS_NOMEM, "out of memory while making a checkpoint");
    enum ls_status status = state_to_meta(&t->st, t->o, &t->s, m);
    if (status == LS_OK) status = session_snapshot(&t->s, t->st.step, &snap);
    if (status == LS_OK) {
        status = ls_ckpt_writer_submit(writer, t->st.step, is_best, snap.tensors, snap.n, m->meta, m->n);
        snapshot_release(&snap);
    }
    state_meta_release(m);
    free(m);
    t->seconds.checkpoint += ls__seconds_since(start);
    return status;
}

static enum ls_status save(struct trainer *t, bool is_best)
{
    if (t->saved_step == t->st.step && !is_best) return LS_OK;
    TRY(ls_exec_forget_remainders(t->s.exec));
    t->saved_step = t->st.step;
    return t->is_chief ? submit(t, t->writer, is_best) : LS_OK;
}

/* A copy in the memory of every machine, for a restart. */
static enum ls_status save_in_memory(struct trainer *t)
{
    if (!rescue_is_due(&t->rescue, t->st.step)) return LS_OK;
    TRY(ls_exec_forget_remainders(t->s.exec));
    return t->rescue.writer ? submit(t, t->rescue.writer, false) : LS_OK;
}

static void write_metric(struct trainer *t, const char *split, double loss, double accuracy, double lr, double images,
                         double seconds)
{
    if (!t->is_chief) return;
    ls__run_metric(t->run, &(struct ls_metric){.step = t->st.step,
                                               .epoch = t->st.epoch + 1,
                                               .split = split,
                                               .loss = loss,
                                               .accuracy = accuracy,
                                               .lr = lr,
                                               .images_per_second = seconds > 0 ? images / seconds : 0,
                                               .seconds = t->st.train_seconds});
}

static void log_step(struct trainer *t, double lr)
{
    struct tally *y = &t->st.log_tally;
    if (t->o->log_every <= 0 || t->st.step % t->o->log_every != 0 || y->n == 0) return;
    write_metric(t, "train", y->loss_sum / (double)y->n, (double)y->n_correct / (double)y->n, lr, (double)y->n,
                 ls__seconds_since(t->log_ns));
    *y = (struct tally){0};
    t->log_ns = ls__now_ns();
}

static enum ls_status end_epoch(struct trainer *t, double lr, double epoch_seconds)
{
    struct train_state *st = &t->st;
    const struct ls_train_options *o = t->o;
    char text[256];
    bool is_best = false, is_last = st->step >= t->last_step;
    double n = (double)st->epoch_tally.n;
    st->train_loss = st->epoch_tally.loss_sum / n;
    st->train_accuracy = (double)st->epoch_tally.n_correct / n;
    write_metric(t, "epoch", st->train_loss, st->train_accuracy, lr, n, epoch_seconds);
    int at = snprintf(text, sizeof text, "epoch %lld/%lld: train loss %.4f, accuracy %.2f %%", (long long)st->epoch + 1,
                      (long long)o->epochs, st->train_loss, 100 * st->train_accuracy);
    if (!o->no_eval && (is_last || (o->eval_every > 0 && (st->epoch + 1) % o->eval_every == 0))) {
        int64_t start = ls__now_ns();
        TRY(session_evaluate(&t->s, false, &st->test_loss, &st->test_accuracy));
        double seconds = ls__seconds_since(start);
        t->seconds.evaluate += seconds;
        write_metric(t, "test", st->test_loss, st->test_accuracy, lr, (double)t->s.test->n, seconds);
        is_best = st->test_accuracy > st->best_accuracy;
        if (is_best) st->best_accuracy = st->test_accuracy;
        at += snprintf(text + at, sizeof text - (size_t)at, "; test loss %.4f, accuracy %.2f %%", st->test_loss,
                       100 * st->test_accuracy);
    }
    snprintf(text + at, sizeof text - (size_t)at, "; %.0f images/s, %.1f s", n / epoch_seconds, epoch_seconds);
    if (t->is_chief) ls__progress_end(&t->progress, text);
    st->epoch_tally = (struct tally){0};
    st->epoch++;
    st->epoch_step = 0;
    bool by_epoch = t->checkpoint_steps == 0 || (t->checkpoint_steps > 0 && (is_last || is_best));
    return by_epoch ? save(t, is_best) : LS_OK;
}

/* Whether the state after this many steps is needed: saved, evaluated or the last. The same on all ranks. */
static bool is_needed_after(const struct trainer *t, int64_t step)
{
    return step % t->schedule.steps_per_epoch == 0 || step == t->last_step ||
           (t->checkpoint_steps > 0 && step % t->checkpoint_steps == 0) || rescue_is_due(&t->rescue, step);
}

static enum ls_status train_step(struct trainer *t, const struct ls_exec_step *step, struct ls_exec_stats *stats)
{
    bool stop = ls__signals_stop_wanted(), save = ls__signals_checkpoint_wanted();
    if (t->local) {
        local_want(t->local, stop, save);
        return local_step(t->local, step, is_needed_after(t, step->step + 1), stats, &t->is_together);
    }
    ls_exec_want(t->s.exec, stop, save);
    return ls_exec_train(t->s.exec, step, stats);
}

static enum ls_status one_step(struct trainer *t, double *lr)
{
    struct train_state *st = &t->st;
    struct ls_batch batch;
    struct ls_exec_stats stats;
    int64_t start = ls__now_ns();
    *lr = ls_schedule_lr(&t->schedule, st->step);
    TRY(ls_loader_next(t->loader, &batch));
    t->seconds.load += ls__seconds_since(start);
    const struct ls_exec_step step = {.batch = &batch,
                                      .transform = &t->s.transform,
                                      .shard_size = t->s.shard_size,
                                      .seed = (uint64_t)t->o->seed,
                                      .step = st->step,
                                      .lr = *lr,
                                      .clip_norm = t->o->clip_norm};
    TRY(train_step(t, &step, &stats));
    t->save_wanted = stats.save_wanted;
    t->stop_wanted = stats.stop_wanted;
    double seconds = ls__seconds_since(start);
    t->seconds.compute += stats.compute_seconds;
    t->seconds.wait += stats.wait_seconds;
    t->seconds.communicate += stats.communicate_seconds;
    t->step_seconds += seconds;
    forecast_note(&t->forecast, seconds);
    st->train_seconds += seconds;
    t->images += stats.n;
    if (t->first_step_seconds == 0) t->first_step_seconds = ls__seconds_since_start();
    st->step++;
    st->epoch_step++;
    tally_add(&st->epoch_tally, &stats);
    tally_add(&st->log_tally, &stats);
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
        ls__progress_begin(&t->progress, label, t->schedule.steps_per_epoch);
        if (t->st.epoch_step > 1) ls__progress_start_at(&t->progress, t->st.epoch_step - 1);
    }
    snprintf(note, sizeof note, "loss=%.3f acc=%.1f%%", y->loss_sum / (double)y->n,
             100 * (double)y->n_correct / (double)y->n);
    ls__progress_update(&t->progress, t->st.epoch_step, note);
}

/* A process alone stops at once; of several all stop after the same step, once the wish has gone round. */
static bool is_stop_wanted(const struct trainer *t)
{
    return t->stop_wanted || (!t->local && ls_comm_place(t->comm)->n_ranks == 1 && ls__signals_stop_wanted());
}

static enum ls_status loop(struct trainer *t)
{
    double epoch_seconds = 0, lr = 0;
    t->log_ns = ls__now_ns();
    while (t->st.step < t->last_step && !is_stop_wanted(t)) {
        int64_t start = ls__now_ns();
        TRY(one_step(t, &lr));
        epoch_seconds += ls__seconds_since(start);
        log_step(t, lr);
        show_progress(t);
        if (t->st.epoch_step == t->schedule.steps_per_epoch) {
            TRY(end_epoch(t, lr, epoch_seconds));
            epoch_seconds = 0;
        }
        bool is_due = t->checkpoint_steps > 0 && t->st.step % t->checkpoint_steps == 0;
        if (is_due || t->save_wanted) TRY(save(t, false));
        TRY(save_in_memory(t));
    }
    return LS_OK;
}

/* A run cut short by --iterations ends within an epoch: evaluate what there is. */
static enum ls_status finish(struct trainer *t)
{
    struct train_state *st = &t->st;
    if (st->epoch_tally.n > 0) {
        st->train_loss = st->epoch_tally.loss_sum / (double)st->epoch_tally.n;
        st->train_accuracy = (double)st->epoch_tally.n_correct / (double)st->epoch_tally.n;
        if (!t->o->no_eval) {
            int64_t start = ls__now_ns();
            TRY(session_evaluate(&t->s, false, &st->test_loss, &st->test_accuracy));
            t->seconds.evaluate += ls__seconds_since(start);
            write_metric(t, "test", st->test_loss, st->test_accuracy, ls_schedule_lr(&t->schedule, st->step),
                         (double)t->s.test->n, ls__seconds_since(start));
        }
        if (t->checkpoint_steps >= 0) TRY(save(t, false));
        if (t->is_chief) ls__progress_end(&t->progress, NULL);
    }
    return LS_OK;
}

static enum ls_status fill_result(struct trainer *t, struct ls_result *r)
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
    r->images = (int64_t)st->epoch * t->s.train->n + st->epoch_step * t->s.batch_size;
    r->train_seconds = st->train_seconds;
    r->total_seconds = ls__seconds_since_start();
    r->images_per_second = t->step_seconds > 0 ? (double)t->images / t->step_seconds : 0;
    r->train_loss = st->train_loss;
    r->train_accuracy = st->train_accuracy;
    r->test_loss = st->test_loss;
    r->test_accuracy = st->test_accuracy;
    r->peak_rss_bytes = ls__peak_rss_bytes();
    r->cpu_percent_mean = 100 * ls__cpu_seconds() / r->total_seconds;
    r->seconds = t->seconds;
    r->first_step_seconds = t->first_step_seconds;
    TRY(session_hash(&t->s, r->weights_hash));
    return workers_total(t->comm, r);
}

static enum ls_status write_result(struct trainer *t, struct ls_result *r)
{
    char *text = ls__result_text(r);
    if (!text) return ls_fail(LS_NOMEM, "out of memory while writing the result");
    enum ls_status status = ls__run_result(t->run, text);
    free(text);
    return status;
}

static enum ls_status run_all(struct trainer *t, struct ls_result *r)
{
    TRY(set_up(t));
    TRY(loop(t));
    bool is_stopped = t->st.step < t->last_step;
    TRY(is_stopped ? save(t, false) : finish(t));
    int64_t start = ls__now_ns();
    enum ls_status status = t->is_chief ? ls_ckpt_writer_finish(t->writer) : LS_OK;
    TRY(ls_comm_agree(t->comm, status, "finished"));
    t->seconds.checkpoint += ls__seconds_since(start);
    TRY(fill_result(t, r));
    if (t->is_chief) workers_name_slowest(t->comm, t->s.exec);
    if (t->is_chief) forecast_compare(&t->forecast);
    if (is_stopped) {
        if (t->is_chief) ls__progress_end(&t->progress, NULL);
        return ls_fail(LS_INTERRUPTED, "stopped by %s after step %lld; checkpoint written, go on with --resume %s",
                       ls__signals_name(), (long long)t->st.step, r->run_dir);
    }
    return t->is_chief ? write_result(t, r) : LS_OK;
}

/* Several ranks fail together; one of each machine says why. */
static void mute_others(struct ls_comm *comm, enum ls_status status)
{
    if (status == LS_OK || !comm || ls_comm_place(comm)->n_ranks == 1) return;
    bool may_tell = status == LS_INTERRUPTED ? ls_comm_place(comm)->rank == 0 : ls_comm_may_tell(comm);
    if (!may_tell) ls__log_set_level(LS_LOG_NOTHING);
}

static enum ls_status check_options(const struct ls_train_options *o, const struct ls_comm *comm)
{
    if (o->workers > 0 && ls_comm_is_launched() && o->workers != ls_comm_place(comm)->n_ranks)
        return ls_fail(LS_USAGE, "the job has %d processes, but %lld workers were asked for",
                       ls_comm_place(comm)->n_ranks, (long long)o->workers);
    if (strcmp(o->precision, "f32") != 0)
        return ls_fail(LS_USAGE, "--precision %s: this build trains in f32", o->precision);
    if (strcmp(o->sum, "float") == 0 && ls_comm_place(comm)->n_ranks > 1)
        return ls_fail(LS_USAGE, "--sum float depends on the order of addition, so it takes one worker only");
    return LS_OK;
}

enum ls_status ls_train(const struct ls_train_options *o, struct ls_result *result)
{
    struct trainer t = {.o = o};
    *result = (struct ls_result){.train_loss = NAN, .train_accuracy = NAN, .test_loss = NAN, .test_accuracy = NAN};
    const struct ls_comm_options co = {.timeout = o->timeout, .is_ended = ls__signals_end_wanted};
    TRY(ls_comm_open(&t.comm, &co));
    t.is_chief = ls_comm_place(t.comm)->rank == 0;
    if (!t.is_chief && ls__log_level() > LS_LOG_ERROR) ls__log_set_level(LS_LOG_ERROR);
    enum ls_status status = ls_comm_agree(t.comm, check_options(o, t.comm), "");
    if (status == LS_OK) status = run_all(&t, result);
    mute_others(t.comm, status);
    ls_loader_destroy(&t.loader);
    local_close(&t.local);
    ls_ckpt_writer_destroy(&t.writer);
    rescue_close(&t.rescue);
    ls__run_close(&t.run);
    session_close(&t.s);
    ls_comm_close(&t.comm);
    return status;
}
