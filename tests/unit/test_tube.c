/* test_tube.c: messages in memory that two processes share: queues that wrap, are full, are scribbled over; bells. Then
 * a server with workers made by hand, one that shares its memory and one that does not: who dies between writing and
 * ringing, rings without writing, or writes what is no message. */
#include "elastic/server_internal.h"

#include "base/rng.h"
#include "sanitized.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "expect.h"

static unsigned random_below(uint64_t *at, unsigned n)
{
    return ls__rng(7, LS_RNG_DATA, 0, 0, (*at)++).v[0] % n;
}

/* --- a tube alone --- */

struct pair {
    struct ls_tube_memory *memory;
    _Atomic uint32_t server_flag;
    int server_bell[2], worker_bell[2];
    struct ls_tube server, worker;
};

static void open_pair(struct pair *p)
{
    *p = (struct pair){.memory = aligned_alloc(64, sizeof *p->memory)};
    assert_non_null(p->memory);
    memset(p->memory, 0xee, sizeof *p->memory);
    ls__tube_clear(p->memory);
    assert_true(ls__bell_create(p->server_bell) && ls__bell_create(p->worker_bell));
    p->server = ls__tube_of_server(p->memory, &p->server_flag, p->server_bell[0], p->worker_bell[1]);
    p->worker = ls__tube_of_worker(p->memory, &p->server_flag, p->server_bell[1], p->worker_bell[0]);
}

static void close_pair(struct pair *p)
{
    ls__bell_close(p->server_bell);
    ls__bell_close(p->worker_bell);
    free(p->memory);
}

static bool rang(int fd)
{
    char one;
    return read(fd, &one, 1) == 1;
}

/* Against a list: what was put comes out, in order, whole, however it wraps. */
static void test_there_and_back(void **state)
{
    enum { MOST = 40 };
    static uint8_t out[LS_TUBE_ROOM];
    struct pair p;
    uint64_t at = 0, first = 0, last = 0;
    size_t lengths[MOST], bytes;
    open_pair(&p);
    for (int round = 0; round < 20000; round++) {
        const size_t n = 1 + random_below(&at, round % 50 == 0 ? LS_TUBE_ROOM / 2 : 200);
        if (random_below(&at, 2) && last - first < MOST) {
            memset(out, (int)(last & 255), n);
            const bool is_put = ls__tube_put(&p.worker, out, n);
            if (!is_put) assert_true(last > first); /* never when it is empty */
            if (is_put) lengths[last++ % MOST] = n;
            continue;
        }
        const enum ls_tube_found found = ls__tube_take(&p.server, out, sizeof out, &bytes);
        assert_int_equal(found, first == last ? LS_TUBE_NOTHING : LS_TUBE_MESSAGE);
        if (first == last) continue;
        assert_int_equal(bytes, lengths[first % MOST]);
        assert_int_equal(out[0], first & 255);
        assert_int_equal(out[bytes - 1], first & 255);
        first++;
    }
    assert_true(last > 5000);
    assert_false(ls__tube_put(&p.worker, out, 0));
    assert_false(ls__tube_put(&p.worker, out, LS_TUBE_ROOM / 2 + 1));
    close_pair(&p);
}

