/* test_history.c: run directories as they are found: growing, cut, resumed, half written, hostile. */
#include "history/history.h"
#include "history/internal.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[256];

static void put(const char *name, const char *text, int flags)
{
    char path[2048];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | flags, 0666);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static int setup(void **state)
{
    snprintf(dir, sizeof dir, "%s/history-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    return mkdtemp(dir) ? 0 : 1;
}

static int teardown(void **state)
{
    char command[400];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

static struct ls_history *opened(void)
{
    struct ls_history *h;
    if (ls_history_open(&h, dir) != LS_OK) fail_msg("%s", ls_error_message());
    return h;
}

static void expect_number(const char *text, double expected)
{
    double got = NAN;
    const char *end = ls__scan_number(text, text + strlen(text), &got);
    if (!end || (got != expected && !(isnan(got) && isnan(expected)))) fail_msg("%s: got %.17g", text, got);
}

static void test_numbers(void **state)
{
    static const char *const bad[] = {"", "-", ".5", "e3", "1e", "1e+", "x"};
    expect_number("0", 0);
    expect_number("-12.5", -12.5);
    expect_number("2.22098025", 2.22098025);
    expect_number("6.23191302e-8", 6.23191302e-8);
    expect_number("123456789012345678901234567890", 123456789012345678901234567890.0);
    expect_number("0.1234567890123456789", 0.1234567890123456789);
    expect_number("1e300", 1e300);
    expect_number("5e-324", 5e-324);
    expect_number("1e999", NAN);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        double v;
        if (ls__scan_number(bad[i], bad[i] + strlen(bad[i]), &v)) fail_msg("'%s' is a number", bad[i]);
    }
}

static void test_objects(void **state)
{
    struct ls_pair pairs[8];
    const char *line =
        "{\"step\": 5, \"split\": \"tr\\\"ain\", \"x\": [1, {\"y\": \"}\"}], \"z\": null, \"ok\": true, \"w\": -1}";
    assert_int_equal(ls__scan_object(line, strlen(line), pairs, 8), 4);
    assert_true(pairs[0].number == 5 && pairs[1].text_len == 7 && isnan(pairs[2].number) && pairs[3].number == -1);
    for (size_t n = 0; n < strlen(line); n++) assert_int_equal(ls__scan_object(line, n, pairs, 8), -1); /* half lines */
}

/* What grows is read on; half a line waits; a resume that cut the file is noticed even if it is longer again. */
static void test_growing(void **state)
{
    bool has_changed;
    put("manifest.json", "{\"model\": \"lenet5\", \"options\": {\"seed\": 7}}", O_TRUNC);
    put("metrics.jsonl", "{\"step\": 1, \"split\": \"train\", \"loss\": 3}\n{\"step\": 2, \"split\": \"tr", O_TRUNC);
    struct ls_history *h = opened();
    assert_int_equal(ls_history_curve(h, "train")->n, 1);
    assert_true(ls_history_number(h, "options.seed") == 7);
    assert_string_equal(ls_history_text(h, "model"), "lenet5");
    put("metrics.jsonl", "ain\", \"loss\": 2, \"new\": 9}\n", O_APPEND);
    assert_int_equal(ls_history_refresh(h, &has_changed), LS_OK);
    assert_true(has_changed);
    const struct ls_curve *c = ls_history_curve(h, "train");
    assert_int_equal(c->n, 2);
    assert_true(ls_curve_values(c, "loss")[1] == 2 && isnan(ls_curve_values(c, "new")[0]) &&
                ls_curve_values(c, "new")[1] == 9);
    assert_int_equal(ls_history_refresh(h, &has_changed), LS_OK);
    assert_false(has_changed);
    put("metrics.jsonl",
        "{\"step\": 1, \"split\": \"train\", \"loss\": 3}\n{\"step\": 2, \"split\": \"train\", \"loss\": 5, \"new\": "
        "8}\n{\"step\": 3, \"split\": \"test\"}\n",
        O_TRUNC);
    assert_int_equal(ls_history_refresh(h, &has_changed), LS_OK);
    assert_true(has_changed);
    assert_int_equal(ls_history_curve(h, "train")->n, 2);
    assert_true(ls_curve_last(ls_history_curve(h, "train"), "loss") == 5);
    assert_true(ls_history_steps(h) == 3);
    ls_history_close(&h);
}

static void test_state(void **state)
{
    char path[1024];
    put("manifest.json", "{}", O_TRUNC);
    struct ls_history *h = opened();
    assert_int_equal(ls_history_state(h), LS_RUN_DIED);
    put("lock", "1\n", O_TRUNC);
    snprintf(path, sizeof path, "%s/lock", dir);
    int fd = open(path, O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(ls_history_refresh(h, NULL), LS_OK);
    assert_int_equal(ls_history_state(h), LS_RUN_RUNNING);
    close(fd);
    put("result.json", "{\"steps\": 4", O_TRUNC); /* half written */
    assert_int_equal(ls_history_refresh(h, NULL), LS_OK);
    assert_int_equal(ls_history_state(h), LS_RUN_DIED);
    put("result.json", "{\"steps\": 40, \"seconds\": {\"compute\": 1.5}}", O_TRUNC);
    assert_int_equal(ls_history_refresh(h, NULL), LS_OK);
    assert_int_equal(ls_history_state(h), LS_RUN_DONE);
    assert_true(ls_history_steps(h) == 40 && ls_history_number(h, "seconds.compute") == 1.5);
    assert_true(isnan(ls_history_number(h, "seconds.no.such")) && !ls_history_text(h, "seconds"));
    ls_history_close(&h);
}

static void put_end(const char *text)
{
    put("ended.json", text, O_TRUNC);
}

/* A run that is over without a result says why, or could not. A result of before it went on is none. */
static void test_ends(void **state)
{
    put("manifest.json", "{}", O_TRUNC);
    put_end("{\"how\": \"stopped\", \"why\": \"by SIGINT\", \"step\": 7}");
    struct ls_history *h = opened();
    assert_int_equal(ls_history_state(h), LS_RUN_STOPPED);
    assert_string_equal(ls_history_state_word(h), "stopped");
    assert_string_equal(ls_history_why(h), "by SIGINT");
    assert_true(ls_history_steps(h) == 7);
    put("result.json", "{\"steps\": 5, \"test_accuracy\": 0.5}", O_TRUNC); /* of an earlier sitting */
    assert_int_equal(ls_history_refresh(h, NULL), LS_OK);
    assert_int_equal(ls_history_state(h), LS_RUN_STOPPED);
    assert_null(ls_history_result(h));
    assert_true(isnan(ls_history_number(h, "test_accuracy")));
    put_end("{\"how\": \"failed\", \"why\": [1]}");
    assert_int_equal(ls_history_refresh(h, NULL), LS_OK);
    assert_int_equal(ls_history_state(h), LS_RUN_FAILED);
    assert_null(ls_history_why(h));
    ls_history_close(&h);
    put_end("{}");
    h = opened();
    assert_int_equal(ls_history_state(h), LS_RUN_DONE);
    put("metrics.jsonl", "{\"step\": 6, \"split\": \"train\"}\n", O_TRUNC); /* it went on, and was killed */
    assert_int_equal(ls_history_refresh(h, NULL), LS_OK);
    assert_int_equal(ls_history_state(h), LS_RUN_DIED);
    assert_string_equal(ls_history_state_word(h), "died");
    ls_history_close(&h);
}

static void test_rank_rows(void **state)
{
    put("manifest.json", "{}", O_TRUNC);
    put("ranks.csv", "step,epoch,rank,host,loss,images\n10,1,0,a,2.5,64\n10,1,1,b,2.5,6", O_TRUNC);
    struct ls_history *h = opened();
    const struct ls_curve *c = ls_history_rank_rows(h);
    assert_non_null(c);
    assert_int_equal(c->n, 1); /* half a row is none yet */
    put("ranks.csv", "4\n<script>\n,,,\n", O_APPEND);
    assert_int_equal(ls_history_refresh(h, NULL), LS_OK);
    assert_int_equal(c->n, 2);
    assert_true(ls_curve_values(c, "rank")[1] == 1 && ls_curve_values(c, "images")[1] == 64);
    assert_true(isnan(ls_curve_last(c, "host")));
    ls_history_close(&h);
}

static void test_hostile(void **state)
{
    char path[1024], long_name[600];
    struct ls_history *h;
    assert_int_equal(ls_history_open(&h, dir), LS_CHECKPOINT); /* empty */
    snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    snprintf(path, sizeof path, "%s/result.json", dir);
    assert_int_equal(mkfifo(path, 0666), 0);
    snprintf(path, sizeof path, "%s/ranks", dir);
    assert_int_equal(symlink("/", path), 0);
    put("manifest.json", "not json", O_TRUNC);
    h = opened();
    assert_null(ls_history_curve_at(h, 0));
    assert_null(ls_history_manifest(h));
    ls_history_close(&h);
    snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
    unlink(path);
    char *line = malloc(3 << 20);
    assert_non_null(line);
    memset(line, 'x', 3 << 20);
    line[(3 << 20) - 2] = '\n';
    line[(3 << 20) - 1] = '\0';
    put("metrics.jsonl", line, O_TRUNC);
    free(line);
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    char text[1400];
    snprintf(text, sizeof text, "{\"split\": \"%s\"}\n{\"%s\": 1, \"split\": \"<script>\"}\n", long_name, long_name);
    put("metrics.jsonl", text, O_APPEND);
    h = opened();
    assert_true(ls_history_bad_lines(h) >= 2);
    assert_non_null(ls_history_curve(h, "<script>"));
    ls_history_close(&h);
}

/* A week of lines stays bounded, and keeps first and order. */
static void test_bounded(void **state)
{
    struct ls_curve c = {0};
    double values[LS_MAX_VALUES] = {0};
    assert_int_equal(ls__curve_column(&c, "step", 4), 0);
    for (int i = 0; i < 7 * LS_CURVE_POINTS; i++) {
        values[0] = i;
        assert_int_equal(ls__curve_add(&c, values), LS_OK);
    }
    assert_true(c.n <= LS_CURVE_POINTS && c.n > LS_CURVE_POINTS / 3);
    assert_true(c.values[0][0] == 0);
    for (size_t i = 1; i < c.n; i++) assert_true(c.values[0][i] - c.values[0][i - 1] == (double)c.every);
    ls__curve_release(&c);
}

static void test_resources(void **state)
{
    char path[1024];
    put("manifest.json", "{}", O_TRUNC);
    put("resources.csv",
        "# elapsed_time, cpu ,\"mem_real\",event\n0.0,10,50,epoch\nbroken\n0.5,,60,checkpoint\n1.0,30,7", O_TRUNC);
    struct ls_history *h = opened();
    const struct ls_curve *c = ls_history_resources(h, 0);
    assert_int_equal(c->n, 2);
    assert_true(ls_curve_values(c, "mem_real")[1] == 60 && isnan(ls_curve_values(c, "cpu")[1]));
    assert_int_equal(ls_history_n_ranks(h), 1);
    const struct ls_event *events;
    assert_int_equal(ls_history_events(h, &events), 2);
    assert_true(events[1].kind == LS_EVENT_CHECKPOINT && events[1].seconds == 0.5);
    snprintf(path, sizeof path, "%s/ranks", dir);
    assert_int_equal(mkdir(path, 0777), 0);
    snprintf(path, sizeof path, "%s/ranks/1", dir);
    assert_int_equal(mkdir(path, 0777), 0);
    put("ranks/1/resources.csv", "elapsed_time,cpu\n0,1\n", O_TRUNC);
    assert_int_equal(ls_history_refresh(h, NULL), LS_OK);
    assert_int_equal(ls_history_n_ranks(h), 2);
    ls_history_close(&h);
}

static void test_find(void **state)
{
    char path[1024], **names;
    size_t n;
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/run-%d", dir, 2 - i);
        assert_int_equal(mkdir(path, 0777), 0);
        snprintf(path, sizeof path, "run-%d/manifest.json", 2 - i);
        if (i != 1) put(path, "{}", O_TRUNC);
    }
    assert_int_equal(ls_history_find(dir, &names, &n, 10), LS_OK);
    assert_int_equal(n, 2);
    assert_non_null(strstr(names[0], "run-0"));
    for (size_t i = 0; i < n; i++) free(names[i]);
    free(names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_objects),
        cmocka_unit_test_setup_teardown(test_growing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_state, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rank_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile, setup, teardown),
        cmocka_unit_test(test_bounded),
        cmocka_unit_test_setup_teardown(test_resources, setup, teardown),
        cmocka_unit_test_setup_teardown(test_find, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
