/* process.h: what a process uses, read from Linux's /proc. For the recorder of a training and for `lockstep record`.
 *
 *     struct ls_process_use now;
 *     if (!ls__process_read(pid, with_children, &now)) ...      it has ended
 *
 * A few small reads for each process; nothing is kept open, nothing is allocated. What the kernel does not tell
 * (another user's input and output, say) is 0.
 */
#ifndef LS_RECORD_PROCESS_H
#define LS_RECORD_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct ls_process_use {
    int n_processes, n_threads;
    double cpu_seconds;                 /* of all threads since they began */
    int64_t rss_bytes, virtual_bytes;   /* shared pages count in each process that has them, as psrecord does it */
    int64_t n_reads, n_writes;          /* calls */
    int64_t read_bytes, written_bytes;  /* through read(2) and write(2), files and pipes alike */
    int64_t received_bytes, sent_bytes; /* of all network devices but loopback that the process sees */
    int64_t n_switches;                 /* context switches, wanted or not */
};

/* False if there is no such process any more. with_children: the sum over all its descendants. */
bool ls__process_read(pid_t pid, bool with_children, struct ls_process_use *use);

/* Of this process: a size that /proc/self/status has in kB, as "VmHWM"; 0 if it is not there. */
int64_t ls__process_status_bytes(const char *name);

#endif
