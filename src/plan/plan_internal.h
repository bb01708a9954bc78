/* plan_internal.h: the steps of planning, in the order ls_plan_create takes them. */
#ifndef LS_PLAN_INTERNAL_H
#define LS_PLAN_INTERNAL_H

#include "plan/plan.h"

enum ls_status ls__plan_choose(struct ls_plan *p) LS_MUST_CHECK; /* choose.c: kernels, layouts, reorders, phases */
enum ls_status ls__plan_memory(struct ls_plan *p) LS_MUST_CHECK; /* memory.c: lifetimes and offsets */

/* store.c: the entry of a stored value, made if absent. */
enum ls_status ls__store_intern(struct ls_store *s, const struct ls_value *v, int *entry) LS_MUST_CHECK;
/* The copy of `source` in `layout`, made if absent. */
enum ls_status ls__store_derive(struct ls_store *s, int source, const struct ls_layout *layout,
                                int *entry) LS_MUST_CHECK;

#endif
