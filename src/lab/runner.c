/* runner.c: the jobs of a lab, one after another, each by a process of its own: its memory and its seconds are what
 * they would be alone, and one that fails takes no other with it.
 *
 * Signals are handed on to the training that runs; after one that stops it no other is begun, and the lab can go on
 * later. state.json is written before and after every job, so a lab that was killed goes on too: what has a result is
 * done, whatever state.json says.
 */
#include "base/clock.h"
#include "base/log.h"
#include "lab/run.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE_BYTES = 600, LOG_BYTES = 64 << 20, STOPPED_CODE = 75 };

/* --- signals --- */

static volatile sig_atomic_t child, last_signal;

static void hand_on(int number)
{
    if (number != SIGUSR1) last_signal = number;
    if (child > 0) kill((pid_t)child, number);
}

static void take_signals(void)
{
    const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    last_signal = 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction before;
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler == SIG_IGN) continue; /* nohup */
        sigaction(numbers[i], &(struct sigaction){.sa_handler = hand_on}, NULL);
    }
}

/* --- time --- */

const char *ls__lab_time_text(double seconds, char out[LS_LAB_TIME_BYTES])
{
    const double minutes = floor(seconds / 60 + 0.5), hours = floor(minutes / 60);
    if (!isfinite(seconds))
        snprintf(out, LS_LAB_TIME_BYTES, "not known");
    else if (seconds < 10)
        snprintf(out, LS_LAB_TIME_BYTES, "%.1f s", seconds);
    else if (seconds < 99.5)
        snprintf(out, LS_LAB_TIME_BYTES, "%.0f s", seconds);
    else if (minutes < 60)
        snprintf(out, LS_LAB_TIME_BYTES, "%.0f min", minutes);
    else
        snprintf(out, LS_LAB_TIME_BYTES, "%.0f h %.0f min", hours, minutes - 60 * hours);
    return out;
}

/* Of jobs that are done: what they took over what was predicted. 1 before any is. */
static double lateness(const struct ls_lab_state *state)
{
    double measured = 0, predicted = 0;
    for (int i = 0; i < state->n_jobs; i++) {
        const struct ls_lab_job *job = &state->jobs[i];
        if (job->state != LS_JOB_DONE || !isfinite(job->seconds) || !isfinite(job->predicted_seconds)) continue;
        measured += job->seconds;
        predicted += job->predicted_seconds;
    }
    return predicted > 0 ? measured / predicted : 1;
}

/* What another repeat took, or what was predicted, as far as predictions have been right. */
static double expect(const struct ls_lab_state *state, const struct ls_lab_job *job, double late)
{
    double sum = 0;
    int n = 0;
    for (int i = 0; i < state->n_jobs; i++) {
        const struct ls_lab_job *other = &state->jobs[i];
        if (other->run != job->run || other->state != LS_JOB_DONE || !isfinite(other->seconds)) continue;
        sum += other->seconds;
        n++;
    }
    return n > 0 ? sum / n : job->predicted_seconds * late;
}

double ls__lab_seconds_left(const struct ls_lab_state *state)
{
    const double late = lateness(state);
    double left = 0;
    for (int i = 0; i < state->n_jobs; i++) {
        const struct ls_lab_job *job = &state->jobs[i];
        if (job->state == LS_JOB_WAITING || job->state == LS_JOB_STOPPED) left += expect(state, job, late);
    }
    return left;
}

/* --- one job --- */

struct running {
    const struct ls_lab_folder *folder;
    const struct ls_lab *lab;
    struct ls_lab_state *state;
    const char *exe;
    int at; /* job that runs */
};

static void say_progress(const struct running *r, double elapsed, bool is_first)
{
    const struct ls_lab_job *job = &r->state->jobs[r->at];
    const struct ls_lab_run *run = &r->lab->runs[job->run];
    char left[LS_LAB_TIME_BYTES], line[256], repeat[48] = "";
    double seconds = ls__lab_seconds_left(r->state);
    const double own = expect(r->state, job, lateness(r->state));
    if (isfinite(seconds)) seconds -= fmin(elapsed, own);
    const int repeats = r->state->repeat ? r->state->repeat : run->repeats;
    if (repeats > 1) snprintf(repeat, sizeof repeat, ", repeat %d of %d", job->repeat, repeats);
    snprintf(line, sizeof line, "run %d of %d: %s%s; time left: %s", r->at + 1, r->state->n_jobs, run->name, repeat,
             ls__lab_time_text(seconds, left));
    if (ls__log_is_terminal())
        ls__log_progress(line);
    else if (is_first)
        ls__log(LS_LOG_INFO, "%s", line);
}

/* In the child. A group of its own: Ctrl-C reaches it through us, once. */
static void become(const char *const *words, int log)
{
    int null = open("/dev/null", O_RDWR);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (null >= 0) {
        dup2(null, 0);
        dup2(null, 1);
    }
    dup2(log, 2);
    execv(words[0], (char *const *)words);
    _exit(127);
}

/* Sleeps until a signal, SIGCHLD among them, or a moment. */
static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
}

static enum ls_status run_child(const struct running *r, const char *const *words, int log, int *code)
{
    int status = 0;
    const int64_t start = ls__now_ns();
    double told = 0;
    pid_t pid = fork();
    if (pid < 0) return ls_fail(LS_ERROR, "start a run: %s", strerror(errno));
    if (pid == 0) become(words, log);
    child = pid;
    if (last_signal) kill(pid, last_signal); /* it came before there was a child to tell */
    for (;;) {
        pid_t ended = waitpid(pid, &status, WNOHANG);
        if (ended == pid || (ended < 0 && errno != EINTR)) break;
        nap();
        const double elapsed = ls__seconds_since(start);
        if (elapsed - told < 1) continue;
        say_progress(r, elapsed, false);
        told = elapsed;
    }
    child = 0;
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return LS_OK;
}

