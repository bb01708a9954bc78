/* launch.c: see launch.h. The outcome of a job, and whether to start it again. */
#include "cli/launch.h"

#include "base/json.h"
#include "base/log.h"
#include "base/quote.h"
#include "cli/launch_impl.h"
#include "cli/launch_state.h"
#include "comm/comm.h"
#include "settings/sync_names.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

bool ls__launch_is_wanted(enum ls_cmd cmd, const struct ls_options *o)
{
    const bool has_workers = cmd == LS_CMD_TRAIN && o->train.workers > 1;
    if (cmd == LS_CMD_TRAIN && ls__sync_is_served(o->train.sync)) return false; /* it starts its own */
    const bool has_hosts = o->hosts && cmd != LS_CMD_LAB;                       /* a lab's are for its runs */
    return !ls_comm_is_launched() && (has_workers || has_hosts);
}

/* --- what went wrong, where no worker could say it --- */

enum { CAUSE_BYTES = 512 };

static void describe_end(int wait_status, char *out, size_t size)
{
    if (WIFSIGNALED(wait_status))
        snprintf(out, size, "mpirun was ended by signal %d (%s)", WTERMSIG(wait_status),
                 strsignal(WTERMSIG(wait_status)));
    else
        snprintf(out, size, "mpirun ended with exit code %d", WEXITSTATUS(wait_status));
}

static void describe_no_start(const struct launch *l, const struct ls_outcome *o, const char *end,
                              char out[CAUSE_BYTES])
{
    const char *why = NULL, *unknown = ls__launch_unknown_host(l, &why), *agent = getenv("LOCKSTEP_RSH");
    char which[64] = "no worker";
    if (o->n_here > 0)
        snprintf(which, sizeof which, "%d of %d workers never", ls__launch_n_workers(l) - o->n_here,
                 ls__launch_n_workers(l));
    if (unknown)
        snprintf(out, CAUSE_BYTES, "%s started: host %s of --hosts has no address (%s); %s", which, unknown, why, end);
    else if (l->n_hosts > 0 && l->nodes.n == 0)
        snprintf(out, CAUSE_BYTES,
                 "%s started: %s; see whether `%s HOST true` works for every host, and whether %.200s is there", which,
                 end, agent && *agent ? agent : "ssh", l->exe);
    else
        snprintf(out, CAUSE_BYTES, "%s started: %s", which, end);
}

static void describe(const struct launch *l, const struct ls_outcome *o, char out[CAUSE_BYTES])
{
    char end[128];
    describe_end(o->wait_status, end, sizeof end);
    if (o->is_late)
        snprintf(out, CAUSE_BYTES, "%d of %d workers did not start within the timeout of %g s (and 10 s more): %s",
                 ls__launch_n_workers(l) - o->n_here, ls__launch_n_workers(l), l->o->train.timeout, o->workers);
    else if (o->n_here < ls__launch_n_workers(l))
        describe_no_start(l, o, end, out);
    else if (WIFSIGNALED(o->wait_status)) /* the workers die with it */
        snprintf(out, CAUSE_BYTES, "%s", end);
    else if (*o->dead)
        snprintf(out, CAUSE_BYTES, "%s died", o->dead);
    else if (o->n_quiet == 1)
        snprintf(out, CAUSE_BYTES, "%s was lost (%s)", o->workers, end);
    else
        snprintf(out, CAUSE_BYTES, "a worker was lost (%s)", end);
}

/* --- again after a loss --- */

/* Outcomes that another attempt would not change. */
static bool is_final(const struct ls_outcome *o)
{
    return o->stop_signal || (o->code != LS_NO_CODE && o->code != ls_status_exit_code(LS_REMOTE));
}

/* Whether a worker has said all there is to say. */
static bool is_told(const struct launch *l, const struct ls_outcome *o)
{
    return o->is_told && o->n_here == ls__launch_n_workers(l) && !WIFSIGNALED(o->wait_status);
}

static enum ls_status give_up(const struct launch *l, const struct ls_outcome *o, int64_t n_restarts, int *code)
{
    char cause[CAUSE_BYTES];
    *code = ls_status_exit_code(LS_REMOTE);
    if (n_restarts > 0) {
        ls__log(LS_LOG_ERROR, "the job was lost %lld times; giving up", (long long)n_restarts + 1);
        return LS_OK;
    }
    if (is_told(l, o)) return LS_OK;
    describe(l, o, cause);
    return ls_fail(LS_REMOTE, "%s%s", cause,
                   l->cmd == LS_CMD_TRAIN && o->n_here > 0 ? "; --max-restarts N goes on from the newest checkpoint"
                                                           : "");
}

static enum ls_status conclude(const struct launch *l, const struct ls_outcome *o, int *code)
{
    *code = o->stop_signal ? 128 + o->stop_signal : o->code;
    char run[LS_QUOTED_BYTES];
    if (o->stop_signal && l->cmd == LS_CMD_TRAIN)
        ls__log(LS_LOG_WARN,
                "stopped at once by a second signal; go on from the newest checkpoint with: lockstep train "
                "--resume %s",
                ls__quote_path(l->run_dir, run, sizeof run));
    return LS_OK;
}

static enum ls_status run_with_restarts(struct launch *l, int *code)
{
    for (int64_t attempt = 0;; attempt++) {
        struct ls_outcome outcome;
        char cause[CAUSE_BYTES] = "";
        TRY(ls__launch_attempt(l, attempt > 0, &outcome));
        if (is_final(&outcome)) return conclude(l, &outcome, code);
        if (attempt == l->o->max_restarts) return give_up(l, &outcome, attempt, code);
        if (!is_told(l, &outcome)) describe(l, &outcome, cause);
        ls__log(LS_LOG_WARN, "%s%sthe job was lost; restart %lld of %lld from the newest checkpoint in %s", cause,
                *cause ? ": " : "", (long long)attempt + 1, (long long)l->o->max_restarts, l->run_dir);
        TRY(ls__launch_drop_lost_hosts(l));
    }
}

void ls__launch_tell(const struct ls_options *o, bool has_network)
{
    char *text = NULL;
    if (ls__json_dump(json_pack("{s:o, s:I, s:I, s:o, s:I, s:o, s:b}", "hosts", ls__json_text(o->hosts),
                                "procs_per_node", (json_int_t)o->procs_per_node, "max_restarts",
                                (json_int_t)o->max_restarts, "mpi_args", ls__json_text(o->mpi_args), "nodes",
                                (json_int_t)o->nodes, "network", ls__json_text(o->network), "is_shaped", has_network),
                      LS_JSON_LINE, "the options of the launch", &text) == LS_OK)
        setenv("LOCKSTEP_LAUNCH_OPTIONS", text, 1); /* without it a resume has to be told again */
    free(text);
}

enum ls_status ls__launch(enum ls_cmd cmd, const struct ls_options *o, int *exit_code)
{
    struct launch l = {.o = o, .cmd = cmd};
    struct ls_state state = {.lock = -1};
    ls__launch_take_charge();
    enum ls_status status = ls__launch_prepare(&l);
    ls__launch_tell(o, l.nodes.n > 0);
    ls__state_remove_left();
    if (status == LS_OK && o->max_restarts > 0 && o->train.rescue_every > 0) ls__state_open(&state);
    if (status == LS_OK) status = run_with_restarts(&l, exit_code);
    if (state.lock >= 0) ls__launch_remove_remote(&l, state.folder);
    ls__state_close(&state);
    ls__launch_release(&l);
    return status;
}
