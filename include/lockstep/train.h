/* train.h: a whole run, as the command line asks for it.
 *
 * All strings in the options are borrowed. Defaults live in the option table of the command line (src/cli/options.c);
 * ls_train_options_default() gives the same to a program that links the library. A text that is NULL means its default;
 * so does a batch size, a number of shards or threads of 0 in the smaller structs. What no command line could have
 * given (a number out of range, an unknown word, no model) is LS_USAGE.
 */
#ifndef LOCKSTEP_TRAIN_H
#define LOCKSTEP_TRAIN_H

#include "lockstep/options.h"
#include "lockstep/result.h"
#include "lockstep/status.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Trains and fills *result. LS_INTERRUPTED after o->control wanted to stop, and a checkpoint; then *result holds what
 * was done so far. */
enum ls_status ls_train(const struct ls_train_options *o, struct ls_result *result) LS_MUST_CHECK;

/* Evaluates a run's best (or newest) checkpoint, or a checkpoint file, on every test sample exactly once. */
struct ls_eval_options {
    const char *what;  /* RUN or CHECKPOINT */
    const char *model; /* NULL: the one the checkpoint names */
    const char *data;  /* NULL: the run's own */
    const char *data_dir, *device, *resize, *isa, *tune;
    int64_t threads, batch_size;
    bool json;
    const struct ls_control *control; /* is_stop_wanted, stopped_by; NULL: nobody */
    const struct ls_images *images;   /* from memory (data.h), instead of `data` */
};
struct ls_eval_result {
    char model[128], data[256], checkpoint[4096], weights_hash[33];
    int64_t images, step;
    double loss, accuracy, seconds, images_per_second;
};
void ls_eval_options_default(struct ls_eval_options *o); /* everything but `what` */
enum ls_status ls_eval(const struct ls_eval_options *o, struct ls_eval_result *result) LS_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
