/* problem.h: a case as a tiny graph: the op, its backward nodes as the gradient pass makes them, and values for the
 * inputs.
 *
 * The function under test is L = sum of dst * diff_dst (for softmax_ce: the loss itself), so that the gradients the
 * backward nodes compute are the derivatives of L.
 */
#ifndef OPS_PROBLEM_H
#define OPS_PROBLEM_H

#include "backend/backend.h"
#include "cases.h"
#include "graph/graph.h"

enum { PROBLEM_MAX_MB = 256 };

struct problem {
    struct test_case *c;
    struct ls_graph *g;
    int n_nodes;          /* nodes under test; the runner appends reorders behind them */
    int n_values;         /* and their values */
    int grads[LS_MAX_IN]; /* value id of dL/d(input i of node 0), -1 = none */
    int diff_dst;         /* -1 = none */
    int diff_more;        /* a second part of it, -1 = none */
    float **data;         /* [n_values] contents of the values without producer (i32 for labels), NULL for the others */
    uint32_t samples[PROBLEM_MAX_MB];
    struct ls_step_ctx ctx;
};

/* Destroy also after a failure. */
enum ls_status problem_build(struct problem *p, struct test_case *c) LS_MUST_CHECK;
void problem_release(struct problem *p);
void problem_round(struct problem *p); /* all numbers to bf16 */

static inline int64_t problem_count(const struct problem *p, int value)
{
    return ls_shape_count(&p->g->values[value].shape);
}

/* A random number in [-1,1): a function of (seed, which, index). */
float random_number(uint64_t seed, int which, int64_t index);

#endif
