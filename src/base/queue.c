/* queue.c: see queue.h. A ring under one mutex. */
#include "base/queue.h"

#include "base/mem.h"

#include <pthread.h>
#include <stdlib.h>

struct ls_queue {
    pthread_mutex_t lock;
    pthread_cond_t not_full, not_empty;
    size_t capacity, n, first;
    bool closed;
    void *items[]; /* ring of `capacity` */
};

enum ls_status ls__queue_create(struct ls_queue **out, size_t capacity)
{
    *out = NULL;
    TRY(ls__calloc(out, 1, sizeof **out + capacity * sizeof(void *)));
    struct ls_queue *q = *out;
    q->capacity = capacity;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->not_full, NULL);
    pthread_cond_init(&q->not_empty, NULL);
    return LS_OK;
}

bool ls__queue_put(struct ls_queue *q, void *item)
{
    pthread_mutex_lock(&q->lock);
    while (q->n == q->capacity && !q->closed) pthread_cond_wait(&q->not_full, &q->lock);
    bool ok = !q->closed;
    if (ok) q->items[(q->first + q->n++) % q->capacity] = item;
    pthread_cond_signal(&q->not_empty);
    pthread_mutex_unlock(&q->lock);
    return ok;
}

void *ls__queue_take(struct ls_queue *q)
{
    void *item = NULL;
    pthread_mutex_lock(&q->lock);
    while (q->n == 0 && !q->closed) pthread_cond_wait(&q->not_empty, &q->lock);
    if (q->n > 0) {
        item = q->items[q->first];
        q->first = (q->first + 1) % q->capacity;
        q->n--;
    }
    pthread_cond_signal(&q->not_full);
    pthread_mutex_unlock(&q->lock);
    return item;
}

void ls__queue_close(struct ls_queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->closed = true;
    pthread_cond_broadcast(&q->not_full);
    pthread_cond_broadcast(&q->not_empty);
    pthread_mutex_unlock(&q->lock);
}

void ls__queue_destroy(struct ls_queue **q)
{
    if (!*q) return;
    pthread_mutex_destroy(&(*q)->lock);
    pthread_cond_destroy(&(*q)->not_full);
    pthread_cond_destroy(&(*q)->not_empty);
    free(*q);
    *q = NULL;
}
