/* linear_blocked.h: large linear layers whose weights lie in blocks of 16 outputs (ls__linear_tiles.h). */
#ifndef LS_BACKEND_CPU_LINEAR_BLOCKED_H
#define LS_BACKEND_CPU_LINEAR_BLOCKED_H

#include "backend/backend.h"

/* The layout [oc/16][ic][16] of weights [oc,ic], interned in the device. */
enum ls_status ls__linear_blocked_layout(struct ls_device *device, const struct ls_value *weights,
                                         struct ls_layout *out) LS_MUST_CHECK;

static inline int round_up(int x, int to)
{
    return (x + to - 1) / to * to;
}

#endif
