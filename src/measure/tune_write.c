/* tune_write.c: a table of tuned choices as text; what an older table says of problems not measured now stays. */
#include "base/buf.h"
#include "base/file.h"
#include "measure/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct ls_tune_problem *find(const struct ls_tune_result *r, const char *key)
{
    for (int i = 0; i < r->n_problems; i++)
        if (strcmp(r->problems[i].key, key) == 0) return &r->problems[i];
    return NULL;
}

static void add_header(struct ls_buf *b, const struct ls_tune *table)
{
    ls__buf_addf(b, "tune 1\nisa %s\nlibrary %s\n", table->id.isa, table->id.software);
}

/* What was measured, and the lines. Only printable characters go into the comment: it is read back. */
static void add_choices(struct ls_buf *b, const struct ls_tune_options *o, const struct ls_tune_result *r,
                        const struct ls_tune *table)
{
    char day[16], machine[128];
    time_t now = time(NULL);
    struct tm utc;
    strftime(day, sizeof day, "%Y-%m-%d", gmtime_r(&now, &utc));
    snprintf(machine, sizeof machine, "%s", o->machine ? o->machine : "unknown machine");
    for (char *p = machine; *p; p++)
        if (*p < ' ' || *p > '~') *p = '?';
    ls__buf_addf(b, "\n# %.60s, shards of %lld: a step of %lld images took %.2f ms by the rules, %.2f ms so\n",
                 r->model, (long long)r->shard_size, (long long)r->batch_size, r->ms_before, r->ms_after);
    ls__buf_addf(b, "# CPU time of %lld thread%s, %s, %s, %s%s\n", (long long)r->threads, r->threads == 1 ? "" : "s",
                 r->library, machine, day, table->n_lines ? "; at a line: its ops alone, without reorders" : "");
    for (int i = 0; i < table->n_lines; i++) {
        const struct ls_tune_problem *p = find(r, table->lines[i].key);
        ls__buf_addf(b, "%s = %s", table->lines[i].key, table->lines[i].impl);
        if (p)
            ls__buf_addf(b, " # %.3f ms, %s %.3f", p->choices[p->chosen].ms, p->choices[p->rule].impl,
                         p->choices[p->rule].ms);
        ls__buf_adds(b, "\n");
    }
}

static enum ls_status take(struct ls_buf *b, char **text)
{
    enum ls_status status = ls__buf_check(b);
    *text = status == LS_OK ? ls__buf_take(b) : NULL;
    ls__buf_release(b);
    return status;
}

enum ls_status ls__tune_text(const struct ls_tune_options *o, const struct ls_tune_result *r,
                             const struct ls_tune *table, char **text)
{
    struct ls_buf b = LS_BUF_INIT;
    add_header(&b, table);
    add_choices(&b, o, r, table);
    return take(&b, text);
}

/* --- an existing file --- */

/* The file's text and the table in it; both NULL if there is none. */
static enum ls_status read_old(const char *path, char **text, struct ls_tune **table)
{
    size_t len;
    *text = NULL;
    *table = NULL;
    if (!ls__file_exists(path)) return LS_OK;
    enum ls_status status = ls__file_read(path, LS_TUNE_FILE_BYTES, text, &len);
    if (status != LS_OK) return ls_fail_in(status == LS_NOMEM ? LS_NOMEM : LS_DATA, "tuning table");
    status = ls__tune_parse(table, path, *text, len);
    if (status == LS_OK) return LS_OK;
    free(*text);
    *text = NULL;
    return status;
}

enum ls_status ls__tune_check_output(const struct ls_tune_options *o, const struct ls_backend_id *id)
{
    char *text;
    struct ls_tune *old;
    if (!o->output) return LS_OK;
    TRY(read_old(o->output, &text, &old));
    enum ls_status status = LS_OK;
    if (old && !ls__tune_fits(old, id))
        status = ls_fail(LS_USAGE, "%s is there and is for %s with %s, this machine has %s with %s; give another name",
                         o->output, old->id.software, old->id.isa, id->software, id->isa);
    free(text);
    ls__tune_destroy(&old);
    return status;
}

/* Whether a line of the old file is about a problem that was measured now. */
static bool is_measured(const struct ls_tune_result *r, const char *line, size_t len)
{
    for (int i = 0; i < r->n_problems; i++) {
        const char *key = r->problems[i].key, *at = line, *end = line + len;
        while (*key && at < end) { /* word by word: blanks may differ */
            while (at < end && (*at == ' ' || *at == '\t')) at++;
            size_t n = strcspn(key, " ");
            if ((size_t)(end - at) <= n || memcmp(at, key, n) != 0 || (at[n] != ' ' && at[n] != '\t')) break;
            at += n;
            key += n + (key[n] == ' ');
        }
        if (!*key) {
            while (at < end && (*at == ' ' || *at == '\t')) at++;
            if (at < end && *at == '=') return true;
        }
    }
    return false;
}

static void keep_old(struct ls_buf *b, const struct ls_tune_result *r, const char *text)
{
    while (*text) {
        size_t len = strcspn(text, "\n");
        if (!is_measured(r, text, len)) {
            ls__buf_add(b, text, len);
            ls__buf_adds(b, "\n");
        }
        text += len + (text[len] == '\n');
    }
}

enum ls_status ls__tune_write(const struct ls_tune_options *o, const struct ls_tune_result *r,
                              const struct ls_tune *table)
{
    struct ls_buf b = LS_BUF_INIT;
    struct ls_tune *old, *check = NULL;
    char *text;
    TRY(read_old(o->output, &text, &old));
    if (old)
        keep_old(&b, r, text);
    else
        add_header(&b, table);
    free(text);
    ls__tune_destroy(&old);
    add_choices(&b, o, r, table);
    enum ls_status status = take(&b, &text);
    if (status == LS_OK) status = ls__tune_parse(&check, o->output, text, strlen(text)); /* what we write we can read */
    ls__tune_destroy(&check);
    if (status == LS_OK) status = ls__file_write_atomic(o->output, &(struct ls_piece){text, strlen(text)}, 1, LS_IO);
    free(text);
    return status;
}
