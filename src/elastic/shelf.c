/* shelf.c: see shelf.h. */
#include "elastic/shelf.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { LOOK_MS = 500, MOST_HELD = 2 * LS_TALK_MAX_ITEMS };

struct held {
    uint32_t worker, number;
    struct ls_shelf_part part;
    struct held *next;
};

/* A worker that was faster than the update. */
struct waiting {
    uint64_t peer;
    int64_t version;
};

struct ls_shelf {
    struct ls_wire *wire; /* the listening thread's, but for its address */
    pthread_t listener;
    bool is_listening;
    atomic_bool is_ending;
    pthread_mutex_t lock; /* all below */
    bool is_begun;
    uint64_t session, sequence;
    int64_t n_sums, version, step; /* version -1: nothing is published */
    struct ls_copies copies;
    struct held *held;
    int n_held;
    struct waiting *waiting;
    size_t n_waiting, waiting_room;
    uint64_t bytes_sent, bytes_received;
    uint8_t *head;
    union ls_talk_body body;
};

/* --- out; under the lock --- */

static void say(struct ls_shelf *s, uint64_t peer, enum ls_talk_kind kind, const void *body,
                struct ls_wire_buffer *payload)
{
    const size_t bytes = payload ? s->copies.bytes : 0;
    const struct ls_frame frame = {
        .session = s->session, .step = s->step, .sequence = ++s->sequence, .payload_bytes = bytes};
    size_t head_bytes;
    enum ls_status status = ls__talk_write(s->head, LS_TALK_HEAD_BYTES, frame, kind, body, &head_bytes);
    if (status == LS_OK) status = ls_wire_send(s->wire, peer, s->head, head_bytes, payload, bytes);
    if (status == LS_OK)
        s->bytes_sent += head_bytes + bytes;
    else
        ls__log(LS_LOG_DEBUG, "a worker: %s", ls_error_message()); /* it is going, or gone */
}

/* Without a payload where it wants an older one. */
static void give(struct ls_shelf *s, uint64_t peer, int64_t wanted)
{
    const struct ls_talk_version part = {.version = s->version};
    say(s, peer, LS_TALK_PART, &part, wanted == s->version ? s->copies.newest : NULL);
}

static void give_waiting(struct ls_shelf *s)
{
    for (size_t i = 0; i < s->n_waiting;) {
        const struct waiting one = s->waiting[i];
        if (one.version > s->version) {
            i++;
            continue;
        }
        s->waiting[i] = s->waiting[--s->n_waiting];
        give(s, one.peer, one.version);
    }
}

/* --- in; under the lock --- */

static void forget_peer(struct ls_shelf *s, uint64_t peer)
{
    for (size_t i = 0; i < s->n_waiting;)
        if (s->waiting[i].peer == peer)
            s->waiting[i] = s->waiting[--s->n_waiting];
        else
            i++;
}

static void on_pull(struct ls_shelf *s, uint64_t peer, int64_t version)
{
    forget_peer(s, peer); /* one wish each */
    if (version <= s->version) {
        give(s, peer, version);
        return;
    }
    if (s->n_waiting == s->waiting_room) {
        const size_t room = s->waiting_room ? 2 * s->waiting_room : 16;
        if (ls__grow(&s->waiting, s->waiting_room, room, sizeof *s->waiting) != LS_OK) return; /* it asks again */
        s->waiting_room = room;
    }
    s->waiting[s->n_waiting++] = (struct waiting){peer, version};
}

static bool is_held(const struct ls_shelf *s, uint32_t worker, uint32_t number)
{
    for (const struct held *h = s->held; h; h = h->next)
        if (h->worker == worker && h->number == number) return true;
    return false;
}

/* Takes *m over if it is held. */
static bool hold(struct ls_shelf *s, uint32_t worker, const struct ls_talk_push *p, struct ls_wire_message *m)
{
    struct held *h;
    if (is_held(s, worker, p->number)) return true; /* it comes again */
    if (s->n_held == MOST_HELD || ls__calloc(&h, 1, sizeof *h) != LS_OK) return false;
    *h = (struct held){worker, p->number, {(enum ls_sums_form)p->form, *m}, s->held};
    *m = (struct ls_wire_message){0};
    s->held = h;
    s->n_held++;
    return true;
}

static void on_push(struct ls_shelf *s, const struct ls_frame *f, const struct ls_talk_push *p,
                    struct ls_wire_message *m)
{
    const struct ls_talk_ack ack = {.push = p->number};
    const uint64_t peer = m->peer;
    const bool is_kept = f->step == s->step && s->version >= 0 && p->form < LS_N_SUMS_FORMS && m->payload &&
                         ls__sums_are_whole((enum ls_sums_form)p->form, m->payload, m->payload_bytes, s->n_sums) &&
                         hold(s, f->sender, p, m);
    say(s, peer, is_kept ? LS_TALK_HELD : LS_TALK_ACK, &ack, NULL);
}

