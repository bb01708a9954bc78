/* test_trace.c: self times add up to a lane's age whatever nests in what; rings keep the last spans, whole, while they
 * are written; the split of a run adds up.
 */
#include "base/clock.h"
#include "engine.h"
#include "trace/trace.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* A millisecond and more of the clock. */
static void spend(void)
{
    for (int64_t start = ls__now_ns(); ls__now_ns() - start < 1000000;) continue;
}

static int64_t age(const struct ls_lane *lane)
{
    struct ls_totals t;
    int64_t sum = 0;
    ls__lane_totals(lane, &t);
    for (int k = 0; k < LS_N_SPAN_KINDS; k++) sum += t.self_ns[k];
    return sum;
}

static void test_self_times_add_up(void **state)
{
    struct ls_trace *trace;
    struct ls_totals t;
    int64_t start = ls__now_ns();
    check_ok(ls__trace_create(&trace, start));
    struct ls_lane *lane = ls__trace_main(trace);
    struct ls_begun step = ls__span_begin(lane, LS_SPAN_STEP, "step", 0);
    spend();
    struct ls_begun load = ls__span_begin(lane, LS_SPAN_LOAD, "batch", 0);
    spend();
    int64_t load_ns = ls__span_end(lane, load);
    spend();
    struct ls_begun shard = ls__span_begin(lane, LS_SPAN_COMPUTE, "shard", 3);
    struct ls_begun op = ls__span_begin(lane, LS_SPAN_OP, "conv1", 7);
    spend();
    int64_t op_ns = ls__span_end(lane, op), shard_ns = ls__span_end(lane, shard), step_ns = ls__span_end(lane, step);
    ls__lane_totals(lane, &t);
    assert_int_equal(t.self_ns[LS_SPAN_LOAD], load_ns);
    assert_int_equal(t.self_ns[LS_SPAN_COMPUTE], shard_ns); /* its op is its own time */
    assert_int_equal(t.self_ns[LS_SPAN_OP], 0);
    assert_int_equal(t.whole_ns[LS_SPAN_OP], op_ns);
    assert_int_equal(t.self_ns[LS_SPAN_STEP], step_ns - load_ns - shard_ns);
    assert_int_equal(t.whole_ns[LS_SPAN_STEP], step_ns);
    assert_int_equal(t.n[LS_SPAN_STEP], 1);
    assert_true(load_ns >= 1000000 && t.self_ns[LS_SPAN_STEP] >= 2000000);
    assert_int_equal(age(lane), step.start_ns + step_ns - start);
    ls__trace_destroy(&trace);
    assert_null(trace);
}

static void test_outermost_wins(void **state)
{
    struct ls_trace *trace;
    struct ls_totals t;
    check_ok(ls__trace_create(&trace, ls__now_ns()));
    struct ls_lane *lane = ls__trace_main(trace);
    struct ls_begun all = ls__span_begin(lane, LS_SPAN_EVALUATE, "test", 0);
    struct ls_begun load = ls__span_begin(lane, LS_SPAN_LOAD, "batch", 0);
    spend();
    ls__span_end(lane, load);
    struct ls_begun step = ls__span_begin(lane, LS_SPAN_STEP, "step", 0); /* even one that would give its time */
    struct ls_begun wait = ls__span_begin(lane, LS_SPAN_COMMUNICATE, "sums", 0);
    spend();
    ls__span_end(lane, wait);
    ls__span_end(lane, step);
    int64_t ns = ls__span_end(lane, all);
    ls__lane_totals(lane, &t);
    assert_int_equal(t.self_ns[LS_SPAN_EVALUATE], ns);
    assert_int_equal(t.self_ns[LS_SPAN_LOAD] + t.self_ns[LS_SPAN_COMMUNICATE] + t.self_ns[LS_SPAN_STEP], 0);
    ls__trace_destroy(&trace);
}

