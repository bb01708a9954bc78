/* contact.c: see contact.h.
 *
 * One lock for everything. Who holds it may receive; a thread that waits for shards holds it while it waits, so that
 * what comes in is handled by somebody who has nothing better to do. The beating thread only takes it when it is free:
 * where it is not, a listener beats himself.
 */
#include "elastic/contact_internal.h"

#include "base/clock.h"
#include "base/control.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SHORT_WAIT_NS INT64_C(400000)
#define SAY_NS INT64_C(1500000000)
enum { MOST_REFUSALS = 4 };

static const char *who(const struct ls_contact *l)
{
    return l->o.serves ? "server" : "worker";
}

/* --- out --- */

static enum ls_status crowded(void)
{
    return ls_fail(LS_TIMEOUT, "the server does not read what lies in the memory that it shares");
}

enum ls_status ls__contact_send(struct ls_contact *l, enum ls_talk_kind kind, const void *body,
                                struct ls_wire_buffer *payload, size_t bytes)
{
    const bool is_in_tube = l->is_in_tube && !payload;
    const struct ls_frame frame = {.session = l->session,
                                   .step = l->work.step,
                                   .sender = l->number,
                                   .sequence = is_in_tube ? ++l->tube_sequence : ++l->sequence,
                                   .payload_bytes = payload ? bytes : 0};
    size_t head_bytes;
    TRY(ls__talk_write(l->head, LS_TALK_HEAD_BYTES, frame, kind, body, &head_bytes));
    l->sent = frame.sequence;
    l->beat_ns = ls__now_ns();
    if (is_in_tube) return ls__tube_put(&l->tube, l->head, head_bytes) ? LS_OK : crowded();
    return ls_wire_send(l->wire, LS_WIRE_SERVER, l->head, head_bytes, payload, bytes);
}

void ls__contact_send_if_there(struct ls_contact *l, enum ls_talk_kind kind, const void *body)
{
    if (ls__contact_send(l, kind, body, NULL, 0) != LS_OK) ls__log(LS_LOG_DEBUG, "%s", ls_error_message());
}

static void join(struct ls_contact *l)
{
    struct ls_talk_join *join = &l->reply.join;
    *join = (struct ls_talk_join){.pid = (uint32_t)getpid(), .threads = (uint32_t)l->o.threads, .slot = l->o.slot};
    join->number = (uint32_t)l->o.number;
    snprintf(join->ticket, sizeof join->ticket, "%s", l->o.ticket ? l->o.ticket : "");
    snprintf(join->version, sizeof join->version, "%s", LOCKSTEP_VERSION);
    snprintf(join->serves, sizeof join->serves, "%s", l->o.serves ? l->o.serves : "");
    if (gethostname(join->host, sizeof join->host - 1) != 0) join->host[0] = '\0';
    l->joined_ns = ls__now_ns();
    l->sequence = 0;
    ls__contact_send_if_there(l, LS_TALK_JOIN, join);
}

static void beat_if_due(struct ls_contact *l)
{
    const int64_t now = ls__now_ns();
    if (l->is_joined && now - l->beat_ns > (int64_t)(1e9 * l->lease / 4))
        ls__contact_send_if_there(l, LS_TALK_BEAT, NULL);
    if (l->is_connected && !l->is_joined && now - l->joined_ns > (int64_t)(1e9 * l->lease / 2)) join(l);
}

/* --- in --- */

void ls__contact_make_void(struct ls_contact *l)
{
    ls_wire_message_release(&l->work.parameters);
    if (l->is_new) l->has_work = l->is_new = false;
    l->is_void = l->has_work;
    l->is_last = true;
    l->is_asked = false;
}

static void drop_tube(struct ls_contact *l)
{
    ls_wire_watch(l->wire, -1);
    l->tube = (struct ls_tube){0};
    l->is_in_tube = false;
}

