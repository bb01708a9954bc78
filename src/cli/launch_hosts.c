/* launch_hosts.c: other machines, as far as the launcher deals with them itself. Every wait has an end. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/launch_impl.h"

#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_S = 10 };

static pid_t begin(char *const *argv)
{
    pid_t pid = fork();
    if (pid != 0) return pid;
    setsid();
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(nowhere, STDIN_FILENO);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    execvp(argv[0], argv);
    _exit(127);
}

/* Until it has ended or the time is over, when it is killed. */
static bool finish(pid_t pid, int64_t start_ns)
{
    int status = 0;
    if (pid < 0) return false;
    do {
        if (waitpid(pid, &status, WNOHANG) == pid) return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    } while (ls__seconds_since(start_ns) < PATIENCE_S);
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return false;
}

bool ls__launch_run_briefly(char *const *argv)
{
    int64_t start_ns = ls__now_ns();
    return finish(begin(argv), start_ns);
}

/* The part before the first dot, where only one of the two has more. */
static bool is_same_host(const char *a, const char *b)
{
    size_t n = strcspn(a, "."), m = strcspn(b, ".");
    if (a[n] && b[m]) return strcmp(a, b) == 0;
    return n == m && strncmp(a, b, n) == 0;
}

enum ls_status ls__launch_split_hosts(const char *text, char **memory, char ***hosts, int *n)
{
    TRY(ls__strdup(memory, text));
    TRY(ls__calloc(hosts, strlen(text) + 1, sizeof **hosts));
    for (char *at = *memory, *word; (word = strsep(&at, ","));) {
        if (*word == '\0' || *word == '-' || strpbrk(word, " \t:"))
            return ls_fail(LS_USAGE, "--hosts %s: expected names apart by commas, as a,b,c", text);
        (*hosts)[(*n)++] = word;
    }
    return LS_OK;
}

bool ls__launch_is_here(const char *host)
{
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    return !strcmp(host, "localhost") || !strcmp(host, "127.0.0.1") || is_same_host(host, name);
}

/* Through mpirun itself: a host that the remote shell reaches but MPI's network does not is as good as lost. All at
 * once, since each that is gone takes all the patience. */
enum ls_status ls__launch_drop_lost_hosts(struct launch *l)
{
    int n = 0, n_before = l->n_hosts;
    int64_t start_ns = ls__now_ns();
    pid_t *trials;
    if (n_before == 0 || l->nodes.n > 0) return LS_OK; /* nodes are here */
    TRY(ls__calloc(&trials, (size_t)n_before, sizeof *trials));
    for (int i = 0; i < n_before; i++) {
        struct ls_words command = {.status = LS_OK};
        ls__launch_trial(&command, l, l->hosts[i]);
        trials[i] = ls__launch_is_here(l->hosts[i]) ? 0 : command.status == LS_OK ? begin(command.argv) : -1;
        ls__words_release(&command);
    }
    for (int i = 0; i < n_before; i++) {
        if (trials[i] == 0 || finish(trials[i], start_ns))
            l->hosts[n++] = l->hosts[i];
        else
            ls__log(LS_LOG_WARN, "host %s does not answer: going on without it", l->hosts[i]);
    }
    free(trials);
    l->n_hosts = n;
    return n > 0 ? LS_OK : ls_fail(LS_REMOTE, "no host answers any more");
}

const char *ls__launch_unknown_host(const struct launch *l, const char **why)
{
    for (int i = 0; i < l->n_hosts; i++) {
        struct addrinfo *found = NULL;
        int code = ls__launch_is_here(l->hosts[i]) ? 0 : getaddrinfo(l->hosts[i], NULL, NULL, &found);
        if (found) freeaddrinfo(found);
        if (code == 0) continue;
        *why = gai_strerror(code);
        return l->hosts[i];
    }
    return NULL;
}

void ls__launch_shell(struct ls_words *w, const char *host)
{
    static const char *const ssh[] = {"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"};
    const char *agent = getenv("LOCKSTEP_RSH");
    if (agent && *agent) ls__words_add(w, agent);
    for (size_t i = 0; !(agent && *agent) && i < sizeof ssh / sizeof *ssh; i++) ls__words_add(w, ssh[i]);
    ls__words_add(w, host);
}

void ls__launch_run_on(const char *host, const char *command)
{
    struct ls_words words = {0};
    ls__launch_shell(&words, host);
    ls__words_add(&words, command);
    if (words.status == LS_OK) ls__launch_run_briefly(words.argv);
    ls__words_release(&words);
}

void ls__launch_remove_remote(const struct launch *l, const char *folder)
{
    char command[LS_PATH_BYTES + 16];
    snprintf(command, sizeof command, "rm -rf -- %s", folder);
    for (int i = 0; i < l->n_hosts; i++)
        if (l->nodes.n == 0 && !ls__launch_is_here(l->hosts[i])) ls__launch_run_on(l->hosts[i], command);
}
