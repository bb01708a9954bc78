/* talk.h: what server and workers say to each other. A message is a frame (wire/frame.h) with one of these bodies; the
 * frame has the server's session, the step, the sender's worker number and a number that rises.
 *
 *     worker                                     server
 *     JOIN    who I am                     ->
 *                                          <-    WELCOME   what is trained, or nothing: strangers are not answered
 *     READY   the same is open here        ->
 *                                          <-    WORK      shards of a step, and parameters if the worker's are older
 *     ASK     more of this step?           ->
 *                                          <-    WORK      more; or none, and LAST
 *     PUSH    the sums of all I was given  ->              in one piece or several, the last of which makes it count
 *                                          <-    AHEAD     a piece of the next parameters: everybody's sums of it are
 * in
 *                                          <-    WORK      the next; it names the push before that counted
 *                                          <-    ACK       only for one that did not count
 *     PUSH and LEAVE say how many of its pushes the worker knows to be in; OVER names the last one, as WORK does.
 *     BEAT    I am here                    ->    BEAT
 *                                          <-    TRY       before the first step: compute a little, or just answer
 *     TRIED   how long it took             ->
 *     LEAVE   I go, or cannot take part    ->
 *     FAILED  and why                      ->
 *                                          <-    OVER      and how it ended
 *
 * With several servers (--servers K) the one above is the chief, and the others are keepers: each has a range of the
 * sums (split.h) and of all that they update. A keeper joins the chief as a worker does, and says where it listens:
 *
 *     keeper                                     chief
 *     JOIN, READY, BEAT, LEAVE, FAILED     ->
 *                                          <-    WELCOME, BEAT, OVER
 *                                          <-    STATE     values and optimizer state of its range
 *                                          <-    APPLY     these pushes count: add them, update, publish
 *                                          <-    COLLECT
 *     STATE   as it is now                 ->
 *
 *     worker                                     keeper, which the chief's PLACES names; the chief's session is the key
 *     PULL    this version                 ->
 *                                          <-    PART      its range of it, when it has it; empty: it has a newer one
 *     PUSH    the sums of its range        ->
 *                                          <-    HELD      until the chief says whether it counts; or ACK: it does not
 *
 * A worker tells the chief of a push when all keepers hold their parts of it: what the chief counts is there.
 *
 * Workers that share the server's box (box.h) say all of this there once they are ready, but what has a payload: the
 * server answers in a tube, and a worker that was answered there speaks there. The connection stays: it tells who is
 * gone.
 *
 * A reader gives false for anything that is not exactly such a message; lists and texts have bounds of their own.
 */
#ifndef LS_ELASTIC_TALK_H
#define LS_ELASTIC_TALK_H

#include "elastic/split.h"
#include "wire/frame.h"
#include "wire/wire.h"

enum ls_talk_kind {
    LS_TALK_JOIN = 1,
    LS_TALK_WELCOME,
    LS_TALK_READY,
    LS_TALK_WORK,
    LS_TALK_ASK,
    LS_TALK_PUSH,
    LS_TALK_ACK,
    LS_TALK_BEAT,
    LS_TALK_LEAVE,
    LS_TALK_FAILED,
    LS_TALK_OVER,
    LS_TALK_PLACES,
    LS_TALK_STATE,
    LS_TALK_APPLY,
    LS_TALK_COLLECT,
    LS_TALK_PULL,
    LS_TALK_PART,
    LS_TALK_HELD,
    LS_TALK_TRY,
    LS_TALK_TRIED,
    LS_TALK_AHEAD
};

enum { LS_TALK_MAX_ITEMS = 4096, LS_TALK_TEXT = 1024, LS_TALK_NAME = 128 };
#define LS_TALK_MAX_PART ((size_t)16 << 30) /* bytes of what travels between a worker and a keeper */

struct ls_talk_join {
    char ticket[LS_TALK_NAME], version[LS_TALK_NAME], host[LS_TALK_NAME];
    uint32_t pid, threads;
    int32_t slot;              /* of a worker that the server started; -1 */
    char serves[LS_TALK_NAME]; /* of a keeper: where it listens; "": a worker */
    uint32_t number;           /* of a keeper: which one it is to be, from 1; 0: any */
};

/* Texts are views into the message. */
struct ls_talk_welcome {
    uint32_t worker;
    uint32_t server;                   /* of a keeper: which one, from 1; 0: a worker */
    double lease, timeout;             /* seconds */
    uint32_t box_pid, box_fd;          /* memory that workers of this machine share (box.h); 0: none */
    uint32_t server_bell, worker_bell; /* of this worker's tube in it (tube.h): descriptors of box_pid */
    uint32_t n_pieces;                 /* that a push by the connection comes in (split.h) */
    const uint8_t *options, *model_name, *model, *identity;
    size_t options_bytes, model_name_bytes, model_bytes, identity_bytes;
};

