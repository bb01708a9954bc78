/* run_impl.h: what a run is made of; for src/run only. */
#ifndef LS_RUN_RUN_IMPL_H
#define LS_RUN_RUN_IMPL_H

#include "run/run.h"

struct ls_run {
    char dir[LS_PATH_BYTES];
    bool is_new;
    int lock_fd;       /* -1: not held */
    int metrics_fd;    /* O_APPEND; -1: not open */
    int64_t warned_ns; /* when the last failed metrics line was told; 0: never */
    int64_t n_lost;    /* metrics lines lost since then */
};

enum ls_status ls__run_metrics_open(struct ls_run *run) LS_MUST_CHECK;

#endif