static void test_bells(void **state)
{
    struct pair p;
    uint8_t out[8];
    size_t bytes;
    open_pair(&p);
    assert_true(ls__tube_put(&p.worker, (const uint8_t *)"a", 1));
    assert_false(rang(p.server_bell[0])); /* the server is awake */
    atomic_store(p.server.is_asleep, 1);
    assert_true(ls__tube_has(&p.server)); /* and would not sleep */
    assert_true(ls__tube_put(&p.worker, (const uint8_t *)"b", 1));
    assert_true(ls__tube_put(&p.worker, (const uint8_t *)"c", 1));
    assert_true(rang(p.server_bell[0]));
    assert_false(rang(p.server_bell[0])); /* once */
    for (int i = 0; i < 3; i++) assert_int_equal(ls__tube_take(&p.server, out, sizeof out, &bytes), LS_TUBE_MESSAGE);
    assert_int_equal(out[0], 'c');
    assert_false(ls__tube_has(&p.server));
    for (int i = 0; i < 100000; i++) ls__bell_ring(p.worker_bell[1]); /* full, and it does not wait */
    ls__bell_silence(p.worker_bell[0]);
    assert_false(rang(p.worker_bell[0]));
    const int other = ls__bell_open((uint32_t)getpid(), (uint32_t)p.worker_bell[0]);
    assert_true(other >= 0);
    ls__bell_ring(other);
    assert_true(rang(p.worker_bell[0]));
    close(other);
    assert_int_equal(ls__bell_open((uint32_t)getpid(), 9999), -1);
    FILE *plain = tmpfile();
    assert_non_null(plain);
    assert_int_equal(ls__bell_open((uint32_t)getpid(), (uint32_t)fileno(plain)), -1); /* no bell: not opened */
    fclose(plain);
    close_pair(&p);
}

/* Whatever the other end writes: nothing is read or written beyond the queue, and the copy has its bounds. */
static void test_scribbles(void **state)
{
    struct pair p;
    uint64_t at = 0;
    int n_broken = 0, n_read = 0;
    uint8_t *out = malloc(300), message[300] = {0}; /* exact, for the sanitizer */
    for (int round = 0; round < 3000; round++) {
        size_t bytes = 0;
        open_pair(&p);
        for (int i = 0; i < 3; i++) assert_true(ls__tube_put(&p.worker, message, 1 + random_below(&at, 300)));
        for (int i = 0; i < 4; i++) p.memory->to_server.data[random_below(&at, 40)] = (uint8_t)random_below(&at, 256);
        if (round % 3 == 0) atomic_store(&p.memory->to_server.put, ls__rng(9, LS_RNG_DATA, 0, 0, at++).v[0]);
        atomic_store(&p.memory->to_server.taken, ls__rng(9, LS_RNG_DATA, 0, 0, at++).v[0]);
        (void)ls__tube_put(&p.worker, message, sizeof message); /* may find no room; writes within the queue */
        enum ls_tube_found found = LS_TUBE_MESSAGE;
        for (int i = 0; i < 100 && found == LS_TUBE_MESSAGE; i++, n_read++) {
            found = ls__tube_take(&p.server, out, 300, &bytes);
            if (found == LS_TUBE_MESSAGE) assert_in_range(bytes, 1, 300);
        }
        n_broken += found == LS_TUBE_BROKEN;
        close_pair(&p);
    }
    assert_true(n_broken > 500 && n_read > 1000);
    free(out);
}

enum { N_SENT = IS_SANITIZED ? 5000 : 50000 };

static void *send_many(void *arg)
{
    struct ls_tube *tube = arg;
    for (uint32_t i = 0; i < N_SENT;) {
        if (ls__tube_put(tube, (const uint8_t *)&i, sizeof i))
            i++;
        else
            sched_yield();
    }
    return NULL;
}

/* Who sleeps as the server does never waits for a message that is there. */
static void test_two_at_once(void **state)
{
    struct pair p;
    pthread_t sender;
    uint32_t x;
    size_t bytes;
    open_pair(&p);
    assert_int_equal(pthread_create(&sender, NULL, send_many, &p.worker), 0);
    for (uint32_t i = 0; i < N_SENT;) {
        const enum ls_tube_found found = ls__tube_take(&p.server, (uint8_t *)&x, sizeof x, &bytes);
        if (found == LS_TUBE_MESSAGE) {
            assert_int_equal(x, i++);
            continue;
        }
        atomic_store(p.server.is_asleep, 1);
        if (!ls__tube_has(&p.server)) { /* it will ring: this test hangs if it does not */
            while (!rang(p.server_bell[0])) sched_yield();
        }
        atomic_store(p.server.is_asleep, 0);
    }
    pthread_join(sender, NULL);
    close_pair(&p);
}

/* --- a server, and workers made by hand --- */

