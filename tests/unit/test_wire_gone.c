/* test_wire_gone.c: ZeroMQ's own thread gets no core between telling that a connection broke and giving up its pipe:
 * who was at its other end is found gone all the same (wire/receive_real.c). Its sending is replaced by one that goes
 * on taking messages for the lost peer for a while.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#if __has_include(<zmq.h>)
#include "expect.h"
#include "wire/zmq_lib.h"

#pragma weak ls__zmq /* a build without ZeroMQ has none */

enum { PATIENCE_MS = 30000, LATE_LOOKS = 9 };

static int (*real_send)(void *socket, const void *data, size_t bytes, int flags);
static int n_looks;

/* Looks for a peer are its name and an empty part; messages are sent otherwise. */
static int send_to_the_lost(void *socket, const void *data, size_t bytes, int flags)
{
    if (flags & ZMQ_SNDMORE) n_looks++;
    return n_looks <= LATE_LOOKS ? (int)bytes : real_send(socket, data, bytes, flags);
}

static struct ls_wire_message next(struct ls_wire *w, enum ls_wire_event event)
{
    struct ls_wire_message m;
    check_ok(ls_wire_receive(w, PATIENCE_MS, &m));
    assert_int_equal(m.event, event);
    return m;
}

static void test_found_gone(void **state)
{
    struct ls_wire *server, *client;
    check_ok(ls_wire_listen(&server, &(struct ls_wire_options){.address = "127.0.0.1:0"}));
    check_ok(ls_wire_connect(&client, &(struct ls_wire_options){.address = ls_wire_address(server)}));
    next(client, LS_WIRE_CONNECTED);
    check_ok(ls_wire_send(client, LS_WIRE_SERVER, "here", 4, NULL, 0));
    struct ls_wire_message m = next(server, LS_WIRE_MESSAGE);
    const uint64_t peer = m.peer;
    ls_wire_message_release(&m);
    ls_wire_close(&client, 0);
    real_send = ls__zmq.send;
    ls__zmq.send = send_to_the_lost;
    m = next(server, LS_WIRE_GONE);
    ls__zmq.send = real_send;
    assert_int_equal(m.peer, peer);
    assert_true(n_looks > LATE_LOOKS);
    ls_wire_close(&server, 0);
}

int main(void)
{
    if (!&ls__zmq || ls_wire_load() != LS_OK) {
        printf("skipped: no ZeroMQ in this build or on this machine\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_found_gone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    printf("skipped: built without ZeroMQ (libzmq3-dev)\n");
    return 77;
}
#endif
