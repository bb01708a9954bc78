/* train.h: a whole run, as the command line asks for it.
 *
 * All strings in the options are borrowed. Defaults live in the option table of the command line (src/cli/options.c);
 * ls_train_options_default() gives the same to a program that links the library. A text that is NULL means its default;
 * so does a batch size, a number of shards or threads of 0 in the smaller structs. What no command line could have
 * given (a number out of range, an unknown word, no model) is LS_USAGE.
 */
#ifndef LOCKSTEP_TRAIN_H
#define LOCKSTEP_TRAIN_H

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
    const char *device;       /* "cpu", "ref" */
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
};

struct ls_seconds {
    double load, compute, communicate, wait, checkpoint, evaluate;
};

/* What result.json holds; the names are the JSON keys. */
struct ls_result {
    char model[128], data[256], device[32], precision[16], sync[32];
    int64_t batch_size, shards, workers, threads, epochs, steps, images;
    double train_seconds, total_seconds, images_per_second;
    double train_loss, train_accuracy, test_loss, test_accuracy; /* NAN: not measured, null in JSON */
    char weights_hash[33];
    int64_t peak_rss_bytes;
    double cpu_percent_mean;
    struct ls_seconds seconds;
    int64_t bytes_sent;
    double first_step_seconds; /* from the start of the process to the end of the first step */
    struct {                   /* seconds of a step, in a job of several machines; NAN: not one */
        double predicted, predicted_alone, measured;
    } step;
    char run_dir[512];
    int rank; /* of the process that holds this result; 0 has all of it */
};

void ls_train_options_default(struct ls_train_options *o);

/* Trains and fills *result. LS_INTERRUPTED after a signal and a checkpoint; then *result holds what was done so far. */
enum ls_status ls_train(const struct ls_train_options *o, struct ls_result *result) LS_MUST_CHECK;

/* Evaluates a run's best (or newest) checkpoint, or a checkpoint file, on every test sample exactly once. */
struct ls_eval_options {
    const char *what;  /* RUN or CHECKPOINT */
    const char *model; /* NULL: the one the checkpoint names */
    const char *data;  /* NULL: the run's own */
    const char *data_dir, *device, *resize, *isa, *tune;
    int64_t threads, batch_size;
    bool json;
};
struct ls_eval_result {
    char model[128], data[256], checkpoint[4096], weights_hash[33];
    int64_t images, step;
    double loss, accuracy, seconds, images_per_second;
};
void ls_eval_options_default(struct ls_eval_options *o); /* everything but `what` */
enum ls_status ls_eval(const struct ls_eval_options *o, struct ls_eval_result *result) LS_MUST_CHECK;

/* Training steps on random data held in memory: how fast, how much memory. */
struct ls_bench_options {
    const char *model, *device, *isa, *tune;
    const char *data; /* NULL: fake data of the model's input and 10 or 1000 classes; else a fake: spec */
    int64_t batch_size, shards, threads, steps, warmup;
    double seconds; /* run at least this long; steps 0 = until then */
    bool json;
    bool layers;      /* also measure every op: ls_bench_result.ops */
    int64_t compress; /* as in ls_train_options */
    bool low_memory;  /* --memory low */
};
/* One op of the step, its time summed over threads and divided by the steps. */
struct ls_bench_op {
    char op[24], layer[64], kernel[64];
    double ms, gflops, fraction; /* per step; of the op alone, per thread; of all ops */
};
struct ls_bench_result {
    char model[128];
    int64_t batch_size, shards, threads, steps;
    double ms_per_step, ms_per_step_best, images_per_second;
    double gflops, peak_gflops, fraction_of_peak; /* of the step; of a register-blocked FMA loop on the same threads */
    int64_t peak_rss_bytes, arena_bytes, store_bytes;
    double first_step_ms;    /* from the start of the process */
    struct ls_bench_op *ops; /* with layers; free() it */
    int n_ops;
};
enum ls_status ls_bench(const struct ls_bench_options *o, struct ls_bench_result *result) LS_MUST_CHECK;

/* What a step costs on this machine, for predictions (predict.h): measured for about o->seconds. *threads: how many
 * computed. Release the profile with ls_predict_profile_release. */
struct ls_predict_profile;
enum ls_status ls_predict_measure(const struct ls_bench_options *o, struct ls_predict_profile *profile,
                                  int *threads) LS_MUST_CHECK;

/* The plan of a training (or evaluation) step of a model, as text; free() it. */
enum ls_status ls_plan_model(const struct ls_bench_options *o, bool is_training, char **text) LS_MUST_CHECK;

/* `lockstep tune`: measures which implementation computes each problem of a model fastest within a training step. */
struct ls_tune_options {
    const char *model, *device, *isa;
    const char *data;    /* as in ls_bench_options */
    const char *output;  /* the table's file; one that is there is added to; NULL: not written */
    const char *machine; /* for the comment in the table; NULL: not told */
    int64_t batch_size, shards, threads;
    double seconds; /* each comparison takes at least this long */
};
struct ls_tune_choice {
    char impl[24];
    double ms;       /* of the problem's ops, CPU time per step; 0: never measured */
    bool is_refused; /* the implementation cannot do it */
};
enum { LS_TUNE_MAX_CHOICES = 12 };
struct ls_tune_problem {
    char key[224]; /* op and shapes */
    int n_uses;    /* ops of the plan */
    struct ls_tune_choice choices[LS_TUNE_MAX_CHOICES];
    int n_choices, rule, chosen; /* what the rules choose, and what the measurement does */
    int group;                   /* the problem of the forward op it belongs to */
};
struct ls_tune_result {
    char model[128], library[32], isa[24];
    int64_t batch_size, shards, shard_size, threads;
    double ms_before, ms_after; /* CPU time of a step */
    int n_tried, n_changed;     /* moves; problems */
    struct ls_tune_problem *problems;
    int n_problems;
    char *table; /* what was found, as the text of a table */
};
enum ls_status ls_tune(const struct ls_tune_options *o, struct ls_tune_result *result) LS_MUST_CHECK;
void ls_tune_result_release(struct ls_tune_result *result);

/* First SIGINT or SIGTERM: finish the step, checkpoint, LS_INTERRUPTED. Second: exit at once. Installed by the program,
 * not by the library's functions above. */
void ls_signals_install(void);

#ifdef __cplusplus
}
#endif

#endif
