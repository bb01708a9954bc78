/* update.h: what sgd, adamw and running_stats share: a kernel over every element of a parameter, in its own layout. */
#ifndef LS_BACKEND_REF_UPDATE_H
#define LS_BACKEND_REF_UPDATE_H

#include "backend/ref/ref.h"

/* All inputs take the layout of the first (plain if that is not decided yet); in[1] is the i64 sum. */
enum ls_status ls__ref_prepare_update(const struct ls_prep *prep, struct ls_kernel **out) LS_MUST_CHECK;

/* The elements of this call, and 2^-scale_log2. Updates whose attributes name no scale use LS_SCALE_GRAD. */
struct ls_ref_update {
    int64_t begin, n;
    double unit;
};
struct ls_ref_update ls__ref_update_of(const struct ls_ref_kernel *k, const struct ls_step_ctx *ctx);

#endif
