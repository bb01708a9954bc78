/* history.h: what a run directory tells, as plain files: of runs that are under way, done, dead or half written.
 *
 *     struct ls_history *h;
 *     TRY(ls_history_open(&h, "runs/a"));
 *     const struct ls_curve *test = ls_history_curve(h, "test");
 *     for (size_t i = 0; test && i < test->n; i++) use(ls_curve(test, "accuracy")[i]);
 *     TRY(ls_history_refresh(h, &has_changed));      reads what was added since
 *     ls_history_close(&h);
 *
 * Nothing is written, locked or waited for. Files are anybody's: a link, FIFO or device in the place of a file is not
 * opened; a line that is no line of ours, a half-written last one and an unknown key are left out; texts are any bytes
 * (draw/text.h makes them harmless). Memory is bounded: of curves longer than LS_CURVE_POINTS every other point is
 * dropped, files larger than their limit are cut off. A file that is not there leaves its part empty.
 */
#ifndef LS_HISTORY_HISTORY_H
#define LS_HISTORY_HISTORY_H

#include "base/file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_t;

enum ls_run_state {
    LS_RUN_RUNNING, /* its lock is held */
    LS_RUN_DONE,    /* it has a result */
    LS_RUN_STOPPED, /* neither, and it says so: it was told to stop, wrote a checkpoint and ended */
    LS_RUN_FAILED,  /* it says why it could not go on */
    LS_RUN_DIED     /* nothing of these: killed, or its machine went down */
};

enum { LS_CURVE_POINTS = 100000, LS_MAX_CURVES = 8, LS_MAX_VALUES = 28, LS_NAME_BYTES = 40 };

/* The lines of one split, or the columns of a table: values by name, in the order of the file. */
struct ls_curve {
    char name[LS_NAME_BYTES]; /* "train", "epoch", "test" */
    size_t n, cap;
    size_t every; /* only each so manieth point was kept; 1: all */
    size_t n_seen;
    int n_values;
    char names[LS_MAX_VALUES][LS_NAME_BYTES]; /* "step", "epoch", "loss", ... */
    double *values[LS_MAX_VALUES];            /* [n]; NAN where there is none */
};
/* NULL if there is no such value. */
const double *ls_curve_values(const struct ls_curve *c, const char *name);
double ls_curve_last(const struct ls_curve *c, const char *name); /* NAN if there is none */

struct ls_history;

/* LS_CHECKPOINT if there is no such folder, or it holds no run: neither manifest.json nor metrics.jsonl. */
enum ls_status ls_history_open(struct ls_history **out, const char *dir) LS_MUST_CHECK;
/* What is new since; *has_changed may be NULL. A run that was resumed is read anew. */
enum ls_status ls_history_refresh(struct ls_history *h, bool *has_changed) LS_MUST_CHECK;
void ls_history_close(struct ls_history **h);

const char *ls_history_dir(const struct ls_history *h);
const char *ls_history_name(const struct ls_history *h); /* the folder's own name */
enum ls_run_state ls_history_state(const struct ls_history *h);
const char *ls_history_state_word(const struct ls_history *h); /* "running", "finished", "stopped", "failed", "died" */
const char *ls_history_why(const struct ls_history *h);        /* of the third and fourth; NULL: not known */
/* Steps done, as far as the metrics or the result know; 0. Seconds of training so far; 0. */
double ls_history_steps(const struct ls_history *h);
double ls_history_seconds(const struct ls_history *h);

/* By split; NULL if there are no such lines. Also by number, NULL beyond the last. */
const struct ls_curve *ls_history_curve(const struct ls_history *h, const char *split);
const struct ls_curve *ls_history_curve_at(const struct ls_history *h, int i);
size_t ls_history_bad_lines(const struct ls_history *h); /* left out, in all files */

/* The objects; NULL if the file is not there or no JSON. Borrowed until the next refresh. The result of a run that was
 * finished and then went on is none: it counts again when there is a new one. */
const struct json_t *ls_history_manifest(const struct ls_history *h);
const struct json_t *ls_history_result(const struct ls_history *h);
/* By a path such as "seconds.compute" or "options.batch_size": in the result first, then in the manifest. NAN and NULL
 * if there is no such number or text. */
double ls_history_number(const struct ls_history *h, const char *path);
const char *ls_history_text(const struct ls_history *h, const char *path);
/* Any value as text: "0.05", "true", "" for null and none. */
void ls_history_value(const struct ls_history *h, const char *path, char *out, size_t size);

/* resources.csv of a rank: columns by the head's names, the first being seconds since the start. Rank 0's is in the
 * run's own folder, others' in ranks/N. NULL if there is none. */
enum { LS_MAX_RANKS = 64 };
const struct ls_curve *ls_history_resources(const struct ls_history *h, int rank);
int ls_history_n_ranks(const struct ls_history *h); /* that have one; those beyond LS_MAX_RANKS are not read */

/* What happened when, as rank 0 recorded it; the first LS_MAX_EVENTS. */
enum { LS_MAX_EVENTS = 8192 };
enum ls_event_kind { LS_EVENT_EPOCH, LS_EVENT_EVALUATE, LS_EVENT_CHECKPOINT, LS_EVENT_RESUME };
struct ls_event {
    enum ls_event_kind kind;
    double seconds; /* since the start */
};
size_t ls_history_events(const struct ls_history *h, const struct ls_event **events);

/* ranks.csv: a row per epoch and rank, columns by the head's names. NULL if there is none. */
const struct ls_curve *ls_history_rank_rows(const struct ls_history *h);

/* Steps of the checkpoints that are there, ascending. */
size_t ls_history_checkpoints(const struct ls_history *h, const int64_t **steps);

/* Folders of runs in `dir` (or `dir` itself if it is one), sorted by name, at most `max`; free each and the list. */
enum ls_status ls_history_find(const char *dir, char ***names, size_t *n, size_t max) LS_MUST_CHECK;

#endif
