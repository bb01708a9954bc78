/* link.c: messages with an end to every wait, and the heartbeat between leaders. The courier's thread only. */
#include "base/clock.h"
#include "comm/comm_internal.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static enum ls_status check(struct ls_comm *c, int failed)
{
    if (!failed) return LS_OK;
    c->has_failed = true;
    return ls_fail(LS_REMOTE, "rank %d on %s: %s", c->place.rank, c->place.host, c->transport->error());
}

enum ls_status ls__link_begin_send(struct ls_comm *c, const void *data, size_t bytes, int to, int tag,
                                   struct ls_request *request)
{
    c->stats.bytes_sent += (int64_t)bytes;
    return check(c, c->transport->send(data, bytes, to, tag, request));
}

enum ls_status ls__link_begin_receive(struct ls_comm *c, void *data, size_t bytes, int from, int tag,
                                      struct ls_request *request)
{
    return check(c, c->transport->receive(data, bytes, from, tag, request));
}

enum ls_status ls__link_poll(struct ls_comm *c, struct ls_request *const *requests, int n)
{
    return n == 0 ? LS_OK : check(c, c->transport->poll(requests, n));
}

static enum ls_status poll_one(struct ls_comm *c, struct ls_request *request)
{
    return ls__link_poll(c, &request, 1);
}

void ls__link_idle(struct ls_comm *c, int *n_idle)
{
    enum { N_SPINS = 50, N_SHORT = 10, N_LONG = 50 }; /* 20 us, 50 us until 2 ms have passed, then 200 us */
    int n = (*n_idle)++ - (c->may_spin ? N_SPINS : 0);
    if (n < 0) return;
    const struct timespec pause = {0, n < N_SHORT ? 20000 : n < N_LONG ? 50000 : 200000};
    nanosleep(&pause, NULL);
}

/* Now and then while waiting: has somebody died meanwhile? */
static enum ls_status look_around(struct ls_comm *c, int n_idle)
{
    if (n_idle % 256 != 255) return LS_OK;
    if (c->board) TRY(ls__late_node(c, 0));
    return ls__late_ended(c);
}

static enum ls_status finish(struct ls_comm *c, struct ls_request *request, int with, double seconds, const char *what)
{
    int64_t start = ls__now_ns();
    for (int n_idle = 0;;) {
        TRY(poll_one(c, request));
        if (!request->is_open) return LS_OK;
        TRY(ls__link_pump(c));
        ls__link_idle(c, &n_idle);
        TRY(look_around(c, n_idle));
        if (ls__seconds_since(start) < seconds) continue;
        c->has_failed = true;
        const char *host = c->peers ? c->peers[with].host : "";
        return ls_fail(LS_TIMEOUT, "rank %d on %s waited %.3g s to %s rank %d%s%s", c->place.rank, c->place.host,
                       seconds, what, with, *host ? " on " : "", host);
    }
}

enum ls_status ls__link_send(struct ls_comm *c, const void *data, size_t bytes, int to, int tag, double seconds)
{
    struct ls_request request;
    TRY(ls__link_begin_send(c, data, bytes, to, tag, &request));
    return finish(c, &request, to, seconds, "send to");
}

enum ls_status ls__link_receive(struct ls_comm *c, void *data, size_t bytes, int from, int tag, double seconds)
{
    struct ls_request request;
    TRY(ls__link_begin_receive(c, data, bytes, from, tag, &request));
    return finish(c, &request, from, seconds, "hear from");
}

/* --- heartbeat --- */

enum { HURRY_NS = 500000000, LISTEN_NS = 2000000 };

static enum ls_status listen(struct ls_comm *c, int node)
{
    struct heard *h = &c->heard[node];
    if (!h->receiving.is_open)
        return ls__link_begin_receive(c, &h->in, sizeof h->in, c->leaders[node], TAG_BEAT, &h->receiving);
    TRY(poll_one(c, &h->receiving));
    if (!h->receiving.is_open) {
        h->last = h->in;
        h->last.what[WHAT_BYTES - 1] = '\0';
        h->heard_ns = ls__now_ns();
        if (h->in.is_hurried) c->courier.hurried_until_ns = h->heard_ns + HURRY_NS;
    }
    return LS_OK;
}

