/* state.c: how far a lab is, in memory and as state.json. */
#include "base/json.h"
#include "base/mem.h"
#include "lab/run.h"
#include "run/run.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const ls__job_state_words[] = {
    [LS_JOB_WAITING] = "waiting",
    [LS_JOB_STOPPED] = "stopped",
    [LS_JOB_DONE] = "done",
    [LS_JOB_FAILED] = "failed",
};

void ls__lab_state_destroy(struct ls_lab_state **state)
{
    if (*state) ls__arena_release(&(*state)->memory);
    free(*state);
    *state = NULL;
}

const struct ls_lab_job *ls__lab_find_job(const struct ls_lab_state *state, int run, int repeat)
{
    for (int i = 0; i < state->n_jobs; i++)
        if (state->jobs[i].run == run && state->jobs[i].repeat == repeat) return &state->jobs[i];
    return NULL;
}

bool ls__lab_is_asked(const struct ls_lab_state *state, const struct ls_lab_question *question)
{
    for (int i = 0; i < question->n_runs; i++)
        if (!ls__lab_find_job(state, question->runs[i], 1)) return false;
    return true;
}

/* --- writing --- */

static json_t *settings_json(const struct ls_lab_job *job)
{
    json_t *object = json_object();
    for (int i = 0; object && i < job->n_settings; i++)
        if (json_object_set_new(object, job->settings[i].key, ls__json_text(job->settings[i].value)) != 0) {
            json_decref(object);
            return NULL;
        }
    return object;
}

static json_t *job_json(const struct ls_lab_job *job, const struct ls_lab *lab)
{
    return json_pack("{s:s, s:i, s:s, s:s, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "run",
                     lab->runs[job->run].name, "repeat", job->repeat, "dir", job->dir, "state",
                     ls__job_state_words[job->state], "exit_code", job->exit_code, "tries", job->tries, "message",
                     ls__json_text(job->message), "settings", settings_json(job), "command",
                     ls__json_text(job->command), "predicted_seconds", ls__json_number(job->predicted_seconds),
                     "predicted_bytes", ls__json_number(job->predicted_bytes), "seconds", ls__json_number(job->seconds),
                     "others_cpu_seconds", ls__json_number(job->others_seconds));
}

static json_t *state_json(const struct ls_lab_state *s, const struct ls_lab *lab)
{
    json_t *jobs = json_array();
    for (int i = 0; i < s->n_jobs; i++)
        if (json_array_append_new(jobs, job_json(&s->jobs[i], lab)) != 0) {
            json_decref(jobs);
            return NULL;
        }
    return json_pack("{s:o, s:{s:o, s:o, s:o}, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:b, s:o}", "lab",
                     ls__json_text(lab->name), "machine", "processor", ls__json_text(s->processor), "system",
                     ls__json_text(s->system), "memory_bytes", ls__json_number(s->memory_bytes), "lockstep_version",
                     ls__json_text(s->version), "scale", ls__json_text(s->scale), "only", ls__json_text(s->only),
                     "device", ls__json_text(s->device), "data_dir", ls__json_text(s->data_dir), "workers",
                     ls__json_text(s->workers), "hosts", ls__json_text(s->hosts), "repeat", s->repeat, "stand_in",
                     (int)s->is_stand_in, "jobs", jobs);
}

enum ls_status ls__lab_state_write(const struct ls_lab_state *state, const struct ls_lab *lab, const struct ls_dir *dir)
{
    char *text;
    TRY(ls__json_dump(state_json(state, lab), LS_JSON_FOR_PEOPLE, "state.json", &text));
    const struct ls_piece pieces[] = {{text, strlen(text)}, {"\n", 1}};
    enum ls_status status = ls__dir_write_atomic(dir, "state.json", pieces, 2, LS_CHECKPOINT);
    free(text);
    return status;
}

/* --- reading: anybody's file --- */

static enum ls_status read_text(struct ls_lab_state *s, const json_t *object, const char *key, const char **out)
{
    const char *text = json_string_value(json_object_get(object, key));
    if (!text) text = "";
    return ls__arena_text(&s->memory, out, text, strlen(text));
}

