/* classify.h: what a trained network says of pictures.
 *
 *     const struct ls_classifier_options options = {.what = "runs/lenet5-digits"};
 *     struct ls_guess guess;
 *     if (ls_classifier_open(&classifier, &options) != LS_OK) ...
 *     if (ls_classify_top(classifier, 1, pixels, 1, &guess) != LS_OK) ...
 *     printf("%d with %.0f %%\n", guess.label, 100 * guess.probability);
 *     ls_classifier_close(&classifier);
 *
 * Files are read and resized as the run read its data: ls_classify_files. A classifier computes on the thread that
 * calls it and on `threads - 1` others; one thread calls it at a time. The answer for a picture depends on nothing but
 * the picture and the weights: not on n, nor on the other pictures, nor on the number of threads.
 */
#ifndef LOCKSTEP_CLASSIFY_H
#define LOCKSTEP_CLASSIFY_H

#include "lockstep/status.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ls_classifier;

/* What to open; all but `what` may be NULL. Strings are borrowed while it is opened. */
struct ls_classifier_options {
    const char *what;   /* RUN: its best checkpoint, else its newest; or a checkpoint file */
    const char *device; /* "cpu", "ref"; NULL: the best this build has */
    const char *isa;    /* as in ls_train_options */
    const char *tune;   /* as in ls_train_options */
    int64_t threads;    /* that compute, and that read files; 0: the calling thread alone */
};

/* What it expects and knows. The strings are the classifier's. */
struct ls_classifier_info {
    int c, h, w, n_classes;
    const char *model, *checkpoint;
    int64_t step; /* after which the checkpoint was made */
};

/* One class and how likely the network finds it. */
struct ls_guess {
    int label;
    float probability;
};

/* *out is NULL after a failure; LS_CHECKPOINT if there is no whole checkpoint that says what its images are. */
enum ls_status ls_classifier_open(struct ls_classifier **out, const struct ls_classifier_options *o) LS_MUST_CHECK;
/* NULL is fine. */
void ls_classifier_close(struct ls_classifier **classifier);

struct ls_classifier_info ls_classifier_describe(const struct ls_classifier *classifier);
/* The name of a class, from the data it was trained on; NULL if there was none, or no such class. */
const char *ls_classifier_class_name(const struct ls_classifier *classifier, int label);

/* n pictures [n,c,h,w], bytes as in ls_images -> what the last layer says, before any softmax: logits [n,n_classes]. */
enum ls_status ls_classify_logits(struct ls_classifier *classifier, int64_t n, const uint8_t *pixels,
                                  float *logits) LS_MUST_CHECK;
/* The same -> probabilities [n,n_classes], which add up to 1 for each. */
enum ls_status ls_classify(struct ls_classifier *classifier, int64_t n, const uint8_t *pixels,
                           float *probabilities) LS_MUST_CHECK;
/* The k most likely classes of each, best first: guesses [n,k]. Of equally likely ones the lower label comes first. */
enum ls_status ls_classify_top(struct ls_classifier *classifier, int64_t n, const uint8_t *pixels, int k,
                               struct ls_guess *guesses) LS_MUST_CHECK;

/* A file and what the network says of it. Lent for the call. */
struct ls_classified {
    int64_t index; /* among the files */
    const char *file;
    const struct ls_guess *guesses; /* [k], best first; NULL: the file could not be read */
    const char *error;              /* why not */
};
/* PNG and JPEG files of any size: scaled until the shorter side fits and cut to the centre, as the run's `folder:` data
 * was; turned to grey for a network of one channel. `take` is called for every file, in their order, by the calling
 * thread; a status but LS_OK ends it all and is returned. A file that cannot be read is no failure. */
enum ls_status ls_classify_files(struct ls_classifier *classifier, const char *const *files, int64_t n, int k,
                                 enum ls_status (*take)(void *arg, const struct ls_classified *one),
                                 void *arg) LS_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
