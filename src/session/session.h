/* session.h: model, data, backend, store and threads put together, for train, eval and bench alike.
 *
 * Lifetimes nest: the session owns everything it opened and closes it in reverse order.
 */
#ifndef LS_TRAIN_SESSION_H
#define LS_TRAIN_SESSION_H

#include "backend/backend.h"
#include "checkpoint/checkpoint.h"
#include "data/data.h"
#include "exec/exec.h"
#include "model/model.h"
#include "optim/optim.h"
#include "plan/plan.h"
#include "plan/tune.h"
#include "settings/sync_names.h"
#include "trace/trace.h"

struct ls_train_options;

struct session_options {
    const char *model, *data, *data_dir, *device, *resize;
    const char *model_text; /* the model itself, `model` then says only where it is from; NULL: load `model` */
    int64_t batch_size, shards, threads;
    bool is_training; /* plans for training; the train split is opened */
    bool with_test;   /* plan for evaluation; the test split is opened */
    bool normalize;
    struct ls_transform augmentation; /* of training images; sizes and normalisation are the data's */
    double label_smoothing;
    bool float_sums; /* plain float32 gradient sums instead of fixed point: for comparison, not reproducible */
    struct ls_optim optim;
    const char *freeze, *lr_of; /* patterns of parameters (settings/patterns.h), or NULL */
    double lr;                  /* what rates of lr_of are relative to */
    const char *validation;     /* what is held out of the training data (settings/validation.h), or NULL */
    uint64_t seed;              /* by which */
    const struct ls_images *train_images, *test_images; /* from memory, instead of `data`; `data` is then their name */
    const struct ls_control *control; /* (optional) whether to stop, while data is read and evaluated */
    struct ls_comm *comm;             /* the job this session is part of; NULL: none */
    struct ls_trace *trace;           /* of the run this session is part of, borrowed; NULL: it has one of its own */
    int64_t gpus;                     /* cards of the machine, a process for each; 0: as many as there are, shared */
    int turn;                        /* outside a job: this process's among those of the machine that share its cards */
    bool computes_elsewhere;         /* a server: workers see the training data, this process does not */
    bool balance;                    /* slower machines get fewer shards */
    int64_t compress;                /* bits of a gradient that leaves a shard; 0: all */
    bool low_memory;                 /* compute activations again in backward instead of keeping them */
    const struct ls_sync_name *sync; /* NULL: allreduce */
    const char *precision;           /* NULL: f32; tf32, bf16 */
    const char *isa;                 /* NULL, "native", or the level to stay below: "avx2" */
    const char *tune;                /* tuning table: a file, "none", or NULL: the program's own for this machine */
    const struct ls_tune *table;     /* the table itself, borrowed, instead of `tune`; for `lockstep tune` */
};

struct session {
    struct ls_model *model;
    struct ls_dataset *train, *test; /* NULL if not opened */
    struct ls_dataset *validation;   /* to choose by; NULL: none */
    struct ls_dataset *whole;        /* of which train and validation are parts; NULL: nothing is held out */
    const struct ls_backend *backend;
    struct ls_device *device;
    struct ls_tune *tune; /* NULL: none */
    struct ls_store *store;
    struct ls_exec *exec;
    const uint8_t *train_kept, *test_kept; /* where the device has these sets; NULL: it does not. The executor's */
    struct ls_transform transform;
    char init_hash[33]; /* of the file that the first weights are from; "": not known, or none */
    int64_t batch_size, shards, shard_size, eval_size; /* eval_size: samples per shard when evaluating */
    int threads;
    struct ls_comm *comm;               /* borrowed */
    const struct ls_control *control;   /* borrowed */
    struct ls_trace *trace, *own_trace; /* where time goes; own_trace: to be destroyed, or NULL */
    struct ls_lane *lane;               /* the main thread's */
};

