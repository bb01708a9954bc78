/* talk.c: bodies of messages, written and read. See talk.h. */
#include "elastic/talk.h"

#include <math.h>

size_t ls__talk_welcome_bytes(const struct ls_talk_welcome *b)
{
    return LS_FRAME_HEAD_BYTES + 84 + b->options_bytes + b->model_name_bytes + b->model_bytes + b->identity_bytes;
}

static void put_join(struct ls_frame_writer *w, const struct ls_talk_join *b)
{
    ls_frame_put_text(w, b->ticket);
    ls_frame_put_text(w, b->version);
    ls_frame_put_text(w, b->host);
    ls_frame_put_u32(w, b->pid);
    ls_frame_put_u32(w, b->threads);
    ls_frame_put_u32(w, (uint32_t)b->slot);
    ls_frame_put_text(w, b->serves);
    ls_frame_put_u32(w, b->number);
}

static void get_join(struct ls_frame_reader *r, struct ls_talk_join *b)
{
    ls_frame_get_text(r, b->ticket, sizeof b->ticket);
    ls_frame_get_text(r, b->version, sizeof b->version);
    ls_frame_get_text(r, b->host, sizeof b->host);
    b->pid = ls_frame_get_u32(r);
    b->threads = ls_frame_get_u32(r);
    b->slot = (int32_t)ls_frame_get_u32(r);
    ls_frame_get_text(r, b->serves, sizeof b->serves);
    b->number = ls_frame_get_u32(r);
}

static void put_welcome(struct ls_frame_writer *w, const struct ls_talk_welcome *b)
{
    ls_frame_put_u32(w, b->worker);
    ls_frame_put_u32(w, b->server);
    ls_frame_put_f64(w, b->lease);
    ls_frame_put_f64(w, b->timeout);
    ls_frame_put_u32(w, b->box_pid);
    ls_frame_put_u32(w, b->box_fd);
    ls_frame_put_u32(w, b->server_bell);
    ls_frame_put_u32(w, b->worker_bell);
    ls_frame_put_u32(w, b->n_pieces);
    ls_frame_put_bytes(w, b->options, b->options_bytes);
    ls_frame_put_bytes(w, b->model_name, b->model_name_bytes);
    ls_frame_put_bytes(w, b->model, b->model_bytes);
    ls_frame_put_bytes(w, b->identity, b->identity_bytes);
}

static void get_welcome(struct ls_frame_reader *r, struct ls_talk_welcome *b)
{
    b->worker = ls_frame_get_u32(r);
    b->server = ls_frame_get_u32(r);
    b->lease = ls_frame_get_f64(r);
    b->timeout = ls_frame_get_f64(r);
    b->box_pid = ls_frame_get_u32(r);
    b->box_fd = ls_frame_get_u32(r);
    b->server_bell = ls_frame_get_u32(r);
    b->worker_bell = ls_frame_get_u32(r);
    b->n_pieces = ls_frame_get_u32(r);
    b->options = ls_frame_get_bytes(r, &b->options_bytes);
    b->model_name = ls_frame_get_bytes(r, &b->model_name_bytes);
    b->model = ls_frame_get_bytes(r, &b->model_bytes);
    b->identity = ls_frame_get_bytes(r, &b->identity_bytes);
}

static void put_work(struct ls_frame_writer *w, const struct ls_talk_work *b)
{
    ls_frame_put_i64(w, b->epoch);
    ls_frame_put_i64(w, b->batch);
    ls_frame_put_i64(w, b->version);
    ls_frame_put_u64(w, b->counted);
    ls_frame_put_u32(w, b->batch_n);
    ls_frame_put_u32(w, b->boxed);
    ls_frame_put_u32s(w, b->items, b->n_items);
}

