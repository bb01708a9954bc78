/* zmq_lib.h: ZeroMQ, loaded when it is first needed; for the *_real.c files of this folder. */
#ifndef LS_WIRE_ZMQ_LIB_H
#define LS_WIRE_ZMQ_LIB_H

#include "wire/wire_internal.h"

#include <zmq.h>

/* ret, name without zmq_, arguments */
#define LS__ZMQ_MAP(X)                                                                                                 \
    X(void *, ctx_new, (void))                                                                                         \
    X(int, ctx_set, (void *context, int option, int value))                                                            \
    X(int, ctx_shutdown, (void *context))                                                                              \
    X(int, ctx_term, (void *context))                                                                                  \
    X(void *, socket, (void *context, int type))                                                                       \
    X(int, close, (void *socket))                                                                                      \
    X(int, setsockopt, (void *socket, int option, const void *value, size_t len))                                      \
    X(int, getsockopt, (void *socket, int option, void *value, size_t *len))                                           \
    X(int, bind, (void *socket, const char *endpoint))                                                                 \
    X(int, connect, (void *socket, const char *endpoint))                                                              \
    X(int, socket_monitor, (void *socket, const char *endpoint, int events))                                           \
    X(int, poll, (zmq_pollitem_t * items, int n, long timeout_ms))                                                     \
    X(int, msg_init, (zmq_msg_t * m))                                                                                  \
    X(int, msg_init_size, (zmq_msg_t * m, size_t bytes))                                                               \
    X(int, msg_init_data, (zmq_msg_t * m, void *data, size_t bytes, zmq_free_fn *release, void *hint))                 \
    X(int, msg_recv, (zmq_msg_t * m, void *socket, int flags))                                                         \
    X(int, msg_send, (zmq_msg_t * m, void *socket, int flags))                                                         \
    X(int, msg_close, (zmq_msg_t * m))                                                                                 \
    X(int, msg_more, (const zmq_msg_t *m))                                                                             \
    X(void *, msg_data, (zmq_msg_t * m))                                                                               \
    X(size_t, msg_size, (const zmq_msg_t *m))                                                                          \
    X(int, recv, (void *socket, void *data, size_t bytes, int flags))                                                  \
    X(int, send, (void *socket, const void *data, size_t bytes, int flags))                                            \
    X(int, has, (const char *capability))                                                                              \
    X(int, curve_keypair, (char *public_key, char *secret_key))                                                        \
    X(uint8_t *, z85_decode, (uint8_t * out, const char *text))                                                        \
    X(void, version, (int *major, int *minor, int *patch))                                                             \
    X(const char *, strerror, (int code))

/* Filled once by ls_wire_load, constant then. */
struct ls__zmq {
#define LS__ZMQ_MEMBER(ret, name, args) ret(*name) args;
    LS__ZMQ_MAP(LS__ZMQ_MEMBER)
#undef LS__ZMQ_MEMBER
};
extern struct ls__zmq ls__zmq;

/* zap_real.c: answers in the context's handshakes: the keys that `key` allows, nobody else. */
struct ls__zap;
enum ls_status ls__zap_start(struct ls__zap **out, void *context, const struct ls_wire_key *key) LS_MUST_CHECK;
void ls__zap_join(struct ls__zap **zap); /* after the context was shut down */

#endif
