/* plugin.h: parts that are loaded on demand, so that one program runs where their libraries are missing.
 *
 * A plug-in is a file lockstep-NAME.so. It is looked for in $LOCKSTEP_PLUGINS, beside the program or the shared library
 * (whichever this code is part of), and in lockstep and ../lib/lockstep from there. It stays loaded until the process
 * ends: what it brought (MPI, CUDA) leaves handlers behind.
 *
 * It may use the functions of the library, public or not, of the very same version. It links nothing; they come from
 *   the program           which exports all that is ls_ (scripts/exports.list),
 *   liblockstep.so        which shows what is not public under the version LOCKSTEP_PRIVATE (scripts/export-map),
 *   a program of others   that holds liblockstep.a: only if it is linked with -rdynamic and --whole-archive.
 */
#ifndef LS_BASE_PLUGIN_H
#define LS_BASE_PLUGIN_H

#include "base/status.h"

#include <stdbool.h>

/* Whether there is such a file. NAME: letters, digits, '-'. */
bool ls__plugin_exists(const char *name);

/* The address of `symbol` in the plug-in. LS_UNSUPPORTED if it is not there, does not load or has no such symbol;
 * `advice` then says what to do about a missing one. is_global: what the plug-in loads finds its symbols. */
enum ls_status ls__plugin_symbol(const char *name, const char *symbol, bool is_global, const char *advice,
                                 const void **out) LS_MUST_CHECK;

#endif
