/* plan.c: lab and ask -> jobs, in the order in which they are run: round by round, so that what is compared is trained
 * near in time, whatever else the machine does meanwhile.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/quote.h"
#include "base/suggest.h"
#include "lab/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- a job's settings --- */

struct planning {
    struct ls_lab_state *state;
    const struct ls_lab *lab;
    const struct ls_lab_ask *ask;
    const struct ls_lab_means *means;
    double scale;
};

const char *ls__lab_job_setting(const struct ls_lab_job *job, const char *key)
{
    for (int i = 0; i < job->n_settings; i++)
        if (strcmp(job->settings[i].key, key) == 0) return job->settings[i].value;
    return NULL;
}

/* There is room for EXTRA more than the run has. */
enum { EXTRA = 12 };

static enum ls_status set(struct planning *p, struct ls_lab_job *job, const char *key, const char *value)
{
    int i = 0;
    while (i < job->n_settings && strcmp(job->settings[i].key, key) != 0) i++;
    job->settings[i].key = key;
    if (i == job->n_settings) job->n_settings++;
    return ls__arena_text(&p->state->memory, &job->settings[i].value, value, strlen(value));
}

static enum ls_status set_number(struct planning *p, struct ls_lab_job *job, const char *key, int64_t value)
{
    char text[32];
    if (value == 0) return LS_OK;
    snprintf(text, sizeof text, "%" PRId64, value);
    return set(p, job, key, text);
}

static bool is_own(const struct ls_lab_run *run, const char *key)
{
    for (int i = 0; i < run->n_settings; i++)
        if (strcmp(run->settings[i].key, key) == 0) return run->settings[i].is_own;
    return false;
}

/* Where a run or its variation says it, that counts; `base` gives way. */
static enum ls_status override(struct planning *p, struct ls_lab_job *job, const char *key, const char *value)
{
    return !*value || is_own(&p->lab->runs[job->run], key) ? LS_OK : set(p, job, key, value);
}

static void forget(struct ls_lab_job *job, const char *key)
{
    int n = 0;
    for (int i = 0; i < job->n_settings; i++)
        if (strcmp(job->settings[i].key, key) != 0) job->settings[n++] = job->settings[i];
    job->n_settings = n;
}

static int64_t number(const struct ls_lab_job *job, const char *key)
{
    const char *text = ls__lab_job_setting(job, key);
    int64_t n;
    return text && ls__parse_i64(text, 1, 1 << 20, &n) ? n : 0;
}

/* Real machines in place of those that would be made on this one: the first of --hosts, with their own network. */
static enum ls_status go_to_hosts(struct planning *p, struct ls_lab_job *job)
{
    const struct ls_lab_run *run = &p->lab->runs[job->run];
    const char *all = p->ask->hosts ? p->ask->hosts : "";
    const int64_t nodes = number(job, "nodes"), workers = number(job, "workers");
    if (!*all || is_own(run, "hosts")) return LS_OK;
    if (nodes == 0) return ls__lab_job_setting(job, "hosts") ? set(p, job, "hosts", all) : LS_OK;
    const char *end = all;
    int64_t n = 0;
    for (; *end && n < nodes; n++) {
        end += strcspn(end, ",");
        if (*end && n + 1 < nodes) end++;
    }
    if (n < nodes)
        return ls_fail(LS_USAGE,
                       "--hosts %s names %" PRId64 ", but run %s has nodes=%" PRId64
                       ": name as many, or choose questions with --only",
                       all, n, run->name, nodes);
    const char *first = ls__arena_format(&p->state->memory, "%.*s", (int)(end - all), all);
    if (!first) return ls_fail(LS_NOMEM, "out of memory while planning");
    forget(job, "nodes");
    forget(job, "network");
    forget(job, "workers");
    TRY(set(p, job, "hosts", first));
    return set_number(p, job, "procs-per-node", workers / nodes);
}

static enum ls_status shorten(struct planning *p, struct ls_lab_job *job)
{
    struct ls_lab_scaled s;
    char text[32];
    if (p->scale >= 1) return LS_OK;
    ls__lab_scale(p->lab, job, p->scale, p->means->images ? p->means->images(p->means->counts, job, false) : 0, &s);
    TRY(set_number(p, job, "epochs", s.epochs));
    TRY(set_number(p, job, "iterations", s.iterations));
    TRY(set_number(p, job, ls__lab_job_setting(job, "batch-per-worker") ? "batch-per-worker" : "batch-size", s.batch));
    TRY(set_number(p, job, "checkpoint-every", s.checkpoint_every));
    TRY(set_number(p, job, "log-every", s.log_every));
    snprintf(text, sizeof text, "%.6g", s.lr);
    return s.lr > 0 ? set(p, job, "lr", text) : LS_OK;
}