enum { N_SUMS = 16, PARAMETERS_BYTES = 64, N_ITEMS = 8 };

static const struct ls_sum_split in_one = {.n = 1, .ranges = {{0, N_SUMS}}};
static const struct ls_sum_split in_two = {.n = 2, .ranges = {{0, N_SUMS / 2}, {N_SUMS / 2, N_SUMS}}};

static const struct ls_server_options server_options = {.address = "127.0.0.1:0",
                                                        .lease = 60,
                                                        .timeout = 60,
                                                        .staleness = -1,
                                                        .n_servers = 1,
                                                        .options = "{}",
                                                        .model_name = "m",
                                                        .model = "m",
                                                        .identity = "{}",
                                                        .n_sums = N_SUMS,
                                                        .n_own_sums = N_SUMS,
                                                        .pieces = &in_one,
                                                        .parameters_bytes = PARAMETERS_BYTES};

struct hand {
    struct ls_wire *wire;
    uint64_t session, sequence;
    uint32_t number;
    int slot;
    struct ls_box *box; /* NULL: it has none */
    int bells[2];
    struct ls_tube tube;
    struct ls_talk_work work; /* the last, and all items of it */
    uint32_t items[N_ITEMS], n_items;
    bool is_boxed;      /* it found the parameters in the box */
    int64_t heard_step; /* of the last message */
};

static uint32_t threads = 1; /* of the next one */
static uint8_t message[LS_TALK_HEAD_BYTES];
static union ls_talk_body heard;

static void pump(struct ls_server *s)
{
    bool is_something;
    pthread_mutex_lock(&s->lock);
    check_ok(ls__server_pump(s, 2, &is_something));
    pthread_mutex_unlock(&s->lock);
}

/* The server's second thread may be at work. */
static bool is_here(struct ls_server *s, const struct hand *h)
{
    pthread_mutex_lock(&s->lock);
    const bool is_here = s->workers[h->number].is_here;
    pthread_mutex_unlock(&s->lock);
    return is_here;
}

static bool is_ready(struct ls_server *s, const struct hand *h)
{
    pthread_mutex_lock(&s->lock);
    const bool is_ready = s->workers[h->number].is_ready;
    pthread_mutex_unlock(&s->lock);
    return is_ready;
}

static bool has_push(struct ls_server *s)
{
    pthread_mutex_lock(&s->lock);
    const bool has_push = s->first;
    pthread_mutex_unlock(&s->lock);
    return has_push;
}

static int n_rejected(struct ls_server *s, const struct hand *h)
{
    pthread_mutex_lock(&s->lock);
    const int n = (int)s->workers[h->number].told.rejected;
    pthread_mutex_unlock(&s->lock);
    return n;
}

static size_t write_message(struct hand *h, enum ls_talk_kind kind, const void *body, int64_t step, size_t payload)
{
    size_t bytes;
    const struct ls_frame f = {
        .session = h->session, .step = step, .sender = h->number, .sequence = ++h->sequence, .payload_bytes = payload};
    check_ok(ls__talk_write(message, sizeof message, f, kind, body, &bytes));
    return bytes;
}

static void say(struct hand *h, enum ls_talk_kind kind, const void *body, int64_t step)
{
    const size_t bytes = write_message(h, kind, body, step, 0);
    if (h->box)
        assert_true(ls__tube_put(&h->tube, message, bytes));
    else
        check_ok(ls_wire_send(h->wire, LS_WIRE_SERVER, message, bytes, NULL, 0));
}

