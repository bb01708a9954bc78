/* options.c: the table of options; see options.h. The settings of a training are the library's (src/settings/table.c);
 * what only a command line has stands here.
 */
#include "cli/options.h"

#include "base/parse.h"
#include "cli/slow.h"
#include "lab/run.h"
#include "predict/predict.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

/* --- forms of texts --- */

static bool is_input(const char *text)
{
    int64_t dims[3];
    return ls__parse_dims(text, dims) == 3;
}

static bool is_not_empty(const char *text)
{
    return *text != '\0';
}

/* "table": as if it stood alone. */
static bool is_confusion(const char *text)
{
    const char *dot = strrchr(text, '.');
    if (strcmp(text, "table") == 0) return true;
    return dot && (!strcasecmp(dot, ".png") || !strcasecmp(dot, ".svg") || !strcasecmp(dot, ".pdf"));
}

/* "STEP:TEXT|STEP:TEXT" */
static bool is_marks(const char *text)
{
    for (;; text++) {
        size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 15 || text[digits] != ':') return false;
        text += strcspn(text, "|");
        if (!*text) return true;
    }
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

bool ls__option_network(const char *text, struct ls_cable_shape *shape)
{
    const struct ls_predict_network *preset = ls_predict_preset(text);
    if (!preset) return ls__cable_shape_parse(text, shape);
    *shape =
        (struct ls_cable_shape){.delay = preset->latency, .bits_per_second = preset->bandwidth * 8 / LS_LINE_TO_DATA};
    return true;
}

static bool is_network(const char *text)
{
    struct ls_cable_shape shape;
    return ls__option_network(text, &shape);
}

static bool is_slow(const char *text)
{
    int64_t node;
    double factor;
    return ls__slow_parse(text, &node, &factor);
}

static bool is_scale(const char *text)
{
    double scale;
    return ls__lab_parse_scale(text, &scale);
}

static bool is_vary(const char *text)
{
    const char *equals = strchr(text, '=');
    return equals && equals > text && equals[1] && !strchr(text, '"');
}

/* --- the table --- */

/* A setting lies at the same offset in struct ls_options as in struct ls_train_options. */
static_assert(offsetof(struct ls_options, train) == 0, "the training's options come first");

