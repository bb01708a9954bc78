/* cmd_inspect.c: `lockstep inspect RUN|CHECKPOINT`: what is recorded there, and whether it verifies.
 *
 * A run shows its manifest and result as "key value" lines (nested keys joined by '.') and one line per checkpoint; a
 * checkpoint shows metadata and tensors. Opening a checkpoint verifies it completely; a bad one is named and the exit
 * code is that of LS_CHECKPOINT, after everything else was shown.
 */
#include "base/file.h"
#include "base/quote.h"
#include "checkpoint/checkpoint.h"
#include "cli/cmd.h"
#include "run/run.h"

#include <dirent.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void print_pair(const char *key, int width, const char *value)
{
    printf("  ");
    ls__print_plain(key, width);
    putchar(' ');
    ls__print_plain(value, 0);
    putchar('\n');
}

/* --- a checkpoint --- */

static int64_t tensor_bytes(const struct ls_ckpt_tensor *t)
{
    return ls_shape_count(&t->shape) * (int64_t)ls_dtype_bytes(t->dtype);
}

static int64_t ckpt_bytes(const struct ls_ckpt *ckpt)
{
    int64_t bytes = 0;
    for (int i = 0; i < ls_ckpt_n_tensors(ckpt); i++) bytes += tensor_bytes(ls_ckpt_tensor_at(ckpt, i));
    return bytes;
}

/* A number as people write it, with the digits it takes to come back to the same value. */
static void add_number(struct ls_buf *out, double value)
{
    char text[40];
    int digits = (double)(float)value == value ? 6 : 9, most = digits == 6 ? 9 : 17;
    do snprintf(text, sizeof text, "%.*g", digits, value);
    while (digits++ < most && (most == 9 ? strtof(text, NULL) != (float)value : strtod(text, NULL) != value));
    ls__buf_adds(out, text);
}

/* What a checkpoint keeps to the last bit, as "0x1.26p-3" or "lr=0.050000000000000003", is shown as people write it. */
static void print_metadata(const char *key, const char *value)
{
    struct ls_buf shown = LS_BUF_INIT;
    for (const char *at = value; *at;) {
        size_t n = strcspn(at, " =");
        char *end;
        double number = strtod(at, &end);
        bool is_real = n > 0 && end == at + n && (memchr(at, '.', n) || memchr(at, 'x', n));
        if (is_real)
            add_number(&shown, number);
        else
            ls__buf_add(&shown, at, n);
        at += n;
        if (*at) ls__buf_add(&shown, at++, 1);
    }
    print_pair(key, 24, ls__buf_check(&shown) == LS_OK && shown.text ? shown.text : value);
    ls__buf_release(&shown);
}

/* One name per line there, one line here; of many the first. */
static void print_classes(const char *names)
{
    enum { MAX_BYTES = 200 };
    struct ls_buf shown = LS_BUF_INIT;
    for (const char *at = names; *at && shown.len < MAX_BYTES; at += strcspn(at, "\n"), at += *at == '\n') {
        ls__buf_adds(&shown, at == names ? "" : ", ");
        ls__buf_add(&shown, at, strcspn(at, "\n"));
    }
    if (shown.len >= MAX_BYTES) ls__buf_adds(&shown, ", ...");
    print_pair("classes", 24, shown.text);
    ls__buf_release(&shown);
}

static void print_members(const char *prefix, json_t *object, int width);

