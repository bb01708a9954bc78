/* setup.c: everything before the first step: session, run directory, the state of a resumed run, loader.
 *
 * Of a job all ranks come through here together. The chief alone touches the run directory and the checkpoints; what it
 * found, or failed at, is spread before anybody goes on.
 */
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/parse.h"
#include "checkpoint/writer.h"
#include "session/workers.h"
#include "train/init.h"
#include "train/layers.h"
#include "train/manifest.h"
#include "train/observe.h"
#include "train/ranks.h"
#include "train/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
    t->so = ls__session_options_of(o);
    t->so.comm = t->comm;
    t->so.trace = t->trace;
    t->so.sync = t->sync.choice.name;
    t->so.computes_elsewhere = t->sync.choice.name->is_served;
    return ls__session_open(&t->s, &t->so);
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
    ls__init_adopt(t, ckpt);
    TRY(ls__state_check(t->o, &t->s, ckpt, path));
    TRY(ls__state_from_meta(&t->st, ckpt, path));
    int64_t before = st->step - st->epoch_step; /* epoch_step is per_epoch when the epoch is not evaluated yet */
    if (st->epoch_step > per_epoch || before < 0 || st->epoch != before / per_epoch || before % per_epoch != 0)
        return ls_fail(LS_CHECKPOINT, "%s: step %lld cannot be step %lld of epoch %lld with %lld steps in each", path,
                       (long long)st->step, (long long)st->epoch_step, (long long)st->epoch + 1, (long long)per_epoch);
    TRY(ls__session_load(&t->s, ckpt, path, true));
    t->saved_step = t->st.step;
    ls__log(LS_LOG_INFO, "resumed from %s: %lld steps done", path, (long long)t->st.step);
    return LS_OK;
}

/* The weights of the file that --resume names, if it names one: before the run directory is made, since the file may be
 * bad. */
static enum ls_status resume_file(struct trainer *t)
{
    if (!is_resumed_from_file(t->o)) return LS_OK;
    snprintf(t->resumed_path, sizeof t->resumed_path, "%s", t->o->resume);
    TRY(ls_ckpt_open(&t->resumed, t->o->resume));
    enum ls_status status = take_over(t, t->resumed, t->o->resume);
    t->saved_step = -1; /* not in this run's directory */
    return status;
}

static enum ls_status rewind_metrics(struct trainer *t, int64_t step)
{
    const struct ls_rewind to = {
        .step = step, .is_within_epoch = t->st.epoch_step > 0, .is_test_last = t->s.validation};
    return ls__run_metrics_rewind(t->run, &to);
}

/* The newest checkpoint of the run directory that --resume names, if it has any. */
static enum ls_status resume_run(struct trainer *t, const char *folder)
{
    int n_seen = 0;
    enum ls_status status = LS_CHECKPOINT;
    if (!t->o->resume || is_resumed_from_file(t->o)) return LS_OK;
    if (ls__dir_exists(folder)) status = ls_ckpt_open_newest(&t->resumed, folder, t->resumed_path, &n_seen);
    if (status == LS_CHECKPOINT && n_seen > 0)
        return status; /* there were some, and none is whole: say so, lose nothing */
    if (status == LS_CHECKPOINT) {
        ls__log(LS_LOG_INFO, "no checkpoint in %s yet: starting from the beginning", ls__run_dir(t->run));
        return rewind_metrics(t, -1);
    }
    TRY(status);
    TRY(take_over(t, t->resumed, t->resumed_path));
    return rewind_metrics(t, t->st.step);
}

/* After a restart: a copy in memory that is newer than the checkpoint on disk, on whichever machine still has it. */
static enum ls_status resume_from_memory(struct trainer *t)
{
    struct ls_ckpt *ckpt = NULL;
    char path[LS_PATH_BYTES] = "";
    int from;
    ls__rescue_open(&t->rescue, t->comm, t->o->rescue_every);
    TRY(ls__rescue_find(&t->rescue, t->comm, t->o->resume ? t->st.step : INT64_MAX, (int)t->s.shards, &ckpt, path,
                        &from));
    if (from < 0) return LS_OK;
    ls_ckpt_close(&t->resumed);
    t->resumed = ckpt;
    memcpy(t->resumed_path, path, sizeof path);
    bool is_mine = from == ls_comm_place(t->comm)->rank;
    enum ls_status status = is_mine ? take_over(t, ckpt, path) : LS_OK;
    t->saved_step = -1;
    TRY(ls__workers_take_state(t->comm, from, status, &t->s, &t->st, &t->saved_step));
    if (!t->is_chief) return LS_OK;
    ls__log(LS_LOG_INFO, "going on from step %lld, out of the memory of %s", (long long)t->st.step,
            ls_comm_host(t->comm, ls_comm_machine_of(t->comm, from)));
    return rewind_metrics(t, t->st.step);
}