/* What the server says next, by tube or connection, into `heard`. */
static enum ls_talk_kind hear(struct ls_server *s, struct hand *h)
{
    for (int i = 0; i < 5000; i++) {
        struct ls_frame f = {0};
        struct ls_frame_reader r;
        struct ls_wire_message m = {0};
        size_t bytes;
        pump(s);
        bool is_one = h->box && ls__tube_take(&h->tube, message, sizeof message, &bytes) == LS_TUBE_MESSAGE;
        if (!is_one) {
            check_ok(ls_wire_receive(h->wire, 1, &m));
            is_one = m.event == LS_WIRE_MESSAGE;
            if (is_one) memcpy(message, m.head, bytes = m.head_bytes);
        }
        const bool is_read =
            is_one && ls_frame_read(message, bytes, m.payload_bytes, &f, &r) && ls__talk_read(&f, &r, &heard);
        if (is_read) h->session = f.session;
        if (is_read) h->heard_step = f.step;
        const bool is_connected = m.event == LS_WIRE_CONNECTED;
        ls_wire_message_release(&m);
        if (is_read) return (enum ls_talk_kind)f.kind;
        if (is_connected) return LS_TALK_BEAT;
    }
    fail_msg("the server says nothing");
    return LS_TALK_BEAT;
}

static void enter(struct ls_server *s, struct hand *h, int slot)
{
    struct ls_talk_join join = {.version = LOCKSTEP_VERSION, .host = "here", .slot = slot}; /* -t was not given */
    *h = (struct hand){.slot = slot, .bells = {-1, -1}};
    check_ok(ls_wire_connect(&h->wire, &(const struct ls_wire_options){.address = ls__server_address(s)}));
    assert_int_equal(hear(s, h), LS_TALK_BEAT); /* connected */
    say(h, LS_TALK_JOIN, &join, 0);
    assert_int_equal(hear(s, h), LS_TALK_WELCOME);
    const struct ls_talk_welcome w = heard.welcome;
    h->number = w.worker;
    assert_int_equal(w.box_pid, slot < 0 ? 0 : getpid());
    const struct ls_talk_ready ready = {
        .n_sums = N_SUMS, .parameters_bytes = PARAMETERS_BYTES, .threads = threads, .is_boxed = slot >= 0};
    say(h, LS_TALK_READY, &ready, 0);
    while (!is_ready(s, h)) pump(s); /* else others may get all of a round before it has come */
    if (slot < 0) return;
    const struct ls_box_size size = {h->session, N_SUMS, PARAMETERS_BYTES};
    check_ok(ls__box_open(&h->box, &size, w.box_pid, w.box_fd));
    h->bells[0] = ls__bell_open(w.box_pid, w.server_bell);
    h->bells[1] = ls__bell_open(w.box_pid, w.worker_bell);
    assert_true(h->bells[0] >= 0 && h->bells[1] >= 0);
    h->tube = ls__tube_of_worker(ls__box_tube(h->box, slot), ls__box_server_flag(h->box), h->bells[0], h->bells[1]);
    h->sequence = 0;
}

static void go(struct hand *h)
{
    ls_wire_close(&h->wire, 0);
    ls__box_close(&h->box);
    ls__bell_close(h->bells);
}

/* Asks until there is no more. */
static void take_work(struct ls_server *s, struct hand *h)
{
    h->n_items = 0;
    do {
        if (h->n_items > 0) say(h, LS_TALK_ASK, NULL, s->round.step);
        while (hear(s, h) != LS_TALK_WORK) continue;
        h->work = heard.work;
        if (h->n_items == 0) h->is_boxed = heard.work.is_boxed;
        for (uint32_t i = 0; i < h->work.n_items; i++) h->items[h->n_items++] = h->work.items[i];
    } while (!h->work.is_last);
    assert_true(h->n_items > 0);
}

/* Into its box, or with the message: the number of the step in the first sum, items in the second. */
static void push_work(struct ls_server *s, struct hand *h)
{
    struct ls_talk_push p = {.version = h->work.version, .n_pieces = 1, .n_items = h->n_items};
    int64_t sums[N_SUMS] = {s->round.step, (int64_t)h->n_items};
    memcpy(p.items, h->items, sizeof h->items);
    p.form = h->box ? LS_SUMS_BOXED : LS_SUMS_PLAIN;
    if (h->box) {
        memcpy(ls__box_sums(h->box, h->slot), sums, sizeof sums);
        say(h, LS_TALK_PUSH, &p, s->round.step);
        return;
    }
    const size_t bytes = write_message(h, LS_TALK_PUSH, &p, s->round.step, sizeof sums);
    check_ok(ls_wire_send_copy(h->wire, LS_WIRE_SERVER, message, bytes, sums, sizeof sums));
}

