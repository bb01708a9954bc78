/* trace.c: the life of a trace and its lanes; who listens. See trace.h. */
#include "base/clock.h"
#include "base/mem.h"
#include "trace/lane.h"

#include <stdlib.h>
#include <string.h>

static enum ls_status start_listening(const struct ls_trace *t, struct ls_lane *lane)
{
    struct ring *ring = NULL;
    if (t->n_slots == 0) return LS_OK;
    TRY(ls__trace_ring_create(&ring, t->n_slots));
    atomic_store_explicit(&lane->with_ops, t->with_ops, memory_order_relaxed);
    atomic_store_explicit(&lane->ring, ring, memory_order_release);
    return LS_OK;
}

static void append(struct ls_trace *t, struct ls_lane *lane)
{
    if (t->last)
        atomic_store_explicit(&t->last->next, lane, memory_order_release);
    else
        atomic_store_explicit(&t->first, lane, memory_order_release);
    t->last = lane;
}

/* Under the lock. */
static enum ls_status add_lane(struct ls_trace *t, const char *name, int64_t start_ns, struct ls_lane **out)
{
    struct ls_lane *lane;
    TRY(ls__calloc(&lane, 1, sizeof *lane));
    lane->trace = t;
    lane->name = name;
    lane->mark_ns = start_ns;
    lane->is_taken = true;
    for (const struct ls_lane *other = NULL; (other = ls__trace_next_lane(t, other));)
        lane->number += strcmp(other->name, name) == 0;
    enum ls_status status = start_listening(t, lane);
    if (status != LS_OK)
        free(lane);
    else
        append(t, *out = lane);
    return status;
}

enum ls_status ls__trace_create(struct ls_trace **out, int64_t start_ns)
{
    struct ls_lane *lane;
    *out = NULL;
    TRY(ls__calloc(out, 1, sizeof **out));
    pthread_mutex_init(&(*out)->lock, NULL);
    enum ls_status status = add_lane(*out, "main", start_ns, &lane);
    if (status != LS_OK) ls__trace_destroy(out);
    return status;
}

void ls__trace_destroy(struct ls_trace **trace)
{
    struct ls_trace *t = *trace;
    *trace = NULL;
    if (!t || t->has_abandoned) return;
    for (struct ls_lane *lane = atomic_load(&t->first), *next; lane; lane = next) {
        next = atomic_load(&lane->next);
        free(atomic_load(&lane->ring));
        free(lane->ops);
        free(lane);
    }
    pthread_mutex_destroy(&t->lock);
    free(t);
}

struct ls_lane *ls__trace_main(struct ls_trace *t)
{
    return t ? atomic_load_explicit(&t->first, memory_order_acquire) : NULL;
}

static struct ls_lane *find_free(struct ls_trace *t, const char *name)
{
    for (struct ls_lane *l = atomic_load(&t->first); l; l = atomic_load(&l->next))
        if (!l->is_taken && strcmp(l->name, name) == 0) return l;
    return NULL;
}

enum ls_status ls__lane_take(struct ls_trace *t, const char *name, struct ls_lane **out)
{
    enum ls_status status = LS_OK;
    *out = NULL;
    if (!t) return LS_OK;
    pthread_mutex_lock(&t->lock);
    *out = find_free(t, name);
    if (*out)
        (*out)->is_taken = true;
    else
        status = add_lane(t, name, ls__now_ns(), out);
    pthread_mutex_unlock(&t->lock);
    return status;
}

void ls__lane_give_back(struct ls_lane *lane)
{
    if (!lane) return;
    pthread_mutex_lock(&lane->trace->lock);
    lane->is_taken = false;
    pthread_mutex_unlock(&lane->trace->lock);
}

void ls__lane_abandon(struct ls_lane *lane)
{
    if (lane) lane->trace->has_abandoned = true;
}

const struct ls_lane *ls__trace_next_lane(const struct ls_trace *t, const struct ls_lane *lane)
{
    if (!t) return NULL;
    return lane ? atomic_load_explicit(&lane->next, memory_order_acquire)
                : atomic_load_explicit(&t->first, memory_order_acquire);
}

const char *ls__lane_name(const struct ls_lane *lane)
{
    return lane->name;
}

int ls__lane_number(const struct ls_lane *lane)
{
    return lane->number;
}

enum ls_status ls__lane_measure_ops(struct ls_lane *lane, int n_ops)
{
    struct op_times *more;
    if (!lane) return LS_OK;
    TRY(ls__calloc(&more, 1, sizeof *more + (size_t)n_ops * sizeof more->ns[0]));
    more->n = n_ops;
    for (int i = 0; i < n_ops; i++) atomic_store(&more->ns[i], ls__lane_op_ns(lane, i));
    free(lane->ops);
    lane->ops = more;
    return LS_OK;
}

void ls__lane_forget_ops(struct ls_lane *lane)
{
    if (!lane) return;
    free(lane->ops);
    lane->ops = NULL;
    lane->are_ops_held = false;
}

void ls__lane_hold_ops(struct ls_lane *lane, bool is_held)
{
    if (lane) lane->are_ops_held = is_held;
}

enum ls_status ls__trace_listen(struct ls_trace *t, int n_spans, bool with_ops)
{
    enum ls_status status = LS_OK;
    pthread_mutex_lock(&t->lock);
    if (n_spans < 1 || t->n_slots > 0)
        status = ls_fail(LS_INTERNAL, "a trace of %d spans, or for a second listener", n_spans);
    else
        for (t->n_slots = 1; t->n_slots < (uint64_t)n_spans;) t->n_slots *= 2;
    t->with_ops |= with_ops && status == LS_OK;
    for (struct ls_lane *l = atomic_load(&t->first); l && status == LS_OK; l = atomic_load(&l->next))
        status = start_listening(t, l);
    pthread_mutex_unlock(&t->lock);
    return status;
}

void ls__trace_want_ops(struct ls_trace *t, bool with_ops)
{
    pthread_mutex_lock(&t->lock);
    t->with_ops = with_ops;
    for (struct ls_lane *l = atomic_load(&t->first); l; l = atomic_load(&l->next))
        atomic_store_explicit(&l->with_ops, with_ops && t->n_slots > 0, memory_order_relaxed);
    pthread_mutex_unlock(&t->lock);
}
