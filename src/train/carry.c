/* carry.c: what shards carry, gathered for a checkpoint and handed out again after a resume (carry.h). */
#include "train/carry.h"

#include "base/log.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 168, PIECE_BYTES = 1 << 20 };

/* Shards [first, first + n). */
struct range {
    int32_t first, n;
};

struct carry {
    struct session *s;
    struct ls_comm *comm;
    struct sync *sync;
    const struct carry_kind *kind;
    struct range own;  /* whose state this rank can read and set */
    struct range *all; /* [n_ranks] that of all ranks */
    int *entries;      /* [n] of the store: what is carried of each */
    int n;
    int64_t largest, total; /* elements: of the largest, of all, for one shard */
    float *plain;           /* [largest] */
    char *gathered;         /* [n_ranks][PIECE_BYTES], rank 0's */
};

static int64_t count_of(const struct carry *c, int k)
{
    return ls_shape_count(&c->s->store->entries[c->entries[k]].shape);
}

static bool has(const struct range *r, int shard)
{
    return shard >= r->first && shard - r->first < r->n;
}

static enum ls_status get(struct carry *c, int shard, int k, float *out)
{
    return c->kind->get(c->sync, shard, c->entries[k], out);
}

static enum ls_status set(struct carry *c, int shard, int k, const float *in)
{
    return c->kind->set(c->sync, shard, c->entries[k], in);
}

static enum ls_status share_ranges(struct ls_comm *comm, struct range own, struct range *all)
{
    TRY(ls_comm_gather(comm, &own, sizeof own, all));
    return ls_comm_broadcast(comm, 0, all, (size_t)ls_comm_place(comm)->n_ranks * sizeof own);
}

/* --- life --- */

static enum ls_status allocate(struct carry *c)
{
    const struct ls_comm_place *at = ls_comm_place(c->comm);
    TRY(ls__calloc(&c->entries, (size_t)c->s->store->n_entries, sizeof *c->entries));
    for (int i = 0; i < c->s->store->n_entries; i++) {
        if (!c->kind->is_carried(c->sync, i)) continue;
        c->entries[c->n++] = i;
        int64_t n = count_of(c, c->n - 1);
        c->total += n;
        c->largest = n > c->largest ? n : c->largest;
    }
    TRY(ls__calloc(&c->all, (size_t)at->n_ranks, sizeof *c->all));
    TRY(ls__calloc(&c->plain, (size_t)c->largest, sizeof *c->plain));
    return ls__calloc(&c->gathered, at->rank == 0 ? (size_t)at->n_ranks : 1, PIECE_BYTES);
}

static enum ls_status build(struct carry *c)
{
    int first = 0, n = 0;
    TRY(c->kind->open(c->sync, &first, &n));
    c->own = (struct range){first, n};
    TRY(allocate(c));
    return share_ranges(c->comm, c->own, c->all);
}

enum ls_status ls__carry_open(struct carry **out, struct sync *sync)
{
    *out = NULL;
    if (!sync->carried) return LS_OK;
    TRY(ls__calloc(out, 1, sizeof **out));
    **out = (struct carry){.s = sync->s, .comm = sync->s->comm, .sync = sync, .kind = sync->carried};
    enum ls_status status = build(*out);
    if (status != LS_OK || (*out)->n == 0) ls__carry_close(out); /* no gradient is large enough to be rounded */
    return status;
}

void ls__carry_close(struct carry **carry)
{
    struct carry *c = *carry;
    if (!c) return;
    free(c->entries);
    free(c->all);
    free(c->plain);
    free(c->gathered);
    free(c);
    *carry = NULL;
}

static bool is_due(const struct carry *c, const struct train_state *st)
{
    return c && c->kind->is_due(c->sync, st);
}

/* --- out --- */

static void name_entry(const struct ls_stored *e, const struct carry_kind *kind, char name[NAME_BYTES])
{
    size_t len = kind->stripped ? strlen(kind->stripped) : 0;
    bool is_stripped = len > 0 && strncmp(e->name, kind->stripped, len) == 0;
    snprintf(name, NAME_BYTES, "%s%s", kind->prefix, is_stripped ? e->name + len : e->name);
}

static void name_of(const struct carry *c, int k, char name[NAME_BYTES])
{
    name_entry(&c->s->store->entries[c->entries[k]], c->kind, name);
}

static enum ls_status reserve_list(struct carried *out, size_t n)
{
    TRY(ls__calloc(&out->tensors, n, sizeof *out->tensors));
    return ls__calloc(&out->names, n, NAME_BYTES);
}