static void print_ckpt(const struct ls_ckpt *ckpt, const char *path)
{
    char bytes[LS_TEXT_BYTES], shape[LS_SHAPE_TEXT];
    int n = ls_ckpt_n_tensors(ckpt);
    printf("%s: %s\n", path,
           ls_ckpt_has_checksum(ckpt) ? "verified by its checksum" : "well formed; has no checksum of ours");
    printf("\nmetadata\n");
    for (int i = 0; i < ls_ckpt_n_meta(ckpt); i++) {
        struct ls_ckpt_meta m = ls_ckpt_meta_at(ckpt, i);
        json_t *object = *m.value == '{' ? json_loads(m.value, 0, NULL) : NULL;
        if (object)
            print_members(m.key, object, 24);
        else if (strcmp(m.key, "classes") == 0)
            print_classes(m.value);
        else if (!strchr(m.value, '\n')) /* not the model's text */
            print_metadata(m.key, m.value);
        json_decref(object);
    }
    printf("\n%d tensors, %s\n", n, ls__bytes_text((double)ckpt_bytes(ckpt), bytes));
    for (int i = 0; i < n; i++) {
        const struct ls_ckpt_tensor *t = ls_ckpt_tensor_at(ckpt, i);
        printf("  ");
        ls__print_plain(t->name, 48);
        printf(" %-4s %-20s %s\n", ls_dtype_name(t->dtype), ls_shape_text(&t->shape, shape),
               ls__bytes_text((double)tensor_bytes(t), bytes));
    }
}

static json_t *tensor_json(const struct ls_ckpt_tensor *t)
{
    json_t *shape = json_array();
    for (int i = 0; i < t->shape.n_dims; i++) json_array_append_new(shape, json_integer(t->shape.dims[i]));
    return json_pack("{s:o, s:s, s:o}", "name", ls__json_text(t->name), "dtype", ls_dtype_name(t->dtype), "shape",
                     shape);
}

static json_t *ckpt_json(const struct ls_ckpt *ckpt, const char *path)
{
    json_t *meta = json_object(), *tensors = json_array();
    for (int i = 0; i < ls_ckpt_n_meta(ckpt); i++) {
        struct ls_ckpt_meta m = ls_ckpt_meta_at(ckpt, i);
        json_object_set_new(meta, m.key, ls__json_text(m.value));
    }
    for (int i = 0; i < ls_ckpt_n_tensors(ckpt); i++)
        json_array_append_new(tensors, tensor_json(ls_ckpt_tensor_at(ckpt, i)));
    return json_pack("{s:o, s:b, s:o, s:o}", "checkpoint", ls__json_text(path), "has_checksum",
                     ls_ckpt_has_checksum(ckpt), "metadata", meta, "tensors", tensors);
}

static enum ls_status inspect_file(const char *path, bool is_json)
{
    struct ls_ckpt *ckpt;
    enum ls_status status = LS_OK;
    TRY(ls_ckpt_open(&ckpt, path));
    if (is_json)
        status = ls__print_json(ckpt_json(ckpt, path));
    else
        print_ckpt(ckpt, path);
    ls_ckpt_close(&ckpt);
    return status;
}

/* --- a run --- */

static int is_ckpt_name(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);
    return n > 12 && strcmp(entry->d_name + n - 12, ".safetensors") == 0;
}

/* One line, and if it is wanted an element of `list`. */
static enum ls_status inspect_entry(const char *folder, const char *name, json_t *list)
{
    char path[LS_PATH_BYTES], bytes[LS_TEXT_BYTES];
    struct stat st;
    struct ls_ckpt *ckpt = NULL;
    TRY(ls__path_join(path, sizeof path, folder, name));
    enum ls_status status = ls_ckpt_open(&ckpt, path);
    const char *error = status == LS_OK ? NULL : ls_error_message();
    const char *link = lstat(path, &st) == 0 && S_ISLNK(st.st_mode) ? " (link)" : "";
    if (list) {
        json_t *entry =
            json_pack("{s:o, s:b, s:o}", "name", ls__json_text(name), "ok", !error, "error", ls__json_text(error));
        json_array_append_new(list, entry);
    } else if (error) {
        char text[1100];
        snprintf(text, sizeof text, "BAD: %s", error);
        print_pair(name, 32, text);
    } else {
        const char *step = ls_ckpt_meta(ckpt, "step");
        char text[256];
        snprintf(text, sizeof text, "ok, step %.40s, %d tensors, %s%s", step ? step : "?", ls_ckpt_n_tensors(ckpt),
                 ls__bytes_text((double)ckpt_bytes(ckpt), bytes), link);
        print_pair(name, 32, text);
    }
    ls_ckpt_close(&ckpt);
    return status;
}

