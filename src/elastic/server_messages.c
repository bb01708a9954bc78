/* server_messages.c: what comes in, what it changes, and what is answered. Nothing is believed that the reader refused;
 * what does not belong to this session, or comes from somebody who has not joined, is dropped without an answer.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "elastic/server_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- out --- */

/* Into s->head. */
static enum ls_status write_head(struct ls_server *s, uint32_t sender, enum ls_talk_kind kind, int64_t step,
                                 const void *body, size_t payload_bytes, size_t *head_bytes)
{
    const struct ls_frame frame = {.session = s->session,
                                   .step = step,
                                   .sender = sender,
                                   .sequence = ++s->sequence,
                                   .payload_bytes = payload_bytes};
    return ls__talk_write(s->head, LS_TALK_HEAD_BYTES, frame, kind, body, head_bytes);
}

enum ls_status ls__server_send(struct ls_server *s, uint64_t peer, uint32_t sender, enum ls_talk_kind kind,
                               int64_t step, const void *body, struct ls_wire_buffer *payload, size_t bytes,
                               size_t *sent)
{
    size_t head_bytes;
    TRY(write_head(s, sender, kind, step, body, payload ? bytes : 0, &head_bytes));
    *sent = head_bytes + (payload ? bytes : 0);
    return ls_wire_send(s->wire, peer, s->head, head_bytes, payload, bytes);
}

void ls__server_say(struct ls_server *s, struct server_worker *w, enum ls_talk_kind kind, int64_t step,
                    const void *body, struct ls_wire_buffer *payload, size_t bytes)
{
    const int number = ls__server_number(s, w);
    size_t sent;
    const bool is_said = w->is_boxed && !payload &&
                         write_head(s, (uint32_t)number, kind, step, body, 0, &sent) == LS_OK &&
                         ls__tube_put(&w->tube, s->head, sent);
    if (is_said || ls__server_send(s, w->peer, (uint32_t)number, kind, step, body, payload, bytes, &sent) == LS_OK)
        w->told.bytes_received += (int64_t)sent;
    else
        ls__log(LS_LOG_DEBUG, "worker %d: %s", number, ls_error_message()); /* it is going, or gone */
}

/* The one message whose head may be long. */
enum ls_status ls__server_welcome(struct ls_server *s, uint64_t peer, int worker, int keeper)
{
    const struct server_worker *w = keeper == 0 ? &s->workers[worker] : NULL;
    const bool is_boxed = w && w->tube.in;
    const struct ls_talk_welcome body = {.worker = (uint32_t)worker,
                                         .server = (uint32_t)keeper,
                                         .lease = s->o.lease,
                                         .timeout = s->o.timeout,
                                         .box_pid = is_boxed ? (uint32_t)getpid() : 0,
                                         .box_fd = is_boxed ? ls__box_fd(s->box) : 0,
                                         .server_bell = is_boxed ? (uint32_t)s->bell[1] : 0,
                                         .worker_bell = is_boxed ? (uint32_t)w->bell[0] : 0,
                                         .n_pieces = (uint32_t)s->o.pieces->n,
                                         .options = (const uint8_t *)s->o.options,
                                         .options_bytes = strlen(s->o.options),
                                         .model_name = (const uint8_t *)s->o.model_name,
                                         .model_name_bytes = strlen(s->o.model_name),
                                         .model = (const uint8_t *)s->o.model,
                                         .model_bytes = strlen(s->o.model),
                                         .identity = (const uint8_t *)s->o.identity,
                                         .identity_bytes = strlen(s->o.identity)};
    const struct ls_frame frame = {.session = s->session, .step = s->round.step, .sequence = ++s->sequence};
    uint8_t *head;
    size_t size = ls__talk_welcome_bytes(&body), bytes;
    TRY(ls__calloc(&head, size, 1));
    enum ls_status status = ls__talk_write(head, size, frame, LS_TALK_WELCOME, &body, &bytes);
    if (status == LS_OK) status = ls_wire_send(s->wire, peer, head, bytes, NULL, 0);
    free(head);
    return status;
}

