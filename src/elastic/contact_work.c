/* contact_work.c: what the owner of a contact asks of it. See contact.h, contact_internal.h. */
#include "base/clock.h"
#include "base/control.h"
#include "base/log.h"
#include "elastic/contact_internal.h"

#include <stdio.h>
#include <string.h>

/* --- waiting, working --- */

static enum ls_status wait_locked(struct ls_contact *l, enum ls_contact_event *event, struct ls_contact_task *task,
                                  struct ls_contact_work *work)
{
    for (;;) {
        bool is_something;
        *event = LS_CONTACT_OVER;
        if (l->is_over) return ls__fail_again(&l->outcome);
        *event = LS_CONTACT_TASK;
        if (l->is_task_new) {
            l->is_task_new = false;
            *task = l->task;
            l->task = (struct ls_contact_task){0};
            return LS_OK;
        }
        *event = LS_CONTACT_WORK;
        if (l->is_new) {
            l->is_new = false;
            *work = l->work;
            l->work.parameters = (struct ls_wire_message){0};
            l->waited_ns += ls__now_ns() - l->idle_since_ns;
            return LS_OK;
        }
        *event = LS_CONTACT_TRY;
        if (l->is_trial_new && l->is_ready) return LS_OK;
        *event = LS_CONTACT_ORDER;
        if (l->first_order && l->is_ready) return LS_OK;
        *event = LS_CONTACT_STOPPED;
        if (ls__control_stop_wanted(l->o.control)) return LS_OK;
        TRY(ls__contact_pump(l, LISTEN_MS, &is_something));
    }
}

enum ls_status ls__contact_wait(struct ls_contact *l, enum ls_contact_event *event, struct ls_contact_task *task,
                                struct ls_contact_work *work)
{
    pthread_mutex_lock(&l->lock);
    enum ls_status status = wait_locked(l, event, task, work);
    pthread_mutex_unlock(&l->lock);
    return status;
}

enum ls_status ls__contact_ready(struct ls_contact *l, int64_t n_sums, size_t parameters_bytes, int threads,
                                 const struct ls_tube *tube)
{
    const struct ls_talk_ready ready = {.n_sums = (uint64_t)n_sums,
                                        .parameters_bytes = parameters_bytes,
                                        .threads = (uint32_t)threads,
                                        .is_boxed = tube};
    pthread_mutex_lock(&l->lock);
    l->o.threads = threads;
    l->is_ready = l->is_joined && !l->is_task_new;
    l->idle_since_ns = ls__now_ns();
    if (l->is_ready) ls__contact_send_if_there(l, LS_TALK_READY, &ready);
    if (l->is_ready && tube) {
        l->tube = *tube;
        l->tube_sequence = 0;
        ls_wire_watch(l->wire, tube->bell);
    }
    pthread_mutex_unlock(&l->lock);
    return LS_OK;
}

void ls__contact_trial(struct ls_contact *l, struct ls_talk_try *out)
{
    pthread_mutex_lock(&l->lock);
    *out = l->trial;
    l->is_trial_new = false;
    pthread_mutex_unlock(&l->lock);
}

void ls__contact_answer(struct ls_contact *l, const struct ls_talk_tried *tried, struct ls_wire_buffer *payload,
                        size_t bytes)
{
    pthread_mutex_lock(&l->lock);
    l->idle_since_ns = ls__now_ns();
    if (ls__contact_send(l, LS_TALK_TRIED, tried, payload, bytes) != LS_OK)
        ls__log(LS_LOG_DEBUG, "%s", ls_error_message()); /* the server is gone: who waits for work hears it */
    pthread_mutex_unlock(&l->lock);
}

void ls__contact_set_shards(struct ls_contact *l, int n_shards)
{
    pthread_mutex_lock(&l->lock);
    l->n_shards = n_shards;
    pthread_mutex_unlock(&l->lock);
}

/* Asks for more while there is still something to do; takes what has come. */
static int next_locked(struct ls_contact *l)
{
    const bool is_whole = l->work.is_whole;
    for (;;) {
        bool is_something = true;
        const int n = is_whole ? l->n_shards : l->n_items;
        if (l->is_void) return -1;
        if (!is_whole && !l->is_last && !l->is_asked && n - l->n_taken <= 1) {
            l->is_asked = true;
            ls__contact_send_if_there(l, LS_TALK_ASK, NULL);
        }
        if (l->n_taken < n) {
            const int at = l->n_taken++;
            return is_whole ? at : (int)l->items[at];
        }
        if (is_whole || l->is_last) return -1;
        const int64_t began = ls__now_ns();
        if (ls__contact_pump(l, LISTEN_MS, &is_something) !=
            LS_OK) { /* the server is silent: who waits for work will say so */
            ls__contact_make_void(l);
            return -1;
        }
        l->waited_ns += ls__now_ns() - began;
    }
}

int ls__contact_next(struct ls_contact *l)
{
    pthread_mutex_lock(&l->lock);
    const int shard = next_locked(l);
    pthread_mutex_unlock(&l->lock);
    return shard;
}

bool ls__contact_is_asking(struct ls_contact *l)
{
    pthread_mutex_lock(&l->lock);
    const int n_left = l->n_items - l->n_taken;
    const bool is_asking = !l->work.is_whole && !l->is_last && (n_left == 0 || (!l->is_asked && n_left == 1));
    pthread_mutex_unlock(&l->lock);
    return is_asking;
}