static void begin_round(struct ls_server *s, int64_t step)
{
    const struct ls_parameters none = {0};
    const struct ls_round round = {.step = step, .batch_n = 64, .n_items = N_ITEMS, .item_n = 8, .last_n = 8};
    check_ok(ls__server_publish(s, &none));
    check_ok(ls__server_begin(s, &round));
}

/* The next push; false: the round is done. */
static bool settle_one(struct ls_server *s, int *n_items)
{
    enum ls_server_event event;
    struct ls_server_push push;
    struct ls_server_piece piece;
    check_ok(ls__server_wait(s, &event, &push, &piece));
    if (event == LS_SERVER_DONE) return false;
    assert_int_equal(event, LS_SERVER_PUSH);
    int64_t sums[2];
    assert_int_equal(push.bytes, N_SUMS * sizeof(int64_t));
    memcpy(sums, push.sums, sizeof sums);
    assert_int_equal(sums[0], s->round.step);
    assert_int_equal(sums[1], push.n_items);
    *n_items += push.n_items;
    ls__server_settle(s, &push);
    return true;
}

static void finish_round(struct ls_server *s)
{
    int n = 0;
    while (settle_one(s, &n)) continue;
    assert_int_equal(n, N_ITEMS);
}

static void open_server(struct ls_server **s)
{
    if (ls_wire_load() != LS_OK) skip();
    check_ok(ls__server_open(s, &server_options));
}

static void close_server(struct ls_server **s)
{
    pthread_mutex_lock(&(*s)->lock);
    for (int i = 0; i < (*s)->n_workers; i++) (*s)->workers[i].is_here = false; /* they do not listen any more */
    pthread_mutex_unlock(&(*s)->lock);
    ls__server_close(s, LS_OK);
}

static void test_both_ways_in_one_job(void **state)
{
    struct ls_server *s;
    struct hand near, far;
    open_server(&s);
    enter(s, &near, 0);
    enter(s, &far, -1);
    for (int64_t step = 0; step < 20; step++) {
        begin_round(s, step);
        take_work(s, &near);
        take_work(s, &far);
        assert_true(near.is_boxed && !far.is_boxed);
        push_work(s, &near);
        push_work(s, &far);
        finish_round(s);
    }
    say(&near, LS_TALK_BEAT, NULL, 20);
    assert_int_equal(hear(s, &near), LS_TALK_BEAT);
    go(&near);
    go(&far);
    close_server(&s);
}

/* One push by the connection, in pieces, ends behind the first, which is in the store by then. Of the one that brings
 * its shards by the box only the rest is to be added. */
static void test_box_behind_pieces(void **state)
{
    struct ls_server_options o = server_options;
    struct ls_server *s;
    struct hand near, far;
    enum ls_server_event event;
    struct ls_server_push push;
    struct ls_server_piece piece;
    int n = 0;
    o.pieces = &in_two;
    if (ls_wire_load() != LS_OK) skip();
    check_ok(ls__server_open(&s, &o));
    enter(s, &near, 0);
    enter(s, &far, -1);
    begin_round(s, 0);
    take_work(s, &near);
    take_work(s, &far);
    push_work(s, &near);
    assert_true(settle_one(s, &n));
    struct ls_talk_push p = {.version = far.work.version, .n_pieces = 2, .n_items = far.n_items};
    const int64_t sums[N_SUMS / 2] = {0};
    memcpy(p.items, far.items, sizeof far.items);
    const size_t bytes = write_message(&far, LS_TALK_PUSH, &p, 0, sizeof sums);
    check_ok(ls_wire_send_copy(far.wire, LS_WIRE_SERVER, message, bytes, sums, sizeof sums));
    check_ok(ls__server_wait(s, &event, &push, &piece));
    assert_int_equal(event, LS_SERVER_PIECE);
    assert_int_equal(piece.piece, 0);
    assert_int_equal(piece.n, 1);
    ls__server_piece_release(&piece);
    go(&far);
    take_work(s, &near);
    assert_int_equal(near.n_items, N_ITEMS - n);
    push_work(s, &near);
    check_ok(ls__server_wait(s, &event, &push, &piece));
    assert_int_equal(event, LS_SERVER_PUSH);
    assert_int_equal(push.begin, N_SUMS / 2);
    assert_int_equal(push.n_items, N_ITEMS - n);
    ls__server_settle(s, &push);
    check_ok(ls__server_wait(s, &event, &push, &piece));
    assert_int_equal(event, LS_SERVER_PIECE);
    assert_int_equal(piece.piece, 1);
    assert_int_equal(piece.n, 0);
    ls__server_piece_release(&piece);
    check_ok(ls__server_wait(s, &event, &push, &piece));
    assert_int_equal(event, LS_SERVER_DONE);
    go(&near);
    close_server(&s);
}

