/* contact_internal.h: a contact's data, shared by its files.
 *
 *     contact.c        life; what comes in and goes out
 *     contact_work.c   what its owner asks of it: waiting, shards, pushes, orders
 */
#ifndef LS_ELASTIC_CONTACT_INTERNAL_H
#define LS_ELASTIC_CONTACT_INTERNAL_H

#include "base/status_kept.h"
#include "elastic/contact.h"

#include <pthread.h>
#include <stdatomic.h>

enum { LISTEN_MS = 100 };

struct order {
    struct ls_wire_message message;
    struct order *next;
};

struct ls_contact {
    struct ls_contact_options o;
    pthread_mutex_t lock;
    pthread_t beater;
    bool is_beating;
    atomic_bool is_ending;
    struct ls_wire *wire;
    uint64_t session, sequence;
    uint64_t sent;         /* the sequence number of the last message */
    uint64_t pushed;       /* that of the last push; 0: none, or the server has said whether it counts */
    uint64_t acknowledged; /* pushes that count, since it joined */
    uint32_t number;
    bool is_connected, is_joined, is_ready; /* joined: welcome; ready: what is trained is open */
    bool is_task_new;
    struct ls_contact_task task;
    double lease, timeout;
    int64_t heard_ns, beat_ns, joined_ns; /* joined_ns: last JOIN */
    bool is_lost_told;
    bool was_joined;    /* ever: a key that was taken once is not the wrong one */
    bool is_mismatched; /* one of us has a key, the other has none */
    int n_refused;      /* connections since the last that was good */
    bool is_wait_told;
    int64_t opened_ns;
    struct ls_tube tube; /* zeroed: none */
    bool is_in_tube;     /* the server speaks there, so this worker may */
    bool is_soon;        /* the last wait there was short */
    uint64_t tube_sequence;
    uint8_t *mail; /* LS_TALK_HEAD_BYTES: what came in the tube */

    struct ls_talk_try trial;
    bool is_trial_new;

    /* the present work */
    bool has_work; /* given, and not pushed */
    bool is_new;   /* nobody has begun it */
    bool is_void, is_last, is_asked;
    struct ls_contact_work work;
    uint32_t items[LS_TALK_MAX_ITEMS]; /* all that was given */
    int n_items, n_taken;              /* of these, or of the shards of a whole batch */
    int n_shards;                      /* of a whole batch */
    int64_t waited_ns, idle_since_ns;  /* since the last push */

    /* the next parameters */
    struct ls_wire_message ahead[LS_MAX_PIECES];
    int n_ahead, n_pieces; /* that are here; of how many */
    int64_t ahead_version;

    /* with several servers */
    uint32_t n_pushes;
    struct ls_talk_places places;
    bool is_places_new;
    struct order *first_order, *last_order;

    bool is_over, is_failed; /* the server said so; this worker did */
    struct ls_kept outcome;
    uint8_t *head;
    union ls_talk_body body, reply;
};

/* --- contact.c; all under the lock --- */

enum ls_status ls__contact_send(struct ls_contact *l, enum ls_talk_kind kind, const void *body,
                                struct ls_wire_buffer *payload, size_t bytes) LS_MUST_CHECK;
/* A server that is not there hears nothing; we hear that it is gone. */
void ls__contact_send_if_there(struct ls_contact *l, enum ls_talk_kind kind, const void *body);
/* One message, event or timeout. */
enum ls_status ls__contact_pump(struct ls_contact *l, int timeout_ms, bool *is_something) LS_MUST_CHECK;
/* What is under way counts no more. */
void ls__contact_make_void(struct ls_contact *l);
bool ls__contact_take_order(struct ls_contact *l, struct ls_wire_message *m); /* false: there is none */
void ls__contact_drop_ahead(struct ls_contact *l);

#endif
