/* writer.c: checkpoints written behind the training loop's back.
 *
 * In: the state of a run at a step. Out: step-*.safetensors and the links, on disk, while the loop goes on.
 *
 *     caller   take: wait until EMPTY, report an earlier failure, hand the state over -> FULL (submit: a copy of it)
 *     thread   FULL: complete the state, write the file (durable), replace the links, fsync the folder, remove old
 *              files, release the state -> EMPTY
 *
 * Invariants: the state belongs to the caller while EMPTY and to the thread while FULL, so it is touched without the
 * lock. Nothing is removed before the new checkpoint and its links are on disk, and never the one just written, the
 * best, or one with a higher step (a run that went back to an older checkpoint has those; they are overwritten as it
 * gets there). A submit that reports an earlier failure has taken nothing: call it again to save this state. The folder
 * is locked (flock) for the writer's life: two runs cannot write into one folder, and a temporary found at the start is
 * known to be a dead process's. The lock ends with the process, however it ends.
 */
#include "checkpoint/writer.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/status_kept.h"
#include "checkpoint/internal.h"
#include "trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { NO_STEP = -1 };

static const char latest_link[] = "latest.safetensors", best_link[] = "best.safetensors";

/* A copy of a state, in one block that begins with this. */
struct copied {
    size_t bytes, used; /* of the block */
};

struct ls_ckpt_writer {
    struct ls_dir folder; /* holds the lock */
    int keep;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* is_full or is_ending */
    pthread_t thread;
    bool has_sync, has_thread;
    bool is_full, is_ending;
    struct ls_kept failure; /* not reported yet */
    struct ls_ckpt_state state;
    int64_t step;
    bool is_best;
    int64_t best_step; /* NO_STEP: none */
    bool has_warned_links;
    struct ls_lane *lane; /* set before the first submit, the thread's from then on */
};

/* --- a copy --- */

static size_t aligned(size_t bytes)
{
    return (bytes + LS_CKPT_DATA_ALIGN - 1) / LS_CKPT_DATA_ALIGN * LS_CKPT_DATA_ALIGN;
}

static bool add_aligned(size_t *total, size_t bytes)
{
    return bytes <= SIZE_MAX / 2 && !__builtin_add_overflow(*total, aligned(bytes), total);
}

static enum ls_status measure(const struct ls_ckpt_tensor *tensors, int n_tensors, const struct ls_ckpt_meta *meta,
                              int n_meta, size_t *total)
{
    if (n_tensors < 0 || n_meta < 0) return ls_fail(LS_CHECKPOINT, "a negative number of tensors cannot be saved");
    *total = aligned(sizeof(struct copied));
    bool fits =
        add_aligned(total, (size_t)n_tensors * sizeof *tensors) && add_aligned(total, (size_t)n_meta * sizeof *meta);
    for (int i = 0; i < n_tensors; i++) {
        size_t bytes;
        TRY(ls__ckpt_tensor_bytes(&tensors[i], &bytes));
        fits = fits && add_aligned(total, strlen(tensors[i].name) + 1) && add_aligned(total, bytes);
    }
    for (int i = 0; i < n_meta; i++) {
        if (!meta[i].key || !meta[i].value)
            return ls_fail(LS_CHECKPOINT, "metadata entry %d has no key or no value", i);
        fits = fits && add_aligned(total, strlen(meta[i].key) + 1) && add_aligned(total, strlen(meta[i].value) + 1);
    }
    return fits ? LS_OK : ls_fail(LS_CHECKPOINT, "the tensors are too large to be saved");
}

static void *copy(struct copied *c, const void *from, size_t bytes)
{
    uint8_t *to = (uint8_t *)c + c->used;
    if (bytes) memcpy(to, from, bytes);
    c->used += aligned(bytes);
    return to;
}

static void release_copy(void *owner)
{
    struct copied *c = owner;
    ls__free_aligned(c, c->bytes);
}

static enum ls_status copy_state(struct ls_ckpt_state *state, const struct ls_ckpt_tensor *tensors, int n_tensors,
                                 const struct ls_ckpt_meta *meta, int n_meta)
{
    size_t total = 0, bytes = 0;
    struct copied *c;
    TRY(measure(tensors, n_tensors, meta, n_meta, &total));
    TRY(ls__alloc_aligned(&c, total));
    *c = (struct copied){.bytes = total, .used = aligned(sizeof *c)};
    struct ls_ckpt_tensor *own = copy(c, tensors, (size_t)n_tensors * sizeof *tensors);
    struct ls_ckpt_meta *own_meta = copy(c, meta, (size_t)n_meta * sizeof *meta);
    for (int i = 0; i < n_tensors; i++) {
        if (ls__ckpt_tensor_bytes(&tensors[i], &bytes) != LS_OK) bytes = 0; /* measured before */
        own[i].name = copy(c, tensors[i].name, strlen(tensors[i].name) + 1);
        own[i].data = copy(c, tensors[i].data, bytes);
    }
    for (int i = 0; i < n_meta; i++) {
        own_meta[i].key = copy(c, meta[i].key, strlen(meta[i].key) + 1);
        own_meta[i].value = copy(c, meta[i].value, strlen(meta[i].value) + 1);
    }
    *state = (struct ls_ckpt_state){own, own_meta, n_tensors, n_meta, .owner = c, .release = release_copy};
    return LS_OK;
}

