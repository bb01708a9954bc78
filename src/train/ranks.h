/* ranks.h: what every rank of a job did: a row per epoch and rank in ranks.csv, and the sums for the result.
 *
 * Ranks tell rank 0 at the end of an epoch, by one gather of some bytes; nothing of it reaches what is computed. All
 * are collective but for close.
 */
#ifndef LS_TRAIN_RANKS_H
#define LS_TRAIN_RANKS_H

#include "train/trainer.h"

enum ls_status ls__ranks_open(struct trainer *t) LS_MUST_CHECK;
/* The steps since the last row, as the end of an epoch or of the run finds them. */
enum ls_status ls__ranks_row(struct trainer *t) LS_MUST_CHECK;
/* A row for what has none yet, and r->ranks. */
enum ls_status ls__ranks_result(struct trainer *t, struct ls_result *r) LS_MUST_CHECK;
void ls__ranks_close(struct trainer *t);

#endif
