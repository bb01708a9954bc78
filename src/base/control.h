/* control.h: the caller's wishes (lockstep/control.h), asked where nobody may be there to answer. */
#ifndef LS_BASE_CONTROL_H
#define LS_BASE_CONTROL_H

#include "lockstep/control.h"

#include <stddef.h>

static inline bool ls__control_stop_wanted(const struct ls_control *c)
{
    return c && c->is_stop_wanted && c->is_stop_wanted(c->context);
}

static inline bool ls__control_save_wanted(const struct ls_control *c)
{
    return c && c->is_save_wanted && c->is_save_wanted(c->context);
}

static inline bool ls__control_end_wanted(const struct ls_control *c)
{
    return c && c->is_end_wanted && c->is_end_wanted(c->context);
}

static inline const char *ls__control_stopped_by(const struct ls_control *c)
{
    const char *name = c && c->stopped_by ? c->stopped_by(c->context) : NULL;
    return name ? name : "the caller";
}

#endif
