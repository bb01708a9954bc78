/* run.c: making and describing a run directory; see run.h. Whose it is: claim.c. Metrics: metrics.c. */
#include "run/run.h"

#include "base/json.h"
#include "base/mem.h"
#include "run/run_impl.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* --- the name --- */

/* "models/my net.net" -> "my-net", "fake:3x32x32:10:500" -> "fake-3x32x32-10-500": what every file system takes. */
static void sanitise(const char *text, bool is_model, char *out, size_t size)
{
    const char *slash = strrchr(text, '/');
    if (is_model && slash) text = slash + 1;
    size_t n = 0;
    for (; *text && n + 1 < size && n < 48; text++) {
        bool keep = isalnum((unsigned char)*text) || *text == '_' || *text == '.' || *text == '+';
        if (keep)
            out[n++] = *text;
        else if (n > 0 && out[n - 1] != '-')
            out[n++] = '-';
    }
    out[n] = '\0';
    if (is_model && n > 4 && strcmp(out + n - 4, ".net") == 0) out[n -= 4] = '\0';
    while (n > 0 && out[n - 1] == '-') out[--n] = '\0';
    if (n == 0 || out[0] == '.') snprintf(out, size, "run");
}

/* runs/<model>-<data>-<time>[-n]; mkdir decides, so two jobs of the same second get two names. */
enum ls_status ls__run_make_named(const char *model, const char *data, char dir[LS_PATH_BYTES])
{
    char m[64], d[64], when[32];
    time_t now = time(NULL);
    struct tm tm;
    sanitise(model, true, m, sizeof m);
    sanitise(data, false, d, sizeof d);
    if (!localtime_r(&now, &tm) || strftime(when, sizeof when, "%Y%m%d-%H%M%S", &tm) == 0)
        return ls_fail(LS_INTERNAL, "the clock gives no date");
    if (ls__mkdirs("runs") != LS_OK) return ls_fail_in(LS_CHECKPOINT, "run directory (choose another with --run)");
    for (int i = 1; i < 1000; i++) {
        char suffix[16] = "";
        if (i > 1) snprintf(suffix, sizeof suffix, "-%d", i);
        snprintf(dir, LS_PATH_BYTES, "runs/%s-%s-%s%s", m, d, when, suffix);
        if (mkdir(dir, 0777) == 0) return LS_OK;
        if (errno != EEXIST)
            return ls_fail(LS_CHECKPOINT, "make run directory %s: %s; choose another place with --run", dir,
                           strerror(errno));
    }
    return ls_fail(LS_CHECKPOINT, "no free name for a run directory near %s; choose one with --run", dir);
}

static enum ls_status make_given(struct ls_run *run, const char *dir, char path[LS_PATH_BYTES])
{
    size_t len = strlen(dir);
    if (len == 0) return ls_fail(LS_USAGE, "the run directory's name is empty");
    if (len >= LS_PATH_BYTES - 64)
        return ls_fail(LS_CHECKPOINT, "the run directory's name has %zu bytes, too long", len);
    memcpy(path, dir, len + 1);
    while (len > 1 && path[len - 1] == '/') path[--len] = '\0';
    run->is_made = !ls__dir_exists(path);
    if (ls__mkdirs(path) != LS_OK) return ls_fail_in(LS_CHECKPOINT, "run directory %s", path);
    return LS_OK;
}

static enum ls_status make_new(struct ls_run *run, const char *model, const char *data, char path[LS_PATH_BYTES])
{
    run->is_made = true;
    return ls__run_make_named(model, data, path);
}

/* --- open and close --- */

enum ls_status ls__run_checkpoints(const struct ls_run *run, struct ls_dir *out)
{
    return ls__dir_open_below(out, &run->dir, "checkpoints", LS_CHECKPOINT);
}

static enum ls_status build(struct ls_run *run, const char *dir, const char *model, const char *data, bool is_resume)
{
    char path[LS_PATH_BYTES];
    struct ls_dir checkpoints;
    TRY(dir ? make_given(run, dir, path) : make_new(run, model, data, path));
    if (ls__dir_open(&run->dir, path, LS_CHECKPOINT) != LS_OK) return ls_fail_in(LS_CHECKPOINT, "run directory");
    TRY(ls__run_claim(run, is_resume));
    TRY(ls__run_checkpoints(run, &checkpoints));
    ls__dir_close(&checkpoints);
    return ls__run_metrics_open(run);
}

