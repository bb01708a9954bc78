/* wire.h: messages between processes over ZeroMQ, for processes that MPI did not start.
 *
 * An endpoint either listens (many peers) or connects (one peer, number LS_WIRE_SERVER). A message is a head of bytes,
 * usually made by frame.h, and an optional payload, which may be a buffer that many messages share: it is not copied
 * when it is sent. What comes in is bytes from somebody who held a key; nothing about them is believed before
 * ls_frame_read has looked.
 *
 *     struct ls_wire *w;
 *     TRY(ls_wire_listen(&w, &(struct ls_wire_options){.address = "0.0.0.0:4711", .key = &key}));
 *     for (;;) {
 *         struct ls_wire_message m;
 *         TRY(ls_wire_receive(w, 500, &m));
 *         if (m.event == LS_WIRE_MESSAGE) ...  m.peer, m.head, m.payload
 *         if (m.event == LS_WIRE_GONE) ...     m.peer will never be heard of again under this number
 *         ls_wire_message_release(&m);
 *     }
 *
 * Who may connect: with a key (keys.h) everything is encrypted and authenticated by CURVE, and only peers whose public
 * key the listener's file allows get past the handshake; others get no message and no reply. Without a key both ends
 * refuse any address that is not loopback, but for a network that was made for this job alone (nodes/nodes.h).
 *
 * An endpoint belongs to one thread at a time; ls_wire_wake may be called by any. Buffers are counted by atomics: any
 * thread may hold and drop them.
 *
 * A connecting end whose server goes away keeps trying: it hears LS_WIRE_GONE, and LS_WIRE_CONNECTED when the server
 * is back. Messages that were under way may be lost, none arrives twice, and those of one peer arrive in order.
 */
#ifndef LS_WIRE_H
#define LS_WIRE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ls_wire;
struct ls_wire_key;

/* --- endpoints --- */

enum { LS_WIRE_SERVER = 0 }; /* what a connecting end calls its only peer */

struct ls_wire_options {
    const char *address;           /* "HOST:PORT", "[IPv6]:PORT"; listen: "*:PORT" is every address, port 0 any free */
    const struct ls_wire_key *key; /* NULL: without keys, on loopback only; copied */
    size_t max_bytes;              /* of a head or payload that comes in; longer: the peer is cut off. 0: 1 GiB */
    int max_waiting;               /* messages that wait for one peer before send says LS_TIMEOUT. 0: 1000 */
};

/* Whether there is ZeroMQ: LS_UNSUPPORTED with what to install. The others call it themselves. */
enum ls_status ls_wire_load(void) LS_MUST_CHECK;
/* LS_USAGE for a bad address, or one that is not loopback without a key; LS_IO when it cannot be listened on. */
enum ls_status ls_wire_listen(struct ls_wire **out, const struct ls_wire_options *options) LS_MUST_CHECK;
/* Returns at once; LS_WIRE_CONNECTED comes when the server is there and accepts the key. */
enum ls_status ls_wire_connect(struct ls_wire **out, const struct ls_wire_options *options) LS_MUST_CHECK;
/* A listening end that itself connects to another listening one: under this number, at once. For ranks, where everyone
 * is both. What is sent before the connection is made waits. When it breaks it is LS_WIRE_GONE for good. */
enum ls_status ls_wire_dial(struct ls_wire *w, const char *address, uint64_t *peer) LS_MUST_CHECK;
/* Messages that were sent have up to linger_ms to leave. */
void ls_wire_close(struct ls_wire **w, int linger_ms);

/* Whether a connection to it may be asked for: LS_USAGE as for ls_wire_connect. */
enum ls_status ls_wire_check(const char *address, const struct ls_wire_key *key) LS_MUST_CHECK;
/* The address of this machine from which that one is reached, without a port: "192.168.0.7", "[fe80::1]". */
enum ls_status ls_wire_own_host(const char *toward, char *out, size_t size) LS_MUST_CHECK;
/* What others can connect to: "127.0.0.1:43211". */
const char *ls_wire_address(const struct ls_wire *w);
const char *ls_wire_library(void); /* "ZeroMQ 4.3.4", "" before ls_wire_load */