/* Its step was done by others meanwhile. It waits for an answer about that step, and would for ever. */
static void test_asked_too_late(void **state)
{
    struct ls_server *s;
    struct hand h;
    open_server(&s);
    enter(s, &h, -1);
    begin_round(s, 8);
    while (hear(s, &h) != LS_TALK_WORK) continue;
    say(&h, LS_TALK_ASK, NULL, 7);
    while (hear(s, &h) != LS_TALK_WORK) continue;
    assert_int_equal(h.heard_step, 7);
    assert_int_equal(heard.work.n_items, 0);
    assert_true(heard.work.is_last);
    go(&h);
    close_server(&s);
}

/* Who was seen to be three times faster gets three times as much, at once. */
static void test_a_short_round_is_dealt(void **state)
{
    struct ls_server *s;
    struct hand one, two;
    open_server(&s);
    enter(s, &one, 0);
    enter(s, &two, 1);
    for (int64_t step = 0; step < 3; step++) {
        begin_round(s, step);
        take_work(s, &one);
        take_work(s, &two);
        if (step > 0) {
            assert_true(s->is_dealt);
            assert_int_equal(one.n_items, 1 + 5); /* one each, of the other six three quarters: 4.5 */
            assert_int_equal(two.n_items, 1 + 1);
        }
        push_work(s, &one);
        push_work(s, &two);
        finish_round(s);
        for (int i = 0; i < 2; i++) s->workers[i].rate = i == 0 ? 9000 : 3000; /* as if it had been seen */
    }
    go(&one);
    go(&two);
    close_server(&s);
}

/* What is left of a round, by one who is there. */
static void finish_by(struct ls_server *s, struct hand *h)
{
    int n = 0;
    while (n < N_ITEMS) {
        if (has_push(s)) {
            assert_true(settle_one(s, &n));
        } else if (ls__tube_has(&h->tube)) {
            take_work(s, h);
            push_work(s, h);
        } else {
            pump(s);
        }
    }
    assert_int_equal(n, N_ITEMS);
    assert_false(settle_one(s, &n));
}

/* One dies before it has put its push, or when it has but has not rung, or only forgets to ring; the other rings for
 * nothing. Every shard counts once. */
static void test_bells_that_lie(void **state)
{
    enum { DIES_WRITING, DIES_BEFORE_RINGING, FORGETS, N_WAYS };
    struct ls_server *s;
    struct hand one, two;
    _Atomic uint32_t nobody = 0;
    open_server(&s);
    for (int k = 0; k < 3 * N_WAYS; k++) {
        const int way = k % N_WAYS;
        enter(s, &one, 0);
        enter(s, &two, 1);
        begin_round(s, k);
        take_work(s, &one);
        take_work(s, &two);
        one.tube.is_other_asleep = &nobody;
        if (way == DIES_WRITING)
            memset(one.tube.out->data + one.tube.put % LS_TUBE_ROOM, 0x5a, 64);
        else
            push_work(s, &one);
        if (way != FORGETS) go(&one);
        for (int i = 0; i < 1000; i++) ls__bell_ring(two.bells[0]);
        push_work(s, &two);
        finish_by(s, &two);
        go(&one);
        go(&two);
        while (ls__server_n_workers(s) > 0) pump(s);
    }
    close_server(&s);
}

