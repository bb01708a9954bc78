/* op.h: what the graph must know of an op: how many inputs, which outputs, what its gradient is, what it costs.
 *
 * One const struct per op, in src/graph/ops/<op>.c, listed in ops/list.c in the order of LS_OP_MAP. Adding an op is one
 * line in LS_OP_MAP, one in the list, and the file; CONTRIBUTING.md has the steps.
 */
#ifndef LS_GRAPH_OP_H
#define LS_GRAPH_OP_H

#include "graph/graph.h"

/* What an infer rule says of one output; kind TEMP and f32 unless set otherwise. */
struct ls_out {
    bool is_present;
    enum ls_value_kind kind;
    enum ls_dtype dtype;
    struct ls_shape shape;
    bool is_workspace;
};

struct ls_gradient;

struct ls_op_def {
    int min_in, max_in; /* inputs given; an optional one may be -1 */
    /* required: checks the inputs, fills out[] and n->n_out. */
    enum ls_status (*infer)(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT]);
    /* (optional: NULL = no gradient flows through) appends the backward nodes of node `index`, given the gradient of
     * its first output, and hands the results to ls__gradient_flow or ls__gradient_leaf. */
    enum ls_status (*gradient)(struct ls_gradient *gr, int index, int diff_dst);
    /* (optional, default: one operation per output element) */
    double (*flops)(const struct ls_graph *g, const struct ls_node *n);
};

const struct ls_op_def *ls__op_def(enum ls_op op);

/* --- for infer rules --- */
const struct ls_shape *ls__in_shape(const struct ls_graph *g, const struct ls_node *n, int index);
bool ls__in_is_present(const struct ls_node *n, int index);
/* The shape of an input of the forward node this backward node belongs to. */
enum ls_status ls__like_forward(const struct ls_graph *g, const struct ls_node *n, int index, struct ls_out *out);
enum ls_status ls__like_input(const struct ls_graph *g, struct ls_node *n, int index, struct ls_out out[LS_MAX_OUT]);
enum ls_status ls__need_image(const struct ls_graph *g, const struct ls_node *n); /* input 0 is [mb,c,h,w] */
/* Output size of a sliding window, or LS_DATA if it does not fit once. */
enum ls_status ls__window_out(const struct ls_attrs *a, const struct ls_shape *src, int64_t *oh, int64_t *ow);
/* The shape a pooling makes of its image; padding of more than half a window is LS_DATA. */
enum ls_status ls__pool_out(const struct ls_graph *g, const struct ls_node *n, struct ls_shape *dst);
double ls__count_flops(const struct ls_graph *g, int value, double per_element);

/* --- for gradient rules --- */
/* The state of the gradient pass. */
struct ls_gradient {
    struct ls_graph *g;
    int n_forward;   /* nodes before the pass began */
    int n_values;    /* values before the pass began: the arrays have this size */
    int *grad;       /* value -> gradient value, -1 = none yet */
    int *more;       /* value -> a second part of it, where its producer takes two; -1 = none */
    bool *is_needed; /* value depends on a parameter */
    bool *is_masked; /* value ends in a relu, and its gradient arrives masked already */
    int *original;   /* [n_original] of value n_values + i: the value of forward it repeats, or -1 */
    int n_original;
};

/* recompute.c. segment_of: [n_nodes] the segment of every forward node that is to be computed again, -1 for others. */
enum ls_status ls__recompute_plan(const struct ls_graph *g, int *segment_of) LS_MUST_CHECK;
enum ls_status ls__recompute_segment(struct ls_gradient *gr, const int *segment_of, int segment,
                                     int *again) LS_MUST_CHECK;

/* Appends a backward node of forward node `forward` (its attrs are copied). out ids: g->nodes[last].out. */
enum ls_status ls__gradient_node(struct ls_gradient *gr, enum ls_op op, int forward, const int *in, int n_in,
                                 int out[LS_MAX_OUT]) LS_MUST_CHECK;
bool ls__gradient_is_needed(const struct ls_gradient *gr, int value);
/* How many of the inputs behind the first, its parameters, are trained. */
int ls__gradient_n_trained(const struct ls_gradient *gr, int node);
/* A gradient arrived at an activation: kept, or added to what is there. */
enum ls_status ls__gradient_flow(struct ls_gradient *gr, int value, int diff) LS_MUST_CHECK;
/* The second part of the gradient of a node's output, or -1: for a node that takes two. */
int ls__gradient_more(const struct ls_gradient *gr, int value);
/* A gradient arrived at a parameter, or a statistic at a buffer: it leaves the shard through a REDUCE node. */
enum ls_status ls__gradient_leaf(struct ls_gradient *gr, int value, int diff,
                                 const struct ls_attrs *attrs) LS_MUST_CHECK;
/* The same for a node that has made the sum itself. */
enum ls_status ls__gradient_sum(struct ls_gradient *gr, int value, int sum) LS_MUST_CHECK;
/* Appends a KEEP of `value` for forward node `forward`; `what` makes its name. */
enum ls_status ls__gradient_keep(struct ls_gradient *gr, int forward, const char *what, int value,
                                 int *kept) LS_MUST_CHECK;
/* diff_dst masked by dst > 0 when the node ends in a relu; else diff_dst itself. */
enum ls_status ls__gradient_through_relu(struct ls_gradient *gr, int forward, int diff_dst, int *masked) LS_MUST_CHECK;
/* For an op that passes on elements of its input as they are: where the input ends in a relu and nobody else uses it,
 * the relu's mask is taken from the op's result, which may be smaller. (Not for batch norm, which masks as it goes.) */
enum ls_status ls__gradient_mask_early(struct ls_gradient *gr, int forward, int diff_dst, int *masked) LS_MUST_CHECK;

#endif