/* The last line "lockstep: ..." that is no warning. */
static enum ls_status read_message(struct running *r, struct ls_lab_job *job, const char *log_name)
{
    static const char mark[] = "lockstep: ", warning[] = "lockstep: warning: ";
    char *text = NULL, message[MESSAGE_BYTES];
    size_t len;
    snprintf(message, sizeof message, "it ended with exit code %d; %s.log has what it said", job->exit_code, job->dir);
    if (ls__dir_read(&r->folder->runs, log_name, LOG_BYTES, &text, &len, LS_IO) == LS_OK)
        for (const char *line = text; *line;) {
            size_t n = strcspn(line, "\n");
            bool is_failure = strncmp(line, mark, strlen(mark)) == 0 && strncmp(line, warning, strlen(warning)) != 0;
            if (is_failure) snprintf(message, sizeof message, "%.*s", (int)(n - strlen(mark)), line + strlen(mark));
            line += n + (line[n] != '\0');
        }
    free(text);
    return ls__arena_text(&r->state->memory, &job->message, message, strlen(message));
}

static bool has_result(const char *dir)
{
    char path[LS_PATH_BYTES];
    return ls__path_join(path, sizeof path, dir, "result.json") == LS_OK && ls__file_exists(path);
}

/* A try more. Ticks of the clock can make the others' part of a short one less than nothing. */
static void add_time(struct ls_lab_job *job, double seconds, double others)
{
    const bool is_first = !isfinite(job->seconds);
    job->seconds = (is_first ? 0 : job->seconds) + seconds;
    job->others_seconds = (is_first ? 0 : job->others_seconds) + (others > 0 || isnan(others) ? others : 0);
}

static enum ls_status judge(struct running *r, struct ls_lab_job *job, const char *log_name)
{
    job->message = "";
    if (job->exit_code == 0) {
        job->state = LS_JOB_DONE;
        return LS_OK;
    }
    if (job->exit_code == STOPPED_CODE || last_signal) {
        job->state = LS_JOB_STOPPED;
        return LS_OK;
    }
    job->state = LS_JOB_FAILED;
    TRY(read_message(r, job, log_name));
    ls__log(LS_LOG_WARN, "run %s failed (exit code %d): %s", r->lab->runs[job->run].name, job->exit_code, job->message);
    return LS_OK;
}

/* The run directory and the log, below the lab's own folder and nowhere else. */
static enum ls_status open_log(const struct running *r, const char *run_name, const char *log_name, int *log)
{
    const struct ls_dir *runs = &r->folder->runs;
    struct stat st;
    if (fstatat(runs->fd, run_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode))
        return ls_fail(LS_CHECKPOINT, "%s/%s is not a folder, or is a link to one", runs->path, run_name);
    return ls__dir_open_file(runs, log_name, O_WRONLY | O_CREAT | O_APPEND, log, LS_CHECKPOINT);
}

static enum ls_status run_job(struct running *r)
{
    struct ls_lab_job *job = &r->state->jobs[r->at];
    char dir[LS_PATH_BYTES];
    const char **words;
    const char *run_name = job->dir + strlen("runs/");
    const char *log_name = ls__arena_format(&r->state->memory, "%s.log", run_name);
    int log;
    if (!log_name) return ls_fail(LS_NOMEM, "out of memory while running %s", job->dir);
    TRY(ls__path_join(dir, sizeof dir, r->folder->dir.path, job->dir));
    if (has_result(dir)) { /* of a lab that was killed before it could note it */
        job->state = LS_JOB_DONE;
        return ls__lab_state_write(r->state, r->lab, &r->folder->dir);
    }
    TRY(ls__lab_words(&r->state->memory, job, r->exe, dir, &words));
    TRY(open_log(r, run_name, log_name, &log));
    if (job->state == LS_JOB_FAILED) job->state = LS_JOB_WAITING;
    const int64_t start = ls__now_ns();
    const double others = ls__lab_others_seconds();
    say_progress(r, 0, true);
    job->tries++;
    /* Before, too: one that is killed has been tried. */
    enum ls_status status = ls__lab_state_write(r->state, r->lab, &r->folder->dir);
    if (status == LS_OK) status = run_child(r, words, log, &job->exit_code);
    close(log);
    TRY(status);
    ls__log_progress("");
    add_time(job, ls__seconds_since(start), ls__lab_others_seconds() - others);
    TRY(judge(r, job, log_name));
    return ls__lab_state_write(r->state, r->lab, &r->folder->dir);
}

enum ls_status ls__lab_run(const struct ls_lab_folder *folder, const struct ls_lab *lab, struct ls_lab_state *state,
                           const char *exe, struct ls_lab_summary *summary)
{
    struct running r = {.folder = folder, .lab = lab, .state = state, .exe = exe};
    *summary = (struct ls_lab_summary){0};
    take_signals();
    for (r.at = 0; r.at < state->n_jobs && !last_signal; r.at++)
        if (state->jobs[r.at].state != LS_JOB_DONE) TRY(run_job(&r));
    for (int i = 0; i < state->n_jobs; i++) {
        const enum ls_job_state s = state->jobs[i].state;
        summary->n_done += s == LS_JOB_DONE;
        summary->n_failed += s == LS_JOB_FAILED;
        summary->n_left += s == LS_JOB_WAITING || s == LS_JOB_STOPPED;
    }
    summary->signal = last_signal;
    return LS_OK;
}
