/* tune.h: a table that says which implementation computes which problem, made by `lockstep tune` and read by choose.c.
 *
 * A table belongs to one instruction set and one version of the library (its key); a line of it to one op and the
 * shapes of its tensors. What it does not list, the backend's own order decides. So the choice is a function of the
 * machine's level, the library, the table and the model, never of a clock. docs/formats/tune-table.md has the format:
 *
 *     tune 1
 *     isa avx512
 *     library onednn-2.6
 *     conv2d 16x64x32x32 64x64x3x3 > 16x64x32x32 k3x3 s1x1 p1x1 d1x1 g1 = wino
 *
 * Reading is strict: anything unexpected is LS_DATA with the line's number; memory is bounded by the file's size.
 */
#ifndef LS_PLAN_TUNE_H
#define LS_PLAN_TUNE_H

#include "backend/backend.h"
#include "base/status.h"
#include "graph/graph.h"

enum { LS_TUNE_FILE_BYTES = 1 << 20, LS_TUNE_LINES = 4096, LS_TUNE_KEY_BYTES = 224, LS_TUNE_NAME_BYTES = 24 };

struct ls_tune_line {
    char key[LS_TUNE_KEY_BYTES];   /* op and shapes, one blank between words */
    char impl[LS_TUNE_NAME_BYTES]; /* name of the implementation */
};

struct ls_tune {
    char *origin;            /* the file, or "built-in NAME" */
    struct ls_backend_id id; /* the key; library without the last number: "onednn-2.6" */
    struct ls_tune_line *lines;
    int n_lines;
    char hash[17]; /* XXH3-64 of key and lines as they are used: comments and blanks do not count */
};

/* An empty table for a backend. */
enum ls_status ls__tune_create(struct ls_tune **out, const char *origin, const struct ls_backend_id *id) LS_MUST_CHECK;
void ls__tune_destroy(struct ls_tune **tune);

enum ls_status ls__tune_parse(struct ls_tune **out, const char *origin, const char *text, size_t len) LS_MUST_CHECK;
enum ls_status ls__tune_load(struct ls_tune **out, const char *path) LS_MUST_CHECK;
/* The table of this program for a backend; *out stays NULL if there is none. */
enum ls_status ls__tune_built_in(struct ls_tune **out, const struct ls_backend_id *id) LS_MUST_CHECK;

/* Same level, same library up to the second number. */
bool ls__tune_fits(const struct ls_tune *tune, const struct ls_backend_id *id);

/* What a table calls a node: its op, the shapes of its first two inputs and of its output, its window. */
void ls__tune_key(const struct ls_graph *g, const struct ls_node *n, char key[LS_TUNE_KEY_BYTES]);
/* The implementation listed for a key, or NULL. */
const char *ls__tune_find(const struct ls_tune *tune, const char *key);
/* Lists impl for key instead of what was listed before; NULL takes the line out. */
enum ls_status ls__tune_set(struct ls_tune *tune, const char *key, const char *impl) LS_MUST_CHECK;

/* For the reader: a line for a key that has none; the hash follows when all are there. */
enum ls_status ls__tune_add(struct ls_tune *tune, const char *key, const char *impl) LS_MUST_CHECK;
enum ls_status ls__tune_rehash(struct ls_tune *tune) LS_MUST_CHECK;

/* tables/NAME.tune of the source, embedded by the build; ended by a NULL. */
struct ls_tune_text {
    const char *name, *text;
};
extern const struct ls_tune_text ls__tune_texts[];

#endif
