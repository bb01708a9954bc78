/* busy.c: how busy the machine is with others (run.h). */
#include "lab/run.h"

#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* Of all CPUs together since the machine started, from the first line of /proc/stat. Time that the host of a virtual
 * machine gave to other machines ("steal") is missing here as much as that of other programs. */
static double machine_seconds(void)
{
    enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, N };
    unsigned long long ticks[N] = {0};
    FILE *file = fopen("/proc/stat", "re");
    const int n =
        file ? fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &ticks[USER], &ticks[NICE], &ticks[SYSTEM],
                      &ticks[IDLE], &ticks[IOWAIT], &ticks[IRQ], &ticks[SOFTIRQ], &ticks[STEAL])
             : 0;
    const double per_second = (double)sysconf(_SC_CLK_TCK);
    if (file) fclose(file);
    if (n != N || !(per_second > 0)) return NAN;
    return (double)(ticks[USER] + ticks[NICE] + ticks[SYSTEM] + ticks[IRQ] + ticks[SOFTIRQ] + ticks[STEAL]) /
           per_second;
}

static double own_seconds(int who)
{
    struct rusage used;
    if (getrusage(who, &used) != 0) return NAN;
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

double ls__lab_others_seconds(void)
{
    return machine_seconds() - own_seconds(RUSAGE_SELF) - own_seconds(RUSAGE_CHILDREN);
}
