/* slow.c: see slow.h. A helper process stops and continues this one, as a busy machine would: RUN_MS of every RUN_MS *
 * FACTOR it runs. The helper ends when it is told to or its parent ends, and never leaves it stopped.
 */
#include "cli/slow.h"

#include "base/log.h"
#include "base/parse.h"
#include "comm/comm.h"
#include "settings/sync_names.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { RUN_MS = 5, MAX_FACTOR = 100 };

bool ls__slow_parse(const char *text, int64_t *node, double *factor)
{
    char number[24];
    size_t len = strcspn(text, ":");
    if (text[len] != ':' || len >= sizeof number) return false;
    snprintf(number, sizeof number, "%.*s", (int)len, text);
    return ls__parse_i64(number, 1, 65536, node) && ls__parse_f64(text + len + 1, factor) && *factor >= 1 &&
           *factor <= MAX_FACTOR;
}

/* What the launcher knows and the ranks are not told in options; 1 of a job that others started. */
static int64_t processes_of_node(void)
{
    const char *text = getenv("LOCKSTEP_LAUNCH_OPTIONS");
    json_t *options = text ? json_loads(text, 0, NULL) : NULL;
    const int64_t n = json_integer_value(json_object_get(options, "procs_per_node"));
    json_decref(options);
    return n > 0 ? n : 1;
}

/* From 1; 0: not known. A parameter server is on the first. */
static int64_t own_node(const struct ls_options *o)
{
    if (ls__sync_is_served(o->train.sync)) return o->nodes > 0 ? 1 : 0;
    static const char *const variables[] = {"LOCKSTEP_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *text = getenv(variables[i]);
        int64_t number;
        if (text && ls__parse_i64(text, 0, 1 << 20, &number)) return number / processes_of_node() + 1;
    }
    const bool is_alone = !o->server && !o->hosts && o->train.workers <= 1 && !ls_comm_is_node();
    return is_alone ? 1 : 0;
}

/* Whether the moment passed without a word to end. */
static bool nap(const sigset_t *end, double ms)
{
    const struct timespec time = {.tv_sec = (time_t)(ms / 1e3), .tv_nsec = (long)(ms * 1e6) % 1000000000};
    return sigtimedwait(end, NULL, &time) < 0 && (errno == EAGAIN || errno == EINTR);
}

/* The helper. SIGTERM is blocked and waited for, so that it never ends between stop and continue. */
static void hold_back(pid_t whom, const sigset_t *end, double factor)
{
    while (getppid() == whom && nap(end, RUN_MS)) {
        if (kill(whom, SIGSTOP) != 0) break;
        bool goes_on = nap(end, RUN_MS * (factor - 1));
        kill(whom, SIGCONT);
        if (!goes_on) break;
    }
    _exit(0);
}

enum ls_status ls__slow_begin(const struct ls_options *o, int64_t own)
{
    int64_t node;
    double factor;
    sigset_t end, before;
    if (!o->slow || !ls__slow_parse(o->slow, &node, &factor) || (own > 0 ? own : own_node(o)) != node || factor <= 1)
        return LS_OK;
    const pid_t whom = getpid();
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    sigprocmask(SIG_BLOCK, &end, &before);
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0); /* Ctrl-C is not for it */
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        hold_back(whom, &end, factor);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (pid < 0) return ls_fail(LS_ERROR, "start what slows this node: %s", strerror(errno));
    ls__log(LS_LOG_INFO, "node %lld is held back to 1/%g of its speed", (long long)node, factor);
    return LS_OK;
}
