/* pool.c: see pool.h.
 *
 * A round is announced by raising `round`; workers spin on it for a short while (the gap between two rounds of a
 * training step is microseconds) and then sleep on a condition variable. Items are claimed with one atomic counter.
 */
#include "base/pool.h"

#include "base/clock.h"
#include "base/mem.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SPIN_NS = 100000, MESSAGE_BYTES = 1024 };

struct worker {
    struct ls_pool *pool;
    pthread_t thread;
    int index;
    bool started;
};

struct ls_pool {
    int n_threads;
    bool may_spin;
    void (*at_start)(void);
    struct worker *workers; /* [n_threads]; 0 is the caller */

    pthread_mutex_t lock;
    pthread_cond_t wake;
    atomic_uint_fast64_t round; /* raised to start one; written under lock */
    bool ending;

    ls_pool_fn *fn; /* the present round */
    void *arg;
    int n_items;
    atomic_int next_item, n_busy;

    int failed_item; /* lowest failing item of the round, or INT32_MAX; under lock */
    enum ls_status failed_status;
    char failed_message[MESSAGE_BYTES];
};

static void note_failure(struct ls_pool *p, int item, enum ls_status status)
{
    pthread_mutex_lock(&p->lock);
    if (item < p->failed_item) {
        p->failed_item = item;
        p->failed_status = status;
        strncpy(p->failed_message, ls_error_message(), MESSAGE_BYTES - 1);
    }
    pthread_mutex_unlock(&p->lock);
}

static void work(struct ls_pool *p, int worker)
{
    int item;
    while ((item = atomic_fetch_add(&p->next_item, 1)) < p->n_items) {
        enum ls_status status = p->fn(p->arg, item, worker);
        if (status != LS_OK) note_failure(p, item, status);
    }
}

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Waits for a round after `seen`; false when the pool ends. */
static bool await_round(struct ls_pool *p, uint_fast64_t seen)
{
    if (p->may_spin)
        for (int64_t start = ls__now_ns(); ls__now_ns() - start < SPIN_NS;) {
            for (int i = 0; i < 64; i++) pause_cpu();
            if (atomic_load_explicit(&p->round, memory_order_acquire) != seen) break;
        }
    pthread_mutex_lock(&p->lock);
    while (atomic_load(&p->round) == seen && !p->ending) pthread_cond_wait(&p->wake, &p->lock);
    bool go = !p->ending;
    pthread_mutex_unlock(&p->lock);
    return go;
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct ls_pool *p = w->pool;
    if (p->at_start) p->at_start();
    for (uint_fast64_t seen = 0; await_round(p, seen); seen++) {
        work(p, w->index);
        atomic_fetch_sub_explicit(&p->n_busy, 1, memory_order_release);
    }
    return NULL;
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
        int error = pthread_create(&p->workers[i].thread, NULL, worker_main, &p->workers[i]);
        if (error) return ls_fail(LS_ERROR, "start thread %d of %d: %s", i + 1, n_threads, strerror(error));
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
    p->n_items = n_items;
    p->failed_item = INT32_MAX;
    atomic_store(&p->next_item, 0);
    if (p->n_threads > 1) {
        atomic_store(&p->n_busy, p->n_threads - 1);
        pthread_mutex_lock(&p->lock);
        atomic_fetch_add_explicit(&p->round, 1, memory_order_release);
        pthread_cond_broadcast(&p->wake);
        pthread_mutex_unlock(&p->lock);
    }
    work(p, 0);
    for (int spins = 0; p->n_threads > 1 && atomic_load_explicit(&p->n_busy, memory_order_acquire) > 0; spins++) {
        pause_cpu();
        if (!p->may_spin || spins > 10000) sched_yield();
    }
    if (p->failed_item != INT32_MAX) return ls_fail(p->failed_status, "%s", p->failed_message);
    return LS_OK;
}

void ls__pool_destroy(struct ls_pool **pool)
{
    struct ls_pool *p = *pool;
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->ending = true;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (int i = 1; i < p->n_threads; i++)
        if (p->workers[i].started) pthread_join(p->workers[i].thread, NULL);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->wake);
    free(p->workers);
    free(p);
    *pool = NULL;
}
