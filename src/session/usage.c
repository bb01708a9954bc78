/* usage.c: memory from /proc/self/status, CPU time from getrusage (usage.h). */
#include "session/usage.h"

#include "record/process.h"

#include <sys/resource.h>

int64_t ls__peak_rss_bytes(void)
{
    struct rusage u;
    int64_t peak = ls__process_status_bytes("VmHWM"); /* of this program: ru_maxrss would count what was before exec */
    if (peak > 0) return peak;
    return getrusage(RUSAGE_SELF, &u) == 0 ? (int64_t)u.ru_maxrss * 1024 : 0;
}

int64_t ls__shared_rss_bytes(void)
{
    return ls__process_status_bytes("RssShmem");
}

double ls__cpu_seconds(void)
{
    struct rusage u;
    if (getrusage(RUSAGE_SELF, &u) != 0) return 0;
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}