static void get_work(struct ls_frame_reader *r, uint16_t flags, struct ls_talk_work *b)
{
    b->epoch = ls_frame_get_i64(r);
    b->batch = ls_frame_get_i64(r);
    b->version = ls_frame_get_i64(r);
    b->counted = ls_frame_get_u64(r);
    b->batch_n = ls_frame_get_u32(r);
    b->boxed = ls_frame_get_u32(r);
    b->n_items = (uint32_t)ls_frame_get_u32s(r, b->items, LS_TALK_MAX_ITEMS);
    b->is_last = flags & LS_WORK_LAST;
    b->has_parameters = flags & LS_WORK_HAS_PARAMETERS;
    b->is_whole = flags & LS_WORK_WHOLE;
    b->is_boxed = flags & LS_WORK_BOXED;
    b->is_ahead = flags & LS_WORK_AHEAD;
}

static void put_push(struct ls_frame_writer *w, const struct ls_talk_push *b)
{
    ls_frame_put_i64(w, b->version);
    ls_frame_put_u32(w, b->form);
    ls_frame_put_u32(w, b->number);
    ls_frame_put_u32(w, b->piece);
    ls_frame_put_u32(w, b->n_pieces);
    ls_frame_put_u64(w, b->acknowledged);
    ls_frame_put_f64(w, b->compute_seconds);
    ls_frame_put_f64(w, b->wait_seconds);
    ls_frame_put_u32s(w, b->items, b->n_items);
}

static void get_push(struct ls_frame_reader *r, struct ls_talk_push *b)
{
    b->version = ls_frame_get_i64(r);
    b->form = ls_frame_get_u32(r);
    b->number = ls_frame_get_u32(r);
    b->piece = ls_frame_get_u32(r);
    b->n_pieces = ls_frame_get_u32(r);
    b->acknowledged = ls_frame_get_u64(r);
    b->compute_seconds = ls_frame_get_f64(r);
    b->wait_seconds = ls_frame_get_f64(r);
    b->n_items = (uint32_t)ls_frame_get_u32s(r, b->items, LS_TALK_MAX_ITEMS);
}

static void put_places(struct ls_frame_writer *w, const struct ls_talk_places *b)
{
    ls_frame_put_u32(w, b->n);
    for (uint32_t i = 0; i < b->n; i++) ls_frame_put_text(w, b->addresses[i]);
}

static void get_places(struct ls_frame_reader *r, struct ls_talk_places *b)
{
    b->n = ls_frame_get_u32(r);
    if (b->n >= LS_MAX_SERVERS) r->is_short = true;
    for (uint32_t i = 0; !r->is_short && i < b->n; i++) ls_frame_get_text(r, b->addresses[i], sizeof b->addresses[i]);
}

static void put_state(struct ls_frame_writer *w, const struct ls_talk_state *b)
{
    ls_frame_put_i64(w, b->version);
    ls_frame_put_u64(w, b->bytes_sent);
    ls_frame_put_u64(w, b->bytes_received);
}

static void get_state(struct ls_frame_reader *r, struct ls_talk_state *b)
{
    b->version = ls_frame_get_i64(r);
    b->bytes_sent = ls_frame_get_u64(r);
    b->bytes_received = ls_frame_get_u64(r);
}

static void put_apply(struct ls_frame_writer *w, const struct ls_talk_apply *b)
{
    ls_frame_put_i64(w, b->version);
    ls_frame_put_i64(w, b->epoch);
    ls_frame_put_f64(w, b->lr);
    ls_frame_put_u32(w, b->batch_n);
    ls_frame_put_u32s(w, b->pushes, b->n_pushes);
}

static void get_apply(struct ls_frame_reader *r, struct ls_talk_apply *b)
{
    b->version = ls_frame_get_i64(r);
    b->epoch = ls_frame_get_i64(r);
    b->lr = ls_frame_get_f64(r);
    b->batch_n = ls_frame_get_u32(r);
    b->n_pushes = (uint32_t)ls_frame_get_u32s(r, b->pushes, sizeof b->pushes / sizeof b->pushes[0]);
}

static void put_try(struct ls_frame_writer *w, const struct ls_talk_try *b)
{
    ls_frame_put_u32(w, b->number);
    ls_frame_put_u32(w, b->bytes_back);
    ls_frame_put_f64(w, b->seconds);
}

