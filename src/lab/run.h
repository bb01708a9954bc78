/* run.h: from a lab to its runs: what is asked (--scale, --only, ...), the jobs that follow, their folder, and running
 * them.
 *
 *     struct ls_lab_ask ask = {.scale = "1/16", ...};
 *     TRY(ls__lab_plan(&state, lab, &ask, &means));           jobs, their settings and commands
 *     TRY(ls__lab_folder_take(&folder, dir, lab, &state));    a new folder, or one that goes on: what is done is kept
 *     TRY(ls__lab_run(&folder, lab, state, exe, &summary));   until all are done or failed, or a signal came
 *     ls__lab_folder_leave(&folder);
 */
#ifndef LS_LAB_RUN_H
#define LS_LAB_RUN_H

#include "base/dir.h"
#include "lab/lab.h"

/* What `lab run` was given. "" where it was not. */
struct ls_lab_ask {
    const char *scale; /* "1/16", "0.5"; "1" */
    const char *only, *device, *workers, *data_dir;
    const char *hosts; /* "a,b,c": a run with nodes=2 has the first two of them */
    bool is_stand_in;
    int repeat; /* in place of what the lab says; 0: as it says */
};

/* What the plan asks of its caller, who knows data sets and speeds. */
struct ls_lab_means {
    /* Images of a job's data set to train or to test on; 0: not known. */
    int64_t (*images)(void *counts, const struct ls_lab_job *job, bool is_test);
    void *counts;
    /* Generated images of the same shape, for a set that has to be fetched; NULL: it needs none. */
    const char *(*stand_in)(const char *data);
    /* (optional) Seconds and bytes on disk of one training; NAN: not known. */
    void (*predict)(void *context, const struct ls_lab_job *job, double *seconds, double *bytes);
    void *context;
    const char *version;
    const char *processor, *system; /* (optional) of this machine */
    double memory_bytes;            /* 0: not known */
};

/* LS_USAGE for a scale that is none and a question that is not there. */
enum ls_status ls__lab_plan(struct ls_lab_state **out, const struct ls_lab *lab, const struct ls_lab_ask *ask,
                            const struct ls_lab_means *means) LS_MUST_CHECK;

const char *ls__lab_job_setting(const struct ls_lab_job *job, const char *key); /* NULL: not set */

/* "1/16" or "0.0625"; above 0, at most 1. */
bool ls__lab_parse_scale(const char *text, double *scale);
/* Makes a training that much shorter: fewer epochs or steps; below LS_LAB_SMALL_SCALE smaller batches too, by what is
 * left. What the lab varies stays as it is (scale.c). */
#define LS_LAB_SMALL_SCALE (1.0 / 16)
struct ls_lab_scaled {
    int64_t epochs, iterations, batch, checkpoint_every, log_every; /* 0: as it was */
    double lr;                                                      /* 0: as it was */
};
void ls__lab_scale(const struct ls_lab *lab, const struct ls_lab_job *job, double scale, int64_t images,
                   struct ls_lab_scaled *out);

/* The words that train it, from `exe` on; ends with NULL; one after another in the arena. run_dir NULL: without. */
enum ls_status ls__lab_words(struct ls_arena *memory, const struct ls_lab_job *job, const char *exe,
                             const char *run_dir, const char ***words) LS_MUST_CHECK;

/* state.json */
enum ls_status ls__lab_state_write(const struct ls_lab_state *state, const struct ls_lab *lab,
                                   const struct ls_dir *dir) LS_MUST_CHECK;
enum ls_status ls__lab_state_read(struct ls_lab_state **out, const struct ls_lab *lab, const char *dir) LS_MUST_CHECK;

/* What is written goes below these two (base/dir.h): never through a link or into a fifo. */
struct ls_lab_folder {
    struct ls_dir dir, runs;
    int lock; /* -1: not held */
};
/* Makes the folder, or takes one of the same lab: *state then has what is done there. LS_CHECKPOINT if it holds
 * something else or another process runs it; LS_USAGE if the same lab was begun with another scale. */
enum ls_status ls__lab_folder_take(struct ls_lab_folder *folder, const char *path, const struct ls_lab *lab,
                                   struct ls_lab_state *state) LS_MUST_CHECK;
void ls__lab_folder_leave(struct ls_lab_folder *folder);
bool ls__lab_is_folder(const char *path);

struct ls_lab_summary {
    int n_done, n_failed, n_left;
    int signal; /* that stopped it; 0: none */
};
/* exe: the program to start, itself as a rule. Failing jobs do not fail it. */
enum ls_status ls__lab_run(const struct ls_lab_folder *folder, const struct ls_lab *lab, struct ls_lab_state *state,
                           const char *exe, struct ls_lab_summary *summary) LS_MUST_CHECK;

/* Seconds of CPU that this machine has given to others than this process and its children that have ended, since some
 * moment: the difference of two calls counts. NAN: not known. (busy.c) */
double ls__lab_others_seconds(void);

/* Seconds that the jobs not yet done will take; NAN: not known. */
double ls__lab_seconds_left(const struct ls_lab_state *state);
/* "3 h 20 min", "45 s" */
enum { LS_LAB_TIME_BYTES = 32 };
const char *ls__lab_time_text(double seconds, char out[LS_LAB_TIME_BYTES]);

#endif
