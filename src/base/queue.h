/* queue.h: a bounded queue of pointers between threads.
 *
 * put blocks while full, take blocks while empty; close wakes everybody: put then returns false, take drains what is
 * left and then returns NULL.
 */
#ifndef LS_BASE_QUEUE_H
#define LS_BASE_QUEUE_H

#include "base/status.h"

#include <stdbool.h>

struct ls_queue;

enum ls_status ls__queue_create(struct ls_queue **out, size_t capacity) LS_MUST_CHECK;
bool ls__queue_put(struct ls_queue *q, void *item); /* item != NULL */
void *ls__queue_take(struct ls_queue *q);
void ls__queue_close(struct ls_queue *q);
void ls__queue_destroy(struct ls_queue **q); /* no thread may be inside; items are not freed */

#endif
