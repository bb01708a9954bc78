/* comm_thread.c: the one thread that talks to the transport.
 *
 *     main                          communication thread
 *     ls__comm_thread_call(fn) ------>  runs fn(c, arg)          agreement, broadcast
 *                          <------  status and message
 *     ls__comm_thread_sum()    ------>  ls__travel(c)            while main computes
 *
 * The transport is opened here too: MPI wants all its calls from the thread that began it. Waits inside fn end by
 * themselves; only opening may block for ever (a rank that never comes), so the first call has a deadline here.
 */
#include "base/clock.h"
#include "base/pool.h"
#include "comm/comm_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static void serve_call(struct ls_comm *c)
{
    struct comm_thread *k = &c->thread;
    pthread_mutex_unlock(&k->lock);
    enum ls_status status = k->fn(c, k->arg);
    pthread_mutex_lock(&k->lock);
    k->outcome = ls__keep(status);
    k->fn = NULL;
    pthread_cond_broadcast(&k->done);
}

static void copy_job(struct sum_job *to, const struct sum_job *from)
{
    to->block = from->block;
    to->n_buckets = from->n_buckets;
    to->kind = from->kind;
    memcpy(to->buckets, from->buckets, (size_t)from->n_buckets * sizeof *from->buckets);
}

void ls__sum_travels(struct ls_comm *c, bool is_under_way)
{
    struct comm_thread *k = &c->thread;
    const int64_t sum = atomic_load_explicit(&c->n_sums, memory_order_relaxed);
    bool is_awaited = is_under_way && atomic_load_explicit(&c->n_waiting, memory_order_relaxed) > 0;
    if (is_under_way && !k->is_under_way) k->travel = ls__span_begin(c->lane, c->running.kind, "sums", sum);
    if (is_awaited && !k->is_awaited) k->awaited = ls__span_begin(c->lane, LS_SPAN_COMMUNICATE, "awaited", sum);
    if (!is_awaited && k->is_awaited) ls__span_end(c->lane, k->awaited);
    if (!is_under_way && k->is_under_way) ls__span_end(c->lane, k->travel);
    k->is_under_way = is_under_way;
    k->is_awaited = is_awaited;
}

static void serve_sum(struct ls_comm *c)
{
    struct comm_thread *k = &c->thread;
    k->sum_wanted = false;
    copy_job(&c->running, &k->sum);
    pthread_mutex_unlock(&k->lock);
    enum ls_status status = ls__travel(c);
    ls__sum_travels(c, false);
    if (status != LS_OK) {
        c->board->sum_failure = ls__keep(status);
        atomic_store(&c->board->has_sum_failed, true);
        atomic_fetch_add(&c->board->summed_word, 1);
        ls__futex_wake(&c->board->summed_word);
    }
    pthread_mutex_lock(&k->lock);
}

