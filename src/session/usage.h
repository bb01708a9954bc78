/* usage.h: what the process has used so far. */
#ifndef LS_SESSION_USAGE_H
#define LS_SESSION_USAGE_H

#include <stdint.h>

int64_t ls__peak_rss_bytes(void);
int64_t ls__shared_rss_bytes(void); /* memory shared with other processes, now */
double ls__cpu_seconds(void);       /* user and system, all threads of the process */

#endif
