/* launch_mpi.c: how Open MPI's and MPICH's mpirun are called.
 *
 * Neither may bind the ranks: by default each would get one core, and the threads of a rank would share it. The ranks
 * share out the cores among themselves (train/workers.c).
 */
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/launch_impl.h"
#include "cli/machine.h"
#include "comm/comm.h"
#include "run/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

/* --- finding things --- */

static const char *flavour_of(const char *mpirun)
{
    char command[LS_PATH_BYTES + 32], text[512] = "";
    if (strchr(mpirun, '\'')) return NULL;
    snprintf(command, sizeof command, "'%s' --version 2>/dev/null", mpirun);
    FILE *pipe = popen(command, "r"); /* NOLINT(cert-env33-c): the name is quoted, and holds no quote */
    if (!pipe) return NULL;
    size_t n = fread(text, 1, sizeof text - 1, pipe);
    text[n] = '\0';
    pclose(pipe);
    return strstr(text, "Open MPI") ? "openmpi" : strstr(text, "HYDRA") || strstr(text, "MPICH") ? "mpich" : NULL;
}

static enum ls_status refuse_build(const char *wanted)
{
    if (*wanted)
        return ls_fail(LS_UNSUPPORTED,
                       "LOCKSTEP_MPI asks for %s, which this build lacks; on Debian: apt install %s, then build again",
                       wanted, strcmp(wanted, "mpich") ? "openmpi-bin libopenmpi-dev" : "mpich libmpich-dev");
    return ls_fail(
        LS_UNSUPPORTED,
        "several workers need MPI, which this build lacks; on Debian: apt install openmpi-bin libopenmpi-dev, "
        "then build again");
}

/* Of the MPIs that are wanted and have both a plug-in and a launcher, the first. */
static enum ls_status find_mpi(struct launch *l)
{
    static const char *const names[] = {"openmpi", "mpich"};
    const char *wanted;
    bool has_plugin = false;
    TRY(ls_comm_wanted_mpi(&wanted));
    for (int i = 0; i < 2; i++) {
        char program[32];
        if ((*wanted && strcmp(wanted, names[i]) != 0) || !ls_comm_has_plugin(names[i])) continue;
        has_plugin = true;
        l->mpi = names[i];
        snprintf(program, sizeof program, "mpirun.%s", names[i]);
        if (ls__find_program(program, l->mpirun)) return LS_OK;
        if (ls__find_program("mpirun", l->mpirun)) {
            const char *flavour = flavour_of(l->mpirun);
            if (flavour && strcmp(flavour, names[i]) == 0) return LS_OK;
        }
    }
    if (has_plugin)
        return ls_fail(LS_UNSUPPORTED, "several workers need mpirun, which is not installed; on Debian: apt install %s",
                       strcmp(l->mpi, "mpich") ? "openmpi-bin" : "mpich");
    return refuse_build(wanted);
}

/* A restart must find the run, so its directory is named here. */
static enum ls_status choose_run_dir(struct launch *l)
{
    const struct ls_train_options *t = &l->o->train;
    const char *dir = t->run_dir;
    if (!dir && t->resume && strcmp(t->resume, "auto") != 0 && ls__dir_exists(t->resume)) dir = t->resume;
    if (dir) return ls__path_join(l->run_dir, sizeof l->run_dir, dir, "");
    TRY(ls__run_make_named(t->model, t->data, l->run_dir));
    l->is_dir_made = true;
    return LS_OK;
}

/* Whether --mpi-args begins with an option for mpirun. A program to put before ours is none. */
static bool has_mpirun_options(const char *text)
{
    return text && text[strspn(text, " \t")] == '-';
}

/* A job with more or fewer processes than it was told to have would wait for some, or not know others. */
static enum ls_status check_mpi_args(const struct launch *l)
{
    if (!ls__mpi_args_have(l->o->mpi_args, " n np c ")) return LS_OK;
    return ls_fail(LS_USAGE, "--mpi-args '%s': how many processes there are is for %s to say", l->o->mpi_args,
                   l->cmd != LS_CMD_TRAIN ? "--hosts"
                   : l->o->hosts          ? "--hosts and --procs-per-node"
                                          : "--workers");
}

