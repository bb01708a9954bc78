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
 *     PUSH    the sums of all I was given  ->
 *                                          <-    WORK      the next; it names the push before that counted
 *                                          <-    ACK       only for one that did not count
 *     BEAT    I am here                    ->    BEAT
 *     LEAVE   I go, or cannot take part    ->
 *     FAILED  and why                      ->
 *                                          <-    OVER      and how it ended
 *
 * A reader gives false for anything that is not exactly such a message; lists and texts have bounds of their own.
 */
#ifndef LS_ELASTIC_TALK_H
#define LS_ELASTIC_TALK_H

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
    LS_TALK_OVER
};

enum { LS_TALK_MAX_ITEMS = 4096, LS_TALK_TEXT = 1024, LS_TALK_NAME = 128 };

struct ls_talk_join {
    char ticket[LS_TALK_NAME], version[LS_TALK_NAME], host[LS_TALK_NAME];
    uint32_t pid, threads;
    int32_t slot; /* of a worker that the server started; -1 */
};

/* Texts are views into the message. */
struct ls_talk_welcome {
    uint32_t worker;
    double lease, timeout;    /* seconds */
    uint32_t box_pid, box_fd; /* memory that workers of this machine share (box.h); 0: none */
    const uint8_t *options, *model_name, *model, *identity;
    size_t options_bytes, model_name_bytes, model_bytes, identity_bytes;
};

struct ls_talk_ready {
    uint64_t n_sums, parameters_bytes;
    bool is_boxed; /* it reaches the box, and has a slot of its own in it */
};

/* Flags of READY and WORK. */
enum { LS_WORK_LAST = 1, LS_WORK_HAS_PARAMETERS = 2, LS_WORK_WHOLE = 4, LS_WORK_BOXED = 8, LS_READY_BOXED = 16 };

struct ls_talk_work {
    int64_t epoch, batch;                       /* batch of the epoch */
    int64_t version;                            /* of the parameters */
    uint64_t counted;                           /* sequence number of the worker's last push that is in; 0: none */
    uint32_t batch_n;                           /* samples */
    uint32_t items[LS_TALK_MAX_ITEMS], n_items; /* shards */
    bool is_last, has_parameters;
    uint32_t boxed; /* which parameters of the box */
    bool is_boxed;  /* they lie there, and do not come with the message */
    bool is_whole;  /* items[0] is a batch of the epoch: all its shards are to be computed */
};

struct ls_talk_push {
    int64_t version;
    uint32_t form;                        /* enum ls_sums_form */
    double compute_seconds, wait_seconds; /* since the last push */
    uint32_t items[LS_TALK_MAX_ITEMS], n_items;
};

struct ls_talk_ack {
    uint64_t push; /* its sequence number */
};

/* LEAVE, FAILED, OVER */
struct ls_talk_end {
    uint32_t status; /* enum ls_status */
    char text[LS_TALK_TEXT];
};

/* A message with one of these bodies, or none (ASK, BEAT). frame has session, step, sender and sequence. */
enum { LS_TALK_HEAD_BYTES = LS_FRAME_HEAD_BYTES + 64 + 4 * LS_TALK_MAX_ITEMS + 2 * LS_TALK_TEXT };
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
};

#endif
