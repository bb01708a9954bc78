/* result.c: writes struct ls_result as JSON, key by key (result.h). */
#include "train/result.h"

#include "base/json.h"

#include <jansson.h>
#include <math.h>

static json_t *seconds_json(const struct ls_seconds *s)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "load", ls__json_number(s->load), "compute",
                     ls__json_number(s->compute), "communicate", ls__json_number(s->communicate), "wait",
                     ls__json_number(s->wait), "checkpoint", ls__json_number(s->checkpoint), "evaluate",
                     ls__json_number(s->evaluate), "update", ls__json_number(s->update), "setup",
                     ls__json_number(s->setup), "other", ls__json_number(s->other), "hidden",
                     ls__json_number(s->hidden));
}

static json_t *step_json(const struct ls_result *r)
{
    if (!isfinite(r->step.predicted)) return json_null();
    return json_pack("{s:o, s:o, s:o}", "predicted", ls__json_number(r->step.predicted), "predicted_alone",
                     ls__json_number(r->step.predicted_alone), "measured", ls__json_number(r->step.measured));
}

/* Flat, as a row of a table. */
static json_t *rank_json(const struct ls_result *of, int rank)
{
    const struct ls_rank *r = &of->ranks[rank];
    const struct ls_seconds *s = &r->seconds;
    json_t *row = json_pack("{s:I, s:i, s:o, s:o, s:o, s:o, s:I, s:o}", "epoch", (json_int_t)r->epoch, "rank", rank,
                            "host", ls__json_text(r->host), "loss", ls__json_number(of->train_loss), "accuracy",
                            ls__json_number(of->train_accuracy), "lr", ls__json_number(r->lr), "images",
                            (json_int_t)r->images, "total_seconds", ls__json_number(r->total_seconds));
    json_t *parts = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "setup", ls__json_number(s->setup),
                              "load", ls__json_number(s->load), "compute", ls__json_number(s->compute), "update",
                              ls__json_number(s->update), "communicate", ls__json_number(s->communicate), "hidden",
                              ls__json_number(s->hidden), "wait", ls__json_number(s->wait), "checkpoint",
                              ls__json_number(s->checkpoint), "evaluate", ls__json_number(s->evaluate), "other",
                              ls__json_number(s->other));
    json_t *bytes = json_pack("{s:I, s:I}", "bytes_sent", (json_int_t)r->bytes_sent, "bytes_received",
                              (json_int_t)r->bytes_received);
    bool is_whole = row && parts && bytes && json_object_update(row, parts) == 0 && json_object_update(row, bytes) == 0;
    json_decref(parts);
    json_decref(bytes);
    if (is_whole) return row;
    json_decref(row);
    return NULL;
}

static json_t *ranks_json(const struct ls_result *r)
{
    json_t *list = json_array();
    for (int i = 0; i < r->n_ranks_told; i++) json_array_append_new(list, rank_json(r, i));
    return list;
}

static json_t *elastic_worker_json(const struct ls_elastic_worker *w)
{
    return json_pack(
        "{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:I, s:I, s:b}",
        "host", ls__json_text(w->host), "threads", (json_int_t)w->threads, "shards", (json_int_t)w->shards, "batches",
        (json_int_t)w->batches, "images", (json_int_t)w->images, "pushes", (json_int_t)w->pushes, "rejected",
        (json_int_t)w->rejected, "acknowledged", (json_int_t)w->acknowledged, "total_seconds",
        ls__json_number(w->total_seconds), "wait_seconds", ls__json_number(w->wait_seconds), "compute_seconds",
        ls__json_number(w->compute_seconds), "evaluate_seconds", ls__json_number(w->evaluate_seconds),
        "checkpoint_seconds", ls__json_number(w->checkpoint_seconds), "other_seconds",
        ls__json_number(w->other_seconds), "staleness_mean", ls__json_number(w->staleness_mean), "staleness_max",
        (json_int_t)w->staleness_max, "joined_step", (json_int_t)w->joined_step, "left_step",
        w->left_step < 0 ? json_null() : json_integer(w->left_step), "bytes_sent", (json_int_t)w->bytes_sent,
        "bytes_received", (json_int_t)w->bytes_received, "shares_memory", (int)w->shares_memory);
}

