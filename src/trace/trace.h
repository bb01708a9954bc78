/* trace.h: where the time goes: spans, and what they add up to.
 *
 * A trace is one object per run, made by whoever begins it and handed down. It has lanes, one per thread: the main
 * thread, the pool's workers, loader, checkpoint writer, communication thread. A span is a stretch of a lane's time:
 *
 *     struct ls_begun begun = ls__span_begin(lane, LS_SPAN_LOAD, "batch", step);
 *     ...
 *     int64_t ns = ls__span_end(lane, begun);
 *
 * That costs two reads of the clock and a few stores, no lock; it allocates nothing and cannot fail. A lane may be
 * NULL (nobody measures): then the clock is still read, so that the length is right, and nothing is kept.
 *
 * Totals are always made, per lane and kind. A span inside another takes its time away from the outer one:
 *
 *     lane   OTHER |-- STEP --|- LOAD -|-- STEP --|------- COMPUTE -------|-- STEP --| OTHER
 *     spans         [step      [batch]             [shard  [op][op]       ]          ]
 *
 * so that the self times of a lane add up to its age, whatever nests in what; what no span covers is OTHER. Only STEP,
 * ROUND and SUM give their time to what is inside. In all other kinds the outermost wins: the batches that an
 * evaluation loads are EVALUATE, the ops of a shard are COMPUTE, and no total depends on how finely somebody else
 * looks.
 *
 * Spans themselves are kept only while somebody listens (ls__trace_listen): a ring per lane, the oldest overwritten and
 * counted. It may be read while its lane goes on.
 *
 * Invariants:
 *   1. One thread at a time writes a lane; handing it on needs an order of its own (a pool's round, a join).
 *   2. Anybody may read totals and rings at any time. Totals are as of the lane's last begin or end.
 *   3. A lane lives as long as its trace. Taken again, its totals go on.
 *   4. Names of spans are not copied: a name lives until the trace is read for the last time.
 *   5. What ends an outer span ends those inside it that were forgotten (after a failure).
 */
#ifndef LS_TRACE_TRACE_H
#define LS_TRACE_TRACE_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* X(kind, name) */
#define LS_SPAN_KINDS(X)                                                                                               \
    X(OTHER, "other")             /* what no span covers */                                                            \
    X(SETUP, "setup")             /* before the first step */                                                          \
    X(STEP, "step")               /* a step; its own time is waiting: for threads, ranks, the start of a round */      \
    X(ROUND, "round")             /* a round over threads and ranks; its own time is waiting for the others */         \
    X(LOAD, "load")               /* main: waiting for the loader; loader: making a batch. Argument: step */           \
    X(COMPUTE, "compute")         /* shards, copies of parameters, sums over kept rows. Shard; op */                   \
    X(UPDATE, "update")           /* updates of parameters and statistics. Op */                                       \
    X(COMMUNICATE, "communicate") /* waiting for sums of other machines: exposed communication. Step; op; sum */       \
    X(BARRIER, "barrier")         /* waiting for the other ranks of the machine */                                     \
    X(EVALUATE, "evaluate")       /* everything done for test data. Step; shard */                                     \
    X(CHECKPOINT, "checkpoint")   /* what checkpoints take from the training thread. Step */                           \
    X(OP, "op")                   /* an op of a shard, while somebody listens. Op */                                   \
    X(DECODE, "decode")           /* loader: one sample. Sample */                                                     \
    X(WRITE, "write")             /* writer: a checkpoint. Step */                                                     \
    X(SUM, "sum")                 /* communication thread: sums of a step travel; its own time: nobody waits */

enum ls_span_kind {
#define X(kind, name) LS_SPAN_##kind,
    LS_SPAN_KINDS(X)
#undef X
        LS_N_SPAN_KINDS
};
const char *ls__span_kind_name(enum ls_span_kind kind);

struct ls_trace;
struct ls_lane;

/* start_ns: when the run began (ls__now_ns); the main lane's age counts from there. */
enum ls_status ls__trace_create(struct ls_trace **out, int64_t start_ns) LS_MUST_CHECK;
void ls__trace_destroy(struct ls_trace **trace); /* when no thread writes any more */

/* --- lanes --- */

/* That of the thread which the run belongs to; NULL without a trace. */
struct ls_lane *ls__trace_main(struct ls_trace *trace);
/* A lane for one more thread ("worker"): one of that name that was given back, or a new one. NULL without a trace. The
 * name lives as long as the trace. */
