/* launch_report.c: the line by which a rank tells the launcher how it fares, written and read. */
#include "cli/launch_report.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/quote.h"
#include "comm/comm.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RS = 0x1e };

static void put(const char *bytes, size_t n)
{
    enum { PATIENCE_MS = 1000 };
    while (n > 0) {
        ssize_t done = write(STDERR_FILENO, bytes, n);
        struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
        if (done < 0 && (errno == EINTR || (errno == EAGAIN && poll(&p, 1, PATIENCE_MS) > 0))) continue;
        if (done <= 0) return;
        bytes += done;
        n -= (size_t)done;
    }
}

/* --- the worker's side --- */

bool ls__report_is_wanted(void)
{
    return getenv("LOCKSTEP_LAUNCH") && ls_comm_is_launched();
}

static const char *rank_text(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"};
    for (int i = 0; i < 3; i++)
        if (getenv(names[i])) return getenv(names[i]);
    return NULL;
}

/* One write, so that lines of several workers do not mix. */
static void report(const char *what)
{
    const char *launch = getenv("LOCKSTEP_LAUNCH"), *rank = rank_text();
    char line[LS_REPORT_BYTES], word[16];
    if (!launch || !rank || sscanf(what, "%15s", word) != 1) return;
    int n = snprintf(line, sizeof line, "%clockstep %.*s %s %.10s%s\n", RS, (int)strcspn(launch, ":"), launch, word,
                     rank, what + strlen(word));
    if (n > 0 && (size_t)n < sizeof line) put(line, (size_t)n);
}

/* Makes the launcher's pipe our stderr, where it is on this machine. It never blocks us: a launcher that was stopped
 * with Ctrl-Z does not read, and a line lost is better than a worker that stands. */
static void join_launcher(const char *own_host)
{
    char path[64], host[64];
    struct stat at;
    long pid;
    int number;
    if (sscanf(getenv("LOCKSTEP_LAUNCH"), "%*[^:]:%ld:%63[^:]:%d", &pid, host, &number) != 3) return;
    if (number < 0 || (strcmp(host, own_host) != 0 && !getenv("LOCKSTEP_NODE"))) return; /* a node is here */
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", pid, number);
    int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return;
    if (fstat(fd, &at) == 0 && S_ISFIFO(at.st_mode)) dup2(fd, STDERR_FILENO); /* else it stays as it was */
    close(fd);
}

void ls__report_here(void)
{
    char what[112], host[64] = "";
    if (!ls__report_is_wanted()) return;
    gethostname(host, sizeof host - 1);
    join_launcher(host);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* the run directory is free as soon as mpirun or its daemon is gone */
    snprintf(what, sizeof what, "here %ld %s", (long)getpid(), host);
    report(what);
}

void ls__report_cause(const char *text)
{
    char what[LS_REPORT_BYTES];
    if (ls__log_level() <= LS_LOG_NOTHING) return; /* another rank says it */
    snprintf(what, sizeof what, "cause %s", text);
    ls__make_printable(what);
    report(what);
}

void ls__report_end(int exit_code)
{
    char what[40];
    snprintf(what, sizeof what, "end %d %s", exit_code, ls__log_level() > LS_LOG_NOTHING ? "told" : "silent");
    report(what);
}

/* --- the launcher's side --- */

enum ls_status ls__reports_open(struct ls_reports *r, int n, int fd)
{
    uint64_t number;
    char text[128], host[64] = "";
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        return ls_fail(LS_ERROR, "random number: %s", strerror(errno));
    *r = (struct ls_reports){.n = n};
    TRY(ls__calloc(&r->workers, (size_t)n, sizeof *r->workers));
    for (int i = 0; i < n; i++) r->workers[i].code = LS_NO_CODE;
    gethostname(host, sizeof host - 1);
    snprintf(r->token, sizeof r->token, "%016" PRIx64, number);
    snprintf(text, sizeof text, "%s:%ld:%s:%d", r->token, (long)getpid(), host, fd);
    setenv("LOCKSTEP_LAUNCH", text, 1);
    return LS_OK;
}

