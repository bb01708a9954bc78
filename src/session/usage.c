/* usage.c: memory from /proc/self/status, CPU time from getrusage (usage.h). */
#include "session/usage.h"

#include <stdio.h>
#include <sys/resource.h>

/* Of this program: ru_maxrss would count what the process was before exec. */
static int64_t peak_since_exec(void)
{
    char line[128];
    long long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %lld kB", &kib) == 1) break;
    if (file) fclose(file);
    return (int64_t)kib * 1024;
}

int64_t ls__peak_rss_bytes(void)
{
    struct rusage u;
    int64_t peak = peak_since_exec();
    if (peak > 0) return peak;
    return getrusage(RUSAGE_SELF, &u) == 0 ? (int64_t)u.ru_maxrss * 1024 : 0;
}

int64_t ls__shared_rss_bytes(void)
{
    char line[128];
    long long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "RssShmem: %lld kB", &kib) == 1) break;
    if (file) fclose(file);
    return (int64_t)kib * 1024;
}

double ls__cpu_seconds(void)
{
    struct rusage u;
    if (getrusage(RUSAGE_SELF, &u) != 0) return 0;
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}