enum ls_status ls__lane_take(struct ls_trace *trace, const char *name, struct ls_lane **out) LS_MUST_CHECK;
void ls__lane_give_back(struct ls_lane *lane); /* its thread has ended or writes no more; NULL is fine */
/* Its thread may hang for ever, or wake up after all: the trace is never freed, whoever destroys it. NULL is fine. */
void ls__lane_abandon(struct ls_lane *lane);
/* All lanes: the first (that is main) for NULL, the one after `lane`, NULL at the end. */
const struct ls_lane *ls__trace_next_lane(const struct ls_trace *trace, const struct ls_lane *lane);
const char *ls__lane_name(const struct ls_lane *lane);
int ls__lane_number(const struct ls_lane *lane); /* among those of its name, from 0 */

/* --- spans; the lane's thread --- */

struct ls_begun {
    int64_t start_ns;
    int depth;
};
struct ls_begun ls__span_begin(struct ls_lane *lane, enum ls_span_kind kind, const char *name, int64_t arg);
int64_t ls__span_end(struct ls_lane *lane, struct ls_begun begun); /* how long it was, ns */
/* The same for a wait of which one learns afterwards what it was: its last parts[0].ns + parts[1].ns + ... become spans
 * of their own behind it, in this order. Parts that are longer than the span together lose at their beginning. */
struct ls_span_part {
    enum ls_span_kind kind;
    const char *name;
    int64_t ns;
};
int64_t ls__span_end_in_parts(struct ls_lane *lane, struct ls_begun begun, const struct ls_span_part *parts, int n);

/* The same for work on an op: while ops are measured (below) its CPU time is added to the op's. */
struct ls_begun ls__op_begin(struct ls_lane *lane, enum ls_span_kind kind, const char *name, int op);
/* Whether anybody wants to know of single ops: spans of kind OP are not begun otherwise. */
bool ls__lane_wants_ops(const struct ls_lane *lane);

/* --- totals; anybody --- */

struct ls_totals {
    int64_t self_ns[LS_N_SPAN_KINDS];  /* without what was charged to spans inside; adds up to the lane's age */
    int64_t whole_ns[LS_N_SPAN_KINDS]; /* of spans that ended, from begin to end */
    int64_t n[LS_N_SPAN_KINDS];        /* spans that ended */
};
void ls__lane_totals(const struct ls_lane *lane, struct ls_totals *totals); /* zeros for NULL */

/* The wall clock of a run in parts that add up to it (split.c), as the main lane saw it. Its threads compute and update
 * side by side: the mean over n_threads is compute and update, the rest of the step is wait. */
struct ls_time_split {
    double setup, load, compute, update, communicate, wait, checkpoint, evaluate, other; /* seconds */
    double hidden; /* not one of the parts: for so long sums travelled while no thread waited for them */
};
struct ls_time_split ls__trace_split(const struct ls_trace *trace, int n_threads);

/* CPU time by op, kept for the ops [0, n_ops) from now on; more ops than before: the times stay. While the lane's
 * thread is idle. */
enum ls_status ls__lane_measure_ops(struct ls_lane *lane, int n_ops) LS_MUST_CHECK;
void ls__lane_forget_ops(struct ls_lane *lane);
/* While they are held no op is measured, and what was measured stays. While the lane's thread is idle. */
void ls__lane_hold_ops(struct ls_lane *lane, bool is_held);
int64_t ls__lane_op_ns(const struct ls_lane *lane, int op); /* 0 for one that is not measured */

/* --- listening --- */

struct ls_span {
    enum ls_span_kind kind;
    const char *name;
    int64_t start_ns, end_ns; /* CLOCK_MONOTONIC */
    int64_t arg;
    int depth; /* 0: in no other span */
};

/* From now on every lane keeps its last n_spans spans (rounded up to a power of two), with_ops those of single ops too.
 * Once per trace. */
enum ls_status ls__trace_listen(struct ls_trace *trace, int n_spans, bool with_ops) LS_MUST_CHECK;
/* Whether the spans of single ops are kept from now on. Any thread. */
void ls__trace_want_ops(struct ls_trace *trace, bool with_ops);
/* The spans from *at on (0 at first), in the order in which they ended, at most n into out. Returns how many; *at moves
 * on, *n_lost grows by those that were overwritten before they could be read. One reader per *at, any thread. */
int ls__lane_read(const struct ls_lane *lane, int64_t *at, struct ls_span *out, int n, int64_t *n_lost);

#endif
