/* launch_watch.c: one attempt: starts mpirun, hands signals on, and sees to it that everything ends.
 *
 * In: mpirun's command line. Out: what the workers said, and how mpirun ended. When it returns, no process of the job
 * is left on this machine, whoever was killed: the launcher is the subreaper, so that orphans come to it.
 *
 * Waits have an end: workers have --timeout and START_S to come; mpirun has LINGER_S to end after the last of them
 * (when a host has vanished it would wait until TCP gives up, a quarter of an hour) and END_S once it has been told to.
 *
 * Signals are kept until all workers have their handlers in place, also from one attempt to the next: none is lost, and
 * none kills a process that is not ready for it.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/launch_impl.h"
#include "cli/launch_output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START_S = 10, LINGER_S = 10, END_S = 3, UNREPORTED_S = 30, POLL_MS = 20, LOOK_NS = 500000000 };
enum { FIRST_WORKER = 2 }; /* among what is watched */

/* --- signals --- */

static volatile sig_atomic_t n_stops, stop_signal, is_save_wanted;

static void on_stop(int number)
{
    n_stops = n_stops + 1;
    stop_signal = number;
}

/* A closing terminal sends it more than once, so the second means nothing. */
static void on_hang_up(int number)
{
    if (n_stops == 0) on_stop(number);
}

static void on_save(int number)
{
    is_save_wanted = 1;
}

void ls__launch_take_charge(void)
{
    struct sigaction stop = {.sa_handler = on_stop}, hang_up = {.sa_handler = on_hang_up};
    struct sigaction save = {.sa_handler = on_save}, before;
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) /* nohup's word counts */
        sigaction(SIGHUP, &hang_up, NULL);
    sigaction(SIGUSR1, &save, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* --- the processes of the job on this machine --- */

struct process {
    pid_t pid, parent, session;
};

static bool read_process(const char *pid, struct process *p)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%.16s/stat", pid);
    FILE *f = fopen(path, "r");
    if (!f) return false;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    const char *after = strrchr(text, ')'); /* "pid (name) state parent group session ..." */
    char state;
    *p = (struct process){.pid = (pid_t)strtol(pid, NULL, 10)};
    return after && sscanf(after + 1, " %c %d %*d %d", &state, &p->parent, &p->session) == 3 && state != 'Z';
}

