/* parameters.h: stored values as they travel: those that the updates by a range of the sums change, one after the other
 * as they lie in the store. Servers and workers have the same layouts, or were refused (identity.h: the plans are
 * compared).
 *
 *     to workers             parameters and running statistics, of every server's range
 *     between the servers    with the optimizer's state
 *
 * What no update changes (frozen parameters) belongs to the range that begins the block.
 */
#ifndef LS_ELASTIC_PARAMETERS_H
#define LS_ELASTIC_PARAMETERS_H

#include "session/session.h"

struct ls_parameters {
    struct session *s; /* borrowed */
    struct ls_stored_part *parts;
    size_t *at; /* [n] where a part begins, bytes */
    int n;
    size_t bytes; /* of all */
};

enum ls_status ls__parameters_open(struct ls_parameters *p, struct session *s, struct ls_sum_range sums,
                                   bool with_state) LS_MUST_CHECK;
void ls__parameters_release(struct ls_parameters *p); /* forgiving */
/* From the store, and into it. Large ones on the executor's threads. */
enum ls_status ls__parameters_get(const struct ls_parameters *p, uint8_t *out) LS_MUST_CHECK;
enum ls_status ls__parameters_set(const struct ls_parameters *p, const uint8_t *in) LS_MUST_CHECK;

#endif
