/* going_on.c: `lockstep train --resume RUN` goes on with the run's own options.
 *
 * In: what was typed, and what the run's manifest (or, of a checkpoint file, its metadata) records. Out: every option
 * that was not typed has the run's value, and counts as given, so that workers on machines that do not see the run get
 * it too. What was typed stays, and is told where it is another value; whether the run can go on with it is decided
 * where the checkpoint is opened, which knows what the values came to.
 */
#include "base/file.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "cli/options.h"
#include "comm/comm.h"
#include "run/run.h"
#include "session/recorded.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_auto(const struct ls_options *o)
{
    return strcmp(o->train.resume, "auto") == 0;
}

/* --- what is recorded --- */

/* The manifest is for people: numbers that were typed with more digits than it has are cut there. */
static bool is_rounded(const json_t *options)
{
    for (int i = 0; i < LS_N_SETTINGS; i++) {
        const json_t *value = json_object_get(options, ls__settings[i].key);
        char text[32];
        if (!json_is_real(value)) continue;
        snprintf(text, sizeof text, "%.14g", json_real_value(value));
        if (strtod(text, NULL) != json_real_value(value)) return true;
    }
    return false;
}

/* The newest checkpoint has all digits. Without one the run has not begun, and rounding does no harm. */
static enum ls_status read_exactly(const char *dir, json_t *options)
{
    char folder[LS_PATH_BYTES], path[LS_PATH_BYTES];
    struct ls_ckpt *ckpt = NULL;
    int n_seen;
    TRY(ls__path_join(folder, sizeof folder, dir, "checkpoints"));
    if (!ls__dir_exists(folder) || ls_ckpt_open_newest(&ckpt, folder, path, &n_seen) != LS_OK) return LS_OK;
    const char *text = ls_ckpt_meta(ckpt, LS_RECORDED_KEY);
    json_t *exact = text ? json_loads(text, 0, NULL) : NULL;
    int failed = json_is_object(exact) ? json_object_update(options, exact) : 0;
    json_decref(exact);
    ls_ckpt_close(&ckpt);
    return failed ? ls_fail(LS_NOMEM, "out of memory while reading the options of %s", dir) : LS_OK;
}

static enum ls_status read_run(const char *dir, json_t **options, json_t **launch)
{
    json_t *manifest = NULL;
    TRY(ls__run_load(dir, "manifest.json", &manifest));
    *options = json_incref(json_object_get(manifest, "options"));
    *launch = json_incref(json_object_get(manifest, "launch"));
    json_decref(manifest);
    if (json_is_object(*options)) return is_rounded(*options) ? read_exactly(dir, *options) : LS_OK;
    return ls_fail(LS_CHECKPOINT, "%s/manifest.json does not tell the options of the run: give them", dir);
}

/* Those that decide the result, and for how many epochs the run was begun. */
static enum ls_status read_file(const char *path, json_t **options)
{
    struct ls_ckpt *ckpt = NULL;
    TRY(ls_ckpt_open(&ckpt, path));
    const char *text = ls_ckpt_meta(ckpt, LS_RECORDED_KEY), *epochs = ls_ckpt_meta(ckpt, "epochs");
    *options = text ? json_loads(text, 0, NULL) : NULL;
    if (json_is_object(*options) && epochs)
        json_object_set_new(*options, "epochs", json_integer(strtoll(epochs, NULL, 10)));
    ls_ckpt_close(&ckpt);
    if (json_is_object(*options)) return LS_OK;
    return ls_fail(LS_CHECKPOINT, "%s does not tell the options it was made with: give model, data and options", path);
}

/* --- taking it over --- */

static const char *print(const struct ls_setting *s, const struct ls_options *o, char *text, size_t size)
{
    if (s->type == LS_SETTING_TEXT || s->type == LS_SETTING_CHOICE) {
        const char *value = *(const char *const *)((const char *)o + s->offset);
        return value ? value : "none";
    }
    ls__setting_print(s, o, text, size);
    return text;
}

/* Whether two sets of options have the same value; what is not given is not the same as anything that is. */
static bool is_same(const struct ls_setting *s, const struct ls_options *a, const struct ls_options *b)
{
    char mine[64], theirs[64];
    if (ls__setting_is_there(s, a) != ls__setting_is_there(s, b)) return false;
    return !ls__setting_is_there(s, a) ||
           strcmp(print(s, a, mine, sizeof mine), print(s, b, theirs, sizeof theirs)) == 0;
}

