/* wire_internal.h: shared by the files of src/wire. */
#ifndef LS_WIRE_INTERNAL_H
#define LS_WIRE_INTERNAL_H

#include "wire/keys.h"
#include "wire/wire.h"

enum { LS__ENDPOINT_BYTES = 128 };

/* An address as ZeroMQ takes it. */
struct ls__wire_place {
    char endpoint[LS__ENDPOINT_BYTES]; /* "tcp://127.0.0.1:4711", numeric */
    bool is_loopback, is_v6;           /* is_v6: every address of both kinds too */
};

/* address.c: LS_USAGE when it is none, or is not loopback and there is no key. */
enum ls_status ls__wire_resolve(const char *address, bool to_listen, const struct ls_wire_key *key,
                                struct ls__wire_place *place) LS_MUST_CHECK;

/* wire_real.c, wire_stub.c: a new pair, Z85. */
enum ls_status ls__wire_keypair(char public_key[LS_WIRE_KEY_CHARS + 1],
                                char secret_key[LS_WIRE_KEY_CHARS + 1]) LS_MUST_CHECK;

#endif
