/* signals.h: a wish to stop, noticed between steps. */
#ifndef LS_TRAIN_SIGNALS_H
#define LS_TRAIN_SIGNALS_H

#include <stdbool.h>

bool ls__signals_stop_wanted(void);
bool ls__signals_end_wanted(void);        /* the launcher is ending this process */
bool ls__signals_checkpoint_wanted(void); /* SIGUSR1; asking resets it */
const char *ls__signals_name(void);       /* of the signal that asked to stop */

#endif
