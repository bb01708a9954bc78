/* lower.h: a forward graph in evaluation mode, with a checkpoint's values, to ONNX's operators. Internal to src/export.
 *
 * One function per op, in one table (lower.c): an op without one is refused by name. To add an op: a function in
 * lower_ops.c and its line in the table.
 */
#ifndef LS_EXPORT_LOWER_H
#define LS_EXPORT_LOWER_H

#include "checkpoint/checkpoint.h"
#include "export/network.h"
#include "graph/graph.h"

struct lowering {
    const struct ls_graph *g;
    const struct ls_ckpt *ckpt;
    const char *path; /* of the checkpoint */
    struct onnx_network *net;
    const char **names; /* [n_values] what a value is called there; NULL: not made yet */
    int *folded_by;     /* [n_nodes] the batch norm that becomes part of the node, or -1 */
};

typedef enum ls_status lower_fn(struct lowering *l, const struct ls_node *n);
lower_fn ls__lower_conv2d, ls__lower_linear, ls__lower_bias, ls__lower_relu, ls__lower_maxpool, ls__lower_avgpool,
    ls__lower_batchnorm_eval, ls__lower_dropout, ls__lower_lrn, ls__lower_add, ls__lower_concat, ls__lower_reshape,
    ls__lower_activation, ls__lower_groupnorm, ls__lower_layernorm;

/* Fills net->nodes and net->tensors. names[g->input] is set by the caller; the logits' is net->output. fold: batch norm
 * becomes part of the layer before it where nothing else reads that layer. */
enum ls_status ls__lower(const struct ls_graph *g, const struct ls_ckpt *ckpt, const char *path, bool fold,
                         const char *input, struct onnx_network *net) LS_MUST_CHECK;

/* --- for the functions of ops --- */

/* Begins the ONNX operator of a node: its first input is the node's, its output the node's. */
enum ls_status ls__lower_begin(struct lowering *l, const struct ls_node *n, const char *op,
                               struct onnx_node **node) LS_MUST_CHECK;
/* One of several operators for a node: inputs are the caller's; *output: its name, `what` makes it. */
enum ls_status ls__lower_part(struct lowering *l, const struct ls_node *n, const char *op, const char *what,
                              struct onnx_node **node) LS_MUST_CHECK;
/* A stored value's numbers, from the checkpoint. */
enum ls_status ls__lower_values(const struct lowering *l, int value, const float **data) LS_MUST_CHECK;
/* The stored value as a tensor of the network, under its own name. */
enum ls_status ls__lower_tensor(struct lowering *l, int value, const char **name) LS_MUST_CHECK;
/* The same numbers in another shape, under a name of their own. */
enum ls_status ls__lower_tensor_as(struct lowering *l, int value, const struct ls_shape *shape,
                                   const char **name) LS_MUST_CHECK;
/* Weights and bias of a node that has them, batch norm folded in if it is to be; *bias NULL: none. */
enum ls_status ls__lower_weights(struct lowering *l, const struct ls_node *n, const char **weights,
                                 const char **bias) LS_MUST_CHECK;
/* The shape of one number per channel beside a node's input: [c], or [c,1,1] beside images. */
struct ls_shape ls__lower_per_channel(const struct lowering *l, const struct ls_node *n);
/* One number, as a tensor; `what` makes its name. */
enum ls_status ls__lower_number(struct lowering *l, const struct ls_node *n, const char *what, float value,
                                const char **name) LS_MUST_CHECK;
const struct ls_shape *ls__lower_shape(const struct lowering *l, int value);

#endif
