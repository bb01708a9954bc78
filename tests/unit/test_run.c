/* test_run.c: the run directory: names, lock, metrics, what happens on a full or read-only disk; and the progress line.
 */
#include "base/buf.h"
#include "base/log.h"
#include "run/progress.h"
#include "run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "scratch.h"

/* Every test works in a fresh folder, which is also the working directory. */
static char home[SCRATCH_BYTES];

static int enter(void **state)
{
    return mkdtemp(scratch_name(home, "run", "")) && chdir(home) == 0 ? 0 : -1;
}

static int leave(void **state)
{
    char command[3 * SCRATCH_BYTES];
    snprintf(command, sizeof command, "chmod -R u+w '%s' && rm -rf '%s'", home, home);
    return chdir("/") == 0 && system(command) == 0 ? 0 : -1;
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* Valid until the next call. */
static const char *read_text(const char *path)
{
    static char *text;
    size_t len;
    free(text);
    if (ls__file_read(path, 1 << 20, &text, &len) != LS_OK) fail_msg("%s", ls_error_message());
    return text;
}

static struct ls_run *open_run(const char *dir, bool is_resume)
{
    struct ls_run *run;
    if (ls__run_open(&run, dir, "lenet5", "digits", is_resume) != LS_OK) fail_msg("%s", ls_error_message());
    return run;
}

static void expect_failure(const char *dir, bool is_resume, const char *part)
{
    struct ls_run *run;
    enum ls_status status = ls__run_open(&run, dir, "lenet5", "digits", is_resume);
    if (status != LS_CHECKPOINT) fail_msg("opening %s gave %s, expected CHECKPOINT", dir, ls_status_name(status));
    if (!strstr(ls_error_message(), part)) fail_msg("\"%s\" lacks \"%s\"", ls_error_message(), part);
    assert_null(run);
}

static void write_manifest(struct ls_run *run)
{
    json_t *manifest = json_pack("{s:s, s:s, s:f}", "lockstep_version", "1", "model", "lenet5", "lr", 0.05);
    assert_int_equal(ls__run_manifest(run, manifest), LS_OK);
}

static void add_metric(struct ls_run *run, int64_t step)
{
    ls__run_metric(
        run, &(struct ls_metric){
                 .step = step,
                 .epoch = 1,
                 .split = "train",
                 .values = {
                     {"loss", 1.0 / 3}, {"accuracy", 0.5}, {"lr", 0.05}, {"images_per_second", 1000}, {"seconds", 2}}});
}

/* --- names --- */

static void test_names_are_made_and_never_shared(void **state)
{
    struct ls_run *a, *b;
    assert_int_equal(ls__run_open(&a, NULL, "some/dir/my net.net", "fake:3x32x32:10:500", false), LS_OK);
    assert_int_equal(ls__run_open(&b, NULL, "some/dir/my net.net", "fake:3x32x32:10:500", false), LS_OK);
    const char *expected = "runs/my-net-fake-3x32x32-10-500-2";
    if (strncmp(ls__run_dir(a), expected, strlen(expected)) != 0)
        fail_msg("%s, expected %s...", ls__run_dir(a), expected);
    assert_string_not_equal(ls__run_dir(a), ls__run_dir(b));
    assert_true(ls__dir_exists(ls__run_dir(a)) && ls__dir_exists(ls__run_dir(b)));
    ls__run_close(&a);
    ls__run_close(&b);
    assert_null(a);
}

static void test_odd_names_stay_inside_runs(void **state)
{
    const char *const models[] = {"..", ".", "/", "", "../../etc", "a\nb", "-rf", "\xff\xfe", ".hidden"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct ls_run *run;
        assert_int_equal(ls__run_open(&run, NULL, models[i], models[i], false), LS_OK);
        const char *dir = ls__run_dir(run);
        bool is_fine = !strncmp(dir, "runs/", 5) && !strchr(dir + 5, '/') && dir[5] != '.' && dir[5] != '-';
        if (!is_fine) fail_msg("model '%s' made %s", models[i], dir);
        ls__run_close(&run);
    }
}

static void test_given_directory_is_made_with_parents(void **state)
{
    struct ls_run *run = open_run("a/b/c/", false);
    char path[LS_PATH_BYTES];
    assert_string_equal(ls__run_dir(run), "a/b/c");
    assert_true(ls__dir_exists("a/b/c/checkpoints"));
    assert_int_equal(ls__run_path(run, "checkpoints", path), LS_OK);
    assert_string_equal(path, "a/b/c/checkpoints");
    ls__run_close(&run);
}

static void test_overlong_directory_is_refused(void **state)
{
    static char name[8000];
    memset(name, 'x', sizeof name - 1);
    expect_failure(name, false, "too long");
}

/* --- one run per directory, one process per run --- */

static void test_a_second_run_is_refused(void **state)
{
    struct ls_run *run = open_run("r", false);
    assert_true(ls__run_is_new(run));
    write_manifest(run);
    ls__run_close(&run);
    expect_failure("r", false, "already holds a run; give another --run, or go on with: lockstep train --resume ");
    run = open_run("r", true);
    assert_false(ls__run_is_new(run));
    ls__run_close(&run);
}

static void test_resume_of_nothing_starts_afresh(void **state)
{
    struct ls_run *run = open_run("fresh", true);
    assert_true(ls__run_is_new(run));
    ls__run_close(&run);
}

static void test_lock_names_the_process(void **state)
{
    int ready[2], done[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(done), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct ls_run *run;
        close(done[1]);
        if (ls__run_open(&run, "r", "m", "d", false) != LS_OK) _exit(1);
        if (write(ready[1], "x", 1) != 1 || read(done[0], &byte, 1) < 0) _exit(2);
        _exit(0); /* without closing: the lock goes with the process */
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    char expected[64];
    snprintf(expected, sizeof expected, "is in use by process %d", (int)child);
    expect_failure("r", true, expected);
    expect_failure("r", false, expected);
    close(done[1]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    struct ls_run *run = open_run("r", true);
    ls__run_close(&run);
}

/* --- directories that cannot be written --- */

static void test_a_file_in_the_way(void **state)
{
    write_file("file", "x");
    expect_failure("file", false, "file");
    expect_failure("file/sub", false, "file");
}

static int open_as_nobody(const char *dir)
{
    struct ls_run *run;
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return 77;
    enum ls_status status = ls__run_open(&run, dir, "m", "d", false);
    if (status != LS_CHECKPOINT) return 1;
    return strstr(ls_error_message(), "ermission denied") ? 0 : 2;
}

/* Root may write everywhere, so the attempt is made by a child that is nobody. */
static void test_a_read_only_directory(void **state)
{
    const char *const dirs[] = {"locked", "locked/sub"};
    assert_int_equal(mkdir("locked", 0555), 0);
    assert_int_equal(chmod(home, 0755), 0);
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) _exit(open_as_nobody(dirs[i]));
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WEXITSTATUS(status) == 77) skip();
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

/* Files of this process may have `bytes` bytes from now on: what a full disk is, without one. */
static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(77);
    limit.rlim_cur = bytes;
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(77);
}

static void in_child(int (*fn)(void))
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(fn());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) skip();
    assert_int_equal(status, 0);
}

