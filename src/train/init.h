/* init.h: the first weights of a run from a file (--init).
 *
 * The chief alone reads the file; its hash belongs to the run. A run that goes on from a checkpoint does not need the
 * file any more: the hash is the checkpoint's, and whatever lies at the path now does not matter.
 *
 *     ls__init_open      once the session is open, by all ranks: the hash
 *     ls__init_adopt     when a checkpoint is taken over
 *     ls__init_take      when there is none: the chief's store has the weights
 *     ls__init_spread    by all ranks, at last
 */
#ifndef LS_TRAIN_INIT_H
#define LS_TRAIN_INIT_H

#include "train/trainer.h"

enum ls_status ls__init_open(struct trainer *t) LS_MUST_CHECK;
void ls__init_adopt(struct trainer *t, const struct ls_ckpt *ckpt);
enum ls_status ls__init_take(struct trainer *t) LS_MUST_CHECK;
enum ls_status ls__init_spread(struct trainer *t) LS_MUST_CHECK;

#endif
