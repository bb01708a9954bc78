/* split.h: the sums of a step divided among several servers (--servers K): one range of the block each, about equally
 * long. The first is the chief's and begins with the loss and the counts. Every process computes the same ranges from
 * the same plan.
 */
#ifndef LS_ELASTIC_SPLIT_H
#define LS_ELASTIC_SPLIT_H

#include "exec/exec.h"
#include "settings/sync_names.h"

struct ls_sum_split {
    int n;
    struct ls_sum_range ranges[LS_MAX_SERVERS];
};

/* LS_USAGE for a network that is too small for so many. */
enum ls_status ls__split_make(struct ls_sum_split *out, const struct ls_exec *exec, int n_servers) LS_MUST_CHECK;

#endif
