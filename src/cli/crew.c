/* crew.c: see crew.h. A thread of its own starts the workers, waits for their ends and starts them again: they are told
 * by the system when that thread is gone, so that none outlives a server that was killed.
 */
#include "cli/crew.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "cli/cmd.h"
#include "cli/signals.h"
#include "elastic/worker.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TICKET_BYTES = 33, MAX_ENV = 4096 };
static const char ticket_variable[] = "LOCKSTEP_TICKET", slot_variable[] = "LOCKSTEP_SLOT";

struct ls_crew {
    const struct ls_options *o;
    struct ls_elastic elastic;
    char ticket[TICKET_BYTES], exe[LS_PATH_BYTES], address[128];
    int n;
    pid_t *pids; /* [n] 0: not running; the thread's */
    int64_t restarts_left;
    pthread_t thread;
    bool is_started;
    atomic_bool is_over;     /* the training has ended: their ends are no news */
    atomic_bool is_hopeless; /* all are gone, and none will be started again */
};

/* --- one worker --- */

static void build_command(const struct ls_crew *c, struct ls_words *w)
{
    char text[64];
    const struct ls_train_options *t = &c->o->train;
    ls__words_add(w, c->exe);
    ls__words_add(w, "train");
    ls__words_add_option(w, "server", c->address);
    ls__words_add(w, "--quiet");
    if (t->data_dir) ls__words_add_option(w, "data-dir", t->data_dir);
    if (t->tune) ls__words_add_option(w, "tune", t->tune);
    snprintf(text, sizeof text, "%.17g", t->timeout);
    ls__words_add_option(w, "timeout", text);
    snprintf(text, sizeof text, "%lld", (long long)t->threads);
    if (t->threads > 0) ls__words_add_option(w, "threads", text);
}

/* Everything is made before the fork: between it and exec a process of several threads may do little. */
static void become(char *const *argv, char *const *env, pid_t server)
{
    sigset_t none;
    setpgid(0, 0); /* Ctrl-C is the server's, who lets them finish */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != server) _exit(1);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(argv[0], argv, env);
    _exit(127);
}

extern char **environ;

static enum ls_status start(struct ls_crew *c, int slot)
{
    char ticket[64], place[64], *env[MAX_ENV + 3];
    struct ls_words words = {0};
    int n = 0;
    snprintf(ticket, sizeof ticket, "%s=%s", ticket_variable, c->ticket);
    snprintf(place, sizeof place, "%s=%d/%d", slot_variable, slot, c->n);
    for (char **e = environ; *e && n < MAX_ENV; e++) env[n++] = *e;
    env[n++] = ticket;
    env[n++] = place;
    env[n] = NULL;
    build_command(c, &words);
    enum ls_status status = words.status;
    const pid_t server = getpid(), pid = status == LS_OK ? fork() : -1;
    if (pid == 0) become(words.argv, env, server);
    if (status == LS_OK && pid < 0) status = ls_fail(LS_IO, "start a worker: %s", strerror(errno));
    c->pids[slot] = pid > 0 ? pid : 0;
    ls__words_release(&words);
    return status;
}

/* --- all of them --- */

static int n_running(const struct ls_crew *c)
{
    int n = 0;
    for (int i = 0; i < c->n; i++) n += c->pids[i] != 0;
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
    char end[128];
    const pid_t pid = c->pids[slot];
    c->pids[slot] = 0;
    if (atomic_load(&c->is_over)) return;
    /* It left, it is over, or a value was not finite: the server knows. */
    const bool is_told = WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 5);
    describe_end(status, end, sizeof end);
    const bool is_again = !is_told && c->restarts_left > 0 && (WIFSIGNALED(status) || WEXITSTATUS(status) != 2);
    if (!is_told)
        ls__log(LS_LOG_WARN, "worker process %d (pid %d) %s; %s", slot, (int)pid, end,
                is_again ? "started again" : "the others go on");
    if (is_again) c->restarts_left--;
    if (is_again && start(c, slot) != LS_OK) ls__log(LS_LOG_WARN, "%s", ls_error_message());
    if (n_running(c) == 0) atomic_store(&c->is_hopeless, true);
}

static void look_for_ends(struct ls_crew *c)
{
    for (int i = 0; i < c->n; i++) {
        int status;
        if (c->pids[i] && waitpid(c->pids[i], &status, WNOHANG) == c->pids[i]) on_end(c, i, status);
    }
}

static void send_all(const struct ls_crew *c, int number)
{
    for (int i = 0; i < c->n; i++)
        if (c->pids[i]) kill(c->pids[i], number);
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
    for (int sent = 0; n_running(c) > 0; nap()) {
        look_for_ends(c);
        if (sent == 3 || ls__seconds_since(began) < after[sent]) continue;
        send_all(c, asks[sent++]);
    }
}

