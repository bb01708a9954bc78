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

enum { ALIGNMENT = 4 /* words: 16 bytes */, MAX_VALUES = 5 * LS_CUDA_SMALL_MAX_OPS };
/* For about as many blocks as large cards have multiprocessors. Teams of 8 were slower than of 4. */
enum { MANY_BLOCKS = 128, FEW_THREADS = 256, MANY_THREADS = 512 };

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
    int n, at, first, last; /* words; phases: what lies between two meetings */
    int gap, row;           /* struct ls_cuda_small_value */
    int behind;             /* words that the last chunk of its last row reads, and does not use: nobody writes them */
    bool is_plain;          /* read by an op that knows no gaps */
    int n_reads;
};

struct holding {
    struct held list[MAX_VALUES];
    int n;
};

static int rounded(int words)
{
    return (words + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static int words_of(const struct held *v)
{
    return rounded((v->gap > 0 ? v->n + (v->n / v->row + 1) * v->gap : v->n) + v->behind);
}

static struct held *find(struct holding *h, const float *data)
{
    for (int i = 0; i < h->n; i++)
        if (h->list[i].data == data) return &h->list[i];
    return NULL;
}

static struct held *note(struct holding *h, const struct ls_cuda_small_value *v, int phase, bool is_made)
{
    if (!v->data) return NULL;
    struct held *held = find(h, v->data);
    if (!held) {
        held = &h->list[h->n++];
        *held = (struct held){.data = v->data, .n = v->n, .first = is_made ? phase : -1};
    }
    held->last = phase;
    held->n_reads += !is_made;
    return held;
}

/* What a convolution reads has zeros beside its rows, as many as its padding at least. */
static void note_rows(struct held *v, int row, int gap)
{
    if (!v) return;
    v->row = row;
    if (gap > v->gap) v->gap = gap;
}

static void note_chunks(struct held *v, const struct ls_cuda_small_conv *c)
{
    const int behind = (int)c->chunks.by * LS_CUDA_SMALL_CHUNK + c->k - 1 - c->pad - c->iw;
    if (v && behind > v->behind) v->behind = behind;
}

static void note_sources(const struct ls_cuda_small_op *op, struct held *first, struct held *second)
{
    const struct ls_cuda_small_conv *c = &op->of.conv;
    if (op->kind == LS_CUDA_SMALL_LOSS && first) first->is_plain = true;
    if (op->kind == LS_CUDA_SMALL_CONV || op->kind == LS_CUDA_SMALL_CONV_WEIGHTS) note_rows(first, c->iw, c->pad);
    if (op->kind == LS_CUDA_SMALL_CONV_WEIGHTS) note_rows(second, c->ow, 0);
    if (op->kind == LS_CUDA_SMALL_CONV) note_chunks(first, c);
}

static void set_place(struct holding *h, struct ls_cuda_small_value *v)
{
    const struct held *held = v->data ? find(h, v->data) : NULL;
    if (!held) return;
    v->at = held->at + held->gap;
    v->gap = held->gap;
    v->row = ls__cuda_divisor(held->gap > 0 ? held->row : 1);
    v->is_written = v->n_readers == 0 || held->n_reads < v->n_readers;
}

static bool overlaps(const struct held *a, const struct held *b)
{
    return a->first <= b->last && b->first <= a->last && a->at < b->at + words_of(b) && b->at < a->at + words_of(a);
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
                v->at = h->list[k].at + words_of(&h->list[k]);
                k = -1; /* again from the first */
            }
        if (v->at + words_of(v) > end) end = v->at + words_of(v);
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
    return c->ic * c->k * c->k * rounded(c->oc); /* of the widest blocks */
}

/* --- ops that become one, and that run beside each other --- */

/* A RELU_BWD that alone reads what the op makes. */
static bool takes_mask(const struct ls_cuda_small_op *op, const struct ls_cuda_small_op *next)
{
    const bool may = (op->kind == LS_CUDA_SMALL_CONV && !op->relu) || op->kind == LS_CUDA_SMALL_LINEAR_BWD ||
                     op->kind == LS_CUDA_SMALL_MAX_BWD || op->kind == LS_CUDA_SMALL_MEAN_BWD;
    return may && !op->mask.data && op->out.n_readers == 1 && next->kind == LS_CUDA_SMALL_RELU_BWD &&
           next->in[1].data == op->out.data && next->in[0].data != op->out.data;
}

static void join_masks(struct ls_cuda_small_ops *part)
{
    int n = 0;
    for (int i = 0; i < part->n; i++) {
        const struct ls_cuda_small_op *op = &part->list[i];
        struct ls_cuda_small_op *before = n > 0 ? &part->list[n - 1] : NULL;
        if (before && takes_mask(before, op)) {
            before->mask = op->in[0];
            before->out = op->out;
            continue;
        }
        if (n != i) part->list[n] = *op;
        n++;
    }
    memset(part->list + n, 0, (size_t)(part->n - n) * sizeof *part->list);
    part->n = n;
}

static bool reads(const struct ls_cuda_small_op *op, const float *data)
{
    return data && (op->in[0].data == data || op->in[1].data == data || op->mask.data == data);
}

/* Whether op i reads nothing of what the ops from `first` on make. */
static bool is_beside(const struct ls_cuda_small_ops *part, int first, int i)
{
    for (int k = first; k < i; k++)
        if (reads(&part->list[i], part->list[k].out.data) || reads(&part->list[i], part->list[k].chosen.data))
            return false;
    return i > first && part->list[i].kind != LS_CUDA_SMALL_LINEAR; /* which may have to wait for weights */
}

/* All values of the part, for as long as they live. */
static void note_all(struct ls_cuda_small_ops *part, struct holding *h)
{
    for (int i = 0, first = 0, phase = 0; i < part->n; i++) {
        struct ls_cuda_small_op *op = &part->list[i];
        op->is_beside = is_beside(part, first, i);
        if (i > 0 && !op->is_beside) {
            first = i;
            phase++;
        }
        struct held *first_in = note(h, &op->in[0], phase, false), *second_in = note(h, &op->in[1], phase, false);
        note_sources(op, first_in, second_in);
        (void)note(h, &op->mask, phase, false);
        (void)note(h, &op->out, phase, true);
        (void)note(h, &op->chosen, phase, true);
    }
}

/* --- gaps: banks of shared memory that lanes of a warp do not share --- */

enum { LANES = 32, BANKS = 32, WIDEST_GAP = 4 };

/* The word that a lane of the first warp reads of a value whose rows are `pitch` apart. */
static int word_of_lane(const struct ls_cuda_small_op *op, bool is_second, int lane, int pitch)
{
    const struct ls_cuda_small_conv *c = &op->of.conv;
    const int part = lane % c->split, rest = lane / c->split;
    if (op->kind == LS_CUDA_SMALL_CONV) {
        const int chunks = (int)c->chunks.by;
        return (part * c->ih + rest / chunks % c->oh) * pitch + rest % chunks * LS_CUDA_SMALL_CHUNK;
    }
    if (is_second) return (rest / (c->k * c->ic) * c->block * c->oh + part) * pitch;
    return (rest / c->k % c->ic * c->ih + part + rest % c->k) * pitch;
}

/* How often the warp reads, so that all lanes have theirs. */
static int turns(const struct ls_cuda_small_op *op, bool is_second, int pitch)
{
    int words[LANES], most = 0;
    for (int i = 0; i < LANES; i++) {
        int same_bank = 1;
        words[i] = word_of_lane(op, is_second, i, pitch);
        for (int k = 0; k < i; k++) {
            if (words[k] == words[i]) same_bank = -LANES; /* one read serves both */
            if (words[k] != words[i] && (words[k] - words[i]) % BANKS == 0) same_bank++;
        }
        if (same_bank > most) most = same_bank;
    }
    return most;
}

static int all_turns(const struct ls_cuda_small_ops *part, const struct held *v, int gap)
{
    int n = 0;
    for (int i = 0; i < part->n; i++) {
        const struct ls_cuda_small_op *op = &part->list[i];
        const bool is_weights = op->kind == LS_CUDA_SMALL_CONV_WEIGHTS;
        if (op->kind != LS_CUDA_SMALL_CONV && !is_weights) continue;
        if (op->in[0].data == v->data) n += turns(op, false, v->row + gap);
        if (is_weights && op->in[1].data == v->data) n += turns(op, true, v->row + gap) * op->of.conv.block;
    }
    return n;
}

/* Rows as far apart as reads them fastest; wider gaps than needed, if that helps. */
static void choose_gaps(const struct ls_cuda_small_ops *part, struct holding *h)
{
    for (int i = 0; i < h->n; i++) {
        struct held *v = &h->list[i];
        if (v->row == 0 || v->is_plain) continue;
        int best = v->gap;
        for (int gap = v->gap + 1; gap <= v->gap + WIDEST_GAP; gap++)
            if (all_turns(part, v, gap) < all_turns(part, v, best)) best = gap;
        v->gap = best;
    }
}

static int count_fetched(const struct holding *h)
{
    int n = 0;
    for (int i = 0; i < h->n; i++) n += h->list[i].first < 0;
    return n;
}

static bool fetch_all(struct ls_cuda_small_ops *part, struct holding *h)
{
    for (int i = 0; i < h->n; i++) {
        const struct held *v = &h->list[i];
        if (v->is_plain && v->gap > 0) return false;
        if (v->first >= 0) continue;
        if (part->n_fetched == LS_CUDA_SMALL_MAX_FETCHED) return false;
        struct ls_cuda_small_value *to = &part->fetched[part->n_fetched++];
        *to = (struct ls_cuda_small_value){.data = (float *)v->data, .n = v->n};
        set_place(h, to);
    }
    return true;
}

/* Makes `part` of the ops [first, end) of the list; the bytes of shared memory it needs. */
static size_t make_part(const struct ls_cuda_small_ops *ops, int first, int end, struct ls_cuda_small_ops *part)
{
    struct holding h = {.n = 0};
    memset(part, 0, sizeof *part);
    part->mb = ops->mb;
    part->n = end - first;
    memcpy(part->list, ops->list + first, (size_t)part->n * sizeof *part->list);
    join_masks(part);
    note_all(part, &h);
    if (part->n > 1) choose_gaps(part, &h); /* a single op may need all the memory there is */
    const size_t fetched_bytes = (size_t)count_fetched(&h) * sizeof *part->fetched;
    int words = rounded(part->n * (int)(sizeof *part->list / sizeof(float))); /* the list itself */
    part->fetched_at = words;
    words += rounded((int)(fetched_bytes / sizeof(float)));
    for (int i = 0; i < part->n; i++) {
        struct ls_cuda_small_op *op = &part->list[i];
        if (!has_weights(op)) continue;
        op->weights_at = words;
        words += weights_words(op);
    }
    words = place_values(&h, words);
    if (!fetch_all(part, &h)) return SIZE_MAX;
    for (int i = 0; i < part->n; i++) {
        struct ls_cuda_small_op *op = &part->list[i];
        struct ls_cuda_small_value *const all[] = {&op->in[0], &op->in[1], &op->mask, &op->out, &op->chosen};
        for (int k = 0; k < 5; k++) set_place(&h, all[k]);
    }
    return (size_t)words * sizeof(float);
}

/* --- how it is spread --- */

/* As many channels for a thread as still give most threads something to do. */
static void choose_block(struct ls_cuda_small_op *op, int threads)
{
    struct ls_cuda_small_conv *c = &op->of.conv;
    const int at_four = (int)c->chunks.by * c->oh * (c->oc / 4) * c->split;
    c->block = c->oc % 4 == 0 && 4 * at_four >= 3 * threads ? 4 : 2;
}

static int team_of(const struct ls_device *d, int mb)
{
    int team = 1;
    if (!d->small->has_teams) return 1;
    while (team < LS_CUDA_SMALL_LARGEST_TEAM && mb * team * 2 <= MANY_BLOCKS) team *= 2;
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

/* The smallest linear layer whose weights are still to be brought near; those of the widest reads only. */
static struct ls_cuda_small_op *next_near(struct ls_cuda_small_ops *part)
{
    struct ls_cuda_small_op *next = NULL;
    for (int i = 0; i < part->n; i++) {
        struct ls_cuda_small_op *op = &part->list[i];
        const struct ls_cuda_small_linear *l = &op->of.linear;
        if (op->kind != LS_CUDA_SMALL_LINEAR || l->n_near > 0 || l->ic % ALIGNMENT != 0) continue;
        if (!next || l->ic * l->oc < next->of.linear.ic * next->of.linear.oc) next = op;
    }
    return next;
}

/* What is left of shared memory gets rows of linear layers' weights, which come while the ops before compute, and
 * serve the gradients by data too. Returns the bytes with them. */
static size_t bring_near(struct ls_cuda_small_ops *part, size_t bytes, size_t most)
{
    struct ls_cuda_small_op *op;
    while ((op = next_near(part))) {
        struct ls_cuda_small_linear *l = &op->of.linear;
        const size_t row = (size_t)l->ic * sizeof(float), room = (most - bytes) / row;
        const int n = room < (size_t)l->oc ? (int)room : l->oc;
        if (n == 0) break;
        for (int i = 0; i < part->n; i++) {
            struct ls_cuda_small_op *other = &part->list[i];
            if (other->kind != LS_CUDA_SMALL_LINEAR && other->kind != LS_CUDA_SMALL_LINEAR_BWD) continue;
            if (other->weights != op->weights) continue;
            other->weights_at = (int)(bytes / sizeof(float));
            other->of.linear.n_near = n;
        }
        bytes += (size_t)n * row;
    }
    for (int i = 0; i < part->n; i++)
        if (part->list[i].kind == LS_CUDA_SMALL_LINEAR && part->list[i].of.linear.n_near > 0) {
            part->list[i].awaits_weights = true;
            break;
        }
    return bytes;
}

static enum ls_status enqueue(struct ls_device *d, struct ls_cuda_small_ops *part, size_t bytes)
{
    part->team = team_of(d, part->mb);
    part->fault = d->fault;
    const int threads = part->team == 1 && part->mb <= MANY_BLOCKS ? MANY_THREADS : FEW_THREADS;
    for (int i = 0; i < part->n; i++)
        if (has_weights(&part->list[i])) choose_block(&part->list[i], part->team * threads);
    if (threads == MANY_THREADS && part->list[0].kind != LS_CUDA_SMALL_LINEAR) /* there is room, and time before */
        bytes = bring_near(part, bytes, d->small->shared_bytes);
    const struct ls_cuda_small_shape shape = {part->mb, part->n, part->team, threads, bytes};
    const struct ls_cuda_small_ops *there;
    TRY(upload(d->small, part, &there));
    return LS_CUDA(ls__cuda_run_small(d->stream, there, shape));
}

static enum ls_status allow(struct ls_device *d)
{
    if (d->small->shared_bytes) return LS_OK;
    size_t bytes = d->card->sharedMemPerBlockOptin;
    TRY(LS_CUDA(ls__cuda_allow_small(&bytes, &d->small->has_teams)));
    d->small->shared_bytes = bytes;
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
