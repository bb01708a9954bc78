/* wire_stub.c: in the place of wire_real.c and zap_real.c where ZeroMQ was not installed. */
#include "wire/wire_internal.h"

enum ls_status ls_wire_load(void)
{
    return ls_fail(LS_UNSUPPORTED, "parameter servers and jobs by --nodes need ZeroMQ, which this build has not; "
                                   "install libzmq3-dev and build again (mpirun needs none of it)");
}

enum ls_status ls__wire_keypair(char public_key[LS_WIRE_KEY_CHARS + 1], char secret_key[LS_WIRE_KEY_CHARS + 1])
{
    return ls_wire_load();
}

enum ls_status ls_wire_listen(struct ls_wire **out, const struct ls_wire_options *options)
{
    *out = NULL;
    return ls_wire_load();
}

enum ls_status ls_wire_connect(struct ls_wire **out, const struct ls_wire_options *options)
{
    *out = NULL;
    return ls_wire_load();
}

enum ls_status ls_wire_dial(struct ls_wire *w, const char *address, uint64_t *peer)
{
    return ls_wire_load();
}

void ls_wire_close(struct ls_wire **w, int linger_ms)
{
    *w = NULL;
}

const char *ls_wire_address(const struct ls_wire *w)
{
    return "";
}

const char *ls_wire_library(void)
{
    return "";
}

enum ls_status ls_wire_receive(struct ls_wire *w, int timeout_ms, struct ls_wire_message *m)
{
    *m = (struct ls_wire_message){.event = LS_WIRE_NOTHING};
    return ls_wire_load();
}

void ls_wire_message_release(struct ls_wire_message *m)
{
}

void ls_wire_watch(struct ls_wire *w, int fd)
{
}

void ls_wire_wake(struct ls_wire *w)
{
}

enum ls_status ls_wire_send(struct ls_wire *w, uint64_t peer, const void *head, size_t head_bytes,
                            struct ls_wire_buffer *payload, size_t payload_bytes)
{
    return ls_wire_load();
}

enum ls_status ls_wire_send_copy(struct ls_wire *w, uint64_t peer, const void *head, size_t head_bytes,
                                 const void *payload, size_t payload_bytes)
{
    return ls_wire_load();
}

struct ls_wire_stats ls_wire_stats(const struct ls_wire *w)
{
    return (struct ls_wire_stats){0};
}
