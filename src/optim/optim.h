/* optim.h: optimizers as a graph pass, learning-rate schedules as a function of the step. */
#ifndef LS_OPTIM_H
#define LS_OPTIM_H

#include "base/status.h"
#include "graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ls_optim {
    bool is_adamw; /* else SGD */
    bool nesterov;
    double momentum, weight_decay, beta1, beta2, eps;
};

/* Appends an update node for every parameter with a gradient, its state values ("optimizer.momentum.<parameter>",
 * "optimizer.m.<..>", "optimizer.v.<..>"), and a RUNNING_STATS node for every batch-norm statistic. Runs after
 * ls_graph_add_gradient. */
enum ls_status ls_optim_add_update(struct ls_graph *g, const struct ls_optim *o) LS_MUST_CHECK;

enum ls_schedule_kind { LS_CONSTANT, LS_STEP, LS_MULTISTEP, LS_COSINE, LS_ONECYCLE };

enum { LS_MAX_MILESTONES = 32 };

struct ls_schedule {
    enum ls_schedule_kind kind;
    double lr, min_lr, gamma;
    int64_t step_epochs;
    int n_milestones;
    double milestones[LS_MAX_MILESTONES]; /* epochs, rising */
    double warmup_epochs;
    int64_t steps_per_epoch, total_steps;
};

/* "cosine" and so on; LS_USAGE with the list if unknown. milestones: "30,60,80" or NULL. */
enum ls_status ls_schedule_parse(struct ls_schedule *s, const char *kind, const char *milestones) LS_MUST_CHECK;

/* The learning rate of a step (from 0). Warm-up rises linearly from lr/warmup_steps to lr. After it, cosine runs over
 * the steps that are left; step and multistep count epochs from the beginning. onecycle brings its own warm-up over the
 * first 30 %. */
double ls_schedule_lr(const struct ls_schedule *s, int64_t step);

#ifdef __cplusplus
}
#endif

#endif
