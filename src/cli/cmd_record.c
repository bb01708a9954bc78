/* cmd_record.c: `lockstep record`: what any program uses over time, as psrecord does it.
 *
 * In: a process that runs already, or a command to start. Out: --log, --plot (neither: stdout), and one line on stderr
 * at the end. The exit code is the command's own; for a process that was only watched it is 0.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/parse.h"
#include "cli/cmd.h"
#include "draw/draw.h"
#include "record/resources.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t is_stopped;

static void on_stop(int signal)
{
    is_stopped = signal;
}

static bool is_number(const char *text)
{
    return *text && text[strspn(text, "0123456789")] == '\0';
}

/* Whatever the command prints is its own; Ctrl-C reaches it by the terminal, and we stay to see its end. */
static enum ls_status start_command(const struct ls_options *o, pid_t *pid)
{
    char *shell[] = {"/bin/sh", "-c", (char *)o->args[0], NULL};
    char *const *argv = o->n_rest > 0 ? o->rest : shell;
    int go[2];
    if (pipe2(go, O_CLOEXEC) != 0) return ls_fail(LS_IO, "pipe: %s", strerror(errno));
    *pid = fork();
    if (*pid == 0) {
        signal(SIGPIPE, SIG_DFL);
        signal(SIGXFSZ, SIG_DFL);
        execvp(argv[0], argv);
        int error = errno;
        if (write(go[1], &error, sizeof error) < 0) _exit(126);
        _exit(127);
    }
    int error = *pid < 0 ? errno : 0;
    close(go[1]);
    if (*pid > 0 && read(go[0], &error, sizeof error) != sizeof error) error = 0;
    close(go[0]);
    if (error == 0) return LS_OK;
    if (*pid > 0) waitpid(*pid, NULL, 0);
    return ls_fail(LS_USAGE, "%s cannot be started: %s", argv[0], strerror(error));
}

static enum ls_status open_log(const struct ls_options *o, struct ls_resources_options *r)
{
    r->fd = -1;
    if (!o->log && !o->plot && (r->fd = dup(STDOUT_FILENO)) < 0)
        return ls_fail(LS_IO, "standard output: %s", strerror(errno));
    return o->log ? ls__file_open_log(o->log, &r->fd, LS_IO) : LS_OK;
}

/* Until the process ends, --duration is over or a signal comes. *wait_status: of our own child, -1 while it runs. A
 * sample may find it ended before we look. */
static void watch(const struct ls_options *o, const struct ls_resources *r, pid_t child, int *wait_status)
{
    const struct timespec nap = {.tv_nsec = 20 * 1000000};
    int64_t start = ls__now_ns();
    int status;
    *wait_status = -1;
    while (!ls__resources_is_over(r)) {
        if (child > 0 && waitpid(child, &status, WNOHANG) == child) {
            *wait_status = status;
            return;
        }
        if (o->duration > 0 && ls__seconds_since(start) >= o->duration) return;
        if (is_stopped && child == 0) return;
        if (is_stopped == SIGTERM) { /* Ctrl-C has reached a command of ours too, and it decides; this has not */
            kill(child, SIGTERM);
            is_stopped = 0;
        }
        nanosleep(&nap, NULL);
    }
    if (child > 0 && waitpid(child, &status, 0) == child) *wait_status = status;
}

static void tell(struct ls_resources *r, const char *log)
{
    char memory[LS_TEXT_BYTES];
    struct ls_resources_peak p = ls__resources_peak(r);
    ls__log(LS_LOG_INFO, "%.1f s, CPU %.0f %% on average and %.0f %% at most, memory %s at most%s%s", p.seconds,
            p.cpu_percent_mean, p.cpu_percent_max, ls__bytes_text((double)p.rss_bytes, memory), log ? "; log in " : "",
            log ? log : "");
}

