/* test_pieces.c: a server whose pushes come in pieces, confronted with workers that this test plays message by message:
 * a piece is handed out when every shard has it, in order, and once, whoever dies between two of them; what is no next
 * piece of a push makes it void; the next parameters go ahead to who has all before them, unless nobody will need them.
 */
#include "elastic/server.h"
#include "engine.h"
#include "played.h"

#include <stdlib.h>
#include <string.h>

enum { N_PIECES = 3, PIECE = 10, N_ITEMS = 6, PARAMETERS = 40 };

static const struct ls_sum_split pieces = {.n = N_PIECES, .ranges = {{0, 10}, {10, 20}, {20, 30}}};
static const struct ls_parameters parameters = {.bytes = PARAMETERS};
static bool is_stopping; /* the caller wants to stop */

static bool wants_to_stop(void *context)
{
    return is_stopping;
}

/* --- a worker --- */

/* A shard's sums are its number and 1, in every piece the piece's number more. */
static void push(struct played *w, int piece, int n_pieces, int n_sums)
{
    static struct ls_talk_push p;
    int64_t sums[2 * PIECE] = {0};
    p = (struct ls_talk_push){.version = w->version,
                              .number = w->n_pushes,
                              .piece = (uint32_t)piece,
                              .n_pieces = (uint32_t)n_pieces,
                              .n_items = w->n_items};
    memcpy(p.items, w->items, sizeof w->items);
    for (uint32_t i = 0; i < w->n_items; i++)
        for (int k = 0; k < PIECE; k++) sums[k] += (int64_t)w->items[i] + 1 + piece;
    played_say(w, LS_TALK_PUSH, &p, w->step, n_sums > 0 ? sums : NULL, (size_t)n_sums * sizeof *sums);
    w->n_pushes += piece + 1 == n_pieces;
}

/* --- what the training sees --- */

/* The next event is this piece, of n pushes, with the sums of all shards. */
static void expect_piece(struct ls_server *s, int number, int n)
{
    enum ls_server_event event;
    struct ls_server_push pushed;
    struct ls_server_piece piece;
    int64_t all = 0;
    check_ok(ls__server_wait(s, &event, &pushed, &piece));
    assert_int_equal(event, LS_SERVER_PIECE);
    assert_int_equal(piece.piece, number);
    assert_int_equal(piece.n, n);
    for (int i = 0; i < piece.n; i++) {
        int64_t first;
        assert_int_equal(piece.parts[i].message.payload_bytes, PIECE * sizeof first);
        memcpy(&first, piece.parts[i].message.payload, sizeof first);
        all += first;
    }
    assert_int_equal(all, N_ITEMS * (N_ITEMS + 1) / 2 + N_ITEMS * number);
    ls__server_piece_release(&piece);
}

static void expect_done(struct ls_server *s)
{
    enum ls_server_event event;
    struct ls_server_push pushed;
    struct ls_server_piece piece;
    check_ok(ls__server_wait(s, &event, &pushed, &piece));
    assert_int_equal(event, LS_SERVER_DONE);
}

static void begin_round(struct ls_server *s, int64_t step, bool is_last)
{
    const struct ls_round round = {
        .step = step, .batch_n = N_ITEMS, .n_items = N_ITEMS, .item_n = 1, .last_n = 1, .is_last = is_last};
    check_ok(ls__server_publish(s, &parameters));
    check_ok(ls__server_begin(s, &round));
}

static void begin(struct ls_server *s, int64_t step)
{
    begin_round(s, step, false);
}

/* Two workers have all shards of step 0. */
static struct ls_server *open_two(struct played *a, struct played *b)
{
    static const struct ls_control control = {.is_stop_wanted = wants_to_stop};
    struct ls_server_options o = played_options(&pieces, PARAMETERS);
    o.control = &control;
    struct ls_server *s = played_open(&o);
    played_enter(s, a, -1, 1);
    played_enter(s, b, -1, 1);
    begin(s, 0);
    assert_int_equal(played_begin_work(s, a), PARAMETERS);
    assert_int_equal(played_begin_work(s, b), PARAMETERS);
    played_take_rest(s, a);
    played_take_rest(s, b);
    assert_int_equal(a->n_items + b->n_items, N_ITEMS);
    return s;
}

static void close_two(struct ls_server *s, struct played *a, struct played *b)
{
    played_go(a);
    played_go(b);
    played_close(&s);
}

/* --- */

static void test_one_behind_the_other(void **state)
{
    struct played a, b;
    struct ls_server *s = open_two(&a, &b);
    for (int i = 0; i < N_PIECES; i++) push(&a, i, N_PIECES, PIECE);
    push(&b, 0, N_PIECES, PIECE);
    expect_piece(s, 0, 2); /* and not before the other has it, but before the other has all */
    check_ok(ls__server_tell_ahead(s, 0, &parameters));
    push(&b, 1, N_PIECES, PIECE);
    push(&b, 2, N_PIECES, PIECE);
    expect_piece(s, 1, 2);
    check_ok(ls__server_tell_ahead(s, 1, &parameters));
    expect_piece(s, 2, 2);
    check_ok(ls__server_tell_ahead(s, 2, &parameters));
    expect_done(s);
    begin(s, 1);
    for (int i = 0; i < N_PIECES; i++) {
        assert_int_equal(played_hear(s, &a, LS_TALK_AHEAD), PARAMETERS);
        assert_int_equal(heard.ahead.piece, i);
        assert_int_equal(heard.ahead.version, a.version + 1);
    }
    assert_int_equal(played_begin_work(s, &a), 0); /* it has them */
    assert_true(heard.work.is_ahead && heard.work.has_parameters);
    close_two(s, &a, &b);
}

