/* launch_mpi.c: how Open MPI's and MPICH's mpirun are called.
 *
 * Neither may bind the ranks: by default each would get one core, and the threads of a rank would share it. The ranks
 * share out the cores among themselves (train/workers.c).
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/launch_impl.h"
#include "lockstep/comm.h"
#include "run/run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* --- finding things --- */

/* The first file of that name on PATH that may be run. */
static bool find_program(const char *name, char out[LS_PATH_BYTES])
{
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t len = strcspn(path, ":");
        if (len > 0 && snprintf(out, LS_PATH_BYTES, "%.*s/%s", (int)len, path, name) < LS_PATH_BYTES &&
            access(out, X_OK) == 0)
            return true;
        path += len + (path[len] == ':');
    }
    return false;
}

static const char *flavour_of(const char *mpirun)
{
    char command[LS_PATH_BYTES + 32], text[512] = "";
    if (strchr(mpirun, '\'')) return NULL;
    snprintf(command, sizeof command, "'%s' --version 2>/dev/null", mpirun);
    FILE *pipe = popen(command, "r");
    if (!pipe) return NULL;
    size_t n = fread(text, 1, sizeof text - 1, pipe);
    text[n] = '\0';
    pclose(pipe);
    return strstr(text, "Open MPI") ? "openmpi" : strstr(text, "HYDRA") || strstr(text, "MPICH") ? "mpich" : NULL;
}

/* Of the MPIs that are wanted and have both a plug-in and a launcher, the first. */
static enum ls_status find_mpi(struct launch *l)
{
    static const char *const names[] = {"openmpi", "mpich"};
    const char *wanted = getenv("LOCKSTEP_MPI");
    bool has_plugin = false;
    for (int i = 0; i < 2; i++) {
        char program[32];
        if ((wanted && *wanted && strcmp(wanted, names[i]) != 0) || !ls_comm_has_plugin(names[i])) continue;
        has_plugin = true;
        l->mpi = names[i];
        snprintf(program, sizeof program, "mpirun.%s", names[i]);
        if (find_program(program, l->mpirun)) return LS_OK;
        if (find_program("mpirun", l->mpirun)) {
            const char *flavour = flavour_of(l->mpirun);
            if (flavour && strcmp(flavour, names[i]) == 0) return LS_OK;
        }
    }
    if (has_plugin)
        return ls_fail(LS_UNSUPPORTED, "several workers need mpirun, which is not installed; on Debian: apt install %s",
                       strcmp(l->mpi, "mpich") ? "openmpi-bin" : "mpich");
    return ls_fail(
        LS_UNSUPPORTED,
        "several workers need MPI, which this build lacks; on Debian: apt install openmpi-bin libopenmpi-dev, "
        "then build again");
}

static enum ls_status split_hosts(struct launch *l)
{
    if (!l->o->hosts) return LS_OK;
    TRY(ls__strdup(&l->host_text, l->o->hosts));
    TRY(ls__calloc(&l->hosts, strlen(l->host_text) + 1, sizeof *l->hosts));
    for (char *at = l->host_text, *word; (word = strsep(&at, ","));) {
        if (*word == '\0' || *word == '-' || strpbrk(word, " \t:"))
            return ls_fail(LS_USAGE, "--hosts %s: expected names apart by commas, as a,b,c", l->o->hosts);
        l->hosts[l->n_hosts++] = word;
    }
    return LS_OK;
}

/* A restart must find the run, so its directory is named here. */
static enum ls_status choose_run_dir(struct launch *l)
{
    const struct ls_train_options *t = &l->o->train;
    const char *dir = t->run_dir;
    if (!dir && t->resume && strcmp(t->resume, "auto") != 0 && ls__dir_exists(t->resume)) dir = t->resume;
    if (dir) return ls__path_join(l->run_dir, sizeof l->run_dir, dir, "");
    return ls__run_make_named(t->model, t->data, l->run_dir);
}

