/* options.h: the options of a training run.
 *
 * All strings are borrowed. ls_train_options_default gives what the command line starts from.
 */
#ifndef LOCKSTEP_OPTIONS_H
#define LOCKSTEP_OPTIONS_H

#include "lockstep/control.h"
#include "lockstep/status.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ls_train_options {
    const char *model, *data; /* "lenet5", "digits" */
    const char *data_dir;     /* NULL: $LOCKSTEP_DATA, the cache, the distribution's place */
    const char *run_dir;      /* NULL: runs/<model>-<data>-<time> */
    const char *device;       /* "cpu", "ref", "cuda" */
    const char *precision;    /* "f32" */
    const char *isa;          /* "native", or a level all machines of the run have: "avx512", "avx2" */
    const char *tune;         /* tuning table: a file, "none", NULL: the program's own */
    int64_t batch_size;       /* global */
    int64_t shards;           /* 0: from the batch size */
    int64_t threads;          /* 0: one per CPU */
    int64_t epochs;
    int64_t iterations; /* 0: epochs decide; else stop after this many steps */
    int64_t seed;
    int64_t loader_threads; /* -j */

    const char *optimizer; /* "sgd", "adamw" */
    double lr, momentum, weight_decay, beta1, beta2, eps;
    bool nesterov;
    double clip_norm; /* 0: off */
    double label_smoothing;
    const char *schedule;   /* "constant", "step", "multistep", "cosine", "onecycle" */
    double gamma;           /* step, multistep: factor */
    int64_t step_epochs;    /* step: every so many epochs */
    const char *milestones; /* multistep: "30,60,80" epochs */
    double warmup_epochs;   /* linear warm-up before the schedule */
    double min_lr;          /* cosine: end */

    int64_t crop_pad, cutout; /* augmentation; 0: off */
    bool flip;
    const char *resize; /* "224" or "224x224"; NULL: the data's own size */
    bool normalize;     /* by the data set's constants; default true */

    const char *resume;           /* NULL, "auto", a run directory or a checkpoint file */
    bool accept_other_bits;       /* resume although library, instruction set or kernels give other rounding */
    const char *checkpoint_every; /* "epoch", "500" (steps), "none" */
    int64_t keep;                 /* checkpoints kept besides the best */
    int64_t eval_every;           /* epochs; 0: only at the end */
    int64_t log_every;            /* steps between lines in metrics.jsonl; 0: per epoch only */
    bool no_eval;
    bool quiet;              /* only warnings and errors on stderr while this call lasts */
    bool json;               /* for the program; the library prints no results */
    bool deterministic_only; /* reserved */
    const char *memory;      /* "normal", "low": activations are computed again in backward; the same weights */
    const char *sync;        /* "allreduce", "local:H" */
    int64_t workers;         /* ranks the job must have; 0: as many as were started */
    double timeout;          /* seconds to wait for a worker that does not answer */
    bool balance;            /* slower machines get fewer shards */
    int64_t rescue_every;    /* steps between copies of the state in memory, kept for a restart; 0: none */
    int64_t compress;        /* bits of a gradient that leaves a shard: 8, 16; 0: all */
    const char *sum;         /* "fixed" (the promise) or "float" (plain float32 sums, for comparison only) */

    /* For programs only: no words of the command line. All borrowed. */
    const struct ls_control *control; /* asked and told between steps; NULL: nobody */
};

void ls_train_options_default(struct ls_train_options *o);

#ifdef __cplusplus
}
#endif

#endif