static void copy(const struct ls_setting *s, struct ls_options *to, const struct ls_options *from)
{
    static const size_t bytes[] = {[LS_SETTING_FLAG] = sizeof(bool),
                                   [LS_SETTING_INT] = sizeof(int64_t),
                                   [LS_SETTING_REAL] = sizeof(double),
                                   [LS_SETTING_TEXT] = sizeof(char *),
                                   [LS_SETTING_CHOICE] = sizeof(char *)};
    memcpy((char *)to + s->offset, (const char *)from + s->offset, bytes[s->type]);
}

static enum ls_status take_option(struct ls_options *o, const struct ls_options *run, const struct ls_options *fresh,
                                  const struct ls_option *option)
{
    const struct ls_setting *s = option->setting;
    char mine[64], theirs[64];
    if (!ls__option_is_given(o, s->name)) {
        if (is_same(s, run, fresh)) return LS_OK;
        bool is_text = s->type == LS_SETTING_TEXT;
        if (is_text && strcmp(print(s, run, theirs, sizeof theirs), "(not UTF-8)") == 0)
            return ls_fail(LS_USAGE, "--%s of the run is not UTF-8 and so not recorded: give it again", s->name);
        copy(s, o, run);
        ls__option_mark_given(o, option);
    } else if (!is_same(s, o, run)) {
        ls__log(LS_LOG_INFO, "--%s %s instead of the run's %s", s->name, print(s, o, mine, sizeof mine),
                print(s, run, theirs, sizeof theirs));
    }
    return LS_OK;
}

/* How many processes, and where: another launcher's own affair. */
static bool is_of_launch(const struct ls_setting *s)
{
    static const char *const names[] = {"workers",      "gpus",     "hosts", "procs-per-node",
                                        "max-restarts", "mpi-args", "nodes", "network"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], s->name) == 0) return true;
    return false;
}

/* Workers of a run over machines are counted by --hosts; who names hosts or workers now means those. */
static bool is_launch_taken(const struct ls_options *o)
{
    return !ls_comm_is_launched() && !ls__option_is_given(o, "hosts") && !ls__option_is_given(o, "workers") &&
           !ls__option_is_given(o, "nodes") && !ls__option_is_given(o, "gpus");
}

static enum ls_status take(struct ls_options *o, json_t *options, json_t *launch)
{
    struct ls_options run, fresh;
    bool has_hosts = json_is_string(json_object_get(launch, "hosts")), with_launch = is_launch_taken(o);
    ls__options_default(&run);
    ls__options_default(&fresh);
    for (int i = 0; i < LS_N_SETTINGS; i++) TRY(ls__setting_from_json(&ls__settings[i], &run, options));
    for (const struct ls_option *option = ls__options; option->setting; option++) {
        const struct ls_setting *s = option->setting;
        if (!ls__option_is_of(option, LS_CMD_TRAIN) || s->is_of_sitting) continue;
        if (is_of_launch(s) && !with_launch) continue;
        if (has_hosts && strcmp(s->name, "workers") == 0) continue;
        if (launch && is_of_launch(s)) TRY(ls__setting_from_json(s, &run, launch));
        TRY(take_option(o, &run, &fresh, option));
    }
    if (o->n_args == 0) {
        if (!run.train.model || !run.train.data)
            return ls_fail(LS_CHECKPOINT, "--resume %s does not tell model and data of the run: give them",
                           o->train.resume);
        o->args[0] = run.train.model;
        o->args[1] = run.train.data;
        o->n_args = 2;
    }
    return LS_OK;
}

/* The run whose options are meant, or NULL: the command line has them all. */
static const char *source_of(const struct ls_options *o)
{
    if (!o->train.resume || (ls_comm_is_launched() && o->n_args > 0)) return NULL;
    if (!is_auto(o)) return o->train.resume;
    return o->n_args == 0 ? o->train.run_dir : NULL;
}

enum ls_status ls__options_go_on(struct ls_options *o)
{
    const char *from = source_of(o);
    json_t *launch = NULL;
    if (!from) return LS_OK;
    bool is_file = ls__file_exists(from);
    if (!is_file && !ls__run_is_run(from)) {
        if (o->n_args > 0) return LS_OK; /* told where it is opened */
        return ls_fail(LS_CHECKPOINT, "--resume %s: there is no run%s%s", o->train.resume, is_auto(o) ? " in " : "",
                       is_auto(o) ? from : "");
    }
    enum ls_status status = is_file ? read_file(from, &o->recorded) : read_run(from, &o->recorded, &launch);
    if (status == LS_CHECKPOINT && o->n_args > 0)
        status = LS_OK; /* as above, or an older version's */
    else if (status == LS_OK)
        status = take(o, o->recorded, launch);
    o->recorded_launch = launch;
    if (status == LS_USAGE || status == LS_DATA) return ls_fail_in(status, "the options of %s", from);
    return status;
}
