/* scan.c: the runs below a folder. Links are not followed: they lead elsewhere, or in circles. */
#include "serve/site.h"

#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct scan {
    char **paths;
    int n, max, cap;
    int n_folders; /* entered so far: a folder of millions is not searched for ever */
};
enum { MOST_FOLDERS = 20000 };

static bool has_file(const char *folder, const char *name)
{
    char path[LS_PATH_BYTES];
    struct stat st;
    return ls__path_join(path, sizeof path, folder, name) == LS_OK && lstat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static enum ls_status add(struct scan *s, const char *path)
{
    if (s->n == s->cap) {
        TRY(ls__grow(&s->paths, (size_t)s->cap, (size_t)s->cap * 2 + 16, sizeof *s->paths));
        s->cap = s->cap * 2 + 16;
    }
    TRY(ls__strdup(&s->paths[s->n], path));
    s->n++;
    return LS_OK;
}

static bool is_folder(const char *path, const struct dirent *e)
{
    struct stat st;
    if (e->d_type != DT_UNKNOWN) return e->d_type == DT_DIR;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* A run's own folders are not entered. */
static enum ls_status search(struct scan *s, const char *dir, int depth) /* NOLINT(misc-no-recursion): LS_SITE_DEPTH */
{
    enum ls_status status = LS_OK;
    if (s->n == s->max || ++s->n_folders > MOST_FOLDERS) return LS_OK;
    if (has_file(dir, "manifest.json") || has_file(dir, "metrics.jsonl")) return add(s, dir);
    DIR *folder = depth < LS_SITE_DEPTH ? opendir(dir) : NULL;
    for (struct dirent *e; folder && status == LS_OK && (e = readdir(folder));) {
        char path[LS_PATH_BYTES];
        if (e->d_name[0] == '.' || ls__path_join(path, sizeof path, dir, e->d_name) != LS_OK) continue;
        if (is_folder(path, e)) status = search(s, path, depth + 1);
    }
    if (folder) closedir(folder);
    return status;
}

enum ls_status ls__site_scan(const char *dir, char ***paths, int *n, int max)
{
    struct scan s = {.max = max};
    struct stat st;
    enum ls_status status = LS_OK;
    if (stat(dir, &st) != 0)
        status = ls_fail(LS_IO, "open %s: %s; name the folder that holds the runs", dir, strerror(errno));
    else if (!S_ISDIR(st.st_mode))
        status = ls_fail(LS_USAGE, "%s is not a folder; name one with runs in it", dir);
    else
        status = search(&s, dir, 0);
    *paths = s.paths;
    *n = s.n;
    return status;
}
