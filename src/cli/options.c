/* options.c: the table of options; see options.h.
 *
 * The default column is text as a person would type it; tests/unit/test_options.c checks it against
 * ls_train_options_default(), so that the program and the library start from the same values.
 */
#include "cli/options.h"

#include "base/parse.h"
#include "graph/graph.h"
#include "predict/predict.h"
#include "settings/sync_names.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* --- forms of texts --- */

static bool is_resize(const char *text)
{
    int64_t dims[3];
    int n = ls__parse_dims(text, dims);
    return n == 1 || n == 2;
}

static bool is_input(const char *text)
{
    int64_t dims[3];
    return ls__parse_dims(text, dims) == 3;
}

/* "30,60,80", rising */
static bool is_milestones(const char *text)
{
    int64_t before = 0;
    for (;;) {
        char *end = NULL;
        long long v = *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : 0;
        if (v <= before || v > 1000000) return false;
        before = v;
        if (*end == '\0') return true;
        if (*end != ',') return false;
        text = end + 1;
    }
}

static bool is_checkpoint_every(const char *text)
{
    int64_t steps;
    return !strcmp(text, "epoch") || !strcmp(text, "none") || ls__parse_i64(text, 1, INT64_MAX, &steps);
}

static bool is_not_empty(const char *text)
{
    return *text != '\0';
}

static bool is_latency(const char *text)
{
    double seconds;
    return ls_predict_parse_latency(text, &seconds);
}

static bool is_bandwidth(const char *text)
{
    double rate;
    return ls_predict_parse_bandwidth(text, &rate);
}

/* --- the table --- */

/* One entry, one paragraph. */
/* clang-format off */
#define AT(member) .offset = offsetof(struct ls_options, member)
#define ON(cmd) (1u << LS_CMD_##cmd)
#define ON_ALL ((1u << LS_N_CMDS) - 1)

static const char group_training[] = "Training", group_optimizer[] = "Optimizer",
                  group_schedule[] = "Learning rate over time", group_data[] = "Data and augmentation",
                  group_place[] = "Where it runs", group_run[] = "Run directory", group_bench[] = "Measuring", group_network[] = "Network",
                  group_shape[] = "Model", group_fetch[] = "Download", group_texts[] = "Texts",
                  group_output[] = "Output";