/* --- messages that come --- */

enum ls_wire_event {
    LS_WIRE_NOTHING,   /* the time is over */
    LS_WIRE_WOKEN,     /* ls_wire_wake was called since the last receive, or see ls_wire_watch */
    LS_WIRE_MESSAGE,   /* peer, head, payload */
    LS_WIRE_CONNECTED, /* connecting end: the server is there (again) */
    LS_WIRE_GONE,      /* the connection to `peer` is no more. A listening end tells it of peers that have spoken */
    LS_WIRE_REFUSED,   /* connecting end: the server does not take our key, or is none of ours; it keeps trying */
    LS_WIRE_MISMATCH   /* connecting end: one side has a key and the other has none; it does not try again. It may be
                        * REFUSED some times before: the other end may hang up before it was heard */
};

struct ls_wire_message {
    enum ls_wire_event event;
    uint64_t peer;
    const uint8_t *head, *payload; /* not aligned; the message's, until it is released. payload NULL: none */
    size_t head_bytes, payload_bytes;
    struct ls_wire_parts *parts; /* the library's memory */
};

/* Waits at most timeout_ms (0: only looks, -1: without end). LS_OK also when nothing came: see event. */
enum ls_status ls_wire_receive(struct ls_wire *w, int timeout_ms, struct ls_wire_message *m) LS_MUST_CHECK;
void ls_wire_message_release(struct ls_wire_message *m); /* forgiving: any event, twice */
/* LS_WIRE_WOKEN also whenever there is something to read at fd, which the caller then reads. -1: at none. */
void ls_wire_watch(struct ls_wire *w, int fd);
/* Ends the wait of the thread that receives, or its next one. Any thread, also a signal handler. */
void ls_wire_wake(struct ls_wire *w);

/* --- messages that go --- */

/* Bytes that several messages share. Made by its owner, who fills it before the first send and does not write to it
 * while it is shared. */
struct ls_wire_buffer;
enum ls_status ls_wire_buffer_create(struct ls_wire_buffer **out, size_t bytes) LS_MUST_CHECK; /* held once, zeroed */
/* Over memory of the caller's, who keeps it as it is until the buffer is no longer shared. */
enum ls_status ls_wire_buffer_lend(struct ls_wire_buffer **out, const void *data, size_t bytes) LS_MUST_CHECK;
void *ls_wire_buffer_data(struct ls_wire_buffer *b); /* 64-byte aligned */
size_t ls_wire_buffer_bytes(const struct ls_wire_buffer *b);
struct ls_wire_buffer *ls_wire_buffer_hold(struct ls_wire_buffer *b);
void ls_wire_buffer_drop(struct ls_wire_buffer **b);
/* Whether anybody else, a message under way too, still holds it. False: the owner may write to it again. */
bool ls_wire_buffer_is_shared(const struct ls_wire_buffer *b);

/* The head is copied; of the payload (or NULL) the first payload_bytes are sent without a copy, and it is held until
 * they have left. Never waits long: LS_REMOTE when the peer is not there (connecting end: not connected),
 * LS_TIMEOUT when too many messages wait for it already. */
enum ls_status ls_wire_send(struct ls_wire *w, uint64_t peer, const void *head, size_t head_bytes,
                            struct ls_wire_buffer *payload, size_t payload_bytes) LS_MUST_CHECK;

/* The same with a payload that is copied at once. */
enum ls_status ls_wire_send_copy(struct ls_wire *w, uint64_t peer, const void *head, size_t head_bytes,
                                 const void *payload, size_t payload_bytes) LS_MUST_CHECK;

struct ls_wire_stats {
    int64_t messages_sent, messages_received, bytes_sent, bytes_received; /* heads and payloads */
    int64_t n_dropped; /* messages that were no head and at most one payload */
};
struct ls_wire_stats ls_wire_stats(const struct ls_wire *w);

#endif
