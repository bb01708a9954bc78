/* resources.h: a process watched over time: one row of resources.csv every half second, and at every mark.
 *
 *     struct ls_resources *r;
 *     TRY(ls__resources_open(&r, &(struct ls_resources_options){.fd = fd, .interval = 0.5}));   takes fd over
 *     ls__resources_step(r, step, epoch);       per step: two stores
 *     ls__resources_mark(r, "epoch");           a row now, with that word: wakes the thread, waits for nothing
 *     ls__resources_close(&r);                  the last row; joins the thread
 *
 * A thread of its own samples and writes; nobody waits for it. A row that cannot be written ends the recording with one
 * warning, never the training. The rows thin out as a run grows old: after every 7,200 rows the interval doubles, so
 * that a week takes 50,000 rows (4 MB), not 1.2 million.
 *
 * The columns, psrecord's first: elapsed_time,nproc,cpu,mem_real,mem_virtual, then threads,read_bytes,write_bytes,
 * net_received,net_sent,switches,gpu,gpu_mem,load,...,other,step,epoch,event,gpu_watts,gpu_mhz
 * (docs/formats/run-directory.md). Counters are since the recording began.
 */
#ifndef LS_RECORD_RESOURCES_H
#define LS_RECORD_RESOURCES_H

#include "base/status.h"
#include "record/nvml.h"
#include "record/process.h"
#include "trace/trace.h"

struct ls_resources;

enum ls_resources_form {
    LS_RESOURCES_CSV,   /* as above */
    LS_RESOURCES_PLAIN, /* psrecord's text: elapsed, CPU, real, virtual */
    LS_RESOURCES_PSCSV  /* psrecord's CSV */
};

struct ls_resources_options {
    pid_t pid;          /* 0: this process */
    bool with_children; /* and its descendants */
    bool with_io;       /* psrecord's forms: the columns of input and output too */
    enum ls_resources_form form;
    int fd;           /* taken over, also after a failure; -1: nothing is written */
    bool is_going_on; /* the file has rows already: elapsed_time goes on from first_seconds, and no header */
    double first_seconds;
    double interval;        /* seconds */
    bool keeps_points;      /* for ls__resources_points */
    struct ls_trace *trace; /* the columns of where the time went; NULL: they are empty */
    int n_threads;
    char gpu[LS_GPU_BYTES]; /* the card that NVIDIA's library is asked about (nvml.h); "": none */
};

/* One sample, for a plot. */
struct ls_resources_point {
    double seconds, cpu_percent, real_mb, virtual_mb;
};

struct ls_resources_peak {
    double seconds, cpu_percent_mean, cpu_percent_max;
    int64_t rss_bytes;
};

enum ls_status ls__resources_open(struct ls_resources **out, const struct ls_resources_options *o) LS_MUST_CHECK;
void ls__resources_close(struct ls_resources **resources); /* NULL is fine */
/* NULL is fine for these: nobody records. `event` is a word that lives for ever. */
void ls__resources_step(struct ls_resources *resources, int64_t step, int64_t epoch);
void ls__resources_mark(struct ls_resources *resources, const char *event);
/* Has `work` done by the thread, once, soon, and at the latest before close ends: what takes longer than the caller has
 * time. One at a time; what it uses lives until then. False: there is no thread, or it has work. */
bool ls__resources_later(struct ls_resources *resources, void (*work)(void *arg), void *arg);
/* Whether the process that is watched has ended. */
bool ls__resources_is_over(const struct ls_resources *resources);
struct ls_resources_peak ls__resources_peak(struct ls_resources *resources);
/* Ends the recording (close frees it) and gives all samples, which stay the recorder's. */
size_t ls__resources_points(struct ls_resources *resources, const struct ls_resources_point **out);

#endif
