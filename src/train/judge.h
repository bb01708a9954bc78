/* judge.h: how good the weights are, by which data, which were the best, and when that is enough.
 *
 * With validation data (--validation) it is measured after every epoch, the best weights are chosen by it and
 * --patience and --target look at it; the test data is measured at the end, once for the last weights and once for the
 * best ones. Without, the test data is measured after every epoch, to be looked at: nothing is chosen by it, there is
 * no best, and only --target, if it is given, stops by it.
 *
 * All of it follows from struct train_state, which is the same on all ranks and after a resume.
 */
#ifndef LS_TRAIN_JUDGE_H
#define LS_TRAIN_JUDGE_H

#include "train/trainer.h"

/* Measured now: on which data. */
enum judged { JUDGED_NOTHING, JUDGED_VALIDATION, JUDGED_TEST };

/* What the end of the present epoch is judged by. */
enum judged ls__judge_of_epoch(const struct trainer *t);
/* Measures; unless a signal cuts it short (is_cut_short) st has the outcome, and *is_best whether there was no better
 * one. Collective. */
enum ls_status ls__judge(struct trainer *t, enum judged by, double *seconds, bool *is_best) LS_MUST_CHECK;
/* The line of metrics.jsonl for what ls__judge has measured. */
void ls__judge_write(struct trainer *t, enum judged by, double lr, double seconds);
/* Why no more epochs are wanted, in words; NULL: they are. */
const char *ls__judge_enough(const struct trainer *t);
bool ls__judge_is_target_reached(const struct trainer *t);
/* At the end, where validation data chose: the test data with the last weights. */
enum ls_status ls__judge_last(struct trainer *t) LS_MUST_CHECK;
/* And with the best ones, which are then in the store: the last thing that is done with it. */
enum ls_status ls__judge_best(struct trainer *t) LS_MUST_CHECK;

#endif
