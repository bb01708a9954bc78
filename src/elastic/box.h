/* box.h: memory that a server and the workers it started on this machine share, so that sums and parameters do not go
 * through a connection, and what is said in every step does not either: a message names what lies in the box.
 *
 *     a page       token and sizes, which both must know; whether the server sleeps
 *     tubes        LS_BOX_SLOTS times: messages of the worker of that slot and to it (tube.h)
 *     sums         LS_BOX_SLOTS times: written by the worker of that slot before its push, read by the server until
 *                  the push is settled; only then the worker gets other work
 *     parameters   LS_BOX_VERSIONS times: written by the server when nobody is told to read them
 *
 * It is a memfd, opened through /proc/PID/fd as comm/machine.c does: nothing is left behind. Pages that nobody touched
 * take no memory, and nothing is mapped before it is asked for. Where it cannot be made or opened all goes through the
 * connection.
 */
#ifndef LS_ELASTIC_BOX_H
#define LS_ELASTIC_BOX_H

#include "base/status.h"
#include "elastic/tube.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Every worker may read its own version, the newest is another, and one is free. */
enum { LS_BOX_SLOTS = 64, LS_BOX_VERSIONS = LS_BOX_SLOTS + 2 };

struct ls_box_size {
    uint64_t token; /* drawn by the server */
    uint64_t n_sums, parameters_bytes;
};

struct ls_box;
enum ls_status ls__box_create(struct ls_box **out, const struct ls_box_size *size) LS_MUST_CHECK;
/* Another process's. LS_IO where it cannot be reached, or is another. */
enum ls_status ls__box_open(struct ls_box **out, const struct ls_box_size *size, uint32_t pid,
                            uint32_t fd) LS_MUST_CHECK;
void ls__box_close(struct ls_box **box);
uint32_t ls__box_fd(const struct ls_box *box);

/* NULL: there is no such one, or no memory to map it. The first call for each maps it: one thread at a time. */
_Atomic uint32_t *ls__box_server_flag(struct ls_box *box);
struct ls_tube_memory *ls__box_tube(struct ls_box *box, int slot);
int64_t *ls__box_sums(struct ls_box *box, int slot);          /* [n_sums] */
uint8_t *ls__box_parameters(struct ls_box *box, int version); /* [parameters_bytes] */

#endif