static json_t *elastic_server_json(const struct ls_elastic_server *s)
{
    return json_pack("{s:o, s:I, s:I, s:I}", "host", ls__json_text(s->host), "parameters", (json_int_t)s->parameters,
                     "bytes_sent", (json_int_t)s->bytes_sent, "bytes_received", (json_int_t)s->bytes_received);
}

/* A training by parameter server; null in any other. */
static json_t *elastic_json(const struct ls_elastic_result *e)
{
    json_t *workers = json_array(), *histogram = json_array(), *each = json_array();
    if (e->servers > 0) {
        for (int i = 0; i < e->servers && i < LS_ELASTIC_SERVERS; i++)
            json_array_append_new(each, elastic_server_json(&e->each[i]));
        for (int i = 0; i < e->n_told; i++) json_array_append_new(workers, elastic_worker_json(&e->workers[i]));
        for (int i = 0; i < LS_STALENESS_BINS; i++) json_array_append_new(histogram, json_integer(e->staleness[i]));
        return json_pack("{s:i, s:o, s:i, s:o, s:{s:I, s:o, s:I, s:o}}", "servers", e->servers, "each_server", each,
                         "n_workers", e->n_workers, "workers", workers, "staleness", "updates", (json_int_t)e->updates,
                         "mean", ls__json_number(e->staleness_mean), "max", (json_int_t)e->staleness_max, "histogram",
                         histogram);
    }
    json_decref(each);
    json_decref(workers);
    json_decref(histogram);
    return json_null();
}

struct json_t *ls__result_json(const struct ls_result *r)
{
    struct {
        const char *key;
        json_t *value;
    } members[] = {
        {"model", ls__json_text(r->model)},
        {"data", ls__json_text(r->data)},
        {"device", ls__json_text(r->device)},
        {"precision", ls__json_text(r->precision)},
        {"batch_size", json_integer(r->batch_size)},
        {"shards", json_integer(r->shards)},
        {"workers", json_integer(r->workers)},
        {"threads", json_integer(r->threads)},
        {"sync", ls__json_text(r->sync)},
        {"epochs", json_integer(r->epochs)},
        {"steps", json_integer(r->steps)},
        {"images", json_integer(r->images)},
        {"train_seconds", ls__json_number(r->train_seconds)},
        {"total_seconds", ls__json_number(r->total_seconds)},
        {"images_per_second", ls__json_number(r->images_per_second)},
        {"train_loss", ls__json_number(r->train_loss)},
        {"train_accuracy", ls__json_number(r->train_accuracy)},
        {"test_loss", ls__json_number(r->test_loss)},
        {"test_accuracy", ls__json_number(r->test_accuracy)},
        {"validation_images", json_integer(r->validation_images)},
        {"validation_loss", ls__json_number(r->validation_loss)},
        {"validation_accuracy", ls__json_number(r->validation_accuracy)},
        {"best_epoch", r->best_epoch ? json_integer(r->best_epoch) : json_null()},
        {"best_step", r->best_epoch ? json_integer(r->best_step) : json_null()},
        {"best_validation_loss", ls__json_number(r->best_validation_loss)},
        {"best_validation_accuracy", ls__json_number(r->best_validation_accuracy)},
        {"best_test_loss", ls__json_number(r->best_test_loss)},
        {"best_test_accuracy", ls__json_number(r->best_test_accuracy)},
        {"target_epoch", r->target_epoch ? json_integer(r->target_epoch) : json_null()},
        {"target_train_seconds", ls__json_number(r->target_train_seconds)},
        {"target_total_seconds", ls__json_number(r->target_total_seconds)},
        {"stopped_by", *r->stopped_by ? ls__json_text(r->stopped_by) : json_null()},
        {"weights_hash", ls__json_text(r->weights_hash)},
        {"peak_rss_bytes", json_integer(r->peak_rss_bytes)},
        {"cpu_percent_mean", ls__json_number(r->cpu_percent_mean)},
        {"seconds", seconds_json(&r->seconds)},
        {"bytes_sent", json_integer(r->bytes_sent)},
        {"ranks", ranks_json(r)},
        {"elastic", elastic_json(&r->elastic)},
        {"first_step_seconds", ls__json_number(r->first_step_seconds)},
        {"step_seconds", step_json(r)},
        {"run_dir", ls__json_text(r->run_dir)},
    };
    json_t *object = json_object();
    int failed = 0;
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        failed |= json_object_set_new(object, members[i].key, members[i].value); /* takes the value, even on failure */
    if (!failed) return object;
    json_decref(object);
    return NULL;
}
