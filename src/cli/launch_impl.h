/* launch_impl.h: the launcher's parts.
 *
 *     launch.c          the outcome of the job, restarts
 *     launch_mpi.c      which mpirun, and its command line
 *     launch_args.c     what the user says to mpirun
 *     launch_watch.c    one attempt: start, signals, deadlines, the end of every process
 *     launch_report.c   what the workers say
 *     launch_output.c   what goes to stdout
 *     launch_alone.c    a network of its own
 *     launch_nodes.c    machines made on this one
 *     launch_hosts.c    other machines: who answers, who has no address
 *     launch_state.c    the folder for copies of the state between two attempts
 */
#ifndef LS_CLI_LAUNCH_IMPL_H
#define LS_CLI_LAUNCH_IMPL_H

#include "base/file.h"
#include "cli/launch_report.h"
#include "cli/options.h"
#include "nodes/nodes.h"

#include <sys/types.h>

struct launch {
    const struct ls_options *o;
    enum ls_cmd cmd;            /* train; predict: one process per host, which probes the network */
    int64_t per_host;           /* processes */
    const char *mpi;            /* "openmpi" or "mpich" */
    char mpirun[LS_PATH_BYTES]; /* its program */
    char exe[LS_PATH_BYTES];    /* this program */
    char run_dir[LS_PATH_BYTES];
    bool is_dir_made;         /* run_dir, here; the workers fill it */
    bool has_options;         /* for mpirun, of the user: perhaps about networks, hosts or output */
    bool is_alone;            /* the job has a network of its own */
    struct ls_nodes nodes;    /* of --nodes with a network of their own; n 0: none */
    char *host_text, **hosts; /* of --hosts, cut apart; or of the nodes */
    int n_hosts;
};

/* Finds mpirun and its plug-in, the hosts and the run directory. launch_release also after a failure. */
enum ls_status ls__launch_prepare(struct launch *l) LS_MUST_CHECK;
void ls__launch_release(struct launch *l);
int ls__launch_n_workers(const struct launch *l);
/* All of mpirun's arguments; w->status tells how it went. */
void ls__launch_command(struct ls_words *w, const struct launch *l, bool is_restart);
/* mpirun with `true` on one host: whether it gets there and back. */
void ls__launch_trial(struct ls_words *w, const struct launch *l, const char *host);

/* --- launch_args.c --- */

/* Whether --mpi-args (may be NULL) sets one of these options, which are written without dashes, or parameters of Open
 * MPI's --mca: " n np ". What stands behind a program to put before ours is that program's. */
bool ls__mpi_args_have(const char *text, const char *names);

/* --- launch_watch.c --- */

/* How an attempt went. */
struct ls_outcome {
    int code;            /* by the workers' words; LS_NO_CODE: they have said nothing */
    int wait_status;     /* mpirun's */
    bool is_told;        /* a worker has said why; else it died before it could */
    bool is_late;        /* not all workers came in time */
    int stop_signal;     /* of the second signal, which ended everything; or 0 */
    char workers[256];   /* those that have not come, or not ended, as "rank 1 on b (pid 17)" */
    char dead[128];      /* the one that was seen to die first, as "rank 1 on b (pid 17)", or "" */
    int n_here, n_quiet; /* workers that came; of them, that did not say how they ended */
};

/* From now on Ctrl-C and the like reach the job in good order; orphans of the job become our children. */
void ls__launch_take_charge(void);
enum ls_status ls__launch_attempt(const struct launch *l, bool is_restart, struct ls_outcome *outcome) LS_MUST_CHECK;

/* --- launch_alone.c --- */

bool ls__launch_has_own_network(void);   /* whether the system allows it */
bool ls__launch_enter_own_network(void); /* this process, for good; after a failure it is good for nothing */

/* --- launch_nodes.c --- */

/* Makes them, and says what they are; nodes->n is 0 where they are plain processes. */
void ls__launch_make_nodes(const struct ls_options *o, struct ls_nodes *nodes);
/* The same for mpirun, as hosts. */
enum ls_status ls__launch_open_nodes(struct launch *l) LS_MUST_CHECK;

/* --- launch_hosts.c --- */

/* Runs a command with an end to the wait. True if it succeeded. */
bool ls__launch_run_briefly(char *const *argv);
/* Leaves out the hosts that mpirun does not get to; LS_REMOTE if none is left. */
enum ls_status ls__launch_drop_lost_hosts(struct launch *l) LS_MUST_CHECK;
/* The first host whose name has no address, or NULL; *why in words. */
const char *ls__launch_unknown_host(const struct launch *l, const char **why);
/* "a,b,c" cut apart: *hosts [*n] lie in *memory; the caller frees both, after a failure too. *n is 0 before. */
enum ls_status ls__launch_split_hosts(const char *text, char **memory, char ***hosts, int *n) LS_MUST_CHECK;
bool ls__launch_is_here(const char *host); /* this machine's name */
/* The words before a command that is to run on a host. */
void ls__launch_shell(struct ls_words *w, const char *host);
/* Through the remote shell; nothing is known of how it went. */
void ls__launch_run_on(const char *host, const char *command);
/* rm -r on the other hosts, as far as they answer. */
void ls__launch_remove_remote(const struct launch *l, const char *folder);

#endif
