/* metrics.c: metrics.jsonl of a run; see run.h.
 *
 * A line is one write(2) to a file opened O_APPEND. If the disk is full the line is lost, never the training, and never
 * the lines before: a write that was cut short is cut off again, so that every line in the file is complete.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "run/run.h"
#include "run/run_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char name[] = "metrics.jsonl";

enum ls_status ls__run_metrics_open(struct ls_run *run)
{
    return ls__dir_open_file(&run->dir, name, O_WRONLY | O_APPEND | O_CREAT, &run->metrics_fd, LS_CHECKPOINT);
}

static void warn_lost(struct ls_run *run, int error)
{
    const int64_t minute_ns = 60 * (int64_t)1000000000;
    int64_t now = ls__now_ns();
    run->n_lost++;
    if (run->warned_ns && now - run->warned_ns < minute_ns) return;
    ls__log(LS_LOG_WARN, "write %s/%s: %s; %" PRId64 " line%s lost, training goes on", run->dir.path, name,
            strerror(error), run->n_lost, run->n_lost == 1 ? "" : "s");
    run->warned_ns = now;
    run->n_lost = 0;
}

static void append(struct ls_run *run, const char *line, size_t len)
{
    struct stat before;
    if (fstat(run->metrics_fd, &before) != 0) return warn_lost(run, errno);
    ssize_t n;
    do {
        n = write(run->metrics_fd, line, len);
    } while (n < 0 && errno == EINTR);
    if (n == (ssize_t)len) return;
    int error = n < 0 ? errno : ENOSPC;
    if (n > 0 && ftruncate(run->metrics_fd, before.st_size) != 0) error = errno;
    warn_lost(run, error);
}

/* The line without its newline; NULL: memory is short. */
static char *line_of(const struct ls_metric *m)
{
    char *text;
    json_t *line =
        json_pack("{s:I, s:I, s:s}", "step", (json_int_t)m->step, "epoch", (json_int_t)m->epoch, "split", m->split);
    bool failed = !line;
    for (int i = 0; i < LS_MAX_METRICS && m->values[i].name; i++)
        failed |= json_object_set_new(line, m->values[i].name, ls__json_number(m->values[i].value)) != 0;
    if (!failed) return ls__json_dump(line, LS_JSON_LINE, name, &text) == LS_OK ? text : NULL;
    json_decref(line);
    return NULL;
}

void ls__run_metric(struct ls_run *run, const struct ls_metric *m)
{
    char *line = line_of(m);
    size_t len = line ? strlen(line) : 0;
    if (!line) return warn_lost(run, ENOMEM);
    line[len] = '\n'; /* in the place of the '\0', which nobody reads */
    append(run, line, len + 1);
    free(line);
}

bool ls__run_is_line_due(int64_t step, int64_t every)
{
    const int64_t lines = 20000;
    int64_t from = 0;
    if (every <= 0) return false;
    while (every <= (step - from - 1) / lines) {
        from += lines * every;
        every *= 2;
    }
    return (step - from) % every == 0;
}

/* A complete line of ours that is kept. */
static bool is_kept(const char *line, size_t len, const struct ls_rewind *to)
{
    json_t *object = json_loadb(line, len, 0, NULL);
    const json_t *at = json_object_get(object, "step");
    const char *split = json_string_value(json_object_get(object, "split"));
    bool kept = json_is_integer(at) && json_integer_value(at) <= to->step;
    if (kept && to->is_within_epoch && split && strcmp(split, "train") != 0) kept = json_integer_value(at) != to->step;
    if (kept && to->is_test_last && split && strcmp(split, "test") == 0) kept = false;
    json_decref(object);
    return kept;
}

static void filter_lines(const char *text, size_t len, const struct ls_rewind *to, struct ls_buf *kept)
{
    for (const char *end = text + len; text < end;) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        if (!newline) return; /* torn */
        size_t n = (size_t)(newline - text) + 1;
        if (is_kept(text, n, to)) ls__buf_add(kept, text, n);
        text += n;
    }
}

enum ls_status ls__run_metrics_rewind(struct ls_run *run, const struct ls_rewind *to)
{
    const size_t max_bytes = (size_t)4 << 30;
    char *text;
    size_t len;
    enum ls_status status = ls__dir_read(&run->dir, name, max_bytes, &text, &len, LS_CHECKPOINT);
    if (status != LS_OK) return ls_fail_in(ls__run_unusable(status), "resume");
    struct ls_buf kept = LS_BUF_INIT;
    filter_lines(text, len, to, &kept);
    status = ls__buf_check(&kept);
    struct ls_piece piece = {kept.text, kept.len};
    bool is_same = status == LS_OK && kept.len == len;
    if (status == LS_OK && !is_same) status = ls__dir_write_atomic(&run->dir, name, &piece, 1, LS_CHECKPOINT);
    ls__buf_release(&kept);
    free(text);
    if (status != LS_OK || is_same) return status;
    close(run->metrics_fd); /* it is the old file's */
    run->metrics_fd = -1;
    return ls__run_metrics_open(run);
}