static void get_try(struct ls_frame_reader *r, struct ls_talk_try *b)
{
    b->number = ls_frame_get_u32(r);
    b->bytes_back = ls_frame_get_u32(r);
    b->seconds = ls_frame_get_f64(r);
}

static void put_tried(struct ls_frame_writer *w, const struct ls_talk_tried *b)
{
    ls_frame_put_u32(w, b->number);
    ls_frame_put_u32(w, b->threads);
    ls_frame_put_u32(w, b->n_run);
    ls_frame_put_f64(w, b->pre_seconds);
    ls_frame_put_f64(w, b->shard_seconds);
    ls_frame_put_f64(w, b->join_seconds);
}

static void get_tried(struct ls_frame_reader *r, struct ls_talk_tried *b)
{
    b->number = ls_frame_get_u32(r);
    b->threads = ls_frame_get_u32(r);
    b->n_run = ls_frame_get_u32(r);
    b->pre_seconds = ls_frame_get_f64(r);
    b->shard_seconds = ls_frame_get_f64(r);
    b->join_seconds = ls_frame_get_f64(r);
}

static uint16_t flags_of(enum ls_talk_kind kind, const void *body)
{
    const struct ls_talk_work *work = body;
    const struct ls_talk_ready *ready = body;
    if (kind == LS_TALK_READY) return ready->is_boxed ? LS_READY_BOXED : 0;
    if (kind != LS_TALK_WORK) return 0;
    return (uint16_t)((work->is_last ? LS_WORK_LAST : 0) | (work->has_parameters ? LS_WORK_HAS_PARAMETERS : 0) |
                      (work->is_whole ? LS_WORK_WHOLE : 0) | (work->is_boxed ? LS_WORK_BOXED : 0) |
                      (work->is_ahead ? LS_WORK_AHEAD : 0));
}

enum ls_status ls__talk_write(uint8_t *head, size_t size, struct ls_frame frame, enum ls_talk_kind kind,
                              const void *body, size_t *bytes)
{
    struct ls_frame_writer w = ls_frame_begin(head, size);
    const struct ls_talk_ready *ready = body;
    const struct ls_talk_ack *ack = body;
    const struct ls_talk_end *end = body;
    const struct ls_talk_version *version = body;
    const struct ls_talk_ahead *ahead = body;
    frame.kind = (uint16_t)kind;
    frame.flags = flags_of(kind, body);
    switch (kind) {
    case LS_TALK_JOIN:
        put_join(&w, body);
        break;
    case LS_TALK_WELCOME:
        put_welcome(&w, body);
        break;
    case LS_TALK_READY:
        ls_frame_put_u64(&w, ready->n_sums);
        ls_frame_put_u64(&w, ready->parameters_bytes);
        ls_frame_put_u32(&w, ready->threads);
        break;
    case LS_TALK_WORK:
        put_work(&w, body);
        break;
    case LS_TALK_PUSH:
        put_push(&w, body);
        break;
    case LS_TALK_ACK:
    case LS_TALK_HELD:
        ls_frame_put_u64(&w, ack->push);
        break;
    case LS_TALK_LEAVE:
    case LS_TALK_FAILED:
    case LS_TALK_OVER:
        ls_frame_put_u32(&w, end->status);
        ls_frame_put_text(&w, end->text);
        ls_frame_put_u64(&w, end->counted);
        break;
    case LS_TALK_PLACES:
        put_places(&w, body);
        break;
    case LS_TALK_STATE:
        put_state(&w, body);
        break;
    case LS_TALK_APPLY:
        put_apply(&w, body);
        break;
    case LS_TALK_COLLECT:
    case LS_TALK_PULL:
    case LS_TALK_PART:
        ls_frame_put_i64(&w, version->version);
        break;
    case LS_TALK_TRY:
        put_try(&w, body);
        break;
    case LS_TALK_TRIED:
        put_tried(&w, body);
        break;
    case LS_TALK_AHEAD:
        ls_frame_put_i64(&w, ahead->version);
        ls_frame_put_u32(&w, ahead->piece);
        break;
    case LS_TALK_ASK:
    case LS_TALK_BEAT:
        break;
    }
    return ls_frame_end(&w, &frame, bytes);
}