static int open_on_full_disk(void)
{
    struct ls_run *run;
    limit_files(0);
    if (ls__run_open(&run, "r", "m", "d", false) != LS_CHECKPOINT) return 1;
    return strstr(ls_error_message(), "run directory r cannot be written: File too large") ? 0 : 2;
}

static void test_a_full_disk_is_found_at_the_start(void **state)
{
    in_child(open_on_full_disk);
}

/* --- manifest and result --- */

static void test_manifest_and_result_come_back(void **state)
{
    struct ls_run *run = open_run("r", false);
    json_t *object;
    write_manifest(run);
    assert_int_equal(ls__run_result(run, "{\"steps\": 7}"), LS_OK);
    assert_string_equal(read_text("r/result.json"), "{\"steps\": 7}\n");
    assert_non_null(strstr(read_text("r/manifest.json"), "\"lr\": 0.05\n"));
    assert_int_equal(ls__run_load("r", "manifest.json", &object), LS_OK);
    assert_string_equal(json_string_value(json_object_get(object, "model")), "lenet5");
    json_decref(object);
    assert_true(ls__run_is_run("r"));
    assert_false(ls__run_is_run("."));
    ls__run_close(&run);
}

static void test_bad_manifests_are_refused(void **state)
{
    json_t *object;
    const char *const texts[] = {"", "{", "[1]", "7", "{\"a\": 1, \"a\": 2}", "\xff"};
    assert_int_equal(mkdir("r", 0755), 0);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        write_file("r/manifest.json", texts[i]);
        assert_int_equal(ls__run_load("r", "manifest.json", &object), LS_CHECKPOINT);
        assert_null(object);
        assert_non_null(strstr(ls_error_message(), "r/manifest.json"));
    }
    assert_int_equal(ls__run_load("r", "nothing.json", &object), LS_CHECKPOINT);
}

