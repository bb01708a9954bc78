/* find.c: the runs in a folder. */
#include "base/mem.h"
#include "history/history.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_run(const char *path)
{
    char file[LS_PATH_BYTES + 32];
    struct stat st;
    snprintf(file, sizeof file, "%s/manifest.json", path);
    if (lstat(file, &st) == 0 && S_ISREG(st.st_mode)) return true;
    snprintf(file, sizeof file, "%s/metrics.jsonl", path);
    return lstat(file, &st) == 0 && S_ISREG(st.st_mode);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static enum ls_status add(char ***names, size_t *n, const char *path)
{
    TRY(ls__grow(names, *n, *n + 1, sizeof **names));
    TRY(ls__strdup(&(*names)[*n], path));
    ++*n;
    return LS_OK;
}

enum ls_status ls_history_find(const char *dir, char ***names, size_t *n, size_t max)
{
    enum ls_status status = LS_OK;
    *names = NULL;
    *n = 0;
    if (is_run(dir)) return add(names, n, dir);
    DIR *folder = opendir(dir);
    if (!folder) return ls_fail(LS_IO, "open %s: %s", dir, strerror(errno));
    for (struct dirent *e; status == LS_OK && *n < max && (e = readdir(folder));) {
        char path[LS_PATH_BYTES];
        struct stat st;
        if (e->d_name[0] == '.' || ls__path_join(path, sizeof path, dir, e->d_name) != LS_OK) continue;
        if (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode) || !is_run(path)) continue; /* links lead elsewhere */
        status = add(names, n, path);
    }
    closedir(folder);
    if (*n > 1) qsort(*names, *n, sizeof **names, by_name);
    return status;
}
