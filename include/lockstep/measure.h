/* measure.h: how fast a training step is, and of what it is made. */
#ifndef LOCKSTEP_MEASURE_H
#define LOCKSTEP_MEASURE_H

#include "lockstep/status.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Training steps on random data held in memory: how fast, how much memory. */
struct ls_bench_options {
    const char *model, *device, *isa, *tune;
    const char *data; /* NULL: fake data of the model's input and 10 or 1000 classes; else a fake: spec */
    int64_t batch_size, shards, threads, steps, warmup;
    double seconds; /* run at least this long; steps 0 = until then */
    bool json;
    bool layers;           /* also measure every op: ls_bench_result.ops */
    int64_t compress;      /* as in ls_train_options */
    bool low_memory;       /* --memory low */
    const char *precision; /* as in ls_train_options; NULL: f32 */
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
    double gflops, peak_gflops,
        fraction_of_peak; /* of the step; of a register-blocked FMA loop on the same threads, or the card's */
    int64_t peak_rss_bytes, arena_bytes, store_bytes;
    double first_step_ms;    /* from the call */
    struct ls_bench_op *ops; /* with layers; free() it */
    int n_ops;
};
enum ls_status ls_bench(const struct ls_bench_options *o, struct ls_bench_result *result) LS_MUST_CHECK;

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

#ifdef __cplusplus
}
#endif

#endif
