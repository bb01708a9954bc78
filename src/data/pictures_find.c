/* pictures_find.c: the pictures that a command line names: files as they are, folders with all that lies below.
 *
 * Names that begin with a dot are passed over. Links are followed, but not back into a folder that is being listed.
 */
#include "base/file.h"
#include "data/pictures.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { MAX_DEPTH = 64 };

/* A folder that is being listed, and those above it. */
struct level {
    const struct level *above;
    dev_t device;
    ino_t inode;
    int depth;
};

bool ls__picture_is_named(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && (!strcasecmp(dot, ".png") || !strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg"));
}

static bool is_within_itself(const struct level *level, const struct stat *st)
{
    for (; level; level = level->above)
        if (level->device == st->st_dev && level->inode == st->st_ino) return true;
    return false;
}

static enum ls_status add_folder(const char *path, const struct level *above, struct ls_names *files);

static enum ls_status add_entry(const char *folder, const char *name, const struct level *level, struct ls_names *files)
{
    char path[LS_PATH_BYTES];
    struct stat st;
    if (name[0] == '.') return LS_OK;
    TRY(ls__path_join(path, sizeof path, folder, name));
    bool is_there = stat(path, &st) == 0;
    if (is_there && S_ISDIR(st.st_mode)) return add_folder(path, level, files);
    return ls__picture_is_named(name) ? ls__names_add(files, path) : LS_OK; /* a dangling link too: reading tells */
}

static enum ls_status add_folder(const char *path, const struct level *above, struct ls_names *files)
{
    struct stat st;
    struct dirent *entry;
    enum ls_status status = LS_OK;
    DIR *dir = opendir(path);
    if (!dir) return ls_fail(LS_DATA, "open folder %s: %s", path, strerror(errno));
    struct level level = {.above = above, .depth = above ? above->depth + 1 : 0};
    if (fstat(dirfd(dir), &st) == 0 && !is_within_itself(above, &st) && level.depth < MAX_DEPTH) {
        level.device = st.st_dev;
        level.inode = st.st_ino;
        while (status == LS_OK && (errno = 0, entry = readdir(dir)))
            status = add_entry(path, entry->d_name, &level, files);
        if (status == LS_OK && errno) status = ls_fail(LS_DATA, "read folder %s: %s", path, strerror(errno));
    }
    closedir(dir);
    return status;
}

enum ls_status ls__pictures_find(const char *const *what, int n_what, struct ls_names *files)
{
    for (int i = 0; i < n_what; i++) {
        size_t first = files->n;
        if (!ls__dir_exists(what[i])) {
            TRY(ls__names_add(files, what[i]));
            continue;
        }
        TRY(add_folder(what[i], NULL, files));
        if (files->n == first) return ls_fail(LS_DATA, "%s: no .png, .jpg or .jpeg files in this folder", what[i]);
        ls__names_sort(files, first);
    }
    return LS_OK;
}
