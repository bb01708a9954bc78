/* run.h: the run directory, the only interface between training and everything that reports on it.
 *
 *     struct ls_run *run;
 *     TRY(ls__run_open(&run, dir_or_null, "lenet5", "digits", is_resume));    takes the lock, fails in milliseconds
 *     ls__run_metrics_rewind(run, step, ...);      when resuming: forget the lines after the checkpoint
 *     ls__run_manifest(run, manifest);             once, before the first step
 *     ls__run_metric(run, &(struct ls_metric){...});   per logged step and per epoch; never fails the training
 *     ls__run_result(run, json_text);              at the end, or:
 *     ls__run_ended(run, "stopped", why, step);    before it
 *     ls__run_close(&run);                         gives the lock back
 *
 * docs/formats/run-directory.md tells the files. Invariants:
 *   1. While a run is open, <dir>/lock is held (flock): one process writes a run directory at a time.
 *   2. manifest.json and result.json are written atomically; metrics.jsonl only grows, one write(2) per line, and every
 *      line is complete (a torn one is cut off again).
 *   3. Everything that goes wrong with the directory itself is LS_CHECKPOINT.
 *   4. Nothing is written through a link, a FIFO or a device: all files are opened below one descriptor (base/dir.h).
 */
#ifndef LS_RUN_RUN_H
#define LS_RUN_RUN_H

#include "base/dir.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct ls_run;
struct json_t;

/* Opens dir (made if absent), or with dir NULL makes runs/<model>-<data>-<YYYYmmdd-HHMMSS>[-n] in the working
 * directory. is_resume false: a directory that already holds a run (a manifest.json of ours) is refused. is_resume
 * true: it is welcome, and an empty or absent one too (`--resume auto` starts afresh then; ls__run_is_new tells).
 * Whatever else is in a directory was not put there by us, and it is refused with nothing touched. */
enum ls_status ls__run_open(struct ls_run **out, const char *dir, const char *model, const char *data,
                            bool is_resume) LS_MUST_CHECK;
void ls__run_close(struct ls_run **run);
/* Closes a run whose training never began: if it was new, what was made for it goes again. */
void ls__run_abandon(struct ls_run **run);

/* Makes a directory of that name for a run that is opened later, perhaps by another process. */
enum ls_status ls__run_make_named(const char *model, const char *data, char dir[LS_PATH_BYTES]) LS_MUST_CHECK;

const char *ls__run_dir(const struct ls_run *run);
bool ls__run_is_new(const struct ls_run *run); /* held no run when it was opened */
/* The folder of checkpoints, for ls__ckpt_writer_create_in. */
enum ls_status ls__run_checkpoints(const struct ls_run *run, struct ls_dir *out) LS_MUST_CHECK;
/* "<dir>/<name>" into out. */
enum ls_status ls__run_path(const struct ls_run *run, const char *name, char out[LS_PATH_BYTES]) LS_MUST_CHECK;

/* Drops the object; NULL is LS_NOMEM. */
enum ls_status ls__run_manifest(struct ls_run *run, struct json_t *manifest) LS_MUST_CHECK;
/* json_text: the object as text. A '\n' is added. */
enum ls_status ls__run_result(struct ls_run *run, const char *json_text) LS_MUST_CHECK;
/* How a run ended that has no result: ended.json, which goes again with the next manifest. A run without either died
 * before it could say anything. What cannot be written is not. */
void ls__run_ended(struct ls_run *run, const char *how, const char *why, int64_t step); /* how: "stopped", "failed" */

/* One line of metrics.jsonl: when and of what, then named values in the order given. A value that is not finite is
 * null. Names are plain words; a new metric is one more of them. */
enum { LS_MAX_METRICS = 24 };
struct ls_metric {
    int64_t step, epoch; /* step: steps done so far, in all */
    const char *split;   /* "train", "epoch", "validation" or "test" */
    struct {
        const char *name; /* NULL: no more */
        double value;
    } values[LS_MAX_METRICS];
};
/* Whether a line of "train" is due after `step` steps, every `every` of them (0: never). After each 20,000 lines the
 * distance doubles, so that a long run's file grows with the logarithm of its length: a week of 1,000 steps a second
 * with a line every 50 is 200,000 lines, not 12 million. It depends on the step alone: a resumed run writes the same
 * lines. */
bool ls__run_is_line_due(int64_t step, int64_t every);
/* A write that fails (full disk) is a warning, at most one a minute; the line is lost and training goes on. */
void ls__run_metric(struct ls_run *run, const struct ls_metric *metric);
/* Keeps the complete lines with step <= `step` and drops the rest, so that a resumed run's file equals an unbroken
 * run's. With is_within_epoch all but the "train" lines of `step` go too: they are of a run that ended there, or was
 * stopped while it evaluated, and this one writes them anew if it should. With is_test_last the "test" lines of any
 * step go: the end of a run writes its only one. */
struct ls_rewind {
    int64_t step;
    bool is_within_epoch, is_test_last;
};
enum ls_status ls__run_metrics_rewind(struct ls_run *run, const struct ls_rewind *to) LS_MUST_CHECK;

/* --- reading, without the lock: for eval, inspect and reports --- */

bool ls__run_is_run(const char *dir); /* a folder with a manifest.json */
/* Parses <dir>/<name> ("manifest.json"); json_decref() it. LS_CHECKPOINT if it is absent or no JSON object. */
enum ls_status ls__run_load(const char *dir, const char *name, struct json_t **out) LS_MUST_CHECK;

#endif
