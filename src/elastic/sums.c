/* sums.c: see sums.h. */
#include "elastic/sums.h"

#include "base/mem.h"
#include "comm/pack.h"

#include <stdlib.h>
#include <string.h>

enum { TABLE_ENTRY = sizeof(uint32_t) };

static int64_t n_pieces(int64_t n)
{
    return (n + LS_SUMS_PIECE - 1) / LS_SUMS_PIECE;
}

static size_t count_of(int64_t n, int64_t piece)
{
    int64_t left = n - piece * LS_SUMS_PIECE;
    return (size_t)(left < LS_SUMS_PIECE ? left : LS_SUMS_PIECE);
}

size_t ls__sums_bound(enum ls_sums_form form, int64_t n)
{
    if (form == LS_SUMS_PLAIN) return (size_t)n * sizeof(int64_t);
    return (size_t)n_pieces(n) * (TABLE_ENTRY + ls__pack_bound(LS_SUMS_PIECE));
}

/* A table may lie anywhere in a message. */
static uint32_t table_at(const uint8_t *in, int64_t piece)
{
    uint32_t bytes;
    memcpy(&bytes, in + (size_t)piece * TABLE_ENTRY, sizeof bytes);
    return bytes;
}

/* --- writing --- */

struct writing {
    int64_t *sums, n;
    enum ls_sums_form form;
    uint8_t *out;
    uint32_t *lengths; /* PACKED: [n_pieces] */
};

/* Each piece has room for its bound; they move together afterwards. */
static uint8_t *room_of(const struct writing *w, int64_t piece)
{
    return w->out + (size_t)n_pieces(w->n) * TABLE_ENTRY + (size_t)piece * ls__pack_bound(LS_SUMS_PIECE);
}

/* Copies and zeroes what fits the nearest cache at a time. */
static void move_out(int64_t *from, size_t n, uint8_t *out)
{
    enum { AT_A_TIME = 1 << 9 };
    for (size_t i = 0; i < n; i += AT_A_TIME) {
        const size_t bytes = (n - i < AT_A_TIME ? n - i : AT_A_TIME) * sizeof *from;
        memcpy(out + i * sizeof *from, from + i, bytes);
        memset(from + i, 0, bytes);
    }
}

static enum ls_status write_piece(void *arg, int item, int thread)
{
    const struct writing *w = arg;
    const size_t count = count_of(w->n, item);
    int64_t *from = w->sums + (int64_t)item * LS_SUMS_PIECE;
    if (w->form == LS_SUMS_PLAIN) {
        move_out(from, count, w->out + (size_t)item * LS_SUMS_PIECE * sizeof *from);
        return LS_OK;
    }
    w->lengths[item] = (uint32_t)ls__pack(from, count, room_of(w, item));
    memset(from, 0, count * sizeof *from);
    return LS_OK;
}

static size_t move_together(const struct writing *w)
{
    const size_t table = (size_t)n_pieces(w->n) * TABLE_ENTRY;
    size_t at = table;
    for (int64_t i = 0; i < n_pieces(w->n); i++) {
        memmove(w->out + at, room_of(w, i), w->lengths[i]);
        at += w->lengths[i];
    }
    memcpy(w->out, w->lengths, table);
    return at;
}

static int64_t *range_of(struct ls_exec *exec, struct ls_sum_range range, int64_t *n)
{
    int64_t all, *block = ls_exec_sums(exec, &all);
    *n = range.end - range.begin;
    return block + range.begin;
}

enum ls_status ls__sums_write(struct ls_exec *exec, struct ls_sum_range range, enum ls_sums_form form, uint8_t *out,
                              size_t *bytes)
{
    struct writing w = {.form = form, .out = out};
    w.sums = range_of(exec, range, &w.n);
    *bytes = (size_t)w.n * sizeof *w.sums;
    if (ls_exec_is_far(exec) && form == LS_SUMS_PLAIN) return ls_exec_move_sums(exec, range, out);
    if (ls_exec_is_far(exec)) TRY(ls_exec_move_sums(exec, range, w.sums));
    if (form == LS_SUMS_PACKED) TRY(ls__calloc(&w.lengths, (size_t)n_pieces(w.n), sizeof *w.lengths));
    enum ls_status status = ls_exec_run(exec, (int)n_pieces(w.n), write_piece, &w);
    if (form == LS_SUMS_PACKED) *bytes = move_together(&w);
    free(w.lengths);
    return status;
}

/* --- reading --- */

bool ls__sums_are_whole(enum ls_sums_form form, const uint8_t *in, size_t bytes, int64_t n)
{
    const size_t table = (size_t)n_pieces(n) * TABLE_ENTRY;
    if (form == LS_SUMS_PLAIN) return bytes == (size_t)n * sizeof(int64_t);
    if (form != LS_SUMS_PACKED || bytes < table) return false;
    size_t at = table;
    for (int64_t i = 0; i < n_pieces(n); i++) {
        const uint32_t length = table_at(in, i);
        if (length > bytes - at || !ls__pack_is_whole(in + at, length, count_of(n, i))) return false;
        at += length;
    }
    return at == bytes;
}

struct reading {
    int64_t *sums, n;
    enum ls_sums_form form;
    const uint8_t *in;
    size_t *begins; /* PACKED: [n_pieces] */
};

static void add_plain(int64_t *sums, const uint8_t *in, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int64_t x;
        memcpy(&x, in + i * sizeof x, sizeof x);
        sums[i] = (int64_t)((uint64_t)sums[i] + (uint64_t)x);
    }
}

static enum ls_status add_piece(void *arg, int item, int thread)
{
    const struct reading *r = arg;
    const size_t count = count_of(r->n, item);
    int64_t *to = r->sums + (int64_t)item * LS_SUMS_PIECE;
    if (r->form == LS_SUMS_PLAIN)
        add_plain(to, r->in + (size_t)item * LS_SUMS_PIECE * sizeof *to, count);
    else if (!ls__unpack(r->in + r->begins[item], table_at(r->in, item), to, count, true))
        return ls_fail(LS_INTERNAL, "sums that were whole cannot be unpacked");
    return LS_OK;
}

enum ls_status ls__sums_add(struct ls_exec *exec, struct ls_sum_range range, enum ls_sums_form form, const uint8_t *in,
                            size_t bytes)
{
    struct reading r = {.form = form, .in = in};
    r.sums = range_of(exec, range, &r.n);
    const int64_t pieces = n_pieces(r.n);
    if (form == LS_SUMS_PACKED) TRY(ls__calloc(&r.begins, (size_t)pieces, sizeof *r.begins));
    size_t at = (size_t)pieces * TABLE_ENTRY;
    for (int64_t i = 0; form == LS_SUMS_PACKED && i < pieces; i++) {
        r.begins[i] = at;
        at += table_at(in, i);
    }
    enum ls_status status = ls_exec_run(exec, (int)pieces, add_piece, &r);
    free(r.begins);
    return status;
}
