/* checks.h: what is demanded of a problem's results. */
#ifndef OPS_CHECKS_H
#define OPS_CHECKS_H

#include "problem.h"
#include "runner.h"

/* ref's first output against the oracle, and its gradients against central differences of the oracle. */
enum ls_status check_ref(const struct problem *p, const struct runner *ref) LS_MUST_CHECK;

/* Every value a backend made against ref's. */
enum ls_status check_against_ref(const struct problem *p, const struct runner *r,
                                 const struct runner *ref) LS_MUST_CHECK;

/* reduce, sgd, adamw, running_stats: whole cases of their own, against the formulas, on one backend. */
bool is_update_case(const struct test_case *c);
enum ls_status check_update(struct test_case *c, const struct ls_backend *backend, bool is_perf) LS_MUST_CHECK;

/* load: a backend's way from bytes to floats, against the transform itself. */
bool is_load_case(const struct test_case *c);
enum ls_status check_load(struct test_case *c, const struct ls_backend *backend) LS_MUST_CHECK;

/* fault: failures that settle tells, and updates that heed them. */
bool is_fault_case(const struct test_case *c);
enum ls_status check_fault(struct test_case *c, const struct ls_backend *backend) LS_MUST_CHECK;

#endif
