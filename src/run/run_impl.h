/* run_impl.h: what a run is made of; for src/run only. */
#ifndef LS_RUN_RUN_IMPL_H
#define LS_RUN_RUN_IMPL_H

#include "base/dir.h"
#include "run/run.h"

struct ls_run {
    struct ls_dir dir; /* everything of the run is opened below it */
    bool is_new;
    bool is_made;      /* the directory was not there before */
    int lock_fd;       /* -1: not held */
    int metrics_fd;    /* O_APPEND; -1: not open */
    int64_t warned_ns; /* when the last failed metrics line was told; 0: never */
    int64_t n_lost;    /* metrics lines lost since then */
};

/* What could not be read makes a run directory unusable; that memory is short does not. */
static inline enum ls_status ls__run_unusable(enum ls_status status)
{
    return status == LS_NOMEM ? status : LS_CHECKPOINT;
}

/* claim.c: refuses, untouched, a directory that is neither free nor a run to be resumed; takes the lock; sets is_new.
 */
enum ls_status ls__run_claim(struct ls_run *run, bool is_resume) LS_MUST_CHECK;

enum ls_status ls__run_metrics_open(struct ls_run *run) LS_MUST_CHECK;

#endif