static int by_pid(const void *a, const void *b)
{
    const struct process *x = a, *y = b;
    return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static bool is_below(pid_t root, const struct process *all, size_t n, const struct process *p)
{
    enum { DEEPEST = 64 }; /* the snapshot is not of one moment, so parents might go round */
    for (int depth = 0; p && depth < DEEPEST; depth++) {
        if (p->pid == root || p->parent == root) return true;
        p = bsearch(&(struct process){.pid = p->parent}, all, n, sizeof *all, by_pid);
    }
    return false;
}

/* By the file, not by its name: seen from another mount namespace, as a node's, a program has another name. */
static bool runs_program(pid_t pid)
{
    char path[64];
    struct stat its, ours;
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    return stat(path, &its) == 0 && stat("/proc/self/exe", &ours) == 0 && its.st_ino == ours.st_ino &&
           its.st_dev == ours.st_dev;
}

enum scope {
    WORKERS, /* what runs our program */
    EVERYONE /* and mpirun, its session and what is below it; not what was started on the way and outlives it, as ssh's
                shared connections do */
};

/* Sends a signal (0: none) to those of the job that are our descendants. Returns how many there are. */
static int signal_job(const struct launch *l, pid_t mpirun, enum scope scope, int signal)
{
    struct process *all = NULL;
    size_t n = 0;
    int n_found = 0;
    DIR *proc = opendir("/proc");
    if (!proc) return -1; /* then nothing is known */
    for (const struct dirent *d; (d = readdir(proc));) {
        if (d->d_name[0] < '1' || d->d_name[0] > '9') continue;
        if (n % 256 == 0 && ls__grow(&all, n, n + 256, sizeof *all) != LS_OK) break;
        n += read_process(d->d_name, &all[n]);
    }
    closedir(proc);
    if (n > 0) qsort(all, n, sizeof *all, by_pid);
    for (size_t i = 0; i < n; i++) {
        if (all[i].pid == getpid() || all[i].pid == l->nodes.cable || !is_below(getpid(), all, n, &all[i])) continue;
        bool is_others = all[i].session != mpirun && !is_below(mpirun, all, n, &all[i]);
        if ((scope == WORKERS || is_others) && !runs_program(all[i].pid)) continue;
        n_found++;
        if (signal) kill(all[i].pid, signal);
    }
    free(all);
    return n_found;
}

/* --- the start --- */

struct attempt {
    const struct launch *l;
    struct ls_outcome *outcome;
    struct ls_reports reports;
    pid_t mpirun;
    struct pollfd
        *watched;  /* [2 + n]: the pipes; then each worker of this machine, which can be read when it has ended */
    int errors[2]; /* a pipe: its stderr; both ends stay open, for the workers open the second one by themselves */
    struct ls_output output;
    int64_t start_ns, looked_ns, seen_ns, end_ns /* when it was told to end, or 0 */;
    bool were_there, is_stop_sent, is_death_seen, is_over;
};

/* A session of its own, so that the terminal's Ctrl-C reaches only the launcher; it ends when the launcher does. */
static void become(const struct attempt *a, char *const *argv, int failure)
{
    const struct launch *l = a->l;
    int code;
    setsid();
    if (l->is_alone && !ls__launch_enter_own_network()) _exit(1);
    if (l->nodes.n > 0 && ls__nodes_enter(&l->nodes, 0) != LS_OK) _exit(1);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* last, since it does not survive a change of credentials */
    if (ls__log_is_terminal()) setenv("LOCKSTEP_TERMINAL", "1", 1);
    setenv("HWLOC_HIDE_ERRORS", "2", 0); /* MPI looks for cores and networks, and complains where /sys is empty */
    if (l->is_alone) setenv("UCX_LOG_LEVEL", "fatal", 0);
    dup2(a->output.ends[1], STDOUT_FILENO);
    dup2(a->errors[1], STDERR_FILENO);
    execvp(argv[0], argv);
    code = errno;
    if (write(failure, &code, sizeof code) != sizeof code) _exit(126);
    _exit(127);
}

static enum ls_status start(struct attempt *a, char *const *argv)
{
    int failure[2], code = 0;
    if (pipe2(failure, O_CLOEXEC) != 0) return ls_fail(LS_ERROR, "start %s: %s", argv[0], strerror(errno));
    fflush(NULL);
    a->start_ns = a->looked_ns = a->seen_ns = ls__now_ns();
    a->mpirun = fork();
    if (a->mpirun == 0) become(a, argv, failure[1]);
    if (a->mpirun < 0) code = errno;
    close(failure[1]);
    while (a->mpirun > 0 && read(failure[0], &code, sizeof code) < 0 && errno == EINTR) continue;
    close(failure[0]);
    if (code == 0) return LS_OK;
    if (a->mpirun > 0) waitpid(a->mpirun, NULL, 0);
    return ls_fail(LS_ERROR, "start %s: %s", argv[0], strerror(code));
}

/* --- the watch --- */

/* Workers that have come are watched one by one: MPICH's mpirun kills all as soon as one dies, and no worker is left to
 * say which that was. */
static void watch_workers(struct attempt *a)
{
    char own[64] = "";
    gethostname(own, sizeof own - 1);
    for (int i = 0; i < a->reports.n; i++) {
        const struct ls_worker *w = &a->reports.workers[i];
        struct pollfd *p = &a->watched[FIRST_WORKER + i];
        if (p->events || !w->is_here || (strcmp(w->host, own) != 0 && a->l->nodes.n == 0)) continue;
        *p = (struct pollfd){.fd = (int)syscall(SYS_pidfd_open, (pid_t)w->pid, 0), .events = POLLIN};
    }
}

/* Who ended without a word. If several have by now, nobody knows who was first. */
static void note_dead(struct attempt *a)
{
    int n_dead = 0, dead = 0;
    for (int i = 0; i < a->reports.n; i++) {
        bool is_dead = a->watched[FIRST_WORKER + i].revents && a->reports.workers[i].code == LS_NO_CODE;
        n_dead += is_dead;
        if (is_dead) dead = i;
    }
    if (n_dead == 0 || a->is_death_seen || a->end_ns) return;
    a->is_death_seen = true;
    const struct ls_worker *w = &a->reports.workers[dead];
    if (n_dead == 1)
        snprintf(a->outcome->dead, sizeof a->outcome->dead, "rank %d on %s (pid %ld)", dead, w->host, w->pid);
}

/* Hands on what comes within the time; false when nothing has come. */
static bool relay(struct attempt *a, int wait_ms)
{
    char bytes[4096];
    ssize_t n = 0;
    if (poll(a->watched, FIRST_WORKER + (nfds_t)a->reports.n, wait_ms) <= 0) return false;
    ls__output_take(&a->output);
    while (poll(a->watched, 1, 0) > 0 && (n = read(a->errors[0], bytes, sizeof bytes)) > 0)
        ls__reports_take(&a->reports, bytes, (size_t)n);
    note_dead(a); /* after the words that came before the end */
    watch_workers(a);
    for (int i = 0; i < a->reports.n; i++) { /* once is enough */
        struct pollfd *p = &a->watched[FIRST_WORKER + i];
        if (!p->revents) continue;
        close(p->fd);
        *p = (struct pollfd){.fd = -1, .events = POLLIN};
    }
    return n > 0;
}

/* Of mpirun and of orphans. */
static void reap(struct attempt *a)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (pid != a->mpirun) continue;
        a->outcome->wait_status = status;
        a->is_over = true;
    }
}