static enum ls_status speak(struct ls_comm *c, int node)
{
    struct heard *h = &c->heard[node];
    if (h->sending.is_open) TRY(poll_one(c, &h->sending));
    if (h->sending.is_open) return LS_OK;                  /* the last one has not left yet */
    c->stats.bytes_sent -= (int64_t)sizeof c->courier.out; /* not what a user wants counted */
    return ls__link_begin_send(c, &c->courier.out, sizeof c->courier.out, c->leaders[node], TAG_BEAT, &h->sending);
}

/* Between two words of ours. */
static int64_t beat_ns(const struct ls_comm *c, bool is_hurried)
{
    enum { LEAST_NS = 50000000, MOST_NS = 2000000000 };
    double ns = c->timeout / 10 * 1e9;
    if (is_hurried || ns < LEAST_NS) return LEAST_NS;
    return ns > MOST_NS ? MOST_NS : (int64_t)ns;
}

enum ls_status ls__link_pump(struct ls_comm *c)
{
    if (!c->heard) return LS_OK;
    int64_t now = ls__now_ns();
    if (!c->ended_ns && c->is_ended && c->is_ended()) c->ended_ns = now;
    bool is_leaving = atomic_load(&c->is_leaving), is_hurried = c->ended_ns || is_leaving;
    bool is_time = now - c->courier.last_beat_ns >= beat_ns(c, is_hurried || now < c->courier.hurried_until_ns);
    if (is_time) {
        struct seat *s = &c->board->seats[0];
        c->courier.last_beat_ns = now;
        c->courier.out = (struct beat){
            .step = atomic_load(&s->step), .rank = c->place.rank, .is_hurried = is_hurried, .is_leaving = is_leaving};
        memcpy(c->courier.out.what, s->what, WHAT_BYTES - 1);
    }
    if (!is_time && now - c->courier.listened_ns < LISTEN_NS) return LS_OK;
    c->courier.listened_ns = now;
    for (int n = 0; n < c->place.n_nodes; n++) {
        if (n == c->place.node) continue;
        TRY(listen(c, n));
        if (is_time) TRY(speak(c, n));
    }
    if (is_time && is_leaving) atomic_fetch_add(&c->courier.n_last_words, 1);
    return LS_OK;
}

/* One round of the good-bye: what is done is noted; returns how many requests are open. */
static int close_round(struct ls_comm *c, bool is_listening)
{
    int n_open = 0;
    for (int n = 0; n < c->place.n_nodes; n++) {
        struct heard *h = &c->heard[n];
        if (n == c->place.node) continue;
        if (h->sending.is_open && poll_one(c, &h->sending) != LS_OK) return 0;
        if (is_listening && !h->last.is_last && listen(c, n) != LS_OK) return 0;
        n_open += h->sending.is_open || (is_listening && !h->last.is_last);
    }
    return n_open;
}

static void close_rounds(struct ls_comm *c, bool is_listening)
{
    enum { PATIENCE_S = 5 };
    int64_t start = ls__now_ns();
    for (int n_idle = 0; close_round(c, is_listening) > 0 && ls__seconds_since(start) < PATIENCE_S;)
        ls__link_idle(c, &n_idle);
}

void ls__link_close(struct ls_comm *c)
{
    if (!c->heard) return;
    close_rounds(c, false); /* the last heartbeat has left; its memory may change */
    c->courier.out = (struct beat){.rank = c->place.rank, .is_last = 1};
    for (int n = 0; n < c->place.n_nodes; n++)
        if (n != c->place.node && speak(c, n) != LS_OK) return;
    close_rounds(c, true);
}