#define AT(member) .offset = offsetof(struct ls_options, member)
#define OF_TRAINING(id) .setting = &ls__settings[LS_SET_##id]
#define OWN(...)                                                                                                       \
    .setting = &(const struct ls_setting)                                                                              \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define ON(cmd) (1u << LS_CMD_##cmd)
#define ON_TRAINING (ON(TRAIN) | ON(SERVER))
#define ON_ALL ((1u << LS_N_CMDS) - 1)

/* One entry, one paragraph; in the order of the help, groups together. */
/* clang-format off */
const struct ls_option ls__options[] = {
    {OF_TRAINING(BATCH_SIZE), .commands = ON_TRAINING | ON(EVAL) | ON(BENCH) | ON(TUNE) | ON(PLAN) | ON(PREDICT) |
        ON(MODELS)},
    {OF_TRAINING(EPOCHS), .commands = ON_TRAINING},
    {OF_TRAINING(ITERATIONS), .commands = ON_TRAINING},
    {OF_TRAINING(SEED), .commands = ON_TRAINING | ON(DATA)},
    {OF_TRAINING(SHARDS), .commands = ON_TRAINING | ON(BENCH) | ON(TUNE) | ON(PLAN) | ON(PREDICT)},
    {OWN(.name = "repeat", .arg = "N", .type = LS_SETTING_INT, .min = 1, .max = 10000, .def = "1",
         .help = "Train N times, with seeds from --seed up, in DIR/seed-K, and tell mean and spread. lab, sweep: so often "
                 "with the same seed, in place of what the lab says.",
         .group = "Training", AT(repeat)), .commands = ON(TRAIN) | ON(LAB)},
    {OWN(.name = "batch-per-worker", .arg = "N", .type = LS_SETTING_INT, .min = 0, .max = 1 << 20, .def = "0",
         .help = "The global batch is N times the number of workers (weak scaling): another number of workers is another "
                 "training, with other weights. 0: --batch-size counts.",
         .group = "Training", AT(batch_per_worker)), .commands = ON(TRAIN)},
    {OF_TRAINING(PATIENCE), .commands = ON_TRAINING},
    {OF_TRAINING(TARGET), .commands = ON_TRAINING},
    {OF_TRAINING(LABEL_SMOOTHING), .commands = ON_TRAINING},
    {OF_TRAINING(CLIP_NORM), .commands = ON_TRAINING},
    {OF_TRAINING(SUM), .commands = ON_TRAINING},
    {OF_TRAINING(MEMORY), .commands = ON_TRAINING | ON(BENCH) | ON(PLAN)},

    {OF_TRAINING(OPTIMIZER), .commands = ON_TRAINING | ON(PLAN)},
    {OF_TRAINING(LR), .commands = ON_TRAINING},
    {OF_TRAINING(MOMENTUM), .commands = ON_TRAINING},
    {OF_TRAINING(NESTEROV), .commands = ON_TRAINING},
    {OF_TRAINING(WEIGHT_DECAY), .commands = ON_TRAINING},
    {OF_TRAINING(BETA1), .commands = ON_TRAINING},
    {OF_TRAINING(BETA2), .commands = ON_TRAINING},
    {OF_TRAINING(EPS), .commands = ON_TRAINING},

    {OF_TRAINING(SCHEDULE), .commands = ON_TRAINING},
    {OF_TRAINING(GAMMA), .commands = ON_TRAINING},
    {OF_TRAINING(STEP_EPOCHS), .commands = ON_TRAINING},
    {OF_TRAINING(MILESTONES), .commands = ON_TRAINING},
    {OF_TRAINING(WARMUP_EPOCHS), .commands = ON_TRAINING},
    {OF_TRAINING(MIN_LR), .commands = ON_TRAINING},

    {OF_TRAINING(INIT), .commands = ON_TRAINING},
    {OF_TRAINING(INIT_SKIP), .commands = ON_TRAINING},
    {OF_TRAINING(FREEZE), .commands = ON_TRAINING},
    {OF_TRAINING(LR_OF), .commands = ON_TRAINING},

    {OF_TRAINING(DATA_DIR), .commands = ON_TRAINING | ON(EVAL) | ON(DATA) | ON(DOCTOR) | ON(LAB)},
    {OF_TRAINING(VALIDATION), .commands = ON_TRAINING},
    {OF_TRAINING(RESIZE), .commands = ON_TRAINING | ON(EVAL) | ON(DATA)},
    {OF_TRAINING(CROP_PAD), .commands = ON_TRAINING | ON(DATA)},
    {OF_TRAINING(FLIP), .commands = ON_TRAINING | ON(DATA)},
    {OF_TRAINING(CUTOUT), .commands = ON_TRAINING | ON(DATA)},
    {OF_TRAINING(RESIZED_CROP), .commands = ON_TRAINING | ON(DATA)},
    {OF_TRAINING(BRIGHTNESS), .commands = ON_TRAINING | ON(DATA)},
    {OF_TRAINING(CONTRAST), .commands = ON_TRAINING | ON(DATA)},
    {OF_TRAINING(SATURATION), .commands = ON_TRAINING | ON(DATA)},
    {OF_TRAINING(HUE), .commands = ON_TRAINING | ON(DATA)},
    {OF_TRAINING(ERASING), .commands = ON_TRAINING | ON(DATA)},
    {OF_TRAINING(MIXUP), .commands = ON_TRAINING | ON(DATA)},
    {OF_TRAINING(CUTMIX), .commands = ON_TRAINING | ON(DATA)},
    {OF_TRAINING(NORMALIZE), .commands = ON_TRAINING},
    {OF_TRAINING(LOADER_THREADS), .commands = ON_TRAINING},

    {OF_TRAINING(DEVICE), .commands = ON_TRAINING | ON(LAB) | ON(EVAL) | ON(CLASSIFY) | ON(BENCH) | ON(TUNE) | ON(PLAN) | ON(PREDICT)},
    {OF_TRAINING(ISA), .commands = ON_TRAINING | ON(EVAL) | ON(CLASSIFY) | ON(BENCH) | ON(TUNE) | ON(PLAN) | ON(PREDICT)},
    {OF_TRAINING(TUNE), .commands = ON_TRAINING | ON(EVAL) | ON(CLASSIFY) | ON(BENCH) | ON(PLAN) | ON(PREDICT)},
    {OF_TRAINING(PRECISION), .commands = ON_TRAINING | ON(BENCH) | ON(PLAN) | ON(PREDICT)},
    {OF_TRAINING(THREADS), .commands = ON_TRAINING | ON(EVAL) | ON(CLASSIFY) | ON(BENCH) | ON(TUNE) | ON(PLAN) | ON(PREDICT)},
    {OF_TRAINING(WORKERS), .commands = ON(TRAIN) | ON(LAB)},
    {OF_TRAINING(GPUS), .commands = ON_TRAINING},
    {OWN(.name = "hosts", .key = "hosts", .arg = "LIST", .type = LS_SETTING_TEXT, .is_valid = is_not_empty,
         .expected = "host names as a,b,c",
         .help = "Machines to run on, as a,b,c, reached as mpirun reaches them (ssh); predict: to measure the "
                 "network between; lab: in place of nodes made on this machine, as many of them as a run has.",
         .group = "Where it runs", AT(hosts)), .commands = ON(TRAIN) | ON(PREDICT) | ON(LAB)},
    {OWN(.name = "procs-per-node", .key = "procs_per_node", .aliases = {"nproc-per-node"}, .arg = "N", .type = LS_SETTING_INT, .min = 1,
         .max = 256, .def = "1", .help = "Workers per machine with --hosts or --nodes, each a process; with --sync ps and a network they are one process with "
                            "the threads of all. predict: workers per machine.",
         .group = "Where it runs", AT(procs_per_node)), .commands = ON(TRAIN) | ON(PREDICT)},
    {OWN(.name = "nodes", .key = "nodes", .arg = "N", .type = LS_SETTING_INT, .min = 0, .max = 65536, .def = "0",
         .help = "So many machines, made on this one: --workers are shared out among them, or each has "
                 "--procs-per-node. With --network they have a real network (needs root). 0: this machine as it is. With --rank and "
                 "--master: how many processes there are that are started one by one, without MPI.",
         .group = "Where it runs", AT(nodes)), .commands = ON(TRAIN)},
    {OWN(.name = "slow", .key = "slow", .arg = "NODE:X", .type = LS_SETTING_TEXT, .is_valid = is_slow,
         .expected = "a node, from 1, and how many times slower it is to be, such as 2:3",
         .help = "For experiments: hold node NODE (or worker, without --nodes) back to 1/X of its speed, as 2:3.",
         .group = "Where it runs", AT(slow)), .commands = ON(TRAIN)},
    {OF_TRAINING(BALANCE), .commands = ON(TRAIN)},
    {OF_TRAINING(COMPRESS), .commands = ON(TRAIN) | ON(PREDICT)},
    {OF_TRAINING(TIMEOUT), .commands = ON_TRAINING},
    {OWN(.name = "max-restarts", .key = "max_restarts", .arg = "N", .type = LS_SETTING_INT, .min = 0, .max = 1000000, .def = "0",
         .help = "After a lost worker, start again from the newest checkpoint up to N times; hosts that are gone "
                 "are left out.",
         .group = "Where it runs", AT(max_restarts)), .commands = ON(TRAIN)},
    {OF_TRAINING(RESCUE_EVERY), .commands = ON(TRAIN)},
    {OWN(.name = "mpi-args", .key = "mpi_args", .arg = "TEXT", .type = LS_SETTING_TEXT, .takes_dash = true,
         .help = "More arguments for mpirun, apart by spaces.", .group = "Where it runs",
         AT(mpi_args)), .commands = ON(TRAIN) | ON(PREDICT)},
    {OF_TRAINING(SYNC), .commands = ON_TRAINING | ON(PREDICT)},
    {OWN(.name = "server", .arg = "ADDRESS", .type = LS_SETTING_TEXT, .is_valid = is_not_empty,
         .expected = "an address such as 10.0.0.1:4711",
         .help = "Compute for the `lockstep server` at ADDRESS, as HOST:PORT; it says what is trained.",
         .group = "Where it runs", .is_of_sitting = true, AT(server)), .commands = ON(TRAIN)},
    {OF_TRAINING(LEASE), .commands = ON_TRAINING},
    {OF_TRAINING(BACKUP), .commands = ON_TRAINING},
    {OF_TRAINING(SERVERS), .commands = ON_TRAINING | ON(PREDICT)},
    {OWN(.name = "chief", .arg = "ADDRESS", .type = LS_SETTING_TEXT, .is_valid = is_not_empty,
         .expected = "an address such as 10.0.0.1:4711",
         .help = "Be one more server for the `lockstep server --servers K` at ADDRESS, which says what is trained, and "
                 "have a part of its parameters.",
         .group = "Where it runs", .is_of_sitting = true, AT(chief)), .commands = ON(SERVER)},
    {OWN(.name = "rank", .arg = "R", .type = LS_SETTING_INT, .min = 0, .max = 4095, .def = "0",
         .help = "Which of --nodes this process is, from 0 up. Rank 0 writes the run directory.",
         .group = "Where it runs", .is_of_sitting = true, AT(rank)), .commands = ON(TRAIN)},
    {OWN(.name = "master", .arg = "HOST:PORT", .type = LS_SETTING_TEXT, .is_valid = is_not_empty,
         .expected = "an address such as 192.168.0.1:4711",
         .help = "Where rank 0 listens, the same on every node. Without --key on this machine's loopback only.",
         .group = "Where it runs", .is_of_sitting = true, AT(master)), .commands = ON(TRAIN)},
    {OWN(.name = "listen", .arg = "ADDRESS", .type = LS_SETTING_TEXT, .def = "127.0.0.1", .is_valid = is_not_empty,
         .expected = "an address of this machine, such as 0.0.0.0",
         .help = "The address to listen on; server: with a port, as 0.0.0.0:4711, 4711 if it has none. Elsewhere than on "
                 "this machine alone a token (serve) or a key (server) is needed. train --hosts --sync ps: where the hosts "
                 "reach this machine, if not at the address by which it reaches them.", .group = "Where it runs",
         .is_of_sitting = true, AT(listen)), .commands = ON(SERVE) | ON(SERVER) | ON(TRAIN)},
    {OWN(.name = "key", .arg = "FILE", .type = LS_SETTING_TEXT, .is_valid = is_not_empty, .expected = "a key file",
         .help = "Key file of this process (`lockstep server --keygen`), fd:0: from standard input; who has none cannot take part "
                 "or listen.",
         .group = "Where it runs", .is_of_sitting = true, AT(key)), .commands = ON_TRAINING},

    {OF_TRAINING(RUN), .commands = ON_TRAINING | ON(LAB)},
    {OF_TRAINING(RESUME), .commands = ON_TRAINING},
    {OF_TRAINING(ACCEPT_OTHER_BITS), .commands = ON_TRAINING},
    {OF_TRAINING(CHECKPOINT_EVERY), .commands = ON_TRAINING},
    {OF_TRAINING(KEEP), .commands = ON_TRAINING},
    {OF_TRAINING(EVAL_EVERY), .commands = ON_TRAINING},
    {OF_TRAINING(NO_EVAL), .commands = ON_TRAINING},
    {OF_TRAINING(LOG_EVERY), .commands = ON_TRAINING},
    {OF_TRAINING(RECORD), .commands = ON_TRAINING},
    {OF_TRAINING(HISTOGRAMS), .commands = ON_TRAINING},
    {OF_TRAINING(TRACE), .commands = ON_TRAINING},
    {OF_TRAINING(TRACE_STEPS), .commands = ON_TRAINING},

    {OWN(.name = "steps", .letter = 'n', .arg = "N", .type = LS_SETTING_INT, .min = 0, .max = 1e9, .def = "0",
         .help = "Steps to measure; 0: until --seconds are over.", .group = "Measuring",
         AT(steps)), .commands = ON(BENCH)},
    {OWN(.name = "layers", .type = LS_SETTING_FLAG,
         .help = "Measure every op of the step too: time, speed, implementation.", .group = "Measuring",
         AT(layers)), .commands = ON(BENCH)},
    {OWN(.name = "warmup", .arg = "N", .type = LS_SETTING_INT, .min = 0, .max = 1e6, .def = "2",
         .help = "Steps before measuring begins.", .group = "Measuring", AT(warmup_steps)), .commands = ON(BENCH)},
    {OWN(.name = "seconds", .arg = "X", .type = LS_SETTING_REAL, .min = 0, .max = 86400, .def = "3",
         .help = "Measure at least so long; tune: each comparison, 0.3 without this option.", .group = "Measuring",
         AT(seconds)), .commands = ON(BENCH) | ON(TUNE) | ON(PREDICT)},

    {OWN(.name = "per-class", .type = LS_SETTING_FLAG,
         .help = "Tell accuracy (recall), precision and F1 of every class.", .group = "Answers",
         AT(per_class)), .commands = ON(EVAL)},
    {OWN(.name = "confusion", .arg = "FILE", .type = LS_SETTING_TEXT, .alone = "table", .is_valid = is_confusion,
         .expected = "a file that ends in .png, .svg or .pdf, or nothing",
         .help = "Which classes are taken for which: a table, and with FILE.png, .svg or .pdf a picture, too.",
         .group = "Answers", AT(confusion)), .commands = ON(EVAL)},
    {OWN(.name = "top", .letter = 'k', .arg = "K", .type = LS_SETTING_INT, .min = 1, .max = 65536, .def = "1",
         .help = "The K most likely classes of each picture; eval: how often the right one is among them, too.",
         .group = "Answers", AT(top)), .commands = ON(CLASSIFY) | ON(EVAL)},
    {OWN(.name = "csv", .arg = "FILE", .type = LS_SETTING_TEXT, .is_valid = is_not_empty, .expected = "a file or -",
         .help = "Write the answers as CSV instead of a table; -: to stdout.", .group = "Answers",
         AT(csv)), .commands = ON(CLASSIFY)},

    {OWN(.name = "onnx", .arg = "FILE", .type = LS_SETTING_TEXT, .is_valid = is_not_empty, .expected = "a file",
         .help = "Write the network as ONNX (opset 17), for any batch size.", .group = "What is written",
         AT(onnx)), .commands = ON(EXPORT)},
    {OWN(.name = "safetensors", .arg = "FILE", .type = LS_SETTING_TEXT, .is_valid = is_not_empty,
         .expected = "a file", .help = "Write parameters and buffers alone, with PyTorch's names and shapes.",
         .group = "What is written", AT(safetensors)), .commands = ON(EXPORT)},
    {OWN(.name = "fold", .type = LS_SETTING_FLAG,
         .help = "ONNX: batch norm becomes part of the convolution or linear layer before it.",
         .group = "What is written", AT(fold)), .commands = ON(EXPORT)},
    {OWN(.name = "pixels", .arg = "HOW", .type = LS_SETTING_CHOICE, .choices = "normalized|unit|bytes",
         .def = "normalized",
         .help = "ONNX: what its input is: pixels less the mean over the deviation, as the network was trained; from 0 "
                 "to 1, or bytes from 0 to 255 (uint8): the graph then does the rest.",
         .group = "What is written", AT(pixels)), .commands = ON(EXPORT)},
    {OWN(.name = "force", .type = LS_SETTING_FLAG, .help = "Replace files that are there.",
         .group = "What is written", AT(force)), .commands = ON(EXPORT)},
    {OWN(.name = "title", .arg = "TEXT", .type = LS_SETTING_TEXT, .help = "The title of a picture of runs.",
         .group = "Picture", AT(title)), .commands = ON(PLOT)},
    {OWN(.name = "marks", .arg = "LIST", .type = LS_SETTING_TEXT, .is_valid = is_marks,
         .expected = "STEP:TEXT, several apart by '|'",
         .help = "Lines at steps of a picture of runs, as \"900:killed|950:went on\".", .group = "Picture",
         AT(marks)), .commands = ON(PLOT)},

    {OWN(.name = "scale", .arg = "PART", .type = LS_SETTING_TEXT, .def = "1", .is_valid = is_scale,
         .expected = "a part such as 1/16, above 0 and at most 1",
         .help = "Train that part of the images: fewer epochs, then fewer steps; below 1/16 smaller batches too, all alike.",
         .group = "Lab", AT(scale)), .commands = ON(LAB)},
    {OWN(.name = "only", .arg = "LIST", .type = LS_SETTING_TEXT, .is_valid = is_not_empty, .expected = "questions as Q3 or Q1,Q3",
         .help = "These questions of the lab alone, as Q3 or Q1,Q3.", .group = "Lab", AT(only)), .commands = ON(LAB)},
    {OWN(.name = "stand-in", .type = LS_SETTING_FLAG,
         .help = "Drawn digits of the same shape in place of data sets that have to be fetched; the report says so.",
         .group = "Lab", AT(stand_in)), .commands = ON(LAB)},
    {OWN(.name = "public", .type = LS_SETTING_FLAG,
         .help = "report: for others to read: of absolute paths the last part only, and no names of machines.",
         .group = "Lab", AT(is_public)), .commands = ON(LAB)},
    {OWN(.name = "vary", .arg = "KEY=A,B", .type = LS_SETTING_TEXT, .is_valid = is_vary,
         .expected = "an option of train and its values: batch-size=64,128, or network=1gbit,1ms|100mbit,1ms",
         .help = "Train with each of these values of an option of train; given several times: with every combination. "
                 "Values that have commas are parted by '|'.",
         .group = "Sweep", AT(vary)), .commands = ON(SWEEP)},

    {OWN(.name = "port", .letter = 'p', .arg = "P", .type = LS_SETTING_INT, .min = 0, .max = 65535, .def = "8420",
         .help = "The port to listen on; 0: any that is free, which is printed.", .group = "Page",
         AT(port)), .commands = ON(SERVE)},
    {OWN(.name = "token", .arg = "TEXT", .type = LS_SETTING_TEXT, .is_valid = is_not_empty,
         .expected = "8 to 128 letters, digits, - and _",
         .help = "What a browser must know to see anything; without it one is made and printed where it is needed.",
         .group = "Page", AT(token)), .commands = ON(SERVE)},

    {OWN(.name = "keygen", .arg = "DIR", .type = LS_SETTING_TEXT, .is_valid = is_not_empty, .expected = "a folder",
         .help = "Make server.key, worker.key and node.key in DIR and end. What is there is never replaced.",
         .group = "Keys", AT(keygen)), .commands = ON(SERVER)},

    {OWN(.name = "log", .arg = "FILE", .type = LS_SETTING_TEXT, .is_valid = is_not_empty, .expected = "a file",
         .help = "Write a row for every sample to FILE. With neither this nor --plot the rows are printed.", .group = "Recording", AT(log)), .commands = ON(RECORD)},
    {OWN(.name = "log-format", .arg = "FORM", .type = LS_SETTING_CHOICE, .choices = "plain|csv", .def = "plain",
         .help = "How rows look: plain, as psrecord writes them, or csv.", .group = "Recording",
         AT(log_format)), .commands = ON(RECORD)},
    {OWN(.name = "plot", .arg = "FILE", .type = LS_SETTING_TEXT, .is_valid = is_not_empty, .expected = "a file",
         .help = "Draw CPU and memory over time; the ending says what: .svg, .png or .pdf.", .group = "Recording",
         AT(plot)), .commands = ON(RECORD)},
    {OWN(.name = "interval", .arg = "SECONDS", .type = LS_SETTING_REAL, .min = 0.01, .max = 86400, .def = "0.5",
         .help = "How long between two samples.", .group = "Recording", AT(interval)), .commands = ON(RECORD)},
    {OWN(.name = "duration", .arg = "SECONDS", .type = LS_SETTING_REAL, .min = 0, .max = 1e9, .def = "0",
         .help = "Stop watching after so long; 0: when the process ends.", .group = "Recording",
         AT(duration)), .commands = ON(RECORD)},
    {OWN(.name = "include-children", .type = LS_SETTING_FLAG,
         .help = "Count the processes that it starts too.", .group = "Recording",
         AT(include_children)), .commands = ON(RECORD)},
    {OWN(.name = "include-io", .type = LS_SETTING_FLAG,
         .help = "Columns for calls and bytes of input and output too.", .group = "Recording",
         AT(include_io)), .commands = ON(RECORD)},

    {OWN(.name = "network", .arg = "NAME", .type = LS_SETTING_TEXT, .is_valid = is_network, .key = "network",
         .expected = "1GbE, 10GbE, 25GbE, 100GbE or loopback; train: also RATE,DELAY[,LOSS] such as 1gbit,0.1ms or 100mbit,20ms,1%",
         .help = "A common network: 1GbE, 10GbE, 25GbE, 100GbE or loopback. train: what joins --nodes, also as "
                 "RATE,DELAY[,LOSS], such as 1gbit,0.1ms; needs root.",
         .group = "Network", AT(network)), .commands = ON(PREDICT) | ON(TRAIN)},
    {OWN(.name = "latency", .arg = "TIME", .type = LS_SETTING_TEXT, .is_valid = is_latency,
         .expected = "a time such as 0.1ms or 50us", .help = "How long a small message takes one way, as 0.1ms.",
         .group = "Network", AT(latency)), .commands = ON(PREDICT)},
    {OWN(.name = "bandwidth", .arg = "RATE", .type = LS_SETTING_TEXT, .is_valid = is_bandwidth,
         .expected = "a rate such as 1Gbit (of the line) or 117MB (of data)",
         .help = "What the line carries each way, as 1Gbit, or the data it carries, as 117MB.", .group = "Network",
         AT(bandwidth)), .commands = ON(PREDICT)},
    {OWN(.name = "probe", .type = LS_SETTING_FLAG,
         .help = "Measure the network between the machines of this job, in 2 seconds.", .group = "Network",
         AT(probe)), .commands = ON(PREDICT)},

    {OWN(.name = "model", .arg = "MODEL", .type = LS_SETTING_TEXT, .is_valid = is_not_empty, .expected = "a model",
         .help = "The network of the weights, for a safetensors file of another program, which does not name it.",
         .group = "Model", AT(model)), .commands = ON(EVAL)},
    {OWN(.name = "classes", .arg = "N", .type = LS_SETTING_INT, .min = 0, .max = 65536, .def = "0",
         .help = "Classes of the last layer; 0: 1000 for models of 224x224 images, else 10.", .group = "Model",
         AT(classes)), .commands = ON(MODELS) | ON(PLAN)},
    {OWN(.name = "input", .arg = "CxHxW", .type = LS_SETTING_TEXT, .is_valid = is_input,
         .expected = "a size such as 3x32x32", .help = "Image size for a model that adapts to its data, as 3x32x32.",
         .group = "Model", AT(input)), .commands = ON(MODELS) | ON(PLAN)},

    {OWN(.name = "url", .arg = "URL", .type = LS_SETTING_TEXT, .is_valid = is_not_empty, .expected = "an address",
         .help = "Download from this folder instead of the published mirrors; checksums still decide.",
         .group = "Download", AT(url)), .commands = ON(DATA)},

    {OWN(.name = "man", .type = LS_SETTING_FLAG, .help = "Print the man page's source (roff).", .group = "Texts",
         AT(man)), .commands = ON(HELP)},
    {OWN(.name = "completion", .arg = "SHELL", .type = LS_SETTING_CHOICE, .choices = "bash|fish",
         .help = "Print the completion script for SHELL.", .group = "Texts", AT(completion)), .commands = ON(HELP)},

    {OWN(.name = "output", .letter = 'o', .arg = "FILE", .type = LS_SETTING_TEXT, .is_valid = is_not_empty,
         .expected = "a file",
         .help = "tune: the table's file; one that is there keeps its lines for other problems. predict, plot: the "
                 "picture: .svg, .png or .pdf. "
                 "eval: what was said of every image, as CSV. report, lab report: the page: .html, .md or .pdf. data info: samples "
                 "of every class as a picture.",
         .group = "Output", AT(output)), .commands = ON(TUNE) | ON(DATA) | ON(PREDICT) | ON(PLOT) | ON(EVAL) | ON(REPORT) | ON(LAB)},
    {OF_TRAINING(JSON),
     .commands = ON_TRAINING | ON(EVAL) | ON(CLASSIFY) | ON(EXPORT) | ON(BENCH) | ON(TUNE) | ON(MODELS) | ON(INSPECT) | ON(DOCTOR) |
                 ON(DATA) | ON(PREDICT) | ON(PLAN) | ON(LAB)},
    {OF_TRAINING(QUIET), .commands = ON_ALL},
    {OWN(.name = "verbose", .letter = 'v', .type = LS_SETTING_FLAG, .help = "More on stderr.", .group = "Output",
         AT(verbose)), .commands = ON_ALL},
    {OWN(.name = "help", .letter = 'h', .type = LS_SETTING_FLAG, .help = "Explain the command and end.",
         .group = "Output", AT(help)), .commands = ON_ALL},
    {.setting = NULL},
};
/* clang-format on */

int ls__options_count(void)
{
    return (int)(sizeof ls__options / sizeof ls__options[0]) - 1;
}
