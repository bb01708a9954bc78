/* launch_watch.c: waits for mpirun, but not for ever.
 *
 * When a host has vanished from the network, mpirun waits for that host's daemon until TCP gives up, a quarter of an
 * hour. The ranks have ended long before, by --timeout. So: once ranks have been seen on this machine and none is left,
 * mpirun has LINGER seconds to end by itself.
 */
#include "base/clock.h"
#include "base/log.h"
#include "cli/launch_impl.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINGER_S = 10, PERIOD_NS = 500000000, POLL_NS = 10000000 };

static long session_of(const char *pid)
{
    char path[64], text[512];
    long session = 0;
    snprintf(path, sizeof path, "/proc/%.16s/stat", pid);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    const char *after = strrchr(text, ')'); /* "pid (name) state parent group session ..." */
    return after && sscanf(after + 1, " %*c %*d %*d %ld", &session) == 1 ? session : 0;
}

/* Whether a process of mpirun's session runs our program. */
static bool has_ranks(pid_t mpirun, const char *exe)
{
    char path[64], target[LS_PATH_BYTES];
    bool is_found = false;
    DIR *proc = opendir("/proc");
    if (!proc) return true; /* then nothing is known */
    for (const struct dirent *d; !is_found && (d = readdir(proc));) {
        if (d->d_name[0] < '1' || d->d_name[0] > '9' || session_of(d->d_name) != mpirun) continue;
        snprintf(path, sizeof path, "/proc/%.16s/exe", d->d_name);
        ssize_t len = readlink(path, target, sizeof target - 1);
        target[len > 0 ? len : 0] = '\0';
        is_found = strcmp(target, exe) == 0;
    }
    closedir(proc);
    return is_found;
}

static void end_mpirun(pid_t mpirun)
{
    ls__log(LS_LOG_WARN, "mpirun did not end %d s after the workers of this machine; ending it", LINGER_S);
    kill(-mpirun, SIGKILL);
    kill(mpirun, SIGKILL);
}

int ls__launch_wait(pid_t mpirun, const char *exe)
{
    int status = 0;
    bool were_there = false, is_killed = false;
    int64_t looked_ns = ls__now_ns(), seen_ns = looked_ns;
    for (pid_t got; (got = waitpid(mpirun, &status, WNOHANG)) <= 0;) {
        if (got < 0 && errno != EINTR) return 255;
        nanosleep(&(struct timespec){0, POLL_NS}, NULL);
        if (is_killed || ls__now_ns() - looked_ns < PERIOD_NS) continue;
        looked_ns = ls__now_ns();
        if (has_ranks(mpirun, exe)) {
            were_there = true;
            seen_ns = looked_ns;
        }
        if (were_there && ls__seconds_since(seen_ns) > LINGER_S) {
            end_mpirun(mpirun);
            is_killed = true;
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
