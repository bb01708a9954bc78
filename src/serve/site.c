/* site.c: runs come, grow and go; see site.h.
 *
 * A run that trains is read at every poll, others at every eighth, a few at a time; the search for new ones is at every
 * fourth. A first reading of many runs is done by all cores.
 */
#include "serve/site.h"

#include "base/mem.h"
#include "base/pool.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

enum { SEARCH_EVERY = 4, LOOK_EVERY = 8 };

static void drop(struct ls_site_run *run)
{
    ls_history_close(&run->h);
    free(run->name);
    memset(run, 0, sizeof *run);
}

static const char *name_below(const struct ls_site *site, const char *path)
{
    size_t n = strlen(site->dir);
    const char *rest = strncmp(path, site->dir, n) == 0 ? path + n : path;
    while (*rest == '/') rest++;
    if (*rest) return rest;
    rest = strrchr(path, '/');
    return rest && rest[1] ? rest + 1 : path;
}

struct ls_site_run *ls__site_find(struct ls_site *site, uint64_t id)
{
    for (int i = 0; i < site->n_runs; i++)
        if (site->runs[i].id == id) return &site->runs[i];
    return NULL;
}

/* --- runs that are new --- */

static ino_t inode_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_ino : 0;
}

struct opening {
    struct ls_site *site;
    char **paths;
    struct ls_site_run *found; /* [n]; h NULL: could not be opened, perhaps already gone */
};

static enum ls_status open_one(void *arg, int item, int worker)
{
    struct opening *o = arg;
    struct ls_site_run *run = &o->found[item];
    const char *name = name_below(o->site, o->paths[item]);
    run->inode = inode_of(o->paths[item]);
    if (ls_history_open(&run->h, o->paths[item]) != LS_OK) return LS_OK;
    run->id = XXH3_64bits(name, strlen(name));
    return ls__strdup(&run->name, name);
}

static enum ls_status open_all(struct opening *o, int n)
{
    struct ls_pool *pool = NULL;
    int n_threads = ls__cpu_count() < n ? ls__cpu_count() : n;
    if (n == 0) return LS_OK;
    enum ls_status status = ls__pool_create(&pool, n_threads, false, NULL);
    if (status == LS_OK) status = ls__pool_run(pool, n, open_one, o);
    ls__pool_destroy(&pool);
    return status;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct ls_site_run *)a)->name, ((const struct ls_site_run *)b)->name);
}

/* Locked. Takes what was opened; two names of one number are not both shown. */
static enum ls_status take(struct ls_site *site, struct ls_site_run *found, int n)
{
    TRY(ls__grow(&site->runs, (size_t)site->n_runs, (size_t)(site->n_runs + n), sizeof *site->runs));
    for (int i = 0; i < n; i++) {
        if (!found[i].h || !found[i].name || ls__site_find(site, found[i].id)) continue;
        found[i].version = ++site->n_changes;
        found[i].is_seen = true;
        site->runs[site->n_runs++] = found[i];
        memset(&found[i], 0, sizeof found[i]);
        site->listing = site->n_changes;
    }
    qsort(site->runs, (size_t)site->n_runs, sizeof *site->runs, by_name);
    return LS_OK;
}

/* Locked. */
static void drop_unseen(struct ls_site *site)
{
    int n = 0;
    for (int i = 0; i < site->n_runs; i++) {
        if (site->runs[i].is_seen)
            site->runs[n++] = site->runs[i];
        else
            drop(&site->runs[i]);
    }
    if (n != site->n_runs) site->listing = ++site->n_changes;
    site->n_runs = n;
}

static enum ls_status search(struct ls_site *site)
{
    struct opening o = {.site = site};
    int n = 0, n_new = 0;
    enum ls_status status = ls__site_scan(site->dir, &o.paths, &n, LS_MAX_SITE_RUNS + 1);
    if (status != LS_OK) n = 0;
    /* Only this thread changes the list, so it may be read without the lock. */
    for (int i = 0; i < site->n_runs; i++) site->runs[i].is_seen = false;
    for (int i = 0; i < n; i++) {
        const char *name = name_below(site, o.paths[i]);
        struct ls_site_run *known = ls__site_find(site, XXH3_64bits(name, strlen(name)));
        if (known && known->inode != inode_of(o.paths[i])) known = NULL;
        if (known) known->is_seen = true;
        char *path = o.paths[i];
        if (known || n_new + site->n_runs >= LS_MAX_SITE_RUNS)
            free(path);
        else
            o.paths[n_new++] = path;
    }
    if (status == LS_OK) status = ls__calloc(&o.found, (size_t)n_new + 1, sizeof *o.found);
    if (status == LS_OK) status = open_all(&o, n_new);
    pthread_mutex_lock(&site->lock);
    site->is_cut = n > LS_MAX_SITE_RUNS;
    if (status == LS_OK || site->n_polls > 0) drop_unseen(site);
    if (status == LS_OK) status = take(site, o.found, n_new);
    pthread_mutex_unlock(&site->lock);
    for (int i = 0; i < n_new; i++) {
        if (o.found) drop(&o.found[i]);
        free(o.paths[i]);
    }
    free(o.found);
    free(o.paths);
    return status;
}

/* --- runs that are known --- */

static void refresh(struct ls_site *site)
{
    for (int i = 0; i < site->n_runs; i++) {
        struct ls_site_run *run = &site->runs[i];
        bool has_changed = false;
        if (ls_history_state(run->h) != LS_RUN_RUNNING && (site->n_polls + (unsigned)i) % LOOK_EVERY != 0) continue;
        pthread_mutex_lock(&site->lock);
        if (ls_history_refresh(run->h, &has_changed) == LS_OK && has_changed)
            run->version = site->listing = ++site->n_changes;
        pthread_mutex_unlock(&site->lock);
    }
}

enum ls_status ls__site_poll(struct ls_site *site)
{
    site->n_polls++;
    refresh(site);
    /* A folder that is gone for a while is an empty one. */
    if (site->n_polls % SEARCH_EVERY == 0 && search(site) == LS_NOMEM) return LS_NOMEM;
    return LS_OK;
}

enum ls_status ls__site_open(struct ls_site **out, const char *dir, char *(*command_of)(const struct ls_history *h))
{
    *out = NULL;
    TRY(ls__calloc(out, 1, sizeof **out));
    struct ls_site *site = *out;
    pthread_mutex_init(&site->lock, NULL);
    site->command_of = command_of;
    site->listing = ++site->n_changes;
    enum ls_status status = ls__strdup(&site->dir, dir);
    if (status == LS_OK) status = search(site);
    if (status != LS_OK) ls__site_close(out);
    return status;
}

void ls__site_close(struct ls_site **pointer)
{
    struct ls_site *site = *pointer;
    if (!site) return;
    for (int i = 0; i < site->n_runs; i++) drop(&site->runs[i]);
    free(site->runs);
    free(site->dir);
    pthread_mutex_destroy(&site->lock);
    free(site);
    *pointer = NULL;
}
