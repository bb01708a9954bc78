/* unused.c: options that do nothing beside what else was chosen. They are accepted, for scripts hand the same options
 * to every run, but not in silence: someone expected an effect.
 */
#include "base/log.h"
#include "cli/options.h"
#include "comm/comm.h"
#include "settings/sync_names.h"

#include <string.h>

static bool is_sgd(const struct ls_options *o)
{
    return strcmp(o->train.optimizer, "sgd") == 0;
}

static bool is_adamw(const struct ls_options *o)
{
    return strcmp(o->train.optimizer, "adamw") == 0;
}

static bool has_steps(const struct ls_options *o)
{
    return strcmp(o->train.schedule, "step") == 0;
}

static bool has_milestones(const struct ls_options *o)
{
    return strcmp(o->train.schedule, "multistep") == 0;
}

static bool has_gamma(const struct ls_options *o)
{
    return has_steps(o) || has_milestones(o);
}

static bool is_cosine(const struct ls_options *o)
{
    return strcmp(o->train.schedule, "cosine") == 0;
}

static bool has_warmup(const struct ls_options *o)
{
    return strcmp(o->train.schedule, "onecycle") != 0;
}

static bool has_evaluation(const struct ls_options *o)
{
    return !o->train.no_eval;
}

static bool has_checkpoints(const struct ls_options *o)
{
    return strcmp(o->train.checkpoint_every, "none") != 0;
}

static bool is_folder(const struct ls_options *o)
{
    return strncmp(o->train.data, "folder:", strlen("folder:")) == 0;
}

/* A rank that mpirun or srun started has company, but no launcher of ours. */
static bool has_launcher(const struct ls_options *o)
{
    return !ls_comm_is_launched() && (o->hosts || o->train.workers > 0 || o->served_at[0]);
}

static bool has_workers(const struct ls_options *o)
{
    return has_launcher(o) || ls_comm_is_launched();
}

static bool has_machines(const struct ls_options *o)
{
    return o->hosts || o->nodes > 1 || o->train.gpus > 1 || ls_comm_is_launched();
}

static bool has_restarts(const struct ls_options *o)
{
    return o->max_restarts > 0 && has_launcher(o);
}

/* Who is started by hand or by torchrun; what a launcher of ours starts has keys of its own, or needs none. */
static bool comes_by_itself(const struct ls_options *o)
{
    return o->server || o->served_at[0] || ls_comm_is_node();
}

static bool serves_hosts(const struct ls_options *o)
{
    return o->hosts && ls__sync_is_served(o->train.sync);
}

static const struct {
    const char *name;
    bool (*has_effect)(const struct ls_options *o);
    const char *only; /* when it has one */
} rules[] = {
    {"momentum", is_sgd, "with --optimizer sgd"},
    {"nesterov", is_sgd, "with --optimizer sgd"},
    {"beta1", is_adamw, "with --optimizer adamw"},
    {"beta2", is_adamw, "with --optimizer adamw"},
    {"eps", is_adamw, "with --optimizer adamw"},
    {"gamma", has_gamma, "with --schedule step or multistep"},
    {"step-epochs", has_steps, "with --schedule step"},
    {"milestones", has_milestones, "with --schedule multistep"},
    {"min-lr", is_cosine, "with --schedule cosine"},
    {"warmup-epochs", has_warmup, "with schedules other than onecycle, which begins with a rise of its own"},
    {"eval-every", has_evaluation, "without --no-eval"},
    {"keep", has_checkpoints, "with checkpoints"},
    {"loader-threads", is_folder, "with data of the form folder:PATH"},
    {"timeout", has_workers, "with --workers, --nodes or --hosts"},
    {"max-restarts", has_launcher, "with --workers or --hosts, and without an mpirun or srun of your own"},
    {"mpi-args", has_launcher, "with --workers or --hosts, and without an mpirun or srun of your own"},
    {"balance", has_machines, "with --hosts, --nodes or --gpus"},
    {"listen", serves_hosts, "with --hosts and --sync ps, async or ssp:K"},
    {"key", comes_by_itself, "with --server, or --nodes, --rank and --master"},
    {"rescue-every", has_restarts, "with --max-restarts"},
};

void ls__options_warn_unused(const struct ls_options *o)
{
    if (!ls_comm_is_first()) return; /* once is enough */
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (ls__option_is_given(o, rules[i].name) && !rules[i].has_effect(o))
            ls__log(LS_LOG_WARN, "--%s has an effect only %s", rules[i].name, rules[i].only);
}
