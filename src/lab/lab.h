/* lab.h: a lab: questions, the runs that answer them, and what to show of them; as a text file, in memory, in a folder.
 *
 *     lab file  --ls__lab_parse-->  struct ls_lab  --ls__lab_open_folder-->  LABDIR, struct ls_lab_state
 *                                                  --ls__lab_run--------->   LABDIR/runs, all runs done or failed
 *                                                  --ls__lab_report------>   LABDIR/report.html, report.md, report.pdf
 *
 * The text is told in docs/guide/labs.md. In short:
 *
 *     title     What does the batch size do to LeNet-5?
 *     source    A course report; its machines were others.
 *     base      model=lenet5 data=mnist epochs=5
 *     repeat    3
 *
 *     question  Q1: Time and accuracy by batch size
 *       text    Larger batches make fewer, longer steps.
 *       run     batch
 *       vary    batch-size 128 256 512
 *       show    time accuracy curves
 *       baseline batch-128
 *       compare batch-size
 *       published time batch-128=81 batch-256=75
 *
 * A `run` line and what it varies is expanded: one run for each combination of values, named after the line and the
 * values ("batch-128"). A run is a configuration; it is trained `repeats` times, each time with the same seed, so that
 * the repeats show the noise of the machine and nothing else (vary `seed` to see that of the training).
 *
 * The folder of a lab:
 *
 *     LABDIR/lab.txt            the lab file, byte for byte
 *     LABDIR/state.json         what was asked, what --only, --scale and others made of the file, and how far it is
 *                               (struct ls_lab_state); written anew, whole, after every run
 *     LABDIR/runs/NAME-rK/      run directories, K from 1 to repeats, as `lockstep train --run` leaves them; of a run
 *                               that failed perhaps nothing, or one without result.json
 *     LABDIR/runs/NAME-rK.log   what that run wrote to stderr; the last line of a failed one is its message
 *     LABDIR/report.html        and report.md, report/ (its pictures), report.pdf
 *     LABDIR/lock               held (flock) by the process that runs the lab
 *
 * This module knows no option of `train`: which names and values are good is asked of its caller (struct ls_lab_rules).
 */
#ifndef LS_LAB_LAB_H
#define LS_LAB_LAB_H

#include "base/arena.h"
#include "base/file.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ls_buf;

/* --- the lab, as its file says it --- */

/* What a question wants to see. Each is a word of `show`. */
enum ls_lab_show {
    LS_SHOW_TIME,          /* time: seconds of training, with the spread; a bar for each run */
    LS_SHOW_SPEEDUP,       /* speed-up: against the baseline; images per second where batch-per-worker varies */
    LS_SHOW_ACCURACY,      /* accuracy: loss and accuracy at the end */
    LS_SHOW_CURVES,        /* curves: loss and accuracy over epochs and over time */
    LS_SHOW_RESOURCES,     /* resources: CPU and memory, mean and peak, and over time */
    LS_SHOW_COMMUNICATION, /* communication: where the time went: compute, communicate, wait, load, ... */
    LS_SHOW_BANDWIDTH,     /* bandwidth: bytes sent and bytes per second while communicating */
    LS_SHOW_HASH,          /* hash: whether the weights are the same bits */
    LS_SHOW_TARGET,        /* target: seconds until the accuracy of `target` was reached */
    LS_SHOW_PREDICTED,     /* predicted: the forecast before the first step against what was measured */
    LS_SHOW_NODES,         /* nodes: time, CPU and memory of each node */
    LS_N_SHOWS
};
extern const char *const ls__lab_show_words[LS_N_SHOWS]; /* "time", "speed-up", ... */

/* A setting of `train` by its long name; also "model" and "data". A flag is "on" or "off". */
struct ls_lab_setting {
    const char *key, *value;
    int line;
    bool is_own;    /* of the `run` line or varied; else of a `base` */
    bool is_varied; /* of a `vary` line */
};

/* One configuration. */
struct ls_lab_run {
    const char *name;  /* unique, fit for a folder: "batch-128" */
    const char *group; /* the `run` line it comes from: "batch" */
    struct ls_lab_setting
        *settings;  /* [n_settings], all of them, each key once; the nearest to the run wins: varied, */
    int n_settings; /* `run`, question's base, lab's base */
    int repeats;    /* the most that a question asks for */
    int line;
};

