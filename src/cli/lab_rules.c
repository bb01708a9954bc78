/* lab_rules.c: which settings a lab may have, whether a run can be so, and what is known of its data. */
#include "cli/lab_rules.h"

#include "backend/backend.h"
#include "base/parse.h"
#include "base/suggest.h"
#include "cli/machine.h"
#include "cli/options.h"
#include "data/catalog.h"
#include "data/data.h"
#include "model/model.h"
#include "settings/sync_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- keys --- */

/* What the lab itself decides. */
static const char *const taken[][2] = {
    {"run", "a lab chooses the folders of its runs"},
    {"resume", "an interrupted lab goes on by itself"},
    {"repeat", "write it as a line of its own: repeat 3"},
    {"json", "it is for the command line"},
    {"quiet", "it is for the command line"},
    {"verbose", "it is for the command line"},
    {"help", "it is for the command line"},
};

static bool is_argument(const char *key)
{
    return strcmp(key, "model") == 0 || strcmp(key, "data") == 0;
}

static enum ls_status unknown_key(const char *key)
{
    const char *best = NULL;
    int distance = -1;
    ls__suggest(key, "model", &best, &distance);
    ls__suggest(key, "data", &best, &distance);
    for (const struct ls_option *o = ls__options; o->setting; o++)
        if (ls__option_is_of(o, LS_CMD_TRAIN)) ls__suggest(key, o->setting->name, &best, &distance);
    if (best) return ls_fail(LS_USAGE, "unknown setting %s; did you mean %s?", key, best);
    return ls_fail(LS_USAGE, "unknown setting %s; settings are model, data and the options of `lockstep train --help`",
                   key);
}

static enum ls_status check_key(const char *key, const char **name)
{
    const struct ls_option *option = ls__option_find(key);
    if (is_argument(key)) {
        *name = ls__settings[strcmp(key, "model") == 0 ? LS_SET_MODEL : LS_SET_DATA].name;
        return LS_OK;
    }
    if (!option || !ls__option_is_of(option, LS_CMD_TRAIN)) return unknown_key(key);
    *name = option->setting->name;
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (strcmp(*name, taken[i][0]) == 0) return ls_fail(LS_USAGE, "%s cannot be set: %s", key, taken[i][1]);
    if (strcmp(*name, key) != 0) return ls_fail(LS_USAGE, "%s: write it as %s", key, *name); /* one name for reports */
    return LS_OK;
}

/* --- data --- */

static bool is_format(const char *data, const char *name)
{
    size_t len = strlen(name);
    return strncmp(data, name, len) == 0 && data[len] == ':';
}

/* Shape and classes of what needs no files; LS_USAGE for a name that is none. */
static enum ls_status describe(const char *data, int64_t dims[3], int *n_classes)
{
    bool with_extra;
    const struct ls_set *set = ls__catalog_from_spec(data, &with_extra);
    struct ls_dataset *ds;
    *n_classes = 0;
    if (is_format(data, "folder")) return LS_OK;
    if (set) {
        dims[0] = set->c;
        dims[1] = set->h;
        dims[2] = set->w;
        *n_classes = set->n_classes;
        return LS_OK;
    }
    TRY(ls_data_open(&ds, data, LS_TRAIN, NULL)); /* drawn when read: quick */
    dims[0] = ds->c;
    dims[1] = ds->h;
    dims[2] = ds->w;
    *n_classes = ds->n_classes;
    ls_dataset_close(&ds);
    return LS_OK;
}

int64_t ls__lab_published_images(const char *data, bool is_test)
{
    bool with_extra;
    const struct ls_set *set = ls__catalog_from_spec(data, &with_extra);
    return set ? ls__set_images(set, is_test ? LS_TEST : LS_TRAIN, with_extra) : 0;
}

bool ls__lab_shape(const char *data, int64_t dims[3], int *n_classes)
{
    return describe(data, dims, n_classes) == LS_OK && *n_classes > 0;
}

const char *ls__lab_stand_in(const char *data)
{
    bool with_extra;
    const struct ls_set *set = ls__catalog_from_spec(data, &with_extra);
    if (!set) return NULL;
    return set->c == 1 ? "digits" : "digits-rgb";
}

/* --- runs --- */

static int line_of(const struct ls_lab_run *run, const char *key)
{
    for (int i = 0; i < run->n_settings; i++)
        if (strcmp(run->settings[i].key, key) == 0) return run->settings[i].line;
    return run->line;
}

