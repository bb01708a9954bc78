/* test_file.c: files are read within limits and written whole or not at all. */
#include "base/clock.h"
#include "base/dir.h"
#include "base/mem.h"
#include "engine.h"
#include "scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[SCRATCH_BYTES];

static int make_dir(void **state)
{
    return mkdtemp(scratch_name(dir, "file", "")) ? 0 : -1;
}

static int remove_dir(void **state)
{
    char command[LS_PATH_BYTES + 32];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

static const char *at(const char *name)
{
    static char path[LS_PATH_BYTES];
    check_ok(ls__path_join(path, sizeof path, dir, name));
    return path;
}

/* Entries of a folder, "." and ".." apart. */
static int n_entries(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void check_holds(const char *path, const char *want)
{
    char *data;
    size_t len;
    check_ok(ls__file_read(path, 1000, &data, &len));
    assert_string_equal(data, want);
    assert_int_equal(len, strlen(want));
    free(data);
}

static enum ls_status write_text(const char *path, const char *text)
{
    const struct ls_piece pieces[3] = {
        {text, strlen(text) / 2}, {NULL, 0}, {text + strlen(text) / 2, (strlen(text) + 1) / 2}};
    return ls__file_write_atomic(path, pieces, 3, LS_CHECKPOINT);
}

static void test_write_and_read(void **state)
{
    struct stat st;
    check_ok(write_text(at("a"), "hello"));
    check_holds(at("a"), "hello");
    check_ok(write_text(at("a"), "longer than before"));
    check_holds(at("a"), "longer than before");
    check_ok(write_text(at("a"), ""));
    check_holds(at("a"), "");
    assert_int_equal(stat(at("a"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0644);
    assert_int_equal(n_entries(dir), 1); /* no temporary is left */
    assert_int_equal(unlink(at("a")), 0);
}

/* "name" without a folder means the current one. */
static void test_write_here(void **state)
{
    char old[LS_PATH_BYTES];
    assert_non_null(getcwd(old, sizeof old));
    assert_int_equal(chdir(dir), 0);
    check_ok(write_text("bare", "x"));
    check_holds("bare", "x");
    assert_int_equal(unlink("bare"), 0);
    assert_int_equal(chdir(old), 0);
}

/* In a child, which root leaves its powers behind for: nobody may write into the folder. Exit code 0: as it should. */
static void write_as_nobody(const char *file)
{
    if (geteuid() == 0 && setuid(65534) != 0) _exit(2);
    enum ls_status status = write_text(file, "new");
    _exit(status == LS_CHECKPOINT && strstr(ls_error_message(), file) ? 0 : 1);
}

static void test_read_only_folder(void **state)
{
    char folder[LS_PATH_BYTES], file[LS_PATH_BYTES];
    int wstatus = -1;
    check_ok(ls__path_join(folder, sizeof folder, dir, "locked"));
    check_ok(ls__path_join(file, sizeof file, folder, "f"));
    check_ok(ls__mkdirs(folder));
    check_ok(write_text(file, "old"));
    assert_int_equal(chmod(dir, 0755), 0);
    assert_int_equal(chmod(folder, 0555), 0);
    pid_t pid = fork();
    if (pid == 0) write_as_nobody(file);
    assert_int_equal(waitpid(pid, &wstatus, 0), pid);
    assert_int_equal(wstatus, 0);
    check_holds(file, "old");
    assert_int_equal(n_entries(folder), 1);
    assert_int_equal(chmod(folder, 0755), 0);
}

static void test_no_such_folder(void **state)
{
    check_fails(write_text(at("absent/f"), "x"), LS_CHECKPOINT, "absent/f");
    assert_false(ls__dir_exists(at("absent")));
}

/* In a child, which may write 4096 bytes per file and does not die of the signal. Exit code 0: it went as it should. */
static void write_beyond_limit(const char *file)
{
    static char big[8192];
    const struct rlimit limit = {4096, 4096};
    const struct ls_piece piece = {big, sizeof big};
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(2);
    enum ls_status status = ls__file_write_atomic(file, &piece, 1, LS_IO);
    _exit(status == LS_IO && strstr(ls_error_message(), file) ? 0 : 1);
}

static void test_file_size_limit(void **state)
{
    char file[LS_PATH_BYTES], folder[LS_PATH_BYTES];
    int wstatus = -1;
    check_ok(ls__path_join(folder, sizeof folder, dir, "limited"));
    check_ok(ls__path_join(file, sizeof file, folder, "f"));
    check_ok(ls__mkdirs(folder));
    check_ok(write_text(file, "old"));
    pid_t pid = fork();
    if (pid == 0) write_beyond_limit(file);
    assert_int_equal(waitpid(pid, &wstatus, 0), pid);
    assert_int_equal(wstatus, 0);
    check_holds(file, "old");
    assert_int_equal(n_entries(folder), 1);
}

static void test_read_limits(void **state)
{
    char *data = NULL;
    size_t len;
    check_ok(write_text(at("ten"), "0123456789"));
    check_ok(ls__file_read(at("ten"), 10, &data, &len));
    assert_int_equal(data[10], '\0');
    free(data);
    check_fails(ls__file_read(at("ten"), 9, &data, &len), LS_IO, "has 10 bytes, more than the 9 allowed");
    assert_null(data);
    check_fails(ls__file_read(at("nothing"), 9, &data, &len), LS_IO, "No such file");
    check_fails(ls__file_read(dir, 9, &data, &len), LS_IO, "is not a regular file");
    check_fails(ls__file_read("/dev/zero", 9, &data, &len), LS_IO, "is not a regular file");
}

/* Opening a fifo nobody writes to would wait for ever. The alarm ends the test if it does. */
static void test_fifo(void **state)
{
    char *data;
    size_t len;
    struct ls_map map;
    assert_int_equal(mkfifo(at("fifo"), 0600), 0);
    alarm(10);
    check_fails(ls__file_read(at("fifo"), 100, &data, &len), LS_IO, "is not a regular file");
    check_fails(ls__map_open(at("fifo"), &map), LS_IO, "is not a regular file");
    alarm(0);
    assert_false(ls__file_exists(at("fifo")));
}

static void test_map(void **state)
{
    struct ls_map map;
    check_ok(write_text(at("mapped"), "abc"));
    check_ok(ls__map_open(at("mapped"), &map));
    assert_int_equal(map.len, 3);
    assert_memory_equal(map.data, "abc", 3);
    ls__map_close(&map);
    assert_null(map.data);
    check_ok(write_text(at("mapped"), ""));
    check_ok(ls__map_open(at("mapped"), &map));
    assert_null(map.data);
    assert_int_equal(map.len, 0);
    ls__map_close(&map);
    ls__map_close(&map);
}

static void test_mkdirs(void **state)
{
    char deep[LS_PATH_BYTES], file[LS_PATH_BYTES];
    check_ok(ls__path_join(deep, sizeof deep, dir, "x//y/z/"));
    check_ok(ls__mkdirs(deep));
    check_ok(ls__mkdirs(deep)); /* again is fine */
    assert_true(ls__dir_exists(deep));
    check_ok(ls__path_join(file, sizeof file, dir, "x/file"));
    check_ok(write_text(file, "1"));
    check_fails(ls__mkdirs(file), LS_IO, "is not a folder");
    check_ok(ls__path_join(deep, sizeof deep, file, "below"));
    check_fails(ls__mkdirs(deep), LS_IO, "make folder");
    check_fails(ls__mkdirs(""), LS_IO, "bad folder name");
}

static void test_long_path(void **state)
{
    char path[LS_PATH_BYTES + 100];
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    check_fails(write_text(path, "x"), LS_CHECKPOINT, "path too long");
    check_fails(ls__mkdirs(path), LS_IO, "bad folder name");
    path[LS_PATH_BYTES - 12] = '\0'; /* the temporary's name just fits; the system refuses so long a name */
    check_fails(write_text(path, "x"), LS_CHECKPOINT, "create");
}

/* --- folders held open --- */

static void test_private_folder(void **state)
{
    struct ls_dir d;
    struct stat st;
    check_ok(ls__dir_open_private(&d, at("private"), LS_CHECKPOINT));
    assert_int_equal(fstat(d.fd, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    ls__dir_close(&d);
    check_ok(ls__dir_open_private(&d, at("private"), LS_CHECKPOINT)); /* again, as after a restart */
    ls__dir_close(&d);
    assert_int_equal(chmod(at("private"), 0750), 0);
    check_fails(ls__dir_open_private(&d, at("private"), LS_CHECKPOINT), LS_CHECKPOINT, "was not made by us");
    assert_int_equal(d.fd, -1);
    assert_int_equal(chmod(at("private"), 0700), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(at("private"), 65534, 65534), 0);
        check_fails(ls__dir_open_private(&d, at("private"), LS_CHECKPOINT), LS_CHECKPOINT, "was not made by us");
        assert_int_equal(chown(at("private"), 0, 0), 0);
    }
    assert_int_equal(symlink("private", at("link")), 0);
    check_fails(ls__dir_open_private(&d, at("link"), LS_CHECKPOINT), LS_CHECKPOINT, "is not a folder");
}

/* Nothing is opened for writing that is not a regular file of that very name. */
static void test_only_regular_files(void **state)
{
    struct ls_dir d, below;
    int fd;
    check_ok(write_text(at("target"), "precious"));
    assert_int_equal(symlink("target", at("to-file")), 0);
    assert_int_equal(symlink("absent-target", at("to-nothing")), 0);
    assert_int_equal(symlink(".", at("to-folder")), 0);
    assert_int_equal(mkfifo(at("pipe"), 0600), 0);
    check_ok(ls__dir_open(&d, dir, LS_IO));
    alarm(300); /* a fifo would wait for ever */
    const char *const names[] = {"to-file", "to-nothing", "to-folder", "pipe", "."};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        check_fails(ls__dir_open_file(&d, names[i], O_WRONLY | O_CREAT | O_APPEND, &fd, LS_IO), LS_IO, "regular file");
        assert_int_equal(fd, -1);
    }
    check_fails(ls__dir_open_below(&below, &d, "to-folder", LS_IO), LS_IO, "is not a folder");
    check_fails(ls__dir_open_below(&below, &d, "pipe", LS_IO), LS_IO, "is not a folder");
    const struct ls_piece piece = {"new", 3};
    check_ok(ls__dir_write_atomic(&d, "to-file", &piece, 1, LS_IO)); /* replaced, not followed */
    check_ok(ls__dir_write_atomic(&d, "pipe", &piece, 1, LS_IO));
    alarm(0);
    ls__dir_close(&d);
    check_holds(at("to-file"), "new");
    check_holds(at("target"), "precious");
    assert_false(ls__file_exists(at("absent-target")));
}

/* Devices, fifos and /dev/stdout are written into, never renamed over. */
static void test_streams_stay(void **state)
{
    struct stat st;
    char got[16] = {0}, through[64];
    assert_int_equal(symlink("/dev/full", at("full")), 0);
    check_fails(write_text(at("full"), "x"), LS_CHECKPOINT, strerror(ENOSPC));
    assert_int_equal(lstat(at("full"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    if (geteuid() == 0 && mknod(at("null"), S_IFCHR | 0600, makedev(1, 3)) == 0) {
        check_ok(write_text(at("null"), "x"));
        assert_int_equal(lstat(at("null"), &st), 0);
        assert_true(S_ISCHR(st.st_mode));
    }
    assert_int_equal(mkfifo(at("read-fifo"), 0600), 0);
    alarm(300); /* a fifo would wait for ever */
    check_fails(write_text(at("read-fifo"), "x"), LS_CHECKPOINT, "nobody reads");
    int fd = open(at("read-fifo"), O_RDONLY | O_NONBLOCK);
    assert_true(fd >= 0);
    check_ok(write_text(at("read-fifo"), "through"));
    assert_int_equal(read(fd, got, sizeof got), 7);
    alarm(0);
    assert_string_equal(got, "through");
    close(fd);
    check_ok(write_text(at("regular"), "old"));
    fd = open(at("regular"), O_RDWR | O_APPEND);
    snprintf(through, sizeof through, "/proc/self/fd/%d", fd); /* what /dev/stdout is a link to */
    check_ok(write_text(through, "new"));
    close(fd);
    check_holds(at("regular"), "oldnew"); /* what stood there stays */
}

static void test_trial_leaves_nothing(void **state)
{
    struct ls_dir d;
    char folder[LS_PATH_BYTES];
    const struct ls_piece head = {"head", 4};
    check_ok(ls__path_join(folder, sizeof folder, dir, "trial"));
    check_ok(ls__mkdirs(folder));
    check_ok(ls__dir_open(&d, folder, LS_IO));
    check_ok(ls__dir_try_write(&d, "f", &head, 10000, LS_IO));
    check_fails(ls__dir_try_write(&d, "f", &head, (size_t)1 << 60, LS_IO), LS_IO, "bytes needed");
    ls__dir_close(&d);
    assert_int_equal(n_entries(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_write_and_read),
        cmocka_unit_test(test_write_here),
        cmocka_unit_test(test_read_only_folder),
        cmocka_unit_test(test_no_such_folder),
        cmocka_unit_test(test_file_size_limit),
        cmocka_unit_test(test_read_limits),
        cmocka_unit_test(test_fifo),
        cmocka_unit_test(test_map),
        cmocka_unit_test(test_mkdirs),
        cmocka_unit_test(test_long_path),
        cmocka_unit_test(test_private_folder),
        cmocka_unit_test(test_only_regular_files),
        cmocka_unit_test(test_streams_stay),
        cmocka_unit_test(test_trial_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