/* What others measured on other machines, for one run of the question. */
struct ls_lab_published {
    enum ls_lab_show what; /* time (s), speed-up, accuracy (0.9156), target (s) */
    int run;               /* index into lab->runs */
    double low, high;      /* "7952..9238"; a single number: both */
    bool is_unsure;        /* "86?": whether it is this run's is not certain; shown, but nothing is computed from it */
    int line;
};

/* What differs between the runs of a question. */
struct ls_lab_axis {
    const char *key; /* borrowed from a setting */
    int n_values;    /* different ones; a run that does not set it counts as one more */
};

struct ls_lab_question {
    const char *id, *title; /* "Q1", "Time and accuracy by batch size" */
    const char *text;       /* paragraphs apart by '\n'; "" */
    int *runs, n_runs;      /* indices into lab->runs, in the file's order: its own, and those it names with `use` */
    bool *is_own;           /* [n_runs] its own, not from `use` */
    int baseline;           /* index into lab->runs; without `baseline`: the first of its runs */
    enum ls_lab_show shows[LS_N_SHOWS]; /* [n_shows] each once, in the order of the `show` line */
    int n_shows;
    struct ls_lab_axis *axes; /* [n_axes] in the order in which keys first appear */
    int n_axes;
    const char **compares; /* [n_compares] keys of axes: what the question is about; runs that differ in nothing else */
    int n_compares; /* are compared, and which is best is told. 0: a run is compared with the nearest before it */
    struct ls_lab_published *published;
    int n_published;
    int line;
};

struct ls_lab {
    struct ls_arena memory; /* of all that follows */
    const char *name;       /* "svhn": the file's name without folder and ending */
    const char *title, *text;
    const char *source; /* where published figures come from; "" if there are none */
    const char *file;   /* the text itself */
    size_t file_len;
    struct ls_lab_question *questions;
    int n_questions;
    struct ls_lab_run *runs; /* [n_runs] in the file's order */
    int n_runs;
};

enum { LS_LAB_FILE_BYTES = 1 << 20, LS_LAB_MAX_RUNS = 1024, LS_LAB_MAX_REPEATS = 1000, LS_LAB_NAME_BYTES = 96 };

/* What the parser asks. What fails is LS_USAGE with a message that says what to write instead. */
struct ls_lab_rules {
    /* The setting's own name for `key`, which may be an alias; a name that is not one of a lab: the nearest. */
    enum ls_status (*key)(const char *key, const char **name);
    /* (optional) A value to show how the setting is written: "on" of a flag; NULL: none is known. */
    const char *(*example)(const char *key);
    /* (optional) Several, apart by blanks, for `vary`. */
    const char *(*values)(const char *key, char *out, size_t size);
    /* Whether a run can be so: values, models, data sets, what goes together. *line is the run's, and may become that
     * of the setting that is wrong. */
    enum ls_status (*run)(const struct ls_lab_rules *rules, const struct ls_lab_run *run, int *line);
    const char *device; /* (optional) that `lab run` was given: of runs that name none on their own lines */
};

/* Mistakes are LS_USAGE, "svhn.lab:12: ..."; the first in the file's order. rules NULL: any key, any value. */
enum ls_status ls__lab_parse(struct ls_lab **out, const char *origin, const char *text, size_t len,
                             const struct ls_lab_rules *rules) LS_MUST_CHECK;
void ls__lab_destroy(struct ls_lab **lab);

bool ls__lab_shows(const struct ls_lab_question *q, enum ls_lab_show show);
/* NULL if the run does not set it: train's default. */
const char *ls__lab_setting(const struct ls_lab_run *run, const char *key);
int ls__lab_find_run(const struct ls_lab *lab, const char *name); /* -1: none */
/* Whether two of the question's runs differ in nothing but what it compares. */
bool ls__lab_is_beside(const struct ls_lab_question *q, const struct ls_lab_run *a, const struct ls_lab_run *b);
bool ls__lab_compares(const struct ls_lab_question *q, const char *key);

/* Those that ship, compiled in from labs/NAME.lab. */
struct ls_lab_entry {
    const char *name, *text;
};
extern const struct ls_lab_entry ls__labs[]; /* ends with name NULL */

/* --- what was asked, and how far it is --- */

