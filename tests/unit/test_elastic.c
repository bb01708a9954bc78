/* test_elastic.c: what server and workers say to each other, read back field by field, cut short and too long; the
 * memory they share; sums as they travel. */
#include "elastic/box.h"
#include "elastic/split.h"
#include "elastic/sums.h"
#include "elastic/talk.h"
#include "engine.h"

#include <math.h>
#include <unistd.h>

/* --- messages --- */

static uint8_t head[LS_TALK_HEAD_BYTES];

/* Writes and reads a message; whatever is missing at its end or stands behind it makes it none. */
static void there_and_back(enum ls_talk_kind kind, const void *body, union ls_talk_body *out)
{
    const struct ls_frame frame = {.session = 77, .step = 5, .sender = 3, .sequence = 9};
    struct ls_frame f;
    struct ls_frame_reader r;
    size_t bytes;
    check_ok(ls__talk_write(head, sizeof head, frame, kind, body, &bytes));
    assert_true(ls_frame_read(head, bytes, 0, &f, &r));
    struct ls_frame_reader shorter = r, longer = r;
    if (r.size > r.at) {
        shorter.size--;
        assert_false(ls__talk_read(&f, &shorter, out));
    }
    longer.size++; /* still within head */
    assert_false(ls__talk_read(&f, &longer, out));
    memset(out, 0xa5, sizeof *out);
    assert_true(ls__talk_read(&f, &r, out));
    assert_int_equal(f.kind, kind);
    assert_int_equal(f.step, 5);
}

static void test_who_comes(void **state)
{
    union ls_talk_body b;
    const struct ls_talk_join join = {.ticket = "t", .version = "1.2", .host = "h", .pid = 4, .threads = 2, .slot = -1};
    there_and_back(LS_TALK_JOIN, &join, &b);
    assert_string_equal(b.join.ticket, "t");
    assert_string_equal(b.join.host, "h");
    assert_int_equal(b.join.slot, -1);
    const struct ls_talk_welcome welcome = {.worker = 1,
                                            .lease = 5,
                                            .timeout = 60,
                                            .box_pid = 12,
                                            .box_fd = 34,
                                            .n_pieces = 5,
                                            .options = (const uint8_t *)"{}",
                                            .options_bytes = 2,
                                            .model = (const uint8_t *)"abc",
                                            .model_bytes = 3};
    there_and_back(LS_TALK_WELCOME, &welcome, &b);
    assert_int_equal(b.welcome.box_pid, 12);
    assert_int_equal(b.welcome.box_fd, 34);
    assert_int_equal(b.welcome.n_pieces, 5);
    assert_int_equal(b.welcome.model_bytes, 3);
    assert_memory_equal(b.welcome.model, "abc", 3);
    for (int i = 0; i < 2; i++) {
        const struct ls_talk_ready ready = {.n_sums = 7, .parameters_bytes = 8, .threads = 5, .is_boxed = i};
        there_and_back(LS_TALK_READY, &ready, &b);
        assert_int_equal(b.ready.parameters_bytes, 8);
        assert_int_equal(b.ready.threads, 5);
        assert_int_equal(b.ready.is_boxed, i);
    }
}