enum ls_status ls__launch_prepare(struct launch *l)
{
    TRY(find_mpi(l));
    ssize_t len = readlink("/proc/self/exe", l->exe, sizeof l->exe - 1);
    if (len <= 0) return ls_fail(LS_ERROR, "find this program: %s", strerror(errno));
    l->exe[len] = '\0';
    TRY(split_hosts(l));
    l->per_host = l->cmd == LS_CMD_TRAIN ? l->o->procs_per_node : 1;
    return l->cmd == LS_CMD_TRAIN ? choose_run_dir(l) : LS_OK;
}

void ls__launch_release(struct launch *l)
{
    free(l->host_text);
    free(l->hosts);
}

/* --- the command --- */

struct words {
    char **argv;
    int n;
    enum ls_status status;
};

static void add(struct words *w, const char *word)
{
    if (w->status == LS_OK) w->status = ls__grow(&w->argv, (size_t)w->n, (size_t)w->n + 2, sizeof *w->argv);
    if (w->status == LS_OK) w->status = ls__strdup(&w->argv[w->n], word);
    if (w->status == LS_OK) w->n++;
}

static void add_number(struct words *w, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    add(w, text);
}

/* "a:2,b:2" or "a,b" */
static void add_hosts(struct words *w, const struct launch *l, bool with_slots)
{
    char text[LS_PATH_BYTES];
    size_t at = 0;
    for (int i = 0; i < l->n_hosts && at < sizeof text; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i ? "," : "", l->hosts[i]);
        if (with_slots && at < sizeof text)
            at += (size_t)snprintf(text + at, sizeof text - at, ":%lld", (long long)l->per_host);
    }
    add(w, text);
}

/* Remote ranks see what this process was told through its environment. */
static void add_environment(struct words *w)
{
    for (char **e = environ; *e; e++) {
        char name[128];
        if (strncmp(*e, "LOCKSTEP_", 9) != 0) continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*e, "="), *e);
        add(w, "-x");
        add(w, name);
    }
}

/* Words apart by spaces. */
static void add_all(struct words *w, const char *text)
{
    char *copy = NULL;
    if (!text || w->status != LS_OK) return;
    w->status = ls__strdup(&copy, text);
    char *at = copy, *word;
    while (w->status == LS_OK && (word = strsep(&at, " \t")))
        if (*word) add(w, word);
    free(copy);
}

/* Ranks of one machine talk through memory of their own; Open MPI's would stay behind in /dev/shm when a rank is
 * killed, so it is told to use TCP for the little it has to carry. */
static void add_openmpi(struct words *w, const struct launch *l, int64_t n)
{
    const char *agent = getenv("LOCKSTEP_RSH");
    add(w, "-q");
    if (geteuid() == 0) add(w, "--allow-run-as-root");
    add(w, "-n");
    add_number(w, n);
    add(w, "--oversubscribe");
    add(w, "--bind-to");
    add(w, "none");
    if (l->n_hosts > 0) {
        add(w, "--host");
        add_hosts(w, l, true);
        add(w, "--map-by");
        add(w, "slot");
        add_environment(w);
        add_all(w, "--mca btl ^vader");
    } else {
        add_all(w, "--mca pml ob1 --mca btl self,tcp --mca btl_tcp_if_include lo");
    }
    if (agent && *agent) {
        add(w, "--mca");
        add(w, "plm_rsh_agent");
        add(w, agent);
    }
}

static void add_mpich(struct words *w, const struct launch *l, int64_t n)
{
    const char *agent = getenv("LOCKSTEP_RSH");
    add(w, "-n");
    add_number(w, n);
    add(w, "-bind-to");
    add(w, "none");
    if (l->n_hosts > 0) {
        add(w, "-hosts");
        add_hosts(w, l, false);
        add(w, "-ppn");
        add_number(w, l->per_host);
    }
    if (agent && *agent) {
        add(w, "-launcher");
        add(w, "ssh");
        add(w, "-launcher-exec");
        add(w, agent);
    }
}

