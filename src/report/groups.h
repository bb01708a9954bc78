/* groups.h: several runs put in order: what differs between them, which are repeats of each other, and what was
 * measured.
 *
 * A factor is an option, or a fact of the machine or the program, that has more than one value. Runs that agree in all
 * factors are a group: repeats, with their seeds.
 */
#ifndef LS_REPORT_GROUPS_H
#define LS_REPORT_GROUPS_H

#include "history/history.h"
#include "report/page.h"

enum { LS_MAX_RUNS = 256, LS_MAX_FACTORS = 8, LS_VALUE_BYTES = 96 };

enum ls_measure {
    LS_MEASURE_ACCURACY, /* on test data, at the end */
    LS_MEASURE_RATE,     /* images per second */
    LS_MEASURE_SECONDS,  /* of training */
    LS_MEASURE_EXPOSED,  /* share of the time spent waiting for communication */
    LS_MEASURE_MEMORY,   /* bytes, at most */
    LS_N_MEASURES
};

struct ls_stats {
    int n;
    double mean, sd, low, high; /* NAN without values; sd 0 with one */
};

struct ls_factor {
    char path[64]; /* as ls_history_value takes it */
    const char *name;
    bool is_numeric;
};

struct ls_group {
    const char *label;                  /* "2 workers, sync local:4" */
    const char *values[LS_MAX_FACTORS]; /* of the factors */
    double numbers[LS_MAX_FACTORS];     /* of numeric ones */
    int runs[LS_MAX_RUNS], n_runs;
    struct ls_stats measures[LS_N_MEASURES];
};

struct ls_groups {
    struct ls_history *const *runs;
    int n_runs;
    struct ls_factor factors[LS_MAX_FACTORS];
    int n_factors;
    int main;                /* the factor that is drawn along x; -1: none */
    struct ls_group *groups; /* in the order of the main factor, then of the runs */
    int n_groups;
    bool is_same_work; /* all runs trained on as many images: seconds may be compared */
};

double ls__measure_of(const struct ls_history *h, enum ls_measure m);
struct ls_stats ls__stats(const double *values, int n);
void ls__groups_make(struct ls_page *p, struct ls_groups *g, struct ls_history *const *runs, int n);

/* Whether two means differ by more than chance: by their spread when there are repeats; of accuracies of single runs by
 * the size of the test set (n_test, 0 if unknown); of other single values by more than 5 %. */
bool ls__differ(const struct ls_stats *a, const struct ls_stats *b, enum ls_measure m, double n_test);

#endif
