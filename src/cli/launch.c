/* launch.c: see launch.h. */
#include "cli/launch.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/launch_impl.h"
#include "lockstep/comm.h"
#include "run/run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

bool ls__launch_is_wanted(enum ls_cmd cmd, const struct ls_options *o)
{
    bool has_workers = cmd == LS_CMD_TRAIN && o->train.workers > 1;
    return !ls_comm_is_launched() && (has_workers || o->hosts);
}

/* --- one attempt --- */

static volatile sig_atomic_t child, n_stops;

/* The ranks stop after their step when they get SIGUSR2, which mpirun hands on; SIGTERM it would take itself. */
static void on_stop(int number)
{
    if (child > 0) kill(n_stops ? -child : child, n_stops ? SIGKILL : SIGUSR2);
    n_stops = n_stops + 1;
}

static void on_save(int number)
{
    if (child > 0) kill(child, SIGUSR1);
}

static void hand_on_signals(void)
{
    struct sigaction stop = {.sa_handler = on_stop}, save = {.sa_handler = on_save};
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGUSR1, &save, NULL);
}

/* A session of its own, so that the terminal's Ctrl-C reaches only the launcher; it ends when the launcher does. */
static void become(char *const *argv)
{
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (ls__log_is_terminal()) setenv("LOCKSTEP_TERMINAL", "1", 1);
    execvp(argv[0], argv);
    _exit(127);
}

static enum ls_status run_once(const struct launch *l, char *const *argv, int *code)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) return ls_fail(LS_ERROR, "start %s: %s", argv[0], strerror(errno));
    if (pid == 0) become(argv);
    child = pid;
    *code = ls__launch_wait(pid, l->exe);
    child = 0;
    return *code == 127 ? ls_fail(LS_ERROR, "start %s: not found", argv[0]) : LS_OK;
}

/* --- again after a loss --- */

/* Outcomes that another attempt would not change. */
static bool is_final(int code)
{
    return code <= ls_status_exit_code(LS_NONFINITE) || code == ls_status_exit_code(LS_INTERRUPTED);
}

/* Hosts that answer, in the same order. */
static enum ls_status drop_lost_hosts(struct launch *l)
{
    int n = 0;
    for (int i = 0; i < l->n_hosts; i++) {
        if (ls__launch_host_answers(l->hosts[i]))
            l->hosts[n++] = l->hosts[i];
        else
            ls__log(LS_LOG_WARN, "host %s does not answer: going on without it", l->hosts[i]);
    }
    if (l->n_hosts > 0 && n == 0) return ls_fail(LS_REMOTE, "no host answers any more");
    l->n_hosts = n;
    return LS_OK;
}

static enum ls_status run_with_restarts(struct launch *l, int *code)
{
    for (int64_t attempt = 0;; attempt++) {
        char **argv;
        TRY(ls__launch_command(l, attempt > 0, &argv));
        enum ls_status status = run_once(l, argv, code);
        ls__launch_command_free(argv);
        TRY(status);
        if (is_final(*code) || n_stops > 0) return LS_OK;
        if (attempt == l->o->max_restarts) {
            if (attempt > 0) ls__log(LS_LOG_ERROR, "the job was lost %lld times; giving up", (long long)attempt + 1);
            return LS_OK;
        }
        ls__log(LS_LOG_WARN, "the job was lost; restart %lld of %lld from the newest checkpoint in %s",
                (long long)attempt + 1, (long long)l->o->max_restarts, l->run_dir);
        TRY(drop_lost_hosts(l));
    }
}

/* A place in memory where the ranks leave copies of their state for the next attempt: train/rescue.h. */
static void open_rescue(const struct launch *l, char folder[64])
{
    *folder = '\0';
    if (l->o->max_restarts == 0 || l->o->train.rescue_every == 0) return;
    snprintf(folder, 64, "/dev/shm/lockstep-%ld-%lld", (long)getpid(), (long long)time(NULL));
    setenv("LOCKSTEP_RESCUE", folder, 1);
}

enum ls_status ls__launch(enum ls_cmd cmd, const struct ls_options *o, int *exit_code)
{
    char rescue[64];
    struct launch l = {.o = o, .cmd = cmd};
    enum ls_status status = ls__launch_prepare(&l);
    hand_on_signals();
    open_rescue(&l, rescue);
    if (status == LS_OK) status = run_with_restarts(&l, exit_code);
    if (*rescue) ls__launch_remove(&l, rescue);
    ls__launch_release(&l);
    if (status == LS_OK && !is_final(*exit_code)) {
        if (*exit_code != ls_status_exit_code(LS_REMOTE))
            ls__log(LS_LOG_ERROR, "a worker was lost (mpirun's exit code %d)%s", *exit_code,
                    o->max_restarts || cmd != LS_CMD_TRAIN ? ""
                                                           : "; --max-restarts N goes on from the newest checkpoint");
        *exit_code = ls_status_exit_code(LS_REMOTE);
    }
    return status;
}