bool ls__contact_take_order(struct ls_contact *l, struct ls_wire_message *m)
{
    struct order *first = l->first_order;
    if (!first) return false;
    *m = first->message;
    l->first_order = first->next;
    if (!l->first_order) l->last_order = NULL;
    free(first);
    return true;
}

static void drop_orders(struct ls_contact *l)
{
    struct ls_wire_message m;
    while (ls__contact_take_order(l, &m)) ls_wire_message_release(&m);
}

/* A keeper does them one after the other. */
static void on_order(struct ls_contact *l, struct ls_wire_message *m)
{
    struct order *order;
    if (!l->o.serves || !l->is_ready) return;
    if (ls__calloc(&order, 1, sizeof *order) != LS_OK) {
        l->outcome = ls__keep(LS_NOMEM);
        l->is_over = true;
        return;
    }
    order->message = *m;
    *m = (struct ls_wire_message){0};
    if (l->last_order)
        l->last_order->next = order;
    else
        l->first_order = order;
    l->last_order = order;
}

void ls__contact_drop_ahead(struct ls_contact *l)
{
    for (int i = 0; i < LS_MAX_PIECES; i++) ls_wire_message_release(&l->ahead[i]);
    l->n_ahead = 0;
}

/* They come in order, from the first, while this worker may still compute with the parameters of before. */
static void on_ahead(struct ls_contact *l, const struct ls_talk_ahead *a, struct ls_wire_message *m)
{
    if (!l->is_ready || !m->payload) return;
    if (a->piece == 0) {
        ls__contact_drop_ahead(l);
        l->ahead_version = a->version;
    }
    if (a->version != l->ahead_version || (int)a->piece != l->n_ahead || l->n_ahead == l->n_pieces) return;
    l->ahead[l->n_ahead++] = *m;
    *m = (struct ls_wire_message){0};
}

static enum ls_status copy_text(char **out, const uint8_t *text, size_t bytes)
{
    TRY(ls__calloc(out, bytes + 1, 1));
    if (bytes > 0) memcpy(*out, text, bytes);
    return LS_OK;
}

static enum ls_status take_task(struct ls_contact_task *t, const struct ls_talk_welcome *w)
{
    TRY(copy_text(&t->options, w->options, w->options_bytes));
    TRY(copy_text(&t->model_name, w->model_name, w->model_name_bytes));
    TRY(copy_text(&t->model, w->model, w->model_bytes));
    return copy_text(&t->identity, w->identity, w->identity_bytes);
}

static void on_welcome(struct ls_contact *l, const struct ls_frame *f, const struct ls_talk_welcome *w)
{
    ls__contact_make_void(l);
    drop_tube(l);
    drop_orders(l);
    ls__contact_drop_ahead(l);
    l->n_pieces = (int)w->n_pieces;
    ls__contact_task_release(&l->task);
    l->task = (struct ls_contact_task){.lease = w->lease,
                                       .timeout = w->timeout,
                                       .session = f->session,
                                       .box_pid = w->box_pid,
                                       .box_fd = w->box_fd,
                                       .server_bell = w->server_bell,
                                       .worker_bell = w->worker_bell,
                                       .worker = w->worker,
                                       .server = (int)w->server,
                                       .n_pieces = (int)w->n_pieces};
    enum ls_status status = take_task(&l->task, w);
    if (status != LS_OK) {
        l->outcome = ls__keep(status);
        l->is_over = true;
        return;
    }
    l->session = f->session;
    l->number = w->worker;
    l->pushed = l->acknowledged = 0;
    l->lease = w->lease;
    l->timeout = w->timeout;
    l->is_joined = l->was_joined = l->is_task_new = true;
    l->is_ready = l->is_trial_new = false;
}

/* The server says which push was the last that is in. */
static void hear_counted(struct ls_contact *l, uint64_t counted)
{
    if (l->pushed == 0 || counted != l->pushed) return;
    l->acknowledged++;
    l->pushed = 0;
}

