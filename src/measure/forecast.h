/* forecast.h: the measuring half of predictions (predict/predict.h has the arithmetic).
 *
 * Before the first step of a job over several machines, all ranks rehearse one shard per thread (the first machine also
 * while the others wait, for what it would do alone), probe the network, and rank 0 tells what to expect; at the end it
 * tells what became of it. Nothing of it reaches the weights. With parameter servers the workers rehearse and answer
 * (elastic/server_trial.c), and this process, which is no worker, foretells (forecast_served.c).
 */
#ifndef LS_TRAIN_PREDICT_H
#define LS_TRAIN_PREDICT_H

#include "lockstep/measure.h"
#include "predict/predict.h"
#include "session/session.h"

/* What a step costs on this machine, for predictions (predict/predict.h): measured for about o->seconds. *threads: how
 * many computed. Release the profile with ls_predict_profile_release. */
enum ls_status ls_predict_measure(const struct ls_bench_options *o, struct ls_predict_profile *profile,
                                  int *threads) LS_MUST_CHECK;

struct forecast {
    bool is_made;
    int n_machines;                     /* or workers of a parameter server */
    int n_servers;                      /* 0: none */
    double step_seconds, alone_seconds; /* predicted: of this job, and of one machine of it */
    double wire_seconds;                /* of which the network is busy */
    struct ls_comm_network network;     /* as probed */
    int64_t n_parameters;
    double measured_seconds; /* of n_measured steps */
    int64_t n_measured, n_seen;
};

/* What is foretold from: of one machine, and of all of them. */
struct forecast_basis {
    const struct ls_exec_rehearsal *alone, *together; /* on so many threads: */
    int threads;
    double times;                             /* as in ls__profile_rehearsed */
    double shard_seconds;                     /* among the others */
    const struct ls_predict_cluster *cluster; /* all of them */
    enum ls_predict_algorithm algorithm;
};
/* Fills in what is predicted, and is_made. */
enum ls_status ls__forecast_foretell(struct forecast *f, const struct session *s,
                                     const struct forecast_basis *basis) LS_MUST_CHECK;

/* All ranks of the job; takes one or two seconds. In a job of one machine it does nothing. */
enum ls_status ls__forecast_make(struct forecast *f, struct session *s, uint64_t seed, bool is_balanced) LS_MUST_CHECK;

/* What a parameter server knows of its workers. */
struct forecast_served {
    int n_workers, n_servers; /* no workers: nothing is foretold */
    int n_pieces;             /* in which sums and parameters travel */
    int threads;              /* of a worker */
    int n_beside;             /* of the workers share memory with the server; all of them: there is no network */
    int shared_cores;         /* all servers and workers are on this computer, which has so many; 0: they are not */
    double latency, bandwidth;
    struct ls_exec_rehearsal together; /* their mean, all at once; shard_seconds: that of workers who share by speed */
    bool is_async;                     /* a step is one worker's update */
    int staleness;                     /* the bound of ssp:K; -1: none */
};
/* The server's alone, which rehearses meanwhile what one machine does. */
enum ls_status ls__forecast_make_served(struct forecast *f, struct session *s, uint64_t seed,
                                        const struct forecast_served *served) LS_MUST_CHECK;

/* Rank 0's: a line, and a warning when one machine alone would be faster. */
void ls__forecast_tell(const struct forecast *f);
/* A step took so long. */
void ls__forecast_note(struct forecast *f, double seconds);
/* Rank 0's: predicted and measured. */
void ls__forecast_compare(const struct forecast *f);

#endif