static void test_a_wait_in_parts(void **state)
{
    enum { US = 1000 };
    const struct ls_span_part some[] = {
        {LS_SPAN_COMPUTE, "shards", 300 * US}, {LS_SPAN_COMMUNICATE, "sums", 200 * US}, {LS_SPAN_UPDATE, "updates", 0}};
    const struct ls_span_part all[] = {{LS_SPAN_COMMUNICATE, "sums", INT64_C(3600000000000)},
                                       {LS_SPAN_UPDATE, "updates", 400 * US}};
    struct ls_trace *trace;
    struct ls_totals t;
    struct ls_span spans[8];
    int64_t at = 0, n_lost = 0, start = ls__now_ns();
    check_ok(ls__trace_create(&trace, start));
    check_ok(ls__trace_listen(trace, 8, false));
    struct ls_lane *lane = ls__trace_main(trace);
    struct ls_begun step = ls__span_begin(lane, LS_SPAN_STEP, "step", 5), wait = step;
    wait = ls__span_begin(lane, LS_SPAN_LOAD, "wait", 5);
    spend();
    int64_t first_ns = ls__span_end_in_parts(lane, wait, some, 3);
    wait = ls__span_begin(lane, LS_SPAN_LOAD, "wait", 5);
    spend();
    int64_t second_ns = ls__span_end_in_parts(lane, wait, all, 2); /* longer than it was */
    int64_t step_ns = ls__span_end(lane, step);
    ls__lane_totals(lane, &t);
    assert_int_equal(t.self_ns[LS_SPAN_LOAD], first_ns - 500 * US);
    assert_int_equal(t.self_ns[LS_SPAN_COMPUTE], 300 * US);
    assert_int_equal(t.self_ns[LS_SPAN_COMMUNICATE], 200 * US + second_ns - 400 * US);
    assert_int_equal(t.self_ns[LS_SPAN_UPDATE], 400 * US);
    assert_int_equal(age(lane), step.start_ns + step_ns - start);
    assert_int_equal(ls__lane_read(lane, &at, spans, 8, &n_lost), 7);
    for (int i = 1; i < 6; i++) assert_true(spans[i].start_ns >= spans[i - 1].end_ns);
    for (int i = 0; i < 6; i++) assert_int_equal(spans[i].depth, 1);
    assert_string_equal(spans[2].name, "sums");
    assert_int_equal(spans[2].end_ns - spans[2].start_ns, 200 * US);
    assert_int_equal(spans[2].arg, 5);
    assert_true(ls__span_end_in_parts(NULL, wait, all, 2) >= second_ns); /* nobody measures */
    ls__trace_destroy(&trace);
}

static void test_forgotten_and_deep(void **state)
{
    enum { DEPTH = 40 };
    struct ls_trace *trace;
    struct ls_totals t;
    int64_t start = ls__now_ns();
    check_ok(ls__trace_create(&trace, start));
    struct ls_lane *lane = ls__trace_main(trace);
    struct ls_begun begun[DEPTH], outer = ls__span_begin(lane, LS_SPAN_STEP, "outer", 0);
    for (int i = 0; i < DEPTH; i++) begun[i] = ls__span_begin(lane, LS_SPAN_STEP, "deep", i);
    for (int i = DEPTH - 1; i > 20; i--) ls__span_end(lane, begun[i]);
    int64_t ns = ls__span_end(lane, outer); /* and with it the other 21 */
    ls__lane_totals(lane, &t);
    assert_int_equal(t.self_ns[LS_SPAN_STEP], ns);
    assert_int_equal(t.n[LS_SPAN_STEP], 16);
    assert_int_equal(age(lane), outer.start_ns + ns - start);
    ls__span_end(lane, begun[3]); /* ended already: nothing happens */
    ls__lane_totals(lane, &t);
    assert_int_equal(t.n[LS_SPAN_STEP], 16);
    ls__trace_destroy(&trace);
}

