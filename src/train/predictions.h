/* predictions.h: what a network said of every sample of a labelled set, and what that adds up to.
 *
 *     struct predictions p;
 *     status = ls__eval_predictions(&options, 5, &p, &result);
 *     ... p.guesses[i * p.k], p.labels[i] ...
 *     ls__predictions_release(&p);            after a failure too
 *
 * Nothing here depends on the number of threads: samples are in the order of the set.
 */
#ifndef LS_TRAIN_PREDICTIONS_H
#define LS_TRAIN_PREDICTIONS_H

#include "base/names.h"
#include "data/classes.h"
#include "lockstep/classify.h"
#include "lockstep/train.h"

struct predictions {
    int64_t n, room; /* samples told so far, and in all */
    int n_classes, k;
    uint16_t *labels;         /* [n] the truth */
    struct ls_guess *guesses; /* [n,k] best first */
    struct ls_names files;    /* [n] if every sample has one; else empty */
    struct ls_classes classes;
};

/* What ls_eval does, and the k most likely classes of every sample; all, if there are fewer. */
enum ls_status ls__eval_predictions(const struct ls_eval_options *o, int k, struct predictions *p,
                                    struct ls_eval_result *result) LS_MUST_CHECK;
void ls__predictions_release(struct predictions *p);

/* How often the truth is among the first k guesses; 0 <= result <= 1. */
double ls__predictions_top(const struct predictions *p, int k);

struct class_tally {
    int64_t support, predicted, right; /* samples that are of the class; were taken for it; both */
};
/* NAN where it is not defined: no sample is of the class, or none was taken for it. */
double ls__tally_recall(const struct class_tally *t);
double ls__tally_precision(const struct class_tally *t);
double ls__tally_f1(const struct class_tally *t);
/* *tallies: [n_classes]; free() it. */
enum ls_status ls__predictions_tally(const struct predictions *p, struct class_tally **tallies) LS_MUST_CHECK;

/* *matrix: [n_classes,n_classes], rows the truth, columns what was said; free() it. */
enum ls_status ls__predictions_matrix(const struct predictions *p, int64_t **matrix) LS_MUST_CHECK;

/* Wrong answers of one kind. */
struct confused {
    int truth, predicted;
    int64_t n;
};
/* All that occurred, the most frequent first, then by truth and answer; free() them. For any number of classes. */
enum ls_status ls__predictions_confused(const struct predictions *p, struct confused **pairs,
                                        size_t *n_pairs) LS_MUST_CHECK;

#endif
