/* server_internal.h: the server's data, shared by its files.
 *
 *     server.c           life, the round, the wait
 *     publish.c          parameters for the workers: versions, and who may still read which
 *     server_messages.c  what comes in, and what is answered
 *     server_pieces.c    pushes and parameters in pieces
 *     server_tubes.c     messages of workers that share memory with it
 *     server_workers.c   the list of workers: leases, how much work each gets, the report
 *     server_trial.c     before the first step: how fast workers and network are
 *     server_keepers.c   the other servers: their parts of the store, and what they are told
 */
#ifndef LS_ELASTIC_SERVER_INTERNAL_H
#define LS_ELASTIC_SERVER_INTERNAL_H

#include "base/status_kept.h"
#include "elastic/box.h"
#include "elastic/copies.h"
#include "elastic/ledger.h"
#include "elastic/server.h"

#include <pthread.h>
#include <stdatomic.h>

/* Everybody who ever joined; the number is the place in the list. */
struct server_worker {
    uint64_t peer;
    bool is_here;     /* connected, and has not left */
    bool is_ready;    /* has opened what is trained */
    bool is_idle;     /* waits for work */
    bool is_seen_off; /* it was told that all is over: its going is no news */
    bool is_late;     /* its lease ran out; it may wake up */
    bool has_places;  /* it knows where the other servers are */
    int threads;
    int32_t slot;
    uint32_t pid;
    int64_t joined_ns, left_ns;
    int64_t heard_ns, given_ns; /* its last message; when it got the first work of what it has open */
    int64_t version;            /* of the parameters it has; -1: none */
    int64_t ahead;              /* the version of which it has n_ahead pieces besides */
    int n_ahead;
    bool is_boxed;                   /* its sums, parameters and messages lie in the box */
    struct ls_tube tube;             /* zeroed: it has none */
    int bell[2];                     /* of its end */
    uint64_t last_in_tube;           /* of its messages there */
    int n_unread;                    /* pushes that count, and are not added yet: their sums lie in the box */
    int reads;                       /* the parameters in the box that it may be reading; -1: none */
    uint64_t last_sequence, counted; /* of its messages, and of its pushes the last that is in */
    double rate;                     /* shards per second, by its last pushes; 0: not known */
    double staleness_sum;
    int64_t n_settled;             /* pushes */
    struct ls_elastic_worker told; /* for the report */
    struct ls_server_pause paused; /* since its last push */
    uint32_t asked;                /* the last TRY that it got; 0: none */
    struct ls_talk_tried tried;    /* its last answer */
};

/* Parameters that may be read by somebody. */
struct published {
    struct ls_wire_buffer *buffer; /* NULL: not made yet */
    bool is_boxed;                 /* it is that of the box under the same number */
    int n_readers;                 /* workers that read it in the box */
};

/* One of several servers. Its number is its place in the list, and 1. */
struct server_keeper {
    uint64_t peer;
    bool is_here, is_ready;
    char address[LS_TALK_NAME]; /* where workers find it */
    uint32_t pid;
    int32_t slot;
    int64_t heard_ns;
    uint64_t last_sequence;
    struct ls_wire_message state;  /* that it sent; released when it is in the store */
    struct ls_elastic_server told; /* for the report */
};

/* A push of which some pieces are here, or all. It is its worker's last one, unless it counts. */
struct arriving {
    int worker, n_items, n_here;
    uint32_t push; /* its number */
    bool is_counted;
    enum ls_sums_form form;
    struct ls_wire_message pieces[LS_MAX_PIECES]; /* those that are here and nobody has taken */
    struct arriving *next;
};

struct queued {
    struct ls_server_push push;
    struct queued *next;
};

