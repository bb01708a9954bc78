/* test_checkpoint_writer.c: the folder of checkpoints: what is kept, what is found again, and what a failed write says.
 */
#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/writer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "expect.h"
#include "scratch.h"

enum { N_FLOATS = 16384, PATH_BYTES = 4096 };

static char folder[SCRATCH_BYTES];
static float weights[N_FLOATS];

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(scratch_name(folder, "writer", "")) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[2 * SCRATCH_BYTES];
    umount2(folder, MNT_DETACH); /* when a failed test left it mounted */
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static enum ls_status save(struct ls_ckpt_writer *w, int64_t step, bool is_best)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)step);
    for (int i = 0; i < N_FLOATS; i++) weights[i] = (float)step;
    const struct ls_ckpt_tensor t = {"w", LS_F32, LS_SHAPE1(N_FLOATS), weights};
    const struct ls_ckpt_meta m = {"step", text};
    enum ls_status status = ls_ckpt_writer_submit(w, step, is_best, &t, 1, &m, 1);
    memset(weights, 0xff, sizeof weights); /* the snapshot must not notice */
    text[0] = 'x';
    return status;
}

/* A state that the writer takes over: completed on its thread, before it is written, and released once. */
struct owned {
    float *data;
    struct ls_ckpt_tensor tensor;
    struct ls_ckpt_meta meta;
    char hash[8];
    pthread_t caller;
    enum ls_status outcome; /* of complete */
    bool was_elsewhere;
    atomic_int n_completed, n_released;
};

static enum ls_status complete(void *owner)
{
    struct owned *o = owner;
    o->n_completed++;
    o->was_elsewhere = !pthread_equal(pthread_self(), o->caller);
    strcpy(o->hash, "done");
    return o->outcome == LS_OK ? LS_OK : ls_fail(o->outcome, "no hash today");
}

static void release(void *owner)
{
    struct owned *o = owner;
    o->n_released++;
    free(o->data);
    o->data = NULL;
}

static enum ls_status take(struct ls_ckpt_writer *w, int64_t step, struct owned *o, enum ls_status outcome)
{
    *o = (struct owned){.data = calloc(N_FLOATS, sizeof(float)), .hash = "0000", .outcome = outcome};
    o->caller = pthread_self();
    o->tensor = (struct ls_ckpt_tensor){"w", LS_F32, LS_SHAPE1(N_FLOATS), o->data};
    o->meta = (struct ls_ckpt_meta){"hash", o->hash};
    o->data[7] = (float)step;
    const struct ls_ckpt_state s = {&o->tensor, &o->meta, 1, 1, .owner = o, .complete = complete, .release = release};
    return ls__ckpt_writer_take(w, step, false, &s);
}

