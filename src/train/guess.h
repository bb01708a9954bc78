/* guess.h: from logits to probabilities and the most likely classes. */
#ifndef LS_TRAIN_GUESS_H
#define LS_TRAIN_GUESS_H

#include "lockstep/classify.h"

/* logits [n] -> probabilities [n]; may be the same place. In double, so that those of many classes still add up to 1.
 */
void ls__softmax(const float *logits, int n, float *out);
/* The k <= n largest logits, largest first, with their probabilities; of equal ones the lower label comes first. */
void ls__guess(const float *logits, int n, int k, struct ls_guess *out);

#endif
