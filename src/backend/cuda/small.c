/* small.c: ops of small networks wait here and are enqueued together: one kernel that takes every sample through all
 * of them, and one for what is then added up over samples (kernels/small.h).
 *
 * What waits reads and writes memory later than its place in the plan says. So the plan of such a network keeps all its
 * values apart (ls_backend.keeps_apart), and whoever enqueues something else takes the stream from ls__cuda_stream.
 * Sums and updates (jobs.c) that wait come after; an op that is added while some wait lets them go first.
 *
 * How many blocks share a sample, and how many threads a block has, is chosen here, for speed alone: no bit depends on
 * it. Neither on where a list that needs too much shared memory is cut.
 */
#include "backend/cuda/small.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 4, MAX_VALUES = 4 * LS_CUDA_SMALL_MAX_OPS }; /* words: 16 bytes */
/* For about as many blocks as large cards have multiprocessors. Teams of 8 were slower than of 4. */
enum { MANY_BLOCKS = 128, LARGEST_TEAM = 4, FEW_THREADS = 256, MANY_THREADS = 512, PER_TEAM = 400 };

/* A list in the card's memory. A launch that was recorded reads it again, so it stays as long as the device. */
struct uploaded {
    struct uploaded *next;
    struct ls_cuda_small_ops *there;
    struct ls_cuda_small_ops ops;
};

struct ls_cuda_small {
    struct ls_cuda_small_ops ops, part; /* what waits; what is enqueued of it */
    struct ls_cuda_across across;
    struct uploaded *uploaded;
    size_t shared_bytes; /* what a block may have; 0: not asked yet */
    bool has_teams;
};

enum ls_status ls__cuda_small_create(struct ls_device *d)
{
    return ls__calloc(&d->small, 1, sizeof *d->small);
}

static void drop(struct uploaded *u)
{
    (void)cudaFree(u->there);
    free(u);
}

void ls__cuda_small_destroy(struct ls_device *d)
{
    for (struct uploaded *u = d->small ? d->small->uploaded : NULL, *next; u; u = next) {
        next = u->next;
        drop(u);
    }
    free(d->small);
    d->small = NULL;
}

bool ls__cuda_small_is_waiting(const struct ls_device *d)
{
    return d->small->ops.n + d->small->across.n > 0;
}

/* --- places in shared memory: as plan/memory.c does it for the arena --- */

struct held {
    const float *data;
    int n, at, first, last; /* words; ops of the part */
};

struct holding {
    struct held list[MAX_VALUES];
    int n, n_fetched;
};

