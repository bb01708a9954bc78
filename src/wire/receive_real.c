/* receive_real.c: what comes in at an endpoint, and what happened to its connections; see endpoint.h. */
#include "base/clock.h"
#include "base/mem.h"
#include "wire/endpoint.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_LOOKS = 14, QUIET_NS = 100000000, MONITOR_EVERY = 64 };
#define LOOK_NS INT64_C(1000000) /* and twice as long before each further look */

struct ls_wire_parts {
    zmq_msg_t head, payload;
    bool has_payload;
};

/* --- who is there --- */

static bool knows(const struct ls_wire *w, uint64_t peer)
{
    for (size_t i = 0; i < w->n_peers; i++)
        if (w->peers[i] == peer) return true;
    return false;
}

/* Arrays grow by doubling. */
static enum ls_status note_peer(struct ls_wire *w, uint64_t peer)
{
    if (knows(w, peer)) return LS_OK;
    if (w->n_peers == w->peers_room) {
        size_t room = w->peers_room ? 2 * w->peers_room : 16;
        TRY(ls__grow(&w->peers, w->peers_room, room, sizeof *w->peers));
        w->peers_room = room;
    }
    w->peers[w->n_peers++] = peer;
    return LS_OK;
}

static enum ls_status happens(struct ls_wire *w, enum ls_wire_event event, uint64_t peer)
{
    if (w->n_happened == w->happened_room) {
        size_t room = w->happened_room ? 2 * w->happened_room : 16;
        TRY(ls__grow(&w->happened, w->happened_room, room, sizeof *w->happened));
        w->happened_room = room;
    }
    w->happened[w->n_happened++] = (struct ls__wire_happening){event, peer};
    return LS_OK;
}

