/* trainer.c: a trainer begins and ends: the job, what this rank may tell, and everything closed in the order in which
 * it depends on each other. What is in between is set up in setup.c.
 */
#include "train/trainer.h"
#include "train/observe.h"
#include "train/ranks.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/status_kept.h"
#include "session/usage.h"
#include "settings/setting.h"

#include <math.h>
#include <string.h>

/* A parameter server is one process; its workers are started by others. */
static enum ls_status check_served(const struct ls_train_options *o, const struct ls_comm *comm)
{
    struct ls_sync_choice sync;
    if (!ls__sync_parse(o->sync, &sync) || !sync.name->is_served) return LS_OK;
    if (ls_comm_place(comm)->n_ranks > 1)
        return ls_fail(LS_USAGE,
                       "--sync %s is one server with workers of its own, not a job of %d ranks; start it "
                       "without mpirun",
                       o->sync, ls_comm_place(comm)->n_ranks);
    if (!o->elastic || !o->elastic->listen)
        return ls_fail(LS_USAGE,
                       "--sync %s needs workers: give -w N, or use `lockstep server` and `lockstep train "
                       "--server ADDRESS`",
                       o->sync);
    if (strcmp(o->sum, "float") == 0)
        return ls_fail(LS_USAGE, "--sum float depends on the order of addition; it does not go with --sync %s",
                       o->sync);
    if (o->train_images)
        return ls_fail(LS_USAGE, "--sync %s: workers cannot see images in this process' memory", o->sync);
    return LS_OK;
}

static enum ls_status check_options(struct ls_train_options *o, const struct ls_comm *comm)
{
    TRY(ls_options_check(o));
    if (o->workers > 0 && ls_comm_is_launched() && o->workers != ls_comm_place(comm)->n_ranks)
        return ls_fail(LS_USAGE, "the job has %d processes, but %lld workers were asked for",
                       ls_comm_place(comm)->n_ranks, (long long)o->workers);
    TRY(check_served(o, comm));
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
                                       .is_stopped = control ? control->is_stop_wanted : NULL,
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

/* For those who look at the run directory later. Does not disturb the message of the failure. */
static void tell_end(struct trainer *t, enum ls_status status)
{
    if (!t->is_chief || !t->is_set_up || t->has_result) return;
    const struct ls_kept kept = ls__keep(status);
    bool is_stopped = status == LS_OK || status == LS_INTERRUPTED;
    ls__run_ended(t->run, is_stopped ? "stopped" : "failed",
                  status == LS_OK ? "closed by its program before the last step" : kept.message, t->st.step);
    enum ls_status same = ls__fail_again(&kept);
    (void)same;
}

static void tell_loss(const struct trainer *t, enum ls_status status)
{
    const struct ls_control *control = t->own.control;
    if (!t->comm || (status != LS_REMOTE && status != LS_TIMEOUT) || !ls_comm_may_tell(t->comm)) return;
    if (control && control->on_loss) control->on_loss(control->context, ls_error_message());
}

enum ls_status ls__trainer_close(struct trainer *t, enum ls_status status, bool *is_told_elsewhere)
{
    if (t->comm) status = ls_comm_end(t->comm, status);
    tell_loss(t, status);
    tell_end(t, status);
    *is_told_elsewhere = t->comm && status != LS_OK && !ls_comm_may_tell(t->comm);
    ls_loader_destroy(&t->loader);
    ls__carry_close(&t->carry);
    ls_ckpt_close(&t->resumed);
    ls__ranks_close(t);
    ls__observe_close(t, status); /* reads names of ops, which the plans of sync and session have */
    t->sync.outcome = status;
    ls__sync_close(&t->sync);
    ls__observe_merge_workers(t);
    ls_ckpt_writer_destroy(&t->writer);
    ls__rescue_close(&t->rescue);
    if (status != LS_OK && !t->is_set_up) ls__run_abandon(&t->run);
    ls__run_close(&t->run);
    ls__session_close(&t->s);
    ls_comm_close(&t->comm);
    ls__trace_destroy(&t->trace);
    ls__log_limit(t->told_before);
    return status;
}
