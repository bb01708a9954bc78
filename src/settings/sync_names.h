/* sync_names.h: the ways to synchronise as --sync names them, and what follows from the name alone.
 *
 * What they do in a training is train/sync.h, one file for each. Here is what those must know who only read options:
 * the command line, the check of a program's options, the session, the identity of a run.
 */
#ifndef LS_SETTINGS_SYNC_NAMES_H
#define LS_SETTINGS_SYNC_NAMES_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { LS_MAX_SERVERS = 64 }; /* --servers */

struct ls_sync_name {
    const char *name;        /* "local" */
    const char *usage;       /* "local:H", for people */
    bool has_number;         /* a colon and a whole number follow */
    int64_t min, max;        /* of the number */
    bool is_built;           /* this build trains with it */
    bool is_own_training;    /* gives other weights than allreduce: the name belongs to the run's identity */
    bool is_served;          /* by a parameter server: workers come and go */
    bool is_by_shard;        /* every shard has a model of its own: sums are made shard by shard */
    const char *no_compress; /* why --compress does not go with it; NULL: it does */
};

/* Ends with a NULL name. */
extern const struct ls_sync_name ls__sync_names[];

struct ls_sync_choice {
    const struct ls_sync_name *name;
    int64_t number; /* behind the colon; 0 where there is none */
};

/* What an option's table says; tests/unit/test_options.c holds them to the list. */
#define LS_SYNC_EXPECTED "allreduce, ps, async, ssp:K or local:H"
#define LS_SYNC_HELP                                                                                                   \
    "How workers agree: allreduce at every step; ps: the same bits by a parameter server, whose workers may come, go " \
    "and die; async, ssp:K: the classic modes, other weights at every run; local:H: every shard trains alone and all " \
    "are averaged every H steps, for slow networks (other weights, often less accurate)."

/* False: no such way, or a number that is missing, too many or out of range. */
bool ls__sync_parse(const char *text, struct ls_sync_choice *out);
bool ls__sync_is_valid(const char *text);
bool ls__sync_is_served(const char *text); /* a valid one, by a parameter server */
/* LS_USAGE for what this build does not train with, and for what does not go together. */
enum ls_status ls__sync_check(const char *text, int64_t compress) LS_MUST_CHECK;

#endif