static int rounded(int words)
{
    return (words + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void note(struct holding *h, const struct ls_cuda_small_value *v, int op, bool is_made)
{
    if (!v->data) return;
    for (int i = 0; i < h->n; i++)
        if (h->list[i].data == v->data) {
            h->list[i].last = op;
            return;
        }
    h->list[h->n++] = (struct held){v->data, v->n, 0, is_made ? op : -1, op};
    if (!is_made) h->n_fetched++;
}

static void set_place(const struct holding *h, struct ls_cuda_small_value *v)
{
    for (int i = 0; i < h->n; i++)
        if (h->list[i].data == v->data) v->at = h->list[i].at;
}

static bool overlaps(const struct held *a, const struct held *b)
{
    return a->first <= b->last && b->first <= a->last && a->at < b->at + rounded(b->n) && b->at < a->at + rounded(a->n);
}

/* Each at the lowest place that is free while it lives. Returns the end of all. */
static int place_values(struct holding *h, int begin)
{
    int end = begin;
    for (int i = 0; i < h->n; i++) {
        struct held *v = &h->list[i];
        v->at = begin;
        for (int k = 0; k < i; k++)
            if (overlaps(v, &h->list[k])) {
                v->at = h->list[k].at + rounded(h->list[k].n);
                k = -1; /* again from the first */
            }
        if (v->at + rounded(v->n) > end) end = v->at + rounded(v->n);
    }
    return end;
}

static bool has_weights(const struct ls_cuda_small_op *op)
{
    return op->kind == LS_CUDA_SMALL_CONV;
}

static int weights_words(const struct ls_cuda_small_op *op)
{
    const struct ls_cuda_small_conv *c = &op->of.conv;
    return rounded(c->ic * c->k * c->k * c->padded_oc);
}

/* Makes `part` of the ops [first, end) of the list; the bytes of shared memory it needs. */
static size_t make_part(const struct ls_cuda_small_ops *ops, int first, int end, struct ls_cuda_small_ops *part)
{
    struct holding h = {.n = 0};
    int words = rounded((end - first) * (int)(sizeof *part->list / sizeof(float))); /* the list itself */
    memset(part, 0, sizeof *part);
    part->mb = ops->mb;
    part->n = end - first;
    memcpy(part->list, ops->list + first, (size_t)part->n * sizeof *part->list);
    for (int i = 0; i < part->n; i++) {
        struct ls_cuda_small_op *op = &part->list[i];
        for (int k = 0; k < 2; k++) note(&h, &op->in[k], i, false);
        note(&h, &op->out, i, true);
        note(&h, &op->chosen, i, true);
        if (!has_weights(op)) continue;
        op->weights_at = words;
        words += weights_words(op);
    }
    if (h.n_fetched > LS_CUDA_SMALL_MAX_FETCHED) return SIZE_MAX;
    words = place_values(&h, words);
    part->n_fetched = 0;
    for (int i = 0; i < h.n; i++)
        if (h.list[i].first < 0)
            part->fetched[part->n_fetched++] =
                (struct ls_cuda_small_value){(float *)h.list[i].data, h.list[i].n, h.list[i].at};
    for (int i = 0; i < part->n; i++) {
        struct ls_cuda_small_op *op = &part->list[i];
        for (int k = 0; k < 2; k++) set_place(&h, &op->in[k]);
        set_place(&h, &op->out);
        set_place(&h, &op->chosen);
    }
    return (size_t)words * sizeof(float);
}

/* --- how it is spread --- */

/* The largest tile that still gives every thread something to do. */
static void choose_tile(struct ls_cuda_small_op *op, int team)
{
    static const int tiles[][2] = {{4, 8}, {2, 8}, {2, 4}, {1, 4}};
    struct ls_cuda_small_conv *c = &op->of.conv;
    const int n_tiles = team > 1 ? 4 : 3;
    for (int i = 0; i < n_tiles; i++) {
        c->rows = tiles[i][0];
        c->block = tiles[i][1];
        if (c->block > c->padded_oc) continue;
        const int groups = (c->oh + c->rows - 1) / c->rows, blocks = (c->oc + c->block - 1) / c->block;
        if (groups * c->ow * blocks >= PER_TEAM * team) return;
    }
}

static int team_of(const struct ls_device *d, int mb)
{
    int team = 1;
    if (!d->small->has_teams) return 1;
    while (team < LARGEST_TEAM && mb * team * 2 <= MANY_BLOCKS) team *= 2;
    return team;
}

/* The list in the card's memory; there are few of them. They are compared byte by byte: where only padding differs, a
 * list is uploaded once more than needed.
 */
static bool is_same(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct ls_cuda_small_ops)) == 0;
}

static enum ls_status copy_there(struct uploaded *u)
{
    void *memory = NULL;
    TRY(LS_CUDA(cudaMalloc(&memory, sizeof u->ops)));
    u->there = memory;
    TRY(LS_CUDA(cudaMemcpy(memory, &u->ops, sizeof u->ops, cudaMemcpyHostToDevice)));
    return LS_CUDA(cudaStreamSynchronize(cudaStreamLegacy)); /* the copy may return before the bytes have arrived */
}

/* Found again only when it is there. */
static enum ls_status upload(struct ls_cuda_small *s, const struct ls_cuda_small_ops *ops,
                             const struct ls_cuda_small_ops **there)
{
    struct uploaded *u;
    for (u = s->uploaded; u; u = u->next)
        if (is_same(&u->ops, ops)) {
            *there = u->there;
            return LS_OK;
        }
    TRY(ls__calloc(&u, 1, sizeof *u));
    u->ops = *ops;
    const enum ls_status status = copy_there(u);
    if (status != LS_OK) {
        drop(u);
        return status;
    }
    u->next = s->uploaded;
    s->uploaded = u;
    *there = u->there;
    return LS_OK;
}

static enum ls_status enqueue(struct ls_device *d, struct ls_cuda_small_ops *part, size_t bytes)
{
    part->team = team_of(d, part->mb);
    part->fault = d->fault;
    for (int i = 0; i < part->n; i++)
        if (has_weights(&part->list[i])) choose_tile(&part->list[i], part->team);
    const int threads = part->team == 1 && part->mb <= MANY_BLOCKS ? MANY_THREADS : FEW_THREADS;
    const struct ls_cuda_small_shape shape = {part->mb, part->n, part->team, threads, bytes};
    const struct ls_cuda_small_ops *there;
    TRY(upload(d->small, part, &there));
    return LS_CUDA(ls__cuda_run_small(d->stream, there, shape));
}

