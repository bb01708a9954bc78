/* crew.c: see crew.h. A thread of its own starts the workers, waits for their ends and starts them again: they are told
 * by the system when that thread is gone, so that none outlives a server that was killed.
 */
#include "cli/crew.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "cli/crew_place.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_ENV = 4096, PATIENCE_S = 20 };

enum state { COMING, HERE, GONE };

/* The thread's, but for the state. */
struct worker {
    pid_t pid; /* 0: not running */
    int hold;  /* our end of its standard input, or -1 */
    int64_t started_ns;
    atomic_int state; /* whether the server has seen it */
};

struct ls_crew {
    struct ls_places places;
    struct ls_elastic elastic;
    int n_workers, n;       /* n: with the other servers, which come behind them */
    struct worker *workers; /* [n] */
    int64_t restarts_left;
    pthread_t thread;
    bool is_started;
    int64_t asked_ns;    /* since when the server waits for nodes that others start; its thread's */
    atomic_int n_joined; /* workers, ever */
    atomic_bool is_over; /* the training has ended: their ends are no news */
    atomic_bool is_server_lost;
    atomic_bool is_hopeless; /* all workers are gone, or another server, and none will be started again */
};

/* --- one worker --- */

/* Everything is made before the fork: between it and exec a process of several threads may do little. */
static void become(char *const *argv, char *const *env, int input, pid_t server)
{
    sigset_t none;
    setpgid(0, 0); /* Ctrl-C is the server's, who lets them finish */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != server) _exit(1);
    if (input >= 0) dup2(input, STDIN_FILENO);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvpe(argv[0], argv, env);
    _exit(127);
}

static void let_go(struct ls_crew *c, int slot)
{
    if (c->workers[slot].hold >= 0) close(c->workers[slot].hold);
    c->workers[slot].hold = -1;
}

/* Its standard input, with its key in it. */
static enum ls_status make_input(struct ls_crew *c, int slot, int *input)
{
    const struct ls_places *p = &c->places;
    int ends[2];
    *input = -1;
    let_go(c, slot);
    if (p->worker_key_bytes == 0) return LS_OK;
    if (pipe2(ends, O_CLOEXEC) != 0) return ls_fail(LS_IO, "a pipe for a worker: %s", strerror(errno));
    *input = ends[0];
    c->workers[slot].hold = ends[1];
    const char *key = slot < c->n_workers ? p->worker_key : p->server_key;
    const size_t bytes = slot < c->n_workers ? p->worker_key_bytes : p->server_key_bytes;
    if (write(ends[1], key, bytes) == (ssize_t)bytes) return LS_OK;
    close(*input);
    *input = -1;
    return ls_fail(LS_IO, "hand a worker its key: %s", strerror(errno));
}

extern char **environ;

static enum ls_status start(struct ls_crew *c, int slot)
{
    char ticket[64], place[LS_SLOT_TEXT + 32], text[LS_SLOT_TEXT], *env[MAX_ENV + 3];
    struct ls_words words = {0};
    int n = 0, input;
    ls__places_slot(&c->places, slot, text);
    snprintf(ticket, sizeof ticket, "%s=%s", ls__ticket_variable, c->places.ticket);
    snprintf(place, sizeof place, "%s=%s", ls__slot_variable, text);
    for (char **e = environ; *e && n < MAX_ENV; e++) env[n++] = *e;
    env[n++] = ticket;
    env[n++] = place;
    env[n] = NULL;
    TRY(make_input(c, slot, &input));
    ls__places_command(&c->places, slot, &words);
    enum ls_status status = words.status;
    const pid_t server = getpid(), pid = status == LS_OK ? fork() : -1;
    if (pid == 0) become(words.argv, env, input, server);
    if (status == LS_OK && pid < 0) status = ls_fail(LS_IO, "start a worker: %s", strerror(errno));
    c->workers[slot].pid = pid > 0 ? pid : 0;
    c->workers[slot].started_ns = ls__now_ns();
    atomic_store(&c->workers[slot].state, COMING);
    if (input >= 0) close(input);
    ls__words_release(&words);
    return status;
}

/* --- all of them --- */

static int n_running(const struct ls_crew *c, int end)
{
    int n = 0;
    for (int i = 0; i < end; i++) n += c->workers[i].pid != 0;
    return n;
}

