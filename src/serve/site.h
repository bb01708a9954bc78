/* site.h: the runs below a folder, kept up to date, and pages made of them. It knows nothing of HTTP.
 *
 * Lock: one mutex guards runs and histories; everything here takes it itself but what says "locked". A run's version
 * grows whenever its files have told something new, so that a page that was made once serves everybody who looks.
 */
#ifndef LS_SERVE_SITE_H
#define LS_SERVE_SITE_H

#include "base/buf.h"
#include "history/history.h"

#include <pthread.h>
#include <sys/types.h>

enum { LS_MAX_SITE_RUNS = 1000, LS_MAX_COMPARED = 24, LS_SITE_DEPTH = 3 };

struct ls_site_run {
    uint64_t id;      /* of its name: what an address holds */
    uint64_t version; /* never 0 */
    char *name;       /* below the folder: "sweep/a"; of the folder itself its own */
    struct ls_history *h;
    ino_t inode;  /* of its folder: one of the same name may take its place */
    bool is_seen; /* by the search under way */
};

struct ls_site {
    char *dir;
    char *(*command_of)(const struct ls_history *h); /* may be NULL */
    pthread_mutex_t lock;
    struct ls_site_run *runs; /* sorted by name */
    int n_runs;
    uint64_t n_changes; /* the newest version */
    uint64_t listing;   /* version of the list: grows with every change of a run, and when runs come and go */
    unsigned n_polls;
    bool is_cut; /* there are more runs than LS_MAX_SITE_RUNS */
};

enum ls_status ls__site_open(struct ls_site **out, const char *dir,
                             char *(*command_of)(const struct ls_history *h)) LS_MUST_CHECK;
enum ls_status ls__site_poll(struct ls_site *site) LS_MUST_CHECK;
void ls__site_close(struct ls_site **site);

/* Folders of runs at most LS_SITE_DEPTH below dir (or dir itself), links left out: at most `max`; free each and the
 * list. scan.c */
enum ls_status ls__site_scan(const char *dir, char ***paths, int *n, int max) LS_MUST_CHECK;

/* --- what is looked at --- */

enum ls_view_kind { LS_VIEW_LIST, LS_VIEW_RUN, LS_VIEW_COMPARE };
struct ls_view {
    enum ls_view_kind kind;
    uint64_t ids[LS_MAX_COMPARED];
    int n_ids;
};
/* 16 hex digits, nothing else. */
bool ls__view_add_id(struct ls_view *view, const char *text);
bool ls__view_equals(const struct ls_view *a, const struct ls_view *b);
/* 0: a run of it is not (any more) there. */
uint64_t ls__view_version(struct ls_site *site, const struct ls_view *view);
/* The whole page; LS_DATA if a run is gone. *version: what was shown. */
enum ls_status ls__view_page(struct ls_site *site, const struct ls_view *view, struct ls_buf *out,
                             uint64_t *version) LS_MUST_CHECK;

/* Locked: the run, or NULL. */
struct ls_site_run *ls__site_find(struct ls_site *site, uint64_t id);

/* A page that says one thing. */
void ls__view_message(struct ls_buf *out, const char *title, const char *text);
/* The style sheet of all pages; the script is ls__serve_script (made from page.js). */
void ls__view_style(struct ls_buf *out);

#endif
