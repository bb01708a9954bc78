/* signals.h: a wish to stop, noticed between steps. */
#ifndef LS_TRAIN_SIGNALS_H
#define LS_TRAIN_SIGNALS_H

#include <stdbool.h>

bool ls__signals_stop_wanted(void);
bool ls__signals_end_wanted(void);        /* the launcher is ending this process */
bool ls__signals_checkpoint_wanted(void); /* SIGUSR1; asking resets it */
/* First SIGINT or SIGTERM: finish the step, checkpoint, LS_INTERRUPTED. Second: exit at once. Installed by the program,
 * not by the library's functions above. */
void ls_signals_install(void);
const char *ls__signals_name(void); /* of the signal that asked to stop */

#endif
