/* update.h: what sgd, adamw and running_stats share: a kernel over every element of a parameter, in its own layout. */
#ifndef LS_BACKEND_REF_UPDATE_H
#define LS_BACKEND_REF_UPDATE_H

#include "backend/ref/ref.h"

/* All inputs take the layout of the first (plain if that is not decided yet); in[1] is the i64 sum. */
enum ls_status ls__ref_prepare_update(const struct ls_prep *prep, struct ls_kernel **out) LS_MUST_CHECK;

/* launch for implementations that have `update`: the elements of this call's part. */
enum ls_status ls__ref_launch_update(const struct ls_bound *b, const struct ls_step_ctx *ctx) LS_MUST_CHECK;

#endif