static enum ls_status make_settings(struct planning *p, struct ls_lab_job *job)
{
    const struct ls_lab_run *run = &p->lab->runs[job->run];
    TRY(ls__arena_alloc(&p->state->memory, &job->settings, (size_t)run->n_settings + EXTRA, sizeof *job->settings));
    for (int i = 0; i < run->n_settings; i++) job->settings[i] = run->settings[i];
    job->n_settings = run->n_settings;
    TRY(override(p, job, "device", p->ask->device));
    TRY(override(p, job, "workers", p->ask->workers));
    TRY(override(p, job, "data-dir", p->ask->data_dir));
    const char *data = ls__lab_job_setting(job, "data"),
               *instead = data && p->ask->is_stand_in && p->means->stand_in ? p->means->stand_in(data) : NULL;
    if (instead) TRY(set(p, job, "data", instead));
    TRY(shorten(p, job));
    return go_to_hosts(p, job);
}

/* --- its command --- */

static bool is_flag(const char *value)
{
    return value && (strcmp(value, "on") == 0 || strcmp(value, "off") == 0);
}

static enum ls_status add_word(struct ls_arena *memory, const char **words, int *n, const char *before,
                               const char *word, const char *after)
{
    words[*n] = ls__arena_format(memory, "%s%s%s", before, word, after);
    return words[(*n)++] ? LS_OK : ls_fail(LS_NOMEM, "out of memory while planning");
}

static enum ls_status add_setting(struct ls_arena *memory, const char **words, int *n, const struct ls_lab_setting *s)
{
    char name[128];
    if (!is_flag(s->value)) {
        snprintf(name, sizeof name, "--%s=", s->key);
        return add_word(memory, words, n, name, s->value, "");
    }
    if (strcmp(s->value, "on") == 0) return add_word(memory, words, n, "--", s->key, "");
    if (strncmp(s->key, "no-", 3) == 0) return LS_OK; /* off is what it is without */
    return add_word(memory, words, n, "--no-", s->key, "");
}

static bool is_argument(const char *key)
{
    return strcmp(key, "model") == 0 || strcmp(key, "data") == 0;
}

enum ls_status ls__lab_words(struct ls_arena *memory, const struct ls_lab_job *job, const char *exe,
                             const char *run_dir, const char ***out)
{
    const char **words, *model = ls__lab_job_setting(job, "model"), *data = ls__lab_job_setting(job, "data");
    int n = 0;
    TRY(ls__arena_alloc(memory, &words, (size_t)job->n_settings + 8, sizeof *words));
    words[n++] = exe;
    words[n++] = "train";
    words[n++] = model ? model : "";
    words[n++] = data ? data : "";
    for (int i = 0; i < job->n_settings; i++)
        if (!is_argument(job->settings[i].key)) TRY(add_setting(memory, words, &n, &job->settings[i]));
    if (run_dir) {
        TRY(add_word(memory, words, &n, "--run=", run_dir, ""));
        words[n++] = "--resume=auto";
    }
    *out = words;
    return LS_OK;
}

/* "--key value", as people write it. */
static enum ls_status make_command(struct planning *p, struct ls_lab_job *job)
{
    struct ls_buf b = LS_BUF_INIT;
    const char **words;
    char quoted[LS_PATH_BYTES];
    TRY(ls__lab_words(&p->state->memory, job, "lockstep", NULL, &words));
    for (int i = 0; words[i]; i++) {
        const char *equals = i >= 4 ? strchr(words[i], '=') : NULL;
        if (i) ls__buf_adds(&b, " ");
        if (equals && equals[1] != '-') {
            ls__buf_add(&b, words[i], (size_t)(equals - words[i]));
            ls__buf_addf(&b, " %s", ls__quote_path(equals + 1, quoted, sizeof quoted));
        } else if (i >= 4) {
            ls__buf_adds(&b, words[i]);
        } else {
            ls__buf_adds(&b, ls__quote_path(words[i], quoted, sizeof quoted));
        }
    }
    enum ls_status status = ls__buf_check(&b);
    if (status == LS_OK) status = ls__arena_text(&p->state->memory, &job->command, b.text, b.len);
    ls__buf_release(&b);
    return status;
}

/* --- which, and in which order --- */

static bool is_in_list(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ",");
        if (n == len && strncmp(p, word, len) == 0) return true;
        p += n + (p[n] != '\0');
    }
    return false;
}

static enum ls_status check_only(const struct ls_lab *lab, const char *only)
{
    for (const char *p = only; *p;) {
        size_t n = strcspn(p, ",");
        const char *best = NULL;
        char word[64];
        int distance = -1;
        bool is_there = false;
        snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), p);
        for (int i = 0; i < lab->n_questions; i++) {
            is_there |= strcmp(lab->questions[i].id, word) == 0;
            ls__suggest(word, lab->questions[i].id, &best, &distance);
        }
        if (!is_there)
            return ls_fail(LS_USAGE, "--only %s: %s has no question %s%s%s%s", only, lab->name, word,
                           best ? "; did you mean " : "; `lockstep lab show` lists them", best ? best : "",
                           best ? "?" : "");
        p += n + (p[n] != '\0');
    }
    return LS_OK;
}