static bool is_time(double seconds)
{
    return seconds >= 0 && seconds < 1e6;
}

/* Numbers that arithmetic would choke on. */
static bool is_good(const struct ls_frame *f, const union ls_talk_body *b)
{
    switch (f->kind) {
    case LS_TALK_WELCOME:
        return b->welcome.lease > 0 && b->welcome.lease < 1e6 && b->welcome.timeout > 0 &&
               b->welcome.server < LS_MAX_SERVERS && b->welcome.n_pieces > 0 && b->welcome.n_pieces <= LS_MAX_PIECES;
    case LS_TALK_PUSH:
        return b->push.compute_seconds >= 0 && b->push.wait_seconds >= 0 && b->push.n_pieces <= LS_MAX_PIECES &&
               b->push.piece < b->push.n_pieces;
    case LS_TALK_LEAVE:
    case LS_TALK_FAILED:
    case LS_TALK_OVER:
        return b->end.status <= LS_INTERRUPTED;
    case LS_TALK_APPLY:
        return isfinite(b->apply.lr) && b->apply.batch_n > 0 && b->apply.batch_n <= INT32_MAX &&
               b->apply.n_pushes % 2 == 0;
    case LS_TALK_TRY:
        return is_time(b->try.seconds) && b->try.bytes_back <= LS_TALK_MAX_TRIED;
    case LS_TALK_TRIED:
        return is_time(b->tried.pre_seconds) && is_time(b->tried.shard_seconds) && is_time(b->tried.join_seconds) &&
               b->tried.threads <= 4096 && b->tried.n_run <= 4096;
    case LS_TALK_READY:
        return b->ready.threads <= 4096;
    case LS_TALK_AHEAD:
        return b->ahead.piece < LS_MAX_PIECES;
    default:
        return true;
    }
}

bool ls__talk_read(const struct ls_frame *f, struct ls_frame_reader *r, void *body)
{
    union ls_talk_body *b = body;
    switch (f->kind) {
    case LS_TALK_JOIN:
        get_join(r, &b->join);
        break;
    case LS_TALK_WELCOME:
        get_welcome(r, &b->welcome);
        break;
    case LS_TALK_READY:
        b->ready.n_sums = ls_frame_get_u64(r);
        b->ready.parameters_bytes = ls_frame_get_u64(r);
        b->ready.threads = ls_frame_get_u32(r);
        b->ready.is_boxed = f->flags & LS_READY_BOXED;
        break;
    case LS_TALK_WORK:
        get_work(r, f->flags, &b->work);
        break;
    case LS_TALK_PUSH:
        get_push(r, &b->push);
        break;
    case LS_TALK_ACK:
    case LS_TALK_HELD:
        b->ack.push = ls_frame_get_u64(r);
        break;
    case LS_TALK_LEAVE:
    case LS_TALK_FAILED:
    case LS_TALK_OVER:
        b->end.status = ls_frame_get_u32(r);
        ls_frame_get_text(r, b->end.text, sizeof b->end.text);
        b->end.counted = ls_frame_get_u64(r);
        break;
    case LS_TALK_PLACES:
        get_places(r, &b->places);
        break;
    case LS_TALK_STATE:
        get_state(r, &b->state);
        break;
    case LS_TALK_APPLY:
        get_apply(r, &b->apply);
        break;
    case LS_TALK_COLLECT:
    case LS_TALK_PULL:
    case LS_TALK_PART:
        b->version.version = ls_frame_get_i64(r);
        break;
    case LS_TALK_TRY:
        get_try(r, &b->try);
        break;
    case LS_TALK_TRIED:
        get_tried(r, &b->tried);
        break;
    case LS_TALK_AHEAD:
        b->ahead.version = ls_frame_get_i64(r);
        b->ahead.piece = ls_frame_get_u32(r);
        break;
    case LS_TALK_ASK:
    case LS_TALK_BEAT:
        break;
    default:
        return false;
    }
    return ls_frame_done(r) && is_good(f, b);
}
