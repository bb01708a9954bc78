/* wire_real.c: endpoints over ZeroMQ: made, ended, sent from. What comes in is receive_real.c's. */
#include "base/clock.h"
#include "base/mem.h"
#include "wire/endpoint.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    MAX_BYTES = 1 << 30,
    MAX_WAITING = 1000,
    RECONNECT_MS = 100,
    RECONNECT_MAX_MS = 1000,
    HANDSHAKE_MS = 10000, /* a stranger that says nothing is cut off */
    ATTACH_MS = 200       /* the monitor says it is connected a moment before it can be sent to */
};

/* --- the library --- */

struct ls__zmq ls__zmq;
static char library_name[32];
static struct {
    pthread_mutex_t lock;
    bool is_loaded;
} loading = {.lock = PTHREAD_MUTEX_INITIALIZER};

static enum ls_status load(void)
{
    static const char *const files[] = {"libzmq.so.5", "libzmq.so"};
    const struct {
        const char *name;
        void *to;
    } symbols[] = {
#define SYMBOL(ret, name, args) {"zmq_" #name, &ls__zmq.name},
        LS__ZMQ_MAP(SYMBOL)
#undef SYMBOL
    };
    void *library = NULL;
    for (int i = 0; i < 2 && !library; i++) library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return ls_fail(LS_UNSUPPORTED, "parameter servers and jobs by --nodes need ZeroMQ, which is not installed; on "
                                       "Debian: apt install libzmq5 (mpirun needs none of it)");
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *found = dlsym(library, symbols[i].name);
        if (!found) return ls_fail(LS_UNSUPPORTED, "libzmq has no %s; it is too old", symbols[i].name);
        memcpy(symbols[i].to, &found, sizeof found);
    }
    int major, minor, patch;
    ls__zmq.version(&major, &minor, &patch);
    snprintf(library_name, sizeof library_name, "ZeroMQ %d.%d.%d", major, minor, patch);
    if (major * 100 + minor < 403) return ls_fail(LS_UNSUPPORTED, "%s is too old; 4.3 is needed", library_name);
    if (!ls__zmq.has("curve")) return ls_fail(LS_UNSUPPORTED, "this libzmq was built without CURVE (encryption)");
    return LS_OK;
}

enum ls_status ls_wire_load(void)
{
    enum ls_status status = LS_OK;
    pthread_mutex_lock(&loading.lock);
    if (!loading.is_loaded) status = load();
    loading.is_loaded = status == LS_OK;
    pthread_mutex_unlock(&loading.lock);
    return status;
}

const char *ls_wire_library(void)
{
    return library_name;
}

enum ls_status ls__wire_keypair(char public_key[LS_WIRE_KEY_CHARS + 1], char secret_key[LS_WIRE_KEY_CHARS + 1])
{
    TRY(ls_wire_load());
    if (ls__zmq.curve_keypair(public_key, secret_key) == 0) return LS_OK;
    return ls_fail(LS_ERROR, "ZeroMQ: cannot make keys: %s", ls__zmq.strerror(errno));
}

/* --- an endpoint's life --- */

static enum ls_status failed(const char *what)
{
    return ls_fail(LS_ERROR, "ZeroMQ: %s: %s", what, ls__zmq.strerror(errno));
}

static enum ls_status set_int(void *socket, int option, int value)
{
    return ls__zmq.setsockopt(socket, option, &value, sizeof value) == 0 ? LS_OK : failed("set an option");
}

static enum ls_status set_key(void *socket, int option, const char *z85)
{
    return ls__zmq.setsockopt(socket, option, z85, LS_WIRE_KEY_CHARS + 1) == 0
               ? LS_OK
               : ls_fail(LS_USAGE, "a key of the key file is not valid");
}

/* Before bind, and again before a dial: what is set counts from then on. */
static enum ls_status set_keys(struct ls_wire *w, bool is_server)
{
    if (!w->has_key) return LS_OK;
    if (is_server) {
        TRY(set_int(w->socket, ZMQ_CURVE_SERVER, 1));
        TRY(set_key(w->socket, ZMQ_CURVE_SECRETKEY, w->key.secret_key));
        return ls__zmq.setsockopt(w->socket, ZMQ_ZAP_DOMAIN, "lockstep", 8) == 0 ? LS_OK : failed("set an option");
    }
    if (!w->key.server_key[0])
        return ls_fail(LS_USAGE, "this key file cannot connect (it has no 'server' line): it is a server's; give "
                                 "worker.key, or node.key on every node of a job by --nodes");
    TRY(set_int(w->socket, ZMQ_CURVE_SERVER, 0));
    TRY(set_key(w->socket, ZMQ_CURVE_PUBLICKEY, w->key.public_key));
    TRY(set_key(w->socket, ZMQ_CURVE_SECRETKEY, w->key.secret_key));
    return set_key(w->socket, ZMQ_CURVE_SERVERKEY, w->key.server_key);
}