static void test_nobody_measures(void **state)
{
    struct ls_lane *lane = (struct ls_lane *)&state;
    struct ls_totals t;
    check_ok(ls__lane_take(NULL, "worker", &lane));
    assert_null(lane);
    assert_null(ls__trace_main(NULL));
    struct ls_begun begun = ls__op_begin(lane, LS_SPAN_COMPUTE, "shard", 0);
    spend();
    assert_true(ls__span_end(lane, begun) >= 1000000);
    ls__lane_totals(lane, &t);
    assert_int_equal(t.n[LS_SPAN_COMPUTE], 0);
    ls__lane_give_back(lane);
}

static void test_lanes_are_taken_again(void **state)
{
    struct ls_trace *trace;
    static const char *const names[] = {"main", "loader", "loader", "writer"};
    struct ls_lane *a, *b, *c;
    struct ls_totals t;
    check_ok(ls__trace_create(&trace, ls__now_ns()));
    check_ok(ls__lane_take(trace, "loader", &a));
    check_ok(ls__lane_take(trace, "loader", &b));
    assert_ptr_not_equal(a, b);
    assert_int_equal(ls__lane_number(a), 0);
    assert_int_equal(ls__lane_number(b), 1);
    ls__span_end(a, ls__span_begin(a, LS_SPAN_LOAD, "batch", 0));
    ls__lane_give_back(a);
    check_ok(ls__lane_take(trace, "writer", &c));
    assert_ptr_not_equal(a, c);
    check_ok(ls__lane_take(trace, "loader", &c));
    assert_ptr_equal(a, c);
    ls__lane_totals(c, &t);
    assert_int_equal(t.n[LS_SPAN_LOAD], 1);
    int n = 0;
    for (const struct ls_lane *l = NULL; (l = ls__trace_next_lane(trace, l)); n++)
        assert_string_equal(ls__lane_name(l), names[n]);
    assert_int_equal(n, 4);
    ls__trace_destroy(&trace);
}

static void test_ring_wraps_around(void **state)
{
    struct ls_trace *trace;
    struct ls_lane *late;
    struct ls_span out[16];
    int64_t at = 0, n_lost = 0;
    check_ok(ls__trace_create(&trace, ls__now_ns()));
    struct ls_lane *lane = ls__trace_main(trace);
    assert_int_equal(ls__lane_read(lane, &at, out, 16, &n_lost), 0); /* nobody listens yet */
    check_ok(ls__trace_listen(trace, 7, false));                     /* 8 slots */
    assert_int_equal(ls__trace_listen(trace, 7, false), LS_INTERNAL);
    for (int i = 0; i < 5; i++) ls__span_end(lane, ls__span_begin(lane, LS_SPAN_UPDATE, "sgd", i));
    assert_int_equal(ls__lane_read(lane, &at, out, 3, &n_lost), 3);
    assert_int_equal(out[2].arg, 2);
    for (int i = 5; i < 20; i++) ls__span_end(lane, ls__span_begin(lane, LS_SPAN_UPDATE, "sgd", i));
    assert_int_equal(ls__lane_read(lane, &at, out, 16, &n_lost), 8);
    assert_int_equal(n_lost, 9); /* 3 to 11 */
    for (int i = 0; i < 8; i++) {
        assert_int_equal(out[i].arg, 12 + i);
        assert_int_equal(out[i].kind, LS_SPAN_UPDATE);
        assert_string_equal(out[i].name, "sgd");
        assert_true(out[i].start_ns <= out[i].end_ns);
    }
    assert_int_equal(ls__lane_read(lane, &at, out, 16, &n_lost), 0);
    check_ok(ls__lane_take(trace, "late", &late)); /* listened to from its start */
    ls__span_end(late, ls__span_begin(late, LS_SPAN_WRITE, "checkpoint", 1));
    at = 0;
    assert_int_equal(ls__lane_read(late, &at, out, 16, &n_lost), 1);
    ls__trace_destroy(&trace);
}

/* A writer that never waits and a reader beside it: every span is read once, whole and in order, or counted as lost. */
enum { N_WRITTEN = 300000 };

struct stream {
    struct ls_lane *lane;
    atomic_bool is_done;
};

