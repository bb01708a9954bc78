/* meet.h: processes of a job that are started one by one, each told its rank: by --nodes, --rank and --master, or by
 * the variables that torchrun sets.
 *
 * --nodes alone, without --rank and --master, makes machines on this one, which is another matter (launch_nodes.c).
 *
 * Each of the three comes from its option, else from its variable (WORLD_SIZE, RANK, MASTER_ADDR with MASTER_PORT).
 * Without any of the options the variables count only if all four are there, WORLD_SIZE is more than 1, no other option
 * starts a job, and neither mpirun nor srun started this process: a variable that was left over must not change what a
 * command means that worked before. Where all of that is so, one that cannot be read (MASTER_PORT=99999) is refused:
 * each of several processes would train alone. --nodes 1 trains alone whatever the variables say.
 */
#ifndef LS_CLI_MEET_H
#define LS_CLI_MEET_H

#include "cli/options.h"

/* Before the options are resolved; does nothing for a command that is no such node. --nodes is taken: it means machines
 * made on this one otherwise. */
enum ls_status ls__meet_take_place(struct ls_options *o) LS_MUST_CHECK;

/* With a parameter server (--sync ps, async, ssp:K) rank 0 is the server, with one worker of its own beside it; the
 * others are workers, who hear from it what is trained: whether this is one of them. */
bool ls__meet_is_helper(const struct ls_options *o);
/* Of torchrun's processes on this machine: which this is, and how many share its cores. False: nobody said so. */
bool ls__meet_share(const struct ls_options *o, int *at, int *n);
/* A run that is resumed says how it synchronises only after the place was taken. */
enum ls_status ls__meet_check_resumed(const struct ls_options *o) LS_MUST_CHECK;

#endif