static void test_work_and_push(void **state)
{
    union ls_talk_body b;
    struct ls_talk_work work = {.epoch = 1, .batch = 2, .version = 3, .counted = 4, .batch_n = 5, .boxed = 6};
    work.n_items = 2;
    work.items[1] = 99;
    for (int flags = 0; flags < 32; flags++) {
        work.is_last = flags & 1;
        work.has_parameters = flags & 2;
        work.is_whole = flags & 4;
        work.is_boxed = flags & 8;
        work.is_ahead = flags & 16;
        there_and_back(LS_TALK_WORK, &work, &b);
        assert_int_equal(b.work.is_last, work.is_last);
        assert_int_equal(b.work.has_parameters, work.has_parameters);
        assert_int_equal(b.work.is_whole, work.is_whole);
        assert_int_equal(b.work.is_boxed, work.is_boxed);
        assert_int_equal(b.work.is_ahead, work.is_ahead);
    }
    assert_int_equal(b.work.counted, 4);
    assert_int_equal(b.work.boxed, 6);
    assert_int_equal(b.work.n_items, 2);
    assert_int_equal(b.work.items[1], 99);
    struct ls_talk_push push = {.version = 3, .form = LS_SUMS_BOXED, .compute_seconds = 0.5, .wait_seconds = 0.25};
    push.acknowledged = 12;
    push.piece = 2;
    push.n_pieces = 3;
    push.n_items = 1;
    push.items[0] = 7;
    there_and_back(LS_TALK_PUSH, &push, &b);
    assert_int_equal(b.push.form, LS_SUMS_BOXED);
    assert_true(b.push.wait_seconds == 0.25);
    assert_int_equal(b.push.items[0], 7);
    assert_int_equal(b.push.acknowledged, 12);
    assert_int_equal(b.push.piece, 2);
    assert_int_equal(b.push.n_pieces, 3);
    const struct ls_talk_ahead ahead = {.version = 6, .piece = LS_MAX_PIECES - 1};
    there_and_back(LS_TALK_AHEAD, &ahead, &b);
    assert_int_equal(b.ahead.version, 6);
    assert_int_equal(b.ahead.piece, LS_MAX_PIECES - 1);
    const struct ls_talk_ack ack = {.push = 11};
    there_and_back(LS_TALK_ACK, &ack, &b);
    assert_int_equal(b.ack.push, 11);
    const struct ls_talk_end end = {.status = LS_REMOTE, .text = "why", .counted = 13};
    there_and_back(LS_TALK_OVER, &end, &b);
    assert_string_equal(b.end.text, "why");
    assert_int_equal(b.end.counted, 13);
}

/* --- the box --- */

static void test_box(void **state)
{
    struct ls_box *mine, *theirs;
    const struct ls_box_size size = {.token = 42, .n_sums = 1001, .parameters_bytes = 5000};
    struct ls_box_size other = size;
    check_ok(ls__box_create(&mine, &size));
    check_ok(ls__box_open(&theirs, &size, (uint32_t)getpid(), ls__box_fd(mine)));
    for (int slot = 0; slot < LS_BOX_SLOTS; slot += LS_BOX_SLOTS - 1)
        for (int i = 0; i < 1001; i++) ls__box_sums(theirs, slot)[i] = 1000 * slot + i;
    for (int v = 0; v < LS_BOX_VERSIONS; v += LS_BOX_VERSIONS - 1) memset(ls__box_parameters(mine, v), v + 1, 5000);
    assert_int_equal(ls__box_sums(mine, 0)[1000], 1000);
    assert_int_equal(ls__box_sums(mine, LS_BOX_SLOTS - 1)[0], 1000 * (LS_BOX_SLOTS - 1));
    assert_int_equal(ls__box_parameters(theirs, 0)[4999], 1);
    assert_int_equal(ls__box_parameters(theirs, LS_BOX_VERSIONS - 1)[0], LS_BOX_VERSIONS);
    assert_null(ls__box_sums(mine, -1));
    assert_null(ls__box_sums(mine, LS_BOX_SLOTS));
    assert_null(ls__box_parameters(mine, LS_BOX_VERSIONS));
    ls__box_close(&theirs);
    other.token = 43;
    assert_int_equal(ls__box_open(&theirs, &other, (uint32_t)getpid(), ls__box_fd(mine)), LS_IO);
    other = size;
    other.n_sums++;
    assert_int_equal(ls__box_open(&theirs, &other, (uint32_t)getpid(), ls__box_fd(mine)), LS_IO);
    assert_int_equal(ls__box_open(&theirs, &size, (uint32_t)getpid(), 9999), LS_IO);
    assert_null(theirs);
    ls__box_close(&mine);
    ls__box_close(&mine);
}