static void describe_end(int status, char *out, size_t size)
{
    if (WIFSIGNALED(status))
        snprintf(out, size, "was ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(out, size, "ended with exit code %d", WEXITSTATUS(status));
}

/* Why a worker ended is not asked: only a training that has ended ends them for good. */
static void on_end(struct ls_crew *c, int slot, int status)
{
    char end[128], where[80], advice[LS_PATH_BYTES] = "";
    const pid_t pid = c->workers[slot].pid;
    c->workers[slot].pid = 0;
    const bool was_here = atomic_exchange(&c->workers[slot].state, GONE) == HERE;
    let_go(c, slot);
    if (atomic_load(&c->is_over)) return;
    if (slot >= c->n_workers) { /* the training ends, and says why */
        atomic_store(&c->is_server_lost, true);
        atomic_store(&c->is_hopeless, true);
    }
    if (atomic_load(&c->is_server_lost)) return;
    /* It left, it is over, or a value was not finite: the server knows. */
    const bool is_told = WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 5);
    describe_end(status, end, sizeof end);
    ls__places_name(&c->places, slot, where, sizeof where);
    if (WIFEXITED(status) && !was_here) ls__places_advise(&c->places, slot, WEXITSTATUS(status), advice, sizeof advice);
    const bool is_again = !is_told && c->restarts_left > 0 && (WIFSIGNALED(status) || WEXITSTATUS(status) != 2);
    if (!is_told)
        ls__log(LS_LOG_WARN, "worker process %d%s (pid %d) %s%s; %s", slot, where, (int)pid, end, advice,
                is_again ? "started again" : "the others go on");
    if (is_again) c->restarts_left--;
    if (is_again && start(c, slot) != LS_OK) ls__log(LS_LOG_WARN, "%s", ls_error_message());
    if (n_running(c, c->n_workers) == 0) atomic_store(&c->is_hopeless, true);
}

/* Servers first: with one of them the workers end. */
static void look_for_ends(struct ls_crew *c)
{
    for (int i = c->n - 1; i >= 0; i--) {
        int status;
        if (c->workers[i].pid && waitpid(c->workers[i].pid, &status, WNOHANG) == c->workers[i].pid)
            on_end(c, i, status);
    }
}

static void send(struct ls_crew *c, int slot, int number)
{
    if (c->workers[slot].pid) kill(c->workers[slot].pid, number);
    if (number != SIGCONT) let_go(c, slot);
}

static void nap(void)
{
    nanosleep(&(const struct timespec){.tv_nsec = 20000000}, NULL);
}

/* They have heard that it is over; who does not go is sent away. */
static void await_ends(struct ls_crew *c)
{
    const int64_t began = ls__now_ns();
    const int asks[] = {SIGCONT, SIGTERM, SIGKILL};
    const double after[] = {1, 5, 15};
    for (int i = 0; i < c->n; i++)
        if (atomic_load(&c->workers[i].state) != HERE) send(c, i, SIGTERM); /* nobody has told it */
    for (int sent = 0; n_running(c, c->n) > 0; nap()) {
        look_for_ends(c);
        if (sent == 3 || ls__seconds_since(began) < after[sent]) continue;
        for (int i = 0; i < c->n; i++) send(c, i, asks[sent]);
        sent++;
    }
}

/* They may still come. */
static void tell_late(struct ls_crew *c)
{
    const double timeout = c->places.o->train.timeout, patience = timeout < PATIENCE_S ? timeout : PATIENCE_S;
    for (int i = 0; i < c->n_workers; i++) {
        int state = COMING;
        char where[80];
        if (ls__seconds_since(c->workers[i].started_ns) < patience ||
            !atomic_compare_exchange_strong(&c->workers[i].state, &state, GONE))
            continue;
        ls__places_name(&c->places, i, where, sizeof where);
        ls__log(LS_LOG_WARN, "worker process %d%s has not come within %g s; the others go on", i, where, patience);
    }
}

static void *watch(void *arg)
{
    struct ls_crew *c = arg;
    for (int i = 0; i < c->n; i++) {
        if (start(c, i) == LS_OK) continue;
        ls__log(LS_LOG_ERROR, "%s", ls_error_message());
        atomic_store(&c->workers[i].state, GONE);
    }
    if (n_running(c, c->n_workers) == 0) atomic_store(&c->is_hopeless, true);
    for (; !atomic_load(&c->is_over); nap()) {
        look_for_ends(c);
        tell_late(c);
    }
    await_ends(c);
    return NULL;
}