/* What is in stays in: its shards are computed again, and only what is behind is taken. */
static void test_death_between_pieces(void **state)
{
    struct played a, b;
    struct ls_server *s = open_two(&a, &b);
    push(&a, 0, N_PIECES, PIECE);
    push(&a, 1, N_PIECES, PIECE);
    for (int i = 0; i < N_PIECES; i++) push(&b, i, N_PIECES, PIECE);
    expect_piece(s, 0, 2);
    check_ok(ls__server_tell_ahead(s, 0, &parameters));
    expect_piece(s, 1, 2);
    const uint32_t n = a.n_items;
    played_go(&a);
    assert_int_equal(played_begin_work(s, &b), 0); /* with the parameters of before, which it has */
    assert_false(heard.work.is_ahead);
    played_take_rest(s, &b);
    assert_int_equal(b.n_items, n);
    for (int i = 0; i < N_PIECES; i++) push(&b, i, N_PIECES, PIECE);
    expect_piece(s, 2, 2);
    expect_done(s);
    begin(s, 1);
    assert_int_equal(played_begin_work(s, &b), PARAMETERS); /* not all went ahead */
    played_go(&b);
    played_close(&s);
}

/* Nobody needs what is behind the last step, or behind one in which the caller wants to stop. Who goes on nevertheless
 * gets it whole. */
static void test_nothing_behind_the_last(void **state)
{
    struct played a, b;
    struct ls_server *s = open_two(&a, &b);
    for (int64_t step = 0; step < 3; step++) {
        for (int i = 0; i < N_PIECES; i++) {
            is_stopping = step == 2 && i > 0;
            push(&a, i, N_PIECES, PIECE);
            push(&b, i, N_PIECES, PIECE);
            expect_piece(s, i, 2);
            check_ok(ls__server_tell_ahead(s, i, &parameters));
        }
        expect_done(s);
        a.n_ahead = b.n_ahead = 0;
        begin_round(s, step + 1, step == 0); /* step 1 is the last */
        const size_t want[] = {0, PARAMETERS, PARAMETERS}, pieces_want[] = {N_PIECES, 0, 1};
        assert_int_equal(played_begin_work(s, &a), want[step]);
        assert_int_equal(a.n_ahead, pieces_want[step]);
        assert_int_equal(played_begin_work(s, &b), want[step]);
        assert_int_equal(b.n_ahead, pieces_want[step]);
        played_take_rest(s, &a);
        played_take_rest(s, &b);
    }
    is_stopping = false;
    close_two(s, &a, &b);
}

/* Every one of these is void, and what its worker had goes out again. */
static void test_no_piece(void **state)
{
    struct played a, b;
    struct ls_server *s = open_two(&a, &b);
    for (int wrong = 0; wrong < 7; wrong++) {
        if (wrong == 0) push(&a, 2, N_PIECES, PIECE); /* the last without those before it */
        if (wrong == 1) {                             /* one is left out */
            push(&a, 0, N_PIECES, PIECE);
            push(&a, 2, N_PIECES, PIECE);
        }
        if (wrong == 2) { /* one comes twice */
            push(&a, 0, N_PIECES, PIECE);
            push(&a, 0, N_PIECES, PIECE);
            push(&a, 0, N_PIECES, PIECE);
            push(&a, 2, N_PIECES, PIECE);
        }
        if (wrong == 3) { /* too long, too short */
            push(&a, 0, N_PIECES, PIECE + 1);
            push(&a, 1, N_PIECES, PIECE - 1);
            push(&a, 2, N_PIECES, PIECE);
        }
        if (wrong == 4) /* another number of pieces */
            for (int i = 0; i < 4; i++) push(&a, i, 4, PIECE);
        if (wrong == 5) { /* of a shard that it does not have */
            a.items[0] = b.items[0];
            for (int i = 0; i < N_PIECES; i++) push(&a, i, N_PIECES, PIECE);
        }
        if (wrong == 6) push(&a, 0, 1, 0); /* what was given goes back */
        played_hear(s, &a, LS_TALK_ACK);
        played_begin_work(s, &a); /* the other one is busy: all of it again */
        played_take_rest(s, &a);
    }
    for (int i = 0; i < N_PIECES; i++) push(&a, i, N_PIECES, PIECE);
    for (int i = 0; i < N_PIECES; i++) push(&b, i, N_PIECES, PIECE);
    for (int i = 0; i < N_PIECES; i++) expect_piece(s, i, 2);
    expect_done(s);
    close_two(s, &a, &b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_behind_the_other),
        cmocka_unit_test(test_death_between_pieces),
        cmocka_unit_test(test_nothing_behind_the_last),
        cmocka_unit_test(test_no_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
