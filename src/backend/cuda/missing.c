/* missing.c: ops that have no kernel here yet. Each refuses by name, so that a plan says which layer it was and what to
 * do instead. When an op gets its kernels, its two lines go. */
#include "backend/cuda/cuda.h"

static enum ls_status refuse(const struct ls_prep *prep, struct ls_kernel **out)
{
    const struct ls_node *n = prep->node;
    const bool is_activation = n->op == LS_OP_ACTIVATION || n->op == LS_OP_ACTIVATION_BWD;
    *out = NULL;
    return ls_fail(LS_UNSUPPORTED, "cuda has no %s yet (layer %s); use --device cpu",
                   is_activation ? ls_activation_name(n->attrs.activation) : ls_op_name(n->op),
                   n->name ? n->name : "without a name");
}

/* Never reached: prepare makes no kernel. */
static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    return ls_fail(LS_INTERNAL, "cuda: launched without a kernel");
}

#define MISSING(OP, lower)                                                                                             \
    const struct ls_impl ls__cuda_##lower = {.name = "cuda", .op = LS_OP_##OP, .prepare = refuse, .launch = launch};

MISSING(ACTIVATION, activation)
MISSING(ACTIVATION_BWD, activation_bwd)
MISSING(GROUPNORM, groupnorm)
MISSING(GROUPNORM_BWD, groupnorm_bwd)
MISSING(LAYERNORM, layernorm)
MISSING(LAYERNORM_BWD, layernorm_bwd)