static void on_listening(void *context, const char *address)
{
    struct ls_crew *c = context;
    snprintf(c->places.address, sizeof c->places.address, "%s", address);
    if (ls__thread_start(&c->thread, "the thread that starts workers", watch, c) != LS_OK) {
        ls__log(LS_LOG_ERROR, "%s", ls_error_message());
        atomic_store(&c->is_hopeless, true);
        for (int i = 0; i < c->n; i++) atomic_store(&c->workers[i].state, GONE);
        return;
    }
    c->is_started = true;
}

static bool is_hopeless(void *context)
{
    const struct ls_crew *c = context;
    return c->places.o->served_nodes == 0 && atomic_load(&c->is_hopeless); /* nodes may come from anywhere */
}

/* Workers. For the other servers the first step waits anyway. */
static bool is_coming(void *context)
{
    struct ls_crew *c = context;
    for (int i = 0; i < c->n_workers; i++)
        if (atomic_load(&c->workers[i].state) == COMING) return true;
    const int n_missing = (int)c->places.o->served_nodes - atomic_load(&c->n_joined);
    if (n_missing <= 0) return false;
    if (!c->asked_ns) {
        c->asked_ns = ls__now_ns();
        ls__log(LS_LOG_INFO, "waiting for %d more node%s at %s", n_missing, n_missing == 1 ? "" : "s",
                c->places.address);
    }
    if (ls__seconds_since(c->asked_ns) < c->places.o->train.timeout) return true;
    ls__log(LS_LOG_WARN, "%d of %d nodes have not come within %g s (--timeout); the others go on", n_missing,
            (int)c->places.o->served_nodes, c->places.o->train.timeout);
    return false;
}

static void on_joined(void *context, int slot)
{
    struct ls_crew *c = context;
    if (slot < c->n_workers) atomic_fetch_add(&c->n_joined, 1);
    if (slot >= 0 && slot < c->n) atomic_store(&c->workers[slot].state, HERE);
}

static enum ls_status build(struct ls_crew *c, const struct ls_options *o)
{
    TRY(ls__places_open(&c->places, o));
    c->elastic = (struct ls_elastic){.listen = c->places.listen,
                                     .key = c->places.key,
                                     .ticket = c->places.key || !c->places.ticket[0] ? NULL : c->places.ticket,
                                     .context = c,
                                     .on_listening = on_listening,
                                     .is_hopeless = is_hopeless,
                                     .is_coming = is_coming,
                                     .on_joined = on_joined,
                                     .is_apart = o->nodes > 1 || c->places.nodes.n > 0};
    const int n = c->places.n + c->places.n_keepers;
    TRY(ls__calloc(&c->workers, (size_t)n, sizeof *c->workers));
    for (int i = 0; i < n; i++) c->workers[i].hold = -1;
    c->n_workers = c->places.n;
    c->n = n;
    return LS_OK;
}

enum ls_status ls__crew_create(struct ls_crew **out, const struct ls_options *o)
{
    TRY(ls__calloc(out, 1, sizeof **out));
    (*out)->restarts_left = o->max_restarts;
    enum ls_status status = build(*out, o);
    if (status != LS_OK) ls__crew_destroy(out);
    return status;
}

const struct ls_elastic *ls__crew_elastic(const struct ls_crew *c)
{
    return &c->elastic;
}

/* This process cannot leave its node and enter it again. */
int64_t ls__crew_restarts_after_server(const struct ls_crew *c)
{
    const int64_t began = ls__now_ns();
    while (c->n > c->n_workers && !atomic_load(&c->is_server_lost) && ls__seconds_since(began) < 1) nap();
    return atomic_load(&c->is_server_lost) && c->places.nodes.n == 0 ? c->restarts_left : -1;
}

void ls__crew_destroy(struct ls_crew **crew)
{
    struct ls_crew *c = *crew;
    if (!c) return;
    atomic_store(&c->is_over, true);
    if (c->is_started) pthread_join(c->thread, NULL);
    for (int i = 0; i < c->n; i++) let_go(c, i);
    ls__places_close(&c->places);
    free(c->workers);
    free(c);
    *crew = NULL;
}
