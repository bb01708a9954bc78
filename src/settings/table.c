/* table.c: the table of settings; see setting.h.
 *
 * In the order of manifest.json; the settings of a part of the identity stand in the order of its text, which old
 * checkpoints hold: it never changes.
 */
#include "settings/setting.h"

#include "base/parse.h"
#include "graph/graph.h"
#include "settings/patterns.h"
#include "settings/sync_names.h"
#include "settings/validation.h"

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

/* "30,60,80", rising */
static bool is_milestones(const char *text)
{
    int64_t before = 0;
    for (;;) {
        char *end;
        if (*text < '0' || *text > '9') return false;
        long long v = strtoll(text, &end, 10);
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

/* --- the table --- */

#define MEMBER(member) .key = #member, .offset = offsetof(struct ls_train_options, member)
#define RUN .role = LS_ROLE_RUN
#define RUN_IN(part_) .role = LS_ROLE_RUN, .part = part_
#define TOGETHER .role = LS_ROLE_TOGETHER
#define TOGETHER_IN(part_) .role = LS_ROLE_TOGETHER, .part = part_
#define FREE .role = LS_ROLE_FREE
/* At most this, for 1 - beta in float32 must not be 0: the first moment would be corrected without limit. */
#define MAX_BETA 0.9999999

/* One entry, one paragraph. */
/* clang-format off */
const struct ls_setting ls__settings[LS_N_SETTINGS] = {
    [LS_SET_MODEL] = {.name = "model", MEMBER(model), .type = LS_SETTING_TEXT,
        .help = "A model of the zoo, or a file in the model language.", RUN},
    [LS_SET_DATA] = {.name = "data", MEMBER(data), .type = LS_SETTING_TEXT,
        .help = "A data set: a known name, folder:PATH, digits or fake:CxHxW:CLASSES:N.", RUN},
    [LS_SET_DATA_DIR] = {.name = "data-dir", MEMBER(data_dir), .aliases = {"data-path"}, .arg = "DIR",
        .type = LS_SETTING_TEXT, .is_valid = is_not_empty, .expected = "a folder",
        .help = "Folder searched first for data sets, and where `data fetch` writes.", .group = "Data and augmentation",
        FREE},
    [LS_SET_RUN] = {.name = "run", MEMBER(run_dir), .aliases = {"run-dir"}, .arg = "DIR", .type = LS_SETTING_TEXT,
        .is_valid = is_not_empty, .expected = "a folder",
        .help = "Where everything is written; without it runs/MODEL-DATA-TIME.", .group = "Run directory", FREE, .is_of_sitting = true},
    [LS_SET_DEVICE] = {.name = "device", MEMBER(device), .arg = "NAME", .type = LS_SETTING_TEXT, .def = "auto",
        .help = "What computes: cpu (oneDNN), ref (plain C, slow), cuda (an NVIDIA card), or auto: the best of the first two this build has.",
        .group = "Where it runs", RUN},
    [LS_SET_PRECISION] = {.name = "precision", MEMBER(precision), .arg = "NAME", .type = LS_SETTING_CHOICE,
        .choices = "f32|tf32|bf16", .def = "f32",
        .help = "Number format of convolutions and matrix products; tf32 and bf16 on cards only. Weights, statistics "
                "and sums are float32 or wider in all of them.",
        .group = "Where it runs", RUN},
    [LS_SET_ISA] = {.name = "isa", MEMBER(isa), .arg = "LEVEL", .type = LS_SETTING_CHOICE,
        .choices = "native|avx512|avx2", .def = "native",
        .help = "Instructions used at most; a level that all machines have gives all of them the same bits.",
        .group = "Where it runs", FREE},
    [LS_SET_TUNE] = {.name = "tune", MEMBER(tune), .arg = "FILE", .type = LS_SETTING_TEXT, .is_valid = is_not_empty,
        .expected = "a table or none",
        .help = "Kernels by this table (from `lockstep tune`) instead of the program's own; none: by rules alone.",
        .group = "Where it runs", FREE},
    [LS_SET_BATCH_SIZE] = {.name = "batch-size", MEMBER(batch_size), .letter = 'b', .arg = "N", .type = LS_SETTING_INT,
        .min = 1, .max = 1 << 20, .def = "128",
        .help = "GLOBAL batch: samples per step over all threads and workers together, not per worker.",
        .group = "Training", RUN},
    [LS_SET_SHARDS] = {.name = "shards", MEMBER(shards), .arg = "N", .type = LS_SETTING_INT, .min = 0,
        .max = LS_MAX_SHARDS, .def = "0",
        .help = "Shards the global batch is cut into, part of the result; 0: from the batch size alone, on a card 1.",
        .group = "Training", RUN},
    [LS_SET_THREADS] = {.name = "threads", MEMBER(threads), .letter = 't', .arg = "N", .type = LS_SETTING_INT, .min = 0,
        .max = 1024, .def = "0",
        .help = "Threads that compute shards; 0: one per CPU. Changes the speed, never the result.",
        .group = "Where it runs", FREE},
    [LS_SET_EPOCHS] = {.name = "epochs", MEMBER(epochs), .arg = "N", .type = LS_SETTING_INT, .min = 1, .max = 1000000,
        .def = "5", .help = "Passes over the training data.", .group = "Training", TOGETHER},
    [LS_SET_ITERATIONS] = {.name = "iterations", MEMBER(iterations), .letter = 'i', .arg = "N", .type = LS_SETTING_INT,
        .min = 0, .max = 1e12, .def = "0", .help = "Stop after N steps in all; 0: --epochs decides.",
        .group = "Training", TOGETHER},
    [LS_SET_SEED] = {.name = "seed", MEMBER(seed), .arg = "N", .type = LS_SETTING_INT, .min = 0, .max = 9e18,
        .def = "1", .help = "Seed of all random numbers: initial weights, order, augmentation, dropout.",
        .group = "Training", RUN},
    [LS_SET_LOADER_THREADS] = {.name = "loader-threads", MEMBER(loader_threads), .letter = 'j', .arg = "N",
        .type = LS_SETTING_INT, .min = 0, .max = 1024, .def = "0",
        .help = "Threads that decode pictures ahead; 0: one per core, at most 4.", .group = "Data and augmentation", FREE},
    [LS_SET_VALIDATION] = {.name = "validation", MEMBER(validation), .aliases = {"val", "validation-split"},
        .arg = "WHAT", .type = LS_SETTING_TEXT, .is_valid = ls__validation_is_valid, .expected = LS_VALIDATION_EXPECTED,
        .help = "Images to choose the best weights by: a share (0.1) or number (5000) held out of the training data by "
                "the seed, or a folder of pictures. The test data is then measured once, at the end.",
        .group = "Data and augmentation", RUN},
    [LS_SET_OPTIMIZER] = {.name = "optimizer", MEMBER(optimizer), .aliases = {"opt"}, .arg = "NAME",
        .type = LS_SETTING_CHOICE, .choices = "sgd|adamw", .def = "sgd", .help = "How the weights are updated.",
        .group = "Optimizer", RUN_IN("optimizer")},
    [LS_SET_LR] = {.name = "lr", MEMBER(lr), .aliases = {"learning-rate"}, .arg = "RATE", .type = LS_SETTING_REAL,
        .min = 0, .max = 1e6, .follows_others = true, .def = "0.05",
        .help = "Learning rate; with --optimizer adamw the default is 0.001.", .group = "Optimizer",
        RUN_IN("optimizer")},
    [LS_SET_MOMENTUM] = {.name = "momentum", MEMBER(momentum), .arg = "X", .type = LS_SETTING_REAL, .min = 0, .max = 1,
        .is_max_open = true, .def = "0.9", .help = "Momentum of sgd.", .group = "Optimizer", RUN_IN("optimizer")},
    [LS_SET_NESTEROV] = {.name = "nesterov", MEMBER(nesterov), .type = LS_SETTING_FLAG,
        .help = "Nesterov's momentum for sgd.", .group = "Optimizer", RUN_IN("optimizer")},
    [LS_SET_WEIGHT_DECAY] = {.name = "weight-decay", MEMBER(weight_decay), .aliases = {"wd"}, .arg = "X",
        .type = LS_SETTING_REAL, .min = 0, .max = 1e6, .follows_others = true, .def = "0",
        .help = "Weight decay; with --optimizer adamw the default is 0.01.", .group = "Optimizer", RUN_IN("optimizer")},
    [LS_SET_BETA1] = {.name = "beta1", MEMBER(beta1), .arg = "X", .type = LS_SETTING_REAL, .min = 0, .max = MAX_BETA,
        .def = "0.9", .help = "Decay of adamw's first moment.", .group = "Optimizer", RUN_IN("optimizer")},
    [LS_SET_BETA2] = {.name = "beta2", MEMBER(beta2), .arg = "X", .type = LS_SETTING_REAL, .min = 0, .max = MAX_BETA,
        .def = "0.999", .help = "Decay of adamw's second moment.", .group = "Optimizer", RUN_IN("optimizer")},
    [LS_SET_EPS] = {.name = "eps", MEMBER(eps), .arg = "X", .type = LS_SETTING_REAL, .min = 1e-20, .max = 1,
        .def = "1e-8", .help = "Added to adamw's denominator.", .group = "Optimizer", RUN_IN("optimizer")},
    [LS_SET_LABEL_SMOOTHING] = {.name = "label-smoothing", MEMBER(label_smoothing), .arg = "X", .type = LS_SETTING_REAL,
        .min = 0, .max = 1, .is_max_open = true, .def = "0", .help = "Share of the target spread over all classes.",
        .group = "Training", RUN_IN("regularization")},
    [LS_SET_CLIP_NORM] = {.name = "clip-norm", MEMBER(clip_norm), .aliases = {"clip-grad-norm"}, .arg = "X",
        .type = LS_SETTING_REAL, .min = 0, .max = 1e30, .def = "0",
        .help = "Scale the gradient down to this norm when it is larger; 0: off.", .group = "Training",
        RUN_IN("regularization")},
    [LS_SET_SCHEDULE] = {.name = "schedule", MEMBER(schedule), .aliases = {"lr-scheduler"}, .arg = "NAME",
        .type = LS_SETTING_CHOICE, .choices = "constant|step|multistep|cosine|onecycle", .def = "cosine",
        .help = "How the learning rate changes.", .group = "Learning rate over time", RUN_IN("schedule")},
    [LS_SET_GAMMA] = {.name = "gamma", MEMBER(gamma), .arg = "X", .type = LS_SETTING_REAL, .min = 0, .max = 1000,
        .def = "0.1", .help = "step, multistep: factor on the learning rate each time.",
        .group = "Learning rate over time", RUN_IN("schedule")},
    [LS_SET_STEP_EPOCHS] = {.name = "step-epochs", MEMBER(step_epochs), .aliases = {"lr-step-size"}, .arg = "N",
        .type = LS_SETTING_INT, .min = 1, .max = 1000000, .def = "30", .help = "step: epochs between two changes.",
        .group = "Learning rate over time", RUN_IN("schedule")},
    [LS_SET_MILESTONES] = {.name = "milestones", MEMBER(milestones), .arg = "LIST", .type = LS_SETTING_TEXT,
        .is_valid = is_milestones, .expected = "rising epoch numbers such as 30,60,80",
        .help = "multistep: epochs at which it changes, as 30,60,80.", .group = "Learning rate over time",
        RUN_IN("schedule")},
    [LS_SET_WARMUP_EPOCHS] = {.name = "warmup-epochs", MEMBER(warmup_epochs), .aliases = {"lr-warmup-epochs"},
        .arg = "X", .type = LS_SETTING_REAL, .min = 0, .max = 1000000, .def = "0",
        .help = "Rise linearly from 0 over so many epochs first; may be a fraction.",
        .group = "Learning rate over time", RUN_IN("schedule")},
    [LS_SET_MIN_LR] = {.name = "min-lr", MEMBER(min_lr), .aliases = {"lr-min"}, .arg = "RATE", .type = LS_SETTING_REAL,
        .min = 0, .max = 1e6, .def = "0", .help = "cosine: learning rate at the end.",
        .group = "Learning rate over time", RUN_IN("schedule")},
    [LS_SET_LR_OF] = {.name = "lr-of", MEMBER(lr_of), .arg = "LIST", .type = LS_SETTING_TEXT,
        .is_valid = ls__rates_is_valid, .expected = LS_RATES_EXPECTED,
        .help = "Learning rates of parameters by name, as 'features.*=0.001,fc.*=0.1', or factors on --lr, as "
                "'features.*=x0.1'; the last that matches holds, and the schedule applies to all.",
        .group = "Starting from weights", RUN},
    [LS_SET_FREEZE] = {.name = "freeze", MEMBER(freeze), .arg = "PATTERNS", .type = LS_SETTING_TEXT,
        .is_valid = ls__patterns_is_valid, .expected = LS_PATTERNS_EXPECTED,
        .help = "Parameters that are not trained, as 'features.*'; of a frozen batch norm the running statistics stay, "
                "too.",
        .group = "Starting from weights", RUN},
    [LS_SET_INIT] = {.name = "init", MEMBER(init), .aliases = {"pretrained"}, .arg = "FILE|RUN", .type = LS_SETTING_TEXT,
        .is_valid = is_not_empty, .expected = "a file or a run directory",
        .help = "First weights by name, from a run (its best checkpoint, else its newest), a checkpoint, or safetensors "
                "as PyTorch writes it in float32, float16 or bfloat16.",
        .group = "Starting from weights", RUN},
    [LS_SET_INIT_SKIP] = {.name = "init-skip", MEMBER(init_skip), .arg = "PATTERNS", .type = LS_SETTING_TEXT,
        .is_valid = ls__patterns_is_valid, .expected = LS_PATTERNS_EXPECTED,
        .help = "With --init: parameters that stay fresh, as 'fc.*' where the classes are others.",
        .group = "Starting from weights", RUN},
    [LS_SET_CROP_PAD] = {.name = "crop-pad", MEMBER(crop_pad), .arg = "N", .type = LS_SETTING_INT, .min = 0,
        .max = 1024, .def = "0", .help = "Training: pad by N pixels, then crop at a random place; 0: off.",
        .group = "Data and augmentation", RUN_IN("input")},
    [LS_SET_FLIP] = {.name = "flip", MEMBER(flip), .type = LS_SETTING_FLAG,
        .help = "Training: mirror left-right with probability 1/2.", .group = "Data and augmentation", RUN_IN("input")},
    [LS_SET_CUTOUT] = {.name = "cutout", MEMBER(cutout), .arg = "N", .type = LS_SETTING_INT, .min = 0, .max = 4096,
        .def = "0", .help = "Training: blank a random square of N pixels; 0: off.", .group = "Data and augmentation",
        RUN_IN("input")},
    [LS_SET_NORMALIZE] = {.name = "normalize", MEMBER(normalize), .type = LS_SETTING_FLAG, .def = "on",
        .help = "Subtract the data set's mean and divide by its deviation, per channel.",
        .group = "Data and augmentation", RUN_IN("input")},
    [LS_SET_RESIZE] = {.name = "resize", MEMBER(resize), .arg = "HxW", .type = LS_SETTING_TEXT, .is_valid = is_resize,
        .expected = "a size such as 224 or 224x160",
        .help = "Resize images, as 224 or 224x160; without it the data's own size (folders: 224).",
        .group = "Data and augmentation", RUN_IN("input")},
    [LS_SET_RESIZED_CROP] = {.name = "resized-crop", MEMBER(resized_crop), .aliases = {"random-resized-crop"}, .arg = "MIN",
        .type = LS_SETTING_REAL, .min = 0, .max = 1, .def = "0",
        .help = "Training: show a random part of the image, at least this share of its area (torchvision: 0.08), at full size; 0: off.",
        .group = "Data and augmentation", RUN_IN("augment")},
    [LS_SET_BRIGHTNESS] = {.name = "brightness", MEMBER(brightness), .arg = "X",
        .type = LS_SETTING_REAL, .min = 0, .max = 10, .def = "0",
        .help = "Training: multiply by a random number from 1-X to 1+X; 0: off.",
        .group = "Data and augmentation", RUN_IN("augment")},
    [LS_SET_CONTRAST] = {.name = "contrast", MEMBER(contrast), .arg = "X",
        .type = LS_SETTING_REAL, .min = 0, .max = 10, .def = "0",
        .help = "Training: change the contrast by a factor from 1-X to 1+X; 0: off.",
        .group = "Data and augmentation", RUN_IN("augment")},
    [LS_SET_SATURATION] = {.name = "saturation", MEMBER(saturation), .arg = "X",
        .type = LS_SETTING_REAL, .min = 0, .max = 10, .def = "0",
        .help = "Training: change how colourful it is by a factor from 1-X to 1+X; 0: off.",
        .group = "Data and augmentation", RUN_IN("augment")},
    [LS_SET_HUE] = {.name = "hue", MEMBER(hue), .arg = "X",
        .type = LS_SETTING_REAL, .min = 0, .max = 0.5, .def = "0",
        .help = "Training: turn the hues by at most this part of the circle; 0: off.",
        .group = "Data and augmentation", RUN_IN("augment")},
    [LS_SET_ERASING] = {.name = "erasing", MEMBER(erasing), .aliases = {"random-erasing"}, .arg = "P",
        .type = LS_SETTING_REAL, .min = 0, .max = 1, .def = "0",
        .help = "Training: blank a random rectangle with this probability; 0: off.",
        .group = "Data and augmentation", RUN_IN("augment")},
    [LS_SET_MIXUP] = {.name = "mixup", MEMBER(mixup), .aliases = {"mixup-alpha"}, .arg = "ALPHA",
        .type = LS_SETTING_REAL, .min = 0, .max = 10, .def = "0",
        .help = "Training: mix images and labels of pairs by shares of a beta distribution; 0: off.",
        .group = "Data and augmentation", RUN_IN("augment")},
    [LS_SET_CUTMIX] = {.name = "cutmix", MEMBER(cutmix), .aliases = {"cutmix-alpha"}, .arg = "ALPHA",
        .type = LS_SETTING_REAL, .min = 0, .max = 10, .def = "0",
        .help = "Training: put a rectangle of its partner into each image, labels by area; 0: off. With --mixup half of the pairs each.",
        .group = "Data and augmentation", RUN_IN("augment")},
    [LS_SET_RESUME] = {.name = "resume", MEMBER(resume), .arg = "WHAT", .type = LS_SETTING_TEXT,
        .is_valid = is_not_empty, .expected = "auto, a run directory or a checkpoint file",
        .help = "Go on from WHAT: auto (the newest good checkpoint of --run, if any), a run directory or a checkpoint.",
        .group = "Run directory", FREE, .is_of_sitting = true},
    [LS_SET_ACCEPT_OTHER_BITS] = {.name = "accept-other-bits", MEMBER(accept_other_bits), .type = LS_SETTING_FLAG,
        .help = "Resume although library, instruction set or kernels round otherwise than those of the checkpoint.",
        .group = "Run directory", FREE, .is_of_sitting = true},
    [LS_SET_NO_EVAL] = {.name = "no-eval", MEMBER(no_eval), .type = LS_SETTING_FLAG,
        .help = "Never measure on the test data.", .group = "Run directory", TOGETHER_IN("events")},
    [LS_SET_EVAL_EVERY] = {.name = "eval-every", MEMBER(eval_every), .arg = "N", .type = LS_SETTING_INT, .min = 0,
        .max = 1000000, .def = "1",
        .help = "Measure on the validation data, else on the test data, every N epochs; 0: only at the end.",
        .group = "Run directory", TOGETHER_IN("events")},
    [LS_SET_PATIENCE] = {.name = "patience", MEMBER(patience), .aliases = {"early-stopping"}, .arg = "N",
        .type = LS_SETTING_INT, .min = 0, .max = 1000000, .def = "0",
        .help = "Stop after N epochs without a better accuracy on the validation data (of equal ones the lower loss is "
                "better); 0: never.",
        .group = "Training", TOGETHER_IN("events")},
    [LS_SET_TARGET] = {.name = "target", MEMBER(target), .aliases = {"target-accuracy"}, .arg = "ACCURACY",
        .type = LS_SETTING_REAL, .min = 0, .max = 1, .def = "0",
        .help = "Stop when this accuracy is reached on the validation data (without any: on the test data), as 0.99, and "
                "tell the seconds; 0: none.",
        .group = "Training", TOGETHER_IN("events")},
    [LS_SET_CHECKPOINT_EVERY] = {.name = "checkpoint-every", MEMBER(checkpoint_every), .arg = "WHEN",
        .type = LS_SETTING_TEXT, .is_valid = is_checkpoint_every, .expected = "epoch, none or a number of steps",
        .def = "epoch", .help = "Write a checkpoint every epoch, every so many steps (a number), or none.",
        .group = "Run directory", TOGETHER_IN("events")},
    [LS_SET_KEEP] = {.name = "keep", MEMBER(keep), .arg = "N", .type = LS_SETTING_INT, .min = 1, .max = 1000000,
        .def = "2", .help = "Newest checkpoints kept, besides the best.", .group = "Run directory", FREE},
    [LS_SET_LOG_EVERY] = {.name = "log-every", MEMBER(log_every), .letter = 'p',
        .aliases = {"log-interval", "print-freq"}, .arg = "N", .type = LS_SETTING_INT, .min = 0, .max = 1e12,
        .def = "50", .help = "Steps between two lines of metrics.jsonl; 0: one per epoch only.",
        .group = "Run directory", FREE},
    [LS_SET_RECORD] = {.name = "record", MEMBER(record), .type = LS_SETTING_FLAG, .def = "on",
        .help = "Record what each worker uses (CPU, memory, input and output, network) in resources.csv, every half second.",
        .group = "Run directory", FREE},
    [LS_SET_HISTOGRAMS] = {.name = "histograms", MEMBER(histograms), .arg = "N", .type = LS_SETTING_INT, .min = 0,
        .max = 1e6, .def = "0",
        .help = "Every N epochs, histograms of weights and of the last step's gradient for TensorBoard; 0: none.",
        .group = "Run directory", FREE},
    [LS_SET_TRACE] = {.name = "trace", MEMBER(trace), .type = LS_SETTING_FLAG,
        .help = "Write trace.json: what every thread of every worker did when, for Perfetto or chrome://tracing.",
        .group = "Run directory", FREE, .is_of_sitting = true},
    [LS_SET_TRACE_STEPS] = {.name = "trace-steps", MEMBER(trace_steps), .arg = "N", .type = LS_SETTING_INT, .min = 0,
        .max = 1e6, .def = "50",
        .help = "Steps of which --trace keeps every op, after two to warm up; of the others only that they were.",
        .group = "Run directory", FREE, .is_of_sitting = true},
    [LS_SET_QUIET] = {.name = "quiet", MEMBER(quiet), .letter = 'q', .type = LS_SETTING_FLAG,
        .help = "Only warnings and errors on stderr.", .group = "Output", FREE, .is_of_sitting = true},
    [LS_SET_JSON] = {.name = "json", MEMBER(json), .type = LS_SETTING_FLAG,
        .help = "Print the result as one JSON object on stdout.", .group = "Output", FREE, .is_of_sitting = true},
    [LS_SET_DETERMINISTIC_ONLY] = {.name = "deterministic-only", MEMBER(deterministic_only), .type = LS_SETTING_FLAG,
        .help = "Reserved.", FREE},
    [LS_SET_MEMORY] = {.name = "memory", MEMBER(memory), .arg = "HOW", .type = LS_SETTING_CHOICE,
        .choices = "normal|low", .def = "normal",
        .help = "low: compute activations again in backward instead of keeping them: less memory, up to a third "
                "slower, the same weights.",
        .group = "Training", FREE},
    [LS_SET_SYNC] = {.name = "sync", MEMBER(sync), .arg = "HOW", .type = LS_SETTING_TEXT, .is_valid = ls__sync_is_valid,
        .expected = LS_SYNC_EXPECTED, .def = "allreduce", .help = LS_SYNC_HELP, .group = "Where it runs", RUN},
    [LS_SET_WORKERS] = {.name = "workers", MEMBER(workers), .letter = 'w', .arg = "N", .type = LS_SETTING_INT, .min = 0,
        .max = 65536, .def = "0",
        .help = "Processes on this machine, started through mpirun; they share the cores, and the weights stay the "
                "same. 0: this process alone, or those that mpirun or srun started.",
        .group = "Where it runs", FREE},
    [LS_SET_GPUS] = {.name = "gpus", MEMBER(gpus), .arg = "N", .type = LS_SETTING_INT, .min = 0, .max = 256, .def = "0",
        .help = "Cards of each machine to use with --device cuda, one process for each. The weights stay the same with "
                "the same --shards, of which there must be N or more. 0: one card; -w N: N processes share the cards there are.",
        .group = "Where it runs", FREE},
    [LS_SET_TIMEOUT] = {.name = "timeout", MEMBER(timeout), .arg = "SECONDS", .type = LS_SETTING_REAL, .min = 0.1,
        .max = 86400, .def = "300",
        .help = "How long to wait for a worker that does not answer before the run ends with its name.",
        .group = "Where it runs", FREE},
    [LS_SET_BALANCE] = {.name = "balance", MEMBER(balance), .type = LS_SETTING_FLAG, .def = "on",
        .help = "Give slower machines and cards fewer shards, by measured speed; the weights stay the same. --no-balance: "
                "equal shares.",
        .group = "Where it runs", FREE},
    [LS_SET_RESCUE_EVERY] = {.name = "rescue-every", MEMBER(rescue_every), .arg = "N", .type = LS_SETTING_INT, .min = 0,
        .max = 1e12, .def = "50",
        .help = "With --max-restarts: keep a copy of the state in the memory of every machine, every N steps; 0: none.",
        .group = "Where it runs", FREE},
    [LS_SET_COMPRESS] = {.name = "compress", MEMBER(compress), .arg = "BITS", .type = LS_SETTING_INT, .min = 0,
        .max = 16, .def = "0",
        .help = "Round gradients to 8 or 16 bits before they travel between machines, the rest follows at the next "
                "step. Changes the weights, but not by the number of workers. 0: off.",
        .group = "Where it runs", RUN},
    [LS_SET_LEASE] = {.name = "lease", MEMBER(lease), .arg = "SECONDS", .type = LS_SETTING_REAL, .min = 0.1,
        .max = 86400, .def = "5",
        .help = "Parameter server: how long a worker may be silent before its work goes to others; it may come back.",
        .group = "Where it runs", FREE},
    [LS_SET_BACKUP] = {.name = "backup", MEMBER(backup), .arg = "B", .type = LS_SETTING_INT, .min = 0,
        .max = 1024, .def = "0",
        .help = "--sync ps: shards of up to B slow workers are computed a second time by who has nothing to do; the "
                "first to finish counts. The weights stay the same.",
        .group = "Where it runs", FREE},
    [LS_SET_SERVERS] = {.name = "servers", MEMBER(servers), .arg = "K", .type = LS_SETTING_INT, .min = 1,
        .max = LS_MAX_SERVERS, .def = "1",
        .help = "--sync ps: K servers have a part of the parameters each; the weights stay the same. train starts all of "
                "them; server waits for K-1 more, `lockstep server --chief ADDRESS`. predict: on machines of their own.",
        .group = "Where it runs", FREE},
    [LS_SET_SUM] = {.name = "sum", MEMBER(sum), .arg = "HOW", .type = LS_SETTING_CHOICE, .choices = "fixed|float",
        .def = "fixed",
        .help = "Sum over shards in fixed point (same bits for any number of threads) or in float32 (for comparison).",
        .group = "Training", RUN},
};
/* clang-format on */
