/* unused.c: options that do nothing beside what else was chosen. They are accepted, for scripts hand the same options
 * to every run, but not in silence: someone expected an effect.
 *
 * The table has every option of a training, those that always have an effect too: a new option does not pass the tests
 * until it is said here when it has one.
 */
#include "base/log.h"
#include "cli/options.h"
#include "comm/comm.h"
#include "data/catalog.h"
#include "settings/sync_names.h"

#include <string.h>

/* What was asked for. */
struct wish {
    const struct ls_options *o;
    enum ls_cmd cmd;
};

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

/* --- the update --- */

static bool is_sgd(const struct wish *w)
{
    return is(w->o->train.optimizer, "sgd");
}

static bool is_adamw(const struct wish *w)
{
    return is(w->o->train.optimizer, "adamw");
}

static bool has_steps(const struct wish *w)
{
    return is(w->o->train.schedule, "step");
}

static bool has_milestones(const struct wish *w)
{
    return is(w->o->train.schedule, "multistep");
}

static bool has_gamma(const struct wish *w)
{
    return has_steps(w) || has_milestones(w);
}

static bool is_cosine(const struct wish *w)
{
    return is(w->o->train.schedule, "cosine");
}

static bool has_warmup(const struct wish *w)
{
    return !is(w->o->train.schedule, "onecycle");
}

/* --- what is measured and kept --- */

static bool has_evaluation(const struct wish *w)
{
    return !w->o->train.no_eval || w->o->train.validation;
}

static bool judges_epochs(const struct wish *w)
{
    return w->o->train.eval_every > 0;
}

static bool has_checkpoints(const struct wish *w)
{
    return !is(w->o->train.checkpoint_every, "none");
}

static bool has_trace(const struct wish *w)
{
    return w->o->train.trace;
}

static bool is_resumed(const struct wish *w)
{
    return w->o->train.resume;
}

/* --- data --- */

static const char *data_of(const struct wish *w)
{
    const char *data = w->cmd == LS_CMD_DATA ? w->o->args[1] : w->o->train.data;
    return data ? data : "";
}

static bool is_folder(const struct wish *w)
{
    return strncmp(data_of(w), "folder:", strlen("folder:")) == 0;
}

static bool is_searched(const struct wish *w)
{
    bool with_extra;
    return ls__catalog_from_spec(data_of(w), &with_extra);
}

static bool has_colours(const struct wish *w)
{
    return ls__data_channels(data_of(w)) != 1;
}

/* --- what computes --- */

static bool is_cpu(const struct wish *w)
{
    return is(w->o->train.device, "cpu");
}

static bool has_kernels(const struct wish *w)
{
    return !is(w->o->train.device, "ref");
}

/* --- company --- */

static bool is_served(const struct wish *w)
{
    return ls__sync_is_served(w->o->train.sync);
}

static bool is_synchronous_server(const struct wish *w)
{
    return is(w->o->train.sync, "ps");
}

/* A rank that mpirun or srun started has company, but no launcher of ours. */
static bool has_mpirun(const struct wish *w)
{
    return !ls_comm_is_launched() && (w->o->hosts || w->o->train.workers > 1);
}

static bool has_launcher(const struct wish *w)
{
    return has_mpirun(w) || (!ls_comm_is_launched() && is_served(w));
}

static bool has_workers(const struct wish *w)
{
    return has_launcher(w) || ls_comm_is_launched();
}

static bool has_threads(const struct wish *w)
{
    return !is(w->o->train.device, "cuda") || has_workers(w);
}

static bool is_balanced(const struct wish *w)
{
    const bool has_machines = w->o->hosts || w->o->nodes > 1 || w->o->train.gpus > 1 || ls_comm_is_launched();
    return has_machines && !is_served(w) && w->o->train.compress == 0;
}

static bool has_rescue(const struct wish *w)
{
    return w->o->max_restarts > 0 && has_launcher(w) && !is_served(w);
}

/* Who is started by hand or by torchrun; what a launcher of ours starts has keys of its own, or needs none. */
static bool comes_by_itself(const struct wish *w)
{
    return w->cmd == LS_CMD_SERVER || w->o->served_at[0] || ls_comm_is_node();
}

static bool is_listening(const struct wish *w)
{
    return w->cmd == LS_CMD_SERVER || (w->o->hosts && is_served(w));
}

static bool has_processes_each(const struct wish *w)
{
    return w->o->hosts || w->o->nodes > 0 || w->o->served_at[0] || ls_comm_is_launched();
}

/* --- the table --- */

#define ONLY(name_, is_there_, only_) .name = name_, .is_there = is_there_, .only = only_

