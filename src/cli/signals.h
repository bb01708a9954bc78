/* signals.h: a person's wish to stop, handed to the library as a struct ls_control. */
#ifndef LS_CLI_SIGNALS_H
#define LS_CLI_SIGNALS_H

#include "lockstep/control.h"

/* First SIGINT or SIGTERM: finish the step, checkpoint, LS_INTERRUPTED. Second: exit at once. SIGUSR1: a checkpoint. */
void ls__signals_install(void);
/* What the signals so far ask for; needs no context. */
extern const struct ls_control ls__signals_control;

#endif
