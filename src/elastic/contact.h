/* contact.h: a worker's side of the talk (talk.h): joining and joining again, heartbeats, shards as they are given.
 *
 * Threads that compute ask it for shards; whoever has to wait there listens for all. A thread of its own sends the
 * heartbeats of a worker that is busy.
 */
#ifndef LS_ELASTIC_CONTACT_H
#define LS_ELASTIC_CONTACT_H

#include "elastic/talk.h"
#include "elastic/tube.h"
#include "lockstep/control.h"
#include "wire/keys.h"

struct ls_contact;

struct ls_contact_options {
    const char *address, *ticket;
    const struct ls_wire_key *key;    /* NULL: none */
    const struct ls_control *control; /* (optional) */
    double timeout;                   /* without a word of the server; its own counts once it is known */
    int threads, slot;
    const char *serves; /* of a keeper: where it listens; NULL: a worker */
    int number;         /* of a keeper: which one it is to be; 0: any */
};

enum ls_status ls__contact_open(struct ls_contact **out, const struct ls_contact_options *o) LS_MUST_CHECK;
/* Says good-bye; why: NULL, or what keeps it from taking part. */
void ls__contact_close(struct ls_contact **contact, const char *why);

/* What is trained there. */
struct ls_contact_task {
    char *options, *model_name, *model, *identity; /* the task's: ls__contact_task_release */
    double lease, timeout;
    uint64_t session;
    uint32_t box_pid, box_fd, server_bell, worker_bell, worker; /* as in WELCOME */
    int server;                                                 /* of a keeper: which one, from 1; 0: a worker */
    int n_pieces;                                               /* that a push by the connection comes in */
};
void ls__contact_task_release(struct ls_contact_task *t);

enum ls_contact_event {
    LS_CONTACT_TASK,   /* welcome, again if it had joined before: *task is to be opened, then ls__contact_ready */
    LS_CONTACT_WORK,   /* *work: a step begins. Its shards come from ls__contact_next */
    LS_CONTACT_TRY,    /* the server wants to know how fast this worker is: ls__contact_trial has what to do */
    LS_CONTACT_ORDER,  /* a keeper's: ls__contact_order has it */
    LS_CONTACT_OVER,   /* the training is done */
    LS_CONTACT_STOPPED /* the caller wants to stop, and nothing is under way */
};
struct ls_contact_work {
    int64_t step, epoch, batch, version;
    bool is_whole;                     /* all shards of the batch; n_shards is set by who knows */
    struct ls_wire_message parameters; /* newer ones, or none; the caller releases it */
    int boxed;                         /* newer ones in the box; -1: not there */
    bool is_ahead;                     /* newer ones came before it: ls__contact_take_ahead */
};
/* Waits for the next thing to do. LS_TIMEOUT when the server is silent, the status and message of a training that
 * failed. */
enum ls_status ls__contact_wait(struct ls_contact *l, enum ls_contact_event *event, struct ls_contact_task *task,
                                struct ls_contact_work *work) LS_MUST_CHECK;
/* tube: in memory shared with the server, until the next TASK or the server is gone; NULL: none. */
enum ls_status ls__contact_ready(struct ls_contact *l, int64_t n_sums, size_t parameters_bytes, int threads,
                                 const struct ls_tube *tube) LS_MUST_CHECK;
/* What is to be tried; the answer is TRIED. */
void ls__contact_trial(struct ls_contact *l, struct ls_talk_try *out);
void ls__contact_answer(struct ls_contact *l, const struct ls_talk_tried *tried, struct ls_wire_buffer *payload,
                        size_t bytes);
/* For work that is whole: how many shards it is. */
void ls__contact_set_shards(struct ls_contact *l, int n_shards);
/* The next shard of the present work; -1: there are no more, or they are void. Any thread. */
int ls__contact_next(struct ls_contact *l);
/* Whether it would ask the server for more, or wait for what it asked for. */
bool ls__contact_is_asking(struct ls_contact *l);
/* All pieces of the parameters that the work wants; false: they are not all here. The caller releases them. */
bool ls__contact_take_ahead(struct ls_contact *l, int64_t version, struct ls_wire_message *pieces, int n);
/* A piece of the sums, before the last one, which is pushed as below. Not sent: as there. */
enum ls_status ls__contact_push_piece(struct ls_contact *l, uint32_t form, int piece, struct ls_wire_buffer *sums,
                                      size_t bytes, bool *is_sent) LS_MUST_CHECK;
/* The sums of all that was given, or their last piece; NULL: they lie in the box. Not sent (false) when the work has
 * become void: the server is another, or away. */
enum ls_status ls__contact_push(struct ls_contact *l, uint32_t form, int n_pieces, struct ls_wire_buffer *sums,
                                size_t bytes, double compute_seconds, bool *is_sent) LS_MUST_CHECK;
/* The work is void, or becomes so now: its shards are for others, its sums are dropped here. */
void ls__contact_give_back(struct ls_contact *l);
/* Looks what has come; whether the work under way may still count. */
bool ls__contact_is_valid(struct ls_contact *l);

/* --- with several servers --- */

/* The number of the push that comes next, who pushes, and where the other servers are; false: they are as before. */
uint32_t ls__contact_push_number(struct ls_contact *l, uint32_t *worker, uint64_t *session);
bool ls__contact_places(struct ls_contact *l, struct ls_talk_places *places);
/* The next STATE, APPLY or COLLECT; the caller releases it. */
void ls__contact_order(struct ls_contact *l, struct ls_wire_message *m);
enum ls_status ls__contact_say(struct ls_contact *l, enum ls_talk_kind kind, const void *body,
                               struct ls_wire_buffer *payload, size_t bytes) LS_MUST_CHECK;

/* The server is there: it hears why this worker goes, or it has said so itself. */
bool ls__contact_is_known(struct ls_contact *l);
/* The work failed here: the server decides what that means. */
void ls__contact_fail(struct ls_contact *l, enum ls_status status);

#endif
