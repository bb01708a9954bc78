/* rescue.h: copies of the training state in memory that outlive the processes.
 *
 * A launcher that may restart the job names a folder in LOCKSTEP_RESCUE, in /dev/shm: memory with a name. The leader of
 * every machine puts a checkpoint there every so many steps. After a restart the newest copy any machine still has is
 * taken, if it is newer than the checkpoint on disk. The launcher removes the folders in the end.
 */
#ifndef LS_TRAIN_RESCUE_H
#define LS_TRAIN_RESCUE_H

#include "base/file.h"
#include "lockstep/checkpoint.h"
#include "lockstep/comm.h"

struct rescue {
    int64_t every;                 /* steps; 0: off */
    struct ls_ckpt_writer *writer; /* the leader's; NULL elsewhere */
    char folder[LS_PATH_BYTES];
};

void rescue_open(struct rescue *r, const struct ls_comm *comm, int64_t every);
/* After a failed copy: this machine makes none any more, and says so, with the calling thread's message. */
void rescue_give_up(struct rescue *r, const struct ls_comm *comm);
void rescue_close(struct rescue *r);
bool rescue_is_due(const struct rescue *r, int64_t step);
/* Collective. *from: the rank that has the newest copy after `step`, or -1. It also gets the copy, in *ckpt. */
enum ls_status rescue_find(struct rescue *r, struct ls_comm *comm, int64_t step, struct ls_ckpt **ckpt,
                           char path[LS_PATH_BYTES], int *from) LS_MUST_CHECK;

#endif
