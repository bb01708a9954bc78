/* signals.c: SIGINT, SIGTERM and SIGHUP ask the loop to stop after the step; a second SIGINT or SIGTERM ends the
 * process at once. SIGUSR1 asks for a checkpoint. The handlers only set flags, which
 * are the program's; the library sees them through ls__signals_control.
 */
#include "cli/signals.h"

#include "cli/launch_report.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t stop_signal, checkpoint_wanted, is_ended, launcher;

/* The launcher is gone, so mpirun ends everything: at once, since the next one may wait for the run directory. */
static bool is_orphaned(void)
{
    int before = errno;
    bool is_gone = launcher > 0 && kill((pid_t)launcher, 0) != 0 && errno == ESRCH;
    errno = before;
    return is_gone;
}

static void on_stop(int number)
{
    if (number == SIGTERM && is_orphaned()) _exit(128 + number);
    if (stop_signal) _exit(128 + number);
    stop_signal = number;
}

/* A closing terminal sends it more than once, so the second means nothing. */
static void on_hang_up(int number)
{
    if (!stop_signal) stop_signal = number;
}

static void on_checkpoint(int number)
{
    checkpoint_wanted = 1;
}

/* mpirun and srun begin to end a process with a SIGCONT of their own; a person's comes from elsewhere. */
static void on_continue(int number, siginfo_t *info, void *context)
{
    if (info->si_pid == getppid()) is_ended = 1;
}

/* LOCKSTEP_LAUNCH=TOKEN:PID:HOST:FD; 0 where it is another machine's. */
static int find_launcher(void)
{
    const char *text = getenv("LOCKSTEP_LAUNCH");
    char own[64] = "", host[64] = "";
    int pid = 0;
    gethostname(own, sizeof own - 1);
    if (!text || sscanf(text, "%*[^:]:%d:%63[^:]", &pid, host) != 2 || strcmp(own, host) != 0) return 0;
    return pid;
}

/* A handler must not run on the stack of a thread that computes: with it there, signals during a step of oneDNN 2.6's
 * kernels damaged the heap (one in some hundred signals; tests/e2e/signals.sh). The pool's other
 * threads take no signals at all (base/pool.c). */
static void use_own_stack(void)
{
    static char stack[64 << 10]; /* room for the largest set of registers, many times */
    sigaltstack(&(const stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
}

void ls__signals_install(void)
{
    enum { FLAGS = SA_RESTART | SA_ONSTACK };
    launcher = find_launcher();
    use_own_stack();
    struct sigaction stop = {.sa_handler = on_stop, .sa_flags = FLAGS};
    struct sigaction hang_up = {.sa_handler = on_hang_up, .sa_flags = FLAGS}, before;
    struct sigaction save = {.sa_handler = on_checkpoint, .sa_flags = FLAGS};
    struct sigaction go_on = {.sa_sigaction = on_continue, .sa_flags = FLAGS | SA_SIGINFO};
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGUSR2, &stop, NULL);                                           /* what the launcher's mpirun hands on */
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) /* nohup's word counts */
        sigaction(SIGHUP, &hang_up, NULL);
    sigaction(SIGUSR1, &save, NULL);
    sigaction(SIGCONT, &go_on, NULL);
}

static bool is_stop_wanted(void *context)
{
    return stop_signal != 0;
}

static bool is_end_wanted(void *context)
{
    return is_ended || stop_signal == SIGTERM;
}

static bool is_save_wanted(void *context)
{
    bool wanted = checkpoint_wanted;
    checkpoint_wanted = 0;
    return wanted;
}

static const char *stopped_by(void *context)
{
    return stop_signal == SIGINT    ? "SIGINT"
           : stop_signal == SIGTERM ? "SIGTERM"
           : stop_signal == SIGHUP  ? "SIGHUP"
                                    : "a signal";
}

static void on_loss(void *context, const char *message)
{
    ls__report_cause(message);
}

const struct ls_control ls__signals_control = {.is_stop_wanted = is_stop_wanted,
                                               .is_save_wanted = is_save_wanted,
                                               .is_end_wanted = is_end_wanted,
                                               .stopped_by = stopped_by,
                                               .on_loss = on_loss};
