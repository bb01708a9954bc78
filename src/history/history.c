/* history.c: a run directory in memory; see history.h. */
#include "history/internal.h"

#include "base/mem.h"
#include "base/parse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LARGEST_JSON = 1 << 24 };

/* --- metrics.jsonl --- */

static void drop_curves(void *arg)
{
    struct ls_history *h = arg;
    for (int i = 0; i < h->n_curves; i++) ls__curve_release(&h->curves[i]);
    h->n_curves = 0;
}

static struct ls_curve *curve_of(struct ls_history *h, const char *split, size_t len)
{
    if (len >= LS_NAME_BYTES) return NULL;
    for (int i = 0; i < h->n_curves; i++)
        if (strlen(h->curves[i].name) == len && memcmp(h->curves[i].name, split, len) == 0) return &h->curves[i];
    if (h->n_curves == LS_MAX_CURVES) return NULL;
    struct ls_curve *c = &h->curves[h->n_curves++];
    memcpy(c->name, split, len);
    c->name[len] = '\0';
    return c;
}

static enum ls_status take_metric(void *arg, const char *line, size_t len)
{
    struct ls_history *h = arg;
    struct ls_pair pairs[LS_MAX_VALUES + 4];
    double values[LS_MAX_VALUES];
    struct ls_curve *c = NULL;
    int n = ls__scan_object(line, len, pairs, LS_MAX_VALUES + 4);
    for (int i = 0; i < n; i++)
        if (pairs[i].text && pairs[i].key_len == 5 && memcmp(pairs[i].key, "split", 5) == 0)
            c = curve_of(h, pairs[i].text, pairs[i].text_len);
    if (!c) {
        h->n_bad++;
        return LS_OK;
    }
    for (int i = 0; i < LS_MAX_VALUES; i++) values[i] = NAN;
    for (int i = 0; i < n; i++) {
        int column = pairs[i].text ? -1 : ls__curve_column(c, pairs[i].key, pairs[i].key_len);
        if (column >= 0) values[column] = pairs[i].number;
    }
    return ls__curve_add(c, values);
}

/* --- resources.csv --- */

static void drop_table(void *arg)
{
    struct ls_resources *r = arg;
    ls__curve_release(&r->table);
    r->has_head = false;
    r->n_columns = 0;
    r->n_events = 0;
}

static const char *next_cell(const char *at, const char *end, const char **stop)
{
    while (at < end && (*at == ' ' || *at == '#' || *at == '"')) at++;
    for (*stop = at; *stop < end && **stop != ',';) ++*stop;
    return at;
}

static void take_head(struct ls_resources *r, const char *line, const char *end)
{
    const char *stop;
    r->has_head = true;
    r->event_column = -1;
    for (const char *at = line; at < end && r->n_columns < LS_MAX_VALUES; at = stop + 1) {
        at = next_cell(at, end, &stop);
        const char *last = stop;
        while (last > at && (last[-1] == ' ' || last[-1] == '"' || last[-1] == '\r')) last--;
        bool is_event = last - at == 5 && memcmp(at, "event", 5) == 0;
        if (is_event) r->event_column = r->n_columns;
        r->columns[r->n_columns++] = is_event ? -1 : ls__curve_column(&r->table, at, (size_t)(last - at));
    }
}

static enum ls_status take_event(struct ls_resources *r, const char *text, size_t len, double seconds)
{
    static const char *const names[] = {"epoch", "evaluate", "checkpoint", "resume"};
    for (int i = 0; i < 4; i++) {
        if (strlen(names[i]) != len || memcmp(names[i], text, len) != 0 || r->n_events == LS_MAX_EVENTS) continue;
        if ((r->n_events & (r->n_events - 1)) == 0) /* a power of two: full */
            TRY(ls__grow(&r->events, r->n_events, r->n_events ? 2 * r->n_events : 1, sizeof *r->events));
        r->events[r->n_events++] = (struct ls_event){.kind = (enum ls_event_kind)i, .seconds = seconds};
    }
    return LS_OK;
}

