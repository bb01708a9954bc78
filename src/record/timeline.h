/* timeline.h: trace.json: the spans of a run as Chrome's tracing and Perfetto read them.
 *
 *     struct ls_timeline *t;
 *     TRY(ls__timeline_open(&t, &(struct ls_timeline_options){.fd = fd, .trace = trace, .n_steps = 50, ...}));
 *     ls__timeline_step(t, n_done);          per step: a comparison
 *     ls__timeline_stop(t);                  everything is in the file; more may be appended
 *     ls__timeline_append(t, lines, bytes);  those of another rank, as ls__timeline_lines gives them there
 *     ls__timeline_close(&t);                stops, completes the file
 *
 * The file is a JSON array, one event per line, pid = rank, tid = lane + 1, times in microseconds of one clock for all
 * ranks. A thread of its own reads the rings of the lanes and writes whole lines; a run that is killed leaves an array
 * without its end, which both readers accept.
 *
 * Bounds. Coarse spans (set-up, steps, evaluations, checkpoints) are kept all along, 100,000 of them at most; all
 * others for n_steps steps, after two that warm up, and 32 MB at most. What was left out is the last event, "recorded".
 * What cannot be written ends the trace with one warning, never the training.
 */
#ifndef LS_RECORD_TIMELINE_H
#define LS_RECORD_TIMELINE_H

#include "base/status.h"
#include "trace/trace.h"

#include <stddef.h>

struct ls_timeline;

struct ls_timeline_options {
    int fd; /* to read and write, taken over, also after a failure */
    struct ls_trace *trace;
    int rank;
    const char *host;
    int64_t n_steps;    /* with everything in them */
    int64_t batch_size; /* for the counter of images per second */
    int64_t offset_ns;  /* added to this machine's clock */
    int64_t error_ns;   /* by how much that may be wrong */
};

/* The trace is listened to from here on. */
enum ls_status ls__timeline_open(struct ls_timeline **out, const struct ls_timeline_options *o) LS_MUST_CHECK;
/* NULL is fine for all of these. n_done: steps of this sitting. */
void ls__timeline_step(struct ls_timeline *t, int64_t n_done);
void ls__timeline_stop(struct ls_timeline *t);
void ls__timeline_close(struct ls_timeline **t);

/* After ls__timeline_stop. Whole lines from *at on (0 at first) into out, up to `room` bytes, of which there should be
 * some thousands; returns how many bytes, 0 at the end. */
size_t ls__timeline_lines(struct ls_timeline *t, int64_t *at, char *out, size_t room);
void ls__timeline_append(struct ls_timeline *t, const char *lines, size_t bytes);

#endif
