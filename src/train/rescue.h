/* rescue.h: copies of the training state in memory that outlive the processes.
 *
 * A launcher that may restart the job names a folder in LOCKSTEP_RESCUE, in /dev/shm: memory with a name. The leader of
 * every machine puts a checkpoint there every so many steps. After a restart the newest copy any machine still has is
 * taken, if it is newer than the checkpoint on disk. The launcher removes the folders in the end; if it was killed, the
 * next start on the machine does (cli/launch_state.c): the file `guest` is locked as long as a machine's leader lives.
 *
 * With --compress a machine's copy has the remainders of its own shards only (carry.h): a step counts if the machines
 * that are left have those of all shards. With --sync local:H a copy waits for the next average.
 */
#ifndef LS_TRAIN_RESCUE_H
#define LS_TRAIN_RESCUE_H

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "comm/comm.h"

struct rescue {
    int64_t every;                 /* steps; 0: off */
    int64_t n_done;                /* multiples of `every` that the last copy, or the start, has passed */
    struct ls_ckpt_writer *writer; /* the leader's; NULL elsewhere */
    char folder[LS_PATH_BYTES];
    bool is_guest;
    int guest; /* the file, if is_guest */
};

void ls__rescue_open(struct rescue *r, const struct ls_comm *comm, int64_t every);
/* After a failed copy: this machine makes none any more, and says so, with the calling thread's message. */
void ls__rescue_give_up(struct rescue *r, const struct ls_comm *comm);
void ls__rescue_close(struct rescue *r);
/* From which step on the run goes: copies are counted from here. */
void ls__rescue_start(struct rescue *r, int64_t step);
/* Whether a multiple of `every` has been passed since the last copy; ls__rescue_start tells that it is made. */
bool ls__rescue_is_due(const struct rescue *r, int64_t step);
/* Collective. *from: the first rank that has a copy of the newest step after `step` of which all n_shards are there, or
 * -1. Every rank that has one of that step gets it, in *ckpt and *path. */
enum ls_status ls__rescue_find(struct rescue *r, struct ls_comm *comm, int64_t step, int n_shards,
                               struct ls_ckpt **ckpt, char path[LS_PATH_BYTES], int *from) LS_MUST_CHECK;

#endif
