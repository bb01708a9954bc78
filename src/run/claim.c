/* claim.c: whose run directory is it? Looks before anything is written, then takes the lock and looks again.
 *
 *     a manifest.json of ours           a run: for --resume only
 *     nothing                           free
 *     what a run of ours leaves that    free: `lock`, an empty metrics.jsonl, an empty checkpoints/, temporaries
 *     ended before its manifest
 *     anything else                     somebody else's: refused, whatever was asked
 */
#include "base/log.h"
#include "base/quote.h"
#include "run/run_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MANIFEST_MAX_BYTES = 64 << 20, LOCK_BYTES = 32, LEAVING_MAX_NAPS = 3000 };

static const char manifest_name[] = "manifest.json", manifest_mark[] = "lockstep_version";

/* --- what is there --- */

static bool is_all_digits(const char *text)
{
    return text[strspn(text, "0123456789\n")] == '\0';
}

struct look {
    const struct ls_dir *dir;
    char foreign[256];      /* the first name that is not ours */
    enum ls_status failure; /* LS_NOMEM: it was not looked at */
};

/* What cannot be read is not ours; what there is no memory for is not known. */
static bool has_read(struct look *l, enum ls_status status)
{
    if (status == LS_NOMEM) l->failure = status;
    return status == LS_OK;
}

/* The number of a process, or nothing yet. */
static bool is_our_lock(struct look *l)
{
    char *text;
    size_t len;
    if (!has_read(l, ls__dir_read(l->dir, "lock", LOCK_BYTES, &text, &len, LS_CHECKPOINT))) return false;
    bool is_ours = strlen(text) == len && is_all_digits(text);
    free(text);
    return is_ours;
}

static bool is_temporary(void *arg, const char *name)
{
    bool *is_free = arg;
    *is_free = strstr(name, ".safetensors.tmp.") != NULL;
    return *is_free;
}

static bool is_folder_free(struct look *l, const char *name)
{
    struct ls_dir d;
    bool is_free = true;
    if (!has_read(l, ls__dir_open_below(&d, l->dir, name, LS_CHECKPOINT))) return false; /* it is there: none is made */
    bool is_read = ls__dir_each(&d, is_temporary, &is_free);
    ls__dir_close(&d);
    return is_read && is_free;
}