static enum ls_status take_sample(void *arg, const char *line, size_t len)
{
    struct ls_resources *r = arg;
    const char *end = line + len, *stop;
    double values[LS_MAX_VALUES];
    int n = 0;
    if (!r->has_head) {
        take_head(r, line, end);
        return LS_OK;
    }
    for (int i = 0; i < LS_MAX_VALUES; i++) values[i] = NAN;
    for (const char *at = line; at < end && n < r->n_columns; at = stop + 1, n++) {
        double number;
        at = next_cell(at, end, &stop);
        if (n == r->event_column && stop > at && isfinite(values[0]))
            TRY(take_event(r, at, (size_t)(stop - at) - (stop[-1] == '\r'), values[0]));
        if (r->columns[n] >= 0 && ls__scan_number(at, stop, &number)) values[r->columns[n]] = number;
    }
    if (!(r->table.n_values > 0 && isfinite(values[0]))) return LS_OK; /* no line of ours */
    return ls__curve_add(&r->table, values);
}

static int open_folder(int below, const char *name)
{
    return openat(below, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* `fd`: its folder. */
static enum ls_status read_rank(struct ls_history *h, int rank, int fd, bool *has_new)
{
    if (!h->ranks[rank]) TRY(ls__calloc(&h->ranks[rank], 1, sizeof **h->ranks));
    return ls__tail_read(&h->ranks[rank]->tail, fd, "resources.csv", drop_table, take_sample, h->ranks[rank], has_new);
}

/* Rank 0's are in the run's own folder, the others' in ranks/N. */
static enum ls_status read_ranks(struct ls_history *h, bool *has_new)
{
    enum ls_status status = read_rank(h, 0, h->fd, has_new);
    int folder = status == LS_OK ? open_folder(h->fd, "ranks") : -1;
    if (folder < 0) return status;
    for (int rank = 1; rank < LS_MAX_RANKS && status == LS_OK; rank++) {
        char name[16];
        snprintf(name, sizeof name, "%d", rank);
        int fd = open_folder(folder, name);
        if (fd < 0) break;
        status = read_rank(h, rank, fd, has_new);
        close(fd);
    }
    close(folder);
    return status;
}

/* --- JSON files --- */

static void read_object(struct ls_history *h, const char *name, struct ls_object_file *f, bool *has_new)
{
    struct stat st;
    char *text = NULL;
    size_t len = 0;
    int fd = openat(h->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool is_there = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= LARGEST_JSON;
    if (is_there && f->object && st.st_ino == f->inode && st.st_size == f->bytes &&
        st.st_mtim.tv_sec == f->changed.tv_sec && st.st_mtim.tv_nsec == f->changed.tv_nsec) {
        close(fd);
        return;
    }
    if (!is_there) {
        if (fd >= 0) close(fd);
        if (f->object) *has_new = true;
        json_decref(f->object);
        f->object = NULL;
        return;
    }
    json_t *object =
        ls__file_read_fd(fd, name, LARGEST_JSON, &text, &len) == LS_OK ? json_loadb(text, len, 0, NULL) : NULL;
    free(text);
    if (!json_is_object(object)) {
        json_decref(object);
        h->n_bad++;
        return; /* what was known before stays */
    }
    json_decref(f->object);
    *f = (struct ls_object_file){.object = object, .changed = st.st_mtim, .inode = st.st_ino, .bytes = st.st_size};
    *has_new = true;
}

/* --- the rest of the folder --- */

/* A result with fewer steps than the metrics is that of an earlier sitting; so is one of a run that runs, or has said
 * since that it ended without. */
static void find_state(struct ls_history *h)
{
    struct stat st;
    bool is_held = false;
    const char *how = json_string_value(json_object_get(h->ended.object, "how"));
    json_t *steps = json_object_get(h->result.object, "steps");
    int fd = openat(h->fd, "lock", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) {
        if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
            is_held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK; /* goes with the descriptor */
        close(fd);
    }
    h->has_result = h->result.object && !is_held && !how &&
                    !(json_is_number(steps) && json_number_value(steps) < ls__history_last_step(h));
    h->state = is_held                              ? LS_RUN_RUNNING
               : h->has_result                      ? LS_RUN_DONE
               : how && strcmp(how, "stopped") == 0 ? LS_RUN_STOPPED
               : how                                ? LS_RUN_FAILED
                                                    : LS_RUN_DIED;
}

static int by_number(const void *a, const void *b)
{
    int64_t l = *(const int64_t *)a, r = *(const int64_t *)b;
    return l < r ? -1 : l > r;
}

static void list_checkpoints(struct ls_history *h)
{
    int fd = openat(h->fd, "checkpoints", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    h->n_checkpoints = 0;
    if (!folder && fd >= 0) close(fd);
    for (struct dirent *e; folder && (e = readdir(folder)) && h->n_checkpoints < LS_MAX_CHECKPOINTS;) {
        char digits[24];
        size_t n = strlen(e->d_name);
        int64_t step;
        if (strncmp(e->d_name, "step-", 5) != 0 || n < 18 || n > 36 || strcmp(e->d_name + n - 12, ".safetensors") != 0)
            continue;
        memcpy(digits, e->d_name + 5, n - 17);
        digits[n - 17] = '\0';
        if (ls__parse_i64(digits, 0, INT64_MAX, &step)) h->checkpoints[h->n_checkpoints++] = step;
    }
    if (folder) closedir(folder);
    qsort(h->checkpoints, h->n_checkpoints, sizeof *h->checkpoints, by_number);
}

/* --- open, refresh, close --- */

enum ls_status ls_history_refresh(struct ls_history *h, bool *has_changed)
{
    bool has_new = false;
    enum ls_run_state before = h->state;
    size_t n_before = h->n_checkpoints;
    read_object(h, "manifest.json", &h->manifest, &has_new);
    TRY(ls__tail_read(&h->metrics, h->fd, "metrics.jsonl", drop_curves, take_metric, h, &has_new));
    read_object(h, "result.json", &h->result, &has_new);
    read_object(h, "ended.json", &h->ended, &has_new);
    TRY(read_ranks(h, &has_new));
    TRY(ls__tail_read(&h->rank_rows.tail, h->fd, "ranks.csv", drop_table, take_sample, &h->rank_rows, &has_new));
    list_checkpoints(h);
    find_state(h);
    if (has_changed) *has_changed = has_new || h->state != before || h->n_checkpoints != n_before;
    return LS_OK;
}

static void take_name(struct ls_history *h)
{
    const char *end = h->dir + strlen(h->dir);
    while (end > h->dir && end[-1] == '/') end--;
    const char *from = end;
    while (from > h->dir && from[-1] != '/') from--;
    snprintf(h->name, sizeof h->name, "%.*s", (int)(end - from), from);
}

static enum ls_status build(struct ls_history *h, const char *dir)
{
    struct stat st;
    if (snprintf(h->dir, sizeof h->dir, "%s", dir) >= (int)sizeof h->dir)
        return ls_fail(LS_CHECKPOINT, "run directory: a name of %zu bytes is too long", strlen(dir));
    take_name(h);
    h->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (h->fd < 0) return ls_fail(LS_CHECKPOINT, "open run directory %s: %s", dir, strerror(errno));
    if (fstatat(h->fd, "manifest.json", &st, AT_SYMLINK_NOFOLLOW) != 0 &&
        fstatat(h->fd, "metrics.jsonl", &st, AT_SYMLINK_NOFOLLOW) != 0)
        return ls_fail(LS_CHECKPOINT, "%s is not a run directory: it has no manifest.json", dir);
    return ls_history_refresh(h, NULL);
}

enum ls_status ls_history_open(struct ls_history **out, const char *dir)
{
    *out = NULL;
    TRY(ls__calloc(out, 1, sizeof **out));
    (*out)->fd = -1;
    enum ls_status status = build(*out, dir);
    if (status != LS_OK) ls_history_close(out);
    return status;
}

void ls_history_close(struct ls_history **history)
{
    struct ls_history *h = *history;
    if (!h) return;
    if (h->fd >= 0) close(h->fd);
    drop_curves(h);
    for (int i = 0; i < LS_MAX_RANKS; i++) {
        if (!h->ranks[i]) continue;
        ls__curve_release(&h->ranks[i]->table);
        free(h->ranks[i]->events);
        free(h->ranks[i]);
    }
    ls__curve_release(&h->rank_rows.table);
    free(h->rank_rows.events);
    json_decref(h->manifest.object);
    json_decref(h->result.object);
    json_decref(h->ended.object);
    free(h);
    *history = NULL;
}
