/* span.c: spans begin and end; a lane's time is charged to the kind that has it. See trace.h.
 *
 * The lane remembers up to when its time is accounted for, and to whom it belongs now. Every begin and end charges the
 * time since then and moves on: nothing is counted twice or left out.
 */
#include "base/clock.h"
#include "trace/lane.h"

const char *ls__span_kind_name(enum ls_span_kind kind)
{
    static const char *const names[] = {
#define X(kind, name) name,
        LS_SPAN_KINDS(X)
#undef X
    };
    return (unsigned)kind < LS_N_SPAN_KINDS ? names[kind] : "?";
}

static void add(atomic_int_fast64_t *total, int64_t more)
{
    atomic_store_explicit(total, atomic_load_explicit(total, memory_order_relaxed) + more, memory_order_relaxed);
}

static void charge(struct ls_lane *lane, int64_t now)
{
    add(&lane->self_ns[lane->charged], now - lane->mark_ns);
    lane->mark_ns = now;
}

static bool gives_its_time(enum ls_span_kind kind)
{
    return kind == LS_SPAN_OTHER || kind == LS_SPAN_STEP || kind == LS_SPAN_ROUND || kind == LS_SPAN_SUM;
}

static struct ls_begun begin_at(struct ls_lane *lane, enum ls_span_kind kind, const char *name, int64_t arg,
                                int64_t now)
{
    struct ls_begun begun = {.start_ns = now};
    if (!lane) return begun;
    begun.depth = lane->depth++;
    if (begun.depth >= LS_MAX_DEPTH) return begun;
    lane->frames[begun.depth] = (struct frame){
        .kind = kind, .charged_before = lane->charged, .name = name, .start_ns = begun.start_ns, .arg = arg};
    charge(lane, begun.start_ns);
    if (gives_its_time(lane->charged)) lane->charged = kind;
    return begun;
}

struct ls_begun ls__span_begin(struct ls_lane *lane, enum ls_span_kind kind, const char *name, int64_t arg)
{
    return begin_at(lane, kind, name, arg, ls__now_ns());
}

struct ls_begun ls__op_begin(struct ls_lane *lane, enum ls_span_kind kind, const char *name, int op)
{
    struct ls_begun begun = ls__span_begin(lane, kind, name, op);
    if (!lane || !lane->ops || lane->are_ops_held || begun.depth >= LS_MAX_DEPTH) return begun;
    lane->frames[begun.depth].is_op = true;
    lane->frames[begun.depth].cpu_ns = ls__thread_ns();
    return begun;
}

static void end_frame(struct ls_lane *lane, const struct frame *f, int64_t now)
{
    struct ring *ring = atomic_load_explicit(&lane->ring, memory_order_acquire);
    if (f->is_op && lane->ops && f->arg >= 0 && f->arg < lane->ops->n)
        add(&lane->ops->ns[f->arg], ls__thread_ns() - f->cpu_ns);
    charge(lane, now);
    lane->charged = f->charged_before;
    add(&lane->whole_ns[f->kind], now - f->start_ns);
    add(&lane->n[f->kind], 1);
    if (ring) ls__trace_ring_keep(ring, f, (int)(f - lane->frames), now);
}

static void end_at(struct ls_lane *lane, struct ls_begun begun, int64_t now)
{
    while (lane && lane->depth > begun.depth)
        if (--lane->depth < LS_MAX_DEPTH) end_frame(lane, &lane->frames[lane->depth], now);
}

int64_t ls__span_end(struct ls_lane *lane, struct ls_begun begun)
{
    const int64_t now = ls__now_ns();
    end_at(lane, begun, now);
    return now - begun.start_ns;
}

int64_t ls__span_end_in_parts(struct ls_lane *lane, struct ls_begun begun, const struct ls_span_part *parts, int n)
{
    const int64_t now = ls__now_ns();
    const int64_t arg = lane && begun.depth < LS_MAX_DEPTH ? lane->frames[begun.depth].arg : 0;
    int64_t at = now;
    for (int i = 0; i < n; i++) at -= parts[i].ns;
    end_at(lane, begun, at > begun.start_ns ? at : begun.start_ns);
    for (int i = 0; i < n; i++) {
        const int64_t start = at > begun.start_ns ? at : begun.start_ns;
        at += parts[i].ns;
        if (at <= start) continue;
        end_at(lane, begin_at(lane, parts[i].kind, parts[i].name, arg, start), at);
    }
    return now - begun.start_ns;
}

bool ls__lane_wants_ops(const struct ls_lane *lane)
{
    return lane && ((lane->ops && !lane->are_ops_held) || atomic_load_explicit(&lane->with_ops, memory_order_relaxed));
}

void ls__lane_totals(const struct ls_lane *lane, struct ls_totals *t)
{
    *t = (struct ls_totals){0};
    for (int k = 0; lane && k < LS_N_SPAN_KINDS; k++) {
        t->self_ns[k] = atomic_load_explicit(&lane->self_ns[k], memory_order_relaxed);
        t->whole_ns[k] = atomic_load_explicit(&lane->whole_ns[k], memory_order_relaxed);
        t->n[k] = atomic_load_explicit(&lane->n[k], memory_order_relaxed);
    }
}

int64_t ls__lane_op_ns(const struct ls_lane *lane, int op)
{
    if (!lane || !lane->ops || op < 0 || op >= lane->ops->n) return 0;
    return atomic_load_explicit(&lane->ops->ns[op], memory_order_relaxed);
}
