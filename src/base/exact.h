/* exact.h: exp and log in double, of additions, multiplications and divisions in a fixed order: the same bits on every
 * machine. The C library's differ in the last digit from one processor to the next, and what a run draws or computes by
 * them would, too. Not fast; to about 1e-15.
 */
#ifndef LS_BASE_EXACT_H
#define LS_BASE_EXACT_H

#include <math.h>

/* 2^n times the series of exp(r), |r| <= ln2/2. ln2 in two parts, the first with 32 bits: n times it is exact. */
static inline double ls__exact_exp(double x)
{
    if (!(x > -745.0)) return x <= -745.0 ? 0.0 : x; /* NaN stays NaN */
    if (x > 709.0) return INFINITY;
    const double n = rint(x * 0x1.71547652b82fep0);
    const double r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
    double sum = 1.0;
    for (int k = 14; k > 0; k--) sum = 1.0 + r * sum / k;
    return ldexp(sum, (int)n);
}

/* x = m 2^e with m around 1; log(m) = 2 artanh((m - 1) / (m + 1)). x > 0. */
static inline double ls__exact_log(double x)
{
    int e;
    double m = frexp(x, &e), sum = 0.0;
    if (m < 0.70710678118654752440) {
        m *= 2;
        e--;
    }
    const double s = (m - 1) / (m + 1), z = s * s;
    for (int k = 27; k > 0; k -= 2) sum = sum * z + 1.0 / k;
    return 2 * s * sum + e * 0x1.62e42fefa39efp-1;
}

#endif