static void begin_work(struct ls_contact *l, const struct ls_frame *f, const struct ls_talk_work *w,
                       struct ls_wire_message *m)
{
    ls_wire_message_release(&l->work.parameters);
    l->work = (struct ls_contact_work){.step = f->step,
                                       .epoch = w->epoch,
                                       .batch = w->batch,
                                       .version = w->version,
                                       .is_whole = w->is_whole,
                                       .boxed = w->is_boxed ? (int)w->boxed : -1,
                                       .is_ahead = w->is_ahead};
    if (w->has_parameters && !w->is_boxed && !w->is_ahead) {
        l->work.parameters = *m;
        *m = (struct ls_wire_message){0};
    }
    l->has_work = l->is_new = true;
    l->is_void = l->is_asked = false;
    l->n_items = l->n_taken = l->n_shards = 0;
}

static void on_work(struct ls_contact *l, const struct ls_frame *f, const struct ls_talk_work *w,
                    struct ls_wire_message *m)
{
    if (!l->is_ready) return;
    hear_counted(l, w->counted);
    if (l->has_work && (f->step != l->work.step || l->is_void)) return; /* an answer that comes too late */
    if (!l->has_work && w->n_items == 0) return;
    if (!l->has_work) begin_work(l, f, w, m);
    l->is_asked = false;
    l->is_last = w->is_last;
    for (uint32_t i = 0; i < w->n_items && l->n_items < LS_TALK_MAX_ITEMS; i++) l->items[l->n_items++] = w->items[i];
}

static void on_over(struct ls_contact *l, const struct ls_talk_end *end)
{
    const enum ls_status status = (enum ls_status)end->status;
    hear_counted(l, end->counted);
    ls__contact_make_void(l);
    l->is_over = true;
    if (status != LS_OK) l->outcome = ls__keep(ls_fail(status, "%s", *end->text ? end->text : "the server ended"));
}

static void handle(struct ls_contact *l, struct ls_wire_message *m)
{
    struct ls_frame f;
    struct ls_frame_reader r;
    union ls_talk_body *b = &l->body;
    if (!ls_frame_read(m->head, m->head_bytes, m->payload_bytes, &f, &r) || !ls__talk_read(&f, &r, b)) return;
    const bool is_ours = l->is_joined && f.session == l->session;
    l->heard_ns = ls__now_ns();
    l->is_lost_told = false;
    if (f.kind == LS_TALK_WELCOME) on_welcome(l, &f, &b->welcome);
    if (f.kind == LS_TALK_WORK && is_ours) on_work(l, &f, &b->work, m);
    if (f.kind == LS_TALK_AHEAD && is_ours) on_ahead(l, &b->ahead, m);
    if (f.kind == LS_TALK_OVER && is_ours) on_over(l, &b->end);
    if (f.kind == LS_TALK_TRY && is_ours) {
        l->trial = b->try;
        l->is_trial_new = true;
    }
    if (f.kind == LS_TALK_PLACES && is_ours) {
        l->places = b->places;
        l->is_places_new = true;
    }
    if ((f.kind == LS_TALK_STATE || f.kind == LS_TALK_APPLY || f.kind == LS_TALK_COLLECT) && is_ours) on_order(l, m);
    if (f.kind == LS_TALK_ACK && is_ours) {
        if (b->ack.push == l->pushed) l->pushed = 0;
        ls__log(LS_LOG_INFO, "the sums for step %lld came too late and were dropped", (long long)f.step + 1);
    }
}

static void on_gone(struct ls_contact *l)
{
    if (l->is_joined) ls__log(LS_LOG_WARN, "the server at %s is gone; waiting for it", l->o.address);
    l->is_connected = l->is_joined = l->is_ready = false;
    drop_tube(l);
    ls__contact_drop_ahead(l);
    ls__contact_make_void(l);
}

