/* preload_fail.c: for LD_PRELOAD: the n-th call of one function on files below one place fails.
 *
 *     LOCKSTEP_TEST_FAIL=CALL:ERRNO:N:PLACE:MARK     as fsync:5:3:/tmp/x/run:/tmp/x/fired
 *
 * Counts the calls whose path, or whose descriptor's, contains PLACE; the N-th and all after it fail with ERRNO, as a
 * full disk would go on failing. MARK is made when the first one does. Without the variable nothing fails.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
    char call[32], place[512], mark[512];
    int error, n;
} fault;

static atomic_int n_calls;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_fault(void)
{
    const char *text = getenv("LOCKSTEP_TEST_FAIL");
    if (text && sscanf(text, "%31[^:]:%d:%d:%511[^:]:%511[^:]", fault.call, &fault.error, &fault.n, fault.place,
                       fault.mark) != 5)
        abort();
}

static bool is_due(const char *call, const char *path)
{
    pthread_once(&once, read_fault);
    if (fault.n == 0 || strcmp(call, fault.call) != 0 || !strstr(path, fault.place)) return false;
    int nth = atomic_fetch_add(&n_calls, 1) + 1;
    if (nth == fault.n) close((int)syscall(SYS_openat, AT_FDCWD, fault.mark, O_CREAT | O_WRONLY, 0600));
    if (nth >= fault.n) errno = fault.error;
    return nth >= fault.n;
}

/* The path of what an open descriptor stands for; "" if there is none. */
static const char *path_of(int fd, char out[1024])
{
    char link[64];
    int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, out, 1023);
    out[len > 0 ? len : 0] = '\0';
    errno = before;
    return out;
}

/* A path as it was given below a folder that was opened before. */
static const char *path_at(int folder, const char *name, char out[2048])
{
    char base[1024] = "";
    if (*name != '/' && folder >= 0) path_of(folder, base);
    snprintf(out, 2048, "%s/%s", base, name);
    return out;
}

#define REAL(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

#define BY_FD(type, name, params, args)                                                                                \
    type name params                                                                                                   \
    {                                                                                                                  \
        char path[1024];                                                                                               \
        return is_due(#name, path_of(fd, path)) ? -1 : REAL(name) args;                                                \
    }
BY_FD(ssize_t, write, (int fd, const void *data, size_t n), (fd, data, n))
BY_FD(ssize_t, pwrite, (int fd, const void *data, size_t n, off_t at), (fd, data, n, at))
BY_FD(int, fsync, (int fd), (fd))
BY_FD(int, flock, (int fd, int how), (fd, how))
BY_FD(int, ftruncate, (int fd, off_t bytes), (fd, bytes))

int posix_fallocate(int fd, off_t at, off_t bytes)
{
    char path[1024];
    return is_due("fallocate", path_of(fd, path)) ? fault.error : REAL(posix_fallocate)(fd, at, bytes);
}

int fallocate(int fd, int mode, off_t at, off_t bytes)
{
    char path[1024];
    return is_due("fallocate", path_of(fd, path)) ? -1 : REAL(fallocate)(fd, mode, at, bytes);
}

int rename(const char *from, const char *to)
{
    return is_due("rename", to) ? -1 : REAL(rename)(from, to);
}

int renameat(int from_folder, const char *from, int folder, const char *to)
{
    char path[2048];
    return is_due("rename", path_at(folder, to, path)) ? -1 : REAL(renameat)(from_folder, from, folder, to);
}

int mkdir(const char *path, mode_t mode)
{
    return is_due("mkdir", path) ? -1 : REAL(mkdir)(path, mode);
}

int mkdirat(int folder, const char *name, mode_t mode)
{
    char path[2048];
    return is_due("mkdir", path_at(folder, name, path)) ? -1 : REAL(mkdirat)(folder, name, mode);
}

static mode_t mode_of(int flags, va_list args)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return is_due("open", path) ? -1 : REAL(open)(path, flags, mode);
}

int openat(int folder, const char *name, int flags, ...)
{
    char path[2048];
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return is_due("open", path_at(folder, name, path)) ? -1 : REAL(openat)(folder, name, flags, mode);
}

int memfd_create(const char *name, unsigned flags)
{
    return is_due("memfd_create", name) ? -1 : REAL(memfd_create)(name, flags);
}