static void *write_spans(void *arg)
{
    static const char names[8][4] = {"0", "1", "2", "3", "4", "5", "6", "7"};
    struct stream *s = arg;
    for (int i = 0; i < N_WRITTEN; i++)
        ls__span_end(s->lane, ls__span_begin(s->lane, (enum ls_span_kind)(i % LS_N_SPAN_KINDS), names[i % 8], i));
    atomic_store(&s->is_done, true);
    return NULL;
}

static void test_two_threads(void **state)
{
    struct ls_trace *trace;
    struct stream s = {0};
    struct ls_span out[32];
    struct ls_totals t;
    int64_t at = 0, n_lost = 0, n_read = 0, last = -1, last_end = 0;
    pthread_t writer;
    check_ok(ls__trace_create(&trace, ls__now_ns()));
    check_ok(ls__trace_listen(trace, 64, false));
    check_ok(ls__lane_take(trace, "worker", &s.lane));
    assert_int_equal(pthread_create(&writer, NULL, write_spans, &s), 0);
    for (bool is_last = false; !is_last;) {
        is_last = atomic_load(&s.is_done);
        for (int n; (n = ls__lane_read(s.lane, &at, out, 32, &n_lost)) > 0; n_read += n)
            for (int i = 0; i < n; i++) {
                assert_true(out[i].arg > last);
                assert_int_equal(out[i].kind, out[i].arg % LS_N_SPAN_KINDS);
                assert_int_equal(out[i].name[0], '0' + out[i].arg % 8);
                assert_true(out[i].start_ns >= last_end && out[i].end_ns >= out[i].start_ns);
                last = out[i].arg;
                last_end = out[i].end_ns;
            }
        ls__lane_totals(s.lane, &t); /* may be read at any time */
    }
    pthread_join(writer, NULL);
    assert_int_equal(n_read + n_lost, N_WRITTEN);
    assert_int_equal(last, N_WRITTEN - 1);
    ls__trace_destroy(&trace);
}

static void test_ops(void **state)
{
    struct ls_trace *trace;
    check_ok(ls__trace_create(&trace, ls__now_ns()));
    struct ls_lane *lane = ls__trace_main(trace);
    assert_false(ls__lane_wants_ops(lane));
    check_ok(ls__lane_measure_ops(lane, 2));
    assert_true(ls__lane_wants_ops(lane));
    for (int op = 1; op < 4; op++) { /* 2 and 3 are not measured */
        struct ls_begun begun = ls__op_begin(lane, LS_SPAN_OP, "op", op);
        spend();
        ls__span_end(lane, begun);
    }
    int64_t ns = ls__lane_op_ns(lane, 1);
    assert_true(ns > 0);
    assert_int_equal(ls__lane_op_ns(lane, 0) + ls__lane_op_ns(lane, 2) + ls__lane_op_ns(lane, -1), 0);
    ls__lane_hold_ops(lane, true);
    assert_false(ls__lane_wants_ops(lane));
    struct ls_begun held = ls__op_begin(lane, LS_SPAN_OP, "op", 1);
    spend();
    ls__span_end(lane, held);
    assert_int_equal(ls__lane_op_ns(lane, 1), ns);
    ls__lane_hold_ops(lane, false);
    check_ok(ls__lane_measure_ops(lane, 5)); /* a plan that came later */
    assert_int_equal(ls__lane_op_ns(lane, 1), ns);
    ls__lane_forget_ops(lane);
    assert_false(ls__lane_wants_ops(lane));
    assert_int_equal(ls__lane_op_ns(lane, 1), 0);
    check_ok(ls__trace_listen(trace, 8, true));
    assert_true(ls__lane_wants_ops(lane));
    ls__trace_destroy(&trace);
}

static double sum(const struct ls_time_split *s)
{
    return s->setup + s->load + s->compute + s->update + s->communicate + s->wait + s->checkpoint + s->evaluate +
           s->other;
}

