/* pool.c: see pool.h.
 *
 * A round is one word, `todo`: the next item and the number of items. To claim an item is to raise the next by one
 * while it is below the number; whoever has claimed one may read the round's function and argument, for the round
 * cannot end before that item is done. So nobody has to be told that a round began or ended: a worker that slept
 * through it has missed nothing, and the caller waits for items, never for workers.
 *
 * Workers spin on the word for a short while (the gap between two rounds of a training step is microseconds), then
 * sleep on a condition variable. A sleeper counts itself before it looks at the word for the last time, and the caller
 * looks at the count after writing the word, so one of the two sees the other.
 */
#include "base/pool.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/status_kept.h"
#include "base/tiny.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPIN_NS = 100000, CACHE_LINE = 64 };

struct worker {
    struct ls_pool *pool;
    pthread_t thread;
    int index;
    bool started;
};

struct ls_pool {
    int n_threads;
    bool may_spin, is_resting;
    void (*at_start)(void);
    struct worker *workers; /* [n_threads]; 0 is the caller */

    pthread_mutex_t lock;
    pthread_cond_t wake;
    atomic_int n_sleeping; /* changed under lock */
    atomic_bool is_ending;

    ls_pool_fn *fn; /* the present round */
    void *arg;
    int failed_item;        /* lowest failing item of the round, or INT32_MAX; under lock */
    struct ls_kept failure; /* its */

    char pad_todo[CACHE_LINE]; /* what spinning threads look at lies apart */
    atomic_uint_fast64_t todo; /* number of items << 32 | next item */
    char pad_done[CACHE_LINE];
    atomic_int n_done;
    char pad_end[CACHE_LINE];
};

static void note_failure(struct ls_pool *p, int item, enum ls_status status)
{
    pthread_mutex_lock(&p->lock);
    if (item < p->failed_item) {
        p->failed_item = item;
        p->failure = ls__keep(status);
    }
    pthread_mutex_unlock(&p->lock);
}

static bool has_items(uint_fast64_t todo)
{
    return (uint32_t)todo < todo >> 32;
}

/* The next item of the round, or -1. */
static int claim(struct ls_pool *p)
{
    uint_fast64_t todo = atomic_load_explicit(&p->todo, memory_order_relaxed);
    while (has_items(todo))
        if (atomic_compare_exchange_weak_explicit(&p->todo, &todo, todo + 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return (int)(uint32_t)todo;
    return -1;
}

static void work(struct ls_pool *p, int worker)
{
    for (int item; (item = claim(p)) >= 0;) {
        enum ls_status status = p->fn(p->arg, item, worker);
        if (status != LS_OK) note_failure(p, item, status);
        atomic_fetch_add_explicit(&p->n_done, 1, memory_order_release);
    }
}

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static bool may_rest(struct ls_pool *p)
{
    return !has_items(atomic_load(&p->todo)) && !atomic_load(&p->is_ending);
}

static void await_items(struct ls_pool *p)
{
    if (p->may_spin)
        for (int64_t start = ls__now_ns(); ls__now_ns() - start < SPIN_NS;)
            for (int i = 0; i < 16; i++, pause_cpu())
                if (!may_rest(p)) return;
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->n_sleeping, 1);
    while (may_rest(p)) pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->n_sleeping, 1);
    pthread_mutex_unlock(&p->lock);
}

static void wake_all(struct ls_pool *p)
{
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct ls_pool *p = w->pool;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL); /* no handler of the program's runs amid a kernel here */
    (void)ls__tiny_is_zero();
    if (p->at_start) p->at_start();
    while (!atomic_load(&p->is_ending)) {
        await_items(p);
        work(p, w->index);
    }
    return NULL;
}

struct start {
    void *(*fn)(void *arg);
    void *arg;
    enum ls_log_level limit;
};

static void *begin_thread(void *arg)
{
    struct start s = *(struct start *)arg;
    free(arg);
    ls__log_limit(s.limit);
    return s.fn(s.arg);
}

