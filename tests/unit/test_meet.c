/* test_meet.c: ranks that find each other (src/comm/meet_join.c) hear the others in any order: connections are not
 * equally fast. */
#include "comm/meet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { N = 3, MASTER = 1000, PEER = 2000 };
static const uint64_t session = 77;

static void must(enum ls_status status)
{
    if (status != LS_OK) fail_msg("%s: %s", ls_status_name(status), ls_error_message());
}

/* A word from `peer`, whose rank and session it gives. */
static void hear(struct ls__meet *j, uint64_t peer, enum ls__meet_kind kind, uint32_t sender, uint64_t of)
{
    uint8_t head[256];
    struct ls_frame f = {.kind = (uint16_t)kind, .session = of, .sender = sender};
    struct ls_frame_reader body;
    size_t bytes;
    struct ls_frame_writer w = ls_frame_begin(head, sizeof head);
    must(ls_frame_end(&w, &f, &bytes));
    assert_true(ls_frame_read(head, bytes, 0, &f, &body));
    must(ls__meet_join_hear(j, peer, &f, &body));
}

/* Rank 1 of three, whose connections exist by name only: what it says is lost. */
struct node {
    struct ls__meet j;
    struct ls__meet_node nodes[N];
};

static void start(struct node *n)
{
    *n = (struct node){.j = {.config = {.rank = 1, .n = N}, .nodes = n->nodes}};
    n->nodes[0] = (struct ls__meet_node){.peer = MASTER, .is_known = true};
    must(ls_wire_listen(&n->j.wire, &(struct ls_wire_options){.address = "127.0.0.1:0"}));
}

static void met_after_welcome(void **state)
{
    struct node n;
    start(&n);
    hear(&n.j, MASTER, MEET_WELCOME, 0, session);
    hear(&n.j, PEER, MEET_MEET, 2, session);
    assert_true(n.nodes[2].is_met);
    assert_int_equal(n.nodes[2].peer, PEER);
    ls_wire_close(&n.j.wire, 0);
}

static void met_before_welcome(void **state)
{
    struct node n;
    start(&n);
    hear(&n.j, PEER, MEET_MEET, 2, session);
    assert_false(n.nodes[2].is_met);
    hear(&n.j, MASTER, MEET_WELCOME, 0, session);
    assert_true(n.nodes[2].is_met);
    assert_int_equal(n.nodes[2].peer, PEER);
    ls_wire_close(&n.j.wire, 0);
}

static void strangers_are_not_met(void **state)
{
    struct node n;
    start(&n);
    hear(&n.j, PEER, MEET_MEET, 2, session + 1); /* of another job */
    hear(&n.j, PEER, MEET_MEET, 1, session);     /* ourselves */
    hear(&n.j, PEER, MEET_MEET, N, session);
    hear(&n.j, MASTER, MEET_WELCOME, 0, session);
    hear(&n.j, PEER, MEET_MEET, 2, session + 1);
    assert_false(n.nodes[2].is_met);
    assert_false(n.nodes[1].is_met);
    hear(&n.j, PEER + 1, MEET_MEET, 2, session);
    assert_true(n.nodes[2].is_met);
    assert_int_equal(n.nodes[2].peer, PEER + 1);
    ls_wire_close(&n.j.wire, 0);
}

/* Another rank 0 is there: whom we met belonged to the one before, and comes again by another connection. */
static void another_rank_0(void **state)
{
    struct node n;
    start(&n);
    hear(&n.j, MASTER, MEET_WELCOME, 0, session);
    hear(&n.j, PEER, MEET_MEET, 2, session);
    hear(&n.j, MASTER, MEET_WELCOME, 0, session + 1);
    assert_false(n.nodes[2].is_met);
    hear(&n.j, PEER + 1, MEET_MEET, 2, session + 1);
    assert_true(n.nodes[2].is_met);
    assert_int_equal(n.nodes[2].peer, PEER + 1);
    ls_wire_close(&n.j.wire, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(met_after_welcome), cmocka_unit_test(met_before_welcome),
                                       cmocka_unit_test(strangers_are_not_met), cmocka_unit_test(another_rank_0)};
    if (ls_wire_load() != LS_OK) {
        puts("ZeroMQ is not installed");
        return 77;
    }
    return cmocka_run_group_tests_name("meet", tests, NULL, NULL);
}
