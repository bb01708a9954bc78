/* split.h: the sums of a step divided: among several servers (--servers K), one range of the block each; or, with one
 * server, into pieces that travel one behind the other. All about equally long. The first begins with the loss and the
 * counts. Every process computes the same ranges from the same plan.
 */
#ifndef LS_ELASTIC_SPLIT_H
#define LS_ELASTIC_SPLIT_H

#include "exec/exec.h"
#include "lockstep/options.h"
#include "settings/sync_names.h"

enum { LS_MAX_PIECES = 32 };

struct ls_sum_split {
    int n;
    struct ls_sum_range ranges[LS_MAX_SERVERS]; /* or of LS_MAX_PIECES, which are fewer */
};

/* LS_USAGE for a network that is too small for so many. */
enum ls_status ls__split_make(struct ls_sum_split *out, const struct ls_exec *exec, int n_servers) LS_MUST_CHECK;
/* n as one server told, who took it from ls__split_count; LS_REMOTE for what no server takes from there. */
enum ls_status ls__split_pieces(struct ls_sum_split *out, const struct ls_exec *exec, int n) LS_MUST_CHECK;
/* Into how many pieces so many sums are cut with --sync ps: long enough that a message is nothing beside them. Into one
 * where the whole gradient is looked at before the first update, a shard may come twice, or several servers have it. */
int ls__split_count(const struct ls_train_options *o, int64_t n_sums);

#endif