/* "a b c": all names but . and .., sorted */
static const char *names(void)
{
    static char all[4096];
    struct dirent **entries;
    int n = scandir(folder, &entries, NULL, alphasort);
    assert_true(n >= 0);
    all[0] = '\0';
    for (int i = 0; i < n; i++) {
        size_t at = strlen(all);
        if (entries[i]->d_name[0] != '.')
            snprintf(all + at, sizeof all - at, "%s%s", at ? " " : "", entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return all;
}

static const char *in_folder(const char *name)
{
    static char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void check_link(const char *link, const char *want)
{
    char got[256] = {0};
    assert_true(readlink(in_folder(link), got, sizeof got - 1) > 0);
    assert_string_equal(got, want);
}

/* The newest is `step`, after looking at n_seen files, and its content belongs together. */
static void check_newest(int64_t step, int want_seen)
{
    struct ls_ckpt *c;
    char path[PATH_BYTES], text[32];
    int n_seen;
    check_ok(ls_ckpt_open_newest(&c, folder, path, &n_seen));
    snprintf(text, sizeof text, "%lld", (long long)step);
    assert_string_equal(ls_ckpt_meta(c, "step"), text);
    snprintf(text, sizeof text, "step-%08lld.safe", (long long)step);
    assert_non_null(strstr(path, text));
    assert_int_equal(n_seen, want_seen);
    const float *w = ls_ckpt_find(c, "w")->data;
    for (int i = 0; i < N_FLOATS; i++) assert_true(w[i] == (float)step);
    ls_ckpt_close(&c);
}

static void retention_and_best(void **state)
{
    (void)state;
    struct ls_ckpt_writer *w;
    check_ok(ls_ckpt_writer_create(&w, folder, 2));
    for (int64_t step = 1; step <= 6; step++) check_ok(save(w, step * 100, step == 2));
    check_ok(ls_ckpt_writer_finish(w));
    assert_string_equal(names(),
                        "best.safetensors latest.safetensors step-00000200.safetensors step-00000500.safetensors "
                        "step-00000600.safetensors");
    check_link("latest.safetensors", "step-00000600.safetensors");
    check_link("best.safetensors", "step-00000200.safetensors");
    check_newest(600, 1);
    check_ok(save(w, 700, true));
    check_ok(ls_ckpt_writer_finish(w));
    assert_string_equal(names(),
                        "best.safetensors latest.safetensors step-00000600.safetensors step-00000700.safetensors");
    ls_ckpt_writer_destroy(&w);
    assert_null(w);
    ls_ckpt_writer_destroy(&w);
}

static void best_outlives_the_process(void **state)
{
    (void)state;
    struct ls_ckpt_writer *w;
    check_ok(ls_ckpt_writer_create(&w, folder, 1));
    check_ok(save(w, 1, true));
    ls_ckpt_writer_destroy(&w);
    check_ok(ls_ckpt_writer_create(&w, folder, 1));
    check_ok(save(w, 2, false));
    check_ok(save(w, 3, false));
    ls_ckpt_writer_destroy(&w);
    assert_string_equal(names(),
                        "best.safetensors latest.safetensors step-00000001.safetensors step-00000003.safetensors");
}

/* A run that goes back must not lose what it writes because abandoned files have higher numbers. */
static void going_back(void **state)
{
    (void)state;
    struct ls_ckpt_writer *w;
    check_ok(ls_ckpt_writer_create(&w, folder, 1));
    check_ok(save(w, 300, false));
    check_ok(save(w, 250, false));
    check_ok(save(w, 260, false));
    check_ok(ls_ckpt_writer_finish(w));
    assert_string_equal(names(), "latest.safetensors step-00000260.safetensors step-00000300.safetensors");
    check_link("latest.safetensors", "step-00000260.safetensors");
    ls_ckpt_writer_destroy(&w);
}

static void long_steps(void **state)
{
    (void)state;
    struct ls_ckpt_writer *w;
    check_ok(ls_ckpt_writer_create(&w, folder, 3));
    check_ok(save(w, 99999999, false));
    check_ok(save(w, 100000000, false)); /* sorts before the other as text */
    ls_ckpt_writer_destroy(&w);
    check_newest(100000000, 1);
}

static void damage(const char *name, long at)
{
    int fd = open(in_folder(name), O_RDWR);
    char c;
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &c, 1, at), 1);
    c ^= 4;
    assert_int_equal(pwrite(fd, &c, 1, at), 1);
    close(fd);
}

/* What the log said while ls_ckpt_open_newest ran. */
static void warnings_of_newest(char *text, size_t size, enum ls_status *status)
{
    struct ls_ckpt *c;
    char path[PATH_BYTES];
    int n_seen, ends[2], err = dup(STDERR_FILENO);
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    *status = ls_ckpt_open_newest(&c, folder, path, &n_seen);
    dup2(err, STDERR_FILENO);
    close(err);
    close(ends[1]);
    ssize_t n = read(ends[0], text, size - 1);
    text[n > 0 ? n : 0] = '\0';
    close(ends[0]);
    ls_ckpt_close(&c);
}

static void fallback(void **state)
{
    (void)state;
    struct ls_ckpt_writer *w;
    char text[4096];
    enum ls_status status;
    check_ok(ls_ckpt_writer_create(&w, folder, 4));
    for (int64_t step = 1; step <= 4; step++) check_ok(save(w, step, false));
    ls_ckpt_writer_destroy(&w);
    damage("step-00000004.safetensors", 30000);
    assert_int_equal(truncate(in_folder("step-00000003.safetensors"), 4096), 0);
    fclose(fopen(in_folder("step-5.safetensors"), "w"));            /* not a name of ours */
    fclose(fopen(in_folder("step-00000009.safetensors.bak"), "w")); /* neither */
    check_newest(2, 3);
    warnings_of_newest(text, sizeof text, &status);
    assert_int_equal(status, LS_OK);
    char *second = strchr(text, '\n');
    assert_non_null(second);
    assert_non_null(strstr(text, "warning: checkpoint skipped: "));
    assert_true(strstr(text, "step-00000004.safetensors: checksum") < second);
    assert_true(strstr(text, "step-00000003.safetensors: tensor 'w'") > second);
    assert_int_equal(strlen(strchr(second + 1, '\n')), 1); /* one line each */
    damage("step-00000002.safetensors", 0);
    damage("step-00000001.safetensors", 20);
    warnings_of_newest(text, sizeof text, &status);
    check_refused(status, "none of the 4 checkpoints");
}

static void nothing_there(void **state)
{
    (void)state;
    struct ls_ckpt *c = (void *)1;
    char path[PATH_BYTES];
    int n_seen = -1;
    check_refused(ls_ckpt_open_newest(&c, folder, path, &n_seen), "no checkpoint in");
    assert_null(c);
    assert_int_equal(n_seen, 0);
    check_refused(ls_ckpt_open_newest(&c, "/nonexistent/x", path, &n_seen), "/nonexistent/x");
}

static void stale_temporaries(void **state)
{
    (void)state;
    struct ls_ckpt_writer *w;
    fclose(fopen(in_folder("step-00000003.safetensors.tmp.Ab3xYz"), "w"));
    fclose(fopen(in_folder("notes.txt.tmp.1"), "w"));
    assert_int_equal(symlink("gone", in_folder("latest.safetensors.tmp.77")), 0);
    check_ok(ls_ckpt_writer_create(&w, folder, 1));
    assert_string_equal(names(), "notes.txt.tmp.1");
    ls_ckpt_writer_destroy(&w);
}

static void one_writer_per_folder(void **state)
{
    (void)state;
    struct ls_ckpt_writer *a, *b;
    check_ok(ls_ckpt_writer_create(&a, folder, 1));
    check_refused(ls_ckpt_writer_create(&b, folder, 1), "another run");
    assert_null(b);
    ls_ckpt_writer_destroy(&a);
    check_ok(ls_ckpt_writer_create(&b, folder, 1));
    ls_ckpt_writer_destroy(&b);
    assert_int_equal(ls_ckpt_writer_create(&b, folder, 0), LS_USAGE);
}

static void destroy_while_writing(void **state)
{
    (void)state;
    struct ls_ckpt_writer *w;
    for (int64_t step = 1; step <= 20; step++) {
        check_ok(ls_ckpt_writer_create(&w, folder, 1));
        check_ok(save(w, step, false));
        ls_ckpt_writer_destroy(&w); /* waits */
        check_newest(step, 1);
    }
}

static void makes_the_folder(void **state)
{
    (void)state;
    struct ls_ckpt_writer *w;
    char deep[2 * SCRATCH_BYTES];
    snprintf(deep, sizeof deep, "%s/a/b", folder);
    check_ok(ls_ckpt_writer_create(&w, deep, 1));
    check_ok(save(w, 1, false));
    check_ok(ls_ckpt_writer_finish(w));
    ls_ckpt_writer_destroy(&w);
}

static void bad_tensors(void **state)
{
    (void)state;
    struct ls_ckpt_writer *w;
    const struct ls_ckpt_tensor none = {"w", LS_F32, LS_SHAPE1(4), NULL};
    const struct ls_ckpt_tensor twice[] = {{"w", LS_F32, LS_SHAPE1(4), weights}, {"w", LS_F32, LS_SHAPE1(4), weights}};
    check_ok(ls_ckpt_writer_create(&w, folder, 1));
    check_refused(ls_ckpt_writer_submit(w, 1, false, &none, 1, NULL, 0), "no data");
    check_refused(ls_ckpt_writer_submit(w, -1, false, twice, 1, NULL, 0), "step -1");
    check_ok(ls_ckpt_writer_submit(w, 1, false, twice, 2, NULL, 0)); /* found out while writing */
    check_refused(ls_ckpt_writer_finish(w), "given twice");
    check_ok(ls_ckpt_writer_finish(w)); /* once */
    ls_ckpt_writer_destroy(&w);
    assert_string_equal(names(), "");
}

/* --- disks that fail --- */

/* A file system of our own over the folder; false where this user or container may not. */
static bool mount_small(const char *options)
{
    if (mount("lockstep-test", folder, "tmpfs", 0, options) == 0) return true;
    print_message("           mount: %s\n", strerror(errno));
    return false;
}

static void full_disk(void **state)
{
    (void)state;
    struct ls_ckpt_writer *w;
    if (!mount_small("size=160k")) {
        print_message("           SKIPPED: no tmpfs can be mounted here (needs root); a full disk is not tested\n");
        skip();
    }
    check_ok(ls_ckpt_writer_create(&w, folder, 1));
    check_ok(save(w, 1, true));
    check_ok(save(w, 2, false)); /* 2 x 64 KiB fit, the third does not */
    check_ok(save(w, 3, false));
    enum ls_status status = ls_ckpt_writer_finish(w);
    char message[1024], kept[4096];
    snprintf(message, sizeof message, "%s", ls_error_message());
    snprintf(kept, sizeof kept, "%s", names());
    check_newest(2, 1);
    check_link("latest.safetensors", "step-00000002.safetensors");
    ls_ckpt_writer_destroy(&w);
    umount(folder);
    assert_int_equal(status, LS_CHECKPOINT);
    if (!strstr(message, "No space left on device (") || !strstr(message, "step-00000003"))
        print_error("%s\n", message);
    assert_non_null(strstr(message, "step-00000003.safetensors: No space left on device ("));
    assert_non_null(strstr(message, " bytes needed)"));
    assert_string_equal(kept,
                        "best.safetensors latest.safetensors step-00000001.safetensors step-00000002.safetensors");
}

/* The same where mounting is not allowed: files of at most 32 KiB. In a child, as the limit is the process's. */
static void file_size_limit(void **state)
{
    (void)state;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct ls_ckpt_writer *w;
        if (ls_ckpt_writer_create(&w, folder, 1) != LS_OK || save(w, 1, false) != LS_OK ||
            ls_ckpt_writer_finish(w) != LS_OK)
            _exit(10);
        const struct rlimit limit = {32 << 10, 32 << 10};
        setrlimit(RLIMIT_FSIZE, &limit);
        if (save(w, 2, false) != LS_OK) _exit(11);
        if (ls_ckpt_writer_finish(w) != LS_CHECKPOINT || !strstr(ls_error_message(), "File too large")) _exit(12);
        if (save(w, 3, false) != LS_OK) _exit(13);
        if (save(w, 4, false) != LS_CHECKPOINT || !strstr(ls_error_message(), "step-00000003")) _exit(14);
        if (ls_ckpt_writer_finish(w) != LS_OK) _exit(15); /* reported once, and nothing new was taken */
        ls_ckpt_writer_destroy(&w);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_string_equal(names(), "latest.safetensors step-00000001.safetensors");
    check_newest(1, 1);
}

static void read_only_folder(void **state)
{
    (void)state;
    struct ls_ckpt_writer *w;
    bool is_mounted = geteuid() == 0 && mount_small("size=64k,ro");
    if (geteuid() == 0 && !is_mounted) {
        print_message("           SKIPPED: root, and no tmpfs can be mounted: nothing is read-only here\n");
        skip();
    }
    if (!is_mounted) chmod(folder, 0555);
    int64_t start = ls__thread_ns();
    enum ls_status status = ls_ckpt_writer_create(&w, folder, 1);
    double seconds = (double)(ls__thread_ns() - start) * 1e-9;
    if (is_mounted) umount(folder);
    chmod(folder, 0755);
    check_refused(status, "cannot be written");
    assert_null(w);
    assert_true(seconds < 1);
}

static void folder_vanishes(void **state)
{
    (void)state;
    struct ls_ckpt_writer *w;
    check_ok(ls_ckpt_writer_create(&w, folder, 1));
    assert_int_equal(rmdir(folder), 0);
    check_ok(save(w, 1, false));
    check_refused(ls_ckpt_writer_finish(w), "step-00000001.safetensors");
    check_ok(ls_ckpt_writer_finish(w));
    ls_ckpt_writer_destroy(&w);
}

/* What would make every checkpoint fail is known before there are data. Nothing is left. */
static void trial(void **state)
{
    enum { MANY = 8193, LONG = 4 << 20 };
    static struct ls_ckpt_tensor tensors[MANY];
    static char names_of[MANY][8], text[LONG];
    struct ls_ckpt_writer *w;
    struct ls_ckpt_meta meta = {"path", "/odd\xff/path"};
    for (int i = 0; i < MANY; i++) {
        snprintf(names_of[i], sizeof names_of[i], "t%d", i);
        tensors[i] = (struct ls_ckpt_tensor){.name = names_of[i], .dtype = LS_F32, .shape = {1, {3}}};
    }
    check_ok(ls_ckpt_writer_create(&w, folder, 1));
    check_ok(ls__ckpt_writer_try(w, 0, tensors, MANY - 1, &meta, 1));
    check_refused(ls__ckpt_writer_try(w, 0, tensors, MANY, &meta, 1), "8193 tensors");
    memset(text, 'x', sizeof text - 1);
    meta.value = text;
    check_refused(ls__ckpt_writer_try(w, 0, tensors, 1, &meta, 1), "header");
    tensors[0].shape = (struct ls_shape){4, {1 << 15, 1 << 15, 1 << 15, 1 << 11}};
    check_refused(ls__ckpt_writer_try(w, 0, tensors, 1, NULL, 0), "bytes needed");
    tensors[1].name = tensors[0].name = "same";
    check_refused(ls__ckpt_writer_try(w, 0, tensors, 2, NULL, 0), "twice");
    assert_string_equal(names(), "");
    ls_ckpt_writer_destroy(&w);
}

/* Metadata may be any bytes. */
static void values_of_any_bytes(void **state)
{
    static const char *const values[] = {"plain", "",       "odd\xff/path", "\xc3\xa9",     "hex:",  "hex:zz",
                                         "hex:6", "hex:00", "hex",          "\x01\x7f\x80", "HEX:41"};
    enum { N = sizeof values / sizeof *values };
    struct ls_ckpt_meta meta[N];
    static char keys[N][8];
    struct ls_ckpt *c;
    for (int i = 0; i < N; i++) {
        snprintf(keys[i], sizeof keys[i], "k%d", i);
        meta[i] = (struct ls_ckpt_meta){keys[i], values[i]};
    }
    check_ok(ls_ckpt_write(in_folder("any.safetensors"), NULL, 0, meta, N));
    check_ok(ls_ckpt_open(&c, in_folder("any.safetensors")));
    for (int i = 0; i < N; i++) assert_string_equal(ls_ckpt_meta(c, keys[i]), values[i]);
    ls_ckpt_close(&c);
}

static void takes_over(void **state)
{
    struct ls_ckpt_writer *w;
    struct ls_ckpt *c;
    struct owned o;
    char path[PATH_BYTES];
    int n_seen;
    (void)state;
    check_ok(ls_ckpt_writer_create(&w, folder, 2));
    check_ok(take(w, 3, &o, LS_OK));
    check_ok(ls_ckpt_writer_finish(w));
    assert_int_equal(o.n_completed, 1);
    assert_int_equal(o.n_released, 1); /* before finish returns: the next state finds the memory free */
    assert_true(o.was_elsewhere);
    check_ok(ls_ckpt_open_newest(&c, folder, path, &n_seen));
    assert_string_equal(ls_ckpt_meta(c, "hash"), "done");
    assert_true(((const float *)ls_ckpt_find(c, "w")->data)[7] == 3);
    ls_ckpt_close(&c);
    check_refused(take(w, -1, &o, LS_OK), "cannot be saved");
    assert_int_equal(o.n_released, 1);
    check_ok(take(w, 4, &o, LS_INTERNAL));
    check_refused(ls_ckpt_writer_finish(w), "no hash today");
    assert_int_equal(o.n_released, 1);
    assert_int_not_equal(access(in_folder("step-00000004.safetensors"), F_OK), 0);
    ls_ckpt_writer_destroy(&w);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(retention_and_best),
        TEST(best_outlives_the_process),
        TEST(going_back),
        TEST(long_steps),
        TEST(fallback),
        TEST(nothing_there),
        TEST(stale_temporaries),
        TEST(one_writer_per_folder),
        TEST(destroy_while_writing),
        TEST(makes_the_folder),
        TEST(bad_tensors),
        TEST(full_disk),
        TEST(file_size_limit),
        TEST(read_only_folder),
        TEST(folder_vanishes),
        TEST(trial),
        TEST(values_of_any_bytes),
        TEST(takes_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