static void send_work(struct ls_server *s, struct server_worker *w, const int *items, int n)
{
    struct ls_talk_work *work = &s->reply.work;
    work->epoch = s->round.epoch;
    work->batch = s->round.is_batches ? items[0] : s->round.batch;
    work->version = s->version;
    work->batch_n = (uint32_t)s->round.batch_n;
    work->n_items = (uint32_t)n;
    for (int i = 0; i < n; i++) work->items[i] = (uint32_t)items[i];
    work->counted = w->counted;
    work->is_last = s->round.is_batches || s->is_dealt || ls__ledger_n_free(s->ledger) == 0;
    work->is_whole = s->round.is_batches;
    struct ls_wire_buffer *payload = ls__server_hand_over(s, w, work);
    ls__server_say(s, w, LS_TALK_WORK, s->round.step + (work->is_whole ? items[0] : 0), work, payload,
                   s->o.parameters_bytes);
}

void ls__server_give(struct ls_server *s, struct server_worker *w)
{
    int items[LS_TALK_MAX_ITEMS];
    const int number = ls__server_number(s, w);
    if (!s->is_open || !w->is_here || !w->is_ready || !w->is_idle || w->is_late) return;
    int n = ls__ledger_take(s->ledger, number, ls__server_share(s, w, true), s->n_settled, items);
    if (n == 0 && !s->round.is_batches && s->o.n_backup > 0)
        n = ls__ledger_take_second(s->ledger, number, s->o.n_backup, s->n_settled, items);
    if (n == 0) return;
    w->is_idle = false;
    w->given_ns = ls__now_ns();
    ls__server_tell_places(s, w);
    send_work(s, w, items, n);
}

void ls__server_give_all(struct ls_server *s)
{
    for (int i = 0; i < s->n_workers; i++) ls__server_give(s, &s->workers[i]);
}

/* --- in --- */

static void on_join(struct ls_server *s, uint64_t peer, const struct ls_talk_join *join)
{
    struct server_worker *w = ls__server_find(s, peer);
    if (s->o.ticket && strcmp(join->ticket, s->o.ticket) != 0) return; /* a stranger */
    if (join->serves[0]) {
        ls__server_add_keeper(s, peer, join);
        return;
    }
    if (w) ls__server_remove(s, w, NULL); /* it has begun anew */
    if (ls__server_add(s, peer, join, &w) != LS_OK ||
        ls__server_welcome(s, peer, ls__server_number(s, w), 0) != LS_OK) {
        ls__log(LS_LOG_WARN, "a worker on %s was not taken: %s", join->host, ls_error_message());
        return;
    }
    if (strcmp(join->version, LOCKSTEP_VERSION) == 0) return;
    const struct ls_talk_end end = {.status = LS_USAGE,
                                    .text = "the server is lockstep " LOCKSTEP_VERSION "; install the same here"};
    ls__server_say(s, w, LS_TALK_OVER, s->round.step, &end, NULL, 0);
    ls__server_remove(s, w, NULL);
}

static void on_ready(struct ls_server *s, struct server_worker *w, const struct ls_talk_ready *ready)
{
    if (ready->n_sums != (uint64_t)s->o.n_sums || ready->parameters_bytes != s->o.parameters_bytes) {
        const struct ls_talk_end end = {.status = LS_USAGE, .text = "the worker's plan is not the server's"};
        ls__server_say(s, w, LS_TALK_OVER, s->round.step, &end, NULL, 0);
        ls__server_remove(s, w, NULL);
        return;
    }
    if (ready->threads > 0) w->threads = (int)ready->threads;
    if (!w->is_ready)
        ls__log(LS_LOG_INFO, "worker %d joined at step %lld: %s, %d thread%s, pid %u", ls__server_number(s, w),
                (long long)ls__server_step(s) + 1, w->told.host, w->threads, w->threads == 1 ? "" : "s", w->pid);
    w->is_boxed = w->told.shares_memory = ready->is_boxed && w->tube.in;
    w->is_ready = w->is_idle = true;
    if (s->o.on_joined) s->o.on_joined(s->o.context, w->slot);
    ls__server_give(s, w);
}