/* What the servers of one training say to each other, and workers to them. */
static void test_several_servers(void **state)
{
    union ls_talk_body b;
    const struct ls_talk_join join = {.version = "1", .host = "h", .slot = 3, .serves = "10.0.0.1:4712"};
    there_and_back(LS_TALK_JOIN, &join, &b);
    assert_string_equal(b.join.serves, "10.0.0.1:4712");
    const struct ls_talk_places places = {.n = 2, .addresses = {"127.0.0.1:5", "[::1]:6"}};
    there_and_back(LS_TALK_PLACES, &places, &b);
    assert_int_equal(b.places.n, 2);
    assert_string_equal(b.places.addresses[1], "[::1]:6");
    const struct ls_talk_state s = {.version = 3, .bytes_sent = 4, .bytes_received = 5};
    there_and_back(LS_TALK_STATE, &s, &b);
    assert_int_equal(b.state.bytes_received, 5);
    const struct ls_talk_apply apply = {
        .version = 4, .epoch = 1, .lr = 0.05, .batch_n = 64, .pushes = {0, 7, 1, 9}, .n_pushes = 4};
    there_and_back(LS_TALK_APPLY, &apply, &b);
    assert_int_equal(b.apply.n_pushes, 4);
    assert_int_equal(b.apply.pushes[3], 9);
    assert_true(b.apply.lr == 0.05);
    const struct ls_talk_version version = {6};
    for (int kind = LS_TALK_COLLECT; kind <= LS_TALK_PART; kind++) {
        there_and_back((enum ls_talk_kind)kind, &version, &b);
        assert_int_equal(b.version.version, 6);
    }
    const struct ls_talk_try try = {.number = 9, .bytes_back = LS_TALK_MAX_TRIED, .seconds = 0.5};
    there_and_back(LS_TALK_TRY, &try, &b);
    assert_int_equal(b.try.bytes_back, LS_TALK_MAX_TRIED);
    assert_true(b.try.number == 9 && b.try.seconds == 0.5);
    const struct ls_talk_tried tried = {9, 2, 3, .pre_seconds = 1, .shard_seconds = 2, .join_seconds = 3};
    there_and_back(LS_TALK_TRIED, &tried, &b);
    assert_true(b.tried.number == 9 && b.tried.threads == 2 && b.tried.n_run == 3 && b.tried.join_seconds == 3);
    const struct ls_talk_ack held = {.push = 8};
    there_and_back(LS_TALK_HELD, &held, &b);
    assert_int_equal(b.ack.push, 8);
}

static bool is_read(enum ls_talk_kind kind, const void *body)
{
    union ls_talk_body b;
    struct ls_frame f;
    struct ls_frame_reader r;
    size_t bytes;
    check_ok(ls__talk_write(head, sizeof head, (struct ls_frame){.sequence = 1}, kind, body, &bytes));
    return ls_frame_read(head, bytes, 0, &f, &r) && ls__talk_read(&f, &r, &b);
}

/* Numbers that arithmetic would choke on. */
static void test_bad_numbers(void **state)
{
    struct ls_talk_apply apply = {.lr = 0.1, .batch_n = 8, .n_pushes = 2};
    assert_true(is_read(LS_TALK_APPLY, &apply));
    apply.n_pushes = 3;
    assert_false(is_read(LS_TALK_APPLY, &apply));
    apply = (struct ls_talk_apply){.lr = (double)NAN, .batch_n = 8};
    assert_false(is_read(LS_TALK_APPLY, &apply));
    apply = (struct ls_talk_apply){.lr = 0.1, .batch_n = 0};
    assert_false(is_read(LS_TALK_APPLY, &apply));
    struct ls_talk_welcome welcome = {
        .lease = 1, .timeout = 1, .server = LS_MAX_SERVERS - 1, .n_pieces = LS_MAX_PIECES};
    assert_true(is_read(LS_TALK_WELCOME, &welcome));
    welcome.server = LS_MAX_SERVERS;
    assert_false(is_read(LS_TALK_WELCOME, &welcome));
    welcome.server = 0;
    welcome.n_pieces = LS_MAX_PIECES + 1;
    assert_false(is_read(LS_TALK_WELCOME, &welcome));
    struct ls_talk_push push = {.piece = 0, .n_pieces = 0};
    assert_false(is_read(LS_TALK_PUSH, &push));
    push = (struct ls_talk_push){.piece = 3, .n_pieces = 3};
    assert_false(is_read(LS_TALK_PUSH, &push));
    push = (struct ls_talk_push){.piece = 3, .n_pieces = LS_MAX_PIECES + 1};
    assert_false(is_read(LS_TALK_PUSH, &push));
    assert_false(is_read(LS_TALK_AHEAD, &(struct ls_talk_ahead){.piece = LS_MAX_PIECES}));
    struct ls_talk_try try = {.bytes_back = LS_TALK_MAX_TRIED + 1};
    assert_false(is_read(LS_TALK_TRY, &try));
    try = (struct ls_talk_try){.seconds = (double)INFINITY};
    assert_false(is_read(LS_TALK_TRY, &try));
    struct ls_talk_tried tried = {.threads = 1, .n_run = 1, .shard_seconds = 1};
    assert_true(is_read(LS_TALK_TRIED, &tried));
    tried.shard_seconds = (double)NAN;
    assert_false(is_read(LS_TALK_TRIED, &tried));
}