enum ls_job_state {
    LS_JOB_WAITING, /* not begun */
    LS_JOB_STOPPED, /* interrupted; goes on from its newest checkpoint */
    LS_JOB_DONE,
    LS_JOB_FAILED /* its message says why */
};
extern const char *const ls__job_state_words[]; /* "waiting", "stopped", "done", "failed": as state.json has them */

/* One training: a run's K-th repeat. */
struct ls_lab_job {
    int run;         /* index into lab->runs */
    int repeat;      /* from 1 */
    const char *dir; /* "runs/batch-128-r1", relative to LABDIR */
    enum ls_job_state state;
    int exit_code;                   /* of the last try; 0 while it waits */
    const char *message;             /* of a failed one, without "lockstep: "; "" */
    struct ls_lab_setting *settings; /* [n_settings] what train was given: the run's, scaled and overridden */
    int n_settings;
    const char *command;      /* to paste into a shell: "lockstep train lenet5 mnist --batch-size 128 ..." */
    double predicted_seconds; /* by the plan before anything ran; NAN: not known */
    double predicted_bytes;   /* on disk, likewise */
    double seconds;           /* by the clock, all tries together; NAN: not known */
    double others_seconds;    /* of CPU that others took meanwhile: other programs of the machine that `lab run` was
                                 called on, and other machines of its host; NAN: not known */
    int tries;                /* how often it was started */
};

struct ls_lab_state {
    struct ls_arena memory;                  /* of all that follows */
    const char *lab;                         /* its name */
    const char *scale;                       /* "1/16"; "1": as the file says */
    const char *only;                        /* "Q3,Q5": the questions asked for; "": all */
    const char *device, *workers, *data_dir; /* given to `lab run` for all runs; "": as the file says */
    const char *hosts;                       /* likewise: machines in place of `nodes` made on this one */
    int repeat;                              /* in place of what the lab says; 0: as it says */
    bool is_stand_in;    /* data sets were replaced by generated images of the same shape: accuracies mean nothing */
    const char *version; /* of the program that ran it */
    const char *processor, *system; /* of the machine that `lab run` was called on; "": not known */
    double memory_bytes;            /* of it; NAN: not known */
    struct ls_lab_job *jobs; /* [n_jobs] in the order in which they are run: all first repeats, then all second ones */
    int n_jobs;
};

/* The folder's lab.txt and state.json. LS_CHECKPOINT if it is no lab's folder. Destroy both. */
enum ls_status ls__lab_open_folder(const char *dir, struct ls_lab **lab, struct ls_lab_state **state) LS_MUST_CHECK;
void ls__lab_state_destroy(struct ls_lab_state **state);

/* NULL: that repeat of the run was not asked for (--only). */
const struct ls_lab_job *ls__lab_find_job(const struct ls_lab_state *state, int run, int repeat);
/* Whether all of its runs were asked for; one that was not (--only) may share some with one that was. A question that
 * was not is left out of plan and report. */
bool ls__lab_is_asked(const struct ls_lab_state *state, const struct ls_lab_question *question);

/* What scaling made of the runs of a question, a line for runs alike: "all runs: batch-size 8 instead of 128"; nothing
 * if it changed nothing. */
struct ls_buf;
void ls__lab_say_scaled(struct ls_buf *b, const struct ls_lab *lab, const struct ls_lab_state *state,
                        const struct ls_lab_question *question);
/* Of one training: "batch-size 8 instead of 128, epochs 1 instead of 5", "2 hosts instead of nodes 2"; "" */
void ls__lab_say_changes(struct ls_buf *b, const struct ls_lab *lab, const struct ls_lab_job *job);
/* A run whose batch it made smaller; NULL: none. */
const char *ls__lab_smaller_batch(const struct ls_lab *lab, const struct ls_lab_state *state);

/* --- the report (report.c) --- */

struct ls_lab_report_ask {
    const char *output; /* NULL: DIR/report.html, report.md with its pictures, and report.pdf where it can be drawn;
                           else that one file, whose ending decides */
    bool is_public;     /* absolute paths and names of machines are left out */
    /* Images of a data set as it is published; 0: it is none. */
    int64_t (*published_images)(const char *data, bool is_test);
};
/* Reads run directories only. Jobs that are not done are told as such. */
enum ls_status ls__lab_report(const struct ls_lab *lab, const struct ls_lab_state *state, const char *dir,
                              const struct ls_lab_report_ask *ask) LS_MUST_CHECK;

#endif