static void *watch(void *arg)
{
    struct ls_crew *c = arg;
    for (int i = 0; i < c->n; i++)
        if (start(c, i) != LS_OK) ls__log(LS_LOG_ERROR, "%s", ls_error_message());
    if (n_running(c) == 0) atomic_store(&c->is_hopeless, true);
    for (; !atomic_load(&c->is_over); nap()) look_for_ends(c);
    await_ends(c);
    return NULL;
}

static void on_listening(void *context, const char *address)
{
    struct ls_crew *c = context;
    snprintf(c->address, sizeof c->address, "%s", address);
    if (ls__thread_start(&c->thread, "the thread that starts workers", watch, c) != LS_OK) {
        ls__log(LS_LOG_ERROR, "%s", ls_error_message());
        atomic_store(&c->is_hopeless, true);
        return;
    }
    c->is_started = true;
}

static bool is_hopeless(void *context)
{
    const struct ls_crew *c = context;
    return atomic_load(&c->is_hopeless);
}

static enum ls_status make_ticket(char out[TICKET_BYTES])
{
    unsigned char random[(TICKET_BYTES - 1) / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return ls_fail(LS_IO, "no random number for the workers' ticket: %s", strerror(errno));
    for (size_t i = 0; i < sizeof random; i++) snprintf(out + 2 * i, 3, "%02x", random[i]);
    return LS_OK;
}

static enum ls_status build(struct ls_crew *c)
{
    const ssize_t n = readlink("/proc/self/exe", c->exe, sizeof c->exe - 1);
    if (n <= 0) return ls_fail(LS_IO, "/proc/self/exe: %s", strerror(errno));
    c->exe[n] = '\0';
    TRY(make_ticket(c->ticket));
    return ls__calloc(&c->pids, (size_t)c->n, sizeof *c->pids);
}

enum ls_status ls__crew_create(struct ls_crew **out, const struct ls_options *o)
{
    TRY(ls__calloc(out, 1, sizeof **out));
    struct ls_crew *c = *out;
    c->o = o;
    c->n = o->train.workers > 0 ? (int)o->train.workers : 1;
    c->restarts_left = o->max_restarts;
    c->elastic = (struct ls_elastic){.listen = "127.0.0.1:0",
                                     .ticket = c->ticket,
                                     .context = c,
                                     .on_listening = on_listening,
                                     .is_hopeless = is_hopeless};
    enum ls_status status = build(c);
    if (status != LS_OK) ls__crew_destroy(out);
    return status;
}

const struct ls_elastic *ls__crew_elastic(const struct ls_crew *c)
{
    return &c->elastic;
}

void ls__crew_destroy(struct ls_crew **crew)
{
    struct ls_crew *c = *crew;
    if (!c) return;
    atomic_store(&c->is_over, true);
    if (c->is_started) pthread_join(c->thread, NULL);
    free(c->pids);
    free(c);
    *crew = NULL;
}

/* --- in a worker --- */

static bool find_place(int *slot, int *n)
{
    const char *text = getenv(slot_variable);
    return text && sscanf(text, "%d/%d", slot, n) == 2 && *slot >= 0 && *slot < *n;
}

int ls__crew_slot(void)
{
    int slot, n;
    return find_place(&slot, &n) ? slot : -1;
}

void ls__crew_take_cores(int64_t *threads)
{
    int slot, n;
    cpu_set_t allowed, own;
    if (!find_place(&slot, &n) || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    const int n_cores = CPU_COUNT(&allowed);
    if (*threads <= 0) *threads = n_cores / n > 0 ? n_cores / n : 1;
    if (*threads * n > n_cores) return;
    CPU_ZERO(&own);
    for (int cpu = 0, at = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed)) continue;
        if (at >= slot * *threads && at < (slot + 1) * *threads) CPU_SET(cpu, &own);
        at++;
    }
    sched_setaffinity(0, sizeof own, &own); /* a wish */
}

enum ls_status ls__cmd_worker(const struct ls_options *o)
{
    struct ls_worker_options w = {.address = o->server,
                                  .key = o->key,
                                  .ticket = getenv(ticket_variable),
                                  .slot = ls__crew_slot(),
                                  .own = o->train};
    w.own.control = &ls__signals_control;
    ls__crew_take_cores(&w.own.threads);
    bool is_told;
    enum ls_status status = ls__worker_run(&w, &is_told);
    if (is_told && w.slot >= 0) ls__log_set_level(LS_LOG_NOTHING); /* the server says it on the same terminal */
    return status;
}
