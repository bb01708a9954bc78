/* timeline.c: the thread that turns the spans of all lanes into trace.json. See timeline.h.
 *
 * Which spans are wanted with everything inside is decided by the training thread, which alone knows when a step ends:
 * it notes the time at the second step and n_steps later, and asks for the spans of single ops in between.
 */
#include "record/timeline.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "record/event.h"
#include "record/process.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
    MAX_LANES = 256,
    RING_SPANS = 1 << 14, /* 640 kB a lane; at a hundred thousand spans a second the thread may be late by 160 ms */
    AT_ONCE = 256,
    MAX_COARSE = 100000,
    MAX_FINE_BYTES = 32 << 20,
    WARM_UP_STEPS = 2,
};
static const int64_t nap_fine_ns = 10 * 1000000LL, nap_coarse_ns = 100 * 1000000LL, counter_ns = 500 * 1000000LL;

struct ls_timeline {
    struct ls_timeline_options o; /* never changes, as the next */
    struct ls_event_place place;
    pthread_t thread;
    atomic_int_fast64_t fine_from_ns, fine_until_ns; /* written by the training thread; 0: not yet */
    atomic_bool is_ending;
    pthread_mutex_t lock; /* of is_ending, for the sleep */
    pthread_cond_t wake;
    /* the thread's own; after it has ended the caller's */
    int64_t at[MAX_LANES];
    int n_lanes; /* that have a name in the file */
    int64_t n_coarse, fine_bytes, n_lost, n_cut_coarse, n_cut_fine;
    int64_t n_steps, counted_steps, counted_ns;
    bool is_broken, is_stopped;
};

static void write_lines(struct ls_timeline *t, const char *text, size_t len)
{
    while (len > 0 && !t->is_broken) {
        ssize_t n = write(t->o.fd, text, len);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            ls__log(LS_LOG_WARN, "trace.json ends here: %s", strerror(n < 0 ? errno : ENOSPC));
            t->is_broken = true;
            return;
        }
        text += n;
        len -= (size_t)n;
    }
}

static void flush(struct ls_timeline *t, struct ls_buf *b)
{
    if (ls__buf_check(b) == LS_OK)
        write_lines(t, b->text, b->len);
    else
        ls__buf_release(b); /* memory is short: these are lost */
    if (b->len > 0) ls__buf_truncate(b, 0);
}

/* --- which spans are kept --- */

/* Set-up, steps, evaluations and checkpoints as the main thread saw them; files as the writer did. */
static bool is_coarse(const struct ls_span *s, int tid)
{
    return s->depth == 0 && (tid == 1 || s->kind == LS_SPAN_WRITE);
}

static bool is_in_window(const struct ls_timeline *t, const struct ls_span *s)
{
    int64_t from = atomic_load_explicit(&t->fine_from_ns, memory_order_relaxed);
    int64_t until = atomic_load_explicit(&t->fine_until_ns, memory_order_relaxed);
    return from > 0 && s->start_ns >= from && (until == 0 || s->end_ns <= until);
}

static void take_span(struct ls_timeline *t, struct ls_buf *b, int tid, const struct ls_span *s)
{
    bool coarse = is_coarse(s, tid);
    t->n_steps += s->kind == LS_SPAN_STEP;
    if (coarse && t->n_coarse >= MAX_COARSE) {
        t->n_cut_coarse++;
        return;
    }
    t->n_coarse += coarse;
    if (!coarse && (!is_in_window(t, s) || t->fine_bytes >= MAX_FINE_BYTES)) {
        t->n_cut_fine++;
        return;
    }
    size_t before = b->len;
    ls__event_span(b, &t->place, tid, s);
    if (coarse) return;
    t->fine_bytes += (int64_t)(b->len - before);
    if (t->fine_bytes >= MAX_FINE_BYTES) ls__trace_want_ops(t->o.trace, false);
}

static void read_lanes(struct ls_timeline *t, struct ls_buf *b)
{
    struct ls_span spans[AT_ONCE];
    int i = 0, n;
    for (const struct ls_lane *lane = NULL; (lane = ls__trace_next_lane(t->o.trace, lane)) && i < MAX_LANES; i++) {
        if (i == t->n_lanes) {
            ls__event_name_lane(b, &t->place, i + 1, lane);
            t->n_lanes++;
        }
        while ((n = ls__lane_read(lane, &t->at[i], spans, AT_ONCE, &t->n_lost)) > 0) {
            for (int k = 0; k < n; k++) take_span(t, b, i + 1, &spans[k]);
            flush(t, b);
        }
    }
}

/* Twice a second, and once at the end: a short run has its figures too. */
static void count(struct ls_timeline *t, struct ls_buf *b, bool is_last)
{
    struct ls_process_use use;
    int64_t now = ls__now_ns();
    if ((now - t->counted_ns < counter_ns && !is_last) || now == t->counted_ns || t->n_coarse >= MAX_COARSE) return;
    double speed = 1e9 * (double)((t->n_steps - t->counted_steps) * t->o.batch_size) / (double)(now - t->counted_ns);
    ls__event_counter(b, &t->place, now, "speed", "images/s", speed);
    if (ls__process_read(getpid(), false, &use))
        ls__event_counter(b, &t->place, now, "memory", "MB", (double)use.rss_bytes / (1024 * 1024));
    t->counted_ns = now;
    t->counted_steps = t->n_steps;
    t->n_coarse++;
}