static double read_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static enum ls_status read_settings(struct ls_lab_state *s, json_t *object, struct ls_lab_job *job)
{
    const char *key;
    json_t *value;
    TRY(ls__arena_alloc(&s->memory, &job->settings, json_object_size(object), sizeof *job->settings));
    json_object_foreach(object, key, value)
    {
        struct ls_lab_setting *to = &job->settings[job->n_settings];
        if (!json_is_string(value)) continue;
        TRY(ls__arena_text(&s->memory, &to->key, key, strlen(key)));
        TRY(ls__arena_text(&s->memory, &to->value, json_string_value(value), strlen(json_string_value(value))));
        job->n_settings++;
    }
    return LS_OK;
}

/* false: no job of this lab. */
static bool read_place(const json_t *object, const struct ls_lab *lab, struct ls_lab_job *job)
{
    const char *run = json_string_value(json_object_get(object, "run")),
               *word = json_string_value(json_object_get(object, "state")),
               *dir = json_string_value(json_object_get(object, "dir"));
    const json_int_t repeat = json_integer_value(json_object_get(object, "repeat"));
    job->run = run ? ls__lab_find_run(lab, run) : -1;
    job->repeat = repeat >= 1 && repeat <= LS_LAB_MAX_REPEATS ? (int)repeat : 0;
    job->exit_code = (int)json_integer_value(json_object_get(object, "exit_code"));
    job->tries = (int)json_integer_value(json_object_get(object, "tries"));
    int state = 0;
    while (state <= LS_JOB_FAILED && (!word || strcmp(word, ls__job_state_words[state]) != 0)) state++;
    job->state = (enum ls_job_state)state;
    bool is_below = dir && strncmp(dir, "runs/", 5) == 0 && !strchr(dir + 5, '/') && dir[5] != '.';
    return job->run >= 0 && job->repeat > 0 && state <= LS_JOB_FAILED && is_below;
}

static enum ls_status read_state(struct ls_lab_state *s, const struct ls_lab *lab, const char *dir, json_t *object)
{
    json_t *jobs = json_object_get(object, "jobs"), *one;
    size_t i;
    TRY(read_text(s, object, "lab", &s->lab));
    TRY(read_text(s, object, "lockstep_version", &s->version));
    TRY(read_text(s, json_object_get(object, "machine"), "processor", &s->processor));
    TRY(read_text(s, json_object_get(object, "machine"), "system", &s->system));
    s->memory_bytes = read_number(json_object_get(object, "machine"), "memory_bytes");
    TRY(read_text(s, object, "scale", &s->scale));
    TRY(read_text(s, object, "only", &s->only));
    TRY(read_text(s, object, "device", &s->device));
    TRY(read_text(s, object, "workers", &s->workers));
    TRY(read_text(s, object, "hosts", &s->hosts));
    TRY(read_text(s, object, "data_dir", &s->data_dir));
    const json_int_t repeat = json_integer_value(json_object_get(object, "repeat"));
    s->repeat = repeat > 0 && repeat <= LS_LAB_MAX_REPEATS ? (int)repeat : 0;
    s->is_stand_in = json_is_true(json_object_get(object, "stand_in"));
    TRY(ls__arena_alloc(&s->memory, &s->jobs, json_array_size(jobs), sizeof *s->jobs));
    json_array_foreach(jobs, i, one)
    {
        struct ls_lab_job *job = &s->jobs[s->n_jobs];
        if (!read_place(one, lab, job))
            return ls_fail(LS_CHECKPOINT, "%s/state.json: job %zu is none of the lab in lab.txt", dir, i + 1);
        TRY(read_text(s, one, "dir", &job->dir));
        TRY(read_text(s, one, "message", &job->message));
        TRY(read_text(s, one, "command", &job->command));
        TRY(read_settings(s, json_object_get(one, "settings"), job));
        job->predicted_seconds = read_number(one, "predicted_seconds");
        job->predicted_bytes = read_number(one, "predicted_bytes");
        job->seconds = read_number(one, "seconds");
        job->others_seconds = read_number(one, "others_cpu_seconds");
        s->n_jobs++;
    }
    return LS_OK;
}

enum ls_status ls__lab_state_read(struct ls_lab_state **out, const struct ls_lab *lab, const char *dir)
{
    json_t *object = NULL;
    TRY(ls__run_load(dir, "state.json", &object));
    enum ls_status status = ls__calloc(out, 1, sizeof **out);
    if (status == LS_OK) status = read_state(*out, lab, dir, object);
    if (status != LS_OK) ls__lab_state_destroy(out);
    json_decref(object);
    return status;
}