static void list_entry(struct carried *out, const struct ls_stored *e, const struct carry_kind *kind)
{
    char *name = out->names + (size_t)out->n * NAME_BYTES;
    name_entry(e, kind, name);
    out->tensors[out->n++] = (struct ls_ckpt_tensor){
        .name = name, .dtype = LS_F32, .shape = {.n_dims = 2, .dims = {out->n_shards, ls_shape_count(&e->shape)}}};
}

enum ls_status ls__carry_outline(const struct session *s, const struct carry_kind *kind, struct carried *out)
{
    *out = (struct carried){.n_shards = (int)s->shards};
    if (!kind) return LS_OK;
    TRY(reserve_list(out, (size_t)s->store->n_entries));
    for (int i = 0; i < s->store->n_entries; i++) {
        const struct ls_stored *e = &s->store->entries[i];
        if (kind->may_carry(e)) list_entry(out, e, kind);
    }
    return LS_OK;
}

enum ls_status ls__carry_join(struct snapshot *snap, const struct carried *carried)
{
    if (carried->n == 0) return LS_OK;
    TRY(ls__grow(&snap->tensors, (size_t)snap->n, (size_t)(snap->n + carried->n), sizeof *snap->tensors));
    memcpy(snap->tensors + snap->n, carried->tensors, (size_t)carried->n * sizeof *snap->tensors);
    snap->n += carried->n;
    return LS_OK;
}

static enum ls_status reserve(const struct carry *c, struct carried *out)
{
    TRY(reserve_list(out, (size_t)c->n));
    if (out->n_shards == 0) return LS_OK;
    out->bytes = (size_t)c->total * (size_t)out->n_shards * sizeof *out->data;
    TRY(ls__alloc_aligned(&out->data, out->bytes));
    float *at = out->data;
    for (int k = 0; k < c->n; k++) {
        list_entry(out, &c->s->store->entries[c->entries[k]], c->kind);
        out->tensors[k].data = at;
        at += count_of(c, k) * out->n_shards;
    }
    return LS_OK;
}

/* Where a shard's values of tensor k go. */
static float *place_of(const struct carry *c, const struct carried *out, int shard, int k)
{
    return (float *)out->tensors[k].data + (shard - out->first) * count_of(c, k);
}

/* The slot-th shard of every rank to rank 0. A rank that has fewer sends what happens to be there. */
static enum ls_status gather_slot(struct carry *c, int slot, int k, const struct carried *out)
{
    const struct ls_comm_place *at = ls_comm_place(c->comm);
    size_t bytes = (size_t)count_of(c, k) * sizeof *c->plain;
    if (slot < c->own.n) TRY(get(c, c->own.first + slot, k, c->plain));
    for (size_t done = 0; done < bytes; done += PIECE_BYTES) {
        size_t piece = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
        TRY(ls_comm_gather(c->comm, (char *)c->plain + done, piece, c->gathered));
        for (int r = 0; at->rank == 0 && r < at->n_ranks; r++)
            if (slot < c->all[r].n)
                memcpy((char *)place_of(c, out, c->all[r].first + slot, k) + done, c->gathered + (size_t)r * piece,
                       piece);
    }
    return LS_OK;
}

static enum ls_status gather(struct carry *c, const struct carried *out)
{
    int n_slots = 0;
    for (int r = 0; r < ls_comm_place(c->comm)->n_ranks; r++) n_slots = c->all[r].n > n_slots ? c->all[r].n : n_slots;
    for (int slot = 0; slot < n_slots; slot++)
        for (int k = 0; k < c->n; k++) TRY(gather_slot(c, slot, k, out));
    return LS_OK;
}

enum ls_status ls__carry_gather(struct carry *c, const struct train_state *st, struct carried *out)
{
    *out = (struct carried){.is_due = is_due(c, st)};
    if (!out->is_due) return LS_OK;
    out->n_shards = ls_comm_place(c->comm)->rank == 0 ? (int)c->s->shards : 0;
    enum ls_status status = reserve(c, out);
    if (status == LS_OK) status = gather(c, out);
    if (status == LS_OK) status = ls__carry_barrier(c, st);
    if (status != LS_OK) ls__carry_release(out);
    return status;
}

enum ls_status ls__carry_copy(struct carry *c, const struct train_state *st, struct carried *out)
{
    *out = (struct carried){.is_due = is_due(c, st)};
    if (!out->is_due) return LS_OK;
    out->first = c->own.first;
    out->n_shards = c->own.n;
    enum ls_status status = reserve(c, out);
    for (int shard = c->own.first; shard < c->own.first + c->own.n; shard++)
        for (int k = 0; status == LS_OK && k < c->n; k++) status = get(c, shard, k, place_of(c, out, shard, k));
    if (status != LS_OK) ls__carry_release(out);
    return status;
}