static enum ls_status set_options(struct ls_wire *w, const struct ls_wire_options *o)
{
    int waiting = o->max_waiting > 0 ? o->max_waiting : MAX_WAITING;
    int64_t max = o->max_bytes > 0 ? (int64_t)o->max_bytes : MAX_BYTES;
    w->max_bytes = (size_t)max;
    if (ls__zmq.setsockopt(w->socket, ZMQ_MAXMSGSIZE, &max, sizeof max) != 0) return failed("set an option");
    TRY(set_int(w->socket, ZMQ_SNDHWM, waiting));
    TRY(set_int(w->socket, ZMQ_RCVHWM, waiting));
    TRY(set_int(w->socket, ZMQ_LINGER, 0));
    TRY(set_int(w->socket, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS));
    TRY(set_int(w->socket, ZMQ_RECONNECT_IVL, RECONNECT_MS));
    TRY(set_int(w->socket, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS));
    TRY(set_int(w->socket, ZMQ_TCP_KEEPALIVE, 1));
    return w->is_listening ? set_int(w->socket, ZMQ_ROUTER_MANDATORY, 1) : set_int(w->socket, ZMQ_IMMEDIATE, 1);
}

static enum ls_status watch(struct ls_wire *w)
{
    char name[64];
    const int events = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                       ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_DISCONNECTED;
    snprintf(name, sizeof name, "inproc://monitor-%p", (void *)w);
    if (ls__zmq.socket_monitor(w->socket, name, events) != 0) return failed("watch connections");
    w->monitor = ls__zmq.socket(w->context, ZMQ_PAIR);
    if (!w->monitor || ls__zmq.connect(w->monitor, name) != 0) return failed("watch connections");
    return set_int(w->monitor, ZMQ_LINGER, 0);
}

static enum ls_status find_fds(struct ls_wire *w)
{
    size_t len = sizeof w->fds[0];
    if (ls__zmq.getsockopt(w->socket, ZMQ_FD, &w->fds[0], &len) != 0 ||
        ls__zmq.getsockopt(w->monitor, ZMQ_FD, &w->fds[1], &len) != 0)
        return failed("sleep on a socket");
    return LS_OK;
}

static enum ls_status bind_to(struct ls_wire *w, const struct ls__wire_place *place, const char *address)
{
    size_t len = sizeof w->address;
    TRY(set_int(w->socket, ZMQ_IPV6, place->is_v6));
    if (ls__zmq.bind(w->socket, place->endpoint) != 0)
        return ls_fail(LS_IO, "listen on %s: %s", address, ls__zmq.strerror(errno));
    if (ls__zmq.getsockopt(w->socket, ZMQ_LAST_ENDPOINT, w->address, &len) != 0) return failed("own address");
    if (strncmp(w->address, "tcp://", 6) == 0) memmove(w->address, w->address + 6, strlen(w->address) - 5);
    return LS_OK;
}

static enum ls_status build(struct ls_wire *w, const struct ls_wire_options *o)
{
    struct ls__wire_place place;
    w->wake_fd = w->watched_fd = -1;
    TRY(ls_wire_load());
    TRY(ls__wire_resolve(o->address, w->is_listening, o->key, &place));
    w->has_key = o->key != NULL;
    if (o->key) w->key = *o->key;
    if (o->key && w->is_listening && o->key->n_allowed == 0)
        return ls_fail(LS_USAGE, "this key file cannot listen (it has no 'allow' line): it is a worker's; give "
                                 "server.key, or node.key on every node of a job by --nodes");
    w->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (w->wake_fd < 0) return ls_fail(LS_IO, "eventfd: %s", strerror(errno));
    w->context = ls__zmq.ctx_new();
    if (!w->context) return failed("begin");
    if (w->has_key && w->is_listening) TRY(ls__zap_start(&w->zap, w->context, &w->key));
    w->socket = ls__zmq.socket(w->context, w->is_listening ? ZMQ_ROUTER : ZMQ_DEALER);
    if (!w->socket) return failed("make a socket");
    TRY(set_options(w, o));
    TRY(watch(w));
    TRY(find_fds(w));
    TRY(set_keys(w, w->is_listening));
    if (w->is_listening) return bind_to(w, &place, o->address);
    snprintf(w->address, sizeof w->address, "%s", o->address);
    TRY(set_int(w->socket, ZMQ_IPV6, place.is_v6));
    return ls__zmq.connect(w->socket, place.endpoint) == 0 ? LS_OK : failed("connect");
}