static const char *example(const char *key)
{
    if (is_argument(key)) return strcmp(key, "model") == 0 ? "lenet5" : "mnist";
    const struct ls_setting *setting = ls__option_find(key)->setting;
    return setting->type == LS_SETTING_FLAG ? "on" : setting->def;
}

/* What `train` says of it, as a lab file says it. */
static enum ls_status in_lab_words(enum ls_status status)
{
    char said[1024], told[1024];
    snprintf(said, sizeof said, "%s", ls_error_message()); /* trying values makes messages of its own */
    ls__lab_retell(said, told, sizeof told);
    return ls_fail(status, "%s", told);
}

/* "0,0.9" where one value belongs: the values apart by blanks. */
static enum ls_status fail_of_list(const struct ls_lab_setting *s)
{
    char apart[256];
    snprintf(apart, sizeof apart, "%s", s->value);
    for (char *comma = apart; (comma = strchr(comma, ','));) *comma = ' ';
    if (s->is_varied)
        return ls_fail(LS_USAGE, "vary %s %s: values are separated by blanks: write vary %s %s", s->key, s->value,
                       s->key, apart);
    return ls_fail(LS_USAGE,
                   "%s=%s: a run has one value; for several write a line of its own below the run, values separated "
                   "by blanks: vary %s %s",
                   s->key, s->value, s->key, apart);
}

/* Each value for itself. */
static enum ls_status check_values(const struct ls_lab_run *run, int *line)
{
    struct ls_options scratch;
    ls__options_default(&scratch);
    for (int i = 0; i < run->n_settings; i++) {
        const struct ls_lab_setting *s = &run->settings[i];
        if (is_argument(s->key)) continue;
        const struct ls_setting *setting = ls__option_find(s->key)->setting;
        const bool is_flag = setting->type == LS_SETTING_FLAG,
                   is_good = is_flag ? strcmp(s->value, "on") == 0 || strcmp(s->value, "off") == 0
                                     : ls__setting_store(setting, &scratch, s->value) == LS_OK;
        if (is_good) continue;
        *line = s->line;
        if (strchr(s->value, ',')) return fail_of_list(s);
        if (is_flag) return ls_fail(LS_USAGE, "%s=%s: expected on or off: write %s=on", s->key, s->value, s->key);
        return in_lab_words(LS_USAGE);
    }
    return LS_OK;
}

static bool is_given(const struct ls_lab_rules *rules)
{
    return rules->device && *rules->device;
}

/* A number format that the device does not have, where the file does not say which: what to write. */
static enum ls_status check_precision(const struct ls_lab_rules *rules, const struct ls_lab_run *run, int *line)
{
    const char *precision = ls__lab_setting(run, "precision"), *usual = ls_backends[0]->name;
    if (!precision || strcmp(precision, "f32") == 0 || ls__lab_setting(run, "device") || is_given(rules)) return LS_OK;
    *line = line_of(run, "precision");
    return ls_fail(
        LS_USAGE,
        "precision=%s, but no device is named, and %s, the usual one, computes in f32 only: write device=cuda "
        "beside it, or give lab run --device cuda, on a machine with a card",
        precision, usual);
}

/* Together, as train would read them. A way to synchronise that is known but not built is the run's own failure. */
static enum ls_status check_together(const struct ls_lab_rules *rules, const struct ls_lab_run *run)
{
    struct ls_lab_setting settings[128];
    struct ls_lab_job job = {.settings = settings};
    struct ls_arena memory = {0};
    struct ls_options o;
    const char **words = NULL;
    int n = 0;
    bool has_device = false;
    for (int i = 0; i < run->n_settings && i < 127; i++) {
        const bool is_sync = strcmp(run->settings[i].key, "sync") == 0;
        if (is_sync && ls__sync_check(run->settings[i].value, 0) != LS_OK) continue;
        settings[job.n_settings] = run->settings[i];
        if (strcmp(run->settings[i].key, "device") == 0) {
            has_device = true;
            if (is_given(rules) && !run->settings[i].is_own) settings[job.n_settings].value = rules->device;
        }
        job.n_settings++;
    }
    if (is_given(rules) && !has_device)
        settings[job.n_settings++] = (struct ls_lab_setting){.key = "device", .value = rules->device};
    enum ls_status status = ls__lab_words(&memory, &job, "lockstep", NULL, &words);
    while (status == LS_OK && words[n]) n++;
    if (status == LS_OK) {
        status = ls__options_parse(&o, LS_CMD_TRAIN, n - 2, (char *const *)words + 2);
        if (status == LS_OK) status = ls__options_resolve(&o, LS_CMD_TRAIN);
        ls__options_release(&o);
    }
    ls__arena_release(&memory);
    return status;
}

