/* server_pieces.c: sums that come in pieces, and parameters that go so (split.h).
 *
 * Large networks, by a connection: sums of all workers come in over one link and new parameters go out over it, and it
 * carries both at once. So a piece of the store is updated as soon as every shard of the step has brought its sums of
 * it, and leaves while the pieces behind it still come in:
 *
 *     in      |0|1|2|3|4|5|
 *     update     |0|1|2|3|4|5|
 *     out          |0|1|2|3|4|5|
 *
 * Invariant: a push counts whole or not at all, as the ledger says; and the first n_applied pieces of the step are in
 * the store, whoever they came from. A push that ends half way (its worker died, its lease ran out) is dropped, and
 * its shards are computed again, with the parameters of before, which everybody has until the step is over. Of the push
 * that brings them the first n_applied pieces are not looked at: every shard has brought them already.
 */
#include "base/control.h"
#include "base/log.h"
#include "base/mem.h"
#include "elastic/server_internal.h"

#include <stdlib.h>

/* --- in --- */

static void release(struct arriving *a)
{
    for (int i = 0; i < LS_MAX_PIECES; i++) ls_wire_message_release(&a->pieces[i]);
    free(a);
}

/* The one that is not whole yet. */
static struct arriving **find(struct ls_server *s, int worker)
{
    struct arriving **a = &s->arriving;
    while (*a && ((*a)->worker != worker || (*a)->is_counted)) a = &(*a)->next;
    return a;
}

static void drop(struct ls_server *s, int worker)
{
    struct arriving **a = find(s, worker), *gone = *a;
    if (!gone) return;
    *a = gone->next;
    release(gone);
}

int ls__server_take_back(struct ls_server *s, int worker)
{
    drop(s, worker);
    return ls__ledger_drop(s->ledger, worker);
}

void ls__server_forget_pieces(struct ls_server *s)
{
    while (s->arriving) {
        struct arriving *gone = s->arriving;
        s->arriving = gone->next;
        release(gone);
    }
    s->n_applied = s->n_whole = 0;
}

/* A first piece: of what its worker has open at this moment, or of nothing. */
static void begin(struct ls_server *s, int worker, const struct ls_frame *f, const struct ls_talk_push *p)
{
    int items[LS_TALK_MAX_ITEMS];
    struct arriving *a;
    drop(s, worker);
    const bool is_now = s->is_open && !s->round.is_batches && f->step == s->round.step &&
                        (int)p->n_pieces == s->o.pieces->n && p->form < LS_N_SUMS_FORMS;
    if (!is_now || !ls__server_read_items(p, items) || !ls__ledger_holds(s->ledger, worker, items, (int)p->n_items))
        return;
    if (ls__calloc(&a, 1, sizeof *a) != LS_OK) return; /* the end of the push will not count */
    a->worker = worker;
    a->n_items = (int)p->n_items;
    a->push = p->number;
    a->form = (enum ls_sums_form)p->form;
    a->next = s->arriving;
    s->arriving = a;
}

/* The push of which it is the next piece, if that may still count. Takes *m over if anybody needs it. */
static struct arriving *keep(struct ls_server *s, int worker, const struct ls_talk_push *p, struct ls_wire_message *m)
{
    struct arriving *a = *find(s, worker);
    const struct ls_sum_range *ranges = s->o.pieces->ranges;
    if (!a || a->push != p->number || a->form != (enum ls_sums_form)p->form || a->n_here != (int)p->piece ||
        a->n_items != (int)p->n_items || (int)p->n_pieces != s->o.pieces->n || !m->payload)
        return NULL;
    const int64_t n = ranges[p->piece].end - ranges[p->piece].begin;
    if (!ls__sums_are_whole(a->form, m->payload, m->payload_bytes, n)) return NULL;
    if (a->n_here >= s->n_applied) {
        a->pieces[a->n_here] = *m;
        *m = (struct ls_wire_message){0};
    }
    a->n_here++;
    return a;
}

/* The last piece; a NULL: of nothing. */
static void end(struct ls_server *s, struct server_worker *w, const struct ls_frame *f, const struct ls_talk_push *p,
                struct arriving *a, size_t bytes)
{
    const int worker = ls__server_number(s, w);
    struct ls_server_push push = {.worker = worker, .number = f->sequence, .push = p->number};
    push.n_items = (int)p->n_items;
    const bool is_counted = a && ls__server_read_items(p, push.items) &&
                            ls__ledger_complete(s->ledger, worker, push.items, push.n_items, NULL);
    ls__server_note_push(s, w, p, is_counted, bytes);
    ls__server_unread(s, w);
    if (!is_counted) {
        ls__server_take_back(s, worker);
        ls__server_reject(s, w, f->sequence);
        return;
    }
    a->is_counted = true;
    ls__server_settle_locked(s, &push);
}