/* CPU above, memory below, over the same seconds. */
static enum ls_status draw(const char *path, const char *title, const struct ls_resources_point *points, size_t n)
{
    double *x = calloc(3 * n + 1, sizeof *x), *cpu = x ? x + n : NULL, *real = x ? x + 2 * n : NULL;
    if (!x) return ls_fail(LS_NOMEM, "out of memory while drawing %s", path);
    for (size_t i = 0; i < n; i++) {
        x[i] = points[i].seconds;
        cpu[i] = points[i].cpu_percent / 100;
        real[i] = points[i].real_mb * 1024 * 1024;
    }
    const struct ls_draw_series series[] = {{.n = n, .x = x, .y = cpu, .colour = 1},
                                            {.n = n, .x = x, .y = real, .colour = 2}};
    const struct ls_draw_panel panels[] = {{.title = "CPU, of one core",
                                            .x = {.unit = LS_DRAW_SECONDS, .label = "time", .has_zero = true},
                                            .y = {.unit = LS_DRAW_PERCENT, .has_zero = true},
                                            .series = &series[0],
                                            .n_series = 1},
                                           {.title = "Real memory",
                                            .x = {.unit = LS_DRAW_SECONDS, .label = "time", .has_zero = true},
                                            .y = {.unit = LS_DRAW_BYTES, .has_zero = true},
                                            .series = &series[1],
                                            .n_series = 1}};
    enum ls_status status =
        ls_draw_write(&(struct ls_draw_picture){.title = title, .panels = panels, .n_panels = 2}, path);
    free(x);
    return status;
}

static enum ls_status draw_plot(const struct ls_options *o, struct ls_resources *r)
{
    const struct ls_resources_point *points;
    char title[256] = "";
    size_t at = 0;
    if (!o->plot) return LS_OK;
    size_t n = ls__resources_points(r, &points);
    if (o->n_rest == 0) snprintf(title, sizeof title, "%s%s", is_number(o->args[0]) ? "process " : "", o->args[0]);
    for (int i = 0; i < o->n_rest && at < sizeof title; i++)
        at += (size_t)snprintf(title + at, sizeof title - at, "%s%s", i ? " " : "", o->rest[i]);
    return draw(o->plot, title, points, n);
}

/* A command that is left behind (--duration) goes on; its exit code is not known. */
static int exit_code_of(int wait_status)
{
    if (wait_status == -1) return 0;
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

enum ls_status ls__cmd_record(const struct ls_options *o, int *exit_code)
{
    struct ls_resources_options ro = {.with_children = o->include_children,
                                      .with_io = o->include_io,
                                      .interval = o->interval,
                                      .keeps_points = o->plot != NULL,
                                      .form =
                                          strcmp(o->log_format, "csv") == 0 ? LS_RESOURCES_PSCSV : LS_RESOURCES_PLAIN};
    struct ls_resources *r;
    pid_t child = 0;
    int wait_status;
    if (o->n_rest == 0 && o->n_args == 0)
        return ls_fail(LS_USAGE, "record what? lockstep record PID, or lockstep record -- COMMAND ARGUMENTS");
    if (o->n_rest > 0 && o->n_args > 0)
        return ls_fail(LS_USAGE, "'%s' stands before --: give a process or a command, not both", o->args[0]);
    int64_t pid = 0;
    bool is_pid = o->n_rest == 0 && is_number(o->args[0]);
    if (is_pid && (!ls__parse_i64(o->args[0], 1, INT32_MAX, &pid) || (kill((pid_t)pid, 0) != 0 && errno == ESRCH)))
        return ls_fail(LS_USAGE, "there is no process %s", o->args[0]);
    if (o->plot) TRY(ls_draw_can_write(o->plot)); /* before anything runs */
    TRY(open_log(o, &ro));
    if (is_pid)
        ro.pid = (pid_t)pid;
    else
        TRY(start_command(o, &child));
    if (child > 0) ro.pid = child;
    signal(SIGINT, on_stop);
    signal(SIGTERM, on_stop);
    TRY(ls__resources_open(&r, &ro));
    watch(o, r, child, &wait_status);
    tell(r, o->log);
    enum ls_status status = draw_plot(o, r);
    ls__resources_close(&r);
    *exit_code = exit_code_of(wait_status);
    return status;
}
