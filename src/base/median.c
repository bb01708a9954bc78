/* median.c: the middle one of some measurements. */
#include "base/median.h"

#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double ls__median(double *x, int n)
{
    if (n <= 0) return 0;
    qsort(x, (size_t)n, sizeof *x, by_size);
    return x[n / 2];
}