static enum ls_status check_network(const struct ls_lab_run *run, int *line)
{
    const char *name = ls__lab_setting(run, "model"), *data = ls__lab_setting(run, "data");
    const bool is_resized = ls__lab_setting(run, "resize");
    struct ls_model *model;
    struct ls_model_summary summary;
    int64_t dims[3] = {0};
    int n_classes = 0;
    *line = line_of(run, "model");
    TRY(ls_model_load(&model, name));
    *line = line_of(run, "data");
    enum ls_status status = describe(data, dims, &n_classes);
    if (status == LS_OK) *line = run->line;
    if (status == LS_OK && n_classes > 0 && !is_resized)
        status = ls_model_summarize(model, (int)dims[0], (int)dims[1], (int)dims[2], n_classes, &summary);
    ls_model_destroy(&model);
    return status;
}

static enum ls_status check_run(const struct ls_lab_rules *rules, const struct ls_lab_run *run, int *line)
{
    if (!ls__lab_setting(run, "model"))
        return ls_fail(LS_USAGE, "which network? Write model=NAME on its line or in base");
    if (!ls__lab_setting(run, "data")) return ls_fail(LS_USAGE, "which data? Write data=NAME on its line or in base");
    TRY(check_values(run, line));
    TRY(check_precision(rules, run, line));
    enum ls_status status = check_together(rules, run);
    if (status != LS_OK) {
        *line = ls__lab_line_told(run, ls_error_message());
        return in_lab_words(status);
    }
    return check_network(run, line);
}

struct ls_lab_rules ls__lab_rules(const char *device)
{
    return (struct ls_lab_rules){
        .key = check_key, .example = example, .values = ls__lab_values, .run = check_run, .device = device};
}

/* --- whether what computes is there --- */

/* Each device once. Machines of --hosts have their own. */
enum ls_status ls__lab_check_devices(const struct ls_lab *lab, const struct ls_lab_state *state)
{
    const char *good = ls_backends[0]->name;
    for (int i = 0; i < state->n_jobs; i++) {
        const struct ls_lab_job *job = &state->jobs[i];
        const char *device = ls__lab_job_setting(job, "device");
        const struct ls_backend *backend;
        char text[512];
        if (!device || strcmp(device, "auto") == 0 || strcmp(device, good) == 0) continue;
        if (ls__lab_job_setting(job, "hosts")) continue;
        enum ls_status status = ls_backend_get(device, &backend);
        if (status != LS_OK) return ls_fail_in(status, "run %s", lab->runs[job->run].name);
        if (!ls__backend_text(backend, text, sizeof text))
            return ls_fail(LS_UNSUPPORTED, "run %s has device=%s, which cannot compute here: %s",
                           lab->runs[job->run].name, device, text);
        good = device;
    }
    return LS_OK;
}

/* --- whether the data is there --- */

static enum ls_status check_files(const char *data, const char *data_dir)
{
    bool with_extra;
    const struct ls_set *set = ls__catalog_from_spec(data, &with_extra);
    struct ls_found *found;
    if (!set) return LS_OK;
    found = calloc(1, sizeof *found);
    if (!found) return ls_fail(LS_NOMEM, "out of memory while looking for %s", data);
    enum ls_status status = ls__catalog_locate(found, set, LS_TRAIN, with_extra, data_dir);
    if (status == LS_OK) status = ls__catalog_locate(found, set, LS_TEST, with_extra, data_dir);
    free(found);
    return status;
}

enum ls_status ls__lab_check_data(const struct ls_lab_state *state)
{
    for (int i = 0; i < state->n_jobs; i++) {
        const char *data = ls__lab_job_setting(&state->jobs[i], "data"),
                   *dir = ls__lab_job_setting(&state->jobs[i], "data-dir");
        enum ls_status status = data ? check_files(data, dir) : LS_OK;
        if (status == LS_OK) continue;
        char why[900];
        snprintf(why, sizeof why, "%s", ls_error_message());
        return ls_fail(status, "%s; or try the lab with --stand-in, on drawn digits", why);
    }
    return LS_OK;
}
