/* transport.h: messages between numbered ranks: by MPI (mpi/mpi.c), or over ZeroMQ by nodes that were started one by
 * one (meet.c).
 *
 * MPI's is a plug-in. A plug-in is a shared object with one symbol, `ls_transport`. It uses nothing of the library, so
 * that one binary can load the plug-in of whichever MPI started it. All its functions are called from one thread, the
 * one that called open; they return 0, or put a message into link_error() and return 1.
 */
#ifndef LS_COMM_TRANSPORT_H
#define LS_COMM_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LS_TRANSPORT_ABI = 4, LS_TRANSPORT_MOST = 64 };

struct ls_request {
    uint64_t opaque;
    size_t bytes; /* of a message that has come */
    bool is_open;
};

struct ls_transport {
    int abi;
    const char *name; /* "openmpi", "mpich", "nodes" */
    /* Joins the job. May block until all ranks are there. Returns 0, 1 or the enum ls_status of the failure. */
    int (*open)(int *rank, int *n_ranks);
    void (*close)(void);
    const char *(*describe)(void); /* "Open MPI 4.1.4" */
    const char *(*error)(void);
    /* Messages of one sender, receiver and tag arrive in order. The memory is lent while the request is open. */
    int (*send)(const void *data, size_t bytes, int to, int tag, struct ls_request *request);
    int (*receive)(void *data, size_t bytes, int from, int tag, struct ls_request *request);
    /* One look at n (at most LS_TRANSPORT_MOST) open requests; those that are done are closed. */
    int (*poll)(struct ls_request *const *requests, int n);
    /* (optional) the library's own sum, blocking: to measure ours against it */
    int (*allreduce)(int64_t *data, size_t n);
    /* (optional) whether a rank has gone without taking leave. Where nobody started the job as a whole, nobody ends the
     * others. What waits for it stays open. */
    bool (*is_lost)(int rank);
    bool is_bounded; /* open does not block for ever */
};

#endif
