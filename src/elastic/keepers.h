/* keepers.h: a worker's connections to the servers besides the chief (keepers, talk.h): it pulls their parts of the
 * parameters and pushes their parts of the sums. Each call sends to all of them before it waits for the first.
 *
 * What cannot be done makes the work void and is no failure: the chief decides what the end of a keeper means.
 */
#ifndef LS_ELASTIC_KEEPERS_H
#define LS_ELASTIC_KEEPERS_H

#include "elastic/contact.h"
#include "elastic/parameters.h"
#include "elastic/sums.h"

struct ls_keepers;

/* key: the worker's own, NULL: none. contact is asked, while somebody waits, whether the work may still count. timeout:
 * seconds without a word of one of them. */
enum ls_status ls__keepers_open(struct ls_keepers **out, const struct ls_talk_places *where,
                                const struct ls_wire_key *key, struct ls_contact *contact,
                                double timeout) LS_MUST_CHECK;
void ls__keepers_close(struct ls_keepers **keepers);

/* The parts of a version into the store: parameters[i] is keeper i + 1's. */
enum ls_status ls__keepers_pull(struct ls_keepers *p, int64_t version, const struct ls_parameters *parameters,
                                bool *is_void) LS_MUST_CHECK;
/* The ranges behind the first of the executor's sums, each to its keeper, and zeroes them. */
enum ls_status ls__keepers_push(struct ls_keepers *p, struct ls_exec *exec, const struct ls_sum_split *split,
                                enum ls_sums_form form, int64_t step, bool *is_void) LS_MUST_CHECK;

#endif