static enum ls_status allow(struct ls_device *d)
{
    if (d->small->shared_bytes) return LS_OK;
    TRY(LS_CUDA(ls__cuda_allow_small(d->card->sharedMemPerBlockOptin, &d->small->has_teams)));
    d->small->shared_bytes = d->card->sharedMemPerBlockOptin;
    return LS_OK;
}

static enum ls_status flush_ops(struct ls_device *d)
{
    struct ls_cuda_small *s = d->small;
    int first = 0;
    TRY(allow(d));
    while (first < s->ops.n) {
        int end = s->ops.n;
        size_t bytes = make_part(&s->ops, first, end, &s->part);
        while (bytes > s->shared_bytes && end > first + 1) bytes = make_part(&s->ops, first, --end, &s->part);
        TRY(enqueue(d, &s->part, bytes));
        first = end;
    }
    return LS_OK;
}

enum ls_status ls__cuda_small_flush(struct ls_device *d)
{
    struct ls_cuda_small *s = d->small;
    enum ls_status status = s->ops.n > 0 ? flush_ops(d) : LS_OK;
    s->across.fault = d->fault;
    if (status == LS_OK && s->across.n > 0) status = LS_CUDA(ls__cuda_run_across(d->stream, &s->across));
    s->ops.n = s->across.n = 0;
    return status;
}

/* --- what waits in the other list --- */

static bool take_over(struct ls_cuda_across_job *a, const struct ls_cuda_job *job)
{
    const int64_t n = a->kind == LS_CUDA_ACROSS_PRODUCT ? (int64_t)a->n_a * a->n_b : a->n_a;
    const bool is_loss = a->kind == LS_CUDA_ACROSS_LOSS;
    if (a->out != job->src || a->is_checked || job->type != LS_CUDA_F32) return false;
    if (is_loss ? job->kind != LS_CUDA_JOB_REDUCE || job->n != 2 : job->kind != LS_CUDA_JOB_CHECK || job->n != n)
        return false;
    a->is_checked = true;
    a->reduce = job->reduce;
    a->sum = is_loss ? job->sum : NULL;
    return true;
}

void ls__cuda_small_take_over(struct ls_device *d, struct ls_cuda_jobs *jobs)
{
    struct ls_cuda_small *s = d->small;
    int n = 0;
    for (int i = 0; i < jobs->n; i++) {
        bool is_taken = false;
        for (int k = 0; k < s->across.n && !is_taken; k++) is_taken = take_over(&s->across.list[k], &jobs->list[i]);
        if (!is_taken) jobs->list[n++] = jobs->list[i];
    }
    jobs->n = n;
}

/* --- adding --- */

/* Whether an op reads what is still to be added up. */
static bool is_sum(const struct ls_cuda_small *s, const float *data)
{
    for (int i = 0; data && i < s->across.n; i++)
        if (s->across.list[i].out == data) return true;
    return false;
}

enum ls_status ls__cuda_small_op(struct ls_device *d, int64_t mb, const struct ls_cuda_small_op *op)
{
    struct ls_cuda_small *s = d->small;
    TRY(ls__cuda_let_jobs_go(d));
    const bool is_full = s->ops.n == LS_CUDA_SMALL_MAX_OPS || (s->ops.n > 0 && s->ops.mb != (int)mb);
    if (is_full || is_sum(s, op->in[0].data) || is_sum(s, op->in[1].data)) TRY(ls__cuda_small_flush(d));
    s->ops.mb = (int)mb;
    s->ops.list[s->ops.n++] = *op;
    return LS_OK;
}

enum ls_status ls__cuda_small_sum(struct ls_device *d, int64_t mb, const struct ls_cuda_across_job *job)
{
    struct ls_cuda_small *s = d->small;
    TRY(ls__cuda_let_jobs_go(d));
    const bool is_full = s->across.n == LS_CUDA_ACROSS_MAX || (s->across.n > 0 && s->across.mb != (int)mb);
    if (is_full || is_sum(s, job->a) || is_sum(s, job->b)) TRY(ls__cuda_small_flush(d));
    s->across.mb = (int)mb;
    s->across.list[s->across.n++] = *job;
    return LS_OK;
}
