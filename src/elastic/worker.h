/* worker.h: a process that computes for a server: joins, opens what is trained there, computes what it is given, until
 * the server says that it is over. While the server is away it waits, and joins again when it is back.
 */
#ifndef LS_ELASTIC_WORKER_H
#define LS_ELASTIC_WORKER_H

#include "lockstep/options.h"

struct ls_worker_options {
    const char *address;         /* the server's */
    const char *key;             /* a key file; NULL: none, a server on this machine */
    const char *ticket;          /* that a server gave who started it; NULL: none */
    int slot;                    /* which of those it started; -1 */
    int turn;                    /* among those of its machine: they take its cards in turn */
    bool is_near;                /* no network is between it and any server: packing sums takes longer than sending */
    bool is_beside;              /* it is on the (first) server's machine, and may share memory with it */
    bool is_here;                /* the server's run directory is its own, too: it records itself there */
    const char *listen;          /* of a keeper (keeper.h): where workers find it; NULL: a worker */
    int number;                  /* of a keeper: which one it is to be, from 1; 0: any */
    bool typed;                  /* `own` also says what is to be trained: refused where the server trains another */
    struct ls_train_options own; /* data_dir, isa, tune, threads, timeout, control: this machine's own */
};

/* What became of it: LS_OK when the training is done. *is_told: the server knows of a failure, and tells it. */
enum ls_status ls__worker_run(const struct ls_worker_options *o, bool *is_told) LS_MUST_CHECK;

#endif
