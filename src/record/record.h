/* record.h: what a training leaves behind besides its metrics, written beside the run and never in its way.
 *
 *     struct ls_record *record;
 *     record = ls__record_open(&(struct ls_record_options){.run_dir = dir, .rank = 0, ...});     NULL: nothing is
 * recorded ls__record_step(record, step, epoch);      per step: two stores ls__record_mark(record, "checkpoint"); an
 * event on the time line ls__record_close(&record);
 *
 * Rank 0 writes into the run directory itself, rank N into ranks/N below it. A rank that does not see the directory (a
 * machine without a shared file system; run_dir is NULL) has no files but its trace, until rank 0 has it. Invariants:
 *   1. Nothing here fails a training: what cannot be opened or written is a warning, once.
 *   2. Nothing here waits for a disk on the training's thread.
 */
#ifndef LS_RECORD_RECORD_H
#define LS_RECORD_RECORD_H

#include "base/status.h"
#include "record/nvml.h"
#include "run/run.h"
#include "trace/trace.h"

#include <stdbool.h>
#include <stdint.h>

struct ls_record;
struct ls_tensorboard;
struct ls_timeline;

struct ls_record_options {
    const char *run_dir;
    int rank;
    int64_t first_step; /* > 0: resumed, and what is there already is gone on with */
    struct ls_trace *trace;
    int n_threads;          /* whose time the trace splits */
    char gpu[LS_GPU_BYTES]; /* the card that is looked at (nvml.h); "": none */
    bool with_resources;    /* and TensorBoard's file; else only what the next asks for */
    int64_t traced_steps;   /* trace.json, with everything in so many steps; -1: none */
    int64_t batch_size;     /* the rest is for trace.json too */
    const char *host;
    int64_t offset_ns, error_ns; /* to the clock of the trace (timeline.h) */
};

struct ls_record *ls__record_open(const struct ls_record_options *o);
/* NULL is fine for all of these. */
void ls__record_close(struct ls_record **record);
void ls__record_step(struct ls_record *record, int64_t step, int64_t epoch);
void ls__record_mark(struct ls_record *record, const char *event); /* a word that lives for ever */
/* A line of metrics.jsonl, for TensorBoard too. */
void ls__record_metric(struct ls_record *record, const struct ls_metric *metric);
/* Where the time since the last call went, in per cent, for TensorBoard. */
void ls__record_time(struct ls_record *record, int64_t step);
/* The training is over, its trace.json not quite: see ls__timeline_stop, _lines, _append. */
struct ls_timeline *ls__record_timeline(struct ls_record *record);
/* What this rank has in trace.json is in that of rank 0 now: its own file goes. */
void ls__record_forget_timeline(struct ls_record *record);
/* Has `work` done by the recorder's thread, soon, and before the recording is closed; what it uses lives until then.
 * False: there is none. */
bool ls__record_later(struct ls_record *record, void (*work)(void *arg), void *arg);
/* Rank 0's event file; NULL elsewhere. Any thread may write to it. */
struct ls_tensorboard *ls__record_tensorboard(struct ls_record *record);

#endif
