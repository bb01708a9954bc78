/* figures.h: pictures of runs. All are made in the page's memory; NULL when there is nothing to show (or no memory). */
#ifndef LS_REPORT_FIGURES_H
#define LS_REPORT_FIGURES_H

#include "history/history.h"
#include "report/page.h"

/* What curves are drawn over. */
enum ls_over { LS_OVER_STEPS, LS_OVER_EPOCHS, LS_OVER_SECONDS };

/* Loss and accuracy of one run. */
const struct ls_draw_picture *ls__figure_curves(struct ls_page *p, const struct ls_history *h, enum ls_over over);
/* Learning rate and images per second. */
const struct ls_draw_picture *ls__figure_pace(struct ls_page *p, const struct ls_history *h);
/* CPU and memory over time, of all ranks, with epochs and checkpoints marked. */
const struct ls_draw_picture *ls__figure_resources(struct ls_page *p, const struct ls_history *h);
/* Where the seconds went. */
const struct ls_draw_picture *ls__figure_split(struct ls_page *p, const struct ls_history *h);

/* Of several runs: a curve of each over steps or seconds. value: "loss" or "accuracy". */
const struct ls_draw_picture *ls__figure_together(struct ls_page *p, struct ls_history *const *runs, int n,
                                                  const char *const *labels, enum ls_over over);

/* Values of a curve in the page's memory: "epoch" is made fractional for the lines of steps. */
const double *ls__figure_x(struct ls_page *p, const struct ls_history *h, const struct ls_curve *c, enum ls_over over);

/* The parts of the wall clock, in the order in which they are told. */
enum { LS_N_SPLIT = 9 };
extern const char *const ls__split_names[LS_N_SPLIT];
/* Of the result; of a run without one what it has recorded so far. NAN where nothing tells. */
double ls__split_seconds(const struct ls_history *h, int part);

#endif
