/* recording.h: what a worker on its server's machine, or on a node made there, records of itself, in the run directory:
 * resources.csv and, with --trace, trace.json in ranks/N, where N is its number and 1: rank 0 is the server.
 *
 * The server says where, with the options, under the keys below. A worker elsewhere records nothing: what it did is in
 * the server's table of ranks.
 */
#ifndef LS_ELASTIC_RECORDING_H
#define LS_ELASTIC_RECORDING_H

#include "elastic/task.h"
#include "record/record.h"

#define LS_RECORD_TO "record_to"               /* the run directory, absolute; absent: nothing is recorded */
#define LS_RECORD_RESOURCES "record_resources" /* true: resources.csv */
#define LS_RECORD_STEPS "record_steps"         /* trace.json with everything in so many steps; absent: none */
#define LS_RECORD_SINCE "record_since"         /* where that begins, by this machine's monotonic clock, in ns */

/* NULL where the server does not say, or its directory is not seen from here. The host's name is borrowed. */
struct ls_record *ls__recording_open(const struct ls_task *task, uint32_t worker, const char *host);

#endif
