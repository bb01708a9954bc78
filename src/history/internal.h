/* internal.h: shared by the files of this module: files that grow, curves made of their lines, and what a run is in
 * memory. */
#ifndef LS_HISTORY_INTERNAL_H
#define LS_HISTORY_INTERNAL_H

#include "base/dir.h"
#include "history/history.h"

#include <jansson.h>
#include <sys/types.h>
#include <time.h>

/* --- curve.c --- */

/* The number of the column `name`, made if it is new; -1 if there are too many. */
int ls__curve_column(struct ls_curve *c, const char *name, size_t len);
/* Appends values[LS_MAX_VALUES] (NAN where there is none). */
enum ls_status ls__curve_add(struct ls_curve *c, const double *values) LS_MUST_CHECK;
void ls__curve_release(struct ls_curve *c);

/* --- line.c --- */

/* A number at the beginning of [at, end): its end, or NULL. */
const char *ls__scan_number(const char *at, const char *end, double *out);

/* One flat JSON object. Of values that are neither number nor null only texts are given; what is nested is skipped. */
struct ls_pair {
    const char *key, *text; /* not ended; text NULL: a number */
    size_t key_len, text_len;
    double number;
};
/* Pairs found, or -1 if the line is no object. */
int ls__scan_object(const char *line, size_t len, struct ls_pair *pairs, int max);

/* --- tail.c --- */

/* A file that grows, read line by line. Only whole lines are given; the rest waits for the next time. */
struct ls_tail {
    dev_t device;
    ino_t inode;
    off_t offset;    /* of the first line not yet given */
    char before[64]; /* the bytes before it: if they have changed, the file was written anew */
    size_t n_before;
    size_t n_bad; /* lines that were too long */
};
typedef enum ls_status ls_line_fn(void *arg, const char *line, size_t len);
/* Calls `start` when the file is a new one or was cut (what was read of it before is void), then `line` for every new
 * line. *has_new: there was something. A file that is not there is empty. */
enum ls_status ls__tail_read(struct ls_tail *t, int folder_fd, const char *name, void (*start)(void *arg),
                             ls_line_fn *line, void *arg, bool *has_new) LS_MUST_CHECK;

/* --- history.c, answers.c --- */

/* Of the metrics. */
double ls__history_last_step(const struct ls_history *h);

enum { LS_MAX_CHECKPOINTS = 4096 };

/* A JSON file that is replaced as a whole. */
struct ls_object_file {
    json_t *object; /* NULL: none */
    struct timespec changed;
    ino_t inode;
    off_t bytes;
};

/* A table of numbers with a head: resources.csv of a rank, ranks.csv. */
struct ls_resources {
    struct ls_tail tail;
    struct ls_curve table;
    bool has_head;
    int columns[LS_MAX_VALUES]; /* of the head, to the table's */
    int n_columns;
    int event_column; /* of the head; -1: none */
    struct ls_event *events;
    size_t n_events;
};

struct ls_history {
    char dir[LS_PATH_BYTES];
    char name[256];
    int fd;
    struct ls_object_file manifest, result, ended;
    bool has_result; /* and it is of the last sitting */
    struct ls_tail metrics;
    struct ls_curve curves[LS_MAX_CURVES];
    int n_curves;
    size_t n_bad;
    struct ls_resources *ranks[LS_MAX_RANKS]; /* NULL: not seen yet */
    struct ls_resources rank_rows;            /* ranks.csv */
    enum ls_run_state state;
    int64_t checkpoints[LS_MAX_CHECKPOINTS];
    size_t n_checkpoints;
};

#endif