enum ls_status ls__thread_start(pthread_t *thread, const char *what, void *(*fn)(void *arg), void *arg)
{
    struct start *s;
    TRY(ls__calloc(&s, 1, sizeof *s));
    *s = (struct start){fn, arg, ls__log_present_limit()};
    int error = pthread_create(thread, NULL, begin_thread, s);
    if (error == 0) return LS_OK;
    free(s);
    return ls_fail(LS_ERROR, "start %s: %s%s", what, strerror(error),
                   error == EAGAIN ? "; memory for its stack or the number of threads is limited (ulimit -v, -u)" : "");
}

/* The index-th CPU of `allowed`, alone. */
static void one_cpu(const cpu_set_t *allowed, int index, cpu_set_t *one)
{
    CPU_ZERO(one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, allowed) && index-- == 0) {
            CPU_SET(cpu, one);
            return;
        }
}

int ls__cpu_count(void)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
    return CPU_COUNT(&allowed);
}

static enum ls_status build(struct ls_pool *p, int n_threads, bool pin)
{
    cpu_set_t allowed, one;
    bool can_pin = pin && sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) == n_threads;
    p->may_spin = ls__cpu_count() >= n_threads;
    TRY(ls__calloc(&p->workers, (size_t)n_threads, sizeof *p->workers));
    p->n_threads = n_threads;
    for (int i = 0; i < n_threads; i++) p->workers[i] = (struct worker){.pool = p, .index = i};
    if (p->at_start) p->at_start();
    for (int i = 1; i < n_threads; i++) {
        char what[48];
        snprintf(what, sizeof what, "thread %d of %d", i + 1, n_threads);
        TRY(ls__thread_start(&p->workers[i].thread, what, worker_main, &p->workers[i]));
        p->workers[i].started = true;
        if (can_pin) {
            one_cpu(&allowed, i, &one);
            pthread_setaffinity_np(p->workers[i].thread, sizeof one, &one); /* a wish */
        }
    }
    return LS_OK;
}

enum ls_status ls__pool_create(struct ls_pool **out, int n_threads, bool pin, void (*at_start)(void))
{
    *out = NULL;
    TRY(ls__calloc(out, 1, sizeof **out));
    pthread_mutex_init(&(*out)->lock, NULL);
    pthread_cond_init(&(*out)->wake, NULL);
    (*out)->at_start = at_start;
    enum ls_status status = build(*out, n_threads, pin);
    if (status != LS_OK) ls__pool_destroy(out);
    return status;
}

int ls__pool_n_threads(const struct ls_pool *pool)
{
    return pool->n_threads;
}

enum ls_status ls__pool_run(struct ls_pool *p, int n_items, ls_pool_fn *fn, void *arg)
{
    p->fn = fn;
    p->arg = arg;
    p->failed_item = INT32_MAX;
    atomic_store_explicit(&p->n_done, 0, memory_order_relaxed);
    atomic_store(&p->todo, (uint_fast64_t)n_items << 32);
    const bool is_for_all = n_items > 1 && !p->is_resting; /* a single item is the caller's */
    if (is_for_all && atomic_load(&p->n_sleeping) > 0) wake_all(p);
    const uint64_t was = ls__tiny_is_zero();
    work(p, 0);
    ls__tiny_restore(was);
    for (int spins = 0; atomic_load_explicit(&p->n_done, memory_order_acquire) < n_items; spins++) {
        pause_cpu();
        if (!p->may_spin || spins > 10000) sched_yield();
    }
    return p->failed_item == INT32_MAX ? LS_OK : ls__fail_again(&p->failure);
}

void ls__pool_rest(struct ls_pool *p, bool on)
{
    p->is_resting = on;
}

void ls__pool_destroy(struct ls_pool **pool)
{
    struct ls_pool *p = *pool;
    if (!p) return;
    atomic_store(&p->is_ending, true);
    wake_all(p);
    for (int i = 1; i < p->n_threads; i++)
        if (p->workers[i].started) pthread_join(p->workers[i].thread, NULL);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->wake);
    free(p->workers);
    free(p);
    *pool = NULL;
}
