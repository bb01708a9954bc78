/* trainer.h: a training step by step, for a loop of one's own.
 *
 *     struct ls_trainer *trainer;
 *     struct ls_step step;
 *     if (ls_trainer_open(&trainer, &options) != LS_OK) ...
 *     while (!ls_trainer_is_done(trainer))
 *         if (ls_trainer_step(trainer, &step) != LS_OK) ...
 *     if (ls_trainer_finish(trainer, &result) != LS_OK) ...
 *     ls_trainer_close(&trainer);
 *
 * The loop decides when to evaluate and to save: eval_every and checkpoint_every of the options mean nothing here.
 * The same options give the same weights as ls_train, whenever it evaluates or saves.
 *
 * All calls of one trainer come from the thread that opened it; trainers of different threads do not know each other.
 * In a job of several processes all make the same calls in the same order. After a failure only ls_trainer_close is
 * left to call.
 */
#ifndef LOCKSTEP_TRAINER_H
#define LOCKSTEP_TRAINER_H

#include "lockstep/control.h"
#include "lockstep/options.h"
#include "lockstep/result.h"
#include "lockstep/status.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ls_trainer;

/* Opens model, data and run directory, and takes over the state of a resumed run. *out is NULL after a failure. */
enum ls_status ls_trainer_open(struct ls_trainer **out, const struct ls_train_options *o) LS_MUST_CHECK;

/* Whether all steps that the options ask for (epochs, iterations) are done. */
bool ls_trainer_is_done(const struct ls_trainer *trainer);

/* One global step. *step (may be NULL) tells how it went. LS_USAGE when the trainer is done. */
enum ls_status ls_trainer_step(struct ls_trainer *trainer, struct ls_step *step) LS_MUST_CHECK;

/* The test data, every image once. LS_INTERRUPTED if options.control wanted to stop meanwhile: the trainer is as
 * before and may go on. */
enum ls_status ls_trainer_evaluate(struct ls_trainer *trainer, double *loss, double *accuracy) LS_MUST_CHECK;

/* A checkpoint of now, written in the background; also the best one, if the last evaluation was and no step came
 * since. What fails while writing is told by the next save or by ls_trainer_finish. */
enum ls_status ls_trainer_save(struct ls_trainer *trainer) LS_MUST_CHECK;

/* Waits until the checkpoints are written, fills *result and writes result.json. Once, after the last step. */
enum ls_status ls_trainer_finish(struct ls_trainer *trainer, struct ls_result *result) LS_MUST_CHECK;

/* Ends what was opened and sets *trainer to NULL; NULL is fine. Saves nothing. */
void ls_trainer_close(struct ls_trainer **trainer);

#ifdef __cplusplus
}
#endif

#endif
