/* tune.h: the parts of `lockstep tune`.
 *
 *     tune.c          the search: which choices to try, in which order, what to keep
 *     tune_side.c     one set of choices, ready to run, with the CPU time of each op; two of them compared
 *     ls__tune_write.c    what was found as a table, merged into a file
 */
#ifndef LS_TRAIN_TUNE_H
#define LS_TRAIN_TUNE_H

#include "lockstep/measure.h"
#include "session/session.h"

/* One of two sets of choices being compared. */
struct side {
    struct session s;
    struct ls_tune *table; /* owned; the session borrows it */
    struct ls_loader *loader;
    struct ls_batch batch; /* the same in every step: time, not learning, is wanted */
    const struct ls_plan *plan;
    double *best;        /* [plan->n_ops] seconds per global step, the least seen */
    uint64_t *signature; /* [plan->n_ops] equal in two plans: the same kernel does the same thing */
    bool *is_counted;    /* [plan->n_ops] scratch of side_compare */
};

/* Takes over *table. On failure too ls__side_close ends it. */
enum ls_status ls__side_open(struct side *side, const struct ls_tune_options *o, struct ls_tune **table) LS_MUST_CHECK;
void ls__side_close(struct side *side);
/* Forgets the times. */
void ls__side_reset(struct side *side);
/* One step; times of the ops go into best. */
enum ls_status ls__side_step(struct side *side) LS_MUST_CHECK;
double ls__side_seconds(const struct side *side);                      /* of the whole step */
double ls__side_key_seconds(const struct side *side, const char *key); /* of the ops with this key */

/* What the second would save against the first, in seconds per step, by their times so far: over the ops the two do
 * not have in common, reorders included. *changed is what those ops take in the first. */
double ls__side_gain(struct side *now, struct side *other, double *changed);

/* The table as text: header, what was measured, choices. */
enum ls_status ls__tune_text(const struct ls_tune_options *o, const struct ls_tune_result *r,
                             const struct ls_tune *table, char **text) LS_MUST_CHECK;
/* Into o->output, where lines for other problems stay as they are. */
enum ls_status ls__tune_write(const struct ls_tune_options *o, const struct ls_tune_result *r,
                              const struct ls_tune *table) LS_MUST_CHECK;
/* Whether o->output can be added to; before hours of measuring. */
enum ls_status ls__tune_check_output(const struct ls_tune_options *o, const struct ls_backend_id *id) LS_MUST_CHECK;

#endif