/* The workers at once; mpirun gets a moment to clean up after itself. */
static void end_job(struct attempt *a)
{
    if (a->end_ns) return;
    a->end_ns = ls__now_ns();
    signal_job(a->l, a->mpirun, WORKERS, SIGKILL);
    signal_job(a->l, a->mpirun, EVERYONE, SIGTERM);
}

/* One worker that hears of it is enough, for the wish goes round with the next step. Those of this machine are told
 * directly: MPICH's mpirun hands on SIGUSR1 only, and SIGTERM both would take for themselves. False if nobody is there
 * to be told: the workers are gone, and the launcher has yet to see it. */
static bool tell_workers(struct attempt *a, int signal)
{
    const struct ls_worker *first = &a->reports.workers[0];
    char command[64];
    if (signal_job(a->l, a->mpirun, WORKERS, signal) > 0) return true;
    if (a->l->n_hosts == 0) return false;
    if (strcmp(a->l->mpi, "openmpi") == 0 || signal == SIGUSR1) return kill(a->mpirun, signal) == 0;
    if (!first->is_here) return false;
    snprintf(command, sizeof command, "kill -USR2 %ld", first->pid);
    ls__launch_run_on(a->l->hosts[0], command);
    return true;
}

static void hand_on_signals(struct attempt *a)
{
    bool is_silent = a->were_there && ls__seconds_since(a->start_ns) > UNREPORTED_S; /* reports go astray */
    bool is_ready = a->reports.n_here == a->reports.n || is_silent;
    if (n_stops > 1 && !a->end_ns) {
        a->outcome->stop_signal = stop_signal;
        end_job(a);
    }
    if (!is_ready || a->end_ns) return;
    if (n_stops > 0 && !a->is_stop_sent) a->is_stop_sent = tell_workers(a, SIGUSR2);
    if (is_save_wanted && tell_workers(a, SIGUSR1)) is_save_wanted = 0;
}

static void watch_clock(struct attempt *a)
{
    const struct ls_reports *r = &a->reports;
    if (a->end_ns) {
        if (ls__seconds_since(a->end_ns) > END_S) signal_job(a->l, a->mpirun, EVERYONE, SIGKILL);
        return;
    }
    if (ls__now_ns() - a->looked_ns < LOOK_NS) return;
    a->looked_ns = ls__now_ns();
    bool are_there = signal_job(a->l, a->mpirun, WORKERS, 0) != 0;
    a->were_there |= are_there;
    if (are_there || (!a->were_there && r->n_ended < r->n)) a->seen_ns = a->looked_ns;
    if (r->n_here < r->n && !(are_there && r->n_here == 0) &&
        ls__seconds_since(a->start_ns) > a->l->o->train.timeout + START_S) {
        a->outcome->is_late = true;
        end_job(a);
    } else if (ls__seconds_since(a->seen_ns) > LINGER_S) {
        ls__log(LS_LOG_WARN, "mpirun did not end %d s after the workers; ending it", LINGER_S);
        end_job(a);
    }
}

