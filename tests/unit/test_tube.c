/* test_tube.c: messages in memory that two processes share: queues that wrap, are full, are scribbled over; bells. Then
 * a server with workers made by hand, one that shares its memory and one that does not: who dies between writing and
 * ringing, rings without writing, or writes what is no message. */
#include "base/rng.h"
#include "elastic/tube.h"
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

#include "played.h"

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

static bool has_push(struct ls_server *s)
{
    pthread_mutex_lock(&s->lock);
    const bool has_push = s->first;
    pthread_mutex_unlock(&s->lock);
    return has_push;
}

/* Into its box, or with the message: the number of the step in the first sum, items in the second. */
static void push_work(struct ls_server *s, struct played *h)
{
    struct ls_talk_push p = {.version = h->version, .n_pieces = 1, .n_items = h->n_items};
    int64_t sums[N_SUMS] = {s->round.step, (int64_t)h->n_items};
    memcpy(p.items, h->items, sizeof h->items);
    p.form = h->box ? LS_SUMS_BOXED : LS_SUMS_PLAIN;
    if (h->box) {
        memcpy(ls__box_sums(h->box, h->slot), sums, sizeof sums);
        played_say(h, LS_TALK_PUSH, &p, s->round.step, NULL, 0);
        return;
    }
    played_say(h, LS_TALK_PUSH, &p, s->round.step, sums, sizeof sums);
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

static struct ls_server *open_server(void)
{
    const struct ls_server_options o = played_options(&in_one, PARAMETERS_BYTES);
    return played_open(&o);
}

static void test_both_ways_in_one_job(void **state)
{
    struct played near, far;
    struct ls_server *s = open_server();
    played_enter(s, &near, 0, 1);
    played_enter(s, &far, -1, 1);
    for (int64_t step = 0; step < 20; step++) {
        begin_round(s, step);
        played_take_work(s, &near);
        played_take_work(s, &far);
        assert_true(near.is_boxed && !far.is_boxed);
        push_work(s, &near);
        push_work(s, &far);
        finish_round(s);
    }
    played_say(&near, LS_TALK_BEAT, NULL, 20, NULL, 0);
    played_hear(s, &near, LS_TALK_BEAT);
    played_go(&near);
    played_go(&far);
    played_close(&s);
}

/* One push by the connection, in pieces, ends behind the first, which is in the store by then. Of the one that brings
 * its shards by the box only the rest is to be added. */
static void test_box_behind_pieces(void **state)
{
    struct ls_server_options o = played_options(&in_two, PARAMETERS_BYTES);
    struct played near, far;
    enum ls_server_event event;
    struct ls_server_push push;
    struct ls_server_piece piece;
    int n = 0;
    struct ls_server *s = played_open(&o);
    played_enter(s, &near, 0, 1);
    played_enter(s, &far, -1, 1);
    begin_round(s, 0);
    played_take_work(s, &near);
    played_take_work(s, &far);
    push_work(s, &near);
    assert_true(settle_one(s, &n));
    struct ls_talk_push p = {.version = far.version, .n_pieces = 2, .n_items = far.n_items};
    const int64_t sums[N_SUMS / 2] = {0};
    memcpy(p.items, far.items, sizeof far.items);
    played_say(&far, LS_TALK_PUSH, &p, 0, sums, sizeof sums);
    check_ok(ls__server_wait(s, &event, &push, &piece));
    assert_int_equal(event, LS_SERVER_PIECE);
    assert_int_equal(piece.piece, 0);
    assert_int_equal(piece.n, 1);
    ls__server_piece_release(&piece);
    played_go(&far);
    played_take_work(s, &near);
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
    played_go(&near);
    played_close(&s);
}

/* Its step was done by others meanwhile. It waits for an answer about that step, and would for ever. */
static void test_asked_too_late(void **state)
{
    struct played h;
    struct ls_server *s = open_server();
    played_enter(s, &h, -1, 1);
    begin_round(s, 8);
    played_hear(s, &h, LS_TALK_WORK);
    played_say(&h, LS_TALK_ASK, NULL, 7, NULL, 0);
    played_hear(s, &h, LS_TALK_WORK);
    assert_int_equal(h.step, 7);
    assert_int_equal(heard.work.n_items, 0);
    assert_true(heard.work.is_last);
    played_go(&h);
    played_close(&s);
}

/* Rounds of two workers, the first three times as fast as the other, which has the slot or a connection. */
static void play_rounds(int slot, double rate, double turn_seconds, bool is_dealt)
{
    struct played one, two;
    struct ls_server *s = open_server();
    played_enter(s, &one, 0, 1);
    played_enter(s, &two, slot, 1);
    pthread_mutex_lock(&s->lock);
    s->turn_seconds = turn_seconds;
    s->shard_seconds = 0.1;
    pthread_mutex_unlock(&s->lock);
    for (int64_t step = 0; step < 3; step++) {
        begin_round(s, step);
        assert_int_equal(s->is_dealt, step > 0 && is_dealt);
        played_take_work(s, &one);
        played_take_work(s, &two);
        if (s->is_dealt) {
            assert_int_equal(one.n_items, 1 + 5); /* one each, of the other six three quarters: 4.5 */
            assert_int_equal(two.n_items, 1 + 1);
        }
        push_work(s, &one);
        push_work(s, &two);
        finish_round(s);
        pthread_mutex_lock(&s->lock);
        for (int i = 0; i < 2; i++) s->workers[i].rate = i == 0 ? 3 * rate : rate; /* as if it had been seen */
        pthread_mutex_unlock(&s->lock);
    }
    played_go(&one);
    played_go(&two);
    played_close(&s);
}

/* Who was seen to be three times faster gets three times as much, at once. So it is where a question would take longer
 * than a shard; in other long rounds they ask. */
static void test_a_short_round_is_dealt(void **state)
{
    for (int slot = -1; slot <= 1; slot += 2) {
        play_rounds(slot, 3000, 0, true);
        play_rounds(slot, 3, 0.2, true);
        play_rounds(slot, 3, 0.05, false);
    }
}

/* Who died behind its push left sums in the box that nobody has added yet: who comes in its place gets the memory only
 * when they are in. */
static void test_sums_of_a_dead_one(void **state)
{
    const struct ls_talk_join join = {.version = LOCKSTEP_VERSION, .host = "here", .slot = 0};
    struct played one, two = {.slot = 0, .bells = {-1, -1}}, three;
    struct ls_server *s = open_server();
    int n = 0;
    played_enter(s, &one, 0, 1);
    begin_round(s, 0);
    played_take_work(s, &one);
    push_work(s, &one);
    while (!has_push(s)) played_pump(s);
    played_go(&one);
    while (played_seen(s, &one).is_here) played_pump(s);
    played_connect(s, &two);
    played_say(&two, LS_TALK_JOIN, &join, 0, NULL, 0);
    played_hear(s, &two, LS_TALK_WELCOME);
    two.number = heard.welcome.worker;
    assert_int_equal(heard.welcome.box_pid, 0);
    assert_true(settle_one(s, &n));
    played_go(&two);
    while (played_seen(s, &two).is_here) played_pump(s);
    played_enter(s, &three, 0, 1); /* which sees that it gets it */
    played_go(&three);
    played_close(&s);
}

/* What is left of a round, by one who is there. */
static void finish_by(struct ls_server *s, struct played *h)
{
    int n = 0;
    while (n < N_ITEMS) {
        if (has_push(s)) {
            assert_true(settle_one(s, &n));
        } else if (ls__tube_has(&h->tube)) {
            played_take_work(s, h);
            push_work(s, h);
        } else {
            played_pump(s);
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
    struct played one, two;
    _Atomic uint32_t nobody = 0;
    struct ls_server *s = open_server();
    for (int k = 0; k < 3 * N_WAYS; k++) {
        const int way = k % N_WAYS;
        played_enter(s, &one, 0, 1);
        played_enter(s, &two, 1, 1);
        begin_round(s, k);
        played_take_work(s, &one);
        played_take_work(s, &two);
        one.tube.is_other_asleep = &nobody;
        if (way == DIES_WRITING)
            memset(one.tube.out->data + one.tube.put % LS_TUBE_ROOM, 0x5a, 64);
        else
            push_work(s, &one);
        if (way != FORGETS) played_go(&one);
        for (int i = 0; i < 1000; i++) ls__bell_ring(two.bells[0]);
        push_work(s, &two);
        finish_by(s, &two);
        played_go(&one);
        played_go(&two);
        while (ls__server_n_workers(s) > 0) played_pump(s);
    }
    played_close(&s);
}

/* What is no message ends that worker and nobody else; a push of what it does not have is rejected. */
static void test_nonsense(void **state)
{
    enum { BEYOND, CROOKED, LONG, NONSENSE, N_WAYS };
    struct played bad, good;
    struct ls_server *s = open_server();
    played_enter(s, &good, 1, 1);
    for (int way = 0; way < N_WAYS; way++) {
        const uint32_t length = 5000;
        played_enter(s, &bad, 0, 1);
        begin_round(s, way);
        played_take_work(s, &good);
        played_take_work(s, &bad);
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
            while (played_seen(s, &bad).told.rejected == 0) played_pump(s);
            assert_true(played_seen(s, &bad).is_here);
            played_go(&bad);
        } else {
            while (played_seen(s, &bad).is_here) played_pump(s);
            played_hear(s, &bad, LS_TALK_OVER); /* by its connection */
            assert_int_equal(heard.end.status, LS_REMOTE);
        }
        push_work(s, &good);
        finish_by(s, &good);
        played_go(&bad);
    }
    played_go(&good);
    played_close(&s);
}

/* Threads that were not given are known when a worker is ready. A step is a batch where the round is an epoch, and
 * those that were done before count. */
static void test_what_is_told_of_a_worker(void **state)
{
    const unsigned char done[N_ITEMS] = {1, 1, 0, 1, 1, 1};
    const struct ls_parameters none = {0};
    const struct ls_round epoch = {
        .step = 40, .epoch = 5, .n_items = N_ITEMS, .item_n = 8, .last_n = 8, .is_batches = true, .done = done};
    struct ls_server_options o = played_options(&in_one, PARAMETERS_BYTES);
    struct played first, second;
    int n = 0;
    o.step = 45; /* of a run that goes on */
    struct ls_server *s = played_open(&o);
    played_enter(s, &first, -1, 3);
    assert_int_equal(s->workers[first.number].threads, 3);
    assert_int_equal(s->workers[first.number].told.joined_step, 45);
    check_ok(ls__server_publish(s, &none));
    check_ok(ls__server_begin(s, &epoch));
    played_take_work(s, &first);
    push_work(s, &first);
    assert_true(settle_one(s, &n));
    played_enter(s, &second, -1, 1);
    assert_int_equal(s->workers[second.number].threads, 1);
    assert_int_equal(s->workers[second.number].told.joined_step, 46);
    played_go(&second);
    while (played_seen(s, &second).is_here) played_pump(s);
    assert_int_equal(s->workers[second.number].told.left_step, 46);
    played_go(&first);
    while (played_seen(s, &first).is_here) played_pump(s);
    played_close(&s);
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
        cmocka_unit_test(test_sums_of_a_dead_one),
        cmocka_unit_test(test_bells_that_lie),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_what_is_told_of_a_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
