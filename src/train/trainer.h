/* trainer.h: a training in progress: what setup.c puts together and the loop in train.c works on. */
#ifndef LS_TRAIN_TRAINER_H
#define LS_TRAIN_TRAINER_H

#include "base/log.h"
#include "lockstep/train.h"
#include "measure/forecast.h"
#include "record/record.h"
#include "run/progress.h"
#include "run/run.h"
#include "session/session.h"
#include "session/state.h"
#include "train/carry.h"
#include "train/rescue.h"
#include "train/sync.h"

struct ranks; /* train/ranks.h */

/* Steps that are measured op by op (train/layers.h). */
struct layer_steps {
    struct ls_exec *exec; /* NULL: none are */
    int64_t n_steps;      /* done in this sitting */
    int64_t n_samples;    /* in those that were measured, by this rank */
};

struct trainer {
    struct ls_train_options own; /* completed */
    const struct ls_train_options *o;
    int64_t opened_ns;             /* when, on the clock */
    double cpu_seconds;            /* of the process, then */
    enum ls_log_level told_before; /* what the calling thread told at most */
    struct ls_trace *trace;        /* where the time of this sitting goes */
    enum ls_log_level told;        /* and tells while this trainer works */
    bool is_own_loop;              /* the caller's: it evaluates and saves (own_loop.c) */
    struct ls_comm *comm;
    bool is_chief;                 /* rank 0: it alone has a run directory, a writer and a progress bar */
    bool is_set_up;                /* from here on there may be something to lose */
    bool stop_wanted, save_wanted; /* by some rank, since a step or two */
    bool is_cut_short;             /* a signal came while the epoch was evaluated: st is as before the evaluation */
    struct session_options so;
    struct session s;
    struct sync sync;
    struct carry *carry; /* what shards have of their own, or NULL */
    struct ls_run *run;
    bool has_result;          /* written */
    struct ls_record *record; /* NULL: nothing is recorded */
    struct ranks *ranks;
    struct layer_steps layers;
    struct ls_ckpt_writer *writer;
    struct ls_loader *loader;
    struct ls_batch next; /* the next step's batch, where it was asked for during the one before */
    bool has_next;
    struct rescue rescue;
    struct ls_ckpt *resumed; /* while setting up: the checkpoint that this rank has taken over, or has a part of */
    char resumed_path[LS_PATH_BYTES];
    char init_path[LS_PATH_BYTES]; /* the file that --init comes to, on the chief */
    struct ls_schedule schedule;
    struct train_state st;
    struct ls_progress progress;
    int64_t last_step;        /* stop after this many */
    int64_t checkpoint_steps; /* every so many steps; 0: per epoch; -1: never */
    int64_t saved_step;       /* of the last checkpoint, -1 none */
    int64_t images;           /* in this sitting */
    double first_step_seconds;
    struct train_state earlier; /* its seconds: those of earlier sittings */
    double last_test_loss, last_test_accuracy, best_test_loss, best_test_accuracy; /* at the end (judge.h); NAN: not */
    struct forecast forecast;                                                      /* of a job over several machines */
};

/* Fills *t; ls__trainer_close ends it, after a failure too. */
enum ls_status ls__trainer_open(struct trainer *t, const struct ls_train_options *options) LS_MUST_CHECK;
/* Ends the job with the status of this rank and gives that of all. */
enum ls_status ls__trainer_close(struct trainer *t, enum ls_status status, bool *is_told_elsewhere) LS_MUST_CHECK;
/* Opens everything the options name, in a job together with the other ranks, and takes over the state of a resumed run.
 * What was opened is the caller's to close, after a failure too. */
enum ls_status ls__trainer_set_up(struct trainer *t) LS_MUST_CHECK;

/* One step, its metrics and the caller's on_step. */
enum ls_status ls__trainer_step(struct trainer *t, struct ls_step *step) LS_MUST_CHECK;
/* All that a step may be followed by: the end of an epoch, checkpoints. */
enum ls_status ls__trainer_after_step(struct trainer *t) LS_MUST_CHECK;
/* The test data; is_cut_short if the caller wanted to stop meanwhile. */
enum ls_status ls__trainer_evaluate(struct trainer *t) LS_MUST_CHECK;
bool ls__trainer_stop_wanted(const struct trainer *t);
/* After the last step: waits for the checkpoints, fills *r and writes it to the run directory. */
enum ls_status ls__trainer_finish(struct trainer *t, struct ls_result *r) LS_MUST_CHECK;

/* A line of metrics.jsonl, the chief's. */
void ls__trainer_metric(struct trainer *t, const char *split, double loss, double accuracy, double lr, int64_t images,
                        double seconds);
/* Where the time of this sitting went, up to now. */
struct ls_seconds ls__trainer_seconds(const struct trainer *t);
/* The seconds in st are up to now. */
void ls__trainer_count_seconds(struct trainer *t);

/* Where shards train apart the store has to be made before it is read: evaluated, hashed, saved. They do not notice.
 * Collective. */
enum ls_status ls__trainer_view(struct trainer *t) LS_MUST_CHECK;
/* A checkpoint of now, unless there is one. Collective. */
enum ls_status ls__trainer_save(struct trainer *t, bool is_best) LS_MUST_CHECK;
/* A copy in the memory of every machine, for a restart, when it is time. A machine that has no room for it goes
 * without. Collective. */
enum ls_status ls__trainer_save_in_memory(struct trainer *t) LS_MUST_CHECK;
/* What became of it, for all ranks; r->weights_hash is there already. Collective. */
enum ls_status ls__trainer_result(struct trainer *t, struct ls_result *r) LS_MUST_CHECK;

#endif