/* Every sum has one server, the first begins with the loss, and all have the same share but for a cut's width. */
static void test_split(void **state)
{
    struct rig r;
    struct ls_sum_split split;
    int64_t n;
    rig_open(&r, "ref", "model m\ninput any\nconv c 4 3\nbn b\nrelu\nflatten\nlinear f 30\nrelu\nlinear g classes\n",
             &(struct rig_options){.threads = 1, .hw = 9, .batch_size = 8, .optim = {.momentum = 0.9}});
    rig_plan(&r, 8, true);
    ls_exec_sums(r.exec, &n);
    for (int k = 1; k <= n / 256 && k <= LS_MAX_SERVERS; k++) {
        int64_t at = 0;
        check_ok(ls__split_make(&split, r.exec, k));
        for (int i = 0; i < k; i++) {
            assert_int_equal(split.ranges[i].begin, at);
            at = split.ranges[i].end;
            assert_in_range(at - split.ranges[i].begin, n / k - 32, n / k + 32 + n % k);
        }
        assert_int_equal(at, n);
    }
    assert_true(n / 256 >= 3);
    check_fails(ls__split_make(&split, r.exec, (int)(n / 256 + 1)), LS_USAGE, "enough for");
    check_fails(ls__split_make(&split, r.exec, LS_MAX_SERVERS + 1), LS_USAGE, "at most 64");
    rig_close(&r);
}

/* --- sums --- */

enum { BATCH = 24, SHARD = 8 };
static const char text[] = "model small\ninput any\nflatten\nlinear fc1 300\nrelu\nlinear fc2 classes\n";

static void open_one(struct rig *r)
{
    rig_open(r, "ref", text, &(struct rig_options){.threads = 2, .hw = 12});
    rig_plan(r, SHARD, true);
    check_ok(ls_exec_init_store(r->exec, 3));
}

/* Numbers of all sizes, also those that packing finds hard. */
static int64_t made_up(int64_t i)
{
    const int64_t x = (int64_t)((uint64_t)i * 0x9e3779b97f4a7c15u);
    return i % 5 == 0 ? 0 : x >> (i % 50 + 10);
}

/* What one executor writes another adds, in any range and form; what was written is zero; nothing else is touched. */
static void test_sums(void **state)
{
    struct rig a, b;
    int64_t n;
    open_one(&a);
    open_one(&b);
    int64_t *from = ls_exec_sums(a.exec, &n), *to = ls_exec_sums(b.exec, &n);
    assert_true(n > 2 * LS_SUMS_PIECE);
    for (int form = 0; form < LS_N_SUMS_FORMS; form++) {
        const struct ls_sum_range range = {form ? 1000 : 0, form ? n - 7 : n};
        const int64_t count = range.end - range.begin;
        uint8_t *out = malloc(ls__sums_bound((enum ls_sums_form)form, count));
        size_t bytes;
        assert_non_null(out);
        for (int64_t i = 0; i < n; i++) from[i] = made_up(i), to[i] = i;
        check_ok(ls__sums_write(a.exec, range, (enum ls_sums_form)form, out, &bytes));
        assert_true(bytes <= ls__sums_bound((enum ls_sums_form)form, count));
        assert_true(ls__sums_are_whole((enum ls_sums_form)form, out, bytes, count));
        assert_false(ls__sums_are_whole((enum ls_sums_form)form, out, bytes - 1, count));
        assert_false(ls__sums_are_whole((enum ls_sums_form)form, out, bytes, count + 1));
        check_ok(ls__sums_add(b.exec, range, (enum ls_sums_form)form, out, bytes));
        for (int64_t i = 0; i < n; i++) {
            const bool is_in = i >= range.begin && i < range.end;
            if (from[i] != (is_in ? 0 : made_up(i))) fail_msg("sum %lld is left there", (long long)i);
            if (to[i] != i + (is_in ? made_up(i) : 0)) fail_msg("sum %lld is wrong", (long long)i);
        }
        free(out);
    }
    assert_false(ls__sums_are_whole(LS_SUMS_BOXED, (const uint8_t *)from, (size_t)n * 8, n)); /* never as bytes */
    rig_close(&a);
    rig_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_comes),
        cmocka_unit_test(test_work_and_push),
        cmocka_unit_test(test_several_servers),
        cmocka_unit_test(test_bad_numbers),
        cmocka_unit_test(test_box),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
