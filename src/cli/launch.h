/* launch.h: `lockstep train -w 4`, and `train` and `predict` with `--hosts a,b,c`: starts itself through mpirun,
 * watches, starts again.
 *
 *     lockstep train ... -w 4          the launcher: knows no MPI, only how to call mpirun
 *       mpirun -n 4 lockstep train ... the ranks: join the job they find themselves in
 *
 * In: the arguments as typed. Out: the outcome of the job, as if it had been one process. A signal to the launcher
 * (Ctrl-C, SIGTERM, SIGUSR1) reaches the ranks; a lost worker is LS_REMOTE, unless restarts are left.
 *
 * Environment: LOCKSTEP_MPI=openmpi|mpich which MPI, where both are installed; LOCKSTEP_RSH the remote shell (ssh).
 */
#ifndef LS_CLI_LAUNCH_H
#define LS_CLI_LAUNCH_H

#include "cli/options.h"

/* Whether this process is to launch others rather than to do the work itself. */
bool ls__launch_is_wanted(enum ls_cmd cmd, const struct ls_options *o);
/* The exit code of the job: 0, or what a process of its own would have exited with. */
enum ls_status ls__launch(enum ls_cmd cmd, const struct ls_options *o, int *exit_code) LS_MUST_CHECK;
/* How a job is launched, for the manifest, and so for who resumes the run: the processes find it in their environment.
 */
void ls__launch_tell(const struct ls_options *o, bool has_network);

#endif
