/* meet.c: the transport of meet.h: messages with a rank and a tag, matched to those who wait for them.
 *
 * Large messages are lent to ZeroMQ and done when it has written them; small ones are copied and done at once. A
 * message that comes before anybody waits for it is kept as it is. Nothing that waits for a lost rank ever fails here:
 * the callers find out who it is, and end the job by their own rules (late.c).
 */
#include "comm/meet.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEND_BYTES = 64 << 10, FAREWELL_MS = 2000 };

/* The one job of this process, as with MPI. */
static struct ls__meet job;

void ls__meet_configure(const struct ls__meet_config *config)
{
    job.config = *config;
}

int ls__meet_rank_of(const struct ls__meet *j, uint64_t peer)
{
    for (int r = 0; r < j->config.n; r++)
        if (j->nodes[r].is_known && j->nodes[r].peer == peer) return r;
    return -1;
}

static int keep_error(struct ls__meet *j, enum ls_status status)
{
    if (status == LS_OK) return 0;
    snprintf(j->error, sizeof j->error, "%s", ls_error_message());
    return 1;
}

/* --- what comes --- */

static enum ls_status fill(struct ls__meet_op *op, const struct ls_wire_message *m)
{
    if (m->payload_bytes > op->bytes)
        return ls_fail(LS_REMOTE, "rank %d sent %zu bytes where %zu were expected", op->from, m->payload_bytes,
                       op->bytes);
    if (m->payload_bytes > 0) memcpy(op->data, m->payload, m->payload_bytes);
    op->bytes = m->payload_bytes;
    op->is_done = true;
    return LS_OK;
}

/* To the oldest that waits for it, or kept. Releases the message or takes it over. */
static enum ls_status deliver(struct ls__meet *j, int from, int64_t tag, struct ls_wire_message *m)
{
    struct ls__meet_early *early, **end = &j->early;
    for (struct ls__meet_op **at = &j->waiting; *at; at = &(*at)->next) {
        struct ls__meet_op *op = *at;
        if (op->from != from || op->tag != tag) continue;
        *at = op->next;
        enum ls_status status = fill(op, m);
        ls_wire_message_release(m);
        return status;
    }
    TRY(ls__calloc(&early, 1, sizeof *early));
    *early = (struct ls__meet_early){.message = *m, .from = from, .tag = tag};
    while (*end) end = &(*end)->next;
    *end = early;
    *m = (struct ls_wire_message){.event = LS_WIRE_NOTHING};
    return LS_OK;
}

/* From a rank that is known, of this job, for the first time; anything else is dropped. */
static bool is_good(struct ls__meet *j, int from, const struct ls_frame *f)
{
    return from >= 0 && f->sender == (uint32_t)from && f->session == j->session && j->is_welcome &&
           ls_frame_is_fresh(&j->nodes[from].heard, f->sequence);
}

static enum ls_status hear(struct ls__meet *j, struct ls_wire_message *m)
{
    struct ls_frame f;
    struct ls_frame_reader body;
    if (!ls_frame_read(m->head, m->head_bytes, m->payload_bytes, &f, &body)) return LS_OK;
    int from = ls__meet_rank_of(j, m->peer);
    if (f.kind == MEET_DATA && is_good(j, from, &f)) return deliver(j, from, f.step, m);
    if (f.kind == MEET_BYE && is_good(j, from, &f)) j->nodes[from].has_left = true;
    if (f.kind == MEET_DATA || f.kind == MEET_BYE) return LS_OK;
    return ls__meet_join_hear(j, m->peer, &f, &body);
}

static void note_gone(struct ls__meet *j, uint64_t peer)
{
    int rank = ls__meet_rank_of(j, peer);
    if (rank < 0 || j->nodes[rank].has_left) return;
    j->nodes[rank].is_lost = true;
}

enum ls_status ls__meet_pump(struct ls__meet *j, int timeout_ms)
{
    for (;;) {
        struct ls_wire_message m;
        TRY(ls_wire_receive(j->wire, timeout_ms, &m));
        if (m.event == LS_WIRE_NOTHING) return LS_OK;
        enum ls_status status = LS_OK;
        if (m.event == LS_WIRE_MESSAGE) status = hear(j, &m);
        if (m.event == LS_WIRE_GONE) note_gone(j, m.peer);
        if (m.event == LS_WIRE_CONNECTED || m.event == LS_WIRE_REFUSED || m.event == LS_WIRE_MISMATCH)
            status = ls__meet_join_event(j, m.peer, m.event);
        ls_wire_message_release(&m);
        TRY(status);
        timeout_ms = 0;
    }
}

/* --- the transport's functions --- */

static int open_job(int *rank, int *n_ranks)
{
    struct ls__meet *j = &job;
    *rank = j->config.rank;
    *n_ranks = j->config.n;
    enum ls_status status = ls__meet_join(j);
    keep_error(j, status);
    return (int)status;
}