/* --- the thread --- */

static bool nap(struct ls_timeline *t)
{
    bool is_fine = atomic_load(&t->fine_from_ns) > 0 && atomic_load(&t->fine_until_ns) == 0;
    int64_t due_ns = ls__now_ns() + (is_fine ? nap_fine_ns : nap_coarse_ns);
    struct timespec due = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};
    pthread_mutex_lock(&t->lock);
    if (!atomic_load(&t->is_ending)) pthread_cond_timedwait(&t->wake, &t->lock, &due);
    bool goes_on = !atomic_load(&t->is_ending);
    pthread_mutex_unlock(&t->lock);
    return goes_on;
}

/* What a reader has to know of what is not there. */
static void tell_left_out(struct ls_timeline *t, struct ls_buf *b)
{
    int64_t now = ls__now_ns() + t->o.offset_ns;
    ls__buf_addf(
        b,
        "{\"ph\":\"i\",\"s\":\"p\",\"pid\":%d,\"tid\":1,\"ts\":%lld.%03d,\"cat\":\"recorded\",\"name\":\"recorded\","
        "\"args\":{\"steps_in_full\":%lld,\"left_out_outside_of_them\":%lld,\"left_out_beyond_the_limit\":%lld,"
        "\"lost\":%lld,\"clock_error_us\":%.3f}},\n",
        t->o.rank, (long long)(now / 1000), (int)(now % 1000), (long long)t->o.n_steps, (long long)t->n_cut_fine,
        (long long)t->n_cut_coarse, (long long)t->n_lost, 1e-3 * (double)t->o.error_ns);
}

static void *follow(void *arg)
{
    struct ls_timeline *t = arg;
    prctl(PR_SET_NAME, "record");
    struct ls_buf b = LS_BUF_INIT;
    ls__buf_adds(&b, "[\n");
    ls__event_name_rank(&b, &t->place, t->o.host);
    flush(t, &b);
    bool goes_on = true;
    while (goes_on) {
        goes_on = nap(t);
        read_lanes(t, &b);
        count(t, &b, !goes_on);
        flush(t, &b);
    }
    tell_left_out(t, &b);
    flush(t, &b);
    ls__buf_release(&b);
    return NULL;
}

static enum ls_status start(struct ls_timeline *t)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&t->wake, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&t->lock, NULL);
    t->counted_ns = ls__now_ns();
    TRY(ls__trace_listen(t->o.trace, RING_SPANS, false));
    int error = pthread_create(&t->thread, NULL, follow, t);
    return error ? ls_fail(LS_NOMEM, "start the thread that writes trace.json: %s", strerror(error)) : LS_OK;
}

enum ls_status ls__timeline_open(struct ls_timeline **out, const struct ls_timeline_options *o)
{
    enum ls_status status = ls__calloc(out, 1, sizeof **out);
    if (status == LS_OK) {
        (*out)->o = *o;
        (*out)->place = (struct ls_event_place){.rank = o->rank, .offset_ns = o->offset_ns};
        status = start(*out);
    }
    if (status == LS_OK) return LS_OK;
    close(o->fd);
    free(*out);
    *out = NULL;
    return status;
}

void ls__timeline_step(struct ls_timeline *t, int64_t n_done)
{
    if (!t) return;
    if (n_done == WARM_UP_STEPS && t->o.n_steps > 0) {
        atomic_store(&t->fine_from_ns, ls__now_ns());
        ls__trace_want_ops(t->o.trace, true);
    }
    if (n_done == WARM_UP_STEPS + t->o.n_steps) {
        ls__trace_want_ops(t->o.trace, false);
        atomic_store(&t->fine_until_ns, ls__now_ns());
    }
}

void ls__timeline_stop(struct ls_timeline *t)
{
    if (!t || t->is_stopped) return;
    pthread_mutex_lock(&t->lock);
    atomic_store(&t->is_ending, true);
    pthread_cond_signal(&t->wake);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    t->is_stopped = true;
}

void ls__timeline_close(struct ls_timeline **timeline)
{
    static const char end[] =
        "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":0,\"tid\":1,\"args\":{\"sort_index\":0}}\n]\n";
    struct ls_timeline *t = *timeline;
    if (!t) return;
    ls__timeline_stop(t);
    write_lines(t, end, sizeof end - 1);
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
    close(t->o.fd);
    free(t);
    *timeline = NULL;
}

size_t ls__timeline_lines(struct ls_timeline *t, int64_t *at, char *out, size_t room)
{
    if (!t || t->is_broken) return 0;
    if (*at == 0) *at = 2; /* "[\n" */
    ssize_t n = pread(t->o.fd, out, room, (off_t)*at);
    while (n > 0 && out[n - 1] != '\n') n--;
    if (n <= 0) return 0;
    *at += n;
    return (size_t)n;
}

void ls__timeline_append(struct ls_timeline *t, const char *lines, size_t bytes)
{
    if (t) write_lines(t, lines, bytes);
}
