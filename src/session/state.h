/* state.h: where a run stands: everything besides the tensors that a resumed run must know to go on as if it had never
 * stopped, and how it travels in a checkpoint's metadata.
 *
 * Doubles are written as hexadecimal floats, so that nothing is rounded on the way.
 */
#ifndef LS_TRAIN_STATE_H
#define LS_TRAIN_STATE_H

#include "lockstep/options.h"
#include "lockstep/result.h"
#include "session/identity.h"
#include "session/session.h"

/* A running mean over training steps. */
struct tally {
    double loss_sum;
    int64_t n_correct, n;
};

struct train_state {
    int64_t step;              /* steps done */
    int64_t epoch, epoch_step; /* position of the next step: epoch from 0, step within it */
    struct tally epoch_tally, log_tally;
    char applied[512];    /* async: batches of this epoch that are in (train/sync_async.c); "": the first epoch_step */
    struct tally pending; /* local SGD: of the steps since the last average, in neither of the two yet */
    double train_loss, train_accuracy;           /* of the last whole epoch, NAN before */
    double test_loss, test_accuracy;             /* of the last evaluation, NAN before */
    double validation_loss, validation_accuracy; /* the same */
    struct {                 /* the best by validation data: the highest accuracy, then lowest loss */
        int64_t step, epoch; /* steps done, -1 before the first; epochs begun */
        double loss, accuracy;
    } best;
    struct { /* when --target was reached; epoch 0: not yet */
        int64_t epoch, step;
        double train_seconds, total_seconds, accuracy;
    } target;
    double train_seconds, total_seconds; /* over all sittings; the latter up to the checkpoint or the end */
    double epoch_seconds, log_seconds;   /* of what epoch_tally and log_tally hold */
    struct ls_seconds parts;             /* where the seconds of earlier sittings went */
};

void ls__state_init(struct train_state *st);
void ls__tally_add(struct tally *t, const struct ls_exec_stats *stats);

enum { STATE_MAX_META = 64, STATE_VALUE = 512 };
struct state_meta {
    struct ls_ckpt_meta meta[STATE_MAX_META];
    char values[STATE_MAX_META][STATE_VALUE];
    struct identity identity;
    char *model_text, *options;
    char *weights_hash; /* within values: 32 zeros, to be replaced before it is written */
    int n;
};

/* Metadata of a checkpoint: the state, and what the run is (options, model, data, plan); the weights' hash is left to
 * who has the snapshot. ls__state_meta_release ends it, after a failure too. */
enum ls_status ls__state_to_meta(const struct train_state *st, const struct ls_train_options *o, struct session *s,
                                 struct state_meta *m) LS_MUST_CHECK;
/* Which shards' own state the checkpoint holds (carry.h). */
void ls__state_add_carried(struct state_meta *m, int first, int n);
void ls__state_meta_release(struct state_meta *m);
/* Refuses a checkpoint of a run that would not continue with the same bits: LS_CHECKPOINT with the difference.
 * accept_other_bits lets through what changes only the rounding, with a warning. */
enum ls_status ls__state_check(const struct ls_train_options *o, const struct session *s, const struct ls_ckpt *ckpt,
                               const char *path) LS_MUST_CHECK;
enum ls_status ls__state_from_meta(struct train_state *st, const struct ls_ckpt *ckpt, const char *path) LS_MUST_CHECK;

#endif
