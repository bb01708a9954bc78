/* peak.h: what the machine can do at best, measured, so that a speed can be called good or bad. */
#ifndef LS_TRAIN_PEAK_H
#define LS_TRAIN_PEAK_H

#include "base/status.h"

/* Float32 GFLOP/s of a register-blocked fused multiply-add loop on n threads at once, best of several rounds. isa: the
 * level the kernels keep to (ls_backend_id.isa). */
enum ls_status ls__measure_peak_gflops(int n_threads, const char *isa, double *gflops) LS_MUST_CHECK;

#endif