static void on_ask(struct ls_server *s, struct server_worker *w, const struct ls_frame *f)
{
    int items[LS_TALK_MAX_ITEMS], n = 0;
    const int number = ls__server_number(s, w);
    const bool is_now = s->is_open && f->step == s->round.step && !s->round.is_batches;
    if (is_now && ls__ledger_n_open(s->ledger, number) > 0) /* not if its lease ran out meanwhile */
        n = ls__ledger_take(s->ledger, number, ls__server_share(s, w, false), s->n_settled, items);
    struct ls_talk_work *work = &s->reply.work;
    if (n > 0) {
        send_work(s, w, items, n);
        return;
    }
    *work = (struct ls_talk_work){.version = w->version, .is_last = true};
    ls__server_say(s, w, LS_TALK_WORK, f->step, work, NULL, 0); /* of its step, which may be over: it waits for this */
}

/* Where they lie, if they are whole. */
static bool find_sums(struct ls_server *s, const struct server_worker *w, const struct ls_talk_push *p,
                      const struct ls_wire_message *m, struct ls_server_push *out)
{
    if (p->form == LS_SUMS_BOXED) {
        out->form = LS_SUMS_PLAIN;
        out->bytes = ls__sums_bound(LS_SUMS_PLAIN, s->o.n_own_sums);
        out->sums = w->is_boxed && !m->payload ? (const uint8_t *)ls__box_sums(s->box, w->slot) : NULL;
        return out->sums;
    }
    const bool comes_in_pieces = s->o.pieces->n > 1 && !s->round.is_batches;
    if (comes_in_pieces || p->form >= LS_N_SUMS_FORMS || !m->payload) return false;
    out->form = (enum ls_sums_form)p->form;
    out->sums = m->payload;
    out->bytes = m->payload_bytes;
    return ls__sums_are_whole(out->form, m->payload, m->payload_bytes, s->o.n_own_sums);
}

bool ls__server_read_items(const struct ls_talk_push *p, int *items)
{
    for (uint32_t i = 0; i < p->n_items; i++) {
        if (p->items[i] > INT32_MAX) return false;
        items[i] = (int)p->items[i];
    }
    return true;
}

static bool counts(struct ls_server *s, const struct server_worker *w, const struct ls_frame *f,
                   const struct ls_talk_push *p, const struct ls_wire_message *m, struct ls_server_push *out)
{
    const int number = ls__server_number(s, w);
    out->n_items = (int)p->n_items;
    if (!ls__server_read_items(p, out->items)) return false;
    bool is_now = s->is_open && (s->round.is_batches || f->step == s->round.step) && find_sums(s, w, p, m, out);
    if (!is_now) ls__server_take_back(s, number);
    bool is_counted = is_now && ls__ledger_complete(s->ledger, number, out->items, out->n_items, &out->staleness);
    if (!s->round.is_batches) out->staleness = 0; /* all of a step have the same parameters */
    return is_counted;
}

void ls__server_reject(struct ls_server *s, struct server_worker *w, uint64_t push)
{
    const struct ls_talk_ack ack = {.push = push};
    w->is_idle = true;
    w->version = -1; /* it may have given its work back because it could not get all parts of the parameters */
    w->n_ahead = 0;
    ls__server_say(s, w, LS_TALK_ACK, s->round.step, &ack, NULL, 0);
    ls__server_give_all(s); /* what it had is free */
}

/* Takes *m over if it counts. */
static void on_push(struct ls_server *s, struct server_worker *w, const struct ls_frame *f,
                    const struct ls_talk_push *p, struct ls_wire_message *m)
{
    struct queued *q = NULL;
    const int number = ls__server_number(s, w);
    enum ls_status status = ls__calloc(&q, 1, sizeof *q);
    if (status != LS_OK) ls__server_take_back(s, number);
    const bool is_counted = status == LS_OK && counts(s, w, f, p, m, &q->push);
    ls__server_note_push(s, w, p, is_counted, m->head_bytes + m->payload_bytes);
    ls__server_unread(s, w);
    if (!is_counted) {
        free(q);
        ls__server_reject(s, w, f->sequence);
        return;
    }
    q->push.worker = number;
    q->push.number = f->sequence;
    q->push.push = p->number;
    q->push.message = *m;
    *m = (struct ls_wire_message){0};
    w->n_unread += p->form == LS_SUMS_BOXED;
    q->push.is_boxed = p->form == LS_SUMS_BOXED;
    if (s->last)
        s->last->next = q;
    else
        s->first = q;
    s->last = q;
}