static const struct effect {
    const char *name;
    bool (*is_there)(const struct wish *w); /* NULL: always */
    const char *only;                       /* when it is there */
    bool is_general;                        /* so it is with every command that takes the option */
    bool is_output;                         /* it has an effect beside --keygen, too */
} effects[] = {
    {.name = "batch-size"},
    {.name = "epochs"},
    {.name = "iterations"},
    {.name = "seed"},
    {.name = "shards"},
    {.name = "repeat"},
    {.name = "batch-per-worker"},
    {ONLY("patience", judges_epochs, "with --eval-every above 0")},
    {.name = "target"},
    {.name = "label-smoothing"},
    {.name = "clip-norm"},
    {.name = "sum"},
    {.name = "memory"},

    {.name = "optimizer"},
    {.name = "lr"},
    {ONLY("momentum", is_sgd, "with --optimizer sgd")},
    {ONLY("nesterov", is_sgd, "with --optimizer sgd")},
    {.name = "weight-decay"},
    {ONLY("beta1", is_adamw, "with --optimizer adamw")},
    {ONLY("beta2", is_adamw, "with --optimizer adamw")},
    {ONLY("eps", is_adamw, "with --optimizer adamw")},
    {.name = "schedule"},
    {ONLY("gamma", has_gamma, "with --schedule step or multistep")},
    {ONLY("step-epochs", has_steps, "with --schedule step")},
    {ONLY("milestones", has_milestones, "with --schedule multistep")},
    {ONLY("warmup-epochs", has_warmup, "with schedules other than onecycle, which begins with a rise of its own")},
    {ONLY("min-lr", is_cosine, "with --schedule cosine")},
    {.name = "init"},
    {.name = "init-skip"}, /* refused without --init */
    {.name = "freeze"},
    {.name = "lr-of"},

    {ONLY("data-dir", is_searched, "with data sets that are read from files, such as mnist")},
    {.name = "validation"},
    {.name = "resize"},
    {.name = "crop-pad"},
    {.name = "flip"},
    {.name = "cutout"},
    {.name = "resized-crop"},
    {.name = "brightness"},
    {.name = "contrast"},
    {ONLY("saturation", has_colours, "with images in colour"), .is_general = true},
    {ONLY("hue", has_colours, "with images in colour"), .is_general = true},
    {.name = "erasing"},
    {.name = "mixup"},
    {.name = "cutmix"},
    {.name = "normalize"},
    {ONLY("loader-threads", is_folder, "with data of the form folder:PATH")},

    {.name = "device"},
    {ONLY("isa", is_cpu, "with --device cpu"), .is_general = true},
    {ONLY("tune", has_kernels, "with a --device other than ref, which has no choice of kernels"), .is_general = true},
    {.name = "precision"}, /* refused on a device that has one only */
    {ONLY("threads", has_threads, "with a --device other than cuda, or several processes")},
    {.name = "workers"},
    {.name = "gpus"}, /* refused without cards */
    {.name = "hosts"},
    {ONLY("procs-per-node", has_processes_each, "with --hosts or --nodes")},
    {.name = "nodes"},
    {.name = "network"}, /* refused without --nodes */
    {.name = "slow"},    /* refused for a node that is not there */
    {ONLY("balance", is_balanced, "with --hosts, --nodes or --gpus, and without --compress or a server")},
    {.name = "compress"},
    {ONLY("timeout", has_workers, "with --workers (2 or more), --nodes or --hosts")},
    {ONLY("max-restarts", has_launcher,
          "with --workers (2 or more) or --hosts, and without an mpirun or srun of your own")},
    {ONLY("rescue-every", has_rescue, "with --max-restarts and without a server")},
    {ONLY("mpi-args", has_mpirun, "with --workers (2 or more) or --hosts, and without an mpirun or srun of your own"),
     .is_general = true},
    {.name = "sync"},
    {.name = "server"},
    {ONLY("lease", is_served, "with --sync ps, async or ssp:K")},
    {ONLY("backup", is_synchronous_server, "with --sync ps")},
    {.name = "servers"}, /* refused without --sync ps */
    {.name = "chief"},
    {.name = "rank"}, /* refused without --master */
    {.name = "master"},
    {ONLY("listen", is_listening, "with --hosts and --sync ps, async or ssp:K")},
    {ONLY("key", comes_by_itself, "with --server, or --nodes, --rank and --master")},
    {.name = "keygen", .is_output = true},

    {.name = "run"},
    {.name = "resume"},
    {ONLY("accept-other-bits", is_resumed, "with --resume")},
    {.name = "checkpoint-every"},
    {ONLY("keep", has_checkpoints, "with checkpoints")},
    {ONLY("eval-every", has_evaluation, "without --no-eval, or with --validation")},
    {.name = "no-eval"},
    {.name = "log-every"},
    {.name = "record"},
    {.name = "histograms"},
    {.name = "trace"},
    {ONLY("trace-steps", has_trace, "with --trace")},
    {.name = "json", .is_output = true},
    {.name = "quiet", .is_output = true},
    {.name = "verbose", .is_output = true},
    {.name = "help", .is_output = true},
};
enum { N_EFFECTS = sizeof effects / sizeof *effects };

bool ls__option_effect(const char *name, const char **only)
{
    for (int i = 0; i < N_EFFECTS; i++) {
        if (!is(effects[i].name, name)) continue;
        *only = effects[i].only;
        return true;
    }
    return false;
}

static void warn(const char *name, const char *only)
{
    ls__log(LS_LOG_WARN, "--%s has an effect only %s", name, only);
}

static void warn_beside_keygen(const struct ls_options *o)
{
    for (int i = 0; i < N_EFFECTS; i++)
        if (!effects[i].is_output && ls__option_is_given(o, effects[i].name)) warn(effects[i].name, "without --keygen");
}

void ls__options_warn_unused(const struct ls_options *o, enum ls_cmd cmd)
{
    const struct wish w = {o, cmd};
    const bool is_training = cmd == LS_CMD_TRAIN || cmd == LS_CMD_SERVER;
    if (cmd == LS_CMD_LAB || cmd == LS_CMD_SWEEP) return; /* each of its trainings says it */
    if (!ls_comm_is_first()) return;                      /* once is enough */
    if (cmd == LS_CMD_SERVER && o->keygen) {
        warn_beside_keygen(o);
        return;
    }
    for (int i = 0; i < N_EFFECTS; i++) {
        const struct effect *e = &effects[i];
        const bool is_asked = e->is_there && (is_training || e->is_general) && ls__option_is_given(o, e->name);
        if (is_asked && !e->is_there(&w)) warn(e->name, e->only);
    }
}
