/* result.h: what a training run leaves, in one struct. */
#ifndef LOCKSTEP_RESULT_H
#define LOCKSTEP_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where the wall clock of this rank went, over all sittings of a run that was resumed; the parts, all but `hidden`, add
 * up to total_seconds. compute and update: the mean over its threads; communicate: waiting for sums of other machines;
 * wait: the rest of the steps. */
struct ls_seconds {
    double load, compute, communicate, wait, checkpoint, evaluate;
    double update, setup, other; /* setup: before the first step; other: metrics, progress, what nothing else covers */
    double hidden;               /* beside them: sums travelled between machines and no thread waited for them */
};

/* What one rank of the job did, in this sitting. */
struct ls_rank {
    char host[64];
    int64_t epoch;  /* of the last step, from 1 */
    double lr;      /* of the last step */
    int64_t images; /* it computed in training: its shards */
    double total_seconds;
    struct ls_seconds seconds; /* as above, of that rank */
    int64_t bytes_sent, bytes_received;
};
enum { LS_RANKS_TOLD = 64 };

/* What one worker of a parameter server did, in this sitting. */
struct ls_elastic_worker {
    char host[64];
    int64_t threads;
    int64_t shards, batches; /* that counted: batches where a worker gets whole ones (async, ssp) */
    int64_t images;          /* of these */
    int64_t pushes, rejected;
    int64_t acknowledged; /* pushes that it knows to be in, by its last word: it may not have heard of the last */
    double total_seconds; /* since it joined, until it left */
    double wait_seconds, compute_seconds;
    /* Of total_seconds those that it stood still because the server trained nothing; not in wait_seconds. */
    double evaluate_seconds, checkpoint_seconds, other_seconds;
    double staleness_mean; /* of its updates: others applied between its parameters and them */
    int64_t staleness_max;
    int64_t joined_step, left_step;     /* -1: it stayed */
    int64_t bytes_sent, bytes_received; /* by it, to and from the first server */
    bool shares_memory;                 /* with the first server: sums and parameters lie there, and are not sent */
};
enum { LS_ELASTIC_TOLD = 64, LS_STALENESS_BINS = 16, LS_ELASTIC_SERVERS = 64 };

/* One server; the first is the chief, this process. */
struct ls_elastic_server {
    char host[64];
    int64_t parameters;                 /* that it has: numbers, with running statistics */
    int64_t bytes_sent, bytes_received; /* by it, to and from workers; the first: and other servers */
};

/* A training by parameter server. n_workers is 0 in any other. */
struct ls_elastic_result {
    int servers, n_workers; /* workers that ever took part */
    int n_told;
    struct ls_elastic_worker workers[LS_ELASTIC_TOLD]; /* the first of them */
    struct ls_elastic_server each[LS_ELASTIC_SERVERS]; /* [servers] */
    int64_t updates, staleness_max;
    double staleness_mean;
    int64_t staleness[LS_STALENESS_BINS]; /* updates with a staleness of 0, 1, ...; the last: and more */
};

/* What result.json holds; the names are the JSON keys. */
struct ls_result {
    char model[128], data[256], device[32], precision[16], sync[32];
    int64_t batch_size, shards, workers, threads, epochs, steps, images;
    double train_seconds, total_seconds, images_per_second;
    double train_loss, train_accuracy, test_loss, test_accuracy; /* NAN: not measured, null in JSON */
    /* Of the last weights, as test_loss and test_accuracy are; NAN without validation data. */
    double validation_loss, validation_accuracy;
    int64_t validation_images;
    /* The weights that the validation data say were best, in checkpoints/best.safetensors; best_epoch 0: there are
     * none. The test data is measured with them once, at the end. */
    int64_t best_epoch, best_step;
    double best_validation_loss, best_validation_accuracy, best_test_loss, best_test_accuracy;
    /* When `target` was reached: epochs, seconds in steps, seconds in all; epoch 0: it was not. */
    int64_t target_epoch;
    double target_train_seconds, target_total_seconds;
    char stopped_by[16];   /* "patience" or "target", before all epochs were done; "" */
    char weights_hash[33]; /* of the last weights */
    int64_t peak_rss_bytes;
    double cpu_percent_mean;
    struct ls_seconds seconds;
    int64_t bytes_sent;
    double first_step_seconds; /* from the call to the end of the first step; total_seconds counts from there, too */
    struct {                   /* seconds of a step, in a job of several machines; NAN: not one */
        double predicted, predicted_alone, measured;
    } step;
    struct ls_rank ranks[LS_RANKS_TOLD]; /* the first of them; ranks.csv has all */
    int n_ranks_told;                    /* of these; on rank 0 only */
    struct ls_elastic_result elastic;
    char run_dir[512];
    int rank;               /* of the process that holds this result; 0 has all of it */
    bool is_told_elsewhere; /* of a failure: the process that knows its cause tells it, so this one may be silent */
};

#ifdef __cplusplus
}
#endif

#endif