/* Whether only the launcher reads an option; `word` may be "--name" or "--name=value". */
static bool is_launchers(const struct launch *l, const char *word, bool *has_value)
{
    static const char *const names[] = {"--hosts", "--mpi-args", "--max-restarts", "--procs-per-node",
                                        "--nproc-per-node"};
    int n = l->cmd == LS_CMD_TRAIN ? 5 : 2; /* the last two are the user's in a prediction */
    for (int i = 0; i < n; i++) {
        size_t len = strlen(names[i]);
        if (strncmp(word, names[i], len) != 0 || (word[len] != '\0' && word[len] != '=')) continue;
        *has_value = word[len] == '=';
        return true;
    }
    return false;
}

/* The user's own arguments without the launcher's. A later one wins, so the number of workers, the run directory and
 * how to resume are appended. */
static void add_arguments(struct words *w, const struct launch *l, int64_t n, bool is_restart)
{
    const struct ls_options *o = l->o;
    bool has_value;
    add(w, l->exe);
    add(w, l->cmd == LS_CMD_TRAIN ? "train" : "predict");
    for (int i = 0; i < o->argc; i++) {
        if (!is_launchers(l, o->argv[i], &has_value))
            add(w, o->argv[i]);
        else if (!has_value)
            i++;
    }
    if (l->cmd != LS_CMD_TRAIN) {
        add(w, "--probe");
        return;
    }
    add(w, "--workers");
    add_number(w, n);
    add(w, "--run");
    add(w, l->run_dir);
    if (!is_restart) return;
    add(w, "--resume");
    add(w, "auto");
}

enum ls_status ls__launch_command(const struct launch *l, bool is_restart, char ***argv)
{
    struct words w = {.status = LS_OK};
    int64_t n = l->n_hosts > 0 ? l->n_hosts * l->per_host : l->o->train.workers;
    add(&w, l->mpirun);
    if (strcmp(l->mpi, "openmpi") == 0)
        add_openmpi(&w, l, n);
    else
        add_mpich(&w, l, n);
    add_all(&w, l->o->mpi_args);
    add_arguments(&w, l, n, is_restart);
    *argv = w.argv;
    if (w.status != LS_OK) ls__launch_command_free(w.argv);
    return w.status;
}

void ls__launch_command_free(char **argv)
{
    for (int i = 0; argv && argv[i]; i++) free(argv[i]);
    free(argv);
}

/* Runs a command with an end to the wait. True if it succeeded. */
static bool run_briefly(char *const *argv)
{
    enum { SECONDS = 10 };
    int status = 0;
    pid_t pid = fork();
    if (pid < 0) return false;
    if (pid == 0) {
        setsid();
        execvp(argv[0], argv);
        _exit(127);
    }
    for (int64_t start = ls__now_ns(); ls__seconds_since(start) < SECONDS;) {
        if (waitpid(pid, &status, WNOHANG) == pid) return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    }
    kill(-pid, SIGKILL);
    waitpid(pid, &status, 0);
    return false;
}

static bool is_here(const char *host)
{
    char name[64] = "";
    gethostname(name, sizeof name - 1);
    return !strcmp(host, "localhost") || !strcmp(host, "127.0.0.1") || !strcmp(host, name);
}

static bool run_on(const char *host, const char *command)
{
    const char *agent = getenv("LOCKSTEP_RSH");
    char *const own[] = {(char *)agent, (char *)host, (char *)command, NULL};
    char *const ssh[] = {"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", (char *)host, (char *)command, NULL};
    return run_briefly(agent && *agent ? own : ssh);
}

bool ls__launch_host_answers(const char *host)
{
    return is_here(host) || run_on(host, "true");
}

void ls__launch_remove(const struct launch *l, const char *folder)
{
    char command[128];
    char *const here[] = {"rm", "-rf", "--", (char *)folder, NULL};
    snprintf(command, sizeof command, "rm -rf -- %s", folder);
    run_briefly(here);
    for (int i = 0; i < l->n_hosts; i++)
        if (!is_here(l->hosts[i])) run_on(l->hosts[i], command);
}
