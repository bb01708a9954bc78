/* report_impl.h: the report's parts.
 *
 *     report.c          the page: what was asked, a section for each question, what is missing, the environment
 *     report_facts.c    what numbers depend on: the images that were there, other programs on the machine
 *     report_public.c   without paths and names of machines
 *     report_measure.c  numbers: of each run the median and the spread over its repeats
 *     report_tables.c   a table for each thing to show
 *     report_rows.c     tables that are not of one number per run: hashes, nodes, the setting
 *     report_figures.c  its pictures
 *     report_scaling.c  of them: speed-ups over workers
 *     report_words.c    the sentences that follow from the numbers
 *     report_why.c      of it: speed-ups, and what stands against them
 *     report_compare.c  of it: which of what a question compares is best, and when
 *
 * Every number comes from result.json, metrics.jsonl and resources.csv of runs that are done. What two runs differ in
 * is called noise where the ranges of their repeats overlap.
 */
#ifndef LS_LAB_REPORT_IMPL_H
#define LS_LAB_REPORT_IMPL_H

#include "history/history.h"
#include "lab/lab.h"
#include "report/page.h"

/* A run's repeats that are done. */
struct ls_lab_seen {
    struct ls_history **done; /* [n_done] in the order of the repeats */
    int n_done, n_asked;
};

struct ls_lab_view {
    const struct ls_lab *lab;
    const struct ls_lab_state *state;
    struct ls_lab_seen *seen; /* [lab->n_runs] */
    const struct ls_lab_report_ask *ask;
    struct ls_page *p;
};

/* --- report_facts.c --- */

void ls__lab_data_facts(const struct ls_lab_view *v);
/* Where a question's published figures come from, and what sets ours apart. */
void ls__lab_source_note(const struct ls_lab_view *v, const struct ls_lab_question *q);
/* How busy the machine was with others: a warning that names the runs, and a section with all of them; false: that was
 * not recorded. */
void ls__lab_warn_of_others(const struct ls_lab_view *v);
bool ls__lab_others_section(const struct ls_lab_view *v);

/* --- report_public.c --- */

void ls__lab_make_public(const struct ls_lab_view *v);

/* --- report_measure.c --- */

enum ls_lab_measure {
    LS_LAB_TIME,       /* seconds of training, and those in which checkpoints held it up */
    LS_LAB_IN_ALL,     /* seconds from the start of the program to its end */
    LS_LAB_CHECKPOINT, /* seconds in which checkpoints held up the training */
    LS_LAB_EVALUATE,   /* seconds of evaluation, not in LS_LAB_TIME */
    LS_LAB_RATE,       /* images over LS_LAB_TIME: what speed-ups are made of */
    LS_LAB_ACCURACY,   /* on test data */
    LS_LAB_TEST_LOSS,
    LS_LAB_TRAIN_LOSS,
    LS_LAB_CPU,      /* per cent of a core, mean */
    LS_LAB_CPU_PEAK, /* the most of any sample, of all ranks together */
    LS_LAB_MEMORY,   /* bytes, the most, of all ranks together */
    LS_LAB_COMPUTE,  /* seconds of rank 0 */
    LS_LAB_UPDATE,
    LS_LAB_COMMUNICATE, /* that no computing hid */
    LS_LAB_WAIT,        /* for other ranks of its machine */
    LS_LAB_LOAD,
    LS_LAB_SPENT,        /* the five before, together: what shares are shares of, the same process over the same time */
    LS_LAB_HIDDEN,       /* communication behind computing */
    LS_LAB_BYTES,        /* sent, by all ranks */
    LS_LAB_BYTES_STEP,   /* of them in a step */
    LS_LAB_BYTE_RATE,    /* bytes per second of a rank while it communicated; of a server's runs: of the server */
    LS_LAB_TARGET_TRAIN, /* seconds of training until the target was reached */
    LS_LAB_TARGET_ALL,   /* seconds since the start of the program */
    LS_LAB_TARGET_EPOCH,
    LS_LAB_PREDICTED,      /* seconds of a step, as said before the first */
    LS_LAB_STEP,           /* seconds of a step */
    LS_LAB_FORECAST_ERROR, /* by how much of it the forecast was too long; below 0: too short */
    LS_N_LAB_MEASURES
};

/* How a number is written. */
enum ls_lab_digits {
    LS_LAB_USUAL,      /* three digits */
    LS_LAB_SECONDS,    /* likewise, and 0 for less than a millisecond */
    LS_LAB_HUNDREDTHS, /* two digits behind the point */
    LS_LAB_WHOLE       /* none */
};

/* Over the repeats that have a value; n 0: none, and all NAN. */
struct ls_spread {
    int n;
    double median, low, high;
    enum ls_lab_digits digits;
};
struct ls_spread ls__lab_spread(const struct ls_lab_view *v, int run, enum ls_lab_measure m);
/* Of one of the parts over LS_LAB_SPENT, of each repeat: such medians never add up to more than 1. */
struct ls_spread ls__lab_share(const struct ls_lab_view *v, int run, enum ls_lab_measure part);
/* Sorts the values. */
struct ls_spread ls__lab_spread_of(double *values, int n, enum ls_lab_digits digits);
/* The run that tells of what is the same in all repeats; NULL: none is done. */
const struct ls_history *ls__lab_first(const struct ls_lab_view *v, int run);
double ls__lab_workers(const struct ls_lab_view *v, int run); /* NAN: not known */
double ls__lab_threads(const struct ls_lab_view *v, int run); /* of each worker */
/* What a run computed with: workers times threads, at most the cores of the machine where all are on one; of other
 * devices than the CPU the workers, at most the devices of that machine. */