/* What mpirun left behind. If it ended by itself, workers may still be about to say why. */
static void end_rest(struct attempt *a)
{
    int64_t begin = ls__now_ns();
    bool is_patient = WIFEXITED(a->outcome->wait_status) && !a->end_ns;
    while (is_patient && signal_job(a->l, a->mpirun, WORKERS, 0) > 0 && ls__seconds_since(begin) < END_S) {
        relay(a, POLL_MS);
        reap(a);
    }
    while (signal_job(a->l, a->mpirun, EVERYONE, SIGKILL) > 0 && ls__seconds_since(begin) < LINGER_S) {
        relay(a, 2);
        reap(a);
    }
    while (relay(a, 0)) continue;
    reap(a);
}

static void conclude(struct attempt *a)
{
    const struct ls_reports *r = &a->reports;
    struct ls_outcome *o = a->outcome;
    size_t at = 0;
    o->code = ls__reports_outcome(r);
    o->is_told = r->is_told;
    o->n_here = r->n_here;
    for (int i = 0; i < r->n; i++) {
        const struct ls_worker *w = &r->workers[i];
        const char *host = a->l->n_hosts > 0 ? a->l->hosts[i / a->l->per_host] : NULL;
        if (o->is_late ? w->is_here : !w->is_here || w->code != LS_NO_CODE) continue;
        o->n_quiet += w->is_here;
        if (at > sizeof o->workers - 128) continue; /* enough of them */
        at += (size_t)snprintf(o->workers + at, sizeof o->workers - at, "%srank %d", at ? ", " : "", i);
        if (w->is_here)
            at += (size_t)snprintf(o->workers + at, sizeof o->workers - at, " on %.40s (pid %ld)", w->host, w->pid);
        else if (host)
            at += (size_t)snprintf(o->workers + at, sizeof o->workers - at, " on %.60s", host);
    }
}

static enum ls_status run(struct attempt *a, char *const *argv)
{
    TRY(start(a, argv));
    while (!a->is_over) {
        relay(a, POLL_MS);
        hand_on_signals(a);
        watch_clock(a);
        reap(a);
    }
    end_rest(a);
    conclude(a);
    return LS_OK;
}

static enum ls_status attempt(struct attempt *a, bool is_restart)
{
    struct ls_words command = {.status = LS_OK};
    int n = ls__launch_n_workers(a->l);
    if (pipe2(a->errors, O_CLOEXEC) != 0) return ls_fail(LS_ERROR, "make a pipe: %s", strerror(errno));
    TRY(ls__reports_open(&a->reports, n, a->l->has_options ? -1 : a->errors[1]));
    TRY(ls__output_open(&a->output));
    TRY(ls__calloc(&a->watched, FIRST_WORKER + (size_t)n, sizeof *a->watched));
    a->watched[0] = (struct pollfd){.fd = a->errors[0], .events = POLLIN};
    a->watched[1] = (struct pollfd){.fd = a->output.ends[0], .events = POLLIN};
    for (int i = 0; i < n; i++) a->watched[FIRST_WORKER + i].fd = -1;
    ls__launch_command(&command, a->l, is_restart); /* after the reports: it hands on the environment */
    enum ls_status status = command.status;
    if (status == LS_OK) status = run(a, command.argv);
    ls__words_release(&command);
    return status;
}

static enum ls_output_use use_of_output(const struct ls_outcome *o)
{
    if (o->code == 0 || o->code == ls_status_exit_code(LS_INTERRUPTED)) return LS_OUTPUT_RESULT;
    return o->n_here == 0 ? LS_OUTPUT_CAUSE : LS_OUTPUT_NOISE;
}

enum ls_status ls__launch_attempt(const struct launch *l, bool is_restart, struct ls_outcome *outcome)
{
    struct attempt a = {.l = l, .outcome = outcome, .errors = {-1, -1}, .output.ends = {-1, -1}};
    *outcome = (struct ls_outcome){.code = LS_NO_CODE};
    enum ls_status status = attempt(&a, is_restart);
    for (int i = 0; a.watched && i < a.reports.n; i++)
        if (a.watched[FIRST_WORKER + i].fd >= 0) close(a.watched[FIRST_WORKER + i].fd);
    ls__output_close(&a.output, use_of_output(outcome));
    free(a.watched);
    ls__reports_close(&a.reports);
    if (a.errors[0] >= 0) close(a.errors[0]);
    if (a.errors[1] >= 0) close(a.errors[1]);
    return status;
}