bool ls__contact_take_ahead(struct ls_contact *l, int64_t version, struct ls_wire_message *pieces, int n)
{
    pthread_mutex_lock(&l->lock);
    const bool is_there = l->ahead_version == version && l->n_ahead == n;
    for (int i = 0; is_there && i < n; i++) {
        pieces[i] = l->ahead[i];
        l->ahead[i] = (struct ls_wire_message){0};
    }
    ls__contact_drop_ahead(l);
    pthread_mutex_unlock(&l->lock);
    return is_there;
}

/* sums NULL: what was given goes back. Whether it left. */
static bool send_push(struct ls_contact *l, uint32_t form, int piece, int n_pieces, struct ls_wire_buffer *sums,
                      size_t bytes, double compute_seconds)
{
    struct ls_talk_push *p = &l->reply.push;
    p->version = l->work.version;
    p->form = form;
    p->number = l->n_pushes;
    p->piece = (uint32_t)piece;
    p->n_pieces = (uint32_t)n_pieces;
    p->acknowledged = l->acknowledged;
    p->compute_seconds = compute_seconds;
    p->wait_seconds = (double)l->waited_ns * 1e-9;
    p->n_items = (uint32_t)l->n_items;
    memcpy(p->items, l->items, (size_t)l->n_items * sizeof *p->items);
    return !l->is_void && l->has_work && ls__contact_send(l, LS_TALK_PUSH, p, sums, bytes) == LS_OK;
}

enum ls_status ls__contact_push_piece(struct ls_contact *l, uint32_t form, int piece, struct ls_wire_buffer *sums,
                                      size_t bytes, bool *is_sent)
{
    pthread_mutex_lock(&l->lock);
    *is_sent = send_push(l, form, piece, l->n_pieces, sums, bytes, 0);
    pthread_mutex_unlock(&l->lock);
    return LS_OK;
}

static void push_locked(struct ls_contact *l, uint32_t form, int n_pieces, struct ls_wire_buffer *sums, size_t bytes,
                        double compute_seconds, bool *is_sent)
{
    *is_sent = send_push(l, form, n_pieces - 1, n_pieces, sums, bytes, compute_seconds);
    if (*is_sent) l->pushed = l->sent;
    l->n_pushes++;
    l->has_work = l->is_void = false;
    l->waited_ns = 0;
    l->idle_since_ns = ls__now_ns();
}

enum ls_status ls__contact_push(struct ls_contact *l, uint32_t form, int n_pieces, struct ls_wire_buffer *sums,
                                size_t bytes, double compute_seconds, bool *is_sent)
{
    pthread_mutex_lock(&l->lock);
    push_locked(l, form, n_pieces, sums, bytes, compute_seconds, is_sent);
    pthread_mutex_unlock(&l->lock);
    return LS_OK;
}

void ls__contact_give_back(struct ls_contact *l)
{
    bool is_sent;
    pthread_mutex_lock(&l->lock);
    push_locked(l, 0, 1, NULL, 0, 0, &is_sent);
    pthread_mutex_unlock(&l->lock);
}

bool ls__contact_is_valid(struct ls_contact *l)
{
    bool is_something = true;
    pthread_mutex_lock(&l->lock);
    while (is_something)
        if (ls__contact_pump(l, 0, &is_something) != LS_OK) { /* the server is silent: who waits for work will say so */
            ls__contact_make_void(l);
            is_something = false;
        }
    const bool is_valid = l->has_work && !l->is_void && !l->is_over;
    pthread_mutex_unlock(&l->lock);
    return is_valid;
}

/* --- with several servers --- */

uint32_t ls__contact_push_number(struct ls_contact *l, uint32_t *worker, uint64_t *session)
{
    pthread_mutex_lock(&l->lock);
    const uint32_t number = l->n_pushes;
    *worker = l->number;
    *session = l->session;
    pthread_mutex_unlock(&l->lock);
    return number;
}

bool ls__contact_places(struct ls_contact *l, struct ls_talk_places *places)
{
    pthread_mutex_lock(&l->lock);
    const bool is_new = l->is_places_new;
    if (is_new) *places = l->places;
    l->is_places_new = false;
    pthread_mutex_unlock(&l->lock);
    return is_new;
}

void ls__contact_order(struct ls_contact *l, struct ls_wire_message *m)
{
    *m = (struct ls_wire_message){0};
    pthread_mutex_lock(&l->lock);
    (void)ls__contact_take_order(l, m);
    pthread_mutex_unlock(&l->lock);
}

enum ls_status ls__contact_say(struct ls_contact *l, enum ls_talk_kind kind, const void *body,
                               struct ls_wire_buffer *payload, size_t bytes)
{
    pthread_mutex_lock(&l->lock);
    enum ls_status status = ls__contact_send(l, kind, body, payload, bytes);
    pthread_mutex_unlock(&l->lock);
    return status;
}

void ls__contact_fail(struct ls_contact *l, enum ls_status status)
{
    struct ls_talk_end end = {.status = (uint32_t)status};
    snprintf(end.text, sizeof end.text, "%s", ls_error_message());
    pthread_mutex_lock(&l->lock);
    end.counted = l->acknowledged;
    if (l->is_joined) ls__contact_send_if_there(l, LS_TALK_FAILED, &end);
    l->is_failed = l->is_joined;
    l->is_joined = false; /* no LEAVE behind it */
    pthread_mutex_unlock(&l->lock);
}

bool ls__contact_is_known(struct ls_contact *l)
{
    pthread_mutex_lock(&l->lock);
    const bool is_known = l->is_joined || l->is_over || l->is_failed;
    pthread_mutex_unlock(&l->lock);
    return is_known;
}
