/* launch_impl.h: the command line for mpirun; shared by launch.c and launch_mpi.c. */
#ifndef LS_CLI_LAUNCH_IMPL_H
#define LS_CLI_LAUNCH_IMPL_H

#include "base/file.h"
#include "cli/options.h"

#include <sys/types.h>

struct launch {
    const struct ls_options *o;
    enum ls_cmd cmd;            /* train; predict: one process per host, which probes the network */
    int64_t per_host;           /* processes */
    const char *mpi;            /* "openmpi" or "mpich" */
    char mpirun[LS_PATH_BYTES]; /* its program */
    char exe[LS_PATH_BYTES];    /* this program */
    char run_dir[LS_PATH_BYTES];
    char *host_text, **hosts; /* of --hosts, cut apart */
    int n_hosts;
};

/* Finds mpirun and its plug-in, the hosts and the run directory. launch_release also after a failure. */
enum ls_status ls__launch_prepare(struct launch *l) LS_MUST_CHECK;
void ls__launch_release(struct launch *l);
/* NULL-terminated; ls__launch_command_free ends it. */
enum ls_status ls__launch_command(const struct launch *l, bool is_restart, char ***argv) LS_MUST_CHECK;
void ls__launch_command_free(char **argv);
/* rm -r, here and on the hosts that answer. */
void ls__launch_remove(const struct launch *l, const char *folder);
/* launch_watch.c: waits for mpirun. 0 to 255; if a signal ended it, 128 and the signal. */
int ls__launch_wait(pid_t mpirun, const char *exe);
/* Whether the remote shell gets through to a host within seconds. */
bool ls__launch_host_answers(const char *host);

#endif
