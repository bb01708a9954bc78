/* test_comm_ways.c: who sends what to whom (comm/ring.c, doubling.c): played through for any number of machines, every
 * machine ends with the sum, what is sent is what is expected there, and no message is larger than there is room for.
 */
#include "comm/comm_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_MACHINES = 40, MAX_N = 1 << 14, MAX_WAITING = 4 };

static const struct ls__sum_way *const ways[] = {&ls__sum_ring, &ls__sum_doubling};

/* A message from one machine to another; those of a pair arrive in order. */
struct message {
    int64_t n, *data;
};

struct wire {
    struct message waiting[MAX_WAITING];
    int n_waiting;
};

struct machine {
    int64_t *block;
    int hop, n_hops;
    bool has_sent;
    int64_t n_sent; /* numbers */
};

static struct wire wires[MAX_MACHINES][MAX_MACHINES];
static struct machine machines[MAX_MACHINES];

static void send_out(const struct ls__sum_hop *h, int from)
{
    struct wire *w = &wires[from][h->to];
    struct message m = {.n = h->out_end - h->out_begin};
    assert_true(h->out_begin >= 0 && m.n >= 0 && m.n <= SUM_MOST_NEAR + 1);
    assert_true(w->n_waiting < MAX_WAITING);
    m.data = malloc((size_t)m.n * sizeof *m.data + 1);
    memcpy(m.data, machines[from].block + h->out_begin, (size_t)m.n * sizeof *m.data);
    w->waiting[w->n_waiting++] = m;
    machines[from].n_sent += m.n;
}

static bool take_in(const struct ls__sum_hop *h, int to)
{
    struct wire *w = &wires[h->from][to];
    if (w->n_waiting == 0) return false;
    struct message m = w->waiting[0];
    assert_int_equal(m.n, h->in_end - h->in_begin);
    for (int64_t i = 0; i < m.n; i++) {
        int64_t *x = &machines[to].block[h->in_begin + i];
        *x = h->add ? *x + m.data[i] : m.data[i];
    }
    free(m.data);
    memmove(w->waiting, w->waiting + 1, (size_t)--w->n_waiting * sizeof m);
    return true;
}

/* One machine as far as it gets; whether it moved. */
static bool advance(const struct ls__sum_way *way, int64_t n, int m, int p)
{
    struct machine *at = &machines[m];
    if (at->hop == at->n_hops) return false;
    const struct ls__sum_hop h = way->hop(n, m, p, at->hop);
    bool has_moved = !at->has_sent;
    assert_true(h.to != m && h.from != m && h.to < p && h.from < p);
    if (!at->has_sent && h.to >= 0) send_out(&h, m);
    at->has_sent = true;
    if (h.from >= 0 && !take_in(&h, m)) return has_moved;
    at->hop++;
    at->has_sent = false;
    return true;
}

static void play(const struct ls__sum_way *way, int64_t n, int p)
{
    for (int m = 0; m < p; m++) {
        machines[m] =
            (struct machine){.n_hops = way->n_hops(n, m, p), .block = malloc((size_t)n * sizeof(int64_t) + 1)};
        for (int64_t i = 0; i < n; i++) machines[m].block[i] = i * 1000 + m + 1;
    }
    for (bool has_moved = true; has_moved;) {
        has_moved = false;
        for (int m = p - 1; m >= 0; m--) has_moved |= advance(way, n, m, p); /* any order */
    }
    for (int m = 0; m < p; m++) {
        if (machines[m].hop != machines[m].n_hops)
            fail_msg("%s, %d machines, %lld numbers: machine %d waits for ever in hop %d", way->name, p, (long long)n,
                     m, machines[m].hop);
        for (int64_t i = 0; i < n; i++)
            if (machines[m].block[i] != p * i * 1000 + (int64_t)p * (p + 1) / 2)
                fail_msg("%s, %d machines: number %lld of %lld on machine %d is wrong", way->name, p, (long long)i,
                         (long long)n, m);
        free(machines[m].block);
    }
    for (int a = 0; a < p; a++)
        for (int b = 0; b < p; b++) assert_int_equal(wires[a][b].n_waiting, 0);
}

static void test_all_get_the_sum(void **state)
{
    const int64_t sizes[] = {1, 2, 3, 7, 8, 16, 37, 2048, 2049, 5000};
    for (size_t w = 0; w < 2; w++)
        for (int p = 2; p <= MAX_MACHINES; p++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
                if (p <= 9 || i < 8) play(ways[w], sizes[i], p);
}

/* A chunk's largest message is as large as the buffers are. */
static void test_messages_fit(void **state)
{
    for (size_t w = 0; w < 2; w++)
        for (int p = 2; p <= 1024; p = p < 70 ? p + 1 : 2 * p)
            for (int64_t bucket = 1; bucket < 1 << 26; bucket = bucket * 3 + 1)
                for (int is_near = 0; is_near < 2; is_near++) {
                    int64_t n = ways[w]->chunk(bucket, p, is_near);
                    assert_true(n > 0);
                    if (n > bucket) n = bucket;
                    int hops = ways[w]->n_hops(n, 0, p);
                    for (int h = 0; h < hops; h++) {
                        const struct ls__sum_hop hop = ways[w]->hop(n, 0, p, h);
                        const int64_t most = (is_near ? SUM_MOST_NEAR : SUM_MOST) + 1;
                        assert_true(hop.out_end - hop.out_begin <= most && hop.in_end - hop.in_begin <= most);
                    }
                }
}

/* Few numbers and many machines: as many messages after each other as the logarithm says; else no more bytes than the
 * ring's. */
static void test_routes(void **state)
{
    for (int p = 4; p <= 1024; p *= 2) {
        int levels = 0;
        while (1 << levels < p) levels++;
        struct ls_comm_route few = ls_comm_route(100, p, false, NULL), some = ls_comm_route(60000, p, false, NULL),
                             ring = ls_comm_route(60000, p, false, "ring"),
                             large = ls_comm_route(1 << 24, p, false, NULL);
        assert_string_equal(few.way, "doubling");
        assert_int_equal(few.n_hops, levels);
        assert_string_equal(some.way, "doubling");
        assert_int_equal(some.n_hops, 2 * levels);
        assert_true(some.volume < ring.volume * 1.001 + 0.01);
        assert_string_equal(large.way, "ring");
        assert_int_equal(large.n_hops, 2 * (p - 1));
    }
    assert_string_equal(ls_comm_route(60000, 6, false, NULL).way, "ring"); /* those beyond four would send everything */
    assert_string_equal(ls_comm_route(60000, 48, false, NULL).way, "doubling"); /* 94 messages after each other */
    assert_string_equal(ls_comm_route(20, 6, false, NULL).way, "doubling");
    assert_int_equal(ls_comm_route(60000, 2, false, NULL).n_hops, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_get_the_sum),
        cmocka_unit_test(test_messages_fit),
        cmocka_unit_test(test_routes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
