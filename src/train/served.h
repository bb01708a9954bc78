/* served.h: what the ways with a parameter server (ps, async, ssp:K) share: the server on behalf of a trainer. */
#ifndef LS_TRAIN_SERVED_H
#define LS_TRAIN_SERVED_H

#include "elastic/server.h"
#include "trace/trace.h"
#include "train/sync.h"

struct served {
    struct ls_server *server;
    struct ls_wire_key key;
    char *options, *identity;
    struct ls_sum_split split;
    struct ls_parameters own, *others;  /* [split.n - 1] of the other servers, with the optimizer's state */
    struct ls_sum_split pieces;         /* of the sums on their way, where there are no others */
    struct ls_parameters *ahead, *undo; /* [pieces.n] what the updates by a piece change: for workers; all of it */
    uint8_t *before;            /* what undo had before this step, one piece behind the other; NULL: no room yet */
    int n_applied;              /* pieces of this step that are in the store */
    struct ls_exec_stats stats; /* of these */
    bool is_handed_out;         /* the others have theirs */
    bool is_whole;              /* the store has what the others have */
    bool is_published;          /* the newest parameters */
    unsigned char *applied;     /* async: [steps_per_epoch] batches of this epoch that are in the store */
    bool is_begun;              /* async: the epoch's round */
    struct ls_totals seen;      /* of the main lane, as of the last pause that was told */
};

/* Listens, and tells who wants to know. step: steps done before; staleness: the bound, or -1. */
enum ls_status ls__served_open(struct sync *sync, int64_t step, int64_t staleness) LS_MUST_CHECK;
void ls__served_close(struct sync *sync);
void ls__served_tell(const struct sync *sync, struct ls_elastic_result *out); /* what the workers did so far */
/* By those who are there at the first step; nothing on one machine whose workers count as no nodes. */
enum ls_status ls__served_foretell(struct sync *sync, struct forecast *f) LS_MUST_CHECK;
void ls__served_report(const struct sync *sync, struct ls_result *r);
/* Waits for a push and adds its sums, *push is to be settled; or for a piece, adds and applies it (of a step that
 * ls__served_give_up may still undo). */
enum ls_status ls__served_wait(struct sync *sync, const struct ls_exec_step *step, enum ls_server_event *event,
                               struct ls_server_push *push) LS_MUST_CHECK;
/* The parameters of now, if they are not out yet. */
enum ls_status ls__served_publish(struct sync *sync) LS_MUST_CHECK;
/* The sums that have come so far are dropped; *status of the step that is given up. */
enum ls_status ls__served_give_up(struct sync *sync, enum ls_status status) LS_MUST_CHECK;

#endif
