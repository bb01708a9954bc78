/* test_claim.c: whose run directory is it? What is not ours is refused with nothing touched; nothing is written through
 * a link, and a FIFO holds nobody up. */
#include "run/run.h"
#include "scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* Every test works in a fresh folder, which is also the working directory. The alarm ends a test that waits. */
static char home[SCRATCH_BYTES];

static int enter(void **state)
{
    alarm(300);
    return mkdtemp(scratch_name(home, "test-claim", "")) && chdir(home) == 0 ? 0 : -1;
}

static int leave(void **state)
{
    char command[SCRATCH_BYTES + 16];
    alarm(0);
    snprintf(command, sizeof command, "rm -rf %s", home);
    return chdir("/") == 0 && system(command) == 0 ? 0 : -1;
}

static void shell(const char *command)
{
    if (system(command) != 0) fail_msg("%s", command);
}

/* Names, kinds, times and contents of everything here, as text. free() it. */
static char *look(void)
{
    char *text;
    size_t len;
    shell("(find r -printf '%p %y %m %s %T@ %l\\n' | sort; find r -type f -exec sha256sum {} + | sort) >look");
    if (ls__file_read("look", 1 << 20, &text, &len) != LS_OK) fail_msg("%s", ls_error_message());
    return text;
}

static enum ls_status open_run(struct ls_run **run, bool is_resume)
{
    return ls__run_open(run, "r", "lenet5", "digits", is_resume);
}

/* --- not ours --- */

static const struct {
    const char *what, *make; /* the shell makes it, in r */
    const char *part;        /* of the message */
} strangers[] = {
    {"a file", "echo x >r/file", "file is there"},
    {"a hidden file", "echo x >r/.keep", ".keep is there"},
    {"a folder", "mkdir r/sub", "sub is there"},
    {"checkpoints of another run", "mkdir r/checkpoints && echo x >r/checkpoints/step-00000010.safetensors",
     "checkpoints is there"},
    {"somebody's checkpoints", "mkdir r/checkpoints && echo x >r/checkpoints/best.pt", "checkpoints is there"},
    {"somebody's lock", "echo mine >r/lock", "lock is there"},
    {"a long lock", "head -c 100 /dev/zero | tr '\\0' 1 >r/lock", "lock is there"},
    {"a result", "echo '{}' >r/result.json", "result.json is there"},
    {"metrics", "echo '{\"step\": 1}' >r/metrics.jsonl", "metrics.jsonl is there"},
    {"lock is a link", "echo 1 >target; ln -s ../target r/lock", "lock is there"},
    {"lock is a link to nothing", "ln -s ../nothing r/lock", "lock is there"},
    {"lock is a fifo", "mkfifo r/lock", "lock is there"},
    {"lock is a folder", "mkdir r/lock", "lock is there"},
    {"metrics is a link", ": >target; ln -s ../target r/metrics.jsonl", "metrics.jsonl is there"},
    {"metrics is a fifo", "mkfifo r/metrics.jsonl", "metrics.jsonl is there"},
    {"metrics is a folder", "mkdir r/metrics.jsonl", "metrics.jsonl is there"},
    {"checkpoints is a link", "mkdir target; ln -s ../target r/checkpoints", "checkpoints is there"},
    {"checkpoints is a fifo", "mkfifo r/checkpoints", "checkpoints is there"},
};

static void test_strangers_are_refused_untouched(void **state)
{
    int n_bad = 0;
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++)
        for (int is_resume = 0; is_resume < 2; is_resume++) {
            struct ls_run *run;
            shell("rm -rf r target && mkdir r");
            shell(strangers[i].make);
            char *before = look();
            enum ls_status status = open_run(&run, is_resume);
            bool is_good = status == LS_CHECKPOINT && strstr(ls_error_message(), strangers[i].part);
            if (!is_good)
                print_error("%s: %s, \"%s\"\n", strangers[i].what, ls_status_name(status), ls_error_message());
            ls__run_close(&run);
            char *after = look();
            bool is_same = strcmp(before, after) == 0;
            if (!is_same) print_error("%s: before\n%s\nafter\n%s\n", strangers[i].what, before, after);
            n_bad += !is_good || !is_same;
            free(before);
            free(after);
        }
    assert_int_equal(n_bad, 0);
}

/* Another program's manifest.json does not make its folder a run of ours. */
static void test_a_strange_manifest_is_refused(void **state)
{
    const char *const manifests[] = {"{\"name\": \"app\"}", "{", "", "[]", "{\"lockstep_version\": 7}"};
    for (size_t i = 0; i < sizeof manifests / sizeof *manifests; i++) {
        struct ls_run *run;
        char command[256];
        snprintf(command, sizeof command, "rm -rf r; mkdir r; printf '%%s' '%s' >r/manifest.json", manifests[i]);
        shell(command);
        char *before = look();
        assert_int_equal(open_run(&run, true), LS_CHECKPOINT);
        assert_non_null(strstr(ls_error_message(), "manifest.json"));
        assert_int_equal(open_run(&run, false), LS_CHECKPOINT);
        char *after = look();
        assert_string_equal(before, after);
        free(before);
        free(after);
    }
}

/* --- ours --- */