static void handle(struct ls_shelf *s, struct ls_wire_message *m)
{
    struct ls_frame f;
    struct ls_frame_reader r;
    if (!ls_frame_read(m->head, m->head_bytes, m->payload_bytes, &f, &r)) return;
    if (!s->is_begun || f.session != s->session || !ls__talk_read(&f, &r, &s->body)) return; /* a stranger */
    s->bytes_received += m->head_bytes + m->payload_bytes;
    if (f.kind == LS_TALK_PULL) on_pull(s, m->peer, s->body.version.version);
    if (f.kind == LS_TALK_PUSH) on_push(s, &f, &s->body.push, m);
}

static void *listen_to_workers(void *arg)
{
    struct ls_shelf *s = arg;
    while (!atomic_load(&s->is_ending)) {
        struct ls_wire_message m = {0};
        if (ls_wire_receive(s->wire, LOOK_MS, &m) != LS_OK) {
            ls__log(LS_LOG_WARN, "%s", ls_error_message());
            break;
        }
        pthread_mutex_lock(&s->lock);
        if (m.event == LS_WIRE_GONE) forget_peer(s, m.peer);
        if (m.event == LS_WIRE_MESSAGE) handle(s, &m);
        give_waiting(s);
        pthread_mutex_unlock(&s->lock);
        ls_wire_message_release(&m);
    }
    return NULL;
}

/* --- life --- */

static enum ls_status build(struct ls_shelf *s, const char *address, const struct ls_wire_key *key)
{
    s->version = -1;
    TRY(ls__calloc(&s->head, LS_TALK_HEAD_BYTES, 1));
    TRY(ls_wire_listen(&s->wire,
                       &(const struct ls_wire_options){.address = address, .key = key, .max_bytes = LS_TALK_MAX_PART}));
    TRY(ls__thread_start(&s->listener, "the thread that listens to workers", listen_to_workers, s));
    s->is_listening = true;
    return LS_OK;
}

enum ls_status ls__shelf_open(struct ls_shelf **out, const char *address, const struct ls_wire_key *key)
{
    TRY(ls__calloc(out, 1, sizeof **out));
    pthread_mutex_init(&(*out)->lock, NULL);
    enum ls_status status = build(*out, address, key);
    if (status != LS_OK) ls__shelf_close(out);
    return status;
}

static void drop_held(struct ls_shelf *s)
{
    while (s->held) {
        struct held *h = s->held;
        s->held = h->next;
        ls_wire_message_release(&h->part.message);
        free(h);
    }
    s->n_held = 0;
}

void ls__shelf_close(struct ls_shelf **shelf)
{
    struct ls_shelf *s = *shelf;
    if (!s) return;
    atomic_store(&s->is_ending, true);
    if (s->is_listening) {
        ls_wire_wake(s->wire);
        pthread_join(s->listener, NULL);
    }
    drop_held(s);
    ls_wire_close(&s->wire, 0);
    ls__copies_close(&s->copies);
    pthread_mutex_destroy(&s->lock);
    free(s->waiting);
    free(s->head);
    free(s);
    *shelf = NULL;
}

const char *ls__shelf_address(const struct ls_shelf *s)
{
    return ls_wire_address(s->wire);
}

/* --- the keeper's --- */

enum ls_status ls__shelf_begin(struct ls_shelf *s, uint64_t session, int64_t n_sums, size_t bytes)
{
    pthread_mutex_lock(&s->lock);
    drop_held(s);
    s->n_waiting = 0;
    s->session = session;
    s->n_sums = n_sums;
    s->version = -1;
    ls__copies_close(&s->copies);
    enum ls_status status = ls__copies_open(&s->copies, bytes);
    s->is_begun = status == LS_OK;
    pthread_mutex_unlock(&s->lock);
    return status;
}

enum ls_status ls__shelf_publish(struct ls_shelf *s, const struct ls_parameters *parameters, int64_t version,
                                 int64_t step)
{
    struct ls_wire_buffer *buffer;
    TRY(ls__copies_make(&s->copies, parameters, &buffer)); /* this thread alone makes and drops them */
    pthread_mutex_lock(&s->lock);
    s->copies.newest = buffer;
    s->version = version;
    s->step = step;
    drop_held(s);
    pthread_mutex_unlock(&s->lock);
    ls_wire_wake(s->wire);
    return LS_OK;
}

bool ls__shelf_take(struct ls_shelf *s, uint32_t worker, uint32_t number, struct ls_shelf_part *part)
{
    pthread_mutex_lock(&s->lock);
    struct held **at = &s->held, *found;
    while (*at && ((*at)->worker != worker || (*at)->number != number)) at = &(*at)->next;
    found = *at;
    if (found) {
        *part = found->part;
        *at = found->next;
        s->n_held--;
    }
    pthread_mutex_unlock(&s->lock);
    free(found);
    return found != NULL;
}

void ls__shelf_stats(struct ls_shelf *s, uint64_t *sent, uint64_t *received)
{
    pthread_mutex_lock(&s->lock);
    *sent = s->bytes_sent;
    *received = s->bytes_received;
    pthread_mutex_unlock(&s->lock);
}
