/* control.h: what a training asks its caller, and tells him, while it runs.
 *
 * Every member is optional; NULL is never called. The functions are called by the thread that called ls_train (or
 * ls_trainer_step), between two steps, except is_end_wanted, which any thread may call. They must not call back into
 * the training that asks. Nothing they do or answer changes the weights; only when the training stops.
 *
 *     static bool is_late(void *context) { return time(NULL) > *(time_t *)context; }
 *     ...
 *     const struct ls_control control = {.context = &deadline, .is_stop_wanted = is_late};
 *     options.control = &control;
 */
#ifndef LOCKSTEP_CONTROL_H
#define LOCKSTEP_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One global step. */
struct ls_step {
    int64_t step;          /* steps done, this one included */
    int64_t epoch;         /* the epoch it belongs to, from 1 */
    int64_t images;        /* of its batch */
    double loss, accuracy; /* means over the batch; NAN where the step was not summed yet (sync "local:H") */
    double lr;             /* learning rate it was made with */
    double seconds;        /* on the clock */
    bool is_epoch_over;    /* it was the last of its epoch */
    bool is_stop_wanted;   /* some process of the job wants to stop; all see it after the same step */
};

/* One epoch, after its evaluation if it had one. */
struct ls_epoch {
    int64_t epoch, step, images;                 /* epochs and steps done; images of this epoch */
    double train_loss, train_accuracy;           /* over the epoch, with the weights of each step */
    double test_loss, test_accuracy;             /* NAN: not evaluated */
    double validation_loss, validation_accuracy; /* the same */
    double seconds;                              /* in steps */
};

/* The caller's side of a training; borrowed while it lasts. */
struct ls_control {
    void *context; /* handed to every function below */
    /* Asked before and within every step: true ends the training after a checkpoint with LS_INTERRUPTED. */
    bool (*is_stop_wanted)(void *context);
    /* Asked once per step: true writes a checkpoint now. Answering true resets the wish. */
    bool (*is_save_wanted)(void *context);
    /* The process is about to be ended from outside: no long waits for other processes. Any thread. */
    bool (*is_end_wanted)(void *context);
    /* Who wanted to stop, for the message: "SIGTERM". */
    const char *(*stopped_by)(void *context);
    /* After every step. */
    void (*on_step)(void *context, const struct ls_step *step);
    /* After every epoch. */
    void (*on_epoch)(void *context, const struct ls_epoch *epoch);
    /* Another process of the job was lost, and this one is to say so: at once, for it may be ended before ls_train
     * returns, whose error has the same message. */
    void (*on_loss)(void *context, const char *message);
};

#ifdef __cplusplus
}
#endif

#endif
