/* copies.h: copies of parameters that are sent while the next ones are made: a slow receiver never sees half a
 * version. The newest is made by one thread; who else reads it does so under a lock of the owner's.
 */
#ifndef LS_ELASTIC_COPIES_H
#define LS_ELASTIC_COPIES_H

#include "elastic/parameters.h"
#include "wire/wire.h"

enum { LS_N_COPIES = 3 };

struct ls_copies {
    struct ls_wire_buffer *buffers[LS_N_COPIES], *newest; /* newest is one of them; NULL: none yet */
    size_t bytes;
};

enum ls_status ls__copies_open(struct ls_copies *p, size_t bytes) LS_MUST_CHECK;
void ls__copies_close(struct ls_copies *p); /* forgiving */
/* A copy of the parameters of now. It becomes p->newest by the caller's hand. */
enum ls_status ls__copies_make(struct ls_copies *p, const struct ls_parameters *parameters,
                               struct ls_wire_buffer **out) LS_MUST_CHECK;

#endif
