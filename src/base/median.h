/* median.h: the middle one of some measurements. */
#ifndef LS_BASE_MEDIAN_H
#define LS_BASE_MEDIAN_H

/* Sorts x, smallest first, and gives x[n / 2]; 0 for none. */
double ls__median(double *x, int n);

#endif