static bool look_at(void *arg, const char *name)
{
    struct look *l = arg;
    struct stat st;
    if (fstatat(l->dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) return true; /* gone */
    bool is_file = S_ISREG(st.st_mode), is_ours = false;
    if (strcmp(name, "lock") == 0) is_ours = is_file && is_our_lock(l);
    if (strcmp(name, "metrics.jsonl") == 0) is_ours = is_file && st.st_size == 0;
    if (strcmp(name, "checkpoints") == 0) is_ours = S_ISDIR(st.st_mode) && is_folder_free(l, name);
    if (strncmp(name, "manifest.json.tmp.", 18) == 0) is_ours = is_file;
    if (!is_ours) snprintf(l->foreign, sizeof l->foreign, "%s", name);
    return is_ours;
}

static enum ls_status check_free(const struct ls_dir *d)
{
    struct look l = {.dir = d};
    if (!ls__dir_each(d, look_at, &l))
        return ls_fail(LS_CHECKPOINT, "read run directory %s: %s", d->path, strerror(errno));
    if (l.failure != LS_OK || !*l.foreign) return l.failure;
    return ls_fail(LS_CHECKPOINT,
                   "%s is not empty and holds no run (%s is there, a %s of ours is not): choose another --run; to go "
                   "on from a checkpoint, name the file with --resume",
                   d->path, l.foreign, manifest_name);
}

/* --resume will write here: it must be ours, not just anything with a manifest.json. */
static enum ls_status check_manifest(const struct ls_dir *d)
{
    char *text;
    size_t len;
    enum ls_status status = ls__dir_read(d, manifest_name, MANIFEST_MAX_BYTES, &text, &len, LS_CHECKPOINT);
    if (status != LS_OK) return ls_fail_in(ls__run_unusable(status), "resume");
    json_t *manifest = json_loadb(text, len, 0, NULL);
    bool is_ours = json_is_string(json_object_get(manifest, manifest_mark));
    json_decref(manifest);
    free(text);
    if (is_ours) return LS_OK;
    return ls_fail(LS_CHECKPOINT,
                   "%s/%s is damaged or not of a run of ours (it has no %s): choose another --run; to go on from a "
                   "checkpoint, name the file with --resume",
                   d->path, manifest_name, manifest_mark);
}

static enum ls_status check(struct ls_run *run, bool is_resume)
{
    struct stat st;
    run->is_new = false;
    bool has_manifest = fstatat(run->dir.fd, manifest_name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (has_manifest && !is_resume) {
        char quoted[LS_QUOTED_BYTES];
        return ls_fail(LS_CHECKPOINT,
                       "%s already holds a run; give another --run, or go on with: lockstep train --resume %s",
                       run->dir.path, ls__quote_path(run->dir.path, quoted, sizeof quoted));
    }
    if (has_manifest) return check_manifest(&run->dir);
    TRY(check_free(&run->dir));
    run->is_new = true;
    return LS_OK;
}

/* --- the lock --- */

static long lock_holder(int fd)
{
    char text[LOCK_BYTES] = "";
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    return n > 0 ? strtol(text, NULL, 10) : 0;
}

/* Who holds the lock is about to let go: it is ending already, or the launcher that started it is gone, and what that
 * has started ends after it. A launcher that was killed is followed by the next one at once, and that must not be
 * refused because of the old one's workers. */
static bool is_leaving(long pid)
{
    char path[64], text[65536], own[64] = "", host[64];
    long launcher;
    snprintf(path, sizeof path, "/proc/%ld/environ", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return pid > 0 && (errno == ENOENT || errno == ESRCH);
    ssize_t n = read(fd, text, sizeof text - 1);
    bool is_ending = n == 0 || (n < 0 && errno == ESRCH); /* its memory went first */
    close(fd);
    if (n <= 0) return is_ending;
    text[n] = '\0';
    gethostname(own, sizeof own - 1);
    for (const char *at = text; at < text + n; at += strlen(at) + 1)
        if (sscanf(at, "LOCKSTEP_LAUNCH=%*[^:]:%ld:%63[^:]", &launcher, host) == 2)
            return strcmp(host, own) == 0 && kill((pid_t)launcher, 0) != 0 && errno == ESRCH;
    return false;
}

/* Not blocking, but for a holder that is leaving. */
static int lock(int fd, int how)
{
    static const struct timespec nap = {.tv_nsec = 10 * 1000000L};
    for (int i = 0;; i++) {
        if (flock(fd, how | LOCK_NB) == 0) return 0;
        if (errno != EWOULDBLOCK) return -1;
        if (i >= LEAVING_MAX_NAPS || !is_leaving(lock_holder(fd))) break;
        nanosleep(&nap, NULL);
    }
    errno = EWOULDBLOCK;
    return -1;
}

static enum ls_status refuse_locked(struct ls_run *run)
{
    long pid = lock_holder(run->lock_fd);
    close(run->lock_fd);
    run->lock_fd = -1; /* not ours */
    if (pid > 0)
        return ls_fail(LS_CHECKPOINT, "run directory %s is in use by process %ld; wait for it or choose another --run",
                       run->dir.path, pid);
    return ls_fail(LS_CHECKPOINT, "run directory %s is in use by another process; wait for it or choose another --run",
                   run->dir.path);
}

/* The plainest reason to refuse comes first. Nothing is made, and what cannot be asked is found out later. */
static enum ls_status check_unused(struct ls_run *run)
{
    if (ls__dir_open_file(&run->dir, "lock", O_RDONLY, &run->lock_fd, LS_CHECKPOINT) != LS_OK) return LS_OK;
    if (lock(run->lock_fd, LOCK_SH) != 0 && errno == EWOULDBLOCK) return refuse_locked(run);
    close(run->lock_fd);
    run->lock_fd = -1;
    return LS_OK;
}

/* Also the test whether the directory can be written at all: a file is made and bytes are put into it. */
static enum ls_status take_lock(struct ls_run *run)
{
    char pid[LOCK_BYTES];
    struct stat st;
    if (ls__dir_open_file(&run->dir, "lock", O_RDWR | O_CREAT, &run->lock_fd, LS_CHECKPOINT) != LS_OK)
        return ls_fail_in(LS_CHECKPOINT, "run directory %s cannot be written (choose another with --run)",
                          run->dir.path);
    if (lock(run->lock_fd, LOCK_EX) != 0) {
        if (errno == EWOULDBLOCK) return refuse_locked(run);
        ls__log(LS_LOG_WARN, "%s/lock: this file system has no locks (%s); do not train into it twice at a time",
                run->dir.path, strerror(errno));
    }
    if (fstat(run->lock_fd, &st) == 0 && st.st_nlink == 0) return refuse_locked(run); /* its owner is just leaving */
    int n = snprintf(pid, sizeof pid, "%010ld\n", (long)getpid()); /* one length: the directory looks the same after */
    if (ftruncate(run->lock_fd, 0) != 0 || pwrite(run->lock_fd, pid, (size_t)n, 0) != n)
        return ls_fail(LS_CHECKPOINT, "run directory %s cannot be written: %s; free some space or choose another --run",
                       run->dir.path, errno ? strerror(errno) : "short write");
    return LS_OK;
}

enum ls_status ls__run_claim(struct ls_run *run, bool is_resume)
{
    TRY(check_unused(run));
    TRY(check(run, is_resume));
    TRY(take_lock(run));
    return check(run, is_resume); /* another may have come and gone between */
}
