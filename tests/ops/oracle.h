/* oracle.h: every op once more, forward only, in double, written as the formula reads and sharing no code with a
 * backend.
 *
 * Derivatives of these by central differences are what the reference backend's gradients are held against.
 */
#ifndef OPS_ORACLE_H
#define OPS_ORACLE_H

#include "problem.h"

/* in[i]: contents of input i of node 0 as doubles (labels too). dst: room for the first output (softmax_ce: one number,
 * the sum of the losses). False: this op has no formula here. */
bool oracle_forward(const struct problem *p, double *const *in, double *dst);
int64_t oracle_count(const struct problem *p); /* elements of dst */

#endif