/* What is no message ends that worker and nobody else; a push of what it does not have is rejected. */
static void test_nonsense(void **state)
{
    enum { BEYOND, CROOKED, LONG, NONSENSE, N_WAYS };
    struct ls_server *s;
    struct hand bad, good;
    open_server(&s);
    enter(s, &good, 1);
    for (int way = 0; way < N_WAYS; way++) {
        const uint32_t length = 5000;
        enter(s, &bad, 0);
        begin_round(s, way);
        take_work(s, &good);
        take_work(s, &bad);
        struct ls_tube_queue *q = bad.tube.out;
        if (way == BEYOND) atomic_store(&q->put, bad.tube.put + LS_TUBE_ROOM + 8);
        if (way == CROOKED) atomic_store(&q->put, bad.tube.put + 3);
        if (way == LONG) {
            memcpy(q->data + bad.tube.put, &length, sizeof length);
            atomic_store(&q->put, bad.tube.put + 16);
        }
        if (way == NONSENSE) {
            assert_true(ls__tube_put(&bad.tube, (const uint8_t *)"what?", 5));
            bad.items[0] = 4000;
            push_work(s, &bad);
            while (n_rejected(s, &bad) == 0) pump(s);
            assert_true(is_here(s, &bad));
            go(&bad);
        } else {
            while (is_here(s, &bad)) pump(s);
            while (hear(s, &bad) != LS_TALK_OVER) continue; /* by its connection */
            assert_int_equal(heard.end.status, LS_REMOTE);
        }
        push_work(s, &good);
        finish_by(s, &good);
        go(&bad);
    }
    go(&good);
    close_server(&s);
}

/* Threads that were not given are known when a worker is ready. A step is a batch where the round is an epoch, and
 * those that were done before count. */
static void test_what_is_told_of_a_worker(void **state)
{
    const unsigned char done[N_ITEMS] = {1, 1, 0, 1, 1, 1};
    const struct ls_parameters none = {0};
    const struct ls_round epoch = {
        .step = 40, .epoch = 5, .n_items = N_ITEMS, .item_n = 8, .last_n = 8, .is_batches = true, .done = done};
    struct ls_server_options o = server_options;
    struct ls_server *s;
    struct hand first, second;
    int n = 0;
    o.step = 45; /* of a run that goes on */
    if (ls_wire_load() != LS_OK) skip();
    check_ok(ls__server_open(&s, &o));
    threads = 3;
    enter(s, &first, -1);
    threads = 1;
    assert_int_equal(s->workers[first.number].threads, 3);
    assert_int_equal(s->workers[first.number].told.joined_step, 45);
    check_ok(ls__server_publish(s, &none));
    check_ok(ls__server_begin(s, &epoch));
    take_work(s, &first);
    push_work(s, &first);
    assert_true(settle_one(s, &n));
    enter(s, &second, -1);
    assert_int_equal(s->workers[second.number].threads, 1);
    assert_int_equal(s->workers[second.number].told.joined_step, 46);
    go(&second);
    while (is_here(s, &second)) pump(s);
    assert_int_equal(s->workers[second.number].told.left_step, 46);
    go(&first);
    while (is_here(s, &first)) pump(s);
    close_server(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_bells),
        cmocka_unit_test(test_scribbles),
        cmocka_unit_test(test_two_at_once),
        cmocka_unit_test(test_both_ways_in_one_job),
        cmocka_unit_test(test_box_behind_pieces),
        cmocka_unit_test(test_asked_too_late),
        cmocka_unit_test(test_a_short_round_is_dealt),
        cmocka_unit_test(test_bells_that_lie),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_what_is_told_of_a_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
