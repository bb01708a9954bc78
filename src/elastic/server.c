/* server.c: the server's life, its rounds and its wait. See server.h. */
#include "elastic/server.h"

#include "base/clock.h"
#include "base/control.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "elastic/server_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* --- life --- */

/* While the training does something else: newcomers, heartbeats, leases. */
static void *attend(void *arg)
{
    struct ls_server *s = arg;
    const int64_t nap_ns = (int64_t)(1e9 * (s->o.lease < 2 ? s->o.lease / 8 : 0.25));
    const struct timespec nap = {.tv_sec = nap_ns / 1000000000, .tv_nsec = nap_ns % 1000000000};
    while (!atomic_load(&s->is_ending)) {
        nanosleep(&nap, NULL);
        if (pthread_mutex_trylock(&s->lock) != 0) continue; /* the training waits itself */
        bool is_something = true;
        for (int i = 0; i < 1000 && is_something; i++)
            if (ls__server_pump(s, 0, &is_something) != LS_OK) is_something = false;
        pthread_mutex_unlock(&s->lock);
    }
    return NULL;
}

static enum ls_status build(struct ls_server *s)
{
    size_t longest = ls__sums_bound(LS_SUMS_PACKED, s->o.n_sums);
    if (s->n_keepers > 0) longest = LS_TALK_MAX_PART; /* a keeper's values and state come in one piece */
    const struct ls_wire_options wo = {.address = s->o.address, .key = s->o.key, .max_bytes = longest + (64u << 20)};
    if (getrandom(&s->session, sizeof s->session, 0) != sizeof s->session)
        return ls_fail(LS_IO, "no random number for the session: %s", strerror(errno));
    TRY(ls__calloc(&s->head, LS_TALK_HEAD_BYTES, 1));
    TRY(ls__ledger_create(&s->ledger, s->o.staleness));
    s->newest = -1;
    TRY(ls__server_open_tubes(s));
    TRY(ls_wire_listen(&s->wire, &wo));
    ls_wire_watch(s->wire, s->bell[0]);
    s->lonely_ns = s->checked_ns = ls__now_ns();
    TRY(ls__thread_start(&s->attendant, "the server's second thread", attend, s));
    s->is_attended = true;
    return LS_OK;
}

enum ls_status ls__server_open(struct ls_server **out, const struct ls_server_options *o)
{
    TRY(ls__calloc(out, 1, sizeof **out));
    (*out)->o = *o;
    (*out)->round.step = o->step;
    (*out)->n_keepers = o->n_servers > 1 ? o->n_servers - 1 : 0;
    pthread_mutex_init(&(*out)->lock, NULL);
    enum ls_status status = build(*out);
    if (status != LS_OK) ls__server_close(out, status);
    return status;
}

/* who_is_late: they count too. They may be busy, not gone. */
static bool is_anybody_here(const struct ls_server *s, bool who_is_late)
{
    for (int i = 0; i < s->n_workers; i++)
        if (s->workers[i].is_here && (who_is_late || !s->workers[i].is_late)) return true;
    return false;
}

static void drop_queue(struct ls_server *s)
{
    while (s->first) {
        struct queued *q = s->first;
        s->first = q->next;
        s->workers[q->push.worker].is_idle = true;
        s->workers[q->push.worker].n_unread -= q->push.is_boxed;
        ls_wire_message_release(&q->push.message);
        free(q);
    }
    s->last = NULL;
}

/* Until they have heard it: a connection that is closed while something comes in may lose what was sent. */
static void see_off(struct ls_server *s, struct ls_talk_end *end)
{
    const int64_t began = ls__now_ns();
    const double patience = 3;
    bool is_something;
    s->is_open = false;
    for (int i = 0; i < s->n_workers; i++) {
        if (!s->workers[i].is_here) continue;
        end->counted = s->workers[i].counted;
        ls__server_say(s, &s->workers[i], LS_TALK_OVER, s->round.step, end, NULL, 0);
    }
    for (int i = 0; i < s->n_workers; i++) s->workers[i].is_seen_off = true;
    ls__server_see_keepers_off(s, end);
    while ((is_anybody_here(s, true) || ls__server_has_keeper_here(s)) && ls__seconds_since(began) < patience)
        if (ls__server_pump(s, 20, &is_something) != LS_OK) return;
}

void ls__server_close(struct ls_server **server, enum ls_status outcome)
{
    enum { LINGER_MS = 200 };
    struct ls_server *s = *server;
    struct ls_talk_end end = {.status = (uint32_t)outcome};
    if (!s) return;
    const struct ls_kept why = ls__keep(outcome); /* who cannot be told leaves a message of its own */
    if (outcome != LS_OK) snprintf(end.text, sizeof end.text, "%s", ls_error_message());
    atomic_store(&s->is_ending, true);
    if (s->is_attended) pthread_join(s->attendant, NULL);
    if (s->wire) see_off(s, &end);
    drop_queue(s);
    ls_wire_close(&s->wire, LINGER_MS);
    for (int i = 0; i < s->n_keepers; i++) ls_wire_message_release(&s->keepers[i].state);
    ls__server_drop_published(s);
    ls__server_forget_pieces(s);
    ls__server_drop_ahead(s);
    ls__server_close_tubes(s);
    ls__ledger_destroy(&s->ledger);
    pthread_mutex_destroy(&s->lock);
    free(s->workers);
    free(s->head);
    free(s);
    *server = NULL;
    const enum ls_status same = ls__fail_again(&why);
    (void)same;
}