/* An empty message to every peer: one that cannot have it is gone. */
static enum ls_status look_for_gone(struct ls_wire *w)
{
    for (size_t i = 0; i < w->n_peers;) {
        uint8_t id[LS__WIRE_ID_BYTES];
        ls__wire_id_of(w->peers[i], id);
        if (ls__zmq.send(w->socket, id, sizeof id, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
            ls__zmq.send(w->socket, "", 0, ZMQ_DONTWAIT);
        else if (errno == EHOSTUNREACH) {
            TRY(happens(w, LS_WIRE_GONE, w->peers[i]));
            w->peers[i] = w->peers[--w->n_peers];
            continue;
        }
        i++;
    }
    return LS_OK;
}

static enum ls_status look_if_due(struct ls_wire *w, bool *has_looked)
{
    *has_looked = w->n_looks > 0 && ls__now_ns() >= w->next_look_ns;
    if (!*has_looked) return LS_OK;
    w->next_look_ns = ls__now_ns() + (LOOK_NS << (N_LOOKS - w->n_looks));
    w->n_looks--;
    return look_for_gone(w);
}

/* --- what the monitor says --- */

static struct ls__dialled *dialled_at(struct ls_wire *w, const char *endpoint, uint64_t *peer)
{
    for (size_t i = 0; i < w->n_dialled; i++) {
        *peer = LS__WIRE_DIALLED + i;
        if (strcmp(w->dialled[i].endpoint, endpoint) == 0) return &w->dialled[i];
    }
    return NULL;
}

static enum ls_status link_changed(struct ls_wire *w, struct ls__wire_link *link, uint16_t what, uint32_t detail,
                                   uint64_t peer)
{
    const bool was_connected = link->is_connected, is_end = what == ZMQ_EVENT_DISCONNECTED;
    const bool is_mismatch =
        what == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL && detail == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH;
    const bool is_news = !is_end || !link->is_told;
    link->is_connected = what == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
    link->is_told = !link->is_connected && !is_end;
    if (!is_news) return LS_OK;
    return happens(w,
                   link->is_connected ? LS_WIRE_CONNECTED
                   : was_connected    ? LS_WIRE_GONE
                   : is_mismatch      ? LS_WIRE_MISMATCH
                                      : LS_WIRE_REFUSED,
                   peer);
}

static enum ls_status connection_changed(struct ls_wire *w, uint16_t what, uint32_t detail, const char *endpoint)
{
    uint64_t peer = LS_WIRE_SERVER;
    struct ls__dialled *d = w->is_listening ? dialled_at(w, endpoint, &peer) : NULL;
    if (!w->is_listening || d) return link_changed(w, d ? &d->link : &w->link, what, detail, peer);
    if (what != ZMQ_EVENT_HANDSHAKE_SUCCEEDED) { /* somebody's who connected to us */
        w->n_looks = N_LOOKS;
        w->next_look_ns = 0;
    }
    return LS_OK;
}

static enum ls_status read_monitor(struct ls_wire *w)
{
    uint8_t event[6];
    char endpoint[LS__ENDPOINT_BYTES];
    w->n_since_monitor = 0;
    for (;;) {
        uint16_t what;
        uint32_t detail;
        int n = ls__zmq.recv(w->monitor, event, sizeof event, ZMQ_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return LS_OK;
        memcpy(&what, event, sizeof what);
        memcpy(&detail, event + sizeof what, sizeof detail);
        n = ls__zmq.recv(w->monitor, endpoint, sizeof endpoint - 1, ZMQ_DONTWAIT);
        endpoint[n < 0 ? 0 : n < (int)sizeof endpoint ? n : (int)sizeof endpoint - 1] = '\0';
        TRY(connection_changed(w, what, detail, endpoint));
    }
}

/* --- messages --- */

/* The next part, if the message has one more; false: it has not, or ZeroMQ failed. */
static bool next_part(struct ls_wire *w, zmq_msg_t *part, bool *has_more)
{
    if (!*has_more) return false;
    while (ls__zmq.msg_recv(part, w->socket, ZMQ_DONTWAIT) < 0)
        if (errno != EINTR) return false;
    *has_more = ls__zmq.msg_more(part);
    return true;
}

/* The peer of a ROUTER's first part, or false: a name that a stranger chose. */
static bool peer_of(zmq_msg_t *part, uint64_t *peer)
{
    const uint8_t *id = ls__zmq.msg_data(part);
    if (ls__zmq.msg_size(part) != LS__WIRE_ID_BYTES || id[0] > 1) return false;
    *peer = 0;
    for (int i = 0; i < LS__WIRE_ID_BYTES; i++) *peer = *peer << 8 | id[i];
    return true;
}

static void skip_rest(struct ls_wire *w, bool has_more)
{
    zmq_msg_t part;
    while (has_more) {
        ls__zmq.msg_init(&part);
        if (!next_part(w, &part, &has_more)) has_more = false;
        ls__zmq.msg_close(&part);
    }
}

/* The parts of one message into p. *is_whole: it is a head with at most one payload. False: there is no message. */
static bool take_parts(struct ls_wire *w, struct ls_wire_parts *p, uint64_t *peer, bool *is_whole)
{
    bool has_more = true, has_name = true;
    *peer = LS_WIRE_SERVER;
    *is_whole = false;
    if (w->is_listening) {
        if (!next_part(w, &p->head, &has_more)) return false;
        has_name = peer_of(&p->head, peer);
    }
    bool has_head = next_part(w, &p->head, &has_more);
    if (!has_head && !w->is_listening) return false;
    p->has_payload = next_part(w, &p->payload, &has_more);
    *is_whole = has_name && has_head && !has_more && ls__zmq.msg_size(&p->head) > 0;
    skip_rest(w, has_more);
    return true;
}

static void release_parts(struct ls_wire_parts *p)
{
    ls__zmq.msg_close(&p->head);
    ls__zmq.msg_close(&p->payload);
    free(p);
}

/* m becomes the next message if there is one. */
static enum ls_status take_message(struct ls_wire *w, struct ls_wire_message *m)
{
    struct ls_wire_parts *p = malloc(sizeof *p); /* ok: one per message, as ZeroMQ's own */
    bool is_whole = false, is_there = true;
    if (!p) return ls_fail(LS_NOMEM, "out of memory for a message");
    ls__zmq.msg_init(&p->head);
    ls__zmq.msg_init(&p->payload);
    while (is_there && !is_whole) {
        is_there = take_parts(w, p, &m->peer, &is_whole);
        if (is_there && !is_whole && (p->has_payload || ls__zmq.msg_size(&p->head) > 0)) w->stats.n_dropped++;
    }
    if (!is_whole) {
        release_parts(p);
        return LS_OK;
    }
    m->event = LS_WIRE_MESSAGE;
    m->parts = p;
    m->head = ls__zmq.msg_data(&p->head);
    m->head_bytes = ls__zmq.msg_size(&p->head);
    m->payload_bytes = p->has_payload ? ls__zmq.msg_size(&p->payload) : 0;
    m->payload = m->payload_bytes ? ls__zmq.msg_data(&p->payload) : NULL;
    w->stats.messages_received++;
    w->stats.bytes_received += (int64_t)(m->head_bytes + m->payload_bytes);
    w->n_since_monitor++;
    return w->is_listening && m->peer < LS__WIRE_DIALLED ? note_peer(w, m->peer) : LS_OK;
}

void ls_wire_message_release(struct ls_wire_message *m)
{
    if (m->parts) release_parts(m->parts);
    *m = (struct ls_wire_message){.event = LS_WIRE_NOTHING};
}

static bool take_wake(struct ls_wire *w)
{
    uint64_t count;
    if (!atomic_exchange(&w->is_woken, false)) return false;
    ssize_t n = read(w->wake_fd, &count, sizeof count);
    (void)n; /* not there yet: the next wait ends once for nothing */
    return true;
}

/* What the sockets have now. Messages first: what a peer sent before it went is told before that it went. */
static enum ls_status take_now(struct ls_wire *w, struct ls_wire_message *m)
{
    bool has_looked = false; /* which uses the socket after it was read */
    if (w->n_since_monitor >= MONITOR_EVERY) TRY(read_monitor(w));
    TRY(take_message(w, m));
    if (m->event != LS_WIRE_NOTHING) return LS_OK;
    if (w->n_happened == 0) {
        TRY(read_monitor(w));
        TRY(look_if_due(w, &has_looked));
        if (w->n_happened > 0) TRY(take_message(w, m)); /* its last words may have come meanwhile */
        if (m->event != LS_WIRE_NOTHING) return LS_OK;
    }
    if (w->n_happened > 0) {
        m->event = w->happened[0].event;
        m->peer = w->happened[0].peer;
        memmove(w->happened, w->happened + 1, --w->n_happened * sizeof *w->happened);
        return LS_OK;
    }
    w->is_quiet = !has_looked;
    w->quiet_ns = ls__now_ns();
    return LS_OK;
}

static bool take_call(struct ls_wire *w)
{
    const bool is_rung = w->is_rung;
    w->is_rung = false;
    return take_wake(w) || is_rung;
}

/* Sleeps until something may be there; looks at least. False when the time is over and nothing is. */
static bool sleep_until(struct ls_wire *w, int64_t until_ns)
{
    const int64_t now = ls__now_ns();
    int64_t end = until_ns;
    if (w->n_looks > 0 && w->next_look_ns < end) end = w->next_look_ns;
    if (w->quiet_ns + QUIET_NS < end) end = w->quiet_ns + QUIET_NS;
    const int64_t ms = end <= now ? 0 : (end - now + 999999) / 1000000;
    struct pollfd fds[] = {{.fd = w->fds[0], .events = POLLIN},
                           {.fd = w->fds[1], .events = POLLIN},
                           {.fd = w->wake_fd, .events = POLLIN},
                           {.fd = w->watched_fd, .events = POLLIN}};
    const int n = poll(fds, 4, ms > 1000000 ? 1000000 : (int)ms);
    if (n > 0 && (fds[0].revents || fds[1].revents)) w->is_quiet = false;
    if (n > 0 && fds[2].revents) atomic_store(&w->is_woken, true);
    w->is_rung = n > 0 && fds[3].revents;
    const int64_t then = ls__now_ns();
    if (then - w->quiet_ns >= QUIET_NS || (w->n_looks > 0 && then >= w->next_look_ns)) w->is_quiet = false;
    return n > 0 || until_ns > now;
}

enum ls_status ls_wire_receive(struct ls_wire *w, int timeout_ms, struct ls_wire_message *m)
{
    *m = (struct ls_wire_message){.event = LS_WIRE_NOTHING};
    int64_t until = timeout_ms < 0 ? INT64_MAX : timeout_ms == 0 ? 0 : ls__now_ns() + (int64_t)timeout_ms * 1000000;
    do {
        if (!w->is_quiet) TRY(take_now(w, m));
        if (m->event == LS_WIRE_NOTHING && take_call(w)) m->event = LS_WIRE_WOKEN;
        if (m->event != LS_WIRE_NOTHING) return LS_OK;
    } while (sleep_until(w, until));
    return LS_OK;
}