const struct ls_option ls__options[] = {
    {.name = "batch-size", .letter = 'b', .arg = "N", .type = LS_OPT_INT, .min = 1, .max = 1 << 20, .def = "128",
     .help = "GLOBAL batch: samples per step over all threads and workers together, not per worker.",
     .group = group_training, .commands = ON(TRAIN) | ON(EVAL) | ON(BENCH) | ON(TUNE) | ON(PLAN) | ON(PREDICT), AT(train.batch_size)},
    {.name = "epochs", .arg = "N", .type = LS_OPT_INT, .min = 1, .max = 1000000, .def = "5",
     .help = "Passes over the training data.",
     .group = group_training, .commands = ON(TRAIN), AT(train.epochs)},
    {.name = "iterations", .letter = 'i', .arg = "N", .type = LS_OPT_INT, .min = 0, .max = 1e12, .def = "0",
     .help = "Stop after N steps in all; 0: --epochs decides.",
     .group = group_training, .commands = ON(TRAIN), AT(train.iterations)},
    {.name = "seed", .arg = "N", .type = LS_OPT_INT, .min = 0, .max = 9e18, .def = "1",
     .help = "Seed of all random numbers: initial weights, order, augmentation, dropout.",
     .group = group_training, .commands = ON(TRAIN), AT(train.seed)},
    {.name = "shards", .arg = "N", .type = LS_OPT_INT, .min = 0, .max = LS_MAX_SHARDS, .def = "0",
     .help = "Shards the global batch is cut into, part of the result; 0: from the batch size alone.",
     .group = group_training, .commands = ON(TRAIN) | ON(BENCH) | ON(TUNE) | ON(PLAN) | ON(PREDICT), AT(train.shards)},
    {.name = "label-smoothing", .arg = "X", .type = LS_OPT_REAL, .min = 0, .max = 1, .is_max_open = true, .def = "0",
     .help = "Share of the target spread over all classes.",
     .group = group_training, .commands = ON(TRAIN), AT(train.label_smoothing)},
    {.name = "clip-norm", .aliases = {"clip-grad-norm"}, .arg = "X", .type = LS_OPT_REAL, .min = 0, .max = 1e30,
     .def = "0", .help = "Scale the gradient down to this norm when it is larger; 0: off.",
     .group = group_training, .commands = ON(TRAIN), AT(train.clip_norm)},
    {.name = "sum", .arg = "HOW", .type = LS_OPT_CHOICE, .choices = "fixed|float", .def = "fixed",
     .help = "Sum over shards in fixed point (same bits for any number of threads) or in float32 (for comparison).",
     .group = group_training, .commands = ON(TRAIN), AT(train.sum)},

    {.name = "memory", .arg = "HOW", .type = LS_OPT_CHOICE, .choices = "normal|low", .def = "normal",
     .help = "low: compute activations again in backward instead of keeping them: less memory, up to a third slower, the "
             "same weights.",
     .group = group_training, .commands = ON(TRAIN) | ON(BENCH) | ON(PLAN), AT(train.memory)},

    {.name = "optimizer", .aliases = {"opt"}, .arg = "NAME", .type = LS_OPT_CHOICE, .choices = "sgd|adamw",
     .def = "sgd", .help = "How the weights are updated.",
     .group = group_optimizer, .commands = ON(TRAIN) | ON(PLAN), AT(train.optimizer)},
    {.name = "lr", .aliases = {"learning-rate"}, .arg = "RATE", .type = LS_OPT_REAL, .min = 0, .max = 1e6,
     .def = "0.05", .help = "Learning rate; with --optimizer adamw the default is 0.001.",
     .group = group_optimizer, .commands = ON(TRAIN), AT(train.lr)},
    {.name = "momentum", .arg = "X", .type = LS_OPT_REAL, .min = 0, .max = 1, .is_max_open = true, .def = "0.9",
     .help = "Momentum of sgd.", .group = group_optimizer, .commands = ON(TRAIN), AT(train.momentum)},
    {.name = "nesterov", .type = LS_OPT_FLAG, .help = "Nesterov's momentum for sgd.",
     .group = group_optimizer, .commands = ON(TRAIN), AT(train.nesterov)},
    {.name = "weight-decay", .aliases = {"wd"}, .arg = "X", .type = LS_OPT_REAL, .min = 0, .max = 1e6, .def = "0",
     .help = "Weight decay; with --optimizer adamw the default is 0.01.",
     .group = group_optimizer, .commands = ON(TRAIN), AT(train.weight_decay)},
    {.name = "beta1", .arg = "X", .type = LS_OPT_REAL, .min = 0, .max = 0.9999999, .def = "0.9",
     .help = "Decay of adamw's first moment.", .group = group_optimizer, .commands = ON(TRAIN), AT(train.beta1)},
    {.name = "beta2", .arg = "X", .type = LS_OPT_REAL, .min = 0, .max = 0.9999999, .def = "0.999",
     .help = "Decay of adamw's second moment.", .group = group_optimizer, .commands = ON(TRAIN), AT(train.beta2)},
    {.name = "eps", .arg = "X", .type = LS_OPT_REAL, .min = 1e-20, .max = 1, .def = "1e-8",
     .help = "Added to adamw's denominator.", .group = group_optimizer, .commands = ON(TRAIN), AT(train.eps)},

    {.name = "schedule", .aliases = {"lr-scheduler"}, .arg = "NAME", .type = LS_OPT_CHOICE,
     .choices = "constant|step|multistep|cosine|onecycle", .def = "cosine",
     .help = "How the learning rate changes.", .group = group_schedule, .commands = ON(TRAIN), AT(train.schedule)},
    {.name = "gamma", .arg = "X", .type = LS_OPT_REAL, .min = 0, .max = 1000, .def = "0.1",
     .help = "step, multistep: factor on the learning rate each time.",
     .group = group_schedule, .commands = ON(TRAIN), AT(train.gamma)},
    {.name = "step-epochs", .aliases = {"lr-step-size"}, .arg = "N", .type = LS_OPT_INT, .min = 1, .max = 1000000,
     .def = "30", .help = "step: epochs between two changes.",
     .group = group_schedule, .commands = ON(TRAIN), AT(train.step_epochs)},
    {.name = "milestones", .arg = "LIST", .type = LS_OPT_TEXT, .is_valid = is_milestones,
     .expected = "rising epoch numbers such as 30,60,80", .help = "multistep: epochs at which it changes, as 30,60,80.",
     .group = group_schedule, .commands = ON(TRAIN), AT(train.milestones)},
    {.name = "warmup-epochs", .aliases = {"lr-warmup-epochs"}, .arg = "X", .type = LS_OPT_REAL, .min = 0,
     .max = 1000000, .def = "0", .help = "Rise linearly from 0 over so many epochs first; may be a fraction.",
     .group = group_schedule, .commands = ON(TRAIN), AT(train.warmup_epochs)},
    {.name = "min-lr", .aliases = {"lr-min"}, .arg = "RATE", .type = LS_OPT_REAL, .min = 0, .max = 1e6, .def = "0",
     .help = "cosine: learning rate at the end.", .group = group_schedule, .commands = ON(TRAIN), AT(train.min_lr)},

    {.name = "data-dir", .aliases = {"data-path"}, .arg = "DIR", .type = LS_OPT_TEXT, .is_valid = is_not_empty,
     .expected = "a folder", .help = "Folder searched first for data sets, and where `data fetch` writes.",
     .group = group_data, .commands = ON(TRAIN) | ON(EVAL) | ON(DATA) | ON(DOCTOR), AT(train.data_dir)},
    {.name = "resize", .arg = "HxW", .type = LS_OPT_TEXT, .is_valid = is_resize, .expected = "a size such as 224 or 224x160",
     .help = "Resize images, as 224 or 224x160; without it the data's own size (folders: 224).",
     .group = group_data, .commands = ON(TRAIN) | ON(EVAL) | ON(DATA), AT(train.resize)},
    {.name = "crop-pad", .arg = "N", .type = LS_OPT_INT, .min = 0, .max = 1024, .def = "0",
     .help = "Training: pad by N pixels, then crop at a random place; 0: off.",
     .group = group_data, .commands = ON(TRAIN), AT(train.crop_pad)},
    {.name = "flip", .type = LS_OPT_FLAG, .help = "Training: mirror left-right with probability 1/2.",
     .group = group_data, .commands = ON(TRAIN), AT(train.flip)},
    {.name = "cutout", .arg = "N", .type = LS_OPT_INT, .min = 0, .max = 4096, .def = "0",
     .help = "Training: blank a random square of N pixels; 0: off.",
     .group = group_data, .commands = ON(TRAIN), AT(train.cutout)},
    {.name = "normalize", .type = LS_OPT_FLAG, .def = "on",
     .help = "Subtract the data set's mean and divide by its deviation, per channel.",
     .group = group_data, .commands = ON(TRAIN), AT(train.normalize)},
    {.name = "loader-threads", .letter = 'j', .arg = "N", .type = LS_OPT_INT, .min = 1, .max = 1024, .def = "1",
     .help = "Threads that decode images of folder: data sets.",
     .group = group_data, .commands = ON(TRAIN), AT(train.loader_threads)},

    {.name = "device", .arg = "NAME", .type = LS_OPT_TEXT, .def = "auto",
     .help = "What computes: cpu (oneDNN), ref (plain C, slow), cuda (an NVIDIA card; with --shards 1 it is fastest), or auto: the "
             "best of the first two this build has.",
     .group = group_place, .commands = ON(TRAIN) | ON(EVAL) | ON(BENCH) | ON(TUNE) | ON(PLAN) | ON(PREDICT), AT(train.device)},
    {.name = "isa", .arg = "LEVEL", .type = LS_OPT_CHOICE, .choices = "native|avx512|avx2", .def = "native",
     .help = "Instructions used at most; a level that all machines have gives all of them the same bits.",
     .group = group_place, .commands = ON(TRAIN) | ON(EVAL) | ON(BENCH) | ON(TUNE) | ON(PLAN) | ON(PREDICT), AT(train.isa)},
    {.name = "tune", .arg = "FILE", .type = LS_OPT_TEXT, .is_valid = is_not_empty, .expected = "a table or none",
     .help = "Kernels by this table (from `lockstep tune`) instead of the program's own; none: by rules alone.",
     .group = group_place, .commands = ON(TRAIN) | ON(EVAL) | ON(BENCH) | ON(PLAN) | ON(PREDICT), AT(train.tune)},
    {.name = "precision", .arg = "NAME", .type = LS_OPT_CHOICE, .choices = "f32|bf16", .def = "f32",
     .help = "Number format of the computation; bf16 is not in this build.",
     .group = group_place, .commands = ON(TRAIN), AT(train.precision)},
    {.name = "threads", .letter = 't', .arg = "N", .type = LS_OPT_INT, .min = 0, .max = 1024, .def = "0",
     .help = "Threads that compute shards; 0: one per CPU. Changes the speed, never the result.",
     .group = group_place, .commands = ON(TRAIN) | ON(EVAL) | ON(BENCH) | ON(TUNE) | ON(PLAN) | ON(PREDICT), AT(train.threads)},
    {.name = "workers", .letter = 'w', .arg = "N", .type = LS_OPT_INT, .min = 0, .max = 65536, .def = "0",
     .help = "Processes on this machine, started through mpirun; they share the cores, and the weights stay the same. 0: "
             "this process alone, or those that mpirun or srun started.",
     .group = group_place, .commands = ON(TRAIN), AT(train.workers)},
    {.name = "hosts", .arg = "LIST", .type = LS_OPT_TEXT, .is_valid = is_not_empty, .expected = "host names as a,b,c",
     .help = "Machines to run on, as a,b,c, reached as mpirun reaches them (ssh); predict: to measure the network between.",
     .group = group_place, .commands = ON(TRAIN) | ON(PREDICT), AT(hosts)},
    {.name = "procs-per-node", .aliases = {"nproc-per-node"}, .arg = "N", .type = LS_OPT_INT, .min = 1, .max = 256,
     .def = "1", .help = "Processes per machine with --hosts; predict: workers per machine.",
     .group = group_place, .commands = ON(TRAIN) | ON(PREDICT), AT(procs_per_node)},
    {.name = "balance", .type = LS_OPT_FLAG, .def = "on",
     .help = "Give slower machines fewer shards, by measured speed; the weights stay the same. --no-balance: equal shares.",
     .group = group_place, .commands = ON(TRAIN), AT(train.balance)},
    {.name = "compress", .arg = "BITS", .type = LS_OPT_INT, .min = 0, .max = 16, .def = "0",
     .help = "Round gradients to 8 or 16 bits before they travel between machines, the rest follows at the next step. "
             "Changes the weights, but not by the number of workers. 0: off.",
     .group = group_place, .commands = ON(TRAIN) | ON(PREDICT), AT(train.compress)},
    {.name = "timeout", .arg = "SECONDS", .type = LS_OPT_REAL, .min = 0.1, .max = 86400, .def = "300",
     .help = "How long to wait for a worker that does not answer before the run ends with its name.",
     .group = group_place, .commands = ON(TRAIN), AT(train.timeout)},
    {.name = "max-restarts", .arg = "N", .type = LS_OPT_INT, .min = 0, .max = 1000000, .def = "0",
     .help = "After a lost worker, start again from the newest checkpoint up to N times; hosts that are gone are left out.",
     .group = group_place, .commands = ON(TRAIN), AT(max_restarts)},
    {.name = "rescue-every", .arg = "N", .type = LS_OPT_INT, .min = 0, .max = 1e12, .def = "50",
     .help = "With --max-restarts: keep a copy of the state in the memory of every machine, every N steps; 0: none.",
     .group = group_place, .commands = ON(TRAIN), AT(train.rescue_every)},
    {.name = "mpi-args", .arg = "TEXT", .type = LS_OPT_TEXT, .takes_dash = true, .help = "More arguments for mpirun, apart by spaces.",
     .group = group_place, .commands = ON(TRAIN) | ON(PREDICT), AT(mpi_args)},
    {.name = "sync", .arg = "HOW", .type = LS_OPT_TEXT, .is_valid = ls__sync_is_valid,
     .expected = LS_SYNC_EXPECTED, .def = "allreduce", .help = LS_SYNC_HELP,
     .group = group_place, .commands = ON(TRAIN), AT(train.sync)},
    {.name = "run", .aliases = {"run-dir"}, .arg = "DIR", .type = LS_OPT_TEXT, .is_valid = is_not_empty,
     .expected = "a folder", .help = "Where everything is written; without it runs/MODEL-DATA-TIME.",
     .group = group_run, .commands = ON(TRAIN), AT(train.run_dir)},
    {.name = "resume", .arg = "WHAT", .type = LS_OPT_TEXT, .is_valid = is_not_empty,
     .expected = "auto, a run directory or a checkpoint file",
     .help = "Go on from WHAT: auto (the newest good checkpoint of --run, if any), a run directory or a checkpoint.",
     .group = group_run, .commands = ON(TRAIN), AT(train.resume)},
    {.name = "accept-other-bits", .type = LS_OPT_FLAG,
     .help = "Resume although library, instruction set or kernels round otherwise than those of the checkpoint.",
     .group = group_run, .commands = ON(TRAIN), AT(train.accept_other_bits)},
    {.name = "checkpoint-every", .arg = "WHEN", .type = LS_OPT_TEXT, .is_valid = is_checkpoint_every,
     .expected = "epoch, none or a number of steps", .def = "epoch",
     .help = "Write a checkpoint every epoch, every so many steps (a number), or none.",
     .group = group_run, .commands = ON(TRAIN), AT(train.checkpoint_every)},
    {.name = "keep", .arg = "N", .type = LS_OPT_INT, .min = 1, .max = 1000000, .def = "2",
     .help = "Newest checkpoints kept, besides the best.", .group = group_run, .commands = ON(TRAIN), AT(train.keep)},
    {.name = "eval-every", .arg = "N", .type = LS_OPT_INT, .min = 0, .max = 1000000, .def = "1",
     .help = "Measure on the test data every N epochs; 0: only at the end.",
     .group = group_run, .commands = ON(TRAIN), AT(train.eval_every)},
    {.name = "no-eval", .type = LS_OPT_FLAG, .help = "Never measure on the test data.",
     .group = group_run, .commands = ON(TRAIN), AT(train.no_eval)},
    {.name = "log-every", .letter = 'p', .aliases = {"log-interval", "print-freq"}, .arg = "N", .type = LS_OPT_INT,
     .min = 0, .max = 1e12, .def = "50", .help = "Steps between two lines of metrics.jsonl; 0: one per epoch only.",
     .group = group_run, .commands = ON(TRAIN), AT(train.log_every)},

    {.name = "steps", .letter = 'n', .arg = "N", .type = LS_OPT_INT, .min = 0, .max = 1e9, .def = "0",
     .help = "Steps to measure; 0: until --seconds are over.",
     .group = group_bench, .commands = ON(BENCH), AT(steps)},
    {.name = "layers", .type = LS_OPT_FLAG,
     .help = "Measure every op of the step too: time, speed, implementation.", .group = group_bench, .commands = ON(BENCH),
     AT(layers)},
    {.name = "warmup", .arg = "N", .type = LS_OPT_INT, .min = 0, .max = 1e6, .def = "2",
     .help = "Steps before measuring begins.", .group = group_bench, .commands = ON(BENCH), AT(warmup_steps)},
    {.name = "seconds", .arg = "X", .type = LS_OPT_REAL, .min = 0, .max = 86400, .def = "3",
     .help = "Measure at least so long; tune: each comparison, 0.3 without this option.", .group = group_bench, .commands = ON(BENCH) | ON(TUNE) | ON(PREDICT), AT(seconds)},

    {.name = "output", .letter = 'o', .arg = "FILE", .type = LS_OPT_TEXT, .is_valid = is_not_empty, .expected = "a file",
     .help = "tune: the table's file; one that is there keeps its lines for other problems. predict: the plot, FILE.svg.",
     .group = group_bench, .commands = ON(TUNE) | ON(PREDICT), AT(output)},

    {.name = "network", .arg = "NAME", .type = LS_OPT_TEXT, .is_valid = is_not_empty,
     .expected = "1GbE, 10GbE, 25GbE, 100GbE or loopback",
     .help = "A common network: 1GbE, 10GbE, 25GbE, 100GbE or loopback.",
     .group = group_network, .commands = ON(PREDICT), AT(network)},
    {.name = "latency", .arg = "TIME", .type = LS_OPT_TEXT, .is_valid = is_latency,
     .expected = "a time such as 0.1ms or 50us", .help = "How long a small message takes one way, as 0.1ms.",
     .group = group_network, .commands = ON(PREDICT), AT(latency)},
    {.name = "bandwidth", .arg = "RATE", .type = LS_OPT_TEXT, .is_valid = is_bandwidth,
     .expected = "a rate such as 1Gbit (of the line) or 117MB (of data)",
     .help = "What the line carries each way, as 1Gbit, or the data it carries, as 117MB.",
     .group = group_network, .commands = ON(PREDICT), AT(bandwidth)},
    {.name = "probe", .type = LS_OPT_FLAG, .help = "Measure the network between the machines of this job, in 2 seconds.",
     .group = group_network, .commands = ON(PREDICT), AT(probe)},
    {.name = "servers", .arg = "K", .type = LS_OPT_INT, .min = 1, .max = 1024, .def = "1",
     .help = "Parameter servers, on machines of their own.",
     .group = group_network, .commands = ON(PREDICT), AT(servers)},

    {.name = "classes", .arg = "N", .type = LS_OPT_INT, .min = 0, .max = 65536, .def = "0",
     .help = "Classes of the last layer; 0: 1000 for models of 224x224 images, else 10.",
     .group = group_shape, .commands = ON(MODELS) | ON(PLAN), AT(classes)},
    {.name = "input", .arg = "CxHxW", .type = LS_OPT_TEXT, .is_valid = is_input, .expected = "a size such as 3x32x32",
     .help = "Image size for a model that adapts to its data, as 3x32x32.",
     .group = group_shape, .commands = ON(MODELS) | ON(PLAN), AT(input)},

    {.name = "url", .arg = "URL", .type = LS_OPT_TEXT, .is_valid = is_not_empty, .expected = "an address",
     .help = "Download from this folder instead of the published mirrors; checksums still decide.",
     .group = group_fetch, .commands = ON(DATA), AT(url)},

    {.name = "man", .type = LS_OPT_FLAG, .help = "Print the man page's source (roff).",
     .group = group_texts, .commands = ON(HELP), AT(man)},
    {.name = "completion", .arg = "SHELL", .type = LS_OPT_CHOICE, .choices = "bash|fish",
     .help = "Print the completion script for SHELL.", .group = group_texts, .commands = ON(HELP), AT(completion)},

    {.name = "json", .type = LS_OPT_FLAG, .help = "Print the result as one JSON object on stdout.",
     .group = group_output, .commands = ON(TRAIN) | ON(EVAL) | ON(BENCH) | ON(TUNE) | ON(MODELS) | ON(INSPECT) | ON(DOCTOR) | ON(DATA) | ON(PREDICT),
     AT(train.json)},
    {.name = "quiet", .letter = 'q', .type = LS_OPT_FLAG, .help = "Only warnings and errors on stderr.",
     .group = group_output, .commands = ON_ALL, AT(train.quiet)},
    {.name = "verbose", .letter = 'v', .type = LS_OPT_FLAG, .help = "More on stderr.",
     .group = group_output, .commands = ON_ALL, AT(verbose)},
    {.name = "help", .letter = 'h', .type = LS_OPT_FLAG, .help = "Explain the command and end.",
     .group = group_output, .commands = ON_ALL, AT(help)},
    {.name = NULL},
};
/* clang-format on */

int ls__options_count(void)
{
    return (int)(sizeof ls__options / sizeof ls__options[0]) - 1;
}