/* --- the thread's side --- */

static enum ls_status replace_link(struct ls_ckpt_writer *w, const char *link, const char *name)
{
    bool is_missing;
    TRY(ls__ckpt_link(&w->folder, link, name, &is_missing));
    if (is_missing && !w->has_warned_links)
        ls__log(LS_LOG_WARN, "%s: this file system has no links; %s is not kept", w->folder.path, link);
    w->has_warned_links |= is_missing;
    return LS_OK;
}

/* The checkpoint is saved by now: what cannot be removed is a warning. */
static void remove_old(struct ls_ckpt_writer *w, int64_t newest)
{
    char name[LS_CKPT_NAME_BYTES];
    int64_t *steps;
    int n, n_kept = 0;
    if (ls__ckpt_list(&w->folder, &steps, &n) != LS_OK) {
        ls__log(LS_LOG_WARN, "old checkpoints are not removed: %s", ls_error_message());
        return;
    }
    for (int i = n - 1; i >= 0; i--) {
        if (steps[i] > newest) continue;
        if (n_kept++ < w->keep || steps[i] == w->best_step) continue;
        ls__ckpt_step_name(steps[i], name);
        if (unlinkat(w->folder.fd, name, 0) != 0 && errno != ENOENT)
            ls__log(LS_LOG_WARN, "old checkpoint %s/%s is not removed: %s", w->folder.path, name, strerror(errno));
    }
    free(steps);
}

static enum ls_status write_state(struct ls_ckpt_writer *w)
{
    const struct ls_ckpt_state *s = &w->state;
    char name[LS_CKPT_NAME_BYTES];
    ls__ckpt_step_name(w->step, name);
    if (s->complete) TRY(s->complete(s->owner));
    TRY(ls__ckpt_write_in(&w->folder, name, s->tensors, s->n_tensors, s->meta, s->n_meta, false));
    TRY(replace_link(w, latest_link, name));
    if (w->is_best) TRY(replace_link(w, best_link, name));
    TRY(ls__dir_fsync(&w->folder, LS_CHECKPOINT));
    if (w->is_best) w->best_step = w->step;
    remove_old(w, w->step);
    return LS_OK;
}

static void *serve(void *arg)
{
    struct ls_ckpt_writer *w = arg;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->is_full && !w->is_ending) pthread_cond_wait(&w->changed, &w->lock);
        if (!w->is_full) break; /* ending, and nothing left to write */
        pthread_mutex_unlock(&w->lock);
        struct ls_begun begun = ls__span_begin(w->lane, LS_SPAN_WRITE, "checkpoint", w->step);
        enum ls_status status = write_state(w);
        ls__span_end(w->lane, begun);
        w->state.release(w->state.owner);
        pthread_mutex_lock(&w->lock);
        if (status != LS_OK) w->failure = ls__keep(LS_CHECKPOINT);
        w->is_full = false;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* --- the caller's side --- */

/* Waits until the thread has nothing to do, and hands over its failure, once. */
static enum ls_status wait_until_empty(struct ls_ckpt_writer *w)
{
    pthread_mutex_lock(&w->lock);
    while (w->is_full) pthread_cond_wait(&w->changed, &w->lock);
    struct ls_kept failure = w->failure;
    w->failure.status = LS_OK;
    pthread_mutex_unlock(&w->lock);
    return ls__fail_again(&failure);
}

static enum ls_status take(struct ls_ckpt_writer *w, int64_t step, bool is_best, const struct ls_ckpt_state *state)
{
    if (step < 0) return ls_fail(LS_CHECKPOINT, "step %lld cannot be saved", (long long)step);
    TRY(wait_until_empty(w));
    w->state = *state;
    w->step = step;
    w->is_best = is_best;
    pthread_mutex_lock(&w->lock);
    w->is_full = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return LS_OK;
}

enum ls_status ls__ckpt_writer_take(struct ls_ckpt_writer *w, int64_t step, bool is_best,
                                    const struct ls_ckpt_state *state)
{
    enum ls_status status = take(w, step, is_best, state);
    if (status != LS_OK) state->release(state->owner);
    return status;
}

