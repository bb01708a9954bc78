/* tube.h: messages between a server and one worker of its machine, in memory that both map (box.h): a queue of bytes
 * each way, and a bell for who sleeps. What a message is, and whether it is believed, is talk.h's as on a connection.
 *
 *     a queue has one writer and one reader. The writer writes a message, then moves `put` over it; the reader copies
 *     the message out, then moves `taken` over it. Each end knows its own position by itself and only looks at the
 *     other's: a process that dies amid a message has put none, and whatever the other end writes there, lengths and
 *     positions are compared with the queue's size before a byte is copied. A message is looked at in the copy, which
 *     the other end cannot reach.
 *
 *     who is about to sleep raises his flag and looks once more; who has put a message looks at the flag and, where it
 *     is up, takes it down and writes a byte into the sleeper's bell. One of the two sees the other. A bell is a pipe,
 *     so it can be waited for together with connections (ls_wire_watch), and it is found through /proc as the box is.
 *     Both ends are open at both sides: nobody gets a SIGPIPE. A bell without a message, or a message without a bell,
 *     does no harm: who is rung looks, and who sleeps looks now and then.
 */
#ifndef LS_ELASTIC_TUBE_H
#define LS_ELASTIC_TUBE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LS_TUBE_ROOM = 1 << 16 }; /* bytes that a queue holds; a message has at most half of it */

struct ls_tube_queue {
    _Alignas(64) _Atomic uint32_t put;   /* bytes ever written, modulo 2^32; the writer's */
    _Alignas(64) _Atomic uint32_t taken; /* bytes ever read; the reader's */
    _Alignas(64) uint8_t data[LS_TUBE_ROOM];
};

/* In the box, zeroed. */
struct ls_tube_memory {
    _Alignas(64) _Atomic uint32_t is_asleep; /* the worker; the server has one for all tubes */
    struct ls_tube_queue to_worker, to_server;
};

/* One end. Zeroed: none. */
struct ls_tube {
    struct ls_tube_queue *in, *out;
    uint32_t taken, put;                           /* this end's */
    _Atomic uint32_t *is_asleep, *is_other_asleep; /* flags */
    int bell, other_bell;                          /* borrowed */
};

/* Nobody else uses it meanwhile. */
void ls__tube_clear(struct ls_tube_memory *memory);
/* server_flag: raised while the server sleeps. An end goes on where the one before it was. */
struct ls_tube ls__tube_of_server(struct ls_tube_memory *memory, _Atomic uint32_t *server_flag, int server_bell,
                                  int worker_bell);
struct ls_tube ls__tube_of_worker(struct ls_tube_memory *memory, _Atomic uint32_t *server_flag, int server_bell,
                                  int worker_bell);
/* False: there is no room, and nothing was put. */
bool ls__tube_put(struct ls_tube *tube, const uint8_t *message, size_t bytes);

enum ls_tube_found { LS_TUBE_NOTHING, LS_TUBE_MESSAGE, LS_TUBE_BROKEN };
/* The next message, copied into out[size]. BROKEN: what lies there is none; the tube is of no use any more. */
enum ls_tube_found ls__tube_take(struct ls_tube *tube, uint8_t *out, size_t size, size_t *bytes);
bool ls__tube_has(const struct ls_tube *tube); /* something to take */

/* --- bells --- */

/* Both ends of a pipe; -1, -1: none. */
bool ls__bell_create(int ends[2]);
void ls__bell_close(int ends[2]);
/* Another process's, to ring it or to wait for it; -1: it cannot be reached, or is no bell. */
int ls__bell_open(uint32_t pid, uint32_t fd);
void ls__bell_ring(int fd);
void ls__bell_silence(int fd); /* after it rang */

#endif