/* A server that is started again may hang up in the middle of a handshake; it takes the same key as before. */
static void on_refused(struct ls_contact *l)
{
    l->n_refused++;
    if (!l->was_joined || l->is_lost_told) return;
    l->is_lost_told = true;
    ls__log(LS_LOG_WARN,
            "what listens at %s now does not take this %s, which the server before it took; waiting for it",
            l->o.address, who(l));
}

/* Nothing that is tried again makes a key fit. */
static enum ls_status mind_refusals(const struct ls_contact *l)
{
    if (l->is_mismatched && !l->o.key)
        return ls_fail(LS_USAGE, "the server at %s wants a key: give --key FILE, one that was made with the server's",
                       l->o.address);
    if (l->is_mismatched)
        return ls_fail(LS_USAGE, "the server at %s has no key: leave --key out here, or start it with --key server.key",
                       l->o.address);
    if (l->was_joined || l->n_refused < MOST_REFUSALS) return LS_OK;
    if (!l->o.key)
        return ls_fail(LS_USAGE,
                       "what listens at %s does not take a %s without a key: it wants a key (--key FILE), or is no "
                       "lockstep server",
                       l->o.address, who(l));
    return ls_fail(
        LS_USAGE,
        "%s does not take this %s's key: were both made by the same `lockstep server --keygen`? A server that "
        "was started without --key has no key: then leave it out here",
        l->o.address, who(l));
}

/* Once; a node's second part, which is a server, has a worker beside it that says so. */
static void say_waiting(struct ls_contact *l)
{
    if (l->is_wait_told || l->was_joined || ls__now_ns() - l->opened_ns < SAY_NS) return;
    l->is_wait_told = true;
    if (l->o.serves && l->o.number > 0) return;
    ls__log(LS_LOG_INFO, "no answer from a server at %s yet; waiting for it, up to %.3g s (--timeout)", l->o.address,
            l->timeout);
}

/* --- the tube --- */

static enum ls_status hear_tube(struct ls_contact *l, bool *is_something)
{
    struct ls_wire_message m = {.event = LS_WIRE_MESSAGE, .head = l->mail};
    const enum ls_tube_found found = ls__tube_take(&l->tube, l->mail, LS_TALK_HEAD_BYTES, &m.head_bytes);
    *is_something = found != LS_TUBE_NOTHING;
    if (found == LS_TUBE_BROKEN)
        return ls_fail(LS_REMOTE, "what lies in the memory that the server shares is no message");
    if (found == LS_TUBE_NOTHING) return LS_OK;
    l->is_in_tube = true;
    handle(l, &m);
    return LS_OK;
}

/* Where the server answered soon the last time, it is not worth a sleep: everybody else goes first, and it looks. */
static void look_a_while(const struct ls_contact *l, int64_t since)
{
    while (l->is_soon && !ls__tube_has(&l->tube) && ls__now_ns() - since < SHORT_WAIT_NS) sched_yield();
}

/* From the connection; ends when something comes in the tube. */
static enum ls_status receive(struct ls_contact *l, int timeout_ms, struct ls_wire_message *m)
{
    if (!l->tube.in) return ls_wire_receive(l->wire, timeout_ms, m);
    const struct ls_tube tube = l->tube;
    const int64_t since = ls__now_ns();
    if (timeout_ms != 0) look_a_while(l, since);
    if (timeout_ms != 0) atomic_store(tube.is_asleep, 1);
    enum ls_status status = LS_OK;
    if (!ls__tube_has(&tube)) status = ls_wire_receive(l->wire, timeout_ms, m);
    atomic_store(tube.is_asleep, 0);
    if (timeout_ms != 0) l->is_soon = ls__now_ns() - since < SHORT_WAIT_NS;
    if (m->event == LS_WIRE_WOKEN) ls__bell_silence(tube.bell);
    return status;
}