void ls__server_take_piece(struct ls_server *s, struct server_worker *w, const struct ls_frame *f,
                           const struct ls_talk_push *p, struct ls_wire_message *m)
{
    const int worker = ls__server_number(s, w);
    const size_t bytes = m->head_bytes + m->payload_bytes;
    if (p->piece == 0) begin(s, worker, f, p);
    struct arriving *a = keep(s, worker, p, m);
    if (!a) drop(s, worker); /* what comes behind it does not count either */
    if (p->piece + 1 == p->n_pieces)
        end(s, w, f, p, a, bytes);
    else
        w->told.bytes_sent += (int64_t)bytes;
}

/* --- whole pieces --- */

bool ls__server_has_pieces(const struct ls_server *s)
{
    return s->arriving || s->n_applied > 0;
}

static bool is_whole(const struct ls_server *s, int piece, int *n)
{
    int n_items = s->n_whole;
    *n = 0;
    for (const struct arriving *a = s->arriving; a; a = a->next) {
        if (a->n_here <= piece) continue;
        n_items += a->n_items;
        *n += 1;
    }
    return n_items == s->round.n_items;
}

enum ls_status ls__server_next_piece(struct ls_server *s, struct ls_server_piece *out, bool *is_there)
{
    int n, at = 0;
    *is_there =
        s->is_open && ls__server_has_pieces(s) && s->n_applied < s->o.pieces->n && is_whole(s, s->n_applied, &n);
    if (!*is_there) return LS_OK;
    *out = (struct ls_server_piece){.piece = s->n_applied, .n = n};
    TRY(ls__calloc(&out->parts, (size_t)n + 1, sizeof *out->parts));
    for (struct arriving *a = s->arriving; a; a = a->next) {
        if (a->n_here <= out->piece) continue;
        out->parts[at++] = (struct ls_server_sums){a->form, a->pieces[out->piece]};
        a->pieces[out->piece] = (struct ls_wire_message){0};
    }
    s->n_applied++;
    return LS_OK;
}

void ls__server_piece_release(struct ls_server_piece *piece)
{
    for (int i = 0; piece->parts && i < piece->n; i++) ls_wire_message_release(&piece->parts[i].message);
    free(piece->parts);
    *piece = (struct ls_server_piece){0};
}

/* --- out --- */

void ls__server_drop_ahead(struct ls_server *s)
{
    for (int i = 0; i < LS_MAX_PIECES; i++) ls__copies_close(&s->ahead[i]);
}

/* To who has all pieces before it and computes with the parameters of now. Others get them whole, with their work. */
static void tell(struct ls_server *s, struct server_worker *w, int piece, struct ls_wire_buffer *buffer, size_t bytes)
{
    const struct ls_talk_ahead body = {.version = s->version + 1, .piece = (uint32_t)piece};
    const int number = ls__server_number(s, w);
    size_t sent;
    if (!w->is_here || !w->is_ready || w->is_late || w->is_boxed || w->version != s->version) return;
    if (piece == 0) w->n_ahead = 0;
    if (piece == 0) w->ahead = body.version;
    if (w->ahead != body.version || w->n_ahead != piece) return;
    if (ls__server_send(s, w->peer, (uint32_t)number, LS_TALK_AHEAD, s->round.step, &body, buffer, bytes, &sent) !=
        LS_OK) {
        ls__log(LS_LOG_DEBUG, "worker %d: %s", number, ls_error_message()); /* it is going, or gone */
        return;
    }
    w->n_ahead++;
    w->told.bytes_received += (int64_t)sent;
}

enum ls_status ls__server_tell_ahead(struct ls_server *s, int piece, const struct ls_parameters *parameters)
{
    struct ls_copies *copies = &s->ahead[piece]; /* this thread's alone */
    struct ls_wire_buffer *buffer;
    if (s->round.is_last || ls__control_stop_wanted(s->o.control)) return LS_OK;
    if (copies->bytes == 0) TRY(ls__copies_open(copies, parameters->bytes));
    TRY(ls__copies_make(copies, parameters, &buffer));
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->n_workers; i++) tell(s, &s->workers[i], piece, buffer, parameters->bytes);
    pthread_mutex_unlock(&s->lock);
    return LS_OK;
}
