/* zap_real.c: who may connect: ZeroMQ asks at every handshake (its RFC 27), a thread of ours answers.
 *
 * A client that gets here has proved that it holds the secret key it names. One that is not allowed is cut off without
 * a word (status 300): no error goes back.
 */
#include "base/mem.h"
#include "base/pool.h"
#include "wire/zmq_lib.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = 32, PART_BYTES = 256, N_PARTS = 7 };

struct ls__zap {
    void *socket;
    pthread_t thread;
    int n_allowed;
    uint8_t allowed[LS_WIRE_MAX_ALLOWED][KEY_BYTES];
};

/* What ZeroMQ asks: version, request id, domain, address, identity, mechanism, the client's public key. */
struct question {
    uint8_t parts[N_PARTS][PART_BYTES];
    int bytes[N_PARTS];
    int n_parts;
};

/* False when the context ends. */
static bool hear(void *socket, struct question *q)
{
    int more = 1;
    size_t len = sizeof more;
    *q = (struct question){0};
    for (; more; q->n_parts++) {
        uint8_t rest[PART_BYTES] = {0};
        bool is_known = q->n_parts < N_PARTS;
        int n;
        do n = ls__zmq.recv(socket, is_known ? q->parts[q->n_parts] : rest, PART_BYTES, 0);
        while (n < 0 && errno == EINTR);
        if (n < 0) return false;
        if (is_known) q->bytes[q->n_parts] = n;
        if (ls__zmq.getsockopt(socket, ZMQ_RCVMORE, &more, &len) != 0) return false;
    }
    return true;
}

static bool is_allowed(const struct ls__zap *z, const struct question *q)
{
    if (q->n_parts != N_PARTS || q->bytes[6] != KEY_BYTES) return false;
    if (q->bytes[5] != 5 || memcmp(q->parts[5], "CURVE", 5) != 0) return false;
    for (int i = 0; i < z->n_allowed; i++)
        if (memcmp(z->allowed[i], q->parts[6], KEY_BYTES) == 0) return true;
    return false;
}

static void answer(void *socket, const struct question *q, bool is_yes)
{
    int id_bytes = q->bytes[1] < PART_BYTES ? q->bytes[1] : PART_BYTES;
    ls__zmq.send(socket, "1.0", 3, ZMQ_SNDMORE);
    ls__zmq.send(socket, q->parts[1], (size_t)id_bytes, ZMQ_SNDMORE);
    ls__zmq.send(socket, is_yes ? "200" : "300", 3, ZMQ_SNDMORE);
    ls__zmq.send(socket, "", 0, ZMQ_SNDMORE); /* a text, a user, properties: nothing */
    ls__zmq.send(socket, "", 0, ZMQ_SNDMORE);
    ls__zmq.send(socket, "", 0, 0);
}

static void *thread_main(void *arg)
{
    struct ls__zap *z = arg;
    struct question q;
    while (hear(z->socket, &q)) answer(z->socket, &q, is_allowed(z, &q));
    ls__zmq.close(z->socket);
    return NULL;
}

enum ls_status ls__zap_start(struct ls__zap **out, void *context, const struct ls_wire_key *key)
{
    TRY(ls__calloc(out, 1, sizeof **out));
    struct ls__zap *z = *out;
    enum ls_status status = LS_OK;
    int linger = 0;
    for (; z->n_allowed < key->n_allowed && status == LS_OK; z->n_allowed++)
        if (!ls__zmq.z85_decode(z->allowed[z->n_allowed], key->allowed[z->n_allowed]))
            status = ls_fail(LS_USAGE, "an 'allow' line of the key file is not a key");
    if (status == LS_OK) z->socket = ls__zmq.socket(context, ZMQ_REP);
    if (z->socket) ls__zmq.setsockopt(z->socket, ZMQ_LINGER, &linger, sizeof linger);
    if (status == LS_OK && (!z->socket || ls__zmq.bind(z->socket, "inproc://zeromq.zap.01") != 0))
        status = ls_fail(LS_ERROR, "ZeroMQ: cannot check keys: %s", ls__zmq.strerror(errno));
    if (status == LS_OK) status = ls__thread_start(&z->thread, "the thread that checks keys", thread_main, z);
    if (status == LS_OK) return LS_OK;
    if (z->socket) ls__zmq.close(z->socket);
    free(z);
    *out = NULL;
    return status;
}

void ls__zap_join(struct ls__zap **zap)
{
    if (!*zap) return;
    pthread_join((*zap)->thread, NULL);
    free(*zap);
    *zap = NULL;
}
