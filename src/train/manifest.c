/* manifest.c: see manifest.h. docs/formats/run-directory.md lists the keys. */
#include "train/manifest.h"

#include "base/commit.h"
#include "base/json.h"
#include "data/classes.h"
#include "settings/setting.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

/* null where there are none, or more than a manifest should hold. */
static json_t *names_json(const struct ls_dataset *d)
{
    enum { MAX_BYTES = 256 << 10 };
    struct ls_classes classes;
    char number[LS_CLASS_TEXT];
    if (!d->class_names || strlen(d->class_names) > MAX_BYTES ||
        ls__classes_init(&classes, d->class_names, d->n_classes) != LS_OK)
        return json_null();
    json_t *names = json_array();
    for (int i = 0; i < classes.n; i++)
        json_array_append_new(names, ls__json_text(ls__classes_show(&classes, i, number)));
    ls__classes_release(&classes);
    return names;
}

static json_t *data_json(const struct ls_dataset *d)
{
    if (!d) return json_null();
    return json_pack("{s:I,s:I,s:I,s:I,s:I,s:o,s:s}", "images", (json_int_t)d->n, "channels", (json_int_t)d->c,
                     "height", (json_int_t)d->h, "width", (json_int_t)d->w, "classes", (json_int_t)d->n_classes,
                     "class_names", names_json(d), "checksum", d->checksum);
}

static json_t *machine_json(const struct session *s)
{
    char host[256] = "", backend[128] = "";
    struct ls_backend_id id;
    gethostname(host, sizeof host - 1);
    s->backend->describe(s->device, backend, sizeof backend);
    s->backend->identify(s->device, &id);
    const int n_devices = s->backend->device_count ? s->backend->device_count(s->device) : 0;
    return json_pack("{s:s,s:s,s:s,s:s,s:I,s:o}", "host", host, "backend", s->backend->name, "library", backend, "isa",
                     id.isa, "cpus", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "devices",
                     n_devices > 0 ? json_integer(n_devices) : json_null());
}

/* The tuning table and how many ops of the plan follow it; null without one. */
static json_t *tune_json(const struct session *s)
{
    const struct ls_plan *plan = ls_exec_plan(s->exec, s->shard_size, true);
    json_int_t n_used = 0;
    if (!s->tune) return json_null();
    for (int i = 0; i < plan->n_ops; i++) n_used += plan->ops[i].is_tuned;
    return json_pack("{s:o,s:s,s:i,s:I}", "table", ls__json_text(s->tune->origin), "hash", s->tune->hash, "choices",
                     s->tune->n_lines, "used", n_used);
}

/* What the launcher of a job was told, or null. */
static json_t *launch_json(const struct ls_train_options *o)
{
    const char *text = getenv("LOCKSTEP_LAUNCH_OPTIONS");
    const bool is_job = ls_comm_is_launched() || o->elastic;
    json_t *launch = text && is_job ? json_loads(text, 0, NULL) : NULL;
    if (json_is_object(launch)) return launch;
    json_decref(launch);
    return json_null();
}

enum ls_status ls__manifest_write(struct ls_run *run, const struct ls_train_options *o, const struct session *s)
{
    char model_hash[17], plan_hash[33], started[32];
    size_t len;
    const char *text = ls_model_text(s->model, &len);
    time_t now = time(NULL);
    struct tm utc;
    snprintf(model_hash, sizeof model_hash, "%016llx", (unsigned long long)XXH3_64bits(text, len));
    TRY(ls_plan_hash(ls_exec_plan(s->exec, s->shard_size, true), plan_hash));
    strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    json_t *manifest = json_pack(
        "{s:s,s:o,s:s,s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "lockstep_version", LOCKSTEP_VERSION,
        "lockstep_commit", *ls__commit ? json_string(ls__commit) : json_null(), "started", started, "model",
        ls_model_name(s->model), "model_hash", model_hash, "plan_hash", plan_hash, "batch_size",
        (json_int_t)s->batch_size, "shards", (json_int_t)s->shards, "shard_size", (json_int_t)s->shard_size, "threads",
        (json_int_t)s->threads, "options", ls__options_json(o, LS_ROLE_ALL), "launch", launch_json(o), "train_data",
        data_json(s->train), "validation_data", data_json(s->validation), "test_data", data_json(s->test), "tune",
        tune_json(s), "machine", machine_json(s));
    return ls__run_manifest(run, manifest);
}