void ls__reports_close(struct ls_reports *r)
{
    if (r->n_held > 0) put(r->held, r->n_held);
    r->n_held = 0;
    free(r->workers);
    r->workers = NULL;
}

static bool is_of_job(const struct ls_reports *r, const char *line)
{
    char token[LS_TOKEN_BYTES];
    return sscanf(line + 1, "lockstep %19s", token) == 1 && strcmp(token, r->token) == 0;
}

static bool take_cause(struct ls_reports *r, const char *line)
{
    int rank, text = 0;
    if (sscanf(line + 1, "lockstep %*s cause %d %n", &rank, &text) != 1 || text == 0) return false;
    ls__log(r->has_cause ? LS_LOG_DEBUG : LS_LOG_ERROR, "%s", line + 1 + text);
    r->has_cause = r->is_told = true; /* whether or not it lives to its end */
    return true;
}

/* line: from RS to before LF, ending in '\0'. False if it is none of this job's, and so for people. A rank that mpirun
 * was not told to start is of the job, but counts for nothing. */
static bool take_report(struct ls_reports *r, const char *line)
{
    if (!is_of_job(r, line)) return false;
    if (take_cause(r, line)) return true;
    char what[8], host[64] = "";
    int rank;
    long number;
    int n = sscanf(line + 1, "lockstep %*s %7s %d %ld %63s", what, &rank, &number, host);
    if (n < 3 || rank < 0 || rank >= r->n) return true;
    struct ls_worker *w = &r->workers[rank];
    if (strcmp(what, "here") == 0 && !w->is_here) {
        w->is_here = true;
        w->pid = number;
        memcpy(w->host, host, sizeof host);
        r->n_here++;
    } else if (strcmp(what, "end") == 0 && w->code == LS_NO_CODE) {
        w->code = number >= 0 && number <= 255 ? (int)number : 255;
        r->is_told |= strcmp(host, "told") == 0;
        r->n_ended++;
    }
    return true;
}

static void hand_on(struct ls_reports *r, const char *bytes, size_t n)
{
    if (n == 0) return;
    put(bytes, n);
    r->is_in_line = bytes[n - 1] != '\n';
}

/* A line that began with RS has ended, or is too long to be a report. */
static void end_held(struct ls_reports *r, bool is_line)
{
    r->held[r->n_held] = '\0';
    bool is_ours = is_line && take_report(r, r->held);
    if (!is_ours) hand_on(r, r->held, r->n_held);
    if (is_line && (!is_ours || r->is_in_line)) hand_on(r, "\n", 1); /* mpirun may have put something before it */
    r->n_held = 0;
}

void ls__reports_take(struct ls_reports *r, const char *bytes, size_t n)
{
    const char *end = bytes + n;
    while (bytes < end) {
        if (r->n_held == 0) {
            const char *rs = memchr(bytes, RS, (size_t)(end - bytes));
            hand_on(r, bytes, (size_t)((rs ? rs : end) - bytes));
            if (!rs) return;
            r->held[r->n_held++] = RS;
            bytes = rs + 1;
        } else if (*bytes == '\n') {
            end_held(r, true);
            bytes++;
        } else if (r->n_held == sizeof r->held - 1) {
            end_held(r, false);
        } else {
            r->held[r->n_held++] = *bytes++;
        }
    }
}

int ls__reports_outcome(const struct ls_reports *r)
{
    const int lost = ls_status_exit_code(LS_REMOTE), first = r->workers[0].code;
    int outcome = LS_NO_CODE;
    /* Rank 0 ends well only after all have agreed that they do. Of the others a cause counts more than its echo. */
    if (first == 0 || first == ls_status_exit_code(LS_INTERRUPTED)) return first;
    for (int i = 0; i < r->n; i++) {
        int code = r->workers[i].code;
        if (code > 0 && (outcome == LS_NO_CODE || (outcome == lost && code != lost))) outcome = code;
    }
    return outcome;
}
