/* endpoint.h: what an endpoint is made of; for the *_real.c files of this folder.
 *
 * A listening end is a ROUTER: it names each connection by five bytes, a zero and a number that ZeroMQ chose, or, for
 * those it dialled, a one and a number of ours. Read as one number that is the peer. A connecting end is a DEALER.
 *
 * ZeroMQ tells by a monitor that a connection broke, but at a ROUTER not whose it was. So every peer that is known is
 * sent an empty message then, which nobody receives as a message; one that cannot be sent to is gone. The monitor's
 * word may come a moment before the ROUTER knows, and ZeroMQ's own thread may not get a core in that moment, so it is
 * tried again, each time after twice as long, for some 16 seconds.
 *
 * ZeroMQ's sockets are expensive to look at. Each has a file descriptor that becomes readable when something happens to
 * it, and stays so until the socket is used; so an endpoint whose sockets had nothing sleeps on these, and looks again
 * when one is readable or it has sent something itself; and ten times a second in any case, which costs nothing and
 * bounds what a descriptor that did not become readable could do.
 */
#ifndef LS_WIRE_ENDPOINT_H
#define LS_WIRE_ENDPOINT_H

#include "wire/zmq_lib.h"

#include <stdatomic.h>

#define LS__WIRE_DIALLED (UINT64_C(1) << 32)

/* A connection that we asked for. */
struct ls__wire_link {
    bool is_connected; /* the handshake was done */
    bool is_told;      /* that it was not: what the monitor says of its end is no news */
};

struct ls__dialled {
    char endpoint[LS__ENDPOINT_BYTES];
    struct ls__wire_link link;
};

struct ls__wire_happening {
    enum ls_wire_event event;
    uint64_t peer;
};

/* Its thread's, but for is_woken and wake_fd. */
struct ls_wire {
    void *context, *socket, *monitor;
    struct ls__zap *zap; /* NULL without a key */
    struct ls_wire_key key;
    bool has_key, is_listening;
    struct ls__wire_link link; /* a DEALER's */
    int wake_fd, watched_fd;   /* watched_fd: the caller's, -1: none */
    int fds[2];                /* of socket and monitor */
    bool is_quiet;             /* the sockets had nothing, and have not been used since */
    int64_t quiet_ns;          /* since when */
    bool is_rung;              /* there is something at watched_fd */
    atomic_bool is_woken;
    char address[LS__ENDPOINT_BYTES];
    size_t max_bytes;
    uint64_t *peers; /* that have spoken, or were dialled, and are not gone */
    size_t n_peers, peers_room;
    struct ls__dialled *dialled; /* [n_dialled] peer LS__WIRE_DIALLED + i */
    size_t n_dialled;
    struct ls__wire_happening *happened; /* to be told, oldest first */
    size_t n_happened, happened_room;
    int n_looks; /* still to be made for peers that are gone */
    int64_t next_look_ns;
    int n_since_monitor; /* messages since the monitor was read */
    struct ls_wire_stats stats;
};

enum { LS__WIRE_ID_BYTES = 5 };
void ls__wire_id_of(uint64_t peer, uint8_t id[LS__WIRE_ID_BYTES]);

#endif
