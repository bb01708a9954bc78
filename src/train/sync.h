/* sync.h: the ways to synchronise (--sync): what a step of all shards is, and when their work becomes one.
 *
 *     ls__sync_choose      the options' way, before anything is opened
 *     ls__sync_open        with the session open and the state a run begins or goes on with
 *     ls__sync_step        one step of the training
 *     ls__sync_view        before the store is read: evaluated, hashed, saved
 *     ls__sync_end_epoch
 *     ls__sync_close
 *
 * What is evaluated and saved is always the session's store. A way is one file sync_NAME.c that ends in one const
 * table, one line in sync.c and one in settings/sync_names.c, which has the names, numbers and what does not go
 * together.
 */
#ifndef LS_TRAIN_SYNC_H
#define LS_TRAIN_SYNC_H

#include "lockstep/result.h"
#include "measure/forecast.h"
#include "session/session.h"
#include "session/state.h"
#include "settings/sync_names.h"

struct sync;
struct carry_kind; /* train/carry.h */

/* Called by all ranks, of a job. What says "optional" may be NULL. */
struct sync_way {
    const char *name; /* as in settings/sync_names.c */
    /* (optional) Makes sync->state. After a failure `close` is called. Collective. */
    enum ls_status (*open)(struct sync *sync, const struct session_options *o, const struct train_state *st);
    void (*close)(struct sync *sync); /* (optional) takes what is half open, too */
    /* One step; collective as often as the way wants. *stats covers all that has become one since it last did; it is
     * empty (n is 0) where nothing has. stop, save: as ls_exec_want, told when ranks next meet. */
    enum ls_status (*step)(struct sync *sync, const struct ls_exec_step *step, bool stop, bool save,
                           struct ls_exec_stats *stats);
    enum ls_status (*end_epoch)(struct sync *sync); /* (optional) behind its evaluation */
    /* (optional: always) Whether the session's store is all there is of the training. The same on all ranks. */
    bool (*is_settled)(const struct sync *sync);
    /* (optional: nothing to do; called when not settled) The session's store becomes what it would be now, and the
     * training does not notice. *pending: the steps no *stats had yet, all ranks together. Collective. */
    enum ls_status (*view)(struct sync *sync, struct tally *pending);
    /* (optional: nothing) What shards have of their own that a checkpoint must hold; NULL: nothing, with these options.
     */
    const struct carry_kind *(*carried)(const struct ls_train_options *o);
    /* (optional: those of the session) Samples that this rank has computed in training so far. */
    int64_t (*samples)(const struct sync *sync);
    /* (optional: the session's) The executor whose ops stand for those of all; NULL: this rank has none. */
    struct ls_exec *(*measured)(const struct sync *sync);
    void (*say_hello)(const struct sync *sync); /* (optional) to the user, before the first step */
    /* (optional) What a checkpoint's state must know of the epoch, into *st. */
    enum ls_status (*tell_state)(const struct sync *sync, struct train_state *st);
    /* (optional) What became of the workers, into the result. */
    void (*report)(const struct sync *sync, struct ls_result *r);
    /* (optional) What workers that are no ranks have done so far. */
    void (*tell_workers)(const struct sync *sync, struct ls_elastic_result *out);
    bool is_fed_elsewhere; /* its workers load the batches: `step` gets a batch without samples */
    /* (optional: nothing is foretold) The time of a step, before the first one. Collective; takes seconds. */
    enum ls_status (*foretell)(struct sync *sync, struct forecast *f);
};

extern const struct sync_way ls__sync_allreduce, ls__sync_local, ls__sync_ps, ls__sync_async, ls__sync_ssp;

/* A way in use. */
struct sync {
    const struct sync_way *way;
    struct ls_sync_choice choice;     /* its name and number */
    const struct carry_kind *carried; /* NULL: nothing */
    const struct ls_train_options *o; /* borrowed, of the trainer */
    struct session *s;                /* borrowed, once open */
    enum ls_status outcome;           /* how the training ended, for `close` */
    int64_t steps_per_epoch;
    int64_t last_step;   /* behind which the training ends, if not before */
    const char *run_dir; /* borrowed; NULL: another rank has it */
    int64_t began_ns;    /* of the training: where its trace begins */
    void *state;         /* the way's own */
};

enum ls_status ls__sync_choose(struct sync *sync, const struct ls_train_options *o) LS_MUST_CHECK;
/* Collective. The session's options are for the models that a way makes besides the session's. */
enum ls_status ls__sync_open(struct sync *sync, struct session *s, const struct session_options *o,
                             const struct train_state *st, int64_t steps_per_epoch) LS_MUST_CHECK;
void ls__sync_close(struct sync *sync);
enum ls_status ls__sync_step(struct sync *sync, const struct ls_exec_step *step, bool stop, bool save,
                             struct ls_exec_stats *stats) LS_MUST_CHECK;
enum ls_status ls__sync_end_epoch(struct sync *sync) LS_MUST_CHECK;
bool ls__sync_is_settled(const struct sync *sync);
enum ls_status ls__sync_view(struct sync *sync, struct tally *pending) LS_MUST_CHECK;
enum ls_status ls__sync_tell_state(const struct sync *sync, struct train_state *st) LS_MUST_CHECK;
void ls__sync_report(const struct sync *sync, struct ls_result *r);
void ls__sync_tell_workers(const struct sync *sync, struct ls_elastic_result *out); /* none: n_told is 0 */
int64_t ls__sync_samples(const struct sync *sync);
struct ls_exec *ls__sync_measured(const struct sync *sync);
void ls__sync_say_hello(const struct sync *sync);
enum ls_status ls__sync_foretell(struct sync *sync, struct forecast *f) LS_MUST_CHECK;

#endif
