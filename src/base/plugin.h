/* plugin.h: parts that are loaded on demand, so that one program runs where their libraries are missing.
 *
 * A plug-in is a file lockstep-NAME.so. It is looked for in $LOCKSTEP_PLUGINS, beside the program, and in
 * ../lib/lockstep from it, and stays loaded until the process ends: what it brought (MPI, CUDA) leaves handlers behind.
 * It may use the library's functions; the program exports them.
 */
#ifndef LS_BASE_PLUGIN_H
#define LS_BASE_PLUGIN_H

#include "lockstep/status.h"

#include <stdbool.h>

/* Whether there is such a file. NAME: letters, digits, '-'. */
bool ls__plugin_exists(const char *name);

/* The address of `symbol` in the plug-in. LS_UNSUPPORTED if it is not there, does not load or has no such symbol;
 * `advice` then says what to do about a missing one. is_global: what the plug-in loads finds its symbols. */
enum ls_status ls__plugin_symbol(const char *name, const char *symbol, bool is_global, const char *advice,
                                 const void **out) LS_MUST_CHECK;

#endif