enum ls_status ls__run_open(struct ls_run **out, const char *dir, const char *model, const char *data, bool is_resume)
{
    *out = NULL;
    struct ls_run *run;
    TRY(ls__calloc(&run, 1, sizeof *run));
    run->lock_fd = run->metrics_fd = run->dir.fd = -1;
    enum ls_status status = build(run, dir, model, data, is_resume);
    if (status != LS_OK) {
        ls__run_abandon(&run);
        return status;
    }
    *out = run;
    return LS_OK;
}

void ls__run_close(struct ls_run **run)
{
    if (!*run) return;
    if ((*run)->metrics_fd >= 0) close((*run)->metrics_fd);
    if ((*run)->lock_fd >= 0) close((*run)->lock_fd); /* the file stays: removing it would race with the next taker */
    ls__dir_close(&(*run)->dir);
    free(*run);
    *run = NULL;
}

/* Only with the lock: then nobody else has put anything here. What is not empty stays. */
void ls__run_abandon(struct ls_run **run)
{
    struct ls_run *r = *run;
    struct stat st;
    if (r && r->is_new && r->lock_fd >= 0) {
        unlinkat(r->dir.fd, "manifest.json", 0);
        unlinkat(r->dir.fd, "checkpoints", AT_REMOVEDIR);
        if (r->metrics_fd >= 0 && fstat(r->metrics_fd, &st) == 0 && st.st_size == 0)
            unlinkat(r->dir.fd, "metrics.jsonl", 0);
        unlinkat(r->dir.fd, "lock", 0);
    }
    if (r && r->is_made && *r->dir.path) rmdir(r->dir.path);
    ls__run_close(run);
}

const char *ls__run_dir(const struct ls_run *run)
{
    return run->dir.path;
}

bool ls__run_is_new(const struct ls_run *run)
{
    return run->is_new;
}

enum ls_status ls__run_path(const struct ls_run *run, const char *name, char out[LS_PATH_BYTES])
{
    return ls__path_join(out, LS_PATH_BYTES, run->dir.path, name);
}

/* --- manifest and result --- */

static enum ls_status write_text(struct ls_run *run, const char *name, const char *text)
{
    struct ls_piece pieces[] = {{text, strlen(text)}, {"\n", 1}};
    return ls__dir_write_atomic(&run->dir, name, pieces, 2, LS_CHECKPOINT);
}

enum ls_status ls__run_manifest(struct ls_run *run, struct json_t *manifest)
{
    char *text;
    TRY(ls__json_dump(manifest, LS_JSON_SETTINGS, "the manifest", &text));
    enum ls_status status = write_text(run, "manifest.json", text);
    free(text);
    if (status == LS_OK) unlinkat(run->dir.fd, "ended.json", 0); /* it goes on */
    return status;
}

enum ls_status ls__run_result(struct ls_run *run, const char *json_text)
{
    return write_text(run, "result.json", json_text);
}

void ls__run_ended(struct ls_run *run, const char *how, const char *why, int64_t step)
{
    char when[32], *text;
    time_t now = time(NULL);
    struct tm utc;
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    json_t *object = json_pack("{s:s, s:o, s:I, s:s}", "how", how, "why", ls__json_text(why), "step", (json_int_t)step,
                               "when", when);
    if (ls__json_dump(object, LS_JSON_FOR_PEOPLE, "how it ended", &text) != LS_OK) return;
    enum ls_status ignored = write_text(run, "ended.json", text); /* a disk that is full says enough by itself */
    (void)ignored;
    free(text);
}

/* --- reading --- */

bool ls__run_is_run(const char *dir)
{
    char path[LS_PATH_BYTES];
    int n = snprintf(path, sizeof path, "%s/manifest.json", dir);
    return n > 0 && (size_t)n < sizeof path && ls__file_exists(path);
}

enum ls_status ls__run_load(const char *dir, const char *name, struct json_t **out)
{
    enum { MAX_BYTES = 64 << 20 };
    char path[LS_PATH_BYTES], *text;
    size_t len;
    json_error_t error;
    *out = NULL;
    TRY(ls__path_join(path, sizeof path, dir, name));
    enum ls_status status = ls__file_read(path, MAX_BYTES, &text, &len);
    if (status != LS_OK) return ls_fail_in(ls__run_unusable(status), "run %s", dir);
    *out = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    free(text);
    if (!*out) return ls_fail(LS_CHECKPOINT, "%s:%d: not JSON: %s", path, error.line, error.text);
    if (json_is_object(*out)) return LS_OK;
    json_decref(*out);
    *out = NULL;
    return ls_fail(LS_CHECKPOINT, "%s is not a JSON object", path);
}