static enum ls_status create(struct ls_wire **out, const struct ls_wire_options *o, bool is_listening)
{
    TRY(ls__calloc(out, 1, sizeof **out));
    (*out)->is_listening = is_listening;
    enum ls_status status = build(*out, o);
    if (status != LS_OK) ls_wire_close(out, 0);
    return status;
}

enum ls_status ls_wire_listen(struct ls_wire **out, const struct ls_wire_options *o)
{
    return create(out, o, true);
}

enum ls_status ls_wire_connect(struct ls_wire **out, const struct ls_wire_options *o)
{
    return create(out, o, false);
}

enum ls_status ls_wire_dial(struct ls_wire *w, const char *address, uint64_t *peer)
{
    struct ls__wire_place place;
    uint8_t id[LS__WIRE_ID_BYTES];
    TRY(ls__wire_resolve(address, false, w->has_key ? &w->key : NULL, &place));
    TRY(ls__grow(&w->dialled, w->n_dialled, w->n_dialled + 1, sizeof *w->dialled));
    memcpy(w->dialled[w->n_dialled].endpoint, place.endpoint, sizeof place.endpoint);
    *peer = LS__WIRE_DIALLED + w->n_dialled++;
    w->is_quiet = false;
    ls__wire_id_of(*peer, id);
    TRY(set_keys(w, false));
    TRY(set_int(w->socket, ZMQ_IPV6, place.is_v6));
    if (ls__zmq.setsockopt(w->socket, ZMQ_CONNECT_ROUTING_ID, id, sizeof id) != 0) return failed("name a peer");
    return ls__zmq.connect(w->socket, place.endpoint) == 0 ? LS_OK : failed("connect");
}

