/* pool.h: threads that run numbered items.
 *
 * ls__pool_run(pool, n, fn, arg) calls fn(arg, item, worker) once for every item in [0,n), on whichever worker is free
 * next, and returns when all are done. The calling thread is worker 0; a pool of one thread starts none. Which
 * worker gets which item is not defined, so fn must not let `worker` reach a result: use it to pick scratch memory
 * only.
 *
 * The first failing item's message (lowest item number) is handed to the caller; the other items still run, so that
 * the outcome does not depend on timing.
 */
#ifndef LS_BASE_POOL_H
#define LS_BASE_POOL_H

#include "base/status.h"

#include <pthread.h>
#include <stdbool.h>

struct ls_pool;
typedef enum ls_status ls_pool_fn(void *arg, int item, int worker);

/* pin: bind worker i to the i-th CPU this process may use, when the pool takes exactly all of them; a smaller pool is
 * left to the scheduler, for two programs that each pin to the first CPUs would share those and leave the others idle.
 * at_start (may be NULL) runs once in every worker, also in the calling thread. In a round numbers below float's normal
 * range are zero (base/tiny.h). */
enum ls_status ls__pool_create(struct ls_pool **out, int n_threads, bool pin, void (*at_start)(void)) LS_MUST_CHECK;
int ls__pool_n_threads(const struct ls_pool *pool);
enum ls_status ls__pool_run(struct ls_pool *pool, int n_items, ls_pool_fn *fn, void *arg) LS_MUST_CHECK;
/* On: those that sleep are left asleep, for rounds that are over before they would be awake, and where others have
 * use for the cores. Between rounds; false at first. */
void ls__pool_rest(struct ls_pool *pool, bool on);
void ls__pool_destroy(struct ls_pool **pool);

int ls__cpu_count(void); /* CPUs this process may run on */

/* pthread_create with an error that says what to do; what: "the loader's thread". The new thread tells as much as this
 * one (ls__log_limit). */
enum ls_status ls__thread_start(pthread_t *thread, const char *what, void *(*fn)(void *arg), void *arg) LS_MUST_CHECK;

#endif
