/* recording.c: see recording.h. */
#include "elastic/recording.h"

#include "base/dir.h"

#include <jansson.h>

struct ls_record *ls__recording_open(const struct ls_task *task, uint32_t worker, const char *host)
{
    const char *dir = json_string_value(json_object_get(task->options, LS_RECORD_TO));
    const json_t *steps = json_object_get(task->options, LS_RECORD_STEPS),
                 *since = json_object_get(task->options, LS_RECORD_SINCE),
                 *resources = json_object_get(task->options, LS_RECORD_RESOURCES);
    if (!dir || !ls__dir_exists(dir)) return NULL;
    const struct ls_record_options o = {.run_dir = dir,
                                        .rank = (int)worker + 1,
                                        .trace = task->s.trace,
                                        .n_threads = task->s.threads,
                                        .with_resources = json_is_true(resources),
                                        .traced_steps = steps ? (int64_t)json_integer_value(steps) : -1,
                                        .batch_size = task->s.batch_size,
                                        .host = host,
                                        .offset_ns = -(int64_t)json_integer_value(since)};
    return ls__record_open(&o);
}