void ls_wire_close(struct ls_wire **wire, int linger_ms)
{
    struct ls_wire *w = *wire;
    *wire = NULL;
    if (!w) return;
    if (w->monitor) {
        ls__zmq.socket_monitor(w->socket, NULL, 0);
        ls__zmq.close(w->monitor);
    }
    if (w->socket) {
        ls__zmq.setsockopt(w->socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
        ls__zmq.close(w->socket);
    }
    if (w->context) {
        ls__zmq.ctx_shutdown(w->context); /* the thread that checks keys wakes up, and closes its socket */
        ls__zap_join(&w->zap);
        ls__zmq.ctx_term(w->context);
    }
    if (w->wake_fd >= 0) close(w->wake_fd);
    ls_wire_key_forget(&w->key);
    free(w->peers);
    free(w->dialled);
    free(w->happened);
    free(w);
}

const char *ls_wire_address(const struct ls_wire *w)
{
    return w->address;
}

struct ls_wire_stats ls_wire_stats(const struct ls_wire *w)
{
    return w->stats;
}

void ls_wire_watch(struct ls_wire *w, int fd)
{
    w->watched_fd = fd;
    w->is_rung = false;
}

void ls_wire_wake(struct ls_wire *w)
{
    uint64_t one = 1;
    int before = errno;
    atomic_store(&w->is_woken, true);
    ssize_t n = write(w->wake_fd, &one, sizeof one); /* full: it is awake already */
    (void)n;
    errno = before;
}

/* --- sending --- */

void ls__wire_id_of(uint64_t peer, uint8_t id[LS__WIRE_ID_BYTES])
{
    for (int i = 0; i < LS__WIRE_ID_BYTES; i++) id[i] = (uint8_t)(peer >> (8 * (LS__WIRE_ID_BYTES - 1 - i)));
}

/* Runs on ZeroMQ's thread, when the bytes have left. */
static void drop_payload(void *data, void *hint)
{
    struct ls_wire_buffer *b = hint;
    ls_wire_buffer_drop(&b);
}

static enum ls_status not_sent(const struct ls_wire *w)
{
    if (errno == EAGAIN)
        return ls_fail(LS_TIMEOUT, "too many messages wait for a peer already: it does not take them, or the network "
                                   "is too slow");
    return ls_fail(LS_REMOTE, "the peer is not connected: %s", ls__zmq.strerror(errno));
}

static int send_message(void *socket, zmq_msg_t *m, int flags)
{
    int rc;
    do rc = ls__zmq.msg_send(m, socket, flags | ZMQ_DONTWAIT);
    while (rc < 0 && errno == EINTR);
    return rc;
}

/* The first part of a message, which decides whether the rest can go. */
static int send_first(struct ls_wire *w, uint64_t peer, zmq_msg_t *head, int flags)
{
    uint8_t id[LS__WIRE_ID_BYTES];
    if (w->is_listening) {
        ls__wire_id_of(peer, id);
        if (ls__zmq.send(w->socket, id, sizeof id, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0) return -1;
        return send_message(w->socket, head, flags);
    }
    if (!w->link.is_connected) { /* ZeroMQ may not know yet, and would take it */
        errno = EHOSTUNREACH;
        return -1;
    }
    if (send_message(w->socket, head, flags) >= 0) return 0;
    if (errno != EAGAIN) return -1;
    zmq_pollitem_t item = {.socket = w->socket, .events = ZMQ_POLLOUT};
    ls__zmq.poll(&item, 1, ATTACH_MS);
    return send_message(w->socket, head, flags);
}

/* `payload`, if there is one, is sent or closed. */
static enum ls_status send_both(struct ls_wire *w, uint64_t peer, const void *head, size_t head_bytes,
                                zmq_msg_t *payload)
{
    zmq_msg_t first;
    size_t payload_bytes = payload ? ls__zmq.msg_size(payload) : 0;
    enum ls_status status = LS_OK;
    w->is_quiet = false;
    if (head_bytes == 0) status = ls_fail(LS_INTERNAL, "a message without a head");
    if (status == LS_OK && ls__zmq.msg_init_size(&first, head_bytes) != 0)
        status = ls_fail(LS_NOMEM, "out of memory for a message");
    if (status == LS_OK) {
        memcpy(ls__zmq.msg_data(&first), head, head_bytes);
        if (send_first(w, peer, &first, payload ? ZMQ_SNDMORE : 0) < 0) {
            status = not_sent(w);
            ls__zmq.msg_close(&first);
        } else if (payload && send_message(w->socket, payload, 0) < 0) {
            status = not_sent(w);
        }
    }
    if (status == LS_OK) {
        w->stats.messages_sent++;
        w->stats.bytes_sent += (int64_t)(head_bytes + payload_bytes);
    } else if (payload) {
        ls__zmq.msg_close(payload);
    }
    return status;
}

enum ls_status ls_wire_send(struct ls_wire *w, uint64_t peer, const void *head, size_t head_bytes,
                            struct ls_wire_buffer *payload, size_t payload_bytes)
{
    zmq_msg_t second;
    if (!payload || payload_bytes == 0) return send_both(w, peer, head, head_bytes, NULL);
    if (payload_bytes > ls_wire_buffer_bytes(payload)) return ls_fail(LS_INTERNAL, "a message longer than its buffer");
    ls_wire_buffer_hold(payload);
    if (ls__zmq.msg_init_data(&second, ls_wire_buffer_data(payload), payload_bytes, drop_payload, payload) != 0) {
        ls_wire_buffer_drop(&payload);
        return ls_fail(LS_NOMEM, "out of memory for a message");
    }
    return send_both(w, peer, head, head_bytes, &second);
}

enum ls_status ls_wire_send_copy(struct ls_wire *w, uint64_t peer, const void *head, size_t head_bytes,
                                 const void *payload, size_t payload_bytes)
{
    zmq_msg_t second;
    if (payload_bytes == 0) return send_both(w, peer, head, head_bytes, NULL);
    if (ls__zmq.msg_init_size(&second, payload_bytes) != 0) return ls_fail(LS_NOMEM, "out of memory for a message");
    memcpy(ls__zmq.msg_data(&second), payload, payload_bytes);
    return send_both(w, peer, head, head_bytes, &second);
}
