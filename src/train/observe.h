/* observe.h: what a training tells its recorder (record/record.h) at the start and at the end of epochs. */
#ifndef LS_TRAIN_OBSERVE_H
#define LS_TRAIN_OBSERVE_H

#include "train/trainer.h"

/* Every rank records into the chief's directory. Collective. */
enum ls_status ls__observe_open(struct trainer *t) LS_MUST_CHECK;
void ls__observe_epoch(struct trainer *t);
void ls__observe_close(struct trainer *t, enum ls_status status);

#endif