enum ls_status ls_ckpt_writer_submit(struct ls_ckpt_writer *w, int64_t step, bool is_best,
                                     const struct ls_ckpt_tensor *tensors, int n_tensors,
                                     const struct ls_ckpt_meta *meta, int n_meta)
{
    struct ls_ckpt_state state;
    enum ls_status status = wait_until_empty(w);
    if (status == LS_OK) status = copy_state(&state, tensors, n_tensors, meta, n_meta);
    return status == LS_OK ? ls__ckpt_writer_take(w, step, is_best, &state) : status;
}

enum ls_status ls__ckpt_writer_measure(struct ls_ckpt_writer *w, struct ls_trace *trace)
{
    return ls__lane_take(trace, "writer", &w->lane);
}

enum ls_status ls_ckpt_writer_finish(struct ls_ckpt_writer *w)
{
    return wait_until_empty(w);
}

enum ls_status ls__ckpt_writer_try(struct ls_ckpt_writer *w, int64_t step, const struct ls_ckpt_tensor *tensors,
                                   int n_tensors, const struct ls_ckpt_meta *meta, int n_meta)
{
    char name[LS_CKPT_NAME_BYTES];
    return ls__ckpt_write_in(&w->folder, ls__ckpt_step_name(step, name), tensors, n_tensors, meta, n_meta, true);
}

/* --- life --- */

static enum ls_status take_folder(struct ls_ckpt_writer *w, struct ls_dir *folder)
{
    w->folder = *folder;
    folder->fd = -1;
    if (faccessat(w->folder.fd, ".", W_OK | X_OK, 0) != 0)
        return ls_fail(LS_CHECKPOINT, "checkpoint folder %s cannot be written: %s", w->folder.path, strerror(errno));
    if (flock(w->folder.fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) /* no locks at all: go on without */
        return ls_fail(LS_CHECKPOINT, "another run is writing checkpoints to %s; stop it or use another --run folder",
                       w->folder.path);
    return LS_OK;
}

/* All signals stay with the program's own threads. */
static enum ls_status start_thread(struct ls_ckpt_writer *w)
{
    sigset_t all, before;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    w->has_sync = true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    enum ls_status status = ls__thread_start(&w->thread, "the checkpoint thread", serve, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    TRY(status);
    w->has_thread = true;
    return LS_OK;
}

static enum ls_status build(struct ls_ckpt_writer *w, struct ls_dir *folder, int keep)
{
    if (keep < 1) return ls_fail(LS_USAGE, "%d checkpoints to keep; at least 1 is needed", keep);
    w->keep = keep;
    TRY(take_folder(w, folder));
    ls__ckpt_remove_stale(&w->folder);
    if (!ls__ckpt_read_link(&w->folder, best_link, &w->best_step)) w->best_step = NO_STEP;
    return start_thread(w);
}

enum ls_status ls__ckpt_writer_create_in(struct ls_ckpt_writer **out, struct ls_dir *folder, int keep)
{
    struct ls_ckpt_writer *w;
    *out = NULL;
    enum ls_status status = ls__calloc(&w, 1, sizeof *w);
    if (status == LS_OK) {
        w->folder.fd = -1;
        status = build(w, folder, keep);
        if (status != LS_OK) ls_ckpt_writer_destroy(&w);
        *out = w;
    }
    ls__dir_close(folder);
    return status;
}

enum ls_status ls_ckpt_writer_create(struct ls_ckpt_writer **out, const char *folder, int keep)
{
    struct ls_dir dir;
    *out = NULL;
    if (ls__mkdirs(folder) != LS_OK) return ls_fail_in(LS_CHECKPOINT, "checkpoint folder");
    if (ls__dir_open(&dir, folder, LS_CHECKPOINT) != LS_OK) return ls_fail_in(LS_CHECKPOINT, "checkpoint folder");
    return ls__ckpt_writer_create_in(out, &dir, keep);
}

static void stop_thread(struct ls_ckpt_writer *w)
{
    pthread_mutex_lock(&w->lock);
    w->is_ending = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    if (w->failure.status != LS_OK) ls__log(LS_LOG_WARN, "the last checkpoint was not saved: %s", w->failure.message);
}

void ls_ckpt_writer_destroy(struct ls_ckpt_writer **writer)
{
    struct ls_ckpt_writer *w = *writer;
    *writer = NULL;
    if (!w) return;
    if (w->has_thread) stop_thread(w);
    if (w->has_sync) {
        pthread_cond_destroy(&w->changed);
        pthread_mutex_destroy(&w->lock);
    }
    ls__lane_give_back(w->lane);
    ls__dir_close(&w->folder);
    free(w);
}
