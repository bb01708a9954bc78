/* layers.h: what each layer of the network costs, for result.json.
 *
 * A few steps of a sitting are measured op by op, the 4th, the 8th, the 16th and so on: some more in a long run, never
 * many, and all others cost nothing. Rank 0's, and only where the run is recorded. Nothing of it reaches what is
 * computed.
 */
#ifndef LS_TRAIN_LAYERS_H
#define LS_TRAIN_LAYERS_H

#include "train/trainer.h"

struct json_t;

enum ls_status ls__layers_open(struct trainer *t) LS_MUST_CHECK; /* with plans and ways to synchronise open */
/* Around a step of the training. */
void ls__layers_begin_step(struct trainer *t);
void ls__layers_end_step(struct trainer *t);
/* A list of {layer, op, forward_seconds, backward_seconds, update_seconds, share}, in the order of the network: CPU
 * seconds of a step, of all threads and ranks together. Empty if no step was measured; NULL if memory is short. */
struct json_t *ls__layers_json(const struct trainer *t);

#endif