/* mpirun listens wherever it can (launch_alone.c). */
static void choose_network(struct launch *l)
{
    const bool is_here = l->n_hosts == 0 && !l->has_options;
    l->is_alone = is_here && ls__launch_has_own_network();
    if (is_here && !l->is_alone)
        ls__log(LS_LOG_WARN, "this system forbids the network namespace that would keep the job to itself: until it "
                             "ends, its processes listen on every address of this machine");
}

enum ls_status ls__launch_prepare(struct launch *l)
{
    TRY(check_mpi_args(l));
    TRY(find_mpi(l));
    ssize_t len = readlink("/proc/self/exe", l->exe, sizeof l->exe - 1);
    if (len <= 0) return ls_fail(LS_ERROR, "find this program: %s", strerror(errno));
    l->exe[len] = '\0';
    if (l->o->hosts) TRY(ls__launch_split_hosts(l->o->hosts, &l->host_text, &l->hosts, &l->n_hosts));
    l->per_host = l->cmd == LS_CMD_TRAIN ? l->o->procs_per_node : 1;
    if (l->cmd == LS_CMD_TRAIN && l->o->nodes > 1) TRY(ls__launch_open_nodes(l));
    l->has_options = has_mpirun_options(l->o->mpi_args);
    choose_network(l);
    return l->cmd == LS_CMD_TRAIN ? choose_run_dir(l) : LS_OK;
}

void ls__launch_release(struct launch *l)
{
    if (l->is_dir_made && rmdir(l->run_dir) == 0) rmdir("runs"); /* each only if nothing is in it */
    ls__nodes_close(&l->nodes);
    free(l->host_text);
    free(l->hosts);
}

int ls__launch_n_workers(const struct launch *l)
{
    return (int)(l->n_hosts > 0 ? l->n_hosts * l->per_host : l->o->train.workers);
}

/* --- the command --- */

static void add(struct ls_words *w, const char *word)
{
    ls__words_add(w, word);
}

static void add_number(struct ls_words *w, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    add(w, text);
}

/* "a:2,b:2", or with per_host 0 "a,b" */
static void add_hosts(struct ls_words *w, char *const *hosts, int n, int64_t per_host)
{
    struct ls_buf text = LS_BUF_INIT;
    for (int i = 0; i < n; i++) {
        ls__buf_addf(&text, "%s%s", i ? "," : "", hosts[i]);
        if (per_host > 0) ls__buf_addf(&text, ":%lld", (long long)per_host);
    }
    if (w->status == LS_OK) w->status = ls__buf_check(&text);
    add(w, text.text);
    ls__buf_release(&text);
}

/* Remote ranks see what this process was told through its environment. */
static void add_environment(struct ls_words *w)
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
static void add_all(struct ls_words *w, const char *text)
{
    char *copy = NULL;
    if (!text || w->status != LS_OK) return;
    w->status = ls__strdup(&copy, text);
    char *at = copy, *word;
    while (w->status == LS_OK && (word = strsep(&at, " \t")))
        if (*word) add(w, word);
    free(copy);
}

/* Which processes, where. */
struct place {
    char *const *hosts; /* [n_hosts]; none: this machine */
    int n_hosts;
    int64_t per_host, n;
    const char *device; /* the only network to use, or NULL */
    const char *shell;  /* by which the hosts are reached, or NULL: mpirun's own */
    const char *told;   /* --mpi-args, or NULL */
};

/* A default of ours, in words apart by spaces, and perhaps a last word as it is. Where the user sets it or what it
 * contradicts (one of `named`), ours is left out: mpirun takes neither two values nor a contradiction. */
static void add_default(struct ls_words *w, const struct place *p, const char *named, const char *words,
                        const char *last)
{
    if (ls__mpi_args_have(p->told, named)) return;
    add_all(w, words);
    if (last) add(w, last);
}

/* Ranks of one machine talk through memory of their own; Open MPI's would stay behind in /dev/shm when a rank is
 * killed, so it is told to use TCP for the little it has to carry. Names of hosts are taken as they are: unless told
 * Open MPI cuts them at the first dot. */