enum ls_status ls__contact_pump(struct ls_contact *l, int timeout_ms, bool *is_something)
{
    struct ls_wire_message m = {0};
    TRY(hear_tube(l, is_something));
    if (!*is_something) {
        TRY(receive(l, timeout_ms, &m));
        *is_something = m.event != LS_WIRE_NOTHING;
    }
    if (m.event == LS_WIRE_CONNECTED) {
        l->is_connected = true;
        l->n_refused = 0;
        join(l);
    }
    if (m.event == LS_WIRE_GONE) on_gone(l);
    if (m.event == LS_WIRE_REFUSED) on_refused(l);
    if (m.event == LS_WIRE_MISMATCH) l->is_mismatched = true;
    if (m.event == LS_WIRE_MESSAGE) handle(l, &m);
    ls_wire_message_release(&m);
    TRY(mind_refusals(l));
    beat_if_due(l);
    say_waiting(l);
    if (ls__seconds_since(l->heard_ns) > l->timeout)
        return ls_fail(LS_TIMEOUT, "no word from the server at %s for %.3g s (--timeout)", l->o.address, l->timeout);
    return LS_OK;
}

/* --- life --- */

static void *beat(void *arg)
{
    struct ls_contact *l = arg;
    while (!atomic_load(&l->is_ending)) {
        nanosleep(&(const struct timespec){.tv_nsec = 50000000}, NULL);
        if (pthread_mutex_trylock(&l->lock) != 0) continue;
        beat_if_due(l);
        pthread_mutex_unlock(&l->lock);
    }
    return NULL;
}

static enum ls_status build(struct ls_contact *l)
{
    const struct ls_wire_options wo = {.address = l->o.address, .key = l->o.key};
    l->lease = 2; /* until the server's is known: how often it asks to be let in */
    l->timeout = l->o.timeout;
    l->heard_ns = l->beat_ns = l->idle_since_ns = l->opened_ns = ls__now_ns();
    TRY(ls__calloc(&l->head, LS_TALK_HEAD_BYTES, 1));
    TRY(ls__calloc(&l->mail, LS_TALK_HEAD_BYTES, 1));
    TRY(ls_wire_connect(&l->wire, &wo));
    TRY(ls__thread_start(&l->beater, "the heartbeats' thread", beat, l));
    l->is_beating = true;
    return LS_OK;
}

enum ls_status ls__contact_open(struct ls_contact **out, const struct ls_contact_options *o)
{
    TRY(ls__calloc(out, 1, sizeof **out));
    (*out)->o = *o;
    pthread_mutex_init(&(*out)->lock, NULL);
    enum ls_status status = build(*out);
    if (status != LS_OK) ls__contact_close(out, NULL);
    return status;
}

void ls__contact_close(struct ls_contact **contact, const char *why)
{
    enum { LINGER_MS = 1000 };
    struct ls_contact *l = *contact;
    struct ls_talk_end end = {.status = LS_OK};
    if (!l) return;
    atomic_store(&l->is_ending, true);
    if (l->is_beating) pthread_join(l->beater, NULL);
    if (why) snprintf(end.text, sizeof end.text, "%s", why);
    end.counted = l->acknowledged;
    if (l->is_joined) ls__contact_send_if_there(l, LS_TALK_LEAVE, &end);
    if (l->is_joined && l->n_pushes > 0)
        ls__log(LS_LOG_INFO, "worker %u: %llu of its pushes are acknowledged", l->number,
                (unsigned long long)l->acknowledged);
    ls_wire_message_release(&l->work.parameters);
    drop_orders(l);
    ls__contact_drop_ahead(l);
    ls_wire_close(&l->wire, LINGER_MS);
    ls__contact_task_release(&l->task);
    pthread_mutex_destroy(&l->lock);
    free(l->head);
    free(l->mail);
    free(l);
    *contact = NULL;
}

void ls__contact_task_release(struct ls_contact_task *t)
{
    free(t->options);
    free(t->model_name);
    free(t->model);
    free(t->identity);
    *t = (struct ls_contact_task){0};
}