static void say_hello(const struct trainer *t)
{
    char shape[64];
    const struct session *s = &t->s;
    snprintf(shape, sizeof shape, "%dx%dx%d", s->train->c, s->train->h, s->train->w);
    ls__log(LS_LOG_INFO, "%s on %s: %lld images of %s, %d classes", ls_model_name(s->model), t->o->data,
            (long long)s->train->n, shape, s->train->n_classes);
    int n_workers = ls_comm_place(t->comm)->n_ranks;
    char workers[48] = "";
    if (n_workers > 1) snprintf(workers, sizeof workers, "%d workers, rank 0 with ", n_workers);
    ls__log(LS_LOG_INFO, "global batch %lld = %lld shards of %lld, %s%d thread%s; run directory %s",
            (long long)s->batch_size, (long long)s->shards, (long long)s->shard_size, workers, s->threads,
            s->threads == 1 ? "" : "s", ls__run_dir(t->run));
    if (s->validation)
        ls__log(LS_LOG_INFO, "validation: %lld images %s", (long long)s->validation->n,
                s->whole ? "held out of the training data" : "of their own");
    if (t->o->target > 0 && !s->validation)
        ls__log(
            LS_LOG_WARN,
            "--target without --validation stops by the test data: the accuracy there is then chosen, not measured");
    ls__sync_say_hello(&t->sync);
}

static enum ls_status open_writer(struct trainer *t)
{
    struct ls_dir folder;
    TRY(ls__run_checkpoints(t->run, &folder));
    TRY(ls__ckpt_writer_create_in(&t->writer, &folder, (int)t->o->keep));
    return ls__ckpt_writer_measure(t->writer, t->trace);
}

/* A checkpoint without the data: what could never be saved is not begun. Who wants no checkpoints loses only the one of
 * a signal. */
static enum ls_status try_checkpoint(struct trainer *t)
{
    struct snapshot snap = {0};
    struct carried carried = {0};
    struct state_meta *m;
    TRY(ls__calloc(&m, 1, sizeof *m));
    enum ls_status status = ls__state_to_meta(&t->st, t->o, &t->s, m);
    if (status == LS_OK) status = ls__session_outline(&t->s, &snap);
    if (status == LS_OK) status = ls__carry_outline(&t->s, t->sync.carried, &carried);
    if (status == LS_OK) status = ls__carry_join(&snap, &carried);
    if (status == LS_OK) status = ls__ckpt_writer_try(t->writer, t->st.step, snap.tensors, snap.n, m->meta, m->n);
    ls__snapshot_release(&snap);
    ls__carry_release(&carried);
    ls__state_meta_release(m);
    free(m);
    if (status != LS_CHECKPOINT) return status;
    if (t->checkpoint_steps >= 0) return ls_fail_in(status, "this training could not be saved");
    ls__log(LS_LOG_WARN, "this training cannot be saved when a signal stops it: %s", ls_error_message());
    return LS_OK;
}

/* What the chief alone does. */
static enum ls_status set_up_run(struct trainer *t)
{
    char folder[LS_PATH_BYTES];
    TRY(resume_file(t));
    TRY(open_run(t));
    TRY(ls__run_path(t->run, "checkpoints", folder));
    TRY(resume_run(t, folder));
    if (!t->resumed) TRY(ls__init_take(t));
    TRY(open_writer(t));
    TRY(try_checkpoint(t));
    return ls__manifest_write(t->run, t->o, &t->s);
}

/* After the forecast, whose rehearsal would change it. */
static enum ls_status take_carried(struct trainer *t)
{
    TRY(ls__carry_open(&t->carry, &t->sync));
    return ls__carry_take(t->carry, &t->st, t->resumed, t->resumed_path);
}

enum ls_status ls__trainer_set_up(struct trainer *t)
{
    TRY(ls__sync_choose(&t->sync, t->o));
    TRY(open_session(t));
    TRY(plan_steps(t));
    TRY(ls__init_open(t));
    TRY(ls__workers_agree_run(t->comm, t->o, &t->s));
    ls__state_init(&t->st);
    t->saved_step = -1;
    TRY(ls_exec_init_store(t->s.exec, (uint64_t)t->o->seed));
    TRY(ls__workers_take_state(t->comm, 0, t->is_chief ? set_up_run(t) : LS_OK, &t->s, &t->st, &t->saved_step));
    TRY(ls__init_spread(t));
    TRY(resume_from_memory(t));
    t->earlier = t->st;
    t->sync.run_dir = t->run ? ls__run_dir(t->run) : NULL;
    t->sync.began_ns = t->opened_ns;
    t->sync.last_step = t->last_step;
    TRY(ls__sync_open(&t->sync, &t->s, &t->so, &t->st, t->schedule.steps_per_epoch));
    bool is_epoch_over = t->st.epoch_step == t->schedule.steps_per_epoch;
    const struct ls_loader_options lo = {.batch_size = (int)t->s.batch_size,
                                         .kept = t->s.train_kept,
                                         .seed = (uint64_t)t->o->seed,
                                         .first_epoch = t->st.epoch + (is_epoch_over ? 1 : 0),
                                         .first_step = is_epoch_over ? 0 : t->st.epoch_step,
                                         .shuffle = true,
                                         .trace = t->trace,
                                         .n_threads = (int)t->o->loader_threads};
    if (!t->sync.way->is_fed_elsewhere) TRY(ls_loader_create(&t->loader, t->s.train, &lo));
    if (t->is_chief) say_hello(t);
    TRY(ls__sync_foretell(&t->sync, &t->forecast));
    if (t->is_chief) ls__forecast_tell(&t->forecast);
    ls__rescue_start(&t->rescue, t->st.step);
    enum ls_status status = take_carried(t);
    ls_ckpt_close(&t->resumed);
    TRY(status);
    TRY(ls__observe_open(t));
    TRY(ls__layers_open(t));
    return ls__ranks_open(t);
}