static void test_split(void **state)
{
    struct ls_trace *trace;
    struct ls_lane *worker;
    check_ok(ls__trace_create(&trace, ls__now_ns() - 5000000));
    struct ls_lane *lane = ls__trace_main(trace);
    check_ok(ls__lane_take(trace, "worker", &worker));
    struct ls_begun step = ls__span_begin(lane, LS_SPAN_STEP, "step", 0);
    struct ls_begun shard = ls__span_begin(worker, LS_SPAN_COMPUTE, "shard", 0);
    spend();
    int64_t shard_ns = ls__span_end(worker, shard), step_ns = ls__span_end(lane, step);
    struct ls_time_split split = ls__trace_split(trace, 2);
    assert_true(fabs(split.compute - 0.5e-9 * (double)shard_ns) < 1e-9); /* the other thread idled */
    assert_true(fabs(split.wait - 1e-9 * ((double)step_ns - 0.5 * (double)shard_ns)) < 1e-9);
    assert_true(split.other >= 0.005);
    assert_true(fabs(sum(&split) - 1e-9 * (double)age(lane)) < 1e-9);
    /* More work than time: it never becomes a negative wait. */
    split = ls__trace_split(trace, 1);
    assert_true(split.wait >= 0 && fabs(sum(&split) - 1e-9 * (double)age(lane)) < 1e-9);
    shard = ls__span_begin(worker, LS_SPAN_UPDATE, "sgd", 0);
    spend();
    int64_t update_ns = ls__span_end(worker, shard);
    split = ls__trace_split(trace, 1);
    assert_true(split.wait >= 0);
    assert_true(fabs(split.update / split.compute - (double)update_ns / (double)shard_ns) < 1e-6);
    assert_true(fabs(sum(&split) - 1e-9 * (double)age(lane)) < 1e-9);
    ls__trace_destroy(&trace);
}

static void test_hidden_is_beside_the_parts(void **state)
{
    struct ls_trace *trace;
    struct ls_lane *lane;
    check_ok(ls__trace_create(&trace, ls__now_ns()));
    check_ok(ls__lane_take(trace, "communication", &lane));
    struct ls_begun travel = ls__span_begin(lane, LS_SPAN_SUM, "sums", 0);
    spend();
    struct ls_begun awaited = ls__span_begin(lane, LS_SPAN_COMMUNICATE, "awaited", 0);
    spend();
    int64_t awaited_ns = ls__span_end(lane, awaited), travel_ns = ls__span_end(lane, travel);
    struct ls_time_split split = ls__trace_split(trace, 1);
    assert_true(fabs(split.hidden - 1e-9 * (double)(travel_ns - awaited_ns)) < 1e-9);
    assert_true(split.communicate == 0); /* the main lane's alone */
    /* A thread that never ended may still write. */
    ls__lane_abandon(lane);
    ls__trace_destroy(&trace);
    assert_null(trace);
    travel = ls__span_begin(lane, LS_SPAN_SUM, "sums", 1);
    assert_true(ls__span_end(lane, travel) >= 0);
    assert_string_equal(ls__lane_name(lane), "communication");
    static struct ls_lane *volatile kept; /* reachable, for who looks for leaks */
    kept = lane;
    assert_non_null(kept);
}

static void test_kinds_have_names(void **state)
{
    for (int k = 0; k < LS_N_SPAN_KINDS; k++) assert_true(strlen(ls__span_kind_name((enum ls_span_kind)k)) > 1);
    assert_string_equal(ls__span_kind_name(LS_SPAN_SUM), "sum");
    assert_string_equal(ls__span_kind_name(LS_N_SPAN_KINDS), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_self_times_add_up),
        cmocka_unit_test(test_outermost_wins),
        cmocka_unit_test(test_a_wait_in_parts),
        cmocka_unit_test(test_forgotten_and_deep),
        cmocka_unit_test(test_nobody_measures),
        cmocka_unit_test(test_lanes_are_taken_again),
        cmocka_unit_test(test_ring_wraps_around),
        cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_ops),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_hidden_is_beside_the_parts),
        cmocka_unit_test(test_kinds_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
