/* launch_state.c: the folder in memory where the ranks leave copies of their state for the next attempt
 * (train/rescue.h).
 *
 * /dev/shm/lockstep-XXXXXX, for this user only. As long as its launcher lives, the file `owner` in it is locked; it
 * gets its name with the lock on. So a folder whose `owner` can be locked belongs to nobody, and the next start removes
 * it. On the other hosts of a job there is no `owner`; there the ranks lock `guest`. Between two attempts nobody does,
 * so such a folder must also have been quiet for a while.
 */
#include "cli/launch_state.h"

#include "base/log.h"
#include "cli/launch_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char place[] = "/dev/shm", prefix[] = "lockstep-";
enum { BEING_MADE_S = 60, QUIET_S = 600 };

static void remove_folder(const char *folder)
{
    char *const rm[] = {"rm", "-rf", "--", (char *)folder, NULL};
    ls__launch_run_briefly(rm);
}

/* -1: there is no such file in the folder; else whether nobody has locked it. */
static int is_unlocked(const char *folder, const char *name)
{
    char path[LS_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT ? -1 : 0;
    bool is_free = flock(fd, LOCK_EX | LOCK_NB) == 0;
    close(fd);
    return is_free;
}

/* When something last came or went in it or in the folders of its machines. */
static time_t changed_at(const char *folder)
{
    struct stat at;
    time_t last = stat(folder, &at) == 0 ? at.st_mtime : 0;
    DIR *dir = opendir(folder);
    if (!dir) return last;
    for (const struct dirent *d; (d = readdir(dir));)
        if (fstatat(dirfd(dir), d->d_name, &at, AT_SYMLINK_NOFOLLOW) == 0 && strcmp(d->d_name, "..") != 0 &&
            at.st_mtime > last)
            last = at.st_mtime;
    closedir(dir);
    return last;
}

/* Whether it is ours, and nobody needs it any more. */
static bool is_left_behind(const char *folder)
{
    struct stat at;
    const char *own = getenv("LOCKSTEP_RESCUE");
    if (lstat(folder, &at) != 0 || !S_ISDIR(at.st_mode) || at.st_uid != geteuid()) return false;
    if (own && strcmp(own, folder) == 0) return false; /* of the attempt before */
    int by_launcher = is_unlocked(folder, "owner"), by_ranks = is_unlocked(folder, "guest");
    if (by_launcher >= 0) return by_launcher;
    return by_ranks != 0 && time(NULL) - changed_at(folder) > (by_ranks > 0 ? QUIET_S : BEING_MADE_S);
}

void ls__state_remove_left(void)
{
    DIR *dir = opendir(place);
    if (!dir) return;
    for (const struct dirent *d; (d = readdir(dir));) {
        char folder[sizeof place + 1 + sizeof d->d_name];
        if (strncmp(d->d_name, prefix, strlen(prefix)) != 0) continue;
        snprintf(folder, sizeof folder, "%s/%s", place, d->d_name);
        if (is_left_behind(folder)) remove_folder(folder);
    }
    closedir(dir);
}

static bool take(struct ls_state *s)
{
    char fresh[LS_PATH_BYTES], path[LS_PATH_BYTES];
    snprintf(s->folder, sizeof s->folder, "%s/%sXXXXXX", place, prefix);
    if (!mkdtemp(s->folder)) return false;
    snprintf(fresh, sizeof fresh, "%s/owner.new", s->folder);
    snprintf(path, sizeof path, "%s/owner", s->folder);
    s->lock = open(fresh, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return s->lock >= 0 && flock(s->lock, LOCK_EX | LOCK_NB) == 0 && rename(fresh, path) == 0;
}

void ls__state_open(struct ls_state *s)
{
    if (take(s)) {
        setenv("LOCKSTEP_RESCUE", s->folder, 1);
        return;
    }
    ls__log(LS_LOG_WARN, "no folder for copies of the state in %s: %s; a restart goes on from the newest checkpoint",
            place, strerror(errno));
    ls__state_close(s);
}

void ls__state_close(struct ls_state *s)
{
    if (s->lock < 0) return;
    remove_folder(s->folder);
    close(s->lock);
    s->lock = -1;
}