enum ls_status ls__carry_barrier(struct carry *c, const struct train_state *st)
{
    return is_due(c, st) ? ls_comm_barrier(c->comm, LS_OK, 0) : LS_OK;
}

void ls__carry_release(struct carried *carried)
{
    free(carried->tensors);
    free(carried->names);
    ls__free_aligned(carried->data, carried->bytes);
    *carried = (struct carried){0};
}

/* --- in --- */

bool ls__carry_shards_of(const struct ls_ckpt *ckpt, int n_shards, int *first, int *n)
{
    const char *text = ls_ckpt_meta(ckpt, "carried_shards");
    char *end;
    *first = 0;
    *n = n_shards;
    if (!text) return true;
    long a = strtol(text, &end, 10), b = strtol(end, &end, 10);
    *first = (int)a;
    *n = (int)b;
    return *end == '\0' && a >= 0 && b >= 0 && a <= n_shards && b <= n_shards - a;
}

static enum ls_status check_tensor(const struct carry *c, const struct ls_ckpt *ckpt, const char *path, int k, int n)
{
    char name[NAME_BYTES];
    name_of(c, k, name);
    const struct ls_ckpt_tensor *t = ls_ckpt_find(ckpt, name);
    if (!t || t->dtype != LS_F32 || t->shape.n_dims != 2 || t->shape.dims[0] != n || t->shape.dims[1] != count_of(c, k))
        return ls_fail(LS_CHECKPOINT, "%s has no '%s' of %d shards, though its metadata say so: it is damaged", path,
                       name, n);
    const float *x = t->data;
    for (int64_t i = 0, end = t->shape.dims[0] * t->shape.dims[1]; i < end; i++)
        if (!isfinite(x[i]))
            return ls_fail(LS_CHECKPOINT,
                           "%s: tensor '%s' holds a value that is not finite; take an earlier checkpoint", path, name);
    return LS_OK;
}

/* Which shards this checkpoint has; none without the key. */
static enum ls_status look(const struct carry *c, const struct ls_ckpt *ckpt, const char *path, struct range *found)
{
    int first, n;
    *found = (struct range){0};
    if (!ckpt || !ls_ckpt_meta(ckpt, "carried_shards")) return LS_OK;
    if (!ls__carry_shards_of(ckpt, (int)c->s->shards, &first, &n))
        return ls_fail(LS_CHECKPOINT, "%s: 'carried_shards' in its metadata is malformed", path);
    for (int k = 0; k < c->n && n > 0; k++) TRY(check_tensor(c, ckpt, path, k, n));
    *found = (struct range){first, n};
    return LS_OK;
}

static int holder_of(const struct carry *c, const struct range *found, int shard)
{
    for (int r = 0; r < ls_comm_place(c->comm)->n_ranks; r++)
        if (has(&found[r], shard)) return r;
    return -1;
}

static enum ls_status move(struct carry *c, const struct ls_ckpt *ckpt, const struct range *found)
{
    char name[NAME_BYTES];
    int me = ls_comm_place(c->comm)->rank;
    for (int shard = 0; shard < (int)c->s->shards; shard++) {
        int holder = holder_of(c, found, shard);
        for (int k = 0; k < c->n; k++) {
            int64_t n = count_of(c, k);
            name_of(c, k, name);
            if (holder == me)
                memcpy(c->plain, (const float *)ls_ckpt_find(ckpt, name)->data + (shard - found[me].first) * n,
                       (size_t)n * sizeof *c->plain);
            TRY(ls_comm_broadcast(c->comm, holder, c->plain, (size_t)n * sizeof *c->plain));
            if (has(&c->own, shard)) TRY(set(c, shard, k, c->plain));
        }
    }
    return ls_comm_barrier(c->comm, LS_OK, 0);
}

enum ls_status ls__carry_take(struct carry *c, const struct train_state *st, const struct ls_ckpt *ckpt,
                              const char *path)
{
    struct range own = {0}, *found;
    if (st->step == 0 || !is_due(c, st)) return LS_OK;
    enum ls_status status = ls__calloc(&found, (size_t)ls_comm_place(c->comm)->n_ranks, sizeof *found);
    if (status == LS_OK) status = look(c, ckpt, path, &own);
    if (status == LS_OK) status = share_ranges(c->comm, own, found);
    bool is_whole = true;
    for (int shard = 0; status == LS_OK && shard < (int)c->s->shards; shard++)
        is_whole &= holder_of(c, found, shard) >= 0;
    if (status == LS_OK && is_whole) status = move(c, ckpt, found);
    if (status == LS_OK && !is_whole && ls_comm_place(c->comm)->rank == 0)
        ls__log(LS_LOG_WARN, "the checkpoint has no %s: the weights will not be bit for bit those of an unbroken run",
                c->kind->what);
    free(found);
    return status;
}
