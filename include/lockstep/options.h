/* options.h: the options of a training run.
 *
 * ls_train_options_default gives what the command line starts from. Then members are written, or settings are set by
 * the names that the command line has; both ways may be mixed:
 *
 *     struct ls_train_options o;
 *     ls_train_options_default(&o);
 *     o.model = "lenet5";
 *     o.data = "digits";
 *     if (ls_options_set(&o, "batch-size", "256") != LS_OK) ... ls_error_message()
 *
 * All strings are borrowed: they must stay where they are for as long as the options are used.
 */
#ifndef LOCKSTEP_OPTIONS_H
#define LOCKSTEP_OPTIONS_H

#include "lockstep/control.h"
#include "lockstep/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* lr and weight_decay that nobody gave: ls_options_check takes what suits the optimizer. */
#define LS_NOT_GIVEN (-1.0)

struct ls_images;

/* With sync "ps", "async" or "ssp:K" this process is the server: it listens, and workers come
 * (`lockstep train --server ADDRESS`). All borrowed. */
struct ls_elastic {
    const char *listen; /* "127.0.0.1:0": the port is then any free one */
    const char *key;    /* a key file (docs/guide/parameter-server.md); NULL: only this machine may connect */
    const char *ticket; /* what a worker has to show besides, as $LOCKSTEP_TICKET; NULL: nothing */
    void *context;
    void (*on_listening)(void *context, const char *address); /* (optional) from now on workers may come */
    bool (*is_hopeless)(void *context); /* (optional) true: none will come any more, so do not wait */
    bool (*is_coming)(void *context);   /* (optional) true: some are being started; the first step waits for them */
    void (*on_joined)(void *context, int slot); /* (optional) one can compute: that of this slot, or -1 */
    bool is_apart; /* workers count as nodes, though they may share memory: the time of a step is foretold */
};

struct ls_train_options {
    const char *model, *data; /* "lenet5", "digits" */
    const char *data_dir;     /* NULL: $LOCKSTEP_DATA, the cache, the distribution's place */
    const char *run_dir;      /* NULL: runs/<model>-<data>-<time> */
    const char *device;       /* "cpu", "ref", "cuda"; "auto": the best of the first two this build has */
    const char *precision;    /* "f32"; "tf32" and "bf16" on cards */
    const char *isa;          /* "native", or a level all machines of the run have: "avx512", "avx2" */
    const char *tune;         /* tuning table: a file, "none", NULL: the program's own */
    int64_t batch_size;       /* global */
    int64_t shards;           /* 0: from the batch size */
    int64_t threads;          /* 0: one per CPU */
    int64_t epochs;
    int64_t iterations; /* 0: epochs decide; else stop after this many steps */
    int64_t seed;
    int64_t loader_threads; /* -j */
    const char *validation; /* held out of the training data: "0.1", "5000", or a folder of pictures; NULL: none */

    const char *optimizer;   /* "sgd", "adamw" */
    double lr, weight_decay; /* LS_NOT_GIVEN: 0.05 and 0 for sgd, 0.001 and 0.01 for adamw */
    double momentum, beta1, beta2, eps;
    bool nesterov;
    double clip_norm; /* 0: off */
    double label_smoothing;
    const char *schedule;   /* "constant", "step", "multistep", "cosine", "onecycle" */
    double gamma;           /* step, multistep: factor */
    int64_t step_epochs;    /* step: every so many epochs */
    const char *milestones; /* multistep: "30,60,80" epochs */
    double warmup_epochs;   /* linear warm-up before the schedule */
    double min_lr;          /* cosine: end */

    /* Starting from weights that are there (docs/guide/fine-tuning.md). NULL: none. Patterns of parameter names are a
     * shell's, apart by commas. */
    const char *init;      /* a run directory, a checkpoint, or a safetensors file of another program */
    const char *init_skip; /* what is not taken from it: "fc.*" */
    const char *freeze;    /* what is not trained */
    const char *lr_of;     /* rates of their own: "features.*=0.001", or factors: "features.*=x0.1" */

    int64_t crop_pad, cutout; /* augmentation; 0: off */
    bool flip;
    double resized_crop;                          /* smallest share of the area; 0: off, as the next */
    double brightness, contrast, saturation, hue; /* strengths, as torchvision's ColorJitter */
    double erasing;                               /* probability */
    double mixup, cutmix;                         /* alpha */
    const char *resize;                           /* "224" or "224x224"; NULL: the data's own size */
    bool normalize;                               /* by the data set's constants; default true */