enum ls_status ls__server_await(struct ls_server *s)
{
    enum { LOOK_MS = 20 };
    enum ls_status status = LS_OK;
    bool is_something;
    pthread_mutex_lock(&s->lock);
    while (status == LS_OK && s->o.is_coming && s->o.is_coming(s->o.context) && !ls__control_stop_wanted(s->o.control))
        status = ls__server_pump(s, LOOK_MS, &is_something);
    pthread_mutex_unlock(&s->lock);
    return status;
}

const char *ls__server_address(const struct ls_server *s)
{
    return ls_wire_address(s->wire);
}

/* --- rounds --- */

enum ls_status ls__server_begin(struct ls_server *s, const struct ls_round *round)
{
    pthread_mutex_lock(&s->lock);
    enum ls_status status = ls__ledger_begin(s->ledger, round->n_items, round->done);
    s->round = *round;
    s->round.done = NULL;
    s->n_in = 0;
    for (int i = 0; round->is_batches && round->done && i < round->n_items; i++) s->n_in += round->done[i] != 0;
    s->n_counted = 0;
    ls__server_forget_pieces(s);
    s->is_open = status == LS_OK;
    s->is_dealt = ls__server_deals(s);
    ls__server_give_all(s);
    pthread_mutex_unlock(&s->lock);
    return status;
}

void ls__server_abandon(struct ls_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->is_open = false;
    for (int i = 0; i < s->n_workers; i++) ls__server_take_back(s, i);
    drop_queue(s);
    ls__server_forget_pieces(s);
    pthread_mutex_unlock(&s->lock);
}

static enum ls_status give_up(const struct ls_server *s)
{
    return ls_fail(LS_TIMEOUT,
                   "no worker for %.3g s (--timeout) at step %lld; start one with: lockstep train --server %s",
                   s->o.timeout, (long long)ls__server_step(s) + 1, ls_wire_address(s->wire));
}

static bool take_queued(struct ls_server *s, struct ls_server_push *push)
{
    struct queued *q = s->first;
    if (!q) return false;
    *push = q->push;
    push->begin = s->o.pieces->ranges[s->n_applied].begin;
    s->n_whole += q->push.n_items;
    s->first = q->next;
    if (!s->first) s->last = NULL;
    free(q);
    return true;
}

/* All that is to be added to the store is there, or nothing is: then the training updates it at once. */
static bool is_done(const struct ls_server *s)
{
    return ls__ledger_is_done(s->ledger) && (!ls__server_has_pieces(s) || s->n_applied == s->o.pieces->n);
}

static enum ls_status wait_locked(struct ls_server *s, enum ls_server_event *event, struct ls_server_push *push,
                                  struct ls_server_piece *piece)
{
    enum { LOOK_MS = 100 };
    for (;;) {
        bool is_something, is_piece;
        TRY(ls__fail_again(&s->failure));
        *event = LS_SERVER_PUSH;
        if (take_queued(s, push)) return LS_OK;
        *event = LS_SERVER_PIECE;
        TRY(ls__server_next_piece(s, piece, &is_piece));
        if (is_piece) return LS_OK;
        *event = LS_SERVER_DONE;
        if (is_done(s)) {
            if (!s->round.is_batches) s->is_open = false;
            return LS_OK;
        }
        *event = LS_SERVER_STOPPED;
        const bool is_alone = !is_anybody_here(s, false);
        if (is_alone && ls__control_stop_wanted(s->o.control)) return LS_OK;
        if (is_alone && s->o.is_hopeless && s->o.is_hopeless(s->o.context))
            return ls_fail(LS_REMOTE, "all workers are gone at step %lld", (long long)ls__server_step(s) + 1);
        if (is_alone && s->lonely_ns && ls__seconds_since(s->lonely_ns) > s->o.timeout) return give_up(s);
        TRY(ls__server_pump(s, LOOK_MS, &is_something));
    }
}

enum ls_status ls__server_wait(struct ls_server *s, enum ls_server_event *event, struct ls_server_push *push,
                               struct ls_server_piece *piece)
{
    pthread_mutex_lock(&s->lock);
    enum ls_status status = wait_locked(s, event, push, piece);
    pthread_mutex_unlock(&s->lock);
    return status;
}

void ls__server_settle_locked(struct ls_server *s, struct ls_server_push *push)
{
    s->n_settled++;
    if (s->round.is_batches) s->n_in += push->n_items;
    if (s->n_keepers > 0 && s->n_counted + 2 <= sizeof s->counted / sizeof s->counted[0]) {
        s->counted[s->n_counted++] = (uint32_t)push->worker;
        s->counted[s->n_counted++] = push->push;
    }
    ls__server_note_settled(s, push);
    struct server_worker *w = &s->workers[push->worker];
    w->is_idle = true; /* its sums are in: they may be written over */
    w->n_unread -= push->is_boxed;
    ls_wire_message_release(&push->message);
    w->counted = push->number; /* its next work says so */
    ls__server_give_all(s);
}

void ls__server_settle(struct ls_server *s, struct ls_server_push *push)
{
    pthread_mutex_lock(&s->lock);
    ls__server_settle_locked(s, push);
    pthread_mutex_unlock(&s->lock);
}