/* --- metrics --- */

static void test_metric_lines(void **state)
{
    struct ls_run *run = open_run("r", false);
    add_metric(run, 50);
    ls__run_metric(run, &(struct ls_metric){.step = 51,
                                            .epoch = 1,
                                            .split = "test",
                                            .values = {{"loss", NAN},
                                                       {"accuracy", INFINITY},
                                                       {"lr", 1e-9},
                                                       {"images_per_second", 12345.678},
                                                       {"seconds", 0}}});
    assert_string_equal(read_text("r/metrics.jsonl"),
                        "{\"step\": 50, \"epoch\": 1, \"split\": \"train\", \"loss\": 0.333333333, \"accuracy\": 0.5, "
                        "\"lr\": 0.05, \"images_per_second\": 1000.0, \"seconds\": 2.0}\n"
                        "{\"step\": 51, \"epoch\": 1, \"split\": \"test\", \"loss\": null, \"accuracy\": null, "
                        "\"lr\": 1e-9, \"images_per_second\": 12345.678, \"seconds\": 0.0}\n");
    ls__run_close(&run);
}

/* Nine digits bring every float32 back. */
static void test_metric_numbers_round_trip(void **state)
{
    struct ls_run *run = open_run("r", false);
    float loss = 0.123456789f;
    for (int i = 0; i < 100; i++, loss *= 1.37f)
        ls__run_metric(run, &(struct ls_metric){.step = i, .split = "train", .values = {{"loss", (double)loss}}});
    const char *line = read_text("r/metrics.jsonl");
    loss = 0.123456789f;
    for (int i = 0; i < 100; i++, loss *= 1.37f, line = strchr(line, '\n') + 1) {
        float back = strtof(strstr(line, "\"loss\": ") + 8, NULL);
        if (back != loss) fail_msg("%.9g came back as %.9g", (double)loss, (double)back);
    }
    ls__run_close(&run);
}

static void test_rewind_keeps_what_was_before(void **state)
{
    struct ls_run *run = open_run("r", false);
    for (int64_t step = 1; step <= 5; step++) add_metric(run, step);
    char *unbroken = strdup(read_text("r/metrics.jsonl"));
    assert_int_equal(ls__run_metrics_rewind(run, &(struct ls_rewind){.step = 3}), LS_OK);
    add_metric(run, 4);
    add_metric(run, 5);
    assert_string_equal(read_text("r/metrics.jsonl"), unbroken);
    assert_int_equal(ls__run_metrics_rewind(run, &(struct ls_rewind){.step = 0}), LS_OK);
    assert_string_equal(read_text("r/metrics.jsonl"), "");
    add_metric(run, 1);
    assert_int_equal(ls__run_metrics_rewind(run, &(struct ls_rewind){.step = 1}), LS_OK);
    assert_true(strlen(read_text("r/metrics.jsonl")) * 5 == strlen(unbroken));
    free(unbroken);
    ls__run_close(&run);
}

/* A run that ended within an epoch measured there; the run that goes on did not. */
static void test_rewind_drops_the_end_of_a_shorter_run(void **state)
{
    const char *const lines = "{\"step\": 1, \"split\": \"test\"}\n{\"step\": 2, \"split\": \"train\"}\n";
    char text[256];
    struct ls_run *run = open_run("r", false);
    snprintf(text, sizeof text, "%s{\"step\": 2, \"split\": \"test\"}\n", lines);
    write_file("r/metrics.jsonl", text);
    assert_int_equal(ls__run_metrics_rewind(run, &(struct ls_rewind){.step = 2}), LS_OK);
    assert_string_equal(read_text("r/metrics.jsonl"), text);
    assert_int_equal(ls__run_metrics_rewind(run, &(struct ls_rewind){.step = 2, .is_within_epoch = true}), LS_OK);
    assert_string_equal(read_text("r/metrics.jsonl"), lines);
    ls__run_close(&run);
}

static void test_rewind_drops_torn_and_foreign_lines(void **state)
{
    const char *const tails[] = {
        "{\"step\": 2, \"lo", "{\"step\": 2}", "garbage\n", "{\"step\": \"1\"}\n", "\n\n", "[1]\n", "{}\n"};
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        char dir[16], path[64], text[256];
        snprintf(dir, sizeof dir, "r%zu", i);
        snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
        struct ls_run *run = open_run(dir, false);
        write_manifest(run);
        ls__run_close(&run);
        snprintf(text, sizeof text, "{\"step\": 1}\n%s", tails[i]);
        write_file(path, text);
        run = open_run(dir, true);
        assert_int_equal(ls__run_metrics_rewind(run, &(struct ls_rewind){.step = 2}), LS_OK);
        assert_string_equal(read_text(path), "{\"step\": 1}\n");
        add_metric(run, 2);
        assert_int_equal(strncmp(read_text(path), "{\"step\": 1}\n{\"step\": 2, ", 23), 0);
        ls__run_close(&run);
    }
}