static void mark_asked(const struct ls_lab *lab, const char *only, bool *is_asked)
{
    for (int i = 0; i < lab->n_questions; i++) {
        const struct ls_lab_question *q = &lab->questions[i];
        if (*only && !is_in_list(only, q->id)) continue;
        for (int k = 0; k < q->n_runs; k++) is_asked[q->runs[k]] = true;
    }
}

static enum ls_status make_job(struct planning *p, int run, int repeat, struct ls_lab_job *job)
{
    *job = (struct ls_lab_job){.run = run,
                               .repeat = repeat,
                               .message = "",
                               .predicted_seconds = NAN,
                               .predicted_bytes = NAN,
                               .seconds = NAN,
                               .others_seconds = NAN};
    job->dir = ls__arena_format(&p->state->memory, "runs/%s-r%d", p->lab->runs[run].name, repeat);
    if (!job->dir) return ls_fail(LS_NOMEM, "out of memory while planning");
    TRY(make_settings(p, job));
    TRY(make_command(p, job));
    return LS_OK;
}

static enum ls_status make_jobs(struct planning *p)
{
    struct ls_lab_state *state = p->state;
    bool *is_asked;
    int most = 0, n = 0;
    const int given = state->repeat;
    TRY(ls__arena_alloc(&state->memory, &is_asked, (size_t)p->lab->n_runs, sizeof *is_asked));
    mark_asked(p->lab, state->only, is_asked);
    for (int i = 0; i < p->lab->n_runs; i++) {
        if (!is_asked[i]) continue;
        const int repeats = given ? given : p->lab->runs[i].repeats;
        n += repeats;
        if (repeats > most) most = repeats;
    }
    TRY(ls__arena_alloc(&state->memory, &state->jobs, (size_t)n, sizeof *state->jobs));
    for (int repeat = 1; repeat <= most; repeat++)
        for (int i = 0; i < p->lab->n_runs; i++)
            if (is_asked[i] && repeat <= (given ? given : p->lab->runs[i].repeats))
                TRY(make_job(p, i, repeat, &state->jobs[state->n_jobs++]));
    return LS_OK;
}

/* One prediction for all repeats of a run. */
static void predict(const struct planning *p)
{
    struct ls_lab_state *state = p->state;
    if (!p->means->predict) return;
    for (int i = 0; i < state->n_jobs; i++) {
        struct ls_lab_job *job = &state->jobs[i];
        if (job->repeat > 1) {
            job->predicted_seconds = ls__lab_find_job(state, job->run, 1)->predicted_seconds;
            job->predicted_bytes = ls__lab_find_job(state, job->run, 1)->predicted_bytes;
            continue;
        }
        p->means->predict(p->means->context, job, &job->predicted_seconds, &job->predicted_bytes);
    }
}

static enum ls_status copy(struct ls_lab_state *state, const char **to, const char *text)
{
    return ls__arena_text(&state->memory, to, text ? text : "", text ? strlen(text) : 0);
}

static enum ls_status build(struct planning *p)
{
    struct ls_lab_state *state = p->state;
    const char *scale = p->ask->scale && *p->ask->scale ? p->ask->scale : "1";
    if (!ls__lab_parse_scale(scale, &p->scale))
        return ls_fail(LS_USAGE, "--scale %s: expected a part such as 1/16, above 0 and at most 1", scale);
    TRY(copy(state, &state->lab, p->lab->name));
    TRY(copy(state, &state->scale, scale));
    TRY(copy(state, &state->only, p->ask->only));
    TRY(copy(state, &state->device, p->ask->device));
    TRY(copy(state, &state->workers, p->ask->workers));
    TRY(copy(state, &state->hosts, p->ask->hosts));
    TRY(copy(state, &state->data_dir, p->ask->data_dir));
    TRY(copy(state, &state->version, p->means->version));
    TRY(copy(state, &state->processor, p->means->processor));
    TRY(copy(state, &state->system, p->means->system));
    state->memory_bytes = p->means->memory_bytes > 0 ? p->means->memory_bytes : NAN;
    state->is_stand_in = p->ask->is_stand_in;
    state->repeat = p->ask->repeat;
    TRY(check_only(p->lab, state->only));
    TRY(make_jobs(p));
    predict(p);
    return LS_OK;
}

enum ls_status ls__lab_plan(struct ls_lab_state **out, const struct ls_lab *lab, const struct ls_lab_ask *ask,
                            const struct ls_lab_means *means)
{
    TRY(ls__calloc(out, 1, sizeof **out));
    struct planning p = {.state = *out, .lab = lab, .ask = ask, .means = means};
    enum ls_status status = build(&p);
    if (status != LS_OK) ls__lab_state_destroy(out);
    return status;
}
