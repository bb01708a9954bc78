/* copies.c: see copies.h. */
#include "elastic/copies.h"

enum ls_status ls__copies_open(struct ls_copies *p, size_t bytes)
{
    *p = (struct ls_copies){.bytes = bytes};
    for (int i = 0; i < LS_N_COPIES; i++) TRY(ls_wire_buffer_create(&p->buffers[i], bytes));
    return LS_OK;
}

void ls__copies_close(struct ls_copies *p)
{
    for (int i = 0; i < LS_N_COPIES; i++) ls_wire_buffer_drop(&p->buffers[i]);
    p->newest = NULL;
}

/* One that nobody reads any more; a slow worker may still be sent an older one. */
static enum ls_status find_buffer(struct ls_copies *p, struct ls_wire_buffer **out)
{
    for (int i = 0; i < LS_N_COPIES; i++) {
        *out = p->buffers[i];
        if (*out != p->newest && !ls_wire_buffer_is_shared(*out)) return LS_OK;
    }
    int k = p->buffers[0] == p->newest ? 1 : 0; /* all are in use: a new one in the place of this */
    ls_wire_buffer_drop(&p->buffers[k]);
    TRY(ls_wire_buffer_create(&p->buffers[k], p->bytes));
    *out = p->buffers[k];
    return LS_OK;
}

enum ls_status ls__copies_make(struct ls_copies *p, const struct ls_parameters *parameters, struct ls_wire_buffer **out)
{
    TRY(find_buffer(p, out));
    return ls__parameters_get(parameters, ls_wire_buffer_data(*out));
}