static void add_openmpi(struct ls_words *w, const struct place *p)
{
    add(w, "-q");
    if (geteuid() == 0) add(w, "--allow-run-as-root");
    add(w, "-n");
    add_number(w, p->n);
    add_default(w, p, " nooversubscribe ", "--oversubscribe", NULL);
    add_default(w, p, " bind-to bind-to-core bind-to-socket bind-to-none hwloc_base_binding_policy ", "--bind-to none",
                NULL);
    if (p->n_hosts > 0) {
        add(w, "--host");
        add_hosts(w, p->hosts, p->n_hosts, p->per_host);
        add_default(w, p, " map-by bynode byslot npernode N rmaps_base_mapping_policy ", "--map-by slot", NULL);
        add_environment(w);
        add_default(w, p, " btl ", "--mca btl ^vader", NULL);
        add_default(w, p, " orte_keep_fqdn_hostnames ", "--mca orte_keep_fqdn_hostnames 1", NULL);
    } else {
        add_default(w, p, " pml ", "--mca pml ob1", NULL);
        add_default(w, p, " btl ", "--mca btl self,tcp", NULL);
    }
    if (p->device) add_default(w, p, " btl_tcp_if_include btl_tcp_if_exclude ", "--mca btl_tcp_if_include", p->device);
    if (p->device && p->n_hosts > 0)
        add_default(w, p, " oob_tcp_if_include oob_tcp_if_exclude ", "--mca oob_tcp_if_include", p->device);
    if (p->shell) add_default(w, p, " plm_rsh_agent ", "--mca plm_rsh_agent", p->shell);
}

static void add_mpich(struct ls_words *w, const struct place *p)
{
    add(w, "-n");
    add_number(w, p->n);
    add_default(w, p, " bind-to binding ", "-bind-to none", NULL);
    if (p->n_hosts > 0) {
        add(w, "-hosts");
        add_hosts(w, p->hosts, p->n_hosts, 0);
        if (!ls__mpi_args_have(p->told, " ppn perhost ")) {
            add(w, "-ppn");
            add_number(w, p->per_host);
        }
    }
    if (p->device) add_default(w, p, " iface ", "-iface", p->device);
    if (p->shell) add_default(w, p, " launcher bootstrap ", "-launcher ssh", NULL);
    if (p->shell) add_default(w, p, " launcher-exec bootstrap-exec ", "-launcher-exec", p->shell);
}

static struct place place_of(const struct launch *l, char *const *hosts, int n_hosts, int64_t per_host, int64_t n)
{
    const char *agent = getenv("LOCKSTEP_RSH");
    struct place p = {.hosts = hosts, .n_hosts = n_hosts, .per_host = per_host, .n = n, .told = l->o->mpi_args};
    p.device = l->nodes.n > 0 ? ls__nodes_device : n_hosts == 0 ? "lo" : NULL;
    p.shell = l->nodes.n > 0 ? l->nodes.shell : agent && *agent ? agent : NULL;
    return p;
}

static void add_mpirun(struct ls_words *w, const struct launch *l, const struct place *p)
{
    add(w, l->mpirun);
    if (strcmp(l->mpi, "openmpi") == 0)
        add_openmpi(w, p);
    else
        add_mpich(w, p);
    add_all(w, l->o->mpi_args);
}

/* The user's own options without the launcher's, and what the launcher has decided. */
static void add_arguments(struct ls_words *w, const struct launch *l, bool is_restart)
{
    static const char *const of_restart[] = {"resume",  "hosts", "mpi-args", "max-restarts", "procs-per-node",
                                             "workers", "nodes", "network",  "run",          NULL};
    static const char *const *const of_train = of_restart + 1;
    static const char *const of_predict[] = {"hosts", "mpi-args", "probe", NULL};
    char n[32];
    add(w, l->exe);
    if (l->cmd != LS_CMD_TRAIN) {
        add(w, "predict");
        add(w, "--probe");
        ls__words_add_options(w, l->o, of_predict);
        return;
    }
    snprintf(n, sizeof n, "%d", ls__launch_n_workers(l));
    add(w, "train");
    ls__words_add_option(w, "workers", n);
    ls__words_add_option(w, "run", l->run_dir);
    if (is_restart) ls__words_add_option(w, "resume", "auto");
    ls__words_add_options(w, l->o, is_restart ? of_restart : of_train);
}

void ls__launch_command(struct ls_words *w, const struct launch *l, bool is_restart)
{
    const struct place p = place_of(l, l->hosts, l->n_hosts, l->per_host, ls__launch_n_workers(l));
    add_mpirun(w, l, &p);
    add_arguments(w, l, is_restart);
}

void ls__launch_trial(struct ls_words *w, const struct launch *l, const char *host)
{
    char *hosts[] = {(char *)host};
    const struct place p = place_of(l, hosts, 1, 1, 1);
    add_mpirun(w, l, &p);
    add(w, "true");
}