struct ls_server {
    struct ls_server_options o;
    pthread_mutex_t lock; /* all below, the endpoint too: whoever holds it speaks */
    pthread_t attendant;
    bool is_attended;
    atomic_bool is_ending;
    struct ls_wire *wire;
    uint64_t session, sequence;
    struct server_worker *workers;
    int n_workers;
    struct ls_ledger *ledger;
    struct ls_round round;
    int64_t n_in;       /* of a round of batches: those that are in the store */
    bool is_open;       /* a round has begun and is not over */
    bool is_dealt;      /* every worker got all it will get of it */
    int64_t version;    /* of the published parameters: rounds or updates since this server began */
    int64_t n_settled;  /* pushes */
    struct ls_box *box; /* NULL: none */
    int bell[2];        /* of this end of all tubes; -1: none */
    uint8_t *mail;      /* LS_TALK_HEAD_BYTES: what came in a tube */
    int n_in_tubes;     /* messages since the connections were looked at */
    int next_tube;      /* worker whose tube is looked at first */
    struct published published[LS_BOX_VERSIONS];
    int newest;                            /* of these; -1: none */
    struct queued *first, *last;           /* pushes that count and wait to be added */
    struct arriving *arriving;             /* pushes of this round that come in pieces */
    int n_applied;                         /* pieces of this round that are in the store, or on their way to it */
    int n_whole;                           /* items of this round of pushes that came in one */
    struct ls_copies ahead[LS_MAX_PIECES]; /* of the parameters of a piece, since the first one that left */
    struct ls_kept failure;                /* of a worker or a keeper, for all */
    struct server_keeper keepers[LS_MAX_SERVERS - 1];
    int n_keepers;                                      /* that there must be */
    bool is_handed_out, is_seen_off;                    /* they have their parts; they were told that all is over */
    uint32_t counted[2 * LS_TALK_MAX_ITEMS], n_counted; /* pushes of this round: worker, number, ... */
    uint32_t n_tries;
    double turn_seconds, shard_seconds; /* a question and its answer over the network, a shard; 0: not tried */
    int64_t lonely_ns, checked_ns;      /* since when nobody is here (0: somebody is); last look at the leases */
    struct ls_elastic_result report;
    double staleness_sum;
    uint8_t *head; /* LS_TALK_HEAD_BYTES: messages are made here */
    union ls_talk_body body, reply;
};

/* --- server_messages.c; all under the lock --- */

/* One message, event or timeout. */
enum ls_status ls__server_pump(struct ls_server *s, int timeout_ms, bool *is_something) LS_MUST_CHECK;
/* A message of w's tube or, NULL, of m->peer's connection. */
void ls__server_handle(struct ls_server *s, struct server_worker *w, struct ls_wire_message *m);
/* False where one is no item of any round. */
bool ls__server_read_items(const struct ls_talk_push *p, int *items);
/* A push that does not count: its worker hears it, and others get the work. */
void ls__server_reject(struct ls_server *s, struct server_worker *w, uint64_t push);
/* Work for a worker that is idle, if there is some. */
void ls__server_give(struct ls_server *s, struct server_worker *w);
void ls__server_give_all(struct ls_server *s);
void ls__server_say(struct ls_server *s, struct server_worker *w, enum ls_talk_kind kind, int64_t step,
                    const void *body, struct ls_wire_buffer *payload, size_t bytes);

/* To anybody who joined; LS_REMOTE and its like when it is going, or gone. */
enum ls_status ls__server_send(struct ls_server *s, uint64_t peer, uint32_t sender, enum ls_talk_kind kind,
                               int64_t step, const void *body, struct ls_wire_buffer *payload, size_t bytes,
                               size_t *sent) LS_MUST_CHECK;
/* What is trained; keeper: which one it is, 0: a worker. */
enum ls_status ls__server_welcome(struct ls_server *s, uint64_t peer, int worker, int keeper) LS_MUST_CHECK;

/* --- server_tubes.c; all under the lock --- */

enum ls_status ls__server_open_tubes(struct ls_server *s) LS_MUST_CHECK; /* the box, and the server's bell */
void ls__server_close_tubes(struct ls_server *s);
/* For a worker that has just joined, if nobody has its slot; w->tube says whether. */
void ls__server_open_tube(struct ls_server *s, struct server_worker *w);
void ls__server_close_tube(struct server_worker *w);
/* Handles one message, if there is one. */
bool ls__server_hear_tubes(struct ls_server *s);
/* Receives from the connections, woken by tubes. */
enum ls_status ls__server_receive(struct ls_server *s, int timeout_ms, struct ls_wire_message *m) LS_MUST_CHECK;