static enum ls_status send_frame(struct ls__meet *j, int to, enum ls__meet_kind kind, int64_t tag, const void *data,
                                 size_t bytes, struct ls_wire_buffer *lent)
{
    uint8_t head[LS_FRAME_HEAD_BYTES];
    size_t head_bytes;
    struct ls_frame_writer w = ls_frame_begin(head, sizeof head);
    const struct ls_frame f = {.kind = (uint16_t)kind,
                               .session = j->session,
                               .step = tag,
                               .sender = (uint32_t)j->config.rank,
                               .sequence = ++j->nodes[to].n_sent,
                               .payload_bytes = bytes};
    TRY(ls_frame_end(&w, &f, &head_bytes));
    if (lent) return ls_wire_send(j->wire, j->nodes[to].peer, head, head_bytes, lent, bytes);
    return ls_wire_send_copy(j->wire, j->nodes[to].peer, head, head_bytes, data, bytes);
}

static void close_job(void)
{
    struct ls__meet *j = &job;
    for (int r = 0; r < j->config.n; r++)
        if (j->nodes[r].is_known && send_frame(j, r, MEET_BYE, 0, NULL, 0, NULL) != LS_OK) j->nodes[r].is_lost = true;
    ls_wire_close(&j->wire, FAREWELL_MS);
    for (struct ls__meet_op *op = j->waiting, *next; op; op = next) {
        next = op->next;
        free(op);
    }
    for (struct ls__meet_early *e = j->early, *next; e; e = next) {
        next = e->next;
        ls_wire_message_release(&e->message);
        free(e);
    }
    free(j->nodes);
    *j = (struct ls__meet){0};
}

static const char *describe(void)
{
    return ls_wire_library();
}

static const char *error(void)
{
    return job.error;
}

static void keep(struct ls_request *request, struct ls__meet_op *op)
{
    request->opaque = (uint64_t)(uintptr_t)op;
    request->is_open = true;
}

static enum ls_status begin_send(struct ls__meet *j, struct ls__meet_op *op, const void *data, size_t bytes, int to,
                                 int tag)
{
    if (bytes >= LEND_BYTES) TRY(ls_wire_buffer_lend(&op->lent, data, bytes));
    enum ls_status status = send_frame(j, to, MEET_DATA, tag, data, bytes, op->lent);
    op->is_done = status == LS_OK;
    return status == LS_REMOTE ? LS_OK : status; /* it is gone, and will be missed */
}

static void end_op(struct ls__meet_op *op)
{
    ls_wire_buffer_drop(&op->lent);
    free(op);
}

static int send(const void *data, size_t bytes, int to, int tag, struct ls_request *request)
{
    struct ls__meet_op *op;
    if (keep_error(&job, ls__calloc(&op, 1, sizeof *op))) return 1;
    op->is_send = true;
    if (keep_error(&job, begin_send(&job, op, data, bytes, to, tag))) {
        end_op(op);
        return 1;
    }
    keep(request, op);
    return 0;
}

/* One that has come already, or false. */
static enum ls_status take_early(struct ls__meet *j, struct ls__meet_op *op)
{
    for (struct ls__meet_early **at = &j->early; *at; at = &(*at)->next) {
        struct ls__meet_early *e = *at;
        if (e->from != op->from || e->tag != op->tag) continue;
        enum ls_status status = fill(op, &e->message);
        *at = e->next;
        ls_wire_message_release(&e->message);
        free(e);
        return status;
    }
    return LS_OK;
}

static int receive(void *data, size_t bytes, int from, int tag, struct ls_request *request)
{
    struct ls__meet_op *op, **end = &job.waiting;
    if (keep_error(&job, ls__calloc(&op, 1, sizeof *op))) return 1;
    *op = (struct ls__meet_op){.data = data, .bytes = bytes, .from = from, .tag = tag};
    if (keep_error(&job, take_early(&job, op))) {
        free(op);
        return 1;
    }
    while (!op->is_done && *end) end = &(*end)->next;
    if (!op->is_done) *end = op;
    keep(request, op);
    return 0;
}

static int poll(struct ls_request *const *requests, int n)
{
    if (keep_error(&job, ls__meet_pump(&job, 0))) return 1;
    for (int i = 0; i < n; i++) {
        struct ls__meet_op *op = (struct ls__meet_op *)(uintptr_t)requests[i]->opaque;
        if (!requests[i]->is_open || !op->is_done || (op->lent && ls_wire_buffer_is_shared(op->lent))) continue;
        requests[i]->bytes = op->is_send ? 0 : op->bytes;
        requests[i]->is_open = false;
        end_op(op);
    }
    return 0;
}

static bool is_lost(int rank)
{
    return job.nodes && job.nodes[rank].is_lost;
}

const struct ls_transport ls__meet_transport = {
    .abi = LS_TRANSPORT_ABI,
    .name = "nodes",
    .open = open_job,
    .close = close_job,
    .describe = describe,
    .error = error,
    .send = send,
    .receive = receive,
    .poll = poll,
    .is_lost = is_lost,
    .is_bounded = true,
};
