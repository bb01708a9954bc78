/* played.h: a parameter server, and workers that a test plays message by message: by a connection, or in memory that
 * they share with the server (elastic/box.h). After cmocka.h.
 *
 *     struct played w;
 *     struct ls_server *s = played_open(&options);     of played_options(...); skips the test where ZeroMQ is missing
 *     played_enter(s, &w, -1, 1);                      joins, and is ready; a slot instead of -1: shares memory
 *     ... ls__server_publish, ls__server_begin
 *     played_take_work(s, &w);                         all that it gets: w.items
 *     played_say(&w, LS_TALK_PUSH, &push, w.step, sums, bytes);
 *     played_go(&w);                                   as if it had died
 *     played_close(&s);
 *
 * Whoever waits for the server's words handles its messages meanwhile: the server has no other thread in a hurry.
 */
#ifndef LS_TESTS_PLAYED_H
#define LS_TESTS_PLAYED_H

#include "base/clock.h"
#include "elastic/server_internal.h"

#include <string.h>
#include <unistd.h>

#include "expect.h"

enum { PLAYED_ITEMS = 8 }; /* that a round may have */

struct played {
    struct ls_wire *wire;
    uint64_t session, sequence;
    uint32_t number;
    int slot;
    struct ls_box *box; /* NULL: it shares none */
    int bells[2];
    struct ls_tube tube;
    int64_t step;                          /* of the last message that it heard */
    int n_ahead;                           /* parameters that it heard ahead of their step */
    uint32_t items[PLAYED_ITEMS], n_items; /* all its work of this step */
    uint32_t n_pushes;                     /* for the test to count */
    int64_t version;                       /* that it is to be computed with */
    bool is_boxed, is_last;                /* the first found its parameters in the box; there is no more */
};

static uint8_t played_head[LS_TALK_HEAD_BYTES];
static union ls_talk_body heard; /* the last message that anybody heard */

static inline struct ls_server_options played_options(const struct ls_sum_split *pieces, size_t parameters_bytes)
{
    const int64_t n_sums = pieces->ranges[pieces->n - 1].end;
    return (struct ls_server_options){.address = "127.0.0.1:0",
                                      .lease = 60,
                                      .timeout = 60,
                                      .staleness = -1,
                                      .n_servers = 1,
                                      .options = "{}",
                                      .model_name = "m",
                                      .model = "m",
                                      .identity = "{}",
                                      .n_sums = n_sums,
                                      .n_own_sums = n_sums,
                                      .pieces = pieces,
                                      .parameters_bytes = parameters_bytes};
}

static inline struct ls_server *played_open(const struct ls_server_options *o)
{
    struct ls_server *s;
    if (ls_wire_load() != LS_OK) skip();
    check_ok(ls__server_open(&s, o));
    return s;
}

static inline void played_close(struct ls_server **s)
{
    pthread_mutex_lock(&(*s)->lock);
    for (int i = 0; i < (*s)->n_workers; i++) (*s)->workers[i].is_here = false; /* they do not listen any more */
    pthread_mutex_unlock(&(*s)->lock);
    ls__server_close(s, LS_OK);
}

static inline void played_pump(struct ls_server *s)
{
    bool is_something;
    pthread_mutex_lock(&s->lock);
    check_ok(ls__server_pump(s, 2, &is_something));
    pthread_mutex_unlock(&s->lock);
}

/* As the server sees it; its second thread may be at work. */
static inline struct server_worker played_seen(struct ls_server *s, const struct played *w)
{
    pthread_mutex_lock(&s->lock);
    const struct server_worker seen = s->workers[w->number];
    pthread_mutex_unlock(&s->lock);
    return seen;
}

/* --- what is said --- */

/* sums NULL: none, and it goes by the tube if there is one. */
static inline void played_say(struct played *w, enum ls_talk_kind kind, const void *body, int64_t step,
                              const int64_t *sums, size_t sums_bytes)
{
    size_t bytes;
    const struct ls_frame f = {.session = w->session,
                               .step = step,
                               .sender = w->number,
                               .sequence = ++w->sequence,
                               .payload_bytes = sums ? sums_bytes : 0};
    check_ok(ls__talk_write(played_head, sizeof played_head, f, kind, body, &bytes));
    if (sums)
        check_ok(ls_wire_send_copy(w->wire, LS_WIRE_SERVER, played_head, bytes, sums, sums_bytes));
    else if (w->box)
        assert_true(ls__tube_put(&w->tube, played_head, bytes));
    else
        check_ok(ls_wire_send(w->wire, LS_WIRE_SERVER, played_head, bytes, NULL, 0));
}

