/* passes.h: from a model to the graph of a step, through all passes in their order: build, fuse, loss, and for training
 * gradient and update. Whatever runs or tests a step goes this way.
 */
#ifndef LS_SESSION_PASSES_H
#define LS_SESSION_PASSES_H

#include "model/model.h"
#include "optim/optim.h"

struct ls_passes {
    struct ls_model_options build; /* the size of a shard, and whether it is for training */
    int64_t batch_size;            /* of a step; 0: every gradient is summed shard by shard */
    bool is_low_memory;
    bool has_norm_add;          /* the backend's */
    bool sums_in_float;         /* gradients only */
    double label_smoothing;     /* training's */
    bool is_mixing;             /* training's loss has second labels */
    const char *freeze, *lr_of; /* of settings/patterns.h, or NULL */
    double lr;
    struct ls_optim optim; /* training's */
};

enum ls_status ls__passes_run(const struct ls_passes *p, const struct ls_model *model,
                              struct ls_graph **out) LS_MUST_CHECK;

#endif