/* Sleeps until there is work, waking for the heartbeat where there is one. */
static void await_work(struct ls_comm *c)
{
    struct comm_thread *k = &c->thread;
    struct timespec until;
    if (!c->heard) {
        pthread_cond_wait(&k->wake, &k->lock);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 20000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    if (pthread_cond_timedwait(&k->wake, &k->lock, &until) == ETIMEDOUT) {
        pthread_mutex_unlock(&k->lock);
        ls__link_pump(c);
        pthread_mutex_lock(&k->lock);
    }
}

static void *thread_main(void *arg)
{
    struct ls_comm *c = arg;
    struct comm_thread *k = &c->thread;
    prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL); /* naps of 20 us shall not last 70 */
    pthread_mutex_lock(&k->lock);
    while (!k->is_ending) {
        if (k->fn)
            serve_call(c);
        else if (k->sum_wanted)
            serve_sum(c);
        else
            await_work(c);
    }
    pthread_mutex_unlock(&k->lock);
    if (k->is_open && !c->has_failed) {
        ls__link_close(c);
        c->transport->close();
    }
    pthread_mutex_lock(&k->lock);
    k->is_closed = true;
    pthread_cond_broadcast(&k->done);
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

/* MPI ends a process with exit() from a thread of its own when it has lost its daemon, and the exit handlers would take
 * apart what our threads are using. Our program leaves by _exit, so exit is never its own; other programs decide
 * for themselves. */
static void leave_at_once(void)
{
    _exit(ls_status_exit_code(LS_REMOTE));
}

static enum ls_status open_transport(struct ls_comm *c, void *arg)
{
    int rank, n_ranks;
    int failed = c->transport->open(&rank, &n_ranks);
    if (failed == 1) return ls_fail(LS_REMOTE, "join the job: %s", c->transport->error());
    if (failed) return ls_fail((enum ls_status)failed, "%s", c->transport->error());
    pthread_mutex_lock(&c->thread.lock);
    if (!c->thread.is_given_up) { /* else main has gone on, as what it was before */
        c->place.rank = rank;
        c->place.n_ranks = n_ranks;
        snprintf(c->place.transport, sizeof c->place.transport, "%s", c->transport->describe());
        c->thread.is_open = true;
    }
    pthread_mutex_unlock(&c->thread.lock);
    if (getenv("LOCKSTEP_LAUNCH")) atexit(leave_at_once); /* last in, so first out */
    return LS_OK;
}

enum ls_status ls__comm_thread_start(struct ls_comm *c)
{
    struct comm_thread *k = &c->thread;
    pthread_mutex_init(&k->lock, NULL);
    pthread_condattr_t monotonic; /* the wall clock may jump */
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&k->wake, &monotonic);
    pthread_cond_init(&k->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    TRY(ls__thread_start(&k->thread, "the communication thread", thread_main, c));
    k->is_started = true;
    return ls__comm_thread_call(c, open_transport, NULL);
}

/* Until the call is done, or, before the transport is open, the timeout. */
static bool await_done(struct ls_comm *c)
{
    struct comm_thread *k = &c->thread;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)c->timeout + 1;
    while (k->fn) {
        if (k->is_open || c->transport->is_bounded)
            pthread_cond_wait(&k->done, &k->lock);
        else if (pthread_cond_timedwait(&k->done, &k->lock, &until) == ETIMEDOUT && !k->is_open)
            return false;
    }
    return true;
}

enum ls_status ls__comm_thread_call(struct ls_comm *c, comm_thread_fn *fn, void *arg)
{
    struct comm_thread *k = &c->thread;
    pthread_mutex_lock(&k->lock);
    k->arg = arg;
    k->fn = fn;
    pthread_cond_signal(&k->wake);
    bool is_done = await_done(c);
    k->is_given_up = !is_done;
    struct ls_kept outcome = k->outcome;
    pthread_mutex_unlock(&k->lock);
    if (!is_done) {
        c->has_failed = true;
        return ls_fail(LS_TIMEOUT, "not all processes of the job came within %.3g s; see whether every host runs",
                       c->timeout);
    }
    return ls__fail_again(&outcome);
}

void ls__comm_thread_sum(struct ls_comm *c, const struct sum_job *job)
{
    pthread_mutex_lock(&c->thread.lock);
    copy_job(&c->thread.sum, job);
    c->thread.sum_wanted = true;
    pthread_cond_signal(&c->thread.wake);
    pthread_mutex_unlock(&c->thread.lock);
}

/* The transport may hang in its own good-bye, when something has got hold of its daemon. */
static bool await_closed(struct comm_thread *k)
{
    enum { PATIENCE_S = 5 };
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)2 * PATIENCE_S; /* ls__link_close takes as long */
    while (!k->is_closed && pthread_cond_timedwait(&k->done, &k->lock, &until) != ETIMEDOUT) continue;
    return k->is_closed;
}

void ls__comm_thread_stop(struct ls_comm *c)
{
    struct comm_thread *k = &c->thread;
    if (!k->is_started) return;
    if (c->has_failed) return; /* it may hang inside the transport: the process ends, and it with it */
    pthread_mutex_lock(&k->lock);
    k->is_ending = true;
    pthread_cond_signal(&k->wake);
    c->has_failed = !await_closed(k);
    pthread_mutex_unlock(&k->lock);
    if (c->has_failed) return;
    pthread_join(k->thread, NULL);
    pthread_mutex_destroy(&k->lock);
    pthread_cond_destroy(&k->wake);
    pthread_cond_destroy(&k->done);
    k->is_started = false;
}