struct ls_talk_ready {
    uint64_t n_sums, parameters_bytes;
    uint32_t threads; /* that compute; in JOIN they may not be known yet, and are 0 */
    bool is_boxed;    /* it reaches the box, and has a slot of its own in it */
};

/* Flags of READY and WORK. */
enum {
    LS_WORK_LAST = 1,
    LS_WORK_HAS_PARAMETERS = 2,
    LS_WORK_WHOLE = 4,
    LS_WORK_BOXED = 8,
    LS_READY_BOXED = 16,
    LS_WORK_AHEAD = 32
};

struct ls_talk_work {
    int64_t epoch, batch;                       /* batch of the epoch */
    int64_t version;                            /* of the parameters */
    uint64_t counted;                           /* sequence number of the worker's last push that is in; 0: none */
    uint32_t batch_n;                           /* samples */
    uint32_t items[LS_TALK_MAX_ITEMS], n_items; /* shards */
    bool is_last, has_parameters;
    uint32_t boxed; /* which parameters of the box */
    bool is_boxed;  /* they lie there, and do not come with the message */
    bool is_ahead;  /* nor do they: all their pieces came before it */
    bool is_whole;  /* items[0] is a batch of the epoch: all its shards are to be computed */
};

struct ls_talk_push {
    int64_t version;
    uint32_t form;                        /* enum ls_sums_form */
    uint32_t number;                      /* of this worker's pushes: the same to all servers, and for all pieces */
    uint32_t piece, n_pieces;             /* which of how many */
    uint64_t acknowledged;                /* of its pushes: how many it knows to be in */
    double compute_seconds, wait_seconds; /* since the last push */
    uint32_t items[LS_TALK_MAX_ITEMS], n_items;
};

/* ACK, HELD */
struct ls_talk_ack {
    uint64_t push; /* its sequence number; of a keeper: its number */
};

struct ls_talk_places {
    uint32_t n;
    char addresses[LS_MAX_SERVERS - 1][LS_TALK_NAME];
};

struct ls_talk_state {
    int64_t version;
    uint64_t bytes_sent, bytes_received; /* by a keeper, from and to workers */
};

struct ls_talk_apply {
    int64_t version; /* that becomes of it */
    int64_t epoch;
    double lr;
    uint32_t batch_n;
    uint32_t pushes[2 * LS_TALK_MAX_ITEMS], n_pushes; /* worker, number, worker, number, ...; how many values */
};

/* COLLECT, PULL, PART */
struct ls_talk_version {
    int64_t version;
};

/* A piece of the parameters that will be this version. */
struct ls_talk_ahead {
    int64_t version;
    uint32_t piece;
};

/* TRY; its payload is nobody's, and so is that of the answer. */
enum { LS_TALK_MAX_TRIED = 4 << 20 };
struct ls_talk_try {
    uint32_t number;
    uint32_t bytes_back; /* of the answer's payload */
    double seconds;      /* rehearse for about so long; 0: do not */
};

struct ls_talk_tried {
    uint32_t number;                                 /* of the TRY */
    uint32_t threads, n_run;                         /* shards computed at once; 0: it did not rehearse */
    double pre_seconds, shard_seconds, join_seconds; /* as struct ls_exec_rehearsal */
};

/* LEAVE, FAILED, OVER */
struct ls_talk_end {
    uint32_t status; /* enum ls_status */
    char text[LS_TALK_TEXT];
    uint64_t counted; /* OVER: as WORK's; LEAVE, FAILED: as PUSH's acknowledged */
};

/* A message with one of these bodies, or none (ASK, BEAT). frame has session, step, sender and sequence. */
enum { LS_TALK_HEAD_BYTES = LS_FRAME_HEAD_BYTES + 64 + 8 * LS_TALK_MAX_ITEMS + 2 * LS_TALK_TEXT };
size_t
ls__talk_welcome_bytes(const struct ls_talk_welcome *b); /* of a head with it; all others fit LS_TALK_HEAD_BYTES */
enum ls_status ls__talk_write(uint8_t *head, size_t size, struct ls_frame frame, enum ls_talk_kind kind,
                              const void *body, size_t *bytes) LS_MUST_CHECK;
/* body: room for the kind's struct. */
bool ls__talk_read(const struct ls_frame *frame, struct ls_frame_reader *r, void *body);

union ls_talk_body {
    struct ls_talk_join join;
    struct ls_talk_welcome welcome;
    struct ls_talk_ready ready;
    struct ls_talk_work work;
    struct ls_talk_push push;
    struct ls_talk_ack ack;
    struct ls_talk_end end;
    struct ls_talk_places places;
    struct ls_talk_state state;
    struct ls_talk_apply apply;
    struct ls_talk_version version;
    struct ls_talk_try try;
    struct ls_talk_tried tried;
    struct ls_talk_ahead ahead;
};

#endif