static void test_leftovers_of_ours_are_free(void **state)
{
    const char *const leftovers[] = {
        ":",
        ": >r/lock",
        "echo 0000000123 >r/lock; : >r/metrics.jsonl; mkdir r/checkpoints",
        "mkdir r/checkpoints; echo x >r/checkpoints/step-00000000.safetensors.tmp.abcdef",
        "echo x >r/manifest.json.tmp.abcdef",
    };
    for (size_t i = 0; i < sizeof leftovers / sizeof *leftovers; i++) {
        struct ls_run *run;
        shell("rm -rf r && mkdir r");
        shell(leftovers[i]);
        if (open_run(&run, false) != LS_OK) fail_msg("%s: %s", leftovers[i], ls_error_message());
        assert_true(ls__run_is_new(run));
        ls__run_close(&run);
    }
}

static void make_run(void)
{
    struct ls_run *run;
    assert_int_equal(open_run(&run, false), LS_OK);
    json_t *manifest = json_pack("{s:s}", "lockstep_version", "1");
    assert_int_equal(ls__run_manifest(run, manifest), LS_OK);
    ls__run_metric(run, &(struct ls_metric){.step = 1, .split = "train"});
    ls__run_close(&run);
}

static const struct {
    const char *what, *make;
    bool is_replaced; /* written anew beside and renamed: harmless */
} tampered[] = {
    {"lock is a link", "rm r/lock; ln -s ../target r/lock", false},
    {"lock is a fifo", "rm r/lock; mkfifo r/lock", false},
    {"lock is a folder", "rm r/lock; mkdir r/lock", false},
    {"metrics is a link", "rm r/metrics.jsonl; ln -s ../target r/metrics.jsonl", false},
    {"metrics is a link to nothing", "rm r/metrics.jsonl; ln -s ../nothing r/metrics.jsonl", false},
    {"metrics is a fifo", "rm r/metrics.jsonl; mkfifo r/metrics.jsonl", false},
    {"metrics is a folder", "rm r/metrics.jsonl; mkdir r/metrics.jsonl", false},
    {"checkpoints is a link", "rmdir r/checkpoints; ln -s ../folder r/checkpoints", false},
    {"checkpoints is a file", "rmdir r/checkpoints; : >r/checkpoints", false},
    {"checkpoints is a fifo", "rmdir r/checkpoints; mkfifo r/checkpoints", false},
    {"manifest is a link", "mv r/manifest.json ours; ln -s ../ours r/manifest.json", false},
    {"manifest is a fifo", "rm r/manifest.json; mkfifo r/manifest.json", false},
    {"result is a link", "ln -s ../target r/result.json", true},
    {"result is a fifo", "mkfifo r/result.json", true},
};

static void test_nothing_is_written_through_a_link(void **state)
{
    for (size_t i = 0; i < sizeof tampered / sizeof *tampered; i++) {
        struct ls_run *run;
        char *text;
        size_t len;
        shell("rm -rf r target folder ours; echo precious >target; mkdir folder");
        make_run();
        shell(tampered[i].make);
        enum ls_status status = open_run(&run, true);
        if (status == LS_OK) status = ls__run_result(run, "{}");
        ls__run_close(&run);
        if ((status == LS_OK) != tampered[i].is_replaced || (status != LS_OK && status != LS_CHECKPOINT))
            fail_msg("%s: %s, %s", tampered[i].what, ls_status_name(status), ls_error_message());
        assert_int_equal(ls__file_read("target", 100, &text, &len), LS_OK);
        assert_string_equal(text, "precious\n");
        free(text);
        assert_int_equal(rmdir("folder"), 0); /* still empty */
        assert_int_not_equal(access("nothing", F_OK), 0);
    }
}

/* --- modes, and what is left of a run that never began --- */

static void test_the_umask_decides(void **state)
{
    const mode_t masks[] = {0022, 0077, 0002};
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        struct stat st;
        shell("rm -rf r");
        mode_t before = umask(masks[i]);
        make_run();
        umask(before);
        const char *const files[] = {"r/lock", "r/metrics.jsonl", "r/manifest.json"};
        for (int k = 0; k < 3; k++) {
            assert_int_equal(stat(files[k], &st), 0);
            assert_int_equal(st.st_mode & 0777, 0666 & ~masks[i]);
        }
        assert_int_equal(stat("r/checkpoints", &st), 0);
        assert_int_equal(st.st_mode & 0777, 0777 & ~masks[i]);
    }
}

static void test_abandoned_runs_leave_nothing(void **state)
{
    struct ls_run *run;
    assert_int_equal(open_run(&run, false), LS_OK);
    ls__run_abandon(&run);
    assert_null(run);
    assert_false(ls__dir_exists("r"));
    shell("mkdir r");
    assert_int_equal(open_run(&run, false), LS_OK);
    ls__run_abandon(&run);
    assert_int_equal(rmdir("r"), 0); /* the user's, and empty as it was */
    make_run();
    char *before = look();
    assert_int_equal(open_run(&run, false), LS_CHECKPOINT);
    ls__run_abandon(&run);
    char *after = look();
    assert_string_equal(before, after);
    free(before);
    free(after);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)
    const struct CMUnitTest tests[] = {
        TEST(test_strangers_are_refused_untouched),
        TEST(test_a_strange_manifest_is_refused),
        TEST(test_leftovers_of_ours_are_free),
        TEST(test_nothing_is_written_through_a_link),
        TEST(test_the_umask_decides),
        TEST(test_abandoned_runs_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