static enum ls_status inspect_checkpoints(const char *run, json_t *list)
{
    char folder[LS_PATH_BYTES];
    struct dirent **entries = NULL;
    enum ls_status first = LS_OK;
    int n_bad = 0;
    TRY(ls__path_join(folder, sizeof folder, run, "checkpoints"));
    int n = scandir(folder, &entries, is_ckpt_name, alphasort);
    if (!list) printf("\ncheckpoints\n%s", n > 0 ? "" : "  none\n");
    for (int i = 0; i < n; i++) {
        enum ls_status status = inspect_entry(folder, entries[i]->d_name, list);
        if (status != LS_OK && first == LS_OK) first = status;
        n_bad += status != LS_OK;
        free(entries[i]);
    }
    free(entries);
    if (first == LS_OK) return LS_OK;
    return ls_fail(first, "%d of %d checkpoints in %s are bad", n_bad, n, folder);
}

static void print_members(const char *prefix, json_t *object, int width)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        char name[160];
        snprintf(name, sizeof name, "%s%s%s", prefix, *prefix ? "." : "", key);
        if (json_is_object(value)) {
            print_members(name, value, width);
            continue;
        }
        char *text =
            json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
        print_pair(name, width, json_is_string(value) ? json_string_value(value) : text ? text : "?");
        free(text);
    }
}

static int64_t count_lines(const char *run)
{
    char path[LS_PATH_BYTES];
    struct ls_map map;
    int64_t n = 0;
    if (ls__path_join(path, sizeof path, run, "metrics.jsonl") != LS_OK || ls__map_open(path, &map) != LS_OK) return 0;
    for (size_t i = 0; i < map.len; i++) n += map.data[i] == '\n';
    ls__map_close(&map);
    return n;
}

static enum ls_status print_run(const char *dir, json_t *manifest, json_t *result)
{
    printf("run %s\n\nmanifest\n", dir);
    print_members("", manifest, 28);
    char run[LS_QUOTED_BYTES];
    printf("\nresult\n");
    if (!result)
        printf("  none: the run is not finished; go on with:\n  lockstep train --resume %s\n",
               ls__quote_path(dir, run, sizeof run));
    if (result) print_members("", result, 28);
    printf("\nmetrics\n  %" PRId64 " lines\n", count_lines(dir));
    return inspect_checkpoints(dir, NULL);
}

static enum ls_status print_run_json(const char *dir, json_t *manifest, json_t *result)
{
    json_t *list = json_array();
    if (!list) return ls_fail(LS_NOMEM, "out of memory while listing checkpoints");
    enum ls_status status = inspect_checkpoints(dir, list);
    enum ls_status printed =
        ls__print_json(json_pack("{s:o, s:O, s:o, s:I, s:o}", "run", ls__json_text(dir), "manifest", manifest, "result",
                                 result ? json_incref(result) : json_null(), "metrics_lines",
                                 (json_int_t)count_lines(dir), "checkpoints", list));
    return status != LS_OK ? status : printed;
}

static enum ls_status inspect_run(const char *dir, bool is_json)
{
    char path[LS_PATH_BYTES];
    json_t *manifest = NULL, *result = NULL;
    TRY(ls__run_load(dir, "manifest.json", &manifest));
    enum ls_status status = ls__path_join(path, sizeof path, dir, "result.json");
    if (status == LS_OK && ls__file_exists(path)) status = ls__run_load(dir, "result.json", &result);
    if (status == LS_OK) status = is_json ? print_run_json(dir, manifest, result) : print_run(dir, manifest, result);
    json_decref(manifest);
    json_decref(result);
    return status;
}

enum ls_status ls__cmd_inspect(const struct ls_options *o)
{
    const char *what = o->args[0];
    if (!ls__dir_exists(what)) return inspect_file(what, o->train.json);
    if (!ls__run_is_run(what))
        return ls_fail(LS_CHECKPOINT, "%s is not a run directory: it has no manifest.json", what);
    return inspect_run(what, o->train.json);
}
