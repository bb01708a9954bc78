/* runner.h: runs the nodes of a problem on one backend, in plain layouts as seen from outside, with its eyes open.
 *
 * For every node: the kernel is prepared and bound as a plan would, inputs are brought into the layouts it wants by the
 * backend's own REORDER, and it is launched. On the way these laws are checked:
 *
 *   - guard zones around every buffer, scratch included, stay untouched; inputs stay as they were
 *   - every byte of an output is written (outputs start as NaN, scratch too)
 *   - padding inside an output's layout is zero
 *   - a second launch gives the same bits, and so does one in place if the kernel says it can work in place
 */
#ifndef OPS_RUNNER_H
#define OPS_RUNNER_H

#include "backend/backend.h"
#include "mirror.h"
#include "problem.h"

struct runner {
    const struct ls_backend *backend;
    struct ls_device *device;
    struct ls_graph *g;
    int n_nodes, n_values;
    const struct ls_step_ctx *ctx;
    const uint32_t *samples;
    struct buffer *values;      /* [n_values] contents, plain (workspaces: the kernel's) */
    struct ls_layout *layouts;  /* [n_values] of parameters: ANY until a kernel has asked */
    struct ls_kernel **kernels; /* [n_nodes] */
    /* Where to read inputs from, so that an error does not travel from node to node; NULL: from own values. */
    const struct runner *truth;
    bool is_native; /* offer images in the layout the backend's convolution makes, not in plain */
    bool is_perf;   /* print the time of every node */
    /* The implementation to ask for, as a tuning table would; nodes it does not take are picked as ever. NULL: none. */
    const char *asked;
    double tolerance; /* of other ops than batch norm against ref; 0: the usual one */
    int n_asked;      /* nodes that took it and would not have by themselves */
};

/* Loads the values without producer. Close also after a failure. */
enum ls_status runner_open(struct runner *r, const struct ls_backend *backend, const struct problem *p) LS_MUST_CHECK;
enum ls_status runner_run(struct runner *r) LS_MUST_CHECK;
void runner_close(struct runner *r);

/* The first implementation that takes the node, from the backend's list, then ref's where it can read the memory, as
 * the plan picks. */
enum ls_status pick_kernel(const struct ls_backend *backend, const struct ls_prep *prep,
                           struct ls_kernel **out) LS_MUST_CHECK;

#endif