/* One message, if there is one: its kind, or -1. */
static inline int played_listen(struct played *w, size_t *payload_bytes)
{
    struct ls_frame f = {0};
    struct ls_frame_reader r;
    struct ls_wire_message m = {0};
    size_t bytes = 0;
    bool is_one = w->box && ls__tube_take(&w->tube, played_head, sizeof played_head, &bytes) == LS_TUBE_MESSAGE;
    if (!is_one) {
        check_ok(ls_wire_receive(w->wire, 1, &m));
        is_one = m.event == LS_WIRE_MESSAGE;
        if (is_one) memcpy(played_head, m.head, bytes = m.head_bytes);
    }
    *payload_bytes = m.payload_bytes;
    ls_wire_message_release(&m);
    if (!is_one || !ls_frame_read(played_head, bytes, *payload_bytes, &f, &r) || !ls__talk_read(&f, &r, &heard))
        return -1;
    w->session = f.session;
    w->step = f.step;
    w->n_ahead += f.kind == LS_TALK_AHEAD;
    return (int)f.kind;
}

/* Until a message of that kind comes, into `heard`; how long its payload is. */
static inline size_t played_hear(struct ls_server *s, struct played *w, enum ls_talk_kind kind)
{
    const int64_t began = ls__now_ns();
    size_t bytes;
    for (;;) {
        played_pump(s);
        if (played_listen(w, &bytes) == (int)kind) return bytes;
        if (ls__seconds_since(began) > 120) fail_msg("a message of kind %d did not come", (int)kind);
    }
}

/* --- coming and going --- */

static inline void played_connect(struct ls_server *s, struct played *w)
{
    const struct ls_wire_options o = {.address = ls__server_address(s)};
    struct ls_wire_message m = {0};
    check_ok(ls_wire_connect(&w->wire, &o));
    while (m.event != LS_WIRE_CONNECTED) {
        played_pump(s);
        check_ok(ls_wire_receive(w->wire, 1, &m));
    }
}

/* As worker.c does; from then on it talks by the tube. */
static inline void played_open_box(struct ls_server *s, struct played *w, const struct ls_talk_welcome *told)
{
    const struct ls_box_size size = {w->session, (uint64_t)s->o.n_sums, s->o.parameters_bytes};
    check_ok(ls__box_open(&w->box, &size, told->box_pid, told->box_fd));
    w->bells[0] = ls__bell_open(told->box_pid, told->server_bell);
    w->bells[1] = ls__bell_open(told->box_pid, told->worker_bell);
    assert_true(w->bells[0] >= 0 && w->bells[1] >= 0);
    w->tube = ls__tube_of_worker(ls__box_tube(w->box, w->slot), ls__box_server_flag(w->box), w->bells[0], w->bells[1]);
    w->sequence = 0;
}

/* Who joins does not say how many threads it has, as without -t; who is ready does. */
static inline void played_enter(struct ls_server *s, struct played *w, int slot, uint32_t threads)
{
    const struct ls_talk_join join = {.version = LOCKSTEP_VERSION, .host = "here", .slot = slot};
    const struct ls_talk_ready ready = {.n_sums = (uint64_t)s->o.n_sums,
                                        .parameters_bytes = s->o.parameters_bytes,
                                        .threads = threads,
                                        .is_boxed = slot >= 0};
    *w = (struct played){.slot = slot, .bells = {-1, -1}};
    played_connect(s, w);
    played_say(w, LS_TALK_JOIN, &join, 0, NULL, 0);
    played_hear(s, w, LS_TALK_WELCOME);
    const struct ls_talk_welcome told = heard.welcome;
    w->number = told.worker;
    assert_int_equal(told.n_pieces, s->o.pieces->n);
    assert_int_equal(told.box_pid, slot < 0 ? 0 : getpid());
    played_say(w, LS_TALK_READY, &ready, 0, NULL, 0);
    while (!played_seen(s, w).is_ready) played_pump(s); /* else others may get all of a round before it has come */
    if (slot >= 0) played_open_box(s, w, &told);
}

static inline void played_go(struct played *w)
{
    ls_wire_close(&w->wire, 0);
    ls__box_close(&w->box);
    ls__bell_close(w->bells);
}

/* --- work --- */

static inline size_t played_hear_work(struct ls_server *s, struct played *w)
{
    const size_t bytes = played_hear(s, w, LS_TALK_WORK);
    const struct ls_talk_work *work = &heard.work;
    if (w->n_items == 0) w->is_boxed = work->is_boxed;
    w->version = work->version;
    w->is_last = work->is_last;
    assert_true(w->n_items + work->n_items <= PLAYED_ITEMS);
    for (uint32_t i = 0; i < work->n_items; i++) w->items[w->n_items++] = work->items[i];
    return bytes;
}

/* The first work of a step, and no more yet; how many bytes of parameters came with it. */
static inline size_t played_begin_work(struct ls_server *s, struct played *w)
{
    w->n_items = 0;
    return played_hear_work(s, w);
}

/* Asks until there is no more. */
static inline void played_take_rest(struct ls_server *s, struct played *w)
{
    while (!w->is_last) {
        played_say(w, LS_TALK_ASK, NULL, w->step, NULL, 0);
        played_hear_work(s, w);
    }
    assert_true(w->n_items > 0);
}

static inline void played_take_work(struct ls_server *s, struct played *w)
{
    played_begin_work(s, w);
    played_take_rest(s, w);
}

#endif
