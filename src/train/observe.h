/* observe.h: what a training tells its recorder (record/record.h) at the start and at the end of epochs. */
#ifndef LS_TRAIN_OBSERVE_H
#define LS_TRAIN_OBSERVE_H

#include "train/trainer.h"

/* Every rank records into the chief's directory. Collective. */
enum ls_status ls__observe_open(struct trainer *t) LS_MUST_CHECK;
/* Sets offset_ns: 0 on the clock of a trace is when the first rank began. Collective. */
enum ls_status ls__observe_clock(struct trainer *t, struct ls_record_options *ro) LS_MUST_CHECK;
/* After the last step: rank 0's trace.json gets what the others traced, over the network. Collective. */
enum ls_status ls__observe_merge(struct trainer *t) LS_MUST_CHECK;
/* After close, and after the workers of a parameter server have ended: theirs of this machine, too. */
void ls__observe_merge_workers(const struct trainer *t);
/* Whether the step that comes is one whose gradient --histograms asks for; the same on all ranks. */
bool ls__observe_wants_gradients(const struct trainer *t);
void ls__observe_gradients(void *trainer);
void ls__observe_epoch(struct trainer *t);
void ls__observe_close(struct trainer *t, enum ls_status status);

#endif
