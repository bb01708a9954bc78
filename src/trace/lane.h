/* lane.h: a lane's data, shared by the files of this module.
 *
 * Atomics are relaxed unless a comment says otherwise: one thread writes, and it needs no read-modify-write.
 */
#ifndef LS_TRACE_LANE_H
#define LS_TRACE_LANE_H

#include "trace/trace.h"

#include <pthread.h>
#include <stdatomic.h>

enum { LS_MAX_DEPTH = 16 }; /* spans that are deeper still are not kept; their time is the sixteenth's */

/* An open span. The lane's thread's. */
struct frame {
    enum ls_span_kind kind;
    enum ls_span_kind charged_before; /* whose time it was outside */
    bool is_op;                       /* its CPU time is wanted */
    const char *name;
    int64_t start_ns, cpu_ns, arg;
};

/* What is kept of a span while somebody listens. */
struct slot {
    _Atomic(const char *) name;
    atomic_int_fast64_t start_ns, end_ns, arg;
    atomic_int kind_and_depth; /* depth * LS_N_SPAN_KINDS + kind */
};

/* Written round and round. Span i lies in slot i % n_slots from when done > i until begun > i + n_slots. */
struct ring {
    uint64_t n_slots;           /* a power of two */
    atomic_uint_fast64_t begun; /* spans that the writer has begun to write */
    atomic_uint_fast64_t done;  /* and finished */
    struct slot slots[];
};

struct op_times {
    int n;
    atomic_int_fast64_t ns[];
};

struct ls_lane {
    char pad_begin[64]; /* away from what other threads write */
    /* the lane's thread's */
    int depth;
    enum ls_span_kind charged; /* whose time it is now */
    int64_t mark_ns;           /* up to when it is accounted for */
    struct frame frames[LS_MAX_DEPTH];
    /* written by the lane's thread, read by anybody */
    atomic_int_fast64_t self_ns[LS_N_SPAN_KINDS], whole_ns[LS_N_SPAN_KINDS], n[LS_N_SPAN_KINDS];
    /* written by others, before the thread's next span (ops) or at any time (ring, with_ops; release and acquire) */
    struct op_times *ops;        /* NULL: not measured */
    bool are_ops_held;           /* not now */
    _Atomic(struct ring *) ring; /* NULL: nobody listens */
    atomic_bool with_ops;
    /* under the trace's lock, or never changed */
    struct ls_trace *trace;
    const char *name;
    int number;
    bool is_taken;
    _Atomic(struct ls_lane *) next; /* release and acquire */
    char pad_end[64];
};

struct ls_trace {
    pthread_mutex_t lock;            /* taking, giving back, listening */
    _Atomic(struct ls_lane *) first; /* main; lanes are added at the end and stay */
    struct ls_lane *last;
    uint64_t n_slots; /* of every ring; 0: nobody listens */
    bool with_ops, has_abandoned;
};

/* ring.c */
enum ls_status ls__trace_ring_create(struct ring **out, uint64_t n_slots) LS_MUST_CHECK;
void ls__trace_ring_keep(struct ring *ring, const struct frame *frame, int depth, int64_t end_ns);

#endif