    const char *resume;           /* NULL, "auto", a run directory or a checkpoint file */
    bool accept_other_bits;       /* resume although library, instruction set or kernels give other rounding */
    const char *checkpoint_every; /* "epoch", "500" (steps), "none" */
    int64_t keep;                 /* checkpoints kept besides the best */
    int64_t eval_every;           /* epochs; 0: only at the end */
    bool record;                  /* resources.csv: what the process uses, every half second */
    int64_t histograms;           /* epochs between histograms of weights and gradients for TensorBoard; 0: none */
    bool trace;                   /* trace.json: where the time of every thread went */
    int64_t trace_steps;          /* so many steps have every op in it */
    int64_t patience;             /* stop after so many epochs without a better validation accuracy; 0: never */
    double target;                /* stop when this accuracy is reached; 0: none */
    int64_t log_every;            /* steps between lines in metrics.jsonl; 0: per epoch only */
    bool no_eval;
    bool quiet;              /* only warnings and errors on stderr while this call lasts */
    bool json;               /* for the program; the library prints no results */
    bool deterministic_only; /* reserved */
    const char *memory;      /* "normal", "low": activations are computed again in backward; the same weights */
    const char *sync;        /* "allreduce", "local:H", "ps", "async", "ssp:K" */
    int64_t workers;         /* ranks the job must have; 0: as many as were started */
    int64_t gpus;            /* cards per machine, each with a process of its own; 0: processes share those there are */
    double timeout;          /* seconds to wait for a worker that does not answer */
    bool balance;            /* slower machines get fewer shards */
    int64_t rescue_every;    /* steps between copies of the state in memory, kept for a restart; 0: none */
    int64_t compress;        /* bits of a gradient that leaves a shard: 8, 16; 0: all */
    double lease;            /* ps, async, ssp: seconds a worker may be silent before others get its work */
    int64_t backup;          /* ps: slow workers whose shards are computed a second time by who has nothing to do */
    int64_t servers;         /* ps: processes that have a part of the parameters each */
    const char *sum;         /* "fixed" (the promise) or "float" (plain float32 sums, for comparison only) */

    /* For programs only: no words of the command line. All borrowed. */
    const struct ls_control *control; /* asked and told between steps; NULL: nobody */
    const char *model_text; /* the network itself (docs/formats/model-language.md); `model` is then its name */
    /* Images from memory (data.h) instead of a data set; `data` is then their name, "memory" if NULL. Without
     * test_images no_eval must be set. */
    const struct ls_images *train_images, *test_images;
    const struct ls_elastic *elastic; /* NULL: this process serves nobody */
};

void ls_train_options_default(struct ls_train_options *o);

/* One setting by its name on the command line, as "batch-size", or an alias of it; '_' counts as '-'. A flag is "on" or
 * "off". The value's text is borrowed, as all strings are. LS_USAGE, with the command line's message, for a name there
 * is not and a value that is not good; then *o is unchanged. */
enum ls_status ls_options_set(struct ls_train_options *o, const char *name, const char *value) LS_MUST_CHECK;
/* The value as ls_options_set takes it; "" if it is not given. LS_USAGE for a name there is not, and if there is less
 * room than it needs. */
enum ls_status ls_options_get(const struct ls_train_options *o, const char *name, char *text,
                              size_t size) LS_MUST_CHECK;
/* Gives what was not given its value, then refuses with LS_USAGE what is out of range or does not go together. ls_train
 * does it too, with a copy of its own. */
enum ls_status ls_options_check(struct ls_train_options *o) LS_MUST_CHECK;

/* What there is to set, for menus and pages:
 *     struct ls_option_info info;
 *     for (int i = 0; ls_options_describe(i, &info); i++) puts(info.name);
 */
struct ls_option_info {
    const char *name;          /* "batch-size" */
    const char *value;         /* what it takes: "N", or words as "sgd|adamw" */
    const char *default_value; /* as ls_options_set would take it; "": none */
    const char *help;          /* one sentence */
    const char *group;         /* "Training"; "": no option of the command line */
    bool decides_result;       /* another value gives other weights */
};
bool ls_options_describe(int i, struct ls_option_info *info); /* false: there is no i-th */

#ifdef __cplusplus
}
#endif

#endif