/* Of a training's options, all but comm, trace and sync. */
struct session_options ls__session_options_of(const struct ls_train_options *o);
/* LS_USAGE for numbers no command line could have given. ls__session_open asks it, too. */
enum ls_status ls__session_check_sizes(const struct session_options *o) LS_MUST_CHECK;
/* Fills *s; on failure too, so that ls__session_close can end it. */
enum ls_status ls__session_open(struct session *s, const struct session_options *o) LS_MUST_CHECK;
void ls__session_close(struct session *s);

/* A store, plans and one thread of its own on the same model, data and device; borrowed from `of`. */
enum ls_status ls__session_replicate(const struct session *of, const struct session_options *o,
                                     struct session *replica) LS_MUST_CHECK;
void ls__session_drop_replica(struct session *replica);

/* The default number of shards: a function of the batch size alone. docs/decisions/0002-shards.md */
int64_t ls__session_default_shards(int64_t batch_size);

/* XXH3-128 of all parameters and buffers as plain float32, in the model's order; 32 hex digits. */
enum ls_status ls__session_hash(struct session *s, char hex[33]) LS_MUST_CHECK;

/* Every sample of a data set once, in its order. A wish to stop is heard after every batch, on all ranks after the same
 * one; is_stopped then, and there is no loss. */
struct evaluation {
    const struct ls_dataset *data; /* NULL: the test split; else of the same shape and classes */
    const char *label;             /* of the progress bar; NULL: none is shown */
    /* (optional) What the network said, after every batch: logits [batch->n,n_classes], a row for each sample. In one
     * process only. */
    enum ls_status (*take)(void *arg, const struct ls_batch *batch, const float *logits);
    void *arg;
    double loss, accuracy; /* out: means over the samples */
    bool is_stopped;       /* out */
};
enum ls_status ls__session_evaluate_on(struct session *s, struct evaluation *e) LS_MUST_CHECK;
/* The test split, as training asks for it. */
enum ls_status ls__session_evaluate(struct session *s, bool show_progress, double *loss, double *accuracy,
                                    bool *is_stopped) LS_MUST_CHECK;

/* All stored tensors (parameters, buffers, optimizer state) as plain copies in one block; for checkpoints.
 * Names are the store's. */
struct snapshot {
    struct ls_ckpt_tensor *tensors;
    int n, n_own;    /* in all; of them the store's: others may be added behind (carry.h) */
    char *names;     /* of num_batches_tracked */
    bool *is_hashed; /* [n_own] parameters and buffers */
    void *data;
    size_t bytes;
};
enum ls_status ls__session_snapshot(struct session *s, int64_t step, struct snapshot *snap) LS_MUST_CHECK;
/* The same without the values: names, types and shapes, data NULL. */
enum ls_status ls__session_outline(struct session *s, struct snapshot *outline) LS_MUST_CHECK;
/* What ls__session_hash gives for the state the snapshot is of. From any thread. */
enum ls_status ls__snapshot_hash(const struct snapshot *snap, char hex[33]) LS_MUST_CHECK;
void ls__snapshot_release(struct snapshot *snap);
/* Loads parameters and buffers, and with_state the optimizer's. A tensor that is missing, of another shape or not
 * finite is LS_CHECKPOINT and named. */
enum ls_status ls__session_load(struct session *s, const struct ls_ckpt *ckpt, const char *path,
                                bool with_state) LS_MUST_CHECK;

/* Parameters and buffers by name from any safetensors file, but not what the patterns of `skip` name; tells what fitted
 * and what stays fresh. LS_CHECKPOINT where a shape is another, a value is not finite or nothing fits. */
enum ls_status ls__session_take_weights(struct session *s, const struct ls_ckpt *ckpt, const char *path,
                                        const char *skip) LS_MUST_CHECK;
/* Of 32 or 16 bits. ..._to_floats: whether all are finite. */
bool ls__tensor_is_float(const struct ls_ckpt_tensor *t);
bool ls__tensor_to_floats(const struct ls_ckpt_tensor *t, float *out);

#endif