/* --- server_pieces.c; all under the lock --- */

/* One piece of a push; takes *m over where it is kept. */
void ls__server_take_piece(struct ls_server *s, struct server_worker *w, const struct ls_frame *f,
                           const struct ls_talk_push *p, struct ls_wire_message *m);
/* Whether anything of this round came in pieces; else the training updates all at once. */
bool ls__server_has_pieces(const struct ls_server *s);
/* The next piece of the step, if it is whole. */
enum ls_status ls__server_next_piece(struct ls_server *s, struct ls_server_piece *out, bool *is_there) LS_MUST_CHECK;
/* What a worker has open is free; how many items. A push of which not all has come is void. */
int ls__server_take_back(struct ls_server *s, int worker);
/* A new round, or none. */
void ls__server_forget_pieces(struct ls_server *s);
void ls__server_drop_ahead(struct ls_server *s);

/* --- server.c --- */

void ls__server_settle_locked(struct ls_server *s, struct ls_server_push *push);

/* --- server_keepers.c; all under the lock --- */

struct server_keeper *ls__server_find_keeper(struct ls_server *s, uint64_t peer); /* NULL: it is none */
void ls__server_add_keeper(struct ls_server *s, uint64_t peer, const struct ls_talk_join *join);
/* Takes *m over where it is kept. */
void ls__server_hear_keeper(struct ls_server *s, struct server_keeper *k, const struct ls_frame *f,
                            struct ls_wire_message *m);
/* It is gone, and with it a part of the parameters: the training ends, unless it has not begun. */
void ls__server_lose_keeper(struct ls_server *s, struct server_keeper *k, const char *why);
void ls__server_look_at_keepers(struct ls_server *s);
bool ls__server_has_keeper_here(const struct ls_server *s);
void ls__server_see_keepers_off(struct ls_server *s, const struct ls_talk_end *end);
/* Before its first work. */
void ls__server_tell_places(struct ls_server *s, struct server_worker *w);
void ls__server_report_keepers(const struct ls_server *s, struct ls_elastic_result *out);

/* --- publish.c --- */

/* A worker that gets work gets the newest parameters: by the box, then it reads them until ls__server_unread, or as the
 * payload that is returned. */
struct ls_wire_buffer *ls__server_hand_over(struct ls_server *s, struct server_worker *w, struct ls_talk_work *work);
void ls__server_unread(struct ls_server *s, struct server_worker *w);
void ls__server_drop_published(struct ls_server *s);

/* --- server_workers.c --- */

struct server_worker *ls__server_find(struct ls_server *s, uint64_t peer); /* NULL: nobody who is here */
enum ls_status ls__server_add(struct ls_server *s, uint64_t peer, const struct ls_talk_join *join,
                              struct server_worker **out) LS_MUST_CHECK;
/* It is gone: what it had is free. */
void ls__server_remove(struct ls_server *s, struct server_worker *w, const char *why);
/* Leases that ran out. */
void ls__server_look_at_leases(struct ls_server *s);
/* Whether the round that begins goes out at once: it takes a few milliseconds, all who compute it wait for it here, and
 * how fast each is has been seen. A question in the middle of so short a step costs more than it could gain. */
bool ls__server_deals(const struct ls_server *s);
/* How many free items to give. */
int ls__server_share(const struct ls_server *s, const struct server_worker *w, bool is_first);
void ls__server_note_push(struct ls_server *s, struct server_worker *w, const struct ls_talk_push *push,
                          bool is_counted, size_t bytes);
void ls__server_note_settled(struct ls_server *s, const struct ls_server_push *push);
int ls__server_number(const struct ls_server *s, const struct server_worker *w);
/* Steps that are done: in a round of batches every batch that is in the store is one. */
int64_t ls__server_step(const struct ls_server *s);

#endif
