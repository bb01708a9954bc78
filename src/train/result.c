/* result.c: see result.h. */
#include "train/result.h"

#include <jansson.h>
#include <math.h>

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* Names and paths may be any bytes; JSON takes UTF-8 only. */
static json_t *text(const char *value)
{
    json_t *string = json_string(value);
    return string ? string : json_string("(not UTF-8)");
}

static json_t *seconds_json(const struct ls_seconds *s)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "load", number(s->load), "compute",
                     number(s->compute), "communicate", number(s->communicate), "wait", number(s->wait), "checkpoint",
                     number(s->checkpoint), "evaluate", number(s->evaluate), "update", number(s->update), "setup",
                     number(s->setup), "other", number(s->other));
}

static json_t *step_json(const struct ls_result *r)
{
    if (!isfinite(r->step.predicted)) return json_null();
    return json_pack("{s:o, s:o, s:o}", "predicted", number(r->step.predicted), "predicted_alone",
                     number(r->step.predicted_alone), "measured", number(r->step.measured));
}

struct json_t *ls__result_json(const struct ls_result *r)
{
    struct {
        const char *key;
        json_t *value;
    } members[] = {
        {"model", text(r->model)},
        {"data", text(r->data)},
        {"device", text(r->device)},
        {"precision", text(r->precision)},
        {"batch_size", json_integer(r->batch_size)},
        {"shards", json_integer(r->shards)},
        {"workers", json_integer(r->workers)},
        {"threads", json_integer(r->threads)},
        {"sync", text(r->sync)},
        {"epochs", json_integer(r->epochs)},
        {"steps", json_integer(r->steps)},
        {"images", json_integer(r->images)},
        {"train_seconds", number(r->train_seconds)},
        {"total_seconds", number(r->total_seconds)},
        {"images_per_second", number(r->images_per_second)},
        {"train_loss", number(r->train_loss)},
        {"train_accuracy", number(r->train_accuracy)},
        {"test_loss", number(r->test_loss)},
        {"test_accuracy", number(r->test_accuracy)},
        {"weights_hash", text(r->weights_hash)},
        {"peak_rss_bytes", json_integer(r->peak_rss_bytes)},
        {"cpu_percent_mean", number(r->cpu_percent_mean)},
        {"seconds", seconds_json(&r->seconds)},
        {"bytes_sent", json_integer(r->bytes_sent)},
        {"first_step_seconds", number(r->first_step_seconds)},
        {"step_seconds", step_json(r)},
        {"run_dir", text(r->run_dir)},
    };
    json_t *object = json_object();
    int failed = 0;
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        failed |= json_object_set_new(object, members[i].key, members[i].value); /* takes the value, even on failure */
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

char *ls__result_text(const struct ls_result *r)
{
    json_t *object = ls__result_json(r);
    char *out = object ? json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(object);
    return out;
}
