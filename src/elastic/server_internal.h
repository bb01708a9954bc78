/* server_internal.h: the server's data, shared by its files.
 *
 *     server.c           life, the round, the wait
 *     publish.c          parameters for the workers: versions, and who may still read which
 *     server_messages.c  what comes in, and what is answered
 *     server_workers.c   the list of workers: leases, how much work each gets, the report
 */
#ifndef LS_ELASTIC_SERVER_INTERNAL_H
#define LS_ELASTIC_SERVER_INTERNAL_H

#include "base/status_kept.h"
#include "elastic/box.h"
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
    bool is_last;     /* it was told that the round has no more for it */
    int threads;
    int32_t slot;
    uint32_t pid;
    int64_t heard_ns, given_ns;      /* its last message; when it got the first work of what it has open */
    int64_t version;                 /* of the parameters it has; -1: none */
    bool is_boxed;                   /* its sums and parameters lie in the box */
    int reads;                       /* the parameters in the box that it may be reading; -1: none */
    uint64_t last_sequence, counted; /* of its messages, and of its pushes the last that is in */
    double rate;                     /* shards per second, by its last pushes; 0: not known */
    double staleness_sum;
    int64_t n_settled;             /* pushes */
    struct ls_elastic_worker told; /* for the report */
};

/* Parameters that may be read by somebody. */
struct published {
    struct ls_wire_buffer *buffer; /* NULL: not made yet */
    bool is_boxed;                 /* it is that of the box under the same number */
    int n_readers;                 /* workers that read it in the box */
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
    bool is_open;       /* a round has begun and is not over */
    int64_t version;    /* of the published parameters: rounds or updates since this server began */
    int64_t n_settled;  /* pushes */
    struct ls_box *box; /* NULL: none */
    struct published published[LS_BOX_VERSIONS];
    int newest;                    /* of these; -1: none */
    struct queued *first, *last;   /* pushes that count and wait to be added */
    struct ls_kept failure;        /* of a worker, for all */
    int64_t lonely_ns, checked_ns; /* since when nobody is here (0: somebody is); last look at the leases */
    struct ls_elastic_result report;
    double staleness_sum;
    uint8_t *head; /* LS_TALK_HEAD_BYTES: messages are made here */
    union ls_talk_body body, reply;
};

/* --- server_messages.c; all under the lock --- */

/* One message, event or timeout. */
enum ls_status ls__server_pump(struct ls_server *s, int timeout_ms, bool *is_something) LS_MUST_CHECK;
/* Work for a worker that is idle, if there is some. */
void ls__server_give(struct ls_server *s, struct server_worker *w);
void ls__server_give_all(struct ls_server *s);
void ls__server_say(struct ls_server *s, struct server_worker *w, enum ls_talk_kind kind, int64_t step,
                    const void *body, struct ls_wire_buffer *payload, size_t bytes);

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
/* How many free items to give. */
int ls__server_share(const struct ls_server *s, const struct server_worker *w, bool is_first);
void ls__server_note_push(struct ls_server *s, struct server_worker *w, const struct ls_talk_push *push,
                          bool is_counted, size_t bytes);
void ls__server_note_settled(struct ls_server *s, const struct ls_server_push *push);
int ls__server_number(const struct ls_server *s, const struct server_worker *w);

#endif
