/* parameters.h: what a worker must have of the store to compute: parameters and buffers as they lie there, one after
 * the other. Server and workers have the same layouts, or were refused (identity.h: the plans are compared).
 */
#ifndef LS_ELASTIC_PARAMETERS_H
#define LS_ELASTIC_PARAMETERS_H

#include "session/session.h"

size_t ls__parameters_bytes(const struct session *s);
/* From the store, and into it. Large ones on the executor's threads. */
enum ls_status ls__parameters_get(struct session *s, uint8_t *out) LS_MUST_CHECK;
enum ls_status ls__parameters_set(struct session *s, const uint8_t *in) LS_MUST_CHECK;

#endif
