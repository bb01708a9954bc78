/* clock.h: time that never jumps. */
#ifndef LS_BASE_CLOCK_H
#define LS_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t ls__now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* CPU time of the calling thread: what it computed, whatever else the machine did meanwhile. */
static inline int64_t ls__thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline double ls__seconds_since(int64_t start_ns)
{
    return (double)(ls__now_ns() - start_ns) * 1e-9;
}

#endif