static void on_failed(struct ls_server *s, struct server_worker *w, const struct ls_talk_end *end)
{
    const int number = ls__server_number(s, w);
    if (end->status == LS_NONFINITE) { /* so would it be for any other */
        if (s->failure.status == LS_OK)
            s->failure = ls__keep(ls_fail(LS_NONFINITE, "%s (worker %d on %s)", end->text, number, w->told.host));
        ls__server_remove(s, w, NULL);
        return;
    }
    ls__log(LS_LOG_WARN, "worker %d on %s: %s", number, w->told.host, end->text);
    ls__server_remove(s, w, "failed");
}

static void on_leave(struct ls_server *s, struct server_worker *w, const struct ls_talk_end *end)
{
    w->told.acknowledged = (int64_t)end->counted;
    if (*end->text && !w->is_seen_off)
        ls__log(LS_LOG_WARN, "worker %d on %s: %s", ls__server_number(s, w), w->told.host, end->text);
    ls__server_remove(s, w, *end->text ? NULL : "left");
}

void ls__server_handle(struct ls_server *s, struct server_worker *w, struct ls_wire_message *m)
{
    struct ls_frame f;
    struct ls_frame_reader r;
    union ls_talk_body *b = &s->body;
    if (!ls_frame_read(m->head, m->head_bytes, m->payload_bytes, &f, &r) || !ls__talk_read(&f, &r, b)) return;
    if (f.kind == LS_TALK_JOIN) {
        if (!w) on_join(s, m->peer, &b->join);
        return;
    }
    struct server_keeper *k = w ? NULL : ls__server_find_keeper(s, m->peer);
    if (k && f.session == s->session && ls_frame_is_fresh(&k->last_sequence, f.sequence))
        ls__server_hear_keeper(s, k, &f, m);
    const bool is_in_tube = w;
    if (!w) w = ls__server_find(s, m->peer);
    if (!w || f.session != s->session) return;
    if (!ls_frame_is_fresh(is_in_tube ? &w->last_in_tube : &w->last_sequence, f.sequence)) return;
    w->heard_ns = ls__now_ns();
    const bool was_late = w->is_late;
    w->is_late = false;
    switch (f.kind) {
    case LS_TALK_READY:
        on_ready(s, w, &b->ready);
        break;
    case LS_TALK_ASK:
        on_ask(s, w, &f);
        break;
    case LS_TALK_PUSH:
        if (b->push.n_pieces > 1)
            ls__server_take_piece(s, w, &f, &b->push, m);
        else
            on_push(s, w, &f, &b->push, m);
        break;
    case LS_TALK_BEAT:
        ls__server_say(s, w, LS_TALK_BEAT, s->round.step, NULL, NULL, 0);
        break;
    case LS_TALK_TRIED:
        w->tried = b->tried;
        break;
    case LS_TALK_LEAVE:
        on_leave(s, w, &b->end);
        break;
    case LS_TALK_FAILED:
        on_failed(s, w, &b->end);
        break;
    default:
        break; /* what only a server says */
    }
    if (was_late) ls__server_give(s, w); /* it waited when its lease ran out */
}

enum ls_status ls__server_pump(struct ls_server *s, int timeout_ms, bool *is_something)
{
    struct ls_wire_message m = {0};
    *is_something = ls__server_hear_tubes(s);
    if (!*is_something) {
        TRY(ls__server_receive(s, timeout_ms, &m));
        *is_something = m.event != LS_WIRE_NOTHING;
    }
    if (m.event == LS_WIRE_MESSAGE) ls__server_handle(s, NULL, &m);
    struct server_worker *gone = m.event == LS_WIRE_GONE ? ls__server_find(s, m.peer) : NULL;
    if (gone) ls__server_remove(s, gone, "is gone");
    struct server_keeper *lost = m.event == LS_WIRE_GONE ? ls__server_find_keeper(s, m.peer) : NULL;
    if (lost) ls__server_lose_keeper(s, lost, "is gone");
    ls_wire_message_release(&m);
    if (ls__now_ns() - s->checked_ns > (int64_t)(1e9 * s->o.lease / 8)) ls__server_look_at_leases(s);
    return LS_OK;
}