double ls__lab_units(const struct ls_lab_view *v, int run);
const char *ls__lab_unit_name(const struct ls_lab_view *v, int run); /* "core", or "device" */
/* Whether its workers have more threads in all than their one machine has cores, or are more than its devices; *n of
 * them. */
bool ls__lab_is_crowded(const struct ls_lab_view *v, int run, double *n);

enum ls_lab_verdict {
    LS_LAB_UNKNOWN, /* one of them has no value */
    LS_LAB_NOISE,   /* the ranges overlap */
    LS_LAB_DIFFERS
};
enum ls_lab_verdict ls__lab_compare(const struct ls_spread *a, const struct ls_spread *b);
/* Accuracies: chance in which images are tested counts too. */
enum ls_lab_verdict ls__lab_compare_accuracy(const struct ls_spread *a, const struct ls_spread *b, double n_test);

bool ls__lab_is_served(const struct ls_history *h); /* by a parameter server */
/* All ranks' samples of a column of resources.csv added, at the times of rank 0's; NULL without. *n of them. */
double *ls__lab_added(struct ls_page *p, const struct ls_history *h, const char *column, const double **times,
                      size_t *n);

/* What train was given; NULL: not set. */
const char *ls__lab_given(const struct ls_lab_view *v, int run, const char *key);
/* Of the question's runs the one with the fewest workers that differs from `run` in nothing but how many workers, where
 * they are and how long they train; -1: there is none but itself. */
int ls__lab_reference(const struct ls_lab_view *v, const struct ls_lab_question *q, int run);
/* The run that `run` is compared with: of the baseline and the runs before it the one that differs in the fewest
 * settings of the lab's file; of several the baseline, else the first. -1: it is the baseline itself. */
int ls__lab_partner(const struct ls_lab_view *v, const struct ls_lab_question *q, int run);
/* Whether two runs are one training: they differ in nothing but workers and what is written. */
bool ls__lab_is_same_training(const struct ls_lab_view *v, int a, int b);
/* What others measured; NULL: nothing. */
const struct ls_lab_published *ls__lab_published(const struct ls_lab_question *q, enum ls_lab_show what, int run);

/* --- report_tables.c, report_rows.c, report_figures.c, report_scaling.c, report_words.c --- */

/* "12.3", or "12.3 (12.1 to 12.9)" over repeats; "" for none. scale: what values are multiplied with. */
const char *ls__lab_say(struct ls_page *p, double value);
const char *ls__lab_say_as(struct ls_page *p, enum ls_lab_digits digits, double value);
const char *ls__lab_say_spread(struct ls_page *p, const struct ls_spread *s, double scale);
/* The same for a place in parentheses: "12.3 [12.1 to 12.9]" */
const char *ls__lab_say_briefly(struct ls_page *p, const struct ls_spread *s, double scale);
/* scale: as of the column */
const char *ls__lab_say_published(struct ls_page *p, const struct ls_lab_published *published, double scale);

void ls__lab_setting_table(const struct ls_lab_view *v, const struct ls_lab_question *q);
void ls__lab_tables(const struct ls_lab_view *v, const struct ls_lab_question *q, enum ls_lab_show show);
void ls__lab_hash_table(const struct ls_lab_view *v, const struct ls_lab_question *q);
void ls__lab_nodes_table(const struct ls_lab_view *v, const struct ls_lab_question *q);

void ls__lab_speedup_figure(const struct ls_lab_view *v, const struct ls_lab_question *q);
void ls__lab_figures(const struct ls_lab_view *v, const struct ls_lab_question *q, enum ls_lab_show show);

/* Sentences that follow from the numbers, by the order of the `show` line. */
struct ls_lab_text {
    struct ls_page *p;
    const char **lines; /* [n] in the page's memory */
    int n;
    const char *first; /* for the summary: of the first word of `show` that has any the one with the largest difference
                          beyond noise, or else the first; "" if nothing follows */
    double weight;     /* of `first` */
    int show, first_show; /* the word it is at; that of `first` */
};
struct ls_lab_text ls__lab_sentences(const struct ls_lab_view *v, const struct ls_lab_question *q);
void ls__lab_sentence(struct ls_lab_text *t, const char *fmt, ...) LS_PRINTF(2, 3);
/* A difference beyond noise, and how large it is among those of its word: above 0. */
void ls__lab_finding(struct ls_lab_text *t, double weight, const char *fmt, ...) LS_PRINTF(3, 4);
/* Whether a question with runs of its own compares two that come from `use`, or tells of one (other -1): it was told
 * where they belong. */
bool ls__lab_is_told(const struct ls_lab_question *q, int run, int other);
/* By what the question compares (`compare`); false: it compares nothing, or nothing of it can be compared yet. */
bool ls__lab_say_comparison(const struct ls_lab_view *v, const struct ls_lab_question *q, enum ls_lab_measure m,
                            struct ls_lab_text *t);
/* Whether the forecast named the fastest of what is compared. */
void ls__lab_say_forecast(const struct ls_lab_view *v, const struct ls_lab_question *q, struct ls_lab_text *t);
void ls__lab_say_speedups(const struct ls_lab_view *v, const struct ls_lab_question *q, struct ls_lab_text *t);

#endif