/* Runs `fn` with stderr in a file and gives back what was written there. */
static const char *capture(void (*fn)(void))
{
    fflush(stderr);
    int saved = dup(STDERR_FILENO), to = open("stderr.txt", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(saved >= 0 && to >= 0);
    assert_true(dup2(to, STDERR_FILENO) >= 0);
    fn();
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    close(to);
    return read_text("stderr.txt");
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (; (text = strstr(text, part)); text += strlen(part)) n++;
    return n;
}

static void fill_disk(void)
{
    struct ls_run *run = open_run("r", true);
    limit_files(200);
    for (int64_t step = 0; step < 100; step++) add_metric(run, step);
    ls__run_close(&run);
    limit_files(RLIM_INFINITY);
}

static int warn_on_full_disk(void)
{
    const char *text = capture(fill_disk);
    return count(text, "warning") == 1 && count(text, "1 line lost") == 1 && count(text, "\n") == 1 ? 0 : 1;
}

static void test_a_full_disk_warns_once_and_training_goes_on(void **state)
{
    in_child(warn_on_full_disk);
}

/* The second line does not fit whole: it must vanish whole, and the one after it when there is room again is complete.
 */
static int metrics_on_full_disk(void)
{
    struct ls_run *run = open_run("r", false);
    int quiet = open("/dev/null", O_WRONLY);
    if (quiet < 0 || dup2(quiet, STDERR_FILENO) < 0) return 77;
    limit_files(200);
    add_metric(run, 1);
    add_metric(run, 2);
    ls__run_close(&run);
    return 0;
}

static void test_a_line_cut_short_is_cut_off(void **state)
{
    in_child(metrics_on_full_disk);
    const char *text = read_text("r/metrics.jsonl");
    assert_int_equal(count(text, "\n"), 1);
    assert_int_equal(strlen(text), strcspn(text, "\n") + 1);
}

/* --- progress --- */

static void check_line(const struct ls_progress *p, double seconds, const char *note, int width, const char *expected)
{
    char line[512];
    ls__progress_format(p, (int64_t)(seconds * 1e9), note, width, line, sizeof line);
    assert_string_equal(line, expected);
}

static void test_progress_looks_like_tqdm(void **state)
{
    struct ls_progress p = {.label = "Epoch 3/90", .unit = "it", .total = 391, .done = 164, .weight = 1};
    check_line(&p, 31.12, "loss=1.23", 71, "Epoch 3/90:  42%|████▏     | 164/391 [00:31<00:43, 5.27it/s, loss=1.23]");
    p.is_ascii = true;
    check_line(&p, 31.12, NULL, 60, "Epoch 3/90:  42%|####      | 164/391 [00:31<00:43, 5.27it/s]");
    p.done = 0;
    check_line(&p, 0, NULL, 55, "Epoch 3/90:   0%|          | 0/391 [00:00<??:??, ?it/s]");
    p.done = 391;
    check_line(&p, 7300, NULL, 63, "Epoch 3/90: 100%|##########| 391/391 [2:01:40<00:00, 18.67s/it]");
    p.first = 390; /* resumed: only one step is its own */
    check_line(&p, 0.01, NULL, 59, "Epoch 3/90: 100%|##########| 391/391 [00:00<00:00, 100it/s]");
}

static void test_progress_tells_of_the_whole_run(void **state)
{
    struct ls_progress p = {.label = "Epoch 3/90", .unit = " images", .total = 400, .done = 100, .weight = 128};
    p.after = 800;
    p.is_ascii = true;
    check_line(&p, 50, "loss=1.23", 89,
               "Epoch 3/90:  25%|##        | 100/400 [00:50<02:30, 09:10 in all, 256 images/s, loss=1.23]");
    check_line(&p, 50, "loss=1.23", 79,
               "Epoch 3/90:  25%|##       | [02:30 left, 09:10 in all, 256 images/s, loss=1.23]");
    check_line(&p, 50, "loss=1.23", 53, "Epoch 3/90:  25%|##      | [02:30 left, 256 images/s]");
    check_line(&p, 50, "loss=1.23", 41, "Epoch 3/90:  25%|##      | [256 images/s]");
    check_line(&p, 50, "loss=1.23", 19, "Epoch 3/90:  25%| |");
    check_line(&p, 50, "loss=1.23", 10, "Epoch 3/90");
}

static void test_progress_counts_bytes(void **state)
{
    struct ls_progress p = {.label = "x.gz", .unit = "B", .total = 9912422, .done = 4956211, .weight = 1};
    p.is_ascii = true;
    check_line(&p, 2, NULL, 58, "x.gz:  50%|#####     | 4.96M/9.91M [00:02<00:02, 2.48MB/s]");
    p.total = 0;
    check_line(&p, 2, NULL, 29, "x.gz: 4.96M [00:02, 2.48MB/s]");
}

/* The distance between lines doubles after every 20,000 of them: a week's file stays small. */
static void test_lines_thin_out(void **state)
{
    const int64_t every = 50, week = 7 * 24 * 3600 * (int64_t)1000;
    int64_t n = 0, n_second = 0, last = 0, widest = 0;
    for (int64_t step = 1; step <= 40000; step++) assert_int_equal(ls__run_is_line_due(step, every), step % every == 0);
    assert_true(ls__run_is_line_due(20000 * every, every));
    assert_false(ls__run_is_line_due(20001 * every, every));
    assert_true(ls__run_is_line_due(20002 * every, every));
    for (int64_t step = every; step <= week; step += every) {
        if (!ls__run_is_line_due(step, every)) continue;
        n++;
        n_second += step > 20000 * every && step <= 60000 * every;
        if (step - last > widest) widest = step - last;
        last = step;
    }
    assert_int_equal(n_second, 20000);
    assert_in_range(n, 150000, 200000);
    assert_int_equal(widest, every << 9);
    assert_false(ls__run_is_line_due(7, 0));
    assert_true(ls__run_is_line_due(INT64_MAX / 2 / 3 * 3, INT64_MAX / 2 / 3));
}

/* The line is as wide as the terminal wherever there is a bar, and never wider. */
static void test_progress_fits_every_width(void **state)
{
    struct ls_progress p = {.label = "Epoch 3/90", .unit = "it", .total = 391, .done = 164, .weight = 1};
    p.after = 1000;
    p.is_ascii = true;
    for (int width = 1; width < 200; width++) {
        char line[512];
        ls__progress_format(&p, 31 * (int64_t)1000000000, "loss=1.23, accuracy=0.5", width, line, sizeof line);
        if ((int)strlen(line) > width) fail_msg("%zu columns for a width of %d: %s", strlen(line), width, line);
        if (width > 18 && (int)strlen(line) < width) fail_msg("%zu of %d columns: %s", strlen(line), width, line);
    }
}

static void work(void)
{
    struct ls_progress p;
    ls__progress_begin(&p, "Epoch 1/2", 1000);
    for (int i = 1; i <= 1000; i++) ls__progress_update(&p, i, "loss=1");
    ls__progress_end(&p, "Epoch 1/2: loss 1");
}

static void test_plain_lines_without_a_terminal(void **state)
{
    assert_string_equal(capture(work), "Epoch 1/2: loss 1\n");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)
    const struct CMUnitTest tests[] = {
        TEST(test_names_are_made_and_never_shared),
        TEST(test_odd_names_stay_inside_runs),
        TEST(test_given_directory_is_made_with_parents),
        TEST(test_overlong_directory_is_refused),
        TEST(test_a_second_run_is_refused),
        TEST(test_resume_of_nothing_starts_afresh),
        TEST(test_lock_names_the_process),
        TEST(test_a_file_in_the_way),
        TEST(test_a_read_only_directory),
        TEST(test_a_full_disk_is_found_at_the_start),
        TEST(test_manifest_and_result_come_back),
        TEST(test_bad_manifests_are_refused),
        TEST(test_metric_lines),
        TEST(test_metric_numbers_round_trip),
        TEST(test_rewind_keeps_what_was_before),
        TEST(test_rewind_drops_the_end_of_a_shorter_run),
        TEST(test_rewind_drops_torn_and_foreign_lines),
        TEST(test_lines_thin_out),
        TEST(test_a_full_disk_warns_once_and_training_goes_on),
        TEST(test_a_line_cut_short_is_cut_off),
        TEST(test_progress_looks_like_tqdm),
        TEST(test_progress_tells_of_the_whole_run),
        TEST(test_progress_counts_bytes),
        TEST(test_progress_fits_every_width),
        TEST(test_plain_lines_without_a_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
